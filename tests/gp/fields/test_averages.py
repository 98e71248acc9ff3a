"""Averages over polygons and lines, exact for linear functions, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrf.gp import TriangleMesh

shapely = pytest.importorskip("shapely")
geopandas = pytest.importorskip("geopandas")


@pytest.fixture(scope="module")
def mesh():
    return TriangleMesh.from_points(
        None, boundary=shapely.box(0, 0, 1, 1), max_edge=0.13, margin=0.2
    )


def linear(x):
    return 1 + 2 * x[..., 0] - 3 * x[..., 1]


GEOMETRIES = {
    "box": shapely.box(0.2, 0.3, 0.7, 0.9),
    "small box in a triangle": shapely.box(0.501, 0.501, 0.502, 0.502),
    "polygon with a hole": shapely.Polygon(
        [(0, 0), (1, 0), (0, 1)], [[(0.2, 0.2), (0.3, 0.2), (0.2, 0.3)]]
    ),
    "two parts": shapely.union_all([shapely.box(0, 0, 0.1, 0.1), shapely.box(0.5, 0.5, 0.9, 1)]),
    "line": shapely.LineString([(0, 0), (1, 0.5), (0.4, 0.9)]),
    "lines": shapely.MultiLineString([[(0, 0), (0.3, 0)], [(0.5, 0.5), (0.5, 1)]]),
    "point": shapely.Point(0.31, 0.77),
}


def test_averages_of_linear_functions_are_exact(mesh):
    series = geopandas.GeoSeries(list(GEOMETRIES.values()))
    rows = mesh.weights(series)
    found = rows @ linear(mesh.vertices)
    np.testing.assert_allclose(found, linear(shapely.get_coordinates(series.centroid)), rtol=1e-9)
    np.testing.assert_allclose(rows.sum(axis=1), 1, rtol=1e-12)
    assert rows.min() >= -1e-15


def test_averages_of_fields_are_those_of_many_points(mesh):
    """The interpolant is not linear over several triangles: the mean of a fine lattice in it."""
    values = np.random.default_rng(0).standard_normal(mesh.n_vertices)
    x = (np.arange(400) + 0.5) / 400
    lattice = np.stack(np.meshgrid(0.2 + 0.5 * x, 0.3 + 0.6 * x), axis=-1).reshape(-1, 2)
    wanted = (mesh.weights(lattice) @ values).mean()
    found = mesh.weights(geopandas.GeoSeries([GEOMETRIES["box"]])) @ values
    assert found[0] == pytest.approx(wanted, abs=2e-4)
    line = mesh.weights(geopandas.GeoSeries([shapely.LineString([(0.1, 0.2), (0.9, 0.7)])]))
    along = np.array([0.1, 0.2]) + ((np.arange(20_000) + 0.5) / 20_000)[:, None] * [0.8, 0.5]
    wanted = (mesh.weights(along) @ values).mean()
    assert (line @ values)[0] == pytest.approx(wanted, abs=1e-6)


def test_lines_along_edges_count_once(mesh):
    a, b = mesh.vertices[mesh.edges[40]]
    values = np.random.default_rng(1).standard_normal(mesh.n_vertices)
    c = mesh.vertices[mesh.triangles[5]].mean(axis=0)
    series = geopandas.GeoSeries([shapely.LineString([a, b]), shapely.LineString([a, b, c])])
    found = mesh.weights(series) @ values
    first = 0.5 * (values[mesh.edges[40]]).sum()
    assert found[0] == pytest.approx(first, rel=1e-9)
    share = (np.arange(20_000) + 0.5)[:, None] / 20_000
    second = (mesh.weights(b + share * (c - b)) @ values).mean()
    lengths = np.linalg.norm(b - a), np.linalg.norm(c - b)
    assert found[1] == pytest.approx(np.average([first, second], weights=lengths), abs=1e-5)


@given(st.integers(0, 10_000))
def test_parts_of_a_region_add_up(mesh, seed):
    rng = np.random.default_rng(seed)
    x, y = rng.uniform(0.05, 0.95, 2)
    cuts = [shapely.box(*ends) for ends in ((0, 0, x, y), (x, 0, 1, y), (0, y, x, 1), (x, y, 1, 1))]
    rows = mesh.weights(geopandas.GeoSeries([*cuts, shapely.box(0, 0, 1, 1)])).toarray()
    areas = np.array([cut.area for cut in cuts])
    np.testing.assert_allclose(areas @ rows[:4], rows[4], atol=1e-12)


def test_quadratures_are_exact_for_fields(mesh):
    values = np.random.default_rng(2).standard_normal(mesh.n_vertices)
    points, weights = mesh.quadrature()
    np.testing.assert_array_equal(points[: mesh.n_vertices], mesh.vertices)
    values_there = mesh.weights(points) @ values
    integral = mesh.elements.lumped_mass @ values
    assert weights @ values_there == pytest.approx(integral, rel=1e-9)
    region = GEOMETRIES["polygon with a hole"]
    points, weights = mesh.quadrature(region)
    average = mesh.weights(geopandas.GeoSeries([region])) @ values
    found = weights @ (mesh.weights(points) @ values)
    assert found == pytest.approx(region.area * average[0], rel=1e-9)
    assert weights.sum() == pytest.approx(region.area, rel=1e-12)
    assert (weights > 0).all()


def test_quadratures_are_exact_for_cubic_functions_where_the_mesh_keeps_the_region(mesh):
    points, weights = mesh.quadrature(shapely.box(0, 0, 1, 1))
    x, y = points.T
    assert weights @ (x**2 * y) == pytest.approx(1 / 6, rel=1e-12)
    assert weights @ (x**3 - y**3 + 1) == pytest.approx(1, rel=1e-12)
    # corners are among the points: a field that alternates there has a cost
    apart = np.linalg.norm(points[:, None] - mesh.vertices, axis=2).min(axis=0)
    inside = (mesh.vertices >= 0).all(axis=1) & (mesh.vertices <= 1).all(axis=1)
    assert apart[inside].max() == 0


BAD = {
    "outside": (shapely.box(0.2, 0.3, 7, 0.9), r"`places` must lie in the mesh.*row 1.*margin"),
    "a line outside": (shapely.LineString([(0, 0), (9, 9)]), r"must lie in the mesh"),
    "crosses itself": (
        shapely.Polygon([(0, 0), (1, 1), (1, 0), (0, 1)]),
        r"must be valid, but row 1.*Self-intersection.*make_valid",
    ),
    "empty": (shapely.Polygon(), r"not empty.*row 1"),
    "missing": (None, r"not empty.*row 1"),
    "several points": (
        shapely.MultiPoint([(0, 0), (1, 1)]),
        r"polygons or lines, got a MultiPoint in row 1",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_geometries_that_have_no_average_are_refused(mesh, case):
    geometry, said = BAD[case]
    with pytest.raises(ValueError, match=said):
        mesh.weights(geopandas.GeoSeries([GEOMETRIES["box"], geometry, shapely.Point(0.5, 0.5)]))


def test_degrees_and_surfaces_are_refused(mesh):
    series = geopandas.GeoSeries([GEOMETRIES["box"]])
    with pytest.raises(ValueError, match=r"degrees.*to_crs"):
        mesh.weights(series.set_crs(4326))
    with pytest.raises(ValueError, match="surface"):
        TriangleMesh.sphere(1).weights(series)
    with pytest.raises(ValueError, match=r"`region`.*surface"):
        TriangleMesh.sphere(1).quadrature(GEOMETRIES["box"])
