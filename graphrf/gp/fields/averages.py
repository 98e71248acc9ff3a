"""Averages of a field over polygons and lines: exact integrals of what is linear in each triangle.

The integral of a linear function over a piece of a triangle is its size times the value at its
centre.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from graphrf._base import checks, lazy

# The share of a geometry that may lie outside a mesh.
_OUTSIDE = 1e-6
# Weights of a corner, the midpoint of an edge and the centre, in areas: the rule of these seven
# points that is exact for cubic functions.
_CUBIC = 1 / 20, 2 / 15, 9 / 20


class Pieces(NamedTuple):
    """The pieces of geometries in triangles: m points and their weights."""

    geometry: np.ndarray  # (m,) number of the geometry of each
    triangle: np.ndarray  # (m,)
    centre: np.ndarray  # (m, 2)
    size: np.ndarray  # (m,) area, length, or 1 for points


def pieces(corners: np.ndarray, geometries: Any, name: str) -> Pieces:
    """The pieces of n polygons or lines of shapely in planar triangles, shape (T, 3, 2).

    ValueError for geometries that are not in the triangles as a whole.
    """
    shapely = lazy.need("shapely", "averages over polygons and lines")
    geometries = np.asarray(geometries, dtype=object)
    _check_geometries(shapely, geometries, name)
    triangles = shapely.polygons(corners)
    number, triangle = shapely.STRtree(triangles).query(geometries, predicate="intersects")
    parts = shapely.intersection(geometries[number], triangles[triangle])
    lines = shapely.get_dimensions(geometries) == 1
    sizes = np.where(lines[number], shapely.length(parts), shapely.area(parts))

    kept = sizes > 0  # triangles that only touch a geometry have no part in it
    number, triangle, parts, sizes = number[kept], triangle[kept], parts[kept], sizes[kept]
    centre = shapely.get_coordinates(shapely.centroid(parts)).reshape(-1, 2)
    if lines.any():
        number, triangle, centre, sizes = _without_shared(number, triangle, centre, sizes, lines)
    total = np.bincount(number, sizes, minlength=len(geometries))
    whole = np.where(lines, shapely.length(geometries), shapely.area(geometries))
    outside = np.flatnonzero(total < (1 - _OUTSIDE) * whole)
    if outside.size:
        share = 1 - total[outside] / whole[outside]
        raise checks.value_error(
            name,
            f"must lie in the mesh, but {outside.size} of {len(geometries)} geometries do not, such "
            f"as row {outside[0]}, of which {share[0]:.1%} is outside: make the mesh with a wider "
            "`boundary` or `margin`",
        )
    return Pieces(number, triangle, centre, sizes)


def cubic_rule(
    vertices: np.ndarray, triangles: np.ndarray, areas: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Points and weights of integrals over triangles: all vertices, midpoints of edges, centres."""
    corners = vertices[triangles]
    ends = np.sort(triangles[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
    edges, number = np.unique(ends, axis=0, return_inverse=True)
    at_corners, at_middles, at_centres = (share * areas for share in _CUBIC)
    weights = [
        np.bincount(triangles.ravel(), np.repeat(at_corners, 3), minlength=len(vertices)),
        np.bincount(number.ravel(), np.repeat(at_middles, 3), minlength=len(edges)),
        at_centres,
    ]
    points = [vertices, vertices[edges].mean(axis=1), corners.mean(axis=1)]
    return np.vstack(points), np.concatenate(weights)


def _check_geometries(shapely: Any, geometries: np.ndarray, name: str) -> None:
    """Refuse what has no average."""
    wrong = np.flatnonzero(
        ~np.isin(shapely.get_dimensions(geometries), (1, 2)) | shapely.is_empty(geometries)
    )
    if wrong.size:
        raise checks.value_error(
            name, f"must be polygons or lines that are not empty, got another in row {wrong[0]}"
        )
    crossed = np.flatnonzero(~shapely.is_valid(geometries))
    if crossed.size:
        reason = shapely.is_valid_reason(geometries[crossed[0]])
        raise checks.value_error(
            name,
            f"must not cross themselves, but row {crossed[0]} does ({reason}): pass "
            "frame.make_valid(), once you have looked at it",
        )


def _without_shared(
    number: np.ndarray,
    triangle: np.ndarray,
    centre: np.ndarray,
    sizes: np.ndarray,
    lines: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Pieces of lines along common edges of two triangles, once each."""
    keys = np.column_stack([number, np.round(centre, 9), np.round(sizes, 9)])
    _, first = np.unique(keys, axis=0, return_index=True)
    kept = ~lines[number]
    kept[first] = True
    return number[kept], triangle[kept], centre[kept], sizes[kept]
