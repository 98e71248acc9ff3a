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
from scipy.spatial import cKDTree

from graphrf._base import checks
from graphrf._base.rows import within
from graphrf.gp.fields.delaunay import Triangulation
from graphrf.gp.fields.elements import smallest_angles

# Angles below these degrees are refined. Ruppert's algorithm ends for 20.7, in practice above 30.
_ANGLE = 26.0
# Neither segments nor edges shorter than this share of the wanted length are refined for the sake
# of an angle: around sharp corners of the border it would not end.
_SHORTEST = 0.2
# Segments that are no edges are halved down to this share.
_LEAST = 1e-3
# The spacing of the first points, in wanted lengths. From the centre of a triangle of a lattice to
# the far corner of the next one are 2 / sqrt(3) spacings: were that longer than wanted, a point
# that is inserted would need others, row after row through the lattice.
SPACING = 0.86
# Refinement that takes as many rounds more than there are segments, since along a border it may
# go on by one segment in a round, or so many times the first points, does not end.
_ROUNDS, _GROWTH = 200, 50
# Details of borders that are left out, and the shortest segments there, in wanted lengths.
_DETAIL, _SHORT = 0.1, 0.4
# The share of a polygon's area that may change with that.
_CHANGED = 0.05


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
    outline, segments = _outline(outlines, size)
    lattices = [_lattice(band.buffer(-0.6 * spacing), spacing) for band, spacing in bands]
    mesh = Triangulation(np.vstack([outline, *lattices]))
    first = len(mesh.points)
    segments += first - sum(map(len, [outline, *lattices]))
    wanted = size(mesh.points[segments].mean(axis=1))
    bad = np.zeros(0, dtype=np.int64)
    for _ in range(_ROUNDS + len(segments)):
        lengths, floor = _lengths(mesh.points, segments), 2 * _SHORTEST * wanted
        missing, encroached = mesh.states(segments)
        halved = (missing & (lengths > _LEAST * wanted)) | (encroached & (lengths > floor))
        added = np.zeros(0, dtype=bool)
        if not halved.any():
            # Only what is new, or was left last time, can be bad.
            bad = _bad(mesh, np.union1d(bad, mesh.changed()), domain, size, least)
            centres, radius = _circumcircles(mesh.points[mesh.triangles[bad]])
            hit, segment = _hits(centres, mesh.points, segments)
            may = lengths[segment] > floor[segment]
            halved[segment[may]] = True
            # Where a segment is too short to be halved, the triangle stays.
            free, waits = np.ones(len(bad), dtype=bool), shapely.contains_xy(domain, centres)
            free[hit] = False
            waits[hit[~may]] = False
            chosen = np.flatnonzero(free & waits)
            chosen = chosen[_apart(centres[chosen], radius[chosen])]
            added = mesh.add(centres[chosen], np.arange(len(chosen)), bad[chosen])
            waits[chosen[~added]] = False
            bad = bad[waits]
            if not added.any() and not halved.any():
                break
        segments, wanted = _halved(mesh, segments, wanted, halved, size)
        if len(mesh.points) > _GROWTH * first:
            break
    if added.any() or halved.any():
        raise checks.value_error(
            "boundary",
            "must have an outline that refinement can mesh, got one with parts too near to each "
            "other, or with too sharp angles: pass boundary.simplify(...) or boundary.buffer(...)",
        )
    triangles = mesh.triangles
    triangles = triangles[shapely.contains_xy(domain, mesh.points[triangles].mean(axis=1))]
    used, triangles = np.unique(triangles, return_inverse=True)
    return mesh.points[used], triangles.reshape(-1, 3)


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
        wanted = SPACING * np.minimum(size(ring), size(following))
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


def _lengths(points: np.ndarray, segments: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.norm(points[segments[:, 0]] - points[segments[:, 1]], axis=1))


def _halved(
    mesh: Triangulation,
    segments: np.ndarray,
    wanted: np.ndarray,
    chosen: np.ndarray,
    size: Callable[[np.ndarray], np.ndarray],
) -> tuple[np.ndarray, np.ndarray]:
    """Segments and their wanted lengths after some are halved."""
    if not chosen.any():
        return segments, wanted
    first, last = segments[chosen].T
    middle = len(mesh.points) + np.arange(first.size)
    halves = np.vstack([np.column_stack([first, middle]), np.column_stack([middle, last])])
    middles = mesh.points[segments[chosen]].mean(axis=1)
    mesh.add(middles, np.arange(first.size), mesh.a_triangle_of(first))
    lengths = size(mesh.points[halves].mean(axis=1))
    return np.vstack([segments[~chosen], halves]), np.append(wanted[~chosen], lengths)


def _bad(
    mesh: Triangulation,
    some: np.ndarray,
    domain: Any,
    size: Callable[[np.ndarray], np.ndarray],
    least: float,
) -> np.ndarray:
    """The triangles among `some` that are in the domain and have a long edge or a small angle."""
    corners = mesh.points[mesh.triangles[some]]
    sides = np.linalg.norm(corners[:, [1, 2, 0]] - corners, axis=2)
    shortest, longest = sides.min(axis=1), sides.max(axis=1)
    small = smallest_angles(corners) < _ANGLE
    # Places and sizes take longer than all else: most triangles are good by the least of them.
    left = np.flatnonzero(small | (longest > least))
    centres = corners[left].mean(axis=1)
    inside = shapely.contains_xy(domain, centres)
    left, wanted = left[inside], size(centres[inside])
    bad = (longest[left] > wanted) | (small[left] & (shortest[left] > _SHORTEST * wanted))
    return np.asarray(some[left[bad]])


def _circumcircles(corners: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Centres (T, 2) and radii (T,) of the circles through the corners of triangles."""
    b, c = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    cross = 2 * (b[:, 0] * c[:, 1] - b[:, 1] * c[:, 0])
    bb, cc = np.square(b).sum(axis=1), np.square(c).sum(axis=1)
    x = (c[:, 1] * bb - b[:, 1] * cc) / cross
    y = (b[:, 0] * cc - c[:, 0] * bb) / cross
    return corners[:, 0] + np.column_stack([x, y]), np.hypot(x, y)


def _apart(centres: np.ndarray, radius: np.ndarray) -> np.ndarray:
    """Numbers of circles, larger ones first, whose centres are in no larger circle of the list."""
    order = np.argsort(-radius, kind="stable")
    if len(centres) < 2:
        return order
    centres, radius = centres[order], radius[order]
    away, other = cKDTree(centres).query(centres, k=np.arange(1, 1 + min(8, len(centres))))
    ahead = other < np.arange(len(centres))[:, None]
    return np.asarray(order[~(ahead & (away < radius[:, None])).any(axis=1)])


def _hits(
    centres: np.ndarray, points: np.ndarray, segments: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of a new point and a segment on which it encroaches."""
    middle, half = points[segments].mean(axis=1), 0.5 * _lengths(points, segments)
    away, near = cKDTree(middle).query(centres, k=np.arange(1, 1 + min(8, len(segments))))
    row, column = np.nonzero(away < half[near])
    return row, near[row, column]
