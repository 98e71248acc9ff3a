"""Checks of the arrays of a triangle mesh."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphrf._base import checks
from graphrf._base.warn import warn
from graphrf.gp.fields.elements import smallest_angles, triangle_areas
from graphrf.gp.fields.geometries import coordinates
from graphrf.gp.fields.location import TriangleGrid

# Triangles with a smaller area, in squares of their longest edge, have none.
_FLAT = 1e-10
# Degrees below which an angle is warned of: gradients are wrong by about 1 / angle.
_SHARP = 5.0


def checked_vertices(vertices: Any) -> np.ndarray:
    """Coordinates, shape (V, 2) or (V, 3)."""
    vertices = coordinates(vertices, "vertices", 3)
    if vertices.shape[1] == 2 and len(vertices):
        _warn_of_degrees(vertices)
    return vertices


def _warn_of_degrees(vertices: np.ndarray) -> None:
    """Warn of coordinates that may be longitudes and latitudes."""
    (low_x, low_y), (high_x, high_y) = vertices.min(axis=0), vertices.max(axis=0)
    may_be_degrees = max(abs(low_x), abs(high_x)) <= 180 and max(abs(low_y), abs(high_y)) <= 90
    # Kilometres from an origin of one's own are as small, but are seldom all of them as far from
    # it.
    far = min(abs(low_x), abs(high_x)) + min(abs(low_y), abs(high_y)) > max(
        high_x - low_x, high_y - low_y
    )
    if may_be_degrees and far and low_x * high_x > 0 and low_y * high_y > 0:
        warn(
            f"coordinates from ({low_x:.4g}, {low_y:.4g}) to ({high_x:.4g}, {high_y:.4g}) look "
            "like longitudes and latitudes in degrees, which are no distances: project them, as by "
            "geopandas' to_crs, or take TriangleMesh.sphere"
        )


def checked_triangles(vertices: np.ndarray, triangles: Any) -> np.ndarray:
    """Triangles of known vertices, with areas, that use every vertex and do not overlap."""
    array = checks.array("triangles", triangles)
    if array.ndim != 2 or array.shape[1] != 3 or array.dtype.kind not in "iu" or not len(array):
        raise checks.value_error(
            "triangles", f"must be integers of shape (T, 3), got {checks.describe(triangles)}"
        )
    array = array.astype(np.int64)
    low, high, n = int(array.min()), int(array.max()), len(vertices)
    if low < 0 or high >= n:
        way_out = "; are they counted from 1? Then subtract 1" if (low, high) == (1, n) else ""
        raise checks.value_error(
            "triangles",
            f"must have vertices in [0, {n - 1}], got {low if low < 0 else high}{way_out}",
        )
    _check_areas(vertices, array)
    unused = np.setdiff1d(np.arange(n), array)
    if unused.size:
        raise checks.value_error(
            "vertices",
            f"must each be a corner of a triangle, but {unused.size} are not, such as {unused[0]}: "
            "pass `used, corners = numpy.unique(triangles, return_inverse=True)` as vertices[used] "
            "and corners.reshape(-1, 3)",
        )
    _check_edges(vertices, array)
    if vertices.shape[1] == 2:
        _check_overlaps(vertices[array])
    return array


def _check_areas(vertices: np.ndarray, triangles: np.ndarray) -> None:
    """Refuse triangles without area, and warn of sharp ones."""
    corners = vertices[triangles]
    longest = np.linalg.norm(corners[:, [1, 2, 0]] - corners, axis=2).max(axis=1)
    flat = np.flatnonzero(triangle_areas(corners) <= _FLAT * longest**2)
    if flat.size:
        raise checks.value_error(
            "triangles",
            f"must have an area, but {flat.size} have none, such as number {flat[0]} with vertices "
            f"{triangles[flat[0]].tolist()}: leave them out, or join vertices at one place",
        )
    angles = smallest_angles(corners)
    if (angles < _SHARP).any():
        warn(
            f"{int((angles < _SHARP).sum())} of {len(triangles)} triangles have an angle below "
            f"{_SHARP:g} degrees, the smallest {angles.min():.2g}: fields are inaccurate there; "
            "make the mesh anew from the outline (TriangleMesh.from_points), or remesh the surface"
        )


def _check_overlaps(corners: np.ndarray) -> None:
    """Refuse planar triangles around the centre of another, as where parts overlap."""
    located = TriangleGrid(corners).containing(corners.mean(axis=1))
    covered = np.flatnonzero(located.triangle != np.arange(len(corners)))
    if covered.size:
        number = covered[0]
        raise checks.value_error(
            "triangles",
            f"must not overlap, but the centres of {covered.size} are in others, such as that of "
            f"number {number} in number {located.triangle[number]}: is a part given twice, or a "
            "surface without its heights?",
        )


def _check_edges(vertices: np.ndarray, triangles: np.ndarray) -> None:
    """Refuse edges of more than two triangles, and planar triangles on one side of their edge."""
    ends = triangles[:, [[1, 2], [2, 0], [0, 1]]].reshape(-1, 2)
    keys = np.sort(ends, axis=1) @ np.array([len(vertices), 1])
    order = np.argsort(keys, kind="stable")
    _, first, counts = np.unique(keys[order], return_index=True, return_counts=True)
    many = np.flatnonzero(counts > 2)
    if many.size:
        edge = ends[order[first[many[0]]]].tolist()
        raise checks.value_error(
            "triangles",
            f"must meet in pairs, but {many.size} edges have three triangles or more, such as "
            f"{edge}: a field needs a surface; is a triangle given twice?",
        )
    if vertices.shape[1] == 3:
        return
    inner = first[counts == 2]
    pair = np.stack([order[inner], order[inner + 1]], axis=1)
    start, along = vertices[ends[pair[:, 0], 0]], vertices[ends[pair[:, 0]]]
    direction = along[:, 1] - along[:, 0]
    opposite = vertices[triangles.ravel()[pair]] - start[:, None]
    side = direction[:, None, 0] * opposite[..., 1] - direction[:, None, 1] * opposite[..., 0]
    folded = np.flatnonzero(side.prod(axis=1) > 0)
    if folded.size:
        numbers = (pair[folded[0]] // 3).tolist()
        raise checks.value_error(
            "triangles",
            f"must not overlap, but {folded.size} pairs are on one side of their common edge, such "
            f"as numbers {numbers}: the mesh is folded there",
        )
