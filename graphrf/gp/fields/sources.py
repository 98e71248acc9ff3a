"""Vertices and triangles from points and polygons, from other libraries, and of the sphere."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from graphrf._base import checks, lazy
from graphrf._base.files.untrusted import named
from graphrf._base.memory import available_memory, require_memory
from graphrf._base.warn import warn
from graphrf.gp.fields.elements import edges_of
from graphrf.gp.fields.geometries import (
    check_overlap,
    check_reference,
    check_titles,
    coordinates,
    geometries_of,
    polygon_of,
)
from graphrf.graph.geometry.meshes import mesh_arrays, weld

# Of a mesh around points: edges in shares of the region's diameter, edges of the margin in edges
# inside, and the growth of edges with the distance from the region.
_EDGE, _MARGIN, _MARGIN_EDGE, _GROWTH = 1 / 30, 1 / 5, 4.0, 0.35
# The width of a band of the margin, in its edges.
_BAND = 3.0
# A point outside by less than this share of the diameter is rounding.
ROUNDING = 1e-9
# Memory of a vertex: of its mesh, and of a sparse factor of some 150 numbers for each.
_VERTEX_BYTES = 4_000.0


def reference_of(points: Any, boundary: Any) -> Any:
    """The coordinate reference system of points and a boundary, which must have the same."""
    both = ((points, "points"), (boundary, "boundary"))
    found = [None if each is None else geometries_of(each, name) for each, name in both]
    first, second = (None if each is None else each.reference for each in found)
    check_reference(first, "points")
    check_reference(second, "boundary", first, "points")
    return second if first is None else first


def _places_and_region(points: Any, boundary: Any) -> tuple[np.ndarray | None, Any]:
    """The coordinates of points, if any, and the polygon of a boundary or of their hull."""
    shapely = lazy.need("shapely", "TriangleMesh.from_points")
    places = None if points is None else coordinates(points, "points")
    check_titles(points, "points")
    if places is not None and places.shape[1] != 2:
        raise checks.value_error(
            "points", "must have two coordinates for a planar mesh, got three: leave out the height"
        )
    if boundary is not None:
        region = polygon_of(boundary, "boundary")
        if places is not None and len(places):
            ends = places.min(axis=0), places.max(axis=0)
            check_overlap(ends, np.reshape(region.bounds, (2, 2)), "points", "boundary")
    elif places is None:
        raise checks.value_error("points", "or `boundary` must be given")
    elif not isinstance(region := shapely.MultiPoint(places).convex_hull, shapely.Polygon):
        raise checks.value_error(
            "points", f"must not all lie on a line, got {len(places)} points: pass a `boundary`"
        )
    return places, region


def around(
    points: Any, max_edge: float | None, boundary: Any, margin: float | None, margin_edge: Any
) -> tuple[np.ndarray, np.ndarray]:
    """A planar mesh of `TriangleMesh.from_points`."""
    shapely = lazy.need("shapely", "TriangleMesh.from_points")
    from graphrf.gp.fields import mesher

    places, region = _places_and_region(points, boundary)
    low_x, low_y, high_x, high_y = region.bounds
    diameter = float(np.hypot(high_x - low_x, high_y - low_y))
    edge = _positive("max_edge", max_edge, _EDGE * diameter)
    width = _MARGIN * diameter if margin is None else checks.number("margin", margin, low=0)
    outer = max(edge, _positive("margin_edge", margin_edge, _MARGIN_EDGE * edge))
    if boundary is None:
        region = region.buffer(edge)
    region = mesher.simplified(region, edge)
    filled = shapely.union_all(
        [shapely.Polygon(part.exterior) for part in shapely.get_parts(region)]
    )

    away = _distances(region)

    def size(x: np.ndarray) -> np.ndarray:
        """The longest edge at points."""
        return np.minimum(outer, edge + _GROWTH * away(x))

    bands = [(region, mesher.SPACING * edge)]
    reached, inside = 0.0, filled
    while reached < width:
        longest = min(outer, edge + _GROWTH * reached)
        reached = reached + _BAND * longest
        # Where edges grow no longer, one band is enough.
        if longest == outer or width - reached < 2 * longest:
            reached = width
        outside = filled.buffer(reached)
        bands.append((outside.difference(inside), mesher.SPACING * longest))
        inside = outside
    n = sum(band.area / (np.sqrt(0.75) * spacing**2) for band, spacing in bands)
    low_x, low_y, high_x, high_y = region.bounds
    require_room(
        n,
        edge,
        f", or a smaller region or margin; edges of {edge:g} are in the unit of the coordinates, "
        f"metres or kilometres, of which the region spans {high_x - low_x:,.0f} by "
        f"{high_y - low_y:,.0f}",
    )
    outlines, domain = [region], region
    if width > 0:
        outline = mesher.evenly(inside, mesher.SPACING * min(outer, edge + _GROWTH * width))
        outlines, domain = [region, outline], shapely.union(outline.difference(filled), region)
    _check_inside(places, domain, diameter)
    return mesher.triangulated(domain, outlines, size, edge, bands)


def _distances(region: Any) -> Callable[[np.ndarray], np.ndarray]:
    """The distances of points from a polygon: by a tree of its sides, as it may have many."""
    import shapely

    from graphrf.gp.fields import mesher

    sides = [np.stack([x, np.roll(x, -1, axis=0)], axis=1) for x in mesher.rings(region)]
    tree = shapely.STRtree(shapely.linestrings(np.vstack(sides)))

    def away(x: np.ndarray) -> np.ndarray:
        result = np.zeros(len(x))
        outside = np.flatnonzero(~shapely.contains_xy(region, x))
        number, found = tree.query_nearest(
            shapely.points(x[outside]), all_matches=False, return_distance=True
        )
        result[outside[number[0]]] = found
        return result

    return away


def sphere(subdivisions: int, radius: float) -> tuple[np.ndarray, np.ndarray]:
    """An icosahedron whose triangles are divided into four, so many times; all seen from outside
    run counterclockwise.
    """
    n = 10 * 4**subdivisions + 2
    require_memory(
        _VERTEX_BYTES * n,
        f"a sphere of {n:,} vertices, with the factor of its field,",
        "pass fewer `subdivisions`, each of which makes a quarter of these",
    )
    ratio = (1 + np.sqrt(5)) / 2
    corners = [(0.0, y, z * ratio) for y in (-1, 1) for z in (-1, 1)]
    vertices = np.array([np.roll(corner, turn) for turn in range(3) for corner in corners])
    apart = np.linalg.norm(vertices[:, None] - vertices, axis=2)
    near = np.isclose(apart, 2.0)
    faces = [each for each in combinations(range(12), 3) if near[np.ix_(each, each)].sum() == 6]
    triangles = np.array(faces)
    inwards = np.linalg.det(vertices[triangles]) < 0
    triangles[inwards] = triangles[inwards][:, ::-1]
    vertices /= np.linalg.norm(vertices[0])
    for _ in range(subdivisions):
        edges, number = edges_of(triangles)
        middle = vertices[edges].sum(axis=1)
        ab, bc, ca = (len(vertices) + number).T
        a, b, c = triangles.T
        vertices = np.vstack([vertices, middle / np.linalg.norm(middle, axis=1, keepdims=True)])
        parts = [(a, ab, ca), (b, bc, ab), (c, ca, bc), (ab, bc, ca)]
        triangles = np.vstack([np.column_stack(part) for part in parts])
    return radius * vertices, triangles


def _of_file(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Vertices and triangles of a file, with one vertex at each place: STL repeats each for every
    triangle that it is a corner of.
    """
    with named(path):
        corners, faces = mesh_arrays(path)
    first, faces, _ = weld(corners, faces, None)
    moved = np.flatnonzero(first != np.arange(first.size))
    if moved.size and path.suffix.lower() != ".stl":
        warn(
            f"{len(corners) - first.size} of {len(corners)} vertices of {path.name} lie at the "
            "place of another, or in no triangle, and were left out: vertices from number "
            f"{moved[0]} on have other numbers than in the file; match values by coordinates"
        )
    return corners[first], faces.triangles()


