"""Mass, stiffness and angles of triangles against integrals, exact identities and fmesher."""

from __future__ import annotations

import numpy as np
import pytest

from graphrf.gp.fields.elements import Elements, smallest_angles, triangle_areas
from graphrf.gp.fields.mesh_precision import MeshMatrices
from tests.support.spatial_data import matrix, mesh_of, needs_spatial_data, spatial

VERTICES = np.array([[0.0, 0.0], [2.0, 0.2], [2.3, 1.9], [0.1, 1.4], [1.1, 0.9]])
TRIANGLES = np.array([[0, 1, 4], [1, 2, 4], [2, 3, 4], [3, 0, 4]])
NAMES = {"pcod_2011": ("c0", "g1", "g2"), "leukaemia": ("M0", "M1", "M2")}


def test_integrals_of_quadratic_and_linear_functions_are_exact():
    elements = Elements.of(VERTICES, TRIANGLES)
    x, y = VERTICES.T
    f, g = 1 + 2 * x - y, 3 - x + 0.5 * y
    corners = VERTICES[TRIANGLES]
    middle = 0.5 * (corners + np.roll(corners, 1, axis=1))
    # the rule of edge midpoints is exact for polynomials of degree two
    at = (1 + 2 * middle[..., 0] - middle[..., 1]) * (3 - middle[..., 0] + 0.5 * middle[..., 1])
    wanted = (at.mean(axis=1) * elements.areas).sum()
    assert f @ elements.mass @ g == pytest.approx(wanted, rel=1e-13)
    assert f @ elements.stiffness() @ g == pytest.approx(-2.5 * elements.areas.sum(), rel=1e-13)
    np.testing.assert_allclose(elements.mass.sum(axis=1), elements.lumped_mass, rtol=1e-13)


def test_anisotropic_stiffness_is_the_integral_of_gradients():
    elements = Elements.of(VERTICES, TRIANGLES)
    h = np.array([[2.0, 0.3], [0.3, 0.6]])
    x, y = VERTICES.T
    found = (1 + 2 * x - y) @ elements.stiffness(np.broadcast_to(h, (4, 2, 2))) @ (y - x)
    assert found == pytest.approx(np.array([2, -1]) @ h @ [-1, 1] * elements.areas.sum(), rel=1e-13)
    same = elements.stiffness(np.broadcast_to(np.eye(2), (4, 2, 2)))
    np.testing.assert_allclose(same.toarray(), elements.stiffness().toarray(), atol=1e-14)


def test_matrices_do_not_change_with_rotations_into_space_and_the_order_of_corners():
    flat = Elements.of(VERTICES, TRIANGLES)
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    space = Elements.of(np.column_stack([VERTICES, np.zeros(5)]) @ turn, TRIANGLES[:, [1, 0, 2]])
    for name in ("mass", "stiffness"):
        one, other = getattr(flat, name), getattr(space, name)
        one, other = (each() if callable(each) else each for each in (one, other))
        np.testing.assert_allclose(one.toarray(), other.toarray(), atol=1e-13)


def test_angles_and_areas_of_known_triangles():
    right = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]])
    even = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 0.75**0.5]])
    sliver = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 1e-9]])
    corners = np.stack([right, even, sliver])
    np.testing.assert_allclose(triangle_areas(corners), [6.0, 0.5 * 0.75**0.5, 5e-10], rtol=1e-12)
    wanted = np.degrees([np.arctan(3 / 4), np.pi / 3, np.arctan(2e-9)])
    np.testing.assert_allclose(smallest_angles(corners), wanted, rtol=1e-12)


@needs_spatial_data
@pytest.mark.parametrize("name", NAMES)
def test_matrices_are_those_of_fmesher(name):
    data = spatial(name)
    mesh, matrices = mesh_of(data), MeshMatrices(mesh_of(data).elements, 2)
    pattern = matrices.pattern
    for own, other in zip(matrices.powers, NAMES[name], strict=True):
        found = type(pattern)((own, pattern.indices, pattern.indptr), shape=pattern.shape)
        wanted = matrix(data, other, mesh.n_vertices)
        assert abs(found - wanted).max() < 1e-12 * abs(wanted).max(), other
    if name == "pcod_2011":
        wanted = matrix(data, "c1", mesh.n_vertices)
        assert abs(mesh.elements.mass - wanted).max() < 1e-12 * abs(wanted).max()
