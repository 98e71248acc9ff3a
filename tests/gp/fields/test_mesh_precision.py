"""Precisions of fields against dense algebra, differences, and the exact Matern covariance."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import gamma, kv

from graphrf.gp import TriangleMesh
from graphrf.gp.fields.kernel import FieldKernel
from graphrf.gp.fields.mesh_precision import MeshMatrices, MeshPrecision

ALPHAS = (1, 2, 3)
RANGE = 0.4


@pytest.fixture(scope="module")
def mesh():
    places = np.random.default_rng(0).random((50, 2))
    return TriangleMesh.from_points(places, max_edge=0.2, margin=0.3)


def at(mesh, alpha, length=RANGE):
    return MeshPrecision(MeshMatrices(mesh.elements, alpha), FieldKernel(length, alpha, 2))


@pytest.mark.parametrize("alpha", ALPHAS)
def test_precision_and_determinant_are_those_of_dense_algebra(mesh, alpha):
    precision = at(mesh, alpha)
    kernel, c = precision.kernel, np.diag(mesh.elements.lumped_mass)
    k = kernel.kappa**2 * c + mesh.elements.stiffness().toarray()
    q = math.exp(kernel.log_tau_squared) * k
    for _ in range(alpha - 1):
        q = q @ np.linalg.solve(c, k)
    found = precision.matrix.toarray()
    np.testing.assert_allclose(found, q, atol=1e-12 * abs(q).max())
    assert precision.log_determinant() == pytest.approx(np.linalg.slogdet(q)[1], rel=1e-11)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_derivatives_in_the_range_are_differences(mesh, alpha):
    precision, h = at(mesh, alpha), 1e-5
    above, below = (
        precision.with_kernel(precision.kernel.replace(range=RANGE + sign * h)) for sign in (1, -1)
    )
    slope = (above.matrix - below.matrix) / (2 * h)
    assert abs(precision.derivative("range") - slope).max() < 1e-7 * abs(slope).max()
    change = (above.log_determinant() - below.log_determinant()) / (2 * h)
    assert precision.trace_of_derivative("range") == pytest.approx(change, rel=1e-7)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_draws_solve_and_weights_on_the_diagonal(mesh, alpha):
    precision = at(mesh, alpha)
    weights = np.linspace(0.5, 2.0, mesh.n_vertices)
    wanted = np.linalg.inv(precision.matrix.toarray() + np.diag(weights))
    factor = precision.factor(weights)
    np.testing.assert_allclose(
        factor.solve(np.eye(mesh.n_vertices)), wanted, atol=1e-10 * abs(wanted).max()
    )
    np.testing.assert_allclose(factor.inverse_diagonal, np.diagonal(wanted), rtol=1e-9)


@pytest.mark.parametrize("alpha", [2, 3])
def test_covariances_in_the_middle_of_a_fine_mesh_are_those_of_matern(alpha):
    """Variance 1, and the correlation function, within 1.5 %."""
    import shapely

    region = shapely.box(0, 0, 1, 1)
    mesh = TriangleMesh.from_points(
        None, boundary=region, max_edge=0.03, margin=0.8, margin_edge=0.1
    )
    precision = at(mesh, alpha)
    kernel = precision.kernel
    places = np.column_stack([0.3 + np.array([0.0, 0.1, 0.2, 0.4]), np.full(4, 0.5)])
    weights = mesh.weights(places).toarray()
    covariance = weights @ precision.factor().solve(weights.T)
    h = places[1:, 0] - places[0, 0]
    nu, x = kernel.nu, kernel.kappa * h
    correlation = 2 ** (1 - nu) / gamma(nu) * x**nu * kv(nu, x)
    np.testing.assert_allclose(np.diagonal(covariance), 1, atol=0.015)
    np.testing.assert_allclose(covariance[0, 1:], correlation, atol=0.015)
    assert covariance[0, 3] == pytest.approx(0.14, abs=0.03)  # at the distance of the range


def bumpy(subdivisions):
    """A sphere with bumps."""
    mesh = TriangleMesh.sphere(subdivisions)
    x, y, z = mesh.vertices.T
    radius = 1 + 0.1 * np.sin(3 * x) * np.cos(2 * y) + 0.05 * np.sin(4 * z)
    return TriangleMesh(radius[:, None] * mesh.vertices, mesh.triangles)


def test_a_finer_mesh_of_a_bumpy_sphere_gives_the_same_field():
    """Between edges of 0.07 and 0.035 and a range of 1.5."""
    places = bumpy(3).vertices[[0, 60, 500, 620]]  # they are vertices of the finer meshes, too
    found = []
    for subdivisions in (4, 5):
        mesh = bumpy(subdivisions)
        weights = mesh.weights(places).toarray()
        np.testing.assert_allclose(weights.max(axis=1), 1, atol=1e-6)
        found.append(weights @ at(mesh, 2, 1.5).factor().solve(weights.T))
    np.testing.assert_allclose(found[0], found[1], atol=0.02)


@pytest.mark.parametrize(("alpha", "dimension"), [(1, 1), (2, 1), (2, 2), (3, 2)])
def test_the_scale_of_the_kernel_is_the_integral_of_its_spectrum(alpha, dimension):
    """Variance 1: the spectral density tau^-2 (kappa^2 + |w|^2)^-alpha / (2 pi)^d, integrated."""
    from scipy.integrate import quad

    kernel = FieldKernel(0.7, alpha, dimension)
    shell = 2.0 if dimension == 1 else 2 * np.pi
    integral = quad(
        lambda w: shell * w ** (dimension - 1) * (kernel.kappa**2 + w * w) ** -alpha, 0, np.inf
    )[0]
    found = integral / (2 * np.pi) ** dimension / math.exp(kernel.log_tau_squared)
    assert found == pytest.approx(1, rel=1e-6)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_fields_do_not_depend_on_the_unit_of_coordinates(mesh, alpha):
    scaled = TriangleMesh(1000.0 * mesh.vertices, mesh.triangles)
    first, second = at(mesh, alpha), at(scaled, alpha, 1000.0 * RANGE)
    np.testing.assert_allclose(first.matrix.data, second.matrix.data, rtol=1e-9)