def directions(degrees: np.ndarray) -> np.ndarray:
    """Unit vectors of longitudes and latitudes in degrees, shape (n, 3)."""
    longitude, latitude = degrees.T
    if (np.abs(latitude) > 90).any() or (np.abs(longitude) > 360).any():
        raise checks.value_error(
            "places",
            "of two columns are longitude and latitude in degrees on a sphere, got values out of "
            f"range, such as {degrees[np.argmax(np.abs(latitude))].tolist()}",
        )
    east, north = np.radians(longitude), np.radians(latitude)
    return np.column_stack(
        [np.cos(north) * np.cos(east), np.cos(north) * np.sin(east), np.sin(north)]
    )


def arrays_of(mesh: Any) -> tuple[np.ndarray, np.ndarray]:
    """Vertices and triangles of a file or of another library's mesh, without a constant third
    coordinate.
    """
    if isinstance(mesh, str | os.PathLike):
        vertices, triangles = _of_file(Path(checks.path("mesh", mesh)))
    elif isinstance(mesh, Mapping) and {"loc", "tv"} <= set(mesh):  # fmesher, from 0
        vertices, triangles = mesh["loc"], mesh["tv"]
    elif hasattr(mesh, "cells_dict"):  # meshio
        if "triangle" not in mesh.cells_dict:
            raise checks.value_error(
                "mesh", f"must have triangles, got cells {sorted(mesh.cells_dict)}"
            )
        vertices, triangles = mesh.points, mesh.cells_dict["triangle"]
    elif hasattr(mesh, "regular_faces"):  # pyvista
        vertices, triangles = mesh.points, mesh.regular_faces
    elif hasattr(mesh, "vertices") and hasattr(mesh, "faces"):  # trimesh
        vertices, triangles = mesh.vertices, mesh.faces
    elif hasattr(mesh, "p") and hasattr(mesh, "t"):  # scikit-fem
        vertices, triangles = np.asarray(mesh.p).T, np.asarray(mesh.t).T
    else:
        raise checks.type_error(
            "mesh",
            "must be a file, a mesh of trimesh, meshio, scikit-fem or pyvista, or a mapping of "
            f"fmesher's `loc` and `tv`, got {checks.describe(mesh)}: pass TriangleMesh(vertices, "
            "triangles)",
        )
    vertices = np.asarray(vertices, dtype=np.float64)
    if vertices.ndim == 2 and vertices.shape[1] == 3 and np.ptp(vertices[:, 2]) == 0:
        vertices = np.ascontiguousarray(vertices[:, :2])
    return vertices, np.asarray(triangles)


