"""What kernels say of the noise where the data leave it open."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.stats import norm

import graphrf as grf
from graphrf.gp.training import comparison, regression_training
from graphrf.gp.training.grid import log_sum_exp, representatives
from graphrf.gp.training.likelihood_search import SingularCovarianceError
from graphrf.gp.training.noise import NoiseOpinion, larger_noise


def _opinion(median, width, weight, lead=0.0):
    """One whose logarithm of the noise is normal."""
    noises = np.geomspace(1e-4, 10.0, 200)
    return NoiseOpinion(noises, norm.logpdf(np.log(noises), np.log(median), width), weight, lead)


def test_larger_noise_is_the_quantile_of_what_the_kernels_say():
    opinions = [_opinion(0.1, 0.5, 0.4), _opinion(0.02, 0.3, 0.3)]
    noise, share = larger_noise(0.01, opinions)

    def exceeds(value):
        return sum(
            each.weight * norm.sf(np.log(value), np.log(median), width)
            for each, median, width in zip(opinions, [0.1, 0.02], [0.5, 0.3], strict=True)
        )

    # the values tried are 3.5 % apart
    assert exceeds(noise) == pytest.approx(0.1, abs=0.012)
    assert share == pytest.approx(exceeds(0.015), abs=0.005)
    # noise as large as the kernels say is left alone, and so is what next to none of them says
    assert larger_noise(0.2, opinions) == (0.2, 0.0)
    assert larger_noise(0.01, [_opinion(0.1, 0.5, 0.05)]) == (0.01, 0.0)


def test_an_opinion_changes_the_noise_alone_and_as_far_as_it_is_possible():
    rng = np.random.default_rng(0)
    noises = np.geomspace(1e-3, 10.0, 30)
    posterior = rng.standard_normal((4, 3, 30)) - 0.5 * (np.log(noises / 0.02) / 0.8) ** 2
    posterior -= log_sum_exp(posterior)
    opinion = _opinion(0.06, 0.5, 0.4)
    mixed = opinion.mixed(posterior, noises)
    assert log_sum_exp(mixed) == pytest.approx(0.0, abs=1e-12)
    given = [each - log_sum_exp(each, axis=(0, 1)) for each in (posterior, mixed)]
    np.testing.assert_allclose(given[1], given[0], atol=1e-10)
    own, new = (np.exp(log_sum_exp(each, axis=(0, 1))) for each in (posterior, mixed))
    told = np.exp(norm.logpdf(np.log(noises), np.log(0.06), 0.5))
    likely = np.log(own / own.max()) > -4  # noise at which the kernel loses little
    expected = 0.6 * own + 0.4 * told / told.sum()
    np.testing.assert_allclose(
        new[likely] / new[likely].sum(), expected[likely] / expected[likely].sum(), rtol=2e-3
    )  # interpolated
    # where the kernel loses 20 nats, noise stays out of the question, whatever others say
    certain = -0.5 * (np.log(noises / 0.02) / 0.1) ** 2 + np.zeros((1, 1, 30))
    certain -= log_sum_exp(certain)
    after = _opinion(2.0, 0.2, 0.5).mixed(certain, noises)
    assert np.exp(after[..., noises > 0.1]).sum() < 1e-3
    # unless the others explain the values better by more than it loses
    after = _opinion(0.2, 0.3, 0.5, lead=1000.0).mixed(certain, noises)
    assert np.exp(after[..., noises > 0.05]).sum() == pytest.approx(0.5, abs=0.01)


def test_points_follow_the_order_of_the_noise():
    class Cells:
        posterior = np.log(np.full((2, 1, 8), 1 / 16))

        def cell(self, index, weight):
            return index % 8, weight

    noises = np.broadcast_to(np.arange(8.0), (2, 1, 8))
    cells = [Cells(), Cells()]
    found = representatives(cells, 8, [noises, noises])
    assert [noise for noise, _ in found] == list(range(8))  # each an eighth of the probability
    assert [noise for noise, _ in representatives(cells, 8)] != list(range(8))


def _covered(seed, n=300, data="generated-grid", lengthscale=3.0, noise=0.1, **settings):
    """The share of f at observed nodes that intervals hold: a smooth draw, noise of a share of its variance."""
    graph = grf.datasets.load(data).graph
    rng = np.random.default_rng(seed)
    f = grf.apply_root(graph, grf.Diffusion(lengthscale), rng.standard_normal(graph.n_nodes))
    f /= f.std()
    nodes = rng.choice(graph.n_nodes, n, replace=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        gp = grf.GraphGPRegressor(graph, seed=0, **settings).fit(
            nodes, f[nodes] + noise**0.5 * rng.standard_normal(n)
        )
    mean, std = gp.predict(nodes, return_std=True)
    return np.mean(np.abs(mean - f[nodes]) < 1.96 * std), gp


def test_f_is_held_at_observed_nodes_where_a_rough_kernel_takes_noise_for_signal(monkeypatch):
    covered, gp = zip(*(_covered(seed) for seed in range(3)), strict=True)
    assert np.mean(covered) > 0.85
    assert {each.n_points_ for each in gp} == {2}
    # draws of observations have the noise of the part that they are from
    noises = [point.noise for point in gp[0]._given.points]
    assert noises[1] > 1.5 * noises[0] == 1.5 * gp[0].noise_
    observed = gp[0].sample(np.arange(900), 400, seed=1, observations=True)
    f = gp[0].sample(np.arange(900), 400, seed=1)
    expected = sum(point.noise * point.weight for point in gp[0]._given.points)
    # 360,000 numbers of 400 draws from either part
    assert np.mean((observed - f) ** 2) == pytest.approx(expected, rel=0.15)
    # without the opinions of other kernels intervals hold about two thirds
    monkeypatch.setattr(comparison, "_with_opinions", lambda compared, *a: compared)
    assert np.mean([_covered(seed)[0] for seed in range(3)]) < 0.75


@pytest.mark.more
def test_f_is_held_at_observed_nodes_by_sampled_rows(monkeypatch):
    # for two of these six diffusion itself is chosen
    assert np.mean([_covered(seed, method="features")[0] for seed in range(6)]) > 0.83
    monkeypatch.setattr(comparison, "_with_opinions", lambda compared, *a: compared)
    assert np.mean([_covered(seed, method="features")[0] for seed in range(6)]) < 0.78


def test_diffusion_counts_more_than_the_others_where_it_leads_by_three_nats():
    nats = np.array([-20.0, -2.0, 0.0, 3.0, 5.0, 20.0])
    below, beyond = 1 / (1 + np.exp(-nats)), 1 / (1 + np.exp(3 - nats))
    expected = np.select([nats < 0, nats <= 3], [below, 0.5], np.minimum(beyond, 0.95))
    np.testing.assert_allclose([comparison.smooth_weight(each) for each in nats], expected)


@pytest.mark.more
def test_a_smooth_kernel_that_explains_the_values_far_better_says_how_large_the_noise_is(monkeypatch):
    def held():
        covered, gp = zip(*(_covered(seed, lengthscale=5.0, noise=0.01) for seed in range(3)), strict=True)
        assert {each.n_points_ for each in gp} == {2}
        return np.mean(covered)

    found = held()
    assert found > 0.85
    usual = NoiseOpinion.moved
    # as if it counted no more than the Matern kernels, which lose some nats by so large a noise
    monkeypatch.setattr(
        NoiseOpinion, "moved", lambda self, noise, weight, lead: usual(self, noise, min(weight, 0.5), 0.0)
    )
    assert held() < found - 0.1


@pytest.mark.more
def test_f_is_held_at_more_observed_nodes_than_training_sees_at_once(monkeypatch):
    covered, gp = _covered(0, 1_500, "generated-torus")
    assert covered > 0.85
    assert gp.n_points_ == 2
    monkeypatch.setattr(comparison, "_with_opinions", lambda compared, *a: compared)
    assert _covered(0, 1_500, "generated-torus")[0] < covered - 0.05


@pytest.mark.more
def test_sparse_precisions_ask_the_smooth_kernel_too():
    modes, one = zip(
        *(_covered(seed, method="precision", hyperparameters="map") for seed in range(2)), strict=True
    )
    assert {each.n_points_ for each in one} == {1}
    for settings in ({}, {"max_train": 100}):  # of all observations at once, and of blocks before the exact search
        covered, two = zip(*(_covered(seed, method="precision", **settings) for seed in range(2)), strict=True)
        assert {each.n_points_ for each in two} == {2}
        assert np.mean(covered) > np.mean(modes) + 0.1


def test_a_given_noise_needs_no_opinion():
    graph = grf.datasets.load("generated-grid").graph
    rng = np.random.default_rng(0)
    nodes = rng.choice(900, 300, replace=False)
    gp = grf.GraphGPRegressor(graph, noise=0.1, seed=0).fit(nodes, rng.standard_normal(300))
    assert gp.n_points_ == 1


def test_a_smooth_kernel_that_cannot_be_factored_keeps_the_opinion_of_the_blocks(monkeypatch):
    usual = regression_training.train

    def train(training, *arguments, **options):
        if isinstance(training.kernel, grf.Diffusion):
            raise SingularCovarianceError
        return usual(training, *arguments, **options)

    monkeypatch.setattr(regression_training, "train", train)
    covered, gp = _covered(0)
    assert covered > 0.8
    assert gp.n_points_ == 2
