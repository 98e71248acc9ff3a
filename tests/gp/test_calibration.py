"""Simulation-based calibration: for draws of the prior the posterior is right on average.

A truth drawn from the prior and draws from its posterior, given data drawn from the truth, are
exchangeable: the truth's rank among s of them is uniform on 0 .. s, at any node. And what was not
observed, less its mean and over its deviation, is standard normal. A constant, which has a flat
prior, may be any: errors do not depend on it. With sampled rows deviations and draws are those of
the predictor's error, so that the truths of the exact prior rank uniformly, too.

Source: Talts, Betancourt, Simpson, Vehtari and Gelman 2018, "Validating Bayesian Inference
Algorithms with Simulation-Based Calibration", Theorem 1.
"""

from __future__ import annotations

import numpy as np
import pytest

import graphrf as grf
from graphrf.operators.pathwise import draw_normals
from tests.support.sequential import assert_unbiased
from tests.support.small_graphs import grid_path_and_node

KERNEL = grf.Diffusion(2.0)
WALKS = grf.RandomWalks(n_walks=8, lengths=grf.sampling.Truncated(12))
POWERS = grf.CompressedPowers(6, max_length=8)
# What the covariance is made of, and how it is solved with.
CASES = [
    pytest.param(None, {"solver": "cholesky"}, id="series-cholesky"),
    pytest.param(None, {"solver": "cg", "tol": 1e-8}, id="series-cg", marks=pytest.mark.full),
    pytest.param(WALKS, {"solver": "cholesky"}, id="walks-cholesky", marks=pytest.mark.full),
    pytest.param(WALKS, {"solver": "cg", "tol": 1e-8}, id="walks-cg"),
    pytest.param(POWERS, {"solver": "cholesky"}, id="powers-cholesky"),
    pytest.param(POWERS, {"solver": "cg", "tol": 1e-8}, id="powers-cg", marks=pytest.mark.full),
]
CONSTANT, SCALE, NOISE = 7.0, 2.0, 0.4
N_DRAWS = 19
# Means under calibration of u, u^2, z and z^2, with u = 2 rank / s - 1: an exact law, as z's.
TRUTH = [0.0, (N_DRAWS + 2) / (3 * N_DRAWS), 0.0, 1.0]
# Truths in the first round, which nearly always finds deviations that are 6 % too small or too
# large: six standard errors of the mean of z^2, whose deviation is sqrt(2), are 0.12.
N_TRUTHS = 5_000


@pytest.fixture(scope="module")
def graph():
    """A 5 x 8 grid of unequal weights, a path of four nodes, and a node alone."""
    return grid_path_and_node()


@pytest.fixture(scope="module")
def observed(graph):
    """Sixteen observations at 13 nodes, one of them off the grid and itself not observed."""
    nodes = np.random.default_rng(1).choice(40, 12, replace=False)
    return np.concatenate([nodes, nodes[:2], nodes[:1], [41]])


class Trial:
    """Truths from the exact prior about a constant, and what a regressor says of them."""

    def __init__(self, graph, observed, sampler=None, **options):
        self.graph, self.observed = graph, observed
        self.method = "series" if sampler is None else "features"
        self.numerics = grf.gp.Numerics(sampler=sampler, n_threads=1, **options)
        self.hidden = np.setdiff1d(np.arange(graph.n_nodes), observed)
        variance = np.trace(KERNEL.dense(graph)) / graph.n_nodes
        self.root = np.sqrt(SCALE / variance) * KERNEL.dense_root(graph)

    def statistics(self, round_, n, narrowed=1.0):
        """u, u^2, z and z^2 of n independent truths, (n, 4); posterior deviations `narrowed`.

        Each output of one regressor is a trial of its own: truth, noise and posterior draws are
        fresh.
        """
        rng = np.random.default_rng([round_, 11])
        truth = CONSTANT + self.root @ rng.standard_normal((self.graph.n_nodes, n))
        y = truth[self.observed] + np.sqrt(NOISE) * rng.standard_normal((self.observed.size, n))
        gp = grf.GraphGPRegressor(
            self.graph,
            kernel=KERNEL,
            output_scale=SCALE,
            noise=NOISE,
            optimize=False,
            seed=0,
            method=self.method,
            numerics=self.numerics,
        ).fit(self.observed, y)
        mean, std = gp.predict(return_std=True)
        each = np.arange(n)
        # One node of each truth: what is counted is independent.
        anywhere = rng.integers(0, self.graph.n_nodes, n)
        draws = gp.sample(n_samples=N_DRAWS, seed=1_000 + round_)[:, anywhere, each]
        draws = mean[anywhere, each] + narrowed * (draws - mean[anywhere, each])
        u = 2 * (draws < truth[anywhere, each]).sum(axis=0) / N_DRAWS - 1
        unseen = rng.choice(self.hidden, n)
        z = (truth[unseen, each] - mean[unseen, each]) / (narrowed * std[unseen, each])
        return np.column_stack([u, u**2, z, z**2])


@pytest.mark.parametrize(("sampler", "options"), CASES)
def test_truths_rank_uniformly_among_draws_and_deviations_are_as_said(
    graph, observed, sampler, options
):
    assert_unbiased(Trial(graph, observed, sampler, **options).statistics, TRUTH, n0=N_TRUTHS)


@pytest.mark.parametrize("sampler", [None, WALKS], ids=["series", "features"])
def test_deviations_a_fifth_too_small_are_found(graph, observed, sampler):
    trial = Trial(graph, observed, sampler)
    for columns in (slice(0, 2), slice(2, 4)):  # by the ranks alone, and by the deviations alone
        with pytest.raises(AssertionError, match="biased"):
            assert_unbiased(
                lambda round_, n, columns=columns: trial.statistics(round_, n, narrowed=0.8)[
                    :, columns
                ],
                TRUTH[columns],
                n0=N_TRUTHS,
            )


@pytest.mark.parametrize("sampler", [None, WALKS], ids=["series", "features"])
def test_draws_that_forget_the_noise_are_found(graph, observed, sampler, monkeypatch):
    def forgetful(features, size, noise, **rest):
        return draw_normals(features, size, 0.0 * noise, **rest)

    monkeypatch.setattr("graphrf.gp.posterior.by_rows.draw_normals", forgetful)
    trial = Trial(graph, observed, sampler)
    with pytest.raises(AssertionError, match="biased: projection 1"):
        assert_unbiased(
            lambda round_, n: trial.statistics(round_, n)[:, :2], TRUTH[:2], n0=N_TRUTHS
        )


@pytest.mark.parametrize("sampler", [None, WALKS], ids=["series", "features"])
def test_deviations_that_take_the_constant_as_known_are_found(
    graph, observed, sampler, monkeypatch
):
    trial = Trial(graph, observed[:3], sampler)  # which leave the constant open
    assert_unbiased(lambda round_, n: trial.statistics(round_, n)[:, 2:], TRUTH[2:], n0=N_TRUTHS)
    monkeypatch.setattr(
        "graphrf.gp.posterior.generalised_mean.GeneralisedMean.half",
        lambda self, unexplained: 0.0 * unexplained,
    )
    with pytest.raises(AssertionError, match="biased"):
        assert_unbiased(
            lambda round_, n: trial.statistics(round_, n)[:, 2:], TRUTH[2:], n0=N_TRUTHS
        )
