"""The marginal likelihood against the density of a multivariate normal, its gradient against differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from graphrf.gp.likelihood import log_marginal_likelihood
from graphrf.gp.observations import Observations

NODES = np.array([0, 1, 1, 2, 3, 3, 3])


@pytest.fixture
def problem():
    rng = np.random.default_rng(1)
    root = rng.standard_normal((4, 6))
    change = rng.standard_normal((4, 4))
    return root @ root.T, change + change.T, rng.standard_normal((7, 2)) + 3.0


def test_value_is_the_density_of_all_observations_repeats_included(problem):
    matrix, _, y = problem
    result = log_marginal_likelihood(matrix, Observations.of(NODES, y), scale=1.7, noise=0.3, with_mean=False)
    full = 1.7 * matrix[np.ix_(NODES, NODES)] + 0.3 * np.eye(7)
    expected = multivariate_normal(np.zeros(7), full).logpdf(y.T).sum()
    assert np.isclose(result.value, expected, rtol=1e-12)
    np.testing.assert_array_equal(result.mean, 0)


def test_mean_maximises_the_density(problem):
    matrix, _, y = problem
    result = log_marginal_likelihood(matrix, Observations.of(NODES, y), scale=1.7, noise=0.3, with_mean=True)
    full = 1.7 * matrix[np.ix_(NODES, NODES)] + 0.3 * np.eye(7)

    def density(mean):
        return multivariate_normal(np.zeros(7), full).logpdf((y - mean).T).sum()

    assert np.isclose(result.value, density(result.mean), rtol=1e-12)
    for step in (-1e-3, 1e-3):
        assert density(result.mean + step) < result.value


@pytest.mark.parametrize("with_mean", [False, True])
def test_gradient_is_the_limit_of_differences(problem, with_mean):
    matrix, change, y = problem
    observations = Observations.of(NODES, y)

    def value(log_scale, log_noise, step):
        return log_marginal_likelihood(
            matrix + step * change, observations, scale=np.exp(log_scale), noise=np.exp(log_noise),
            with_mean=with_mean,
        ).value  # fmt: skip

    at, h = np.array([0.4, -1.0, 0.0]), 1e-5
    result = log_marginal_likelihood(
        matrix, observations, scale=np.exp(0.4), noise=np.exp(-1.0), with_mean=with_mean, derivatives=[change]
    )
    expected = [(value(*(at + h * e)) - value(*(at - h * e))) / (2 * h) for e in np.eye(3)]
    np.testing.assert_allclose([result.log_scale, result.log_noise, *result.parameters], expected, rtol=1e-7)


def test_a_singular_covariance_raises(problem):
    _, _, y = problem
    with pytest.raises(np.linalg.LinAlgError):
        log_marginal_likelihood(
            np.full((4, 4), -1.0), Observations.of(NODES, y), scale=1.0, noise=1e-3, with_mean=False
        )
