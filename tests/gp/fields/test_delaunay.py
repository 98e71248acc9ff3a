"""Delaunay triangles against those of qhull, and how many a new point changes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial import Delaunay

from graphrf.gp.fields.delaunay import Triangulation
from graphrf.gp.fields.elements import triangle_areas
from graphrf.gp.fields.mesher import triangulated

shapely = pytest.importorskip("shapely")


def sorted_triangles(triangles):
    triangles = np.sort(triangles, axis=1)
    return triangles[np.lexsort(triangles.T)]


def check_tiling(mesh):
    """The triangles are anticlockwise, fill the square, and are as many as Euler's formula says."""
    corners = mesh.points[mesh.triangles]
    first, second = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    assert (first[:, 0] * second[:, 1] > first[:, 1] * second[:, 0]).all()
    area = np.ptp(mesh.points[:4], axis=0).prod()
    assert triangle_areas(corners).sum() == pytest.approx(area, rel=1e-12)
    assert len(mesh.triangles) == 2 * np.unique(mesh.triangles).size - 6


@given(st.integers(0, 10_000))
def test_triangles_are_those_of_qhull(seed):
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((int(rng.integers(3, 400)), 2))
    mesh = Triangulation(points)
    more = rng.uniform(points.min(axis=0), points.max(axis=0), (50, 2))
    mesh.add(more, rng.permutation(50), np.zeros(50, dtype=np.int64))
    np.testing.assert_array_equal(mesh.points[4:], np.vstack([points, more]))
    check_tiling(mesh)
    np.testing.assert_array_equal(
        sorted_triangles(mesh.triangles), sorted_triangles(Delaunay(mesh.points).simplices)
    )


@pytest.mark.parametrize("shift", [0.0, 5e6])
@pytest.mark.parametrize("kind", ["lattice", "line", "circle", "repeated"])
def test_points_on_lines_and_circles_and_repeated_points(kind, shift):
    steps = np.arange(30.0)
    angles = 2 * np.pi * steps / 30
    points = {
        "lattice": np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2),
        "line": np.column_stack([steps, 0.3 * steps]),
        "circle": np.column_stack([np.cos(angles), np.sin(angles)]),
        "repeated": np.repeat(np.column_stack([steps, steps**2]), 3, axis=0),
    }[kind]
    mesh = Triangulation(points + shift)
    check_tiling(mesh)
    again = mesh.add(points[:3] + shift, np.arange(3), np.full(3, -1))
    assert not again.any()
    check_tiling(mesh)
    assert np.unique(mesh.triangles).size == 4 + len(np.unique(points, axis=0))


def test_segments_that_are_no_edges_and_with_obtuse_angles():
    points = np.array([[0, 0], [4, 0], [2, 0.5], [2, -20], [2, 9]])
    mesh = Triangulation(points)
    missing, obtuse = mesh.states(4 + np.array([[0, 1], [1, 0], [0, 2], [3, 4]]))
    np.testing.assert_array_equal(missing, [False, False, False, True])
    np.testing.assert_array_equal(obtuse, [True, True, False, False])


def test_a_point_changes_few_triangles_however_many_there_are():
    rng = np.random.default_rng(0)
    for n in (1_000, 30_000):
        mesh = Triangulation(rng.random((n, 2)))
        assert mesh.changed().size == len(mesh.triangles)
        mesh.add(rng.random((100, 2)), np.arange(100), np.full(100, -1))
        assert 300 < mesh.changed().size < 1_000  # six on average
        assert mesh.changed().size == 0


@pytest.mark.parametrize("edge", [0.04, 0.01])
def test_sizes_are_wanted_once_for_each_triangle_and_where_it_changes(edge):
    evaluated = []

    def size(x):
        evaluated.append(len(x))
        return np.full(len(x), edge)

    square = shapely.box(0, 0, 1, 1)
    # `least` below all sizes: no triangle is good by it alone
    _, triangles = triangulated(square, [square], size, 0.1 * edge, [(square, 0.86 * edge)])
    assert sum(evaluated) < 2 * len(triangles)
