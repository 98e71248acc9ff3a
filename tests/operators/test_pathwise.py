"""Matheron's rule against the closed form of the posterior: the draw is linear."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import graphrf as grf
from graphrf.gp.posterior.by_rows import SolverWarning
from graphrf.gp.posterior.mixture import joint_draws
from graphrf.operators.pathwise import condition, posterior_draws
from tests.support.dense_gp import dense_posterior, no_mean


class UnitNormals:
    """In place of a Generator: draw i gets the i-th unit vector as normals, the last zeros.

    Whatever is linear in the normals is then known exactly: its mean from the zeros, and its
    covariance as the sum of squares of the rest.
    """

    def __init__(self, n_numbers):
        self.n_draws = n_numbers + 1
        self._numbers = np.vstack([np.eye(n_numbers), np.zeros(n_numbers)]).ravel()
        self._used = 0

    def standard_normal(self, shape):
        start, self._used = self._used, self._used + int(np.prod(shape))
        return self._numbers[start : self._used].reshape(shape)


def moments(draws):
    """Mean, and covariance over the last axis, of draws of shape (s, k) made from `UnitNormals`."""
    mean = draws[-1]
    return mean, (draws[:-1] - mean).T @ (draws[:-1] - mean)


# -- features of anything ------------------------------------------------------------------------


@dataclass
class Solution:
    value: np.ndarray


@dataclass
class Rows:
    f: np.ndarray

    @property
    def shape(self):
        return self.f.shape

    def apply(self, x):
        return self.f @ x

    def apply_t(self, y):
        return self.f.T @ y


class Case:
    """Eight inputs of six features, five observed (one twice), two outputs, unequal noise."""

    def __init__(self):
        rng = np.random.default_rng(0)
        self.f = rng.standard_normal((8, 6))
        self.observed = np.array([0, 1, 2, 3, 3, 4])
        self.noise = rng.uniform(0.1, 2.0, 6)
        self.residual = rng.standard_normal((6, 2))
        self.rows = Rows(self.f[self.observed])
        self.a = self.rows.f @ self.rows.f.T + np.diag(self.noise)
        cross = self.f @ self.rows.f.T
        self.mean = cross @ np.linalg.solve(self.a, self.residual)
        self.covariance = self.f @ self.f.T - cross @ np.linalg.solve(self.a, cross.T)

    def solve(self, b):
        return Solution(np.linalg.solve(self.a, b))

    def draws(self, noise, n_samples=None, rng=None):
        units = UnitNormals(2 * (6 + 6))
        return posterior_draws(
            self.rows,
            noise,
            self.residual,
            self.solve,
            n_samples=n_samples or units.n_draws,
            rng=rng or units,
        )


def test_draws_have_exactly_the_posterior_mean_and_covariance():
    case = Case()
    values = case.draws(case.noise).at(Rows(case.f))  # (q, s, p)
    mean, covariance = moments(np.moveaxis(values, 0, 1).reshape(-1, 16))
    np.testing.assert_allclose(mean.reshape(8, 2), case.mean, atol=1e-12)
    expected = np.zeros((8, 2, 8, 2))
    for output in range(2):  # outputs are independent, and each has the whole covariance
        expected[:, output, :, output] = case.covariance
    np.testing.assert_allclose(covariance, expected.reshape(16, 16), atol=1e-12)


def test_without_the_draws_noise_the_covariance_is_too_small():
    case = Case()
    values = case.draws(np.zeros(6)).at(Rows(case.f))[:, :, 0]
    _, covariance = moments(values.T)
    missing = case.covariance - covariance
    assert np.linalg.eigvalsh(missing).min() > -1e-12
    assert np.linalg.eigvalsh(missing).max() > 0.1


def test_draws_do_not_depend_on_how_many_follow_or_on_the_inputs_asked():
    case = Case()
    few = case.draws(case.noise, 3, np.random.default_rng(1))
    many = case.draws(case.noise, 7, np.random.default_rng(1))
    np.testing.assert_allclose(many.coefficients[:, :3], few.coefficients, atol=1e-13)
    np.testing.assert_allclose(few.at(Rows(case.f[5:6]))[0], few.at(Rows(case.f))[5], atol=1e-13)
    assert np.abs(many.coefficients[:, 3] - few.coefficients[:, 0]).max() > 0.1


def test_an_inexact_solve_moves_coefficients_by_half_its_residual_over_the_least_deviation():
    # One row f and noise s: f / (f^2 + s) is largest,
    # 1 / (2 sqrt s), at f = sqrt s: the bound is sharp.
    noise = 0.3
    rows = Rows(np.array([[np.sqrt(noise)]]))
    exact, rough = (
        condition(
            rows, lambda b, error=error: Solution(b / 0.6 + error), np.ones((1, 1)), np.ones((1, 1))
        )[0]
        for error in (0.0, 0.01)
    )
    residual = 0.6 * 0.01
    assert np.isclose(abs(rough - exact).item(), residual / (2 * np.sqrt(noise)), rtol=1e-12)

    case = Case()
    for trial in range(20):
        error = np.random.default_rng(trial).standard_normal((6, 1))
        prior, observed = np.ones((6, 1)), np.ones((6, 1))
        exact, _ = condition(case.rows, case.solve, prior, observed)
        rough, _ = condition(
            case.rows, lambda b, e=error: Solution(case.solve(b).value + e), prior, observed
        )
        bound = np.linalg.norm(case.a @ error) / (2 * np.sqrt(case.noise.min()))
        assert np.linalg.norm(rough - exact) <= bound
        assert (
            np.abs(case.f @ (rough - exact))[:, 0] <= np.linalg.norm(case.f, axis=1) * bound
        ).all()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"noise": np.ones(5)}, r"`noise` must be 6 finite variances >= 0"),
        ({"noise": -np.ones(6)}, r"`noise` must be 6 finite variances >= 0"),
        ({"noise": np.full(6, np.nan)}, r"`noise` must be 6 finite variances >= 0"),
        ({"residual": np.ones(6)}, r"`residual` must have shape \(6, p\)"),
        ({"residual": np.ones((5, 1))}, r"`residual` must have shape \(6, p\)"),
        ({"n_samples": 0}, r"`n_samples` must be at least 1"),
    ],
)
def test_what_does_not_fit_is_refused(changed, message):
    case = Case()
    arguments = {"noise": case.noise, "residual": case.residual, "n_samples": 2, **changed}
    with pytest.raises(ValueError, match=message):
        posterior_draws(case.rows, solve=case.solve, rng=np.random.default_rng(0), **arguments)


# -- nodes of a graph ----------------------------------------------------------------------------

# Two components and an isolated node; node 2 is observed three times, 5 twice.
OBSERVED = np.array([2, 0, 2, 5, 2, 5])
FIXED = {
    "optimize": False,
    "output_scale": 2.0,
    "noise": 0.05,
    "seed": 0,
    "numerics": grf.gp.Numerics(std_method="exact", tol=1e-13),
}
KERNELS = [grf.Diffusion(1.5), grf.Matern(1.5, 2.0, laplacian="combinatorial")]


def _values(p=2):
    return np.random.default_rng(3).standard_normal((OBSERVED.size, p)) + 1.0


@pytest.mark.parametrize(
    ("mean", "solver"), [("zero", "cg"), ("constant", "cholesky"), ("constant", "cg")]
)
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_the_series_posterior_and_its_draws_are_the_dense_ones(
    weighted_graph, kernel, solver, mean
):
    graph, y = weighted_graph, _values()
    numerics = grf.gp.Numerics(std_method="exact", tol=1e-13, solver=solver)
    gp = grf.GraphGPRegressor(
        graph, kernel=kernel, method="series", mean=mean, **FIXED | {"numerics": numerics}
    )
    gp.fit(OBSERVED, y)
    root = kernel.dense_root(graph) * np.sqrt(2.0 / (np.trace(kernel.dense(graph)) / 8))
    basis = no_mean(8) if mean == "zero" else None
    expected, covariance = dense_posterior(root, OBSERVED, y, 0.05, basis=basis)
    got, std = gp.predict(return_std=True)
    np.testing.assert_allclose(got, expected, atol=1e-6)
    np.testing.assert_allclose(std, np.sqrt(np.diagonal(covariance))[:, None] * [1, 1], atol=1e-6)
    np.testing.assert_allclose(gp.predict(return_cov=True)[1], covariance, atol=1e-6)
    # Three distinct observed nodes, whose repeats act as
    # one observation: normals for them and for every node.
    units = UnitNormals(2 * (8 + 3))
    draws = joint_draws(gp._posterior, np.arange(8), np.arange(8), units.n_draws, units)[0]
    for output in range(2):
        drawn, spread = moments(draws[:, :, output])
        np.testing.assert_allclose(drawn, expected[:, output], atol=1e-8)
        np.testing.assert_allclose(spread, covariance, atol=1e-8)


def _plug_in(root, seen, basis):
    """The covariance that would be left if the sampled rows of the observed nodes were exact."""
    own, h = seen[OBSERVED], basis[OBSERVED]
    a, cross = own @ own.T + 0.05 * np.eye(6), root @ own.T
    left = basis - cross @ np.linalg.solve(a, h)
    trend = left @ np.linalg.solve(h.T @ np.linalg.solve(a, h), left.T)
    return root @ root.T - cross @ np.linalg.solve(a, cross.T) + trend


@pytest.mark.parametrize(
    ("mean", "solver"), [("zero", "cg"), ("constant", "cholesky"), ("constant", "cg")]
)
def test_draws_by_walks_are_as_far_off_as_the_predictor_by_sampled_rows(
    weighted_graph, solver, mean
):
    sampler = grf.RandomWalks(n_walks=8, lengths=grf.sampling.Truncated(12))
    kernel = grf.Diffusion(1.5)
    settings = {
        "method": "features",
        "mean": mean,
        **FIXED,
        "numerics": grf.gp.Numerics(std_method="exact", tol=1e-13, sampler=sampler, solver=solver),
    }
    basis = no_mean(8) if mean == "zero" else np.ones((8, 1))
    gp = grf.GraphGPRegressor(weighted_graph, kernel=kernel, **settings).fit(OBSERVED, _values(1))
    phi = (
        grf.sample_features(weighted_graph, sampler, seed=gp.seed_, dtype="float64")
        .matrix(kernel)
        .toarray()
    )
    phi *= np.sqrt(2.0 / gp.mean_variance_)
    root = kernel.dense_root(weighted_graph) * np.sqrt(2.0 / gp.mean_variance_)
    y = _values(1)[:, 0]
    expected, covariance = dense_posterior(root, OBSERVED, y, 0.05, basis=basis, seen=phi)
    units = UnitNormals(8 + 3)
    draws, _ = joint_draws(gp._posterior, np.arange(8), np.arange(8), units.n_draws, units)
    drawn, spread = moments(draws[:, :, 0])
    np.testing.assert_allclose(drawn, expected, atol=1e-8)
    np.testing.assert_allclose(spread, covariance, atol=1e-8)
    # and neither those of the exact kernel, from which walks differ, nor those of rows in use
    # without their error
    for seen in (root, phi):
        assert np.abs(spread - _plug_in(root, seen, basis)).max() > 1e-4


@pytest.mark.parametrize("method", ["series", "features"])
def test_a_draw_is_one_function_whatever_is_asked_of_it(grid, method, monkeypatch):
    # The limit of covariances is none of draws.
    monkeypatch.setattr("graphrf.gp.predictor.LARGEST_JOINT", 10)
    nodes = np.arange(0, 144, 5)
    gp = grf.GraphGPRegressor(grid, kernel=grf.Diffusion(3.0), method=method, **FIXED)
    gp.fit(nodes, np.sin(nodes / 20))
    everywhere = gp.sample(n_samples=4, seed=7)
    assert everywhere.shape == (4, 144)
    np.testing.assert_allclose(
        gp.sample([3], n_samples=4, seed=7)[:, 0], everywhere[:, 3], atol=1e-10
    )
    np.testing.assert_allclose(
        gp.sample([9, 3, 9], seed=7)[0], everywhere[0, [9, 3, 9]], atol=1e-10
    )
    np.testing.assert_array_equal(gp.sample(n_samples=4, seed=7), everywhere)
    assert np.abs(gp.sample(n_samples=4, seed=8) - everywhere).max() > 0.1


def test_draws_that_would_not_fit_in_memory_are_refused(grid, monkeypatch):
    gp = grf.GraphGPRegressor(grid, kernel=grf.Diffusion(3.0), **FIXED).fit([1, 2], [0.0, 1.0])
    monkeypatch.setattr("graphrf._base.memory.available_memory", lambda: 2**25)
    with pytest.raises(MemoryError, match=r"`n_samples` = 10000 needs .* ask for fewer at a time"):
        gp.sample([1], n_samples=10_000)
    assert gp.sample([1], n_samples=2).shape == (2, 1)


def test_stopped_solves_of_draws_are_reported(grid):
    nodes = np.arange(0, 144, 2)
    settings = FIXED | {
        "noise": 1e-6,
        "numerics": grf.gp.Numerics(solver="cg", max_iterations=1, tol=1e-13),
    }
    gp = grf.GraphGPRegressor(grid, kernel=grf.Diffusion(3.0), **settings)
    with pytest.warns(SolverWarning, match="the fit"):
        gp.fit(nodes, np.sin(nodes))
    with pytest.warns(SolverWarning, match="the samples"):
        gp.sample(seed=0)
