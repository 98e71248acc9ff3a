"""Fields that differ between places and directions: dense algebra, and fields that they equal."""

from __future__ import annotations

import math

import numpy as np
import pytest

from graphrf.gp import TriangleMesh
from graphrf.gp.fields.kernel import FieldKernel
from graphrf.gp.fields.mesh_precision import MeshMatrices, MeshPrecision
from graphrf.gp.fields.varying_precision import Coefficients, VaryingMatrices, VaryingPrecision

shapely = pytest.importorskip("shapely")
ALPHAS = (1, 2, 3)
RANGE = 0.4


@pytest.fixture(scope="module")
def mesh():
    places = np.random.default_rng(0).random((50, 2))
    return TriangleMesh.from_points(places, max_edge=0.2, margin=0.3)


def grid(n, width=1.0):
    """Right-angled triangles, in whose stiffness some entries are 0."""
    x = np.linspace(0, width, n)
    vertices = np.stack(np.meshgrid(x, x), axis=-1).reshape(-1, 2)
    first = (np.arange(n - 1)[:, None] * n + np.arange(n - 1)).ravel()
    lower = np.stack([first, first + 1, first + n], axis=1)
    upper = np.stack([first + 1, first + n + 1, first + n], axis=1)
    return TriangleMesh(vertices, np.concatenate([lower, upper]))


def constant(mesh, diffusion=(1.0,), length=RANGE):
    n = mesh.n_vertices
    return Coefficients(np.array(diffusion), np.full(n, math.log(length)), np.zeros(n))


def changing(mesh):
    """Coefficients that differ between vertices, with an anisotropy."""
    x, y = mesh.vertices.T
    return Coefficients(
        np.array([1.7, 0.4, (1 + 0.4**2) / 1.7]), math.log(RANGE) + 0.3 * x, 0.5 * y - 0.2 * x
    )


@pytest.mark.parametrize("alpha", ALPHAS)
def test_constant_coefficients_give_the_stationary_precision(mesh, alpha):
    kernel = FieldKernel(RANGE, alpha, 2)
    wanted = MeshPrecision(MeshMatrices(mesh.elements, alpha), kernel)
    for anisotropic, diffusion in ((False, (1.0,)), (True, (1.0, 0.0, 1.0))):
        matrices = VaryingMatrices(mesh.elements, alpha, anisotropic=anisotropic)
        found = VaryingPrecision(matrices, constant(mesh, diffusion))
        scale = abs(wanted.matrix).max()
        assert abs(found.matrix - wanted.matrix).max() < 1e-13 * scale
        assert found.log_determinant() == pytest.approx(wanted.log_determinant(), rel=1e-12)
        nothing = np.zeros(mesh.n_vertices)
        change = Coefficients(np.zeros(len(diffusion)), nothing + 1, nothing)
        slope = RANGE * wanted.derivative("range")
        assert abs(found.derivative(change) - slope).max() < 1e-12 * abs(slope).max()
        trace = RANGE * wanted.trace_of_derivative("range")
        assert found.trace_of_derivative(change) == pytest.approx(trace, rel=1e-10)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_varying_precisions_are_those_of_dense_algebra(mesh, alpha):
    shares = np.where(np.arange(mesh.n_triangles) % 5 == 0, 0.2, 1.0) if alpha == 2 else None
    squares = np.ones(mesh.n_triangles) if shares is None else shares**2
    coefficients = changing(mesh)
    a, b, c = coefficients.diffusion
    matrices = VaryingMatrices(mesh.elements, alpha, anisotropic=True, shares=shares)
    precision = VaryingPrecision(matrices, coefficients)
    kernel = FieldKernel(1.0, alpha, 2)
    kappa = kernel.kappa / np.exp(coefficients.log_range)
    tau = np.exp(kernel.log_tau_squared / 2 - coefficients.log_deviation)
    tau *= (kappa / kernel.kappa) ** -kernel.excess
    noise = np.zeros(mesh.n_vertices)
    for triangle, area, square in zip(mesh.triangles, mesh.elements.areas, squares, strict=True):
        noise[triangle] += square * area / 3
    g = mesh.elements.stiffness(squares[:, None, None] * np.array([[a, b], [b, c]])).toarray()
    k = np.diag(kappa**2 * mesh.elements.lumped_mass) + g
    q = k
    for _ in range(alpha - 1):
        q = q @ (k / noise[:, None])
    q = tau[:, None] * q * tau
    found = precision.matrix.toarray()
    np.testing.assert_allclose(found, q, atol=1e-12 * abs(q).max())
    assert precision.log_determinant() == pytest.approx(np.linalg.slogdet(q)[1], rel=1e-11)


