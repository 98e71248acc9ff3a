"""The exact Gaussian process against densities of scipy, matrices inverted as they stand, and the regressor."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import graphrf as grf
from graphrf.gp import ExactGraphGP

KERNEL = grf.Matern(1.5, 3.0)
FIXED = {"kernel": KERNEL, "optimize": False, "output_scale": 2.0, "noise": 0.05}
# 50 of the 144 nodes of the grid: Cholesky; 120: by the complement; repeats: Cholesky again.
CASES = [(50, 0), (120, 0), (144, 0), (120, 30)]


def _observations(n, repeats, p=1):
    rng = np.random.default_rng(n + repeats)
    nodes = rng.choice(144, n, replace=False)
    nodes = np.concatenate([nodes, rng.choice(nodes, repeats)])
    return nodes, 3.0 + rng.standard_normal((nodes.size, p))


@pytest.mark.parametrize("mean", ["constant", "zero"])
@pytest.mark.parametrize(("n", "repeats"), CASES)
def test_likelihood_and_posterior_are_those_of_the_matrices_as_they_stand(grid, n, repeats, mean):
    nodes, y = _observations(n, repeats, p=2)
    gp = ExactGraphGP(grid, mean=mean, **FIXED).fit(nodes, y)
    prior = KERNEL.dense(grid)
    prior *= 2.0 / np.diagonal(prior).mean()
    a = prior[np.ix_(nodes, nodes)] + 0.05 * np.eye(nodes.size)
    inverse = np.linalg.inv(a)
    c = inverse.sum(axis=0) @ y / inverse.sum() if mean == "constant" else np.zeros(2)
    expected = multivariate_normal(np.zeros(nodes.size), a).logpdf((y - c).T).sum()
    assert np.isclose(gp.log_marginal_likelihood_, expected, rtol=1e-11)
    np.testing.assert_allclose(gp.mean_, c, rtol=1e-9)
    np.testing.assert_allclose(gp.prior_covariance(), prior, atol=1e-12)
    posterior = prior - prior[:, nodes] @ inverse @ prior[nodes]
    found, covariance = gp.predict(return_cov=True)
    np.testing.assert_allclose(found, c + prior[:, nodes] @ inverse @ (y - c), atol=1e-9)
    np.testing.assert_allclose(covariance, posterior, atol=1e-10)
    some = [7, 7, 3]
    found, std = gp.predict(some, return_std=True)
    np.testing.assert_allclose(std[:, 0], np.sqrt(np.diagonal(posterior)[some]), rtol=1e-7)
    np.testing.assert_array_equal(found, gp.predict(some))


@pytest.mark.parametrize("n", [70, 120])
def test_training_finds_the_largest_likelihood(grid, n):
    rng = np.random.default_rng(5)
    root = grf.Diffusion(2.5).dense_root(grid)
    signal = 2.0 * root @ rng.standard_normal(144)
    nodes = rng.choice(144, n, replace=False)
    y = signal[nodes] + 0.6 * rng.standard_normal(n)
    gp = ExactGraphGP(grid).fit(nodes, y)
    best = {"kernel": gp.kernel_, "output_scale": gp.output_scale_, "noise": gp.noise_}
    for name in best:
        for factor in (0.97, 1.03):
            moved = dict(best)
            if name == "kernel":
                moved["kernel"] = grf.Diffusion(factor * gp.kernel_.lengthscale)
            else:
                moved[name] = factor * best[name]
            other = ExactGraphGP(grid, optimize=False, **moved).fit(nodes, y)
            assert other.log_marginal_likelihood_ < gp.log_marginal_likelihood_
    # Another search, by gradients from another code, ends in the same place.
    settings = {"kernel": "diffusion", "prior": None, "hyperparameters": "mode", "seed": 0}
    rival = grf.GraphGPRegressor(grid, method="series", **settings).fit(nodes, y)
    assert np.isclose(rival.log_marginal_likelihood_, gp.log_marginal_likelihood_, atol=1e-4)
    np.testing.assert_allclose(rival.predict(), gp.predict(), atol=0.01 * signal.std())


def test_a_refit_forgets_the_observations_before(grid):
    nodes, y = _observations(50, 0)
    gp = ExactGraphGP(grid, **FIXED).fit(*_observations(120, 0)).fit(nodes, y)
    np.testing.assert_array_equal(gp.predict(), ExactGraphGP(grid, **FIXED).fit(nodes, y).predict())


def test_components_without_observations_keep_the_prior():
    graph = grf.from_edges([0, 1, 3], [1, 2, 4], n_nodes=6)
    gp = ExactGraphGP(graph, mean="zero", **FIXED).fit([0, 1], [1.0, 2.0])
    mean, std = gp.predict(return_std=True)
    np.testing.assert_allclose(mean[3:], 0.0, atol=1e-12)
    np.testing.assert_allclose(std[3:] ** 2, np.diagonal(gp.prior_covariance())[3:], rtol=1e-12)


def test_one_observation_and_fixed_hyperparameters_are_enough(grid):
    mean, std = ExactGraphGP(grid, **FIXED).fit([5], [4.0]).predict(return_std=True)
    np.testing.assert_allclose(mean, 4.0)  # the constant is the observation
    assert np.isfinite(std).all()


def test_bad_input_is_named(grid, monkeypatch):
    with pytest.raises(ValueError, match="`y` must vary about its mean"):
        ExactGraphGP(grid).fit([0, 1, 2], [1.0, 1.0, 1.0])
    with pytest.raises(ValueError, match="not fitted yet"):
        ExactGraphGP(grid).predict()
    with pytest.raises(ValueError, match="exclude each other"):
        ExactGraphGP(grid, **FIXED).fit([0], [1.0]).predict(return_std=True, return_cov=True)
    with pytest.raises(ValueError, match="`noise` must be"):
        ExactGraphGP(grid, noise=0.0)
    with pytest.raises(ValueError, match="`y` must be finite"):
        ExactGraphGP(grid, **FIXED).fit([0, 1], [1.0, np.nan])
    with pytest.raises(TypeError, match="`kernel` must be a graphrf kernel"):
        ExactGraphGP(grid, kernel=3)
    with pytest.raises(ValueError, match="numerically singular"):
        ExactGraphGP(grid, kernel=grf.Diffusion(60.0), optimize=False, output_scale=1.0, noise=1e-30).fit(
            range(20), range(20)
        )
    monkeypatch.setattr("graphrf.gp.exact.LARGEST_EXACT", 100)
    with pytest.raises(ValueError, match="`graph` must have at most 100 nodes"):
        ExactGraphGP(grid)
