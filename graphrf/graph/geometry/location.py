"""Points in triangles: the nearest point of a mesh, as weights of the corners of its triangle."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from graphrf._base.rows import slices, within

# Cells of a grid for each triangle.
_CELLS = 2.0
# Triangles of one tree differ in size by this factor at most, so that few of them can be the
# nearest to a point.
_SIZES = 2.0
# Neighbouring triangles that are compared first, and how many times more in each later round.
_FIRST, _MORE = 4, 4
# Pairs of points and triangles that are compared at once.
_PAIRS = 2_000_000
# A weight this far below 0 is rounding: the point is on an edge.
ROUNDING = 1e-9


class Located(NamedTuple):
    """The nearest points of a mesh to n points."""

    triangle: np.ndarray  # (n,)
    weights: np.ndarray  # (n, 3) of the corners, at least 0, with the sum 1
    distance: np.ndarray  # (n,)


class TriangleGrid:
    """Triangles of the plane by the cells of a square grid that their bounding boxes meet."""

    def __init__(self, corners: np.ndarray) -> None:
        self._corners = corners
        low, high = corners.min(axis=1), corners.max(axis=1)
        self._origin, extent = low.min(axis=0), np.ptp(corners, axis=(0, 1))
        self._side = float(np.sqrt(extent.prod() / (_CELLS * len(corners))))
        self._shape = np.ceil(extent / self._side).astype(np.int64) + 1
        first, last = self._cells(low), self._cells(high)
        size = last - first + 1
        counts = size.prod(axis=1)
        triangle = np.repeat(np.arange(len(corners)), counts)
        step = np.stack(np.divmod(within(counts), size[triangle, 1]), axis=1)
        cell = self._numbers(first[triangle] + step)
        order = np.argsort(cell, kind="stable")
        self._triangle = triangle[order]
        self._start = np.searchsorted(cell[order], np.arange(self._shape.prod() + 1))

    def containing(self, points: np.ndarray) -> Located:
        """A triangle around each point, and its barycentric coordinates; outside triangle -1."""
        n = len(points)
        result = Located(np.full(n, -1), np.zeros((n, 3)), np.full(n, np.inf))
        cells = self._cells(points)
        rows = np.flatnonzero(((cells >= 0) & (cells < self._shape)).all(axis=1))
        cell = self._numbers(cells[rows])
        counts = self._start[cell + 1] - self._start[cell]
        for column in range(counts.max(initial=0)):
            some = (counts > column) & (result.triangle[rows] < 0)
            rows, cell, counts = rows[some], cell[some], counts[some]
            triangles = self._triangle[self._start[cell] + column]
            weights = barycentric(points[rows], self._corners[triangles])
            inside = weights.min(axis=1) >= -ROUNDING
            weights = np.maximum(weights[inside], 0.0)
            result.triangle[rows[inside]] = triangles[inside]
            result.weights[rows[inside]] = weights / weights.sum(axis=1, keepdims=True)
            result.distance[rows[inside]] = 0.0
        return result

    def _cells(self, points: np.ndarray) -> np.ndarray:
        # Points far outside have no cell, and no integer either.
        cells = np.clip(np.floor((points - self._origin) / self._side), -1, self._shape)
        return np.asarray(cells.astype(np.int64))

    def _numbers(self, cells: np.ndarray) -> np.ndarray:
        return np.asarray(cells[:, 0] * self._shape[1] + cells[:, 1])


class TriangleTree:
    """Triangles by the places of their centres, one tree for each size.

    A triangle whose centre is at distance c from a point, and whose corners are at most r from its
    centre, is at least c - r away: all triangles that may be nearer than the nearest so far are
    compared.
    """

    def __init__(self, corners: np.ndarray) -> None:
        self._corners = corners
        centres = corners.mean(axis=1)
        radii = np.linalg.norm(corners - centres[:, None], axis=2).max(axis=1)
        kinds = np.floor(np.log(radii / radii.min()) / np.log(_SIZES)).astype(int)
        self._parts = []
        for kind in np.unique(kinds):
            members = np.flatnonzero(kinds == kind)
            part = cKDTree(centres[members]), members, float(radii[members].max())
            self._parts.append(part)

    def nearest(self, points: np.ndarray) -> Located:
        """The nearest point of the mesh to each point, shape (n, d)."""
        n = len(points)
        result = Located(np.full(n, -1), np.zeros((n, 3)), np.full(n, np.inf))
        for tree, members, radius in self._parts:
            self._improve(result, points, tree, members, radius)
        return result

    def _improve(
        self, result: Located, points: np.ndarray, tree: cKDTree, members: np.ndarray, radius: float
    ) -> None:
        """Replace what is nearer among the triangles of one tree."""
        # A point inside a triangle of the plane has no nearer one.
        waiting = np.flatnonzero(result.distance > 0)
        count = _FIRST
        while waiting.size:
            count = min(count, members.size)
            left = []
            for part in slices(waiting.size, max(1, _PAIRS // count)):
                rows = waiting[part]
                away, found = tree.query(points[rows], k=count)
                away, found = away.reshape(rows.size, count), found.reshape(rows.size, count)
                near = away - radius < result.distance[rows, None]
                place, column = np.nonzero(near)
                self._compare(result, points, rows[place], members[found[place, column]])
                left.append(rows[away[:, -1] - radius < result.distance[rows]])
            if count == members.size:
                break
            waiting = np.concatenate(left)
            count *= _MORE

    def _compare(
        self, result: Located, points: np.ndarray, rows: np.ndarray, triangles: np.ndarray
    ) -> None:
        """Take the nearest of some triangles for each of some points, given as pairs."""
        weights, distance = closest(points[rows], self._corners[triangles])
        order = np.lexsort((triangles, distance, rows))
        first = np.append(True, np.diff(rows[order]) > 0)[: order.size]
        best = order[first]
        best = best[distance[best] < result.distance[rows[best]]]
        result.triangle[rows[best]] = triangles[best]
        result.weights[rows[best]] = weights[best]
        result.distance[rows[best]] = distance[best]


def closest(points: np.ndarray, corners: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights, shape (n, 3), of the closest point of one triangle to each point, and its distance.

    Inside, weights are barycentric coordinates of the projection on the plane of the triangle;
    otherwise the closest point is on an edge.
    """
    weights = barycentric(points, corners)
    outside = np.flatnonzero(weights.min(axis=1) < -ROUNDING)
    if outside.size:
        weights[outside] = _on_edges(points[outside], corners[outside])
    weights = np.maximum(weights, 0.0)
    weights /= weights.sum(axis=1, keepdims=True)
    distance = np.linalg.norm(np.einsum("ij,ijk->ik", weights, corners) - points, axis=1)
    if points.shape[1] == 2:
        inside = np.ones(len(points), dtype=bool)
        inside[outside] = False
        distance[inside] = 0.0
    return weights, distance