@pytest.mark.parametrize("name", Coefficients._fields)
@pytest.mark.parametrize("alpha", ALPHAS)
def test_derivatives_are_differences(mesh, alpha, name):
    matrices = VaryingMatrices(mesh.elements, alpha, anisotropic=True)
    middle, h = changing(mesh), 1e-5
    away = np.random.default_rng(1).standard_normal(len(getattr(middle, name)))
    change = Coefficients(np.zeros(3), *np.zeros((2, mesh.n_vertices)))._replace(**{name: away})
    low, high = (
        VaryingPrecision(
            matrices, middle._replace(**{name: getattr(middle, name) + sign * h * away})
        )
        for sign in (-1, 1)
    )
    precision = VaryingPrecision(matrices, middle)
    difference = (high.matrix - low.matrix) / (2 * h)
    found = precision.derivative(change)
    assert abs(found - difference).max() < 1e-7 * abs(difference).max()
    slope = (high.log_determinant() - low.log_determinant()) / (2 * h)
    assert precision.trace_of_derivative(change) == pytest.approx(slope, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_patterns_are_the_same_for_all_coefficients(alpha):
    """Entries of the stiffness are 0 on right-angled triangles where H is the identity."""
    mesh = grid(6)
    matrices = VaryingMatrices(mesh.elements, alpha, anisotropic=True)
    isotropic = VaryingPrecision(matrices, constant(mesh, (1.0, 0.0, 1.0))).matrix
    other = VaryingPrecision(matrices, changing(mesh)).matrix
    np.testing.assert_array_equal(isotropic.indices, other.indices)
    np.testing.assert_array_equal(isotropic.indptr, other.indptr)
    assert (other.data != 0).sum() > (isotropic.data != 0).sum()


@pytest.mark.parametrize("alpha", [2, 3])
def test_an_anisotropic_field_is_an_isotropic_one_of_stretched_coordinates(mesh, alpha):
    """A field of range r in (x / 2, y) has the ranges 2 r and r: their root of the product is
    sqrt(2) r, and H has the eigenvalues 2 and 1 / 2.
    """
    halved = TriangleMesh(mesh.vertices / [2.0, 1.0], mesh.triangles)
    wanted = MeshPrecision(MeshMatrices(halved.elements, alpha), FieldKernel(RANGE, alpha, 2))
    matrices = VaryingMatrices(mesh.elements, alpha, anisotropic=True)
    found = VaryingPrecision(matrices, constant(mesh, (2.0, 0.0, 0.5), 2**0.5 * RANGE))
    scale = abs(wanted.matrix).max()
    assert abs(found.matrix - wanted.matrix).max() < 1e-12 * scale
    assert found.log_determinant() == pytest.approx(wanted.log_determinant(), rel=1e-12)


def test_barriers_have_the_equation_of_bakka_and_others(mesh):
    """Their Sec. 2: u - div(r^2 / 8 grad u) = r sqrt(pi / 2) W, with lumped masses."""
    land = mesh.vertices[mesh.triangles].mean(axis=1)[:, 0] > 0.6
    precision = VaryingPrecision(
        VaryingMatrices(mesh.elements, 2, shares=np.where(land, 0.2, 1.0)), constant(mesh)
    )
    squares = RANGE**2 * np.where(land, 0.04, 1.0)
    a = np.diag(mesh.elements.lumped_mass) + mesh.elements.stiffness(squares).toarray() / 8
    noise = np.pi / 2 * mesh.elements.lumped(squares)
    wanted = a @ (a / noise[:, None])
    np.testing.assert_allclose(precision.matrix.toarray(), wanted, atol=1e-12 * abs(wanted).max())


class Law:
    """Correlations and variances at vertices nearest to places."""

    def __init__(self, mesh, shares=None, length=0.5):
        self.mesh = mesh
        matrices = VaryingMatrices(mesh.elements, 2, shares=shares)
        precision = VaryingPrecision(matrices, constant(mesh, length=length))
        self.covariance = np.linalg.inv(precision.matrix.toarray())

    def between(self, *places):
        at = [int(((self.mesh.vertices - place) ** 2).sum(axis=1).argmin()) for place in places]
        return self.covariance[np.ix_(at, at)]

    def correlation(self, first, second):
        block = self.between(first, second)
        return block[0, 1] / np.sqrt(block[0, 0] * block[1, 1])


def test_a_wall_leaves_the_correlation_of_the_way_around_it():
    """A wall from the southern border to three quarters of the way north."""
    mesh = grid(33)
    centres = mesh.vertices[mesh.triangles].mean(axis=1)
    wall = (abs(centres[:, 0] - 0.5) < 0.07) & (centres[:, 1] < 0.75)
    kept = mesh.triangles[~wall]
    used, corners = np.unique(kept, return_inverse=True)
    barrier, open_sea = Law(mesh, np.where(wall, 0.2, 1.0)), Law(mesh)
    cut = Law(TriangleMesh(mesh.vertices[used], corners.reshape(-1, 3)))  # all ways lead around

    west, east, farther = [0.375, 0.25], [0.625, 0.25], [0.125, 0.25]
    assert open_sea.correlation(west, east) > 0.4
    assert barrier.correlation(west, east) == pytest.approx(cut.correlation(west, east), abs=0.04)
    assert barrier.correlation(west, farther) == pytest.approx(
        cut.correlation(west, farther), abs=0.04
    )
    # variances rise at the wall, less than at a border
    variances = [law.between(west).item() for law in (open_sea, barrier, cut)]
    assert variances == sorted(variances)
    # within the wall the field is one of the shorter range
    middle = [0.5, 0.25], [0.5, 0.35]
    assert barrier.correlation(*middle) < 0.5 * open_sea.correlation(*middle)


def test_a_deviation_by_vertices_is_that_of_the_field(mesh):
    """Q = D^-1 Q_0 D^-1 for deviations D."""
    matrices = VaryingMatrices(mesh.elements, 2)
    stationary = constant(mesh)
    deviation = 0.7 * mesh.vertices[:, 0]
    covariance = np.linalg.inv(VaryingPrecision(matrices, stationary).matrix.toarray())
    found = VaryingPrecision(matrices, stationary._replace(log_deviation=deviation)).matrix
    scale = np.exp(deviation)
    np.testing.assert_allclose(
        np.linalg.inv(found.toarray()), scale[:, None] * covariance * scale, rtol=1e-8
    )
