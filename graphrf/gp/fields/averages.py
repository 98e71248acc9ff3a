"""Averages of a field over polygons and lines: exact integrals of what is linear in each triangle.

The integral of a linear function over a piece of a triangle is its size times the value at its
centre.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from graphrf._base import checks, lazy
from graphrf.gp.fields.elements import edges_of
from graphrf.gp.fields.geometries import check_valid
from graphrf.graph.geometry.location import TriangleGrid

# The share of a geometry that may lie outside a mesh.
_OUTSIDE = 1e-6
# The least square of a length by which is divided.
_LEAST = 1e-300
# Weights of a corner, the midpoint of an edge and the centre, in areas: the rule of these seven
# points that is exact for cubic functions.
_CUBIC = 1 / 20, 2 / 15, 9 / 20


class Pieces(NamedTuple):
    """The pieces of geometries in triangles: m points and their weights."""

    geometry: np.ndarray  # (m,) number of the geometry of each
    triangle: np.ndarray  # (m,)
    centre: np.ndarray  # (m, 2)
    size: np.ndarray  # (m,) area, length, or 1 for points


def pieces(corners: np.ndarray, geometries: np.ndarray, rows: np.ndarray, name: str) -> Pieces:
    """The pieces of the polygons or lines in some rows in planar triangles, shape (T, 3, 2).

    ValueError for geometries that are not in the triangles as a whole.
    """
    shapely = lazy.need("shapely", "averages over polygons and lines")
    dimensions = shapely.get_dimensions(geometries[rows])
    collected = shapely.get_type_id(geometries[rows]) == shapely.GeometryType.GEOMETRYCOLLECTION
    several = rows[(dimensions == 0) | collected]
    if several.size:
        kind = geometries[several[0]].geom_type
        raise checks.value_error(
            name, f"must be points, polygons or lines, got a {kind} in row {several[0]}: explode it"
        )
    check_valid(geometries, rows, name)
    tree = shapely.STRtree(shapely.polygons(corners))
    areas = _of_polygons(shapely, tree, geometries, rows[dimensions == 2])
    lengths = _of_lines(shapely, tree, corners, geometries, rows[dimensions == 1])
    both = Pieces(*(np.concatenate(pair) for pair in zip(areas, lengths, strict=True)))

    total = np.bincount(both.geometry, both.size, minlength=len(geometries))[rows]
    some = geometries[rows]
    whole = np.where(dimensions == 1, shapely.length(some), shapely.area(some))
    lacking = np.flatnonzero(total < (1 - _OUTSIDE) * whole)
    if lacking.size:
        outside, share = rows[lacking], 1 - total[lacking] / whole[lacking]
        raise checks.value_error(
            name,
            f"must lie in the mesh, but {outside.size} of {len(geometries)} geometries do not, "
            f"such as row {outside[0]}, of which {share[0]:.1%} is outside: make the mesh with a "
            "wider `boundary` or `margin`",
        )
    return both


def _of_polygons(shapely: Any, tree: Any, geometries: np.ndarray, rows: np.ndarray) -> Pieces:
    """Pieces of the polygons in some rows."""
    number, triangle = tree.query(geometries[rows], predicate="intersects")
    parts = shapely.intersection(geometries[rows][number], tree.geometries[triangle])
    sizes = shapely.area(parts)
    kept = sizes > 0  # triangles that only touch a polygon have no part in it
    centre = shapely.get_coordinates(shapely.centroid(parts[kept])).reshape(-1, 2)
    return Pieces(rows[number[kept]], triangle[kept], centre, sizes[kept])


def _of_lines(
    shapely: Any, tree: Any, corners: np.ndarray, geometries: np.ndarray, rows: np.ndarray
) -> Pieces:
    """Pieces of the lines in some rows: straight segments, cut where triangles begin and end.

    A piece along the common edge of two triangles counts once: its centre is located in one.
    """
    parts, row = shapely.get_parts(geometries[rows], return_index=True)
    points, part = shapely.get_coordinates(parts, return_index=True)
    follows = np.flatnonzero(part[1:] == part[:-1])
    start, along = points[follows], points[follows + 1] - points[follows]
    row, lengths = rows[row[part[follows]]], np.linalg.norm(along, axis=1)

    segments = shapely.linestrings(np.stack([start, start + along], axis=1))
    number, triangle = tree.query(segments, predicate="intersects")
    cuts = shapely.intersection(segments[number], tree.geometries[triangle])
    places, cut = shapely.get_coordinates(cuts, return_index=True)
    segment = number[cut]
    away = np.einsum("ij,ij->i", places - start[segment], along[segment])
    share = np.clip(away / np.maximum(lengths[segment] ** 2, _LEAST), 0.0, 1.0)

    every = np.arange(len(segments))
    segment, share = (
        np.concatenate([segment, every, every]),
        np.concatenate([share, np.zeros(every.size), np.ones(every.size)]),
    )
    order = np.lexsort((share, segment))
    segment, share = segment[order], share[order]
    first = np.flatnonzero((segment[1:] == segment[:-1]) & (share[1:] > share[:-1]))
    segment, low, high = segment[first], share[first], share[first + 1]
    centre = start[segment] + 0.5 * (low + high)[:, None] * along[segment]
    located = TriangleGrid(corners).containing(centre).triangle
    within = located >= 0
    sizes = (high - low) * lengths[segment]
    return Pieces(row[segment[within]], located[within], centre[within], sizes[within])


def cubic_rule(
    vertices: np.ndarray, triangles: np.ndarray, areas: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Points and weights of integrals over triangles: all vertices, midpoints of edges, centres."""
    corners = vertices[triangles]
    edges, number = edges_of(triangles)
    at_corners, at_middles, at_centres = (share * areas for share in _CUBIC)
    weights = [
        np.bincount(triangles.ravel(), np.repeat(at_corners, 3), minlength=len(vertices)),
        np.bincount(number.ravel(), np.repeat(at_middles, 3), minlength=len(edges)),
        at_centres,
    ]
    points = [vertices, vertices[edges].mean(axis=1), corners.mean(axis=1)]
    return np.vstack(points), np.concatenate(weights)