def _positive(name: str, value: Any, default: float) -> float:
    return default if value is None else checks.number(name, value, low=0, include_low=False)


def require_room(n: float, edge: float, otherwise: str = "") -> None:
    """NoRoomError for a mesh of more vertices than fit, with the edge of a mesh that does."""
    room = available_memory()
    # Numbers of vertices fall with the square of the edge.
    fits = edge if room is None else edge * np.sqrt(1.1 * _VERTEX_BYTES * n / max(room, 1))
    require_memory(
        _VERTEX_BYTES * n,
        f"a mesh of about {n:,.0f} vertices, with the factor of its field,",
        f"pass max_edge={float(f'{1.05 * fits:.2g}'):g} or longer{otherwise}",
    )


def _check_inside(places: np.ndarray | None, domain: Any, diameter: float) -> None:
    """Refuse points that would be outside the mesh: beyond the margin, or in a hole."""
    if places is None:
        return
    away = _distances(domain)(places)
    outside = np.flatnonzero(away > ROUNDING * diameter)
    if outside.size:
        raise checks.value_error(
            "points",
            f"must lie in the `boundary`, but {outside.size} of {len(places)} do not, such as row "
            f"{outside[0]}, and the margin does not hold them: they are up to {away.max():.3g} "
            "outside; pass a wider boundary or `margin`, or leave these points out",
        )
