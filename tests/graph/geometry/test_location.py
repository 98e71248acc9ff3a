"""Points in triangles against all triangles, in the plane and on surfaces."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial import ConvexHull, Delaunay

from graphrf.gp import TriangleMesh
from graphrf.graph.geometry.location import TriangleGrid, TriangleTree, closest
from tests.support.spatial_data import matrix, mesh_of, needs_spatial_data, spatial


def by_brute_force(points, corners):
    """The distance of each point to the nearest of all triangles."""
    n, t = len(points), len(corners)
    pairs = np.repeat(points, t, axis=0), np.tile(corners, (n, 1, 1))
    return closest(*pairs)[1].reshape(n, t).min(axis=1)


def distance_by_samples(point, corners):
    """The distance to a triangle, from above, by many of its points."""
    share = np.stack(np.meshgrid(*2 * [np.linspace(0, 1, 201)]), -1).reshape(-1, 2)
    share = share[share.sum(axis=1) <= 1]
    weights = np.column_stack([share, 1 - share.sum(axis=1)])
    return np.linalg.norm(weights @ corners - point, axis=1).min()


@pytest.mark.parametrize("dimension", [2, 3])
def test_closest_points_of_one_triangle(dimension):
    rng = np.random.default_rng(dimension)
    corners, points = rng.standard_normal((40, 3, dimension)), rng.standard_normal((40, dimension))
    weights, distance = closest(points, corners)
    assert (weights >= 0).all()
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-14)
    nearest = np.einsum("ij,ijk->ik", weights, corners)
    np.testing.assert_allclose(np.linalg.norm(nearest - points, axis=1), distance, atol=1e-12)
    for row in range(40):
        sampled = distance_by_samples(points[row], corners[row])
        assert distance[row] <= sampled + 1e-12
        assert sampled - distance[row] < 0.03


@given(st.integers(0, 10_000))
def test_planar_points_are_in_their_triangles(seed):
    rng = np.random.default_rng(seed)
    vertices = rng.random((40, 2)) * [1.0, 10.0 ** rng.uniform(-2, 2)]
    triangles = Delaunay(vertices).simplices
    corners = vertices[triangles]
    some = rng.dirichlet(np.ones(3), 30)
    inside = np.einsum("ij,ijk->ik", some, corners[rng.integers(0, len(corners), 30)])
    points = np.vstack([inside, vertices, 0.5 * (corners[:, 0] + corners[:, 1])])
    located = TriangleGrid(corners).containing(points)
    assert (located.triangle >= 0).all()
    found = np.einsum("ij,ijk->ik", located.weights, corners[located.triangle])
    np.testing.assert_allclose(found, points, atol=1e-8 * np.ptp(vertices, axis=0).max())


@given(st.integers(0, 10_000))
def test_nearest_triangles_are_those_of_all(seed):
    """Of sizes that differ by many powers of ten, which trees of one size would miss."""
    rng = np.random.default_rng(seed)
    vertices = np.exp(rng.uniform(-6, 0, (60, 1))) * rng.standard_normal((60, 3))
    triangles = rng.integers(0, 60, (80, 3))
    triangles = triangles[(np.diff(np.sort(triangles, axis=1), axis=1) > 0).all(axis=1)]
    corners = vertices[triangles]
    points = np.exp(rng.uniform(-6, 1, (25, 1))) * rng.standard_normal((25, 3))
    located = TriangleTree(corners).nearest(points)
    np.testing.assert_allclose(located.distance, by_brute_force(points, corners), rtol=1e-9)


@pytest.mark.filterwarnings("ignore:.*angle below")
def test_points_outside_a_planar_mesh_have_the_distance_of_its_border():
    vertices = np.random.default_rng(3).random((50, 2))
    mesh = TriangleMesh(vertices, Delaunay(vertices).simplices)
    points = np.random.default_rng(4).uniform(-2, 3, (200, 2))
    located = mesh.located(points)
    corners = mesh.vertices[mesh.triangles]
    np.testing.assert_allclose(located.distance, by_brute_force(points, corners), atol=1e-12)
    assert (located.distance == 0).any()
    assert (located.distance > 1).any()


@pytest.mark.filterwarnings("ignore:.*angle below")
def test_points_near_a_surface_are_projected_on_it():
    points = np.random.default_rng(5).standard_normal((200, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    mesh = TriangleMesh(points, ConvexHull(points).simplices)
    off = 1.02 * points[:50] + 0.01
    located = mesh.located(off)
    corners = mesh.vertices[mesh.triangles]
    np.testing.assert_allclose(located.distance, by_brute_force(off, corners), rtol=1e-10)
    np.testing.assert_allclose(mesh.weights(points).toarray(), np.eye(200), atol=1e-9)


@needs_spatial_data
@pytest.mark.parametrize("name", ["pcod_2011", "meuse"])
def test_weights_are_those_of_fmesher(name):
    data = spatial(name)
    mesh = mesh_of(data)
    if name == "meuse":
        places = data["locations"]
    else:
        places = np.column_stack([data["data_X"], data["data_Y"]])
    wanted = matrix(data, "A", len(places), mesh.n_vertices)
    assert abs(mesh.weights(places) - wanted).max() < 1e-12
