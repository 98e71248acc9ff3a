"""Fields of order 3/2 and 5/2 against dense algebra, differences, and exact covariances."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import gamma, kv

from graphrf.gp import TriangleMesh
from graphrf.gp.fields.half_order_precision import HalfOrderMatrices, HalfOrderPrecision
from graphrf.gp.fields.kernel import FieldKernel

ALPHAS = (1.5, 2.5)
START = 0.4
# The largest relative error of any variance at the range where a search starts.
LARGEST = 0.07


@pytest.fixture(scope="module")
def mesh():
    places = np.random.default_rng(0).random((50, 2))
    return TriangleMesh.from_points(places, max_edge=0.1, margin=0.3)


def at(mesh, alpha, length=START):
    matrices = HalfOrderMatrices(mesh.elements, alpha, START)
    return HalfOrderPrecision(matrices, FieldKernel(length, alpha, 2))


def spectrum_of(mesh, kernel):
    """Eigenvalues of B, and of C^-1/2 times its eigenvectors."""
    root = np.sqrt(mesh.elements.lumped_mass)
    scaled = mesh.elements.stiffness().toarray() / np.outer(root, root)
    values, vectors = np.linalg.eigh(scaled)
    return kernel.kappa**2 + np.maximum(values, 0), vectors / root[:, None]


# Up to a ratio of 4e6 of the ends of the spectrum.
@pytest.mark.parametrize("length", [0.1, START, 4.0, 40.0])
@pytest.mark.parametrize("alpha", ALPHAS)
def test_no_variance_errs_by_more_than_the_sum_of_resolvents(mesh, alpha, length):
    """Of no combination of values, which bounds those of every posterior; and the matrix is
    symmetric and positive definite.
    """
    precision = at(mesh, alpha, length)
    dense = precision.matrix.toarray()
    np.testing.assert_allclose(dense, dense.T, atol=1e-14 * abs(dense).max())
    np.linalg.cholesky(dense)
    values, vectors = spectrum_of(mesh, precision.kernel)
    v = mesh.n_vertices
    covariance = precision.factor().solve(np.eye(precision.n_nodes, v))[:v]
    tau = math.exp(0.5 * precision.kernel.log_tau_squared)
    # the covariance in units of the exact one
    whitened = tau * (vectors * values ** (0.5 * alpha)).T * mesh.elements.lumped_mass
    ratios = np.linalg.eigvalsh(whitened @ covariance @ whitened.T)
    error = precision._chain.error
    assert abs(ratios - 1).max() <= error * 1.001 + 1e-5
    if length <= START:
        assert error <= LARGEST


@pytest.mark.parametrize("alpha", ALPHAS)
def test_variances_of_the_prior_err_by_less_than_one_percent(mesh, alpha):
    precision = at(mesh, alpha)
    values, vectors = spectrum_of(mesh, precision.kernel)
    exact = (vectors**2 @ values**-alpha) / math.exp(precision.kernel.log_tau_squared)
    found = precision.factor().inverse_diagonal[: mesh.n_vertices]
    np.testing.assert_allclose(found, exact, rtol=0.01)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_determinants_and_derivatives_are_those_of_the_matrix(mesh, alpha):
    precision, h = at(mesh, alpha), 1e-5
    determinant = np.linalg.slogdet(precision.matrix.toarray())[1]
    assert precision.log_determinant() == pytest.approx(determinant, rel=1e-10)
    above, below = (
        precision.with_kernel(precision.kernel.replace(range=START + sign * h)) for sign in (1, -1)
    )
    slope = (above.matrix - below.matrix) / (2 * h)
    change = precision.derivative("range")
    assert abs(change - slope).max() < 1e-7 * abs(slope).max()
    trace = (above.log_determinant() - below.log_determinant()) / (2 * h)
    assert precision.trace_of_derivative("range") == pytest.approx(trace, rel=1e-7)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_covariances_in_the_middle_of_a_fine_mesh_are_those_of_matern(alpha):
    """Variance 1, and the correlation function, within 1 %; that of order 3/2 is exponential.

    Of its variance, 1.5 % more than that of Matern are due to the elements: it is not smooth.
    """
    import shapely

    mesh = TriangleMesh.from_points(
        None, boundary=shapely.box(0, 0, 1, 1), max_edge=0.02, margin=0.8, margin_edge=0.1
    )
    precision = at(mesh, alpha)
    places = np.column_stack([0.3 + np.array([0.0, 0.05, 0.1, 0.2, 0.4]), np.full(5, 0.5)])
    vertices = mesh.weights(places).argmax(axis=1)  # between vertices the variance is smaller
    padded = np.eye(precision.n_nodes)[:, vertices]
    covariance = precision.factor().solve(padded)[vertices]
    nu = precision.kernel.nu
    h = np.linalg.norm(mesh.vertices[vertices] - mesh.vertices[vertices[0]], axis=1)[1:]
    x = precision.kernel.kappa * h
    correlation = 2 ** (1 - nu) / gamma(nu) * x**nu * kv(nu, x)
    if alpha == 1.5:
        np.testing.assert_allclose(correlation, np.exp(-2 * h / START), rtol=1e-10)
    np.testing.assert_allclose(covariance[0, 1:], correlation, atol=0.01)
    np.testing.assert_allclose(np.diagonal(covariance), 1, atol=0.025 if alpha == 1.5 else 0.01)
