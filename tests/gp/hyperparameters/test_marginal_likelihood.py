"""The marginal likelihood against a multivariate normal, its gradient against differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from graphrf.gp.hyperparameters.marginal_likelihood import log_marginal_likelihood
from graphrf.gp.model.observations import Observations

NODES = np.array([0, 1, 1, 2, 3, 3, 3])
NONE, ONES = np.zeros((4, 0)), np.ones((4, 1))
TREND = np.column_stack([ONES, [0.3, -1.0, 2.0, 0.5]])


@pytest.fixture
def problem():
    rng = np.random.default_rng(1)
    root = rng.standard_normal((4, 6))
    change = rng.standard_normal((4, 4))
    return root @ root.T, change + change.T, rng.standard_normal((7, 2)) + 3.0


def test_value_is_the_density_of_all_observations_repeats_included(problem):
    matrix, _, y = problem
    result = log_marginal_likelihood(
        [matrix], [Observations.of(NODES, y, NONE)], scale=1.7, noise=0.3
    )
    full = 1.7 * matrix[np.ix_(NODES, NODES)] + 0.3 * np.eye(7)
    expected = multivariate_normal(np.zeros(7), full).logpdf(y.T).sum()
    assert np.isclose(result.value, expected, rtol=1e-12)
    assert result.mean.shape == (0, 2)


def test_blocks_are_independent_but_share_their_mean(problem):
    matrix, _change, y = problem
    blocks = [Observations.of(NODES, y, TREND), Observations.of(NODES[2:], y[2:] + 1.0, TREND)]
    matrices = [matrix, matrix[1:, 1:] + 0.5 * np.eye(3)]
    together = log_marginal_likelihood(matrices, blocks, scale=1.7, noise=0.3)
    joint = np.zeros((7, 7))
    joint[:4, :4], joint[4:, 4:] = matrices
    # Nodes 1 .. 3 of the second block are 4 .. 6 of the joint one.
    nodes = np.concatenate([NODES, NODES[2:] + 3])
    basis = np.vstack([TREND, TREND[1:]])
    whole = Observations.of(nodes, np.vstack([y, y[2:] + 1.0]), basis)
    expected = log_marginal_likelihood([joint], [whole], scale=1.7, noise=0.3)
    assert np.isclose(together.value, expected.value, rtol=1e-12)
    np.testing.assert_allclose(together.mean, expected.mean, rtol=1e-10)


@pytest.mark.parametrize("basis", [NONE, ONES, TREND])
def test_gradient_is_the_limit_of_differences(problem, basis):
    matrix, change, y = problem
    blocks = [Observations.of(NODES, y, basis), Observations.of(NODES[2:], y[2:] + 1.0, basis)]

    def value(log_scale, log_noise, step):
        moved = matrix + step * change
        return log_marginal_likelihood(
            [moved, moved[1:, 1:]], blocks, scale=np.exp(log_scale), noise=np.exp(log_noise)
        ).value

    at, h = np.array([0.4, -1.0, 0.0]), 1e-5
    result = log_marginal_likelihood(
        [matrix, matrix[1:, 1:]],
        blocks,
        scale=np.exp(0.4),
        noise=np.exp(-1.0),
        derivatives=[[change], [change[1:, 1:]]],
    )
    expected = [(value(*(at + h * e)) - value(*(at - h * e))) / (2 * h) for e in np.eye(3)]
    np.testing.assert_allclose(
        [result.log_scale, result.log_noise, *result.parameters], expected, rtol=1e-7
    )


def test_a_singular_covariance_raises(problem):
    _, _, y = problem
    with pytest.raises(np.linalg.LinAlgError):
        log_marginal_likelihood(
            [np.full((4, 4), -1.0)], [Observations.of(NODES, y, ONES)], scale=1.0, noise=1e-3
        )