def barycentric(points: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """Coordinates, shape (n, 3), of the projection of each point on the plane of its triangle."""
    u, v, p = (x - corners[:, 0] for x in (corners[:, 1], corners[:, 2], points))
    # Areas of the parts over that of the triangle. Gram matrices would lose half the digits in flat
    # triangles.
    if points.shape[1] == 2:
        area, second, third = _cross(u, v), _cross(p, v), _cross(u, p)
    else:
        normal = np.cross(u, v)
        area, second, third = (
            np.einsum("ij,ij->i", x, normal) for x in (normal, np.cross(p, v), np.cross(u, p))
        )
    second, third = second / area, third / area
    return np.column_stack([1 - second - third, second, third])


def _cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray(a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0])


def _on_edges(points: np.ndarray, corners: np.ndarray) -> np.ndarray:
    """Weights of the closest point of the edges of a triangle to each point, shape (n, 3)."""
    n = len(points)
    weights, least = np.zeros((n, 3)), np.full(n, np.inf)
    for first, last in ((0, 1), (1, 2), (2, 0)):
        along = corners[:, last] - corners[:, first]
        away = points - corners[:, first]
        share = np.einsum("ij,ij->i", away, along) / np.einsum("ij,ij->i", along, along)
        share = np.clip(share, 0.0, 1.0)
        distance = np.linalg.norm(away - share[:, None] * along, axis=1)
        nearer = np.flatnonzero(distance < least)
        least[nearer] = distance[nearer]
        weights[nearer] = 0.0
        weights[nearer, first], weights[nearer, last] = 1 - share[nearer], share[nearer]
    return weights
