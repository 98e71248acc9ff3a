"""The faces of a mesh, triangles or other polygons: sides, neighbours, centres and triangles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from graphrf._base.rows import within


@dataclass(frozen=True)
class Faces:
    """Polygons: the vertices of all of them in turn, and where each begins, shape (F + 1,)."""

    corners: np.ndarray
    starts: np.ndarray

    @classmethod
    def of_rows(cls, rows: np.ndarray | Sequence[Sequence[int] | np.ndarray]) -> Faces:
        """Faces of an array, shape (F, k), or of a list of the vertices of each."""
        if isinstance(rows, np.ndarray) and rows.ndim == 2:
            return cls(rows.ravel(), np.arange(len(rows) + 1) * rows.shape[1])
        sizes = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        parts = [np.asarray(row) for row in rows]
        corners = np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
        return cls(corners, np.r_[0, np.cumsum(sizes)])

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def sizes(self) -> np.ndarray:
        """The number of vertices of each."""
        return np.diff(self.starts)

    def sides(self) -> tuple[np.ndarray, np.ndarray]:
        """Both vertices of every side, (sum of sizes, 2), the smaller first, and its face."""
        following = np.arange(1, len(self.corners) + 1)
        following[self.starts[1:] - 1] = self.starts[:-1]
        ends = np.sort(np.column_stack([self.corners, self.corners[following]]), axis=1)
        return ends, np.repeat(np.arange(len(self)), self.sizes)

    def centres(self, vertices: np.ndarray) -> np.ndarray:
        """The mean of the vertices of each."""
        return (
            np.add.reduceat(vertices[self.corners], self.starts[:-1], axis=0) / self.sizes[:, None]
        )

    def n_repeated(self) -> int:
        """The number of faces that have the vertices of an earlier one, in whatever order."""
        total, sizes = 0, self.sizes
        for size in np.unique(sizes):
            rows = np.sort(
                self.corners[self.starts[:-1][sizes == size, None] + np.arange(size)], axis=1
            )
            rows = rows[np.lexsort(rows.T)]
            total += int((rows[1:] == rows[:-1]).all(axis=1).sum())
        return total

    def n_distinct(self) -> np.ndarray:
        """The number of distinct vertices of each."""
        owner = np.repeat(np.arange(len(self)), self.sizes)
        order = np.lexsort((self.corners, owner))
        corners, owner = self.corners[order], owner[order]
        again = (corners[1:] == corners[:-1]) & (owner[1:] == owner[:-1])
        return self.sizes - np.bincount(owner[1:][again], minlength=len(self))

    def triangles(self) -> np.ndarray:
        """Triangles, shape (T, 3), that make up the polygons, all at the first vertex of each."""
        count = self.sizes - 2
        face = np.repeat(np.arange(len(self)), count)
        first, turn = self.starts[face], within(count)
        return self.corners[np.column_stack([first, first + turn + 1, first + turn + 2])]


def face_pairs(faces: Faces) -> np.ndarray:
    """Distinct pairs of faces that share a side, (E, 2); as in trimesh, not if three do.

    Faces of fewer than three distinct vertices have no sides.
    """
    sides, owner, starts = _owned_sides(faces)
    twice = starts[np.diff(np.r_[starts, len(sides)]) == 2]
    pairs = np.column_stack([owner[twice], owner[twice + 1]])
    return np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)


def n_crowded_sides(faces: Faces) -> tuple[int, int]:
    """The number of sides that belong to three faces or more, and of all sides."""
    sides, _, starts = _owned_sides(faces)
    return int((np.diff(np.r_[starts, len(sides)]) > 2).sum()), len(starts)


def _owned_sides(faces: Faces) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The sides of faces, ascending, the face of each, and where each distinct side begins."""
    sides, owner = faces.sides()
    real = (sides[:, 0] != sides[:, 1]) & (faces.n_distinct() > 2)[owner]
    sides, owner = sides[real], owner[real]
    order = np.lexsort((owner, sides[:, 1], sides[:, 0]))
    sides, owner = sides[order], owner[order]
    starts = (
        np.flatnonzero(np.r_[True, (sides[1:] != sides[:-1]).any(axis=1)]) if len(sides) else order
    )
    return sides, owner, starts


def side_pairs(faces: Faces) -> np.ndarray:
    """Distinct pairs of vertices that a side of a face joins, shape (E, 2)."""
    sides = faces.sides()[0]
    return np.unique(sides[sides[:, 0] != sides[:, 1]], axis=0)


def halves_of_quads(triangles: np.ndarray) -> int:
    """The number of quadrilaterals that trimesh seems to have split, m triangles and m others."""
    first, last = triangles[:, [2, 0]], triangles[:, [0, 2]]
    for place in np.flatnonzero((first[:-1] == last[-1]).all(axis=1))[::-1]:
        count = len(triangles) - 1 - int(place)
        begin = len(triangles) - 2 * count
        if begin >= 0 and (first[begin : begin + count] == last[begin + count :]).all():
            return count
    return 0
