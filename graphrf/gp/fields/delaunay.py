"""Delaunay triangles of the plane, to which points are added one after another.

A new point replaces the triangles whose circumcircles hold it, which are connected, by those that
join it to the border of their union (Bowyer 1981, Watson 1981). Only they are visited, so that the
cost of a point does not grow with the number of points.
"""

from __future__ import annotations

import numpy as np

from graphrf._base.compiled import njit

# Three points are on a line if their area is below this share of a squared edge: rounding.
_ON_LINE = 1e-12
# Points are surrounded by a square that is wider than they are by this factor.
_FRAME = 3.0


class Triangulation:
    """Delaunay triangles of points, and of the corners of a far larger square around all of them.

    >>> mesh = Triangulation(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    >>> len(mesh.points), len(mesh.triangles)  # the four corners are the first points
    (7, 8)
    """

    def __init__(self, points: np.ndarray) -> None:
        middle = (points.min(axis=0) + points.max(axis=0)) / 2
        half = 0.5 * _FRAME * np.ptp(points, axis=0).max()
        corners = middle + half * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
        self.points = corners  # of shape (V, 2), the corners of the square first
        self._at = np.array([0, 0, 0, 1])  # a triangle of each point
        self._triangles = np.array([[0, 1, 2], [0, 2, 3]])  # anticlockwise; with room for others
        self._neighbours = np.array([[-1, 1, -1], [-1, -1, 0]])  # opposite to each corner
        self._changed = np.ones(2, dtype=bool)
        self._holder = np.full(2, -1)  # the last point that a triangle's circle held
        self._n_triangles = 2
        order = _spread(points)
        self.add(points, order, np.full(len(points), -1))

    @property
    def triangles(self) -> np.ndarray:
        """All triangles, shape (T, 3)."""
        return self._triangles[: self._n_triangles]

    def add(self, points: np.ndarray, order: np.ndarray, near: np.ndarray) -> np.ndarray:
        """Add points in the square in an order, each found from a triangle near it, or from the one
        before: a mask of those that are not another's place but for rounding, and have triangles.
        """
        first = len(self.points)
        self.points = np.vstack([self.points, points])
        self._at = np.append(self._at, np.full(len(points), -1))
        room = self._n_triangles + 2 * len(points)
        if room > len(self._triangles):
            more = max(room, 3 * len(self._triangles) // 2) - len(self._triangles)
            rows = np.full((more, 3), -1)
            self._triangles = np.vstack([self._triangles, rows])
            self._neighbours = np.vstack([self._neighbours, rows])
            self._changed = np.append(self._changed, np.zeros(more, dtype=bool))
            self._holder = np.append(self._holder, rows[:, 0])
        self._n_triangles = _insert(
            self.points,
            first + order,
            near[order],
            self._triangles,
            self._neighbours,
            self._at,
            self._changed,
            self._holder,
            self._n_triangles,
        )
        return self._at[first:] >= 0

    def changed(self) -> np.ndarray:
        """Numbers of triangles that are new since the last call."""
        numbers = np.flatnonzero(self._changed[: self._n_triangles])
        self._changed[numbers] = False
        return numbers

    def a_triangle_of(self, vertices: np.ndarray) -> np.ndarray:
        """The number of one triangle of each vertex."""
        return self._at[vertices]

    def states(self, segments: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Masks of pairs of vertices that are no edges, and of edges that are opposite to an obtuse
        angle: in the circle that has the edge as its diameter is another vertex.
        """
        missing, obtuse = _states(
            self.points, segments, self._triangles, self._neighbours, self._at
        )
        return missing, obtuse


def _spread(points: np.ndarray) -> np.ndarray:
    """An order of points whose first parts are spread over all of them, each twice as large as all
    before, and in which each point is near the one before.
    """
    n = len(points)
    level = np.log2(1 + np.random.default_rng(0).permutation(n)).astype(np.int64)
    low, extent = points.min(axis=0), np.ptp(points, axis=0).max()
    column, row = ((points - low) / extent * np.exp2(level / 2)[:, None]).astype(np.int64).T
    return np.lexsort((np.where(column % 2, -row, row), column, level))


@njit(nogil=True, cache=True)
def _turn(points: np.ndarray, a: int, b: int, c: int) -> float:
    """Twice the area of a triangle, positive if anticlockwise."""
    bx, by = points[b, 0] - points[a, 0], points[b, 1] - points[a, 1]
    cx, cy = points[c, 0] - points[a, 0], points[c, 1] - points[a, 1]
    return bx * cy - by * cx


@njit(nogil=True, cache=True)
def _in_circle(points: np.ndarray, a: int, b: int, c: int, p: int) -> bool:
    """True if p is inside the circle through a, b and c."""
    x, y = points[p, 0], points[p, 1]
    ax, ay = points[a, 0] - x, points[a, 1] - y
    bx, by = points[b, 0] - x, points[b, 1] - y
    cx, cy = points[c, 0] - x, points[c, 1] - y
    aa, bb, cc = ax * ax + ay * ay, bx * bx + by * by, cx * cx + cy * cy
    return aa * (bx * cy - by * cx) + bb * (cx * ay - cy * ax) + cc * (ax * by - ay * bx) > 0


@njit(nogil=True, cache=True)
def _sees(points: np.ndarray, u: int, v: int, p: int) -> bool:
    """True if p is to the left of the edge from u to v, by more than rounding."""
    x, y = points[v, 0] - points[u, 0], points[v, 1] - points[u, 1]
    return _turn(points, u, v, p) > _ON_LINE * (x * x + y * y)


@njit(nogil=True, cache=True)
def _around(
    points: np.ndarray, p: int, triangle: int, triangles: np.ndarray, neighbours: np.ndarray
) -> int:
    """The triangle around p, by steps to the neighbour on p's side of an edge."""
    for _ in range(len(triangles)):
        for j in range(3):
            u, v = triangles[triangle, (j + 1) % 3], triangles[triangle, (j + 2) % 3]
            if neighbours[triangle, j] >= 0 and _turn(points, u, v, p) < 0:
                triangle = neighbours[triangle, j]
                break
        else:
            break
    return triangle


@njit(nogil=True, cache=True)
def _insert(
    points: np.ndarray,
    order: np.ndarray,
    near: np.ndarray,
    triangles: np.ndarray,
    neighbours: np.ndarray,
    at: np.ndarray,
    changed: np.ndarray,
    holder: np.ndarray,
    n: int,
) -> int:
    """Insert points into n triangles; the number of triangles then.

    A point that is another's but for rounding is left out.
    """
    cavity = np.empty(len(triangles), dtype=np.int64)
    rim = np.empty((len(triangles) + 2, 3), dtype=np.int64)
    last = 0
    for k in range(len(order)):
        p = order[k]
        start = near[k] if near[k] >= 0 else last
        cavity[0] = _around(points, p, start, triangles, neighbours)
        holder[cavity[0]] = p
        size, edges, i = 1, 0, 0
        while i < size:
            t = cavity[i]
            i += 1
            for j in range(3):
                beyond = neighbours[t, j]
                if beyond < 0 or holder[beyond] == p:
                    continue
                a, b, c = triangles[beyond]
                u, v = triangles[t, (j + 1) % 3], triangles[t, (j + 2) % 3]
                if _in_circle(points, a, b, c, p) or not _sees(points, u, v, p):
                    holder[beyond] = p
                    cavity[size] = beyond
                    size += 1
        for i in range(size):
            t = cavity[i]
            for j in range(3):
                beyond = neighbours[t, j]
                if beyond < 0 or holder[beyond] != p:
                    rim[edges, 0] = triangles[t, (j + 1) % 3]
                    rim[edges, 1] = triangles[t, (j + 2) % 3]
                    rim[edges, 2] = beyond
                    edges += 1
        if edges != size + 2:  # no disc without a point inside
            continue
        cavity[size], cavity[size + 1] = n, n + 1
        n += 2
        for i in range(edges):
            t, (u, v, beyond) = cavity[i], rim[i]
            triangles[t, 0], triangles[t, 1], triangles[t, 2] = p, u, v
            neighbours[t, 0] = beyond
            for j in range(3):
                if beyond >= 0 and triangles[beyond, j] != u and triangles[beyond, j] != v:
                    neighbours[beyond, j] = t
            at[u] = t
            changed[t] = True
        for i in range(edges):
            t = cavity[i]
            following = at[triangles[t, 2]]
            neighbours[t, 1] = following
            neighbours[following, 2] = t
        last = at[p] = cavity[0]
    return n


@njit(nogil=True, cache=True)
def _states(
    points: np.ndarray,
    segments: np.ndarray,
    triangles: np.ndarray,
    neighbours: np.ndarray,
    at: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """The masks of `Triangulation.states`."""
    missing = np.ones(len(segments), dtype=np.bool_)
    obtuse = np.zeros(len(segments), dtype=np.bool_)
    for k in range(len(segments)):
        a, b = segments[k]
        first = triangle = at[a]
        while triangle >= 0:
            j = 0
            while triangles[triangle, j] != a:
                j += 1
            if triangles[triangle, (j + 1) % 3] == b:
                missing[k] = False
                other = neighbours[triangle, (j + 2) % 3]
                for t in (triangle, other):
                    for c in triangles[t]:
                        x = (points[a, 0] - points[c, 0]) * (points[b, 0] - points[c, 0])
                        y = (points[a, 1] - points[c, 1]) * (points[b, 1] - points[c, 1])
                        if c != a and c != b and x + y < 0:
                            obtuse[k] = True
                break
            triangle = neighbours[triangle, (j + 1) % 3]
            if triangle == first:
                break
    return missing, obtuse
