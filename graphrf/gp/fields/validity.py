"""Checks of the arrays of a triangle mesh, and of places on it."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphrf._base import checks
from graphrf._base.warn import warn
from graphrf.gp.fields.elements import edges_of, largest_angles, smallest_angles, triangle_areas
from graphrf.gp.fields.geometries import coordinates
from graphrf.gp.fields.sources import ROUNDING
from graphrf.graph.alignment import labels_of
from graphrf.graph.geometry.location import TriangleGrid

# Triangles with a smaller area, in squares of their longest edge, have none.
_FLAT = 1e-10
# Degrees below which an angle is warned of, and above which one is, on more than a share of the
# area. Gradients of linear functions are wrong as angles approach 180 degrees (Babuska and Aziz
# 1976, "On the angle condition in the finite element method"). Where edges of a planar mesh were
# flipped at random, so that triangles above 140 degrees had 1, 5 and 10 % of the area, ranges were
# some 10, 20 and 25 % too short.
_SHARP, _BLUNT, _BLUNT_AREA = 5.0, 140.0, 0.01
# A place off a surface by a larger share of its extent is no place of it.
_OFF_SURFACE = 0.1
# The least number of places whose median distance from a surface measures how accurate they are,
# and the multiple of it from which a place is an outlier.
_SEVERAL, _FAR = 10, 10.0


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
        # from_points has a place for coordinates alone
        way_out = (
            ": these are coordinates; pass positions of vertices, as TriangleMesh(vertices, "
            "triangles), or points alone to TriangleMesh.from_points"
            if array.dtype.kind == "f" and (array % 1 != 0).any()
            else ""
        )
        raise checks.value_error(
            "triangles",
            "must be integers of shape (T, 3), the positions of three vertices each, got "
            f"{checks.describe(triangles)}{way_out}",
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
    _warn_of_angles(vertices, triangles)


def _warn_of_angles(vertices: np.ndarray, triangles: np.ndarray) -> None:
    """Warn of triangles in which linear functions are far from smooth ones."""
    corners = vertices[triangles]
    smallest, largest, areas = (
        smallest_angles(corners),
        largest_angles(corners),
        triangle_areas(corners),
    )
    sharp, blunt = smallest < _SHARP, largest > _BLUNT
    if not sharp.any() and areas[blunt].sum() <= _BLUNT_AREA * areas.sum():
        return
    bad = sharp | blunt
    ends = vertices[edges_of(triangles)[0]]
    edge = np.median(np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1))
    warn(
        f"{int(bad.sum())} of {len(triangles)} triangles, with "
        f"{areas[bad].sum() / areas.sum():.1%} of the area, have an angle below {_SHARP:g} or "
        f"above {_BLUNT:g} degrees, the smallest {smallest.min():.2g} and the largest "
        f"{largest.max():.4g}: linear functions are inaccurate there, which from some percent of "
        "the area on makes ranges too short and the noise too large for the whole fit; take "
        f"mesh.refined(max_edge={edge:.2g}), the median edge, or for a planar region "
        "TriangleMesh.from_points"
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


def check_distances(places: Any, distances: np.ndarray, mesh: Any) -> None:
    """ValueError for places that are no places of the mesh; a warning of those off a surface by
    more than its edges, whose nearest points the mesh does not resolve, and by far more than half
    of all places, which measure how well they are known.
    """
    planar = mesh.dimension == 2
    limit = (ROUNDING if planar else _OFF_SURFACE) * mesh.diameter
    far = distances > limit
    edge = np.inf if planar else float(np.median(mesh.edge_lengths))
    if distances.size >= _SEVERAL:
        edge = max(edge, _FAR * float(np.median(distances)))
    if not far.any():
        off = distances > edge
        if off.any():
            warn(
                f"`places`: {int(off.sum())} of {off.size} are farther from the surface than "
                f"{edge:.3g}, unlike others: {_named(places, distances, off)}; their nearest "
                "points of it are uncertain by more than the mesh resolves: check them, or keep "
                f"those with mesh.distances(places) < {edge:.3g}"
            )
        return
    few = far.sum() < 0.5 * far.size
    way_out = (
        f"make the mesh with a `boundary` or a `margin` that holds them (margin="
        f"{distances.max():.3g} more)"
        if planar and not far.all()
        else f"keep those with mesh.distances(places) < {edge:.3g}"
        if few
        else "are coordinates in the same unit and reference system as the vertices?"
    )
    raise checks.value_error(
        "places",
        f"must lie in the mesh, but {int(far.sum())} of {far.size} do not: "
        f"{_named(places, distances, far)}; {way_out}",
    )


def _named(places: Any, distances: np.ndarray, chosen: np.ndarray) -> str:
    """Rows, by their labels if there are some, and their distances, the farthest first."""
    labels, numbered = labels_of(places)
    rows = np.flatnonzero(chosen)
    rows = rows[np.argsort(-distances[rows], kind="stable")].tolist()
    first = [
        f"row {row if labels is None or numbered else repr(list(labels)[row])} "
        f"({distances[row]:.3g} away)"
        for row in rows[:3]
    ]
    return ", ".join(first) + (", ..." if len(rows) > 3 else "")
