"""Meshes of regions: area, edges, angles, borders, and that triangles fit together."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial import ConvexHull

from graphrf.gp import TriangleMesh
from graphrf.gp.fields.mesher import simplified
from tests.support.spatial_data import border_of_parana, mesh_of, needs_spatial_data, spatial

shapely = pytest.importorskip("shapely")

SQUARE = shapely.box(0, 0, 1, 1)
REGIONS = {
    "square": (SQUARE, 0.1),
    "coarse square": (SQUARE, 3.0),
    "strip": (shapely.box(0, 0, 10, 0.3), 0.2),
    "L shape": (shapely.Polygon([(0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2)]), 0.15),
    "hole": (SQUARE.difference(shapely.box(0.3, 0.3, 0.6, 0.7)), 0.07),
    "two holes": (
        SQUARE.difference(
            shapely.union_all([shapely.box(0.1, 0.1, 0.4, 0.4), shapely.box(0.6, 0.5, 0.9, 0.9)])
        ),
        0.06,
    ),
    "two parts": (shapely.union_all([SQUARE, shapely.box(1.5, 0, 2.5, 1)]), 0.2),
    "disc with a round hole": (
        shapely.Point(0, 0).buffer(1).difference(shapely.Point(0.2, 0).buffer(0.3)),
        0.2,
    ),
    "regular hexagon": (
        shapely.Polygon([(np.cos(a), np.sin(a)) for a in np.arange(6) * np.pi / 3]),
        5.0,
    ),
}


def holes_of(region):
    return sum(len(part.interiors) for part in shapely.get_parts(region))


def parts_of(region):
    return len(shapely.get_parts(region))


def check_conforming(mesh, region):
    """Each edge has one or two triangles, those of the border form its outline, and Euler's number
    is that of the region.
    """
    edges = np.sort(mesh.triangles[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
    unique, counts = np.unique(edges, axis=0, return_counts=True)
    assert counts.max() <= 2
    euler = mesh.n_vertices - len(unique) + mesh.n_triangles
    assert euler == parts_of(region) - holes_of(region)
    assert mesh.parts.max() + 1 == parts_of(region)
    border = mesh.vertices[unique[counts == 1]]
    length = np.linalg.norm(border[:, 1] - border[:, 0], axis=1).sum()
    assert length == pytest.approx(region.length, rel=1e-9)


def check_mesh(region, max_edge, angle=20.0):
    mesh = TriangleMesh.from_points(None, boundary=region, max_edge=max_edge, margin=0)
    coarse = simplified(region, max_edge)
    assert mesh.area == pytest.approx(coarse.area, rel=1e-9)
    assert mesh.edge_lengths.max() <= max_edge * (1 + 1e-12)
    assert mesh.smallest_angle >= angle
    check_conforming(mesh, coarse)
    return mesh


@pytest.mark.parametrize("name", REGIONS)
def test_meshes_of_regions(name):
    region, max_edge = REGIONS[name]
    mesh = check_mesh(region, max_edge)
    if "disc" not in name:  # whose polygons have details that are left out
        assert mesh.area == pytest.approx(region.area, rel=1e-12)


@pytest.mark.parametrize("name", ["square", "L shape", "hole", "two holes"])
def test_margins_are_graded_around_a_region(name):
    region, max_edge = REGIONS[name]
    mesh = TriangleMesh.from_points(
        None, boundary=region, max_edge=max_edge, margin=0.5, margin_edge=3 * max_edge
    )
    assert mesh.smallest_angle >= 20
    assert mesh.edge_lengths.max() <= 3 * max_edge * (1 + 1e-12)
    corners = mesh.vertices[mesh.triangles]
    sides = np.linalg.norm(corners[:, [1, 2, 0]] - corners, axis=2).max(axis=1)
    centres = corners.mean(axis=1)
    inside = shapely.contains_xy(region, centres)
    assert sides[inside].max() <= max_edge * (1 + 1e-12)
    assert sides.max() > 1.5 * max_edge
    # the border of the region is kept: triangles are in it, or outside
    areas = mesh.elements.areas
    assert areas[inside].sum() == pytest.approx(region.area, rel=1e-9)
    hull = shapely.Polygon(region.exterior).buffer(0.5)
    assert areas.sum() == pytest.approx(hull.area - (holes_area(region)), rel=0.1)
    edges = np.sort(mesh.triangles[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
    unique = np.unique(edges, axis=0)
    assert mesh.n_vertices - len(unique) + mesh.n_triangles == 1 - holes_of(region)


def holes_area(region):
    return sum(shapely.Polygon(ring).area for ring in region.interiors)


@given(st.integers(0, 10_000))
def test_meshes_of_random_hulls(seed):
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((int(rng.integers(4, 12)), 2)) * [1.0, rng.uniform(0.3, 1.0)]
    hull = shapely.Polygon(points[ConvexHull(points).vertices])
    # the angle at a corner of the border may be smaller than what refinement can promise
    ring = shapely.get_coordinates(simplified(hull, 0.3))[:-1]
    before, after = np.roll(ring, 1, axis=0) - ring, np.roll(ring, -1, axis=0) - ring
    lengths = np.linalg.norm(before, axis=1) * np.linalg.norm(after, axis=1)
    corner = np.degrees(np.arccos(((before * after).sum(axis=1) / lengths).clip(-1, 1))).min()
    with warnings.catch_warnings():
        if 0.45 * corner < 5:  # the warning of small angles may then be right
            warnings.filterwarnings("ignore", ".*an angle below 5 or")
        check_mesh(hull, 0.3, min(20.0, 0.45 * corner))


@given(st.integers(0, 10_000))
def test_meshes_around_points_hold_them(seed):
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((int(rng.integers(3, 60)), 2)) * 10.0 ** rng.uniform(-3, 3)
    points = np.vstack([points, points[:2]])  # repeated places
    mesh = TriangleMesh.from_points(points)
    weights = mesh.weights(points)
    np.testing.assert_allclose(weights @ mesh.vertices, points, atol=1e-9 * mesh.diameter)
    assert mesh.smallest_angle > 15
    hull = shapely.MultiPoint(points).convex_hull
    assert mesh.area > hull.area


def test_holes_may_touch_at_a_point():
    """Two points at one place, of which no edge could begin, were halved without end."""
    holes = [[(0.2, 0.2), (0.5, 0.5), (0.2, 0.5)], [(0.5, 0.5), (0.8, 0.5), (0.8, 0.8)]]
    region = shapely.Polygon([(0, 0), (1, 0), (1, 1), (0, 1)], holes)
    mesh = TriangleMesh.from_points(None, boundary=region, max_edge=0.1, margin=0)
    assert mesh.area == pytest.approx(region.area, rel=1e-12)
    assert mesh.smallest_angle >= 20


def test_narrow_parts_keep_their_shape():
    """They are far narrower than an edge, and would be left out as details."""
    mesh = TriangleMesh.from_points(
        None, boundary=shapely.box(0, 0, 10, 0.3), max_edge=4.0, margin=0
    )
    assert mesh.area == pytest.approx(3.0, rel=1e-9)


def test_refinement_that_does_not_end_is_told(monkeypatch):
    monkeypatch.setattr("graphrf.gp.fields.mesher._GROWTH", 1)
    with pytest.raises(ValueError, match=r"`boundary` must have an outline.*simplify"):
        TriangleMesh.from_points(None, boundary=REGIONS["two holes"][0], max_edge=0.1, margin=0)


def test_sizes_and_places_may_be_shifted_and_scaled():
    """Northings of millions of metres do not change what is made."""
    region, max_edge = REGIONS["L shape"]
    plain = TriangleMesh.from_points(None, boundary=region, max_edge=max_edge, margin=0.3)
    far = shapely.transform(region, lambda x: 1000 * x + [5e5, 6e6])
    mesh = TriangleMesh.from_points(None, boundary=far, max_edge=1000 * max_edge, margin=300)
    assert mesh.area == pytest.approx(1e6 * plain.area, rel=1e-6)
    assert mesh.n_vertices == pytest.approx(plain.n_vertices, rel=0.1)
    assert mesh.smallest_angle >= 20


def test_the_same_input_gives_the_same_mesh():
    one, other = (
        TriangleMesh.from_points(None, boundary=SQUARE, max_edge=0.1, margin=0.2) for _ in range(2)
    )
    np.testing.assert_array_equal(one.vertices, other.vertices)
    np.testing.assert_array_equal(one.triangles, other.triangles)


@needs_spatial_data
@pytest.mark.parametrize("max_edge", [20.0, 60.0])
def test_a_state_with_a_ragged_border(max_edge):
    region = border_of_parana()
    mesh = check_mesh(region, max_edge, angle=18.0)
    assert mesh.area == pytest.approx(region.area, rel=0.02)
    wide = TriangleMesh.from_points(None, boundary=region, max_edge=max_edge)
    assert wide.smallest_angle >= 18
    assert wide.edge_lengths.max() <= 4 * max_edge * (1 + 1e-12)


@needs_spatial_data
@pytest.mark.parametrize("name", ["fmesher_unit_square", "fmesher_lshape"])
def test_meshes_have_no_more_vertices_than_those_of_fmesher_need(name):
    """For the same longest edge and area; fmesher's may have a margin, which is compared by
    density.
    """
    data = spatial(name)
    other = mesh_of(data)
    longest = float(other.edge_lengths.max())
    region = shapely.Polygon(data["boundary"])
    mesh = TriangleMesh.from_points(None, boundary=region, max_edge=longest, margin=0)
    density, wanted = mesh.n_vertices / mesh.area, other.n_vertices / other.area
    assert density < 1.5 * wanted
