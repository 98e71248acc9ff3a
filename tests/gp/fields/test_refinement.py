"""TriangleMesh.refined: what it keeps, its angles, and the covariance of fields on it."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from scipy.spatial import ConvexHull, Delaunay

from graphrf.gp import TriangleMesh
from graphrf.gp.fields.elements import edges_of, largest_angles

pytest.importorskip("shapely")


def scattered(n: int = 60) -> TriangleMesh:
    """Random points in a square with its corners: long and obtuse triangles of all sizes."""
    points = np.vstack([np.random.default_rng(0).random((n, 2)), [[0, 0], [1, 0], [1, 1], [0, 1]]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return TriangleMesh(points, Delaunay(points).simplices)


def surface() -> TriangleMesh:
    """Uneven triangles of the hull of random points on an ellipsoid."""
    points = np.random.default_rng(1).standard_normal((80, 3))
    points *= [3.0, 2.0, 1.0] / np.linalg.norm(points, axis=1, keepdims=True)
    hull = ConvexHull(points)
    corners = points[hull.simplices]
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    inward = np.einsum("ij,ij->i", normal, hull.equations[:, :3]) < 0
    triangles = np.where(inward[:, None], hull.simplices[:, ::-1], hull.simplices)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return TriangleMesh(points, triangles)


MESHES = {"plane": scattered, "surface": surface, "sphere": lambda: TriangleMesh.sphere(1, 5.0)}


def normals(mesh: TriangleMesh) -> np.ndarray:
    """Vectors that stand on the triangles, with z alone in the plane."""
    corners = np.zeros((mesh.n_triangles, 3, 3))
    corners[..., : mesh.dimension] = mesh.vertices[mesh.triangles]
    return np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])


@pytest.mark.parametrize("share", [2.0, 0.7, 0.24])
@pytest.mark.parametrize("source", MESHES)
def test_a_refined_mesh_is_a_mesh_of_short_edges_with_the_same_vertices(source, share):
    mesh = MESHES[source]()
    edge = share * float(np.median(mesh.edge_lengths))
    fine = mesh.refined(edge)

    assert fine.edge_lengths.max() <= edge
    np.testing.assert_array_equal(fine.vertices[: mesh.n_vertices], mesh.vertices)
    assert (fine.dimension, fine.is_sphere) == (mesh.dimension, mesh.is_sphere)
    assert not np.shares_memory(fine.triangles, mesh.triangles)
    with warnings.catch_warnings():  # all that is checked of a mesh that is given
        warnings.simplefilter("ignore", UserWarning)
        TriangleMesh(fine.vertices, fine.triangles)

    # Conforming: only the border of the square has edges of one triangle.
    edges, number = edges_of(fine.triangles)
    alone = edges[np.bincount(number.ravel()) == 1]
    flat = source == "plane"
    assert (alone.size > 0) == flat
    if flat:
        ends = fine.vertices[alone]
        assert ((ends == ends[:, :1]) & np.isin(ends, [0.0, 1.0])).all(axis=1).any(axis=1).all()
    for each in (mesh, fine):
        assert each.n_vertices - len(each.edges) + each.n_triangles == (1 if flat else 2)

    # Triangles have the direction of rotation of those that they are parts of.
    whole = mesh.located(fine.vertices[fine.triangles].mean(axis=1)).triangle
    assert (np.einsum("ij,ij->i", normals(fine), normals(mesh)[whole]) > 0).all()

    if source == "sphere":
        np.testing.assert_allclose(np.linalg.norm(fine.vertices, axis=1), 5.0, rtol=1e-14)
        assert fine.smallest_angle > 0.5 * mesh.smallest_angle
        assert mesh.area <= fine.area < 4 * np.pi * 25
        return
    assert fine.area == pytest.approx(mesh.area, rel=1e-12)
    assert fine.smallest_angle >= 0.5 * mesh.smallest_angle - 1e-9
    np.testing.assert_allclose(mesh.distances(fine.vertices), 0.0, atol=1e-12)


def test_edges_that_are_short_stay():
    mesh = scattered()
    same = mesh.refined(2.0)
    assert same is not mesh
    np.testing.assert_array_equal(same.triangles, mesh.triangles)


def test_the_coordinate_reference_system_stays():
    pytest.importorskip("pyproj")
    mesh = TriangleMesh([[0, 0], [1, 0], [0, 1]], [[0, 1, 2]], crs=32633)
    assert mesh.refined(0.3).crs == mesh.crs


def test_half_orders_and_integrals_are_those_of_the_new_mesh():
    mesh = scattered()
    fine = mesh.refined(0.2)
    points, weights = fine.quadrature()
    assert weights @ points[:, 0] ** 2 == pytest.approx(1 / 3, rel=1e-12)
    assert fine.covariance([[0.5, 0.5]], range=0.5, alpha=1.5).shape == (1, 1)


def obtuse() -> tuple[TriangleMesh, TriangleMesh]:
    """A rectangle in rows of points that are far apart, with triangles along the rows, and the
    same in small triangles.
    """
    rows = []
    for number, y in enumerate(np.linspace(0, 10, 21)):
        inner = np.arange(0.5 * (number % 2), 10, 1.0) * 2.0
        rows.append([(x, y) for x in np.unique([0.0, *inner[inner <= 20], 20.0])])
    triangles, start = [], 0
    for low, high in itertools.pairwise(rows):
        i, j, n = 0, 0, start + len(low)
        while i < len(low) - 1 or j < len(high) - 1:
            below = j == len(high) - 1 or (i < len(low) - 1 and low[i + 1][0] <= high[j + 1][0])
            third = start + i + 1 if below else n + j + 1
            triangles.append((start + i, third, n + j))
            i, j = i + below, j + (not below)
        start = n
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        coarse = TriangleMesh(np.concatenate(rows), triangles)
    import shapely

    box = shapely.box(0, 0, 20, 10)
    return coarse, TriangleMesh.from_points(None, boundary=box, max_edge=0.4, margin=0)


def test_fields_on_obtuse_triangles_are_near_those_of_a_fine_mesh_once_refined():
    coarse, fine = obtuse()
    assert np.median(largest_angles(coarse.vertices[coarse.triangles])) > 120
    places = np.random.default_rng(0).uniform([2, 2], [18, 8], (40, 2))
    wanted = fine.covariance(places, range=6.0)

    def error(mesh: TriangleMesh) -> float:
        away = mesh.covariance(places, range=6.0) - wanted
        return float(np.linalg.norm(away) / np.linalg.norm(wanted))

    refined = coarse.refined(float(np.median(coarse.edge_lengths)))
    assert error(refined) < 0.4 * error(coarse)
    assert error(coarse.refined(0.4)) < 0.1 * error(coarse)


def test_refinement_that_does_not_fit_names_an_edge_that_does():
    with pytest.raises(MemoryError, match=r"about [\d,]+ vertices.*max_edge=[\d.e-]+ or longer$"):
        scattered().refined(1e-7)
    with pytest.raises(ValueError, match="`max_edge`"):
        scattered().refined(0.0)
