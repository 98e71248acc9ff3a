"""Triangulations of polygons by Delaunay refinement: edges no longer than wanted, angles not small.

Points of a hexagonal lattice fill the region. Then, until no triangle is bad, segments of the
border that a point encroaches on are halved, and the circumcentres of triangles with a long edge or
a small angle are inserted, many at a time but far from each other, where they encroach on no
segment (Ruppert 1995, "A Delaunay refinement algorithm for quality 2-dimensional mesh generation").
A point encroaches on a segment if it is inside the circle that has the segment as its diameter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import shapely
from scipy.spatial import Delaunay, QhullError, cKDTree

from graphrf._base import checks
from graphrf._base.rows import within
from graphrf.gp.fields.elements import smallest_angles, triangle_areas

# Angles below these degrees are refined. Ruppert's algorithm ends for 20.7, in practice above 30.
_ANGLE = 26.0
# Neither segments nor edges shorter than this share of the wanted length are refined for the sake
# of an angle: around sharp corners of the border it would not end.
_SHORTEST = 0.2
# Segments that are no edges are halved down to this share.
_LEAST = 1e-3
# The spacing of the first points, in wanted lengths: refinement inserts few others.
_SPACING = 0.9
# Refinement that takes more rounds, or so many times the first points, does not end.
_ROUNDS, _GROWTH = 200, 50
# Details of borders that are left out, and the shortest segments there, in wanted lengths.
_DETAIL, _SHORT = 0.1, 0.4
# The share of a polygon's area that may change with that.
_CHANGED = 0.05
# Triangles flatter than this, in squares of their longest edge, are rounding.
_FLAT = 1e-9


def triangulated(
    domain: Any,
    outlines: list[Any],
    size: Callable[[np.ndarray], np.ndarray],
    least: float,
    bands: list[tuple[Any, float]],
) -> tuple[np.ndarray, np.ndarray]:
    """Vertices (V, 2) and triangles (T, 3) of a shapely polygon `domain`.

    The rings of `outlines` become edges, and no edge at x is longer than size(x), which is `least`
    or more. `bands` are the polygons that points with a spacing fill first.
    """
    points, segments = _outline(outlines, size)
    fixed = np.ones(len(points), dtype=bool)
    bands = [(band.buffer(-0.6 * spacing), spacing) for band, spacing in bands]
    added = np.vstack([_lattice(band, spacing) for band, spacing in bands])
    delaunay = _Delaunay()
    first = len(points) + len(added)
    for _ in range(_ROUNDS):
        points = np.vstack([points, added])
        fixed = np.append(fixed, np.zeros(len(added), dtype=bool))
        every = delaunay.of(points)
        lengths, wanted = _lengths(points, segments), size(points[segments].mean(axis=1))
        missing, encroached = _encroached(points, segments, every[fixed[every].sum(axis=1) > 1])
        floor = 2 * _SHORTEST * wanted
        halved = (missing & (lengths > _LEAST * wanted)) | (encroached & (lengths > floor))
        added = np.zeros((0, 2))
        if not halved.any():
            triangles = every[shapely.contains_xy(domain, points[every].mean(axis=1))]
            centres = _circumcentres_of_bad(points, triangles, size, least)
            centres = centres[shapely.contains_xy(domain, centres)]
            number, hit = _hits(centres, points, segments)
            halved[hit] = lengths[hit] > floor[hit]
            added = np.delete(centres, number, axis=0)
            if not len(added) and not halved.any():
                break
        points, segments = _halved(points, segments, halved)
        fixed = np.append(fixed, np.ones(len(points) - fixed.size, dtype=bool))
        if len(points) > _GROWTH * first:
            break
    if len(added) or halved.any():
        raise checks.value_error(
            "boundary",
            "must have an outline that refinement can mesh, got one with parts too near to each "
            "other, or with too sharp angles: pass boundary.simplify(...) or boundary.buffer(...)",
        )
    used, triangles = np.unique(triangles, return_inverse=True)
    return points[used], triangles.reshape(-1, 3)


class _Delaunay:
    """Delaunay triangles of points to which others are added at the end."""

    def __init__(self) -> None:
        self._triangulation: Delaunay | None = None
        self._failed = False

    def of(self, points: np.ndarray) -> np.ndarray:
        """All triangles with an area."""
        if self._triangulation is None and not self._failed:
            # Far from the origin qhull would lose digits: it takes squares of coordinates.
            self._origin, self._scale = points.mean(axis=0), np.ptp(points, axis=0).max()
            try:
                self._triangulation = Delaunay(self._scaled(points), incremental=True)
            except QhullError:  # as where all points are on a circle
                self._failed = True
        elif self._triangulation is not None:
            self._triangulation.add_points(self._scaled(points[len(self._triangulation.points) :]))
        triangulation = self._triangulation or Delaunay(self._scaled(points))
        every = triangulation.simplices.astype(np.int64)
        corners = points[every]
        sides = np.linalg.norm(corners[:, [1, 2, 0]] - corners, axis=2).max(axis=1)
        return every[triangle_areas(corners) > _FLAT * sides**2]

    def _scaled(self, points: np.ndarray) -> np.ndarray:
        return np.asarray((points - self._origin) / self._scale)


def simplified(polygon: Any, length: float) -> Any:
    """A polygon without the details of its border that are far smaller than a length.

    Ragged coastlines would have small triangles everywhere along them, and sharp corners.
    """
    while True:
        coarse = _coarse(polygon, length)
        # What is not far larger than the length would lose its shape.
        if coarse.symmetric_difference(polygon).area <= _CHANGED * polygon.area:
            return coarse
        length *= 0.5


def _coarse(polygon: Any, length: float) -> Any:
    """A polygon without points that are nearer to others than a share of a length."""
    result = polygon.simplify(_DETAIL * length)
    parts = []
    for part in getattr(result, "geoms", [result]):
        rings_of_part = [_without_short(ring, _SHORT * length) for ring in rings(part)]
        holes = [ring for ring in rings_of_part[1:] if len(ring) > 2]
        if len(rings_of_part[0]) > 2:
            parts.append(shapely.Polygon(rings_of_part[0], holes))
    coarse = shapely.unary_union(parts)
    return coarse if coarse.is_valid and not coarse.is_empty else result


def _without_short(ring: np.ndarray, length: float) -> np.ndarray:
    """A ring without points that are nearer to the one kept before than a length."""
    kept = [ring[0]]
    for point in ring[1:]:
        if np.linalg.norm(point - kept[-1]) >= length and np.linalg.norm(point - ring[0]) >= length:
            kept.append(point)
    return np.array(kept)


def evenly(polygon: Any, length: float) -> Any:
    """A polygon whose exterior rings are resampled at equal distances of about a length."""
    parts = []
    for part in getattr(polygon, "geoms", [polygon]):
        n = max(6, int(np.ceil(part.exterior.length / length)))
        places = part.exterior.length * np.arange(n) / n
        parts.append(shapely.Polygon(shapely.get_coordinates(part.exterior.interpolate(places))))
    return shapely.union_all(parts)


def rings(polygon: Any) -> Iterator[np.ndarray]:
    """The rings of a polygon or multipolygon, each an array of points of which the last is not the
    first again.
    """
    for part in getattr(polygon, "geoms", [polygon]):
        for ring in (part.exterior, *part.interiors):
            yield np.asarray(ring.coords)[:-1, :2]


def _outline(
    outlines: list[Any], size: Callable[[np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Points along the rings of some polygons, corners among them, and segments between."""
    points, segments, count = [], [], 0
    for ring in (ring for polygon in outlines for ring in rings(polygon)):
        following = np.roll(ring, -1, axis=0)
        lengths = np.linalg.norm(following - ring, axis=1)
        wanted = _SPACING * np.minimum(size(ring), size(following))
        pieces = np.maximum(np.ceil(lengths / wanted), 1).astype(int)
        start = np.repeat(np.arange(len(ring)), pieces)
        share = within(pieces) / pieces[start]
        points.append(ring[start] + share[:, None] * (following - ring)[start])
        numbers = count + np.arange(start.size)
        segments.append(np.column_stack([numbers, np.roll(numbers, -1)]))
        count += start.size
    # Rings that touch share the point.
    places, number = np.unique(np.vstack(points), axis=0, return_inverse=True)
    return places, number.reshape(-1)[np.vstack(segments)]


def _lattice(region: Any, spacing: float) -> np.ndarray:
    """Points of a hexagonal lattice in a polygon."""
    if region.is_empty:
        return np.zeros((0, 2))
    low_x, low_y, high_x, high_y = region.bounds
    y = np.arange(low_y, high_y, spacing * np.sqrt(3) / 2)
    x = np.arange(low_x, high_x + spacing, spacing)
    shift = np.where(np.arange(y.size) % 2, spacing / 2, 0.0)
    points = np.stack(np.broadcast_arrays(x + shift[:, None], y[:, None]), axis=-1).reshape(-1, 2)
    return points[shapely.contains_xy(region, points)]


def _encroached(
    points: np.ndarray, segments: np.ndarray, triangles: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Masks of segments that are no edges, and of those on which a point encroaches."""
    n = len(points)
    first, last = triangles[:, [1, 2, 0]].ravel(), triangles[:, [2, 0, 1]].ravel()
    corner = points[triangles.ravel()]
    towards = np.einsum("ij,ij->i", points[first] - corner, points[last] - corner)
    keys = np.minimum(first, last) * n + np.maximum(first, last)
    wanted = segments.min(axis=1) * n + segments.max(axis=1)
    return ~np.isin(wanted, keys), np.isin(wanted, keys[towards < 0])


def _lengths(points: np.ndarray, segments: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.norm(points[segments[:, 0]] - points[segments[:, 1]], axis=1))


def _halved(
    points: np.ndarray, segments: np.ndarray, chosen: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Points and segments after some segments are halved."""
    first, last = segments[chosen].T
    middle = len(points) + np.arange(first.size)
    halves = np.column_stack([first, middle]), np.column_stack([middle, last])
    points = np.vstack([points, points[segments[chosen]].mean(axis=1)])
    return points, np.vstack([segments[~chosen], *halves])


def _circumcentres_of_bad(
    points: np.ndarray,
    triangles: np.ndarray,
    size: Callable[[np.ndarray], np.ndarray],
    least: float,
) -> np.ndarray:
    """Circumcentres of triangles with a long edge or a small angle, far from each other."""
    corners = points[triangles]
    sides = np.linalg.norm(corners[:, [1, 2, 0]] - corners, axis=2)
    small = smallest_angles(corners) < _ANGLE
    # sizes take longer than all else: most triangles are good by the least of them
    some = np.flatnonzero(small | (sides.max(axis=1) > least))
    corners, sides, small = corners[some], sides[some], small[some]
    wanted = size(corners.mean(axis=1))
    bad = (sides.max(axis=1) > wanted) | (small & (sides.min(axis=1) > _SHORTEST * wanted))
    corners, area = corners[bad], triangle_areas(corners[bad])
    radius = sides[bad].prod(axis=1) / (4 * area)

    b, c = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    cross = 2 * (b[:, 0] * c[:, 1] - b[:, 1] * c[:, 0])
    bb, cc = np.square(b).sum(axis=1), np.square(c).sum(axis=1)
    x = (c[:, 1] * bb - b[:, 1] * cc) / cross
    y = (b[:, 0] * cc - c[:, 0] * bb) / cross
    centres = corners[:, 0] + np.column_stack([x, y])

    order = np.argsort(-radius, kind="stable")
    centres, radius = centres[order], radius[order]
    if len(centres) < 2:
        return centres
    away, other = cKDTree(centres).query(centres, k=np.arange(1, 1 + min(8, len(centres))))
    ahead = other < np.arange(len(centres))[:, None]
    return centres[~(ahead & (away < radius[:, None])).any(axis=1)]


def _hits(
    centres: np.ndarray, points: np.ndarray, segments: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of a new point and a segment on which it encroaches."""
    middle, half = points[segments].mean(axis=1), 0.5 * _lengths(points, segments)
    away, near = cKDTree(middle).query(centres, k=np.arange(1, 1 + min(8, len(segments))))
    row, column = np.nonzero(away < half[near])
    return row, near[row, column]
