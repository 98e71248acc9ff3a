"""Points stand for the tempered posterior, the mode is the likelihood's, nothing known sought."""

from __future__ import annotations

import sys

import networkx as nx
import numpy as np
import pytest
from scipy import optimize
from scipy.stats import multivariate_normal

import graphrf as grf
from graphrf._base import memory
from graphrf.gp import regression
from graphrf.gp.hyperparameters import explore as module
from graphrf.gp.methods import gram
from graphrf.gp.methods.precision import PrecisionMethod
from graphrf.gp.methods.series import SeriesMethod
from graphrf.gp.model.prior import HyperparameterPrior
from graphrf.operators.precision.markov import SparsePrecision
from graphrf.operators.sparse import ordering


@pytest.fixture(scope="module")
def drawn():
    """A grid, 80 of its nodes, and noisy values of a draw there."""
    graph = grf.Graph(nx.to_scipy_sparse_array(nx.grid_2d_graph(16, 16)))
    rng = np.random.default_rng(0)
    f = grf.apply_root(graph, grf.Matern(nu=2.0, lengthscale=4.0), rng.standard_normal(256))
    nodes = np.sort(rng.choice(256, 80, replace=False))
    return graph, nodes, f[nodes] / f.std() + 0.3 * rng.standard_normal(80)


def _moments(graph, nodes, y, information):
    """Moments of log lengthscale and noise under the tempered posterior, on a fine grid."""
    prior, unit = HyperparameterPrior(), float(np.var(y))
    lengths, scales, noises = (
        np.log(np.geomspace(*ends)) for ends in ((0.3, 100, 30), (0.02, 100, 30), (1e-6, 10, 80))
    )
    contrasts = np.linalg.qr(np.ones((nodes.size, 1)), mode="complete")[0][:, 1:]
    z = contrasts.T @ y / np.sqrt(unit)
    log = np.empty((lengths.size, scales.size, noises.size))
    for own, length in zip(log, lengths, strict=True):
        k = grf.Matern(2.0, np.exp(length)).dense(graph)[np.ix_(nodes, nodes)]
        values, vectors = np.linalg.eigh(contrasts.T @ (k / (np.trace(k) / nodes.size)) @ contrasts)
        variances = np.exp(scales)[:, None, None] * values + np.exp(noises)[:, None]
        own[...] = -0.5 * (np.log(variances) + np.square(vectors.T @ z) / variances).sum(axis=2)
    log *= min(1.0, information / (nodes.size - 1))
    log += prior.log_density("lengthscale", lengths, 1.0)[0][:, None, None]
    log += (
        prior.log_density("output_scale", scales, 1.0)[0][:, None]
        + prior.log_density("noise", noises, 1.0)[0]
    )
    weights = np.exp(log - log.max())
    weights /= weights.sum()
    own = weights.sum(axis=(1, 2)), weights.sum(axis=(0, 1))
    values = lengths, noises + np.log(unit)
    means = [w @ v for w, v in zip(own, values, strict=True)]
    return means, [np.sqrt(w @ (v - m) ** 2) for w, v, m in zip(own, values, means, strict=True)]


def test_points_have_the_moments_of_the_tempered_posterior(drawn, monkeypatch):
    graph, nodes, y = drawn
    information = 20.0
    monkeypatch.setattr(module, "INFORMATION", information)
    for user in (module, regression):
        monkeypatch.setattr(user, "POINTS", 400)
    settings = {"kernel": grf.Matern(nu=2.0), "prior": {"noise_alone": 0.0}, "seed": 0}
    points = grf.GraphGPRegressor(graph, **settings).fit(nodes, y)._fitted.points
    weights = np.array([point.weight for point in points])
    assert weights.sum() == pytest.approx(1.0)
    means, deviations = _moments(graph, nodes, y, information)
    for k, own in enumerate(
        np.log([[point.kernel.lengthscale, point.noise] for point in points]).T
    ):
        mean = weights @ own
        assert mean == pytest.approx(means[k], abs=0.05 * deviations[k])
        assert np.sqrt(weights @ (own - mean) ** 2) == pytest.approx(deviations[k], rel=0.05)
    wrong, _ = _moments(graph, nodes, y, 1e9)
    assert abs(wrong[1] - means[1]) > 0.05 * deviations[1]  # or nothing was tested


def test_the_mode_is_the_maximum_of_the_posterior(drawn):
    graph, nodes, y = drawn
    settings = {
        "kernel": grf.Matern(nu=2.0),
        "hyperparameters": "mode",
        "prior": None,
        "seed": 0,
        "mean": "zero",
    }
    gp = grf.GraphGPRegressor(graph, method="precision", **settings).fit(nodes, y)

    def negative(point):
        k = grf.Matern(2.0, np.exp(point[0])).dense(graph)
        k *= np.exp(point[1]) / (np.trace(k) / 256)
        covariance = k[np.ix_(nodes, nodes)] + np.exp(point[2]) * np.eye(80)
        return -multivariate_normal(np.zeros(80), covariance).logpdf(y)

    start = np.log([gp.kernel_.lengthscale, gp.output_scale_, gp.noise_])
    assert gp.log_marginal_likelihood_ == pytest.approx(-negative(start), abs=1e-6)
    best = optimize.minimize(
        negative, start, method="Nelder-Mead", options={"xatol": 1e-4, "fatol": 1e-6}
    )
    assert best.fun > -gp.log_marginal_likelihood_ - 1e-3
    assert gp.converged_
    assert gp.n_points_ == 1


@pytest.mark.parametrize("hyperparameters", ["mode", "average"])
def test_a_sparse_factor_that_takes_more_than_half_of_the_memory_is_refused_before_the_work(
    drawn, monkeypatch, hyperparameters
):
    graph, nodes, y = drawn
    entries = SparsePrecision(graph, grf.Matern(nu=2.0)).own_elimination.n_entries
    settings = {"kernel": grf.Matern(nu=2.0), "seed": 0}
    gp = grf.GraphGPRegressor(graph, hyperparameters=hyperparameters, **settings)
    monkeypatch.setattr(ordering, "available_memory", lambda: 2 * 8 * entries)
    assert gp.fit(nodes, y).method_ == "precision"
    monkeypatch.setattr(ordering, "available_memory", lambda: 2 * 8 * entries - 16)
    assert gp.set_params(method="auto").fit(nodes, y).method_ == "series"
    monkeypatch.setattr(
        PrecisionMethod, "grams", lambda *arguments: pytest.fail("training took its first steps")
    )
    with pytest.raises(
        MemoryError, match=r"a sparse factor of .* are left: .* use method='series'"
    ):
        gp.set_params(method="precision").fit(nodes, y)


def test_the_mode_is_sought_with_little_and_with_much_noise(drawn, monkeypatch):
    """Without a prior a rough function without noise explains the values nearly as well."""
    graph, nodes, y = drawn
    starts = []
    search = module.find_mode
    monkeypatch.setattr(
        module,
        "find_mode",
        lambda *given, **more: starts.append(given[3]) or search(*given, **more),
    )
    settings = {
        "kernel": "diffusion",
        "method": "series",
        "hyperparameters": "mode",
        "seed": 0,
        "prior": None,
    }
    y = y + np.random.default_rng(4).standard_normal(80)
    assert 1.0 < grf.GraphGPRegressor(graph, **settings).fit(nodes, y).noise_ < 2.0
    noises = [start.noise for start in starts[0]]
    assert min(noises) < 1e-4 < 1.0 < max(noises)


def test_the_average_of_likelihoods_is_reported(drawn):
    graph, nodes, y = drawn
    gp = grf.GraphGPRegressor(graph, kernel=grf.Matern(nu=2.0), mean="zero", seed=0).fit(nodes, y)
    likelihoods = []
    for point in gp._fitted.points:
        k = point.kernel.dense(graph)[np.ix_(nodes, nodes)]
        likelihoods.append(
            multivariate_normal(
                np.zeros(80), point.amplitude * k + point.noise * np.eye(80)
            ).logpdf(y)
        )
    weights = [point.weight for point in gp._fitted.points]
    expected = np.log(weights @ np.exp(np.array(likelihoods) - max(likelihoods))) + max(likelihoods)
    assert gp.log_marginal_likelihood_ == pytest.approx(expected, abs=1e-6)


def test_with_nothing_to_learn_nothing_is_sought(drawn, monkeypatch):
    """No file of training is entered, and no table of K among the observed nodes is made."""
    graph, nodes, y = drawn
    made = []
    table = gram.SeriesGram._grow
    monkeypatch.setattr(
        gram.SeriesGram, "_grow", lambda *arguments: made.append(1) or table(*arguments)
    )
    gp = grf.GraphGPRegressor(
        graph,
        kernel=grf.Diffusion(2.0),
        optimize=False,
        output_scale=1.0,
        noise=0.1,
        method="series",
        seed=0,
    )
    entered = set()

    def record(frame, event, argument):
        if event == "call" and "hyperparameters" in frame.f_code.co_filename:
            entered.add(frame.f_code.co_name)

    sys.setprofile(record)
    try:
        gp.fit(nodes, y)
    finally:
        sys.setprofile(None)
    assert entered == set()
    assert not made


def test_factors_of_an_average_by_rows_are_refused_together(drawn, monkeypatch):
    """Eight or nine posteriors hold a matrix each: room for two does not do."""
    graph, nodes, y = drawn
    monkeypatch.setattr(memory, "_SMALL", 0)
    monkeypatch.setattr(memory, "available_memory", lambda: 2 * 8 * np.unique(nodes).size ** 2)
    # Training has room.
    monkeypatch.setattr("graphrf.gp.methods.gram.require_memory", lambda *needed: None)
    settings = {"method": "series", "seed": 0}
    with pytest.raises(
        MemoryError, match=r"pass numerics=Numerics\(solver='cg'\), hyperparameters='mode'"
    ):
        grf.GraphGPRegressor(graph, **settings).fit(nodes, y)
    assert (
        grf.GraphGPRegressor(graph, hyperparameters="mode", **settings).fit(nodes, y).n_points_ == 1
    )


# -- branches, on few observations -----------------------------------------------------------------

FEW = np.arange(0, 34, 3)
VALUES = np.sin(FEW / 5) + 0.2 * np.random.default_rng(0).standard_normal(FEW.size)


def _points(graph, **settings):
    gp = grf.GraphGPRegressor(graph, **{"kernel": grf.Matern(nu=2.0), "seed": 0, **settings}).fit(
        FEW, VALUES
    )
    return gp, gp._fitted.points


def test_a_known_output_scale_is_the_variance_of_f_for_every_point(karate):
    for normalize in (True, False):
        gp, points = _points(
            karate, output_scale=2.0, numerics=grf.gp.Numerics(normalize=normalize)
        )
        assert gp.n_points_ > 1
        for point in points:
            variance = np.diag(point.kernel.dense(karate)).mean() if normalize else 1.0
            assert point.amplitude * variance == pytest.approx(2.0, rel=1e-9)
            assert point.output_scale == 2.0
    gp, _ = _points(karate, output_scale=2.0, hyperparameters="mode")
    assert np.diag(gp.prior_covariance()).mean() == pytest.approx(2.0, rel=1e-8)


@pytest.mark.filterwarnings("ignore:the graph explains y no better")
def test_a_mode_has_all_observed_nodes_in_one_block_by_the_series_too():
    rng = np.random.default_rng(0)
    graph = grf.from_points(rng.random((1_200, 2)), n_neighbors=6, weights="unit")
    nodes, y = rng.choice(1_200, 300, replace=False), rng.standard_normal(300)  # averages: blocks
    settings = {"kernel": "diffusion", "method": "series", "hyperparameters": "mode", "seed": 0}
    gp = grf.GraphGPRegressor(graph, **settings).fit(nodes, y)
    fixed = {"output_scale": gp.output_scale_, "noise": gp.noise_, "optimize": False}
    near = [
        grf.GraphGPRegressor(
            graph, **{**settings, **fixed, "kernel": grf.Diffusion(times * gp.kernel_.lengthscale)}
        )
        .fit(nodes, y)
        .log_marginal_likelihood_
        for times in (1.0, 0.5, 2.0)
    ]
    assert np.isfinite(near).all()
    assert gp.log_marginal_likelihood_ == pytest.approx(near[0], rel=1e-3)


def test_known_variances_leave_no_room_for_noise_alone(karate):
    gp, points = _points(karate, noise=0.3)
    assert {point.noise for point in points} == {0.3}
    assert min(point.output_scale for point in points) > 1e-4 * gp.output_scale_
    gp, _ = _points(karate, noise=0.3, hyperparameters="mode")
    assert gp.noise_ == 0.3


def test_averages_by_sampled_rows_keep_to_the_laplacian_of_the_rows(karate):
    gp, points = _points(karate, kernel="auto", method="features")
    assert len({own.kernel.laplacian for own in gp.candidates_}) == 2
    assert gp.n_points_ > 1
    assert {point.kernel.laplacian for point in points} == {gp.sampler_.laplacian}


def test_a_kernel_that_vanishes_is_refused(karate):
    with pytest.raises(ValueError, match="the kernel vanishes there to rounding"):
        _points(karate, kernel=grf.kernels.LearnedModulation(2, (0.0, 0.0, 0.0)), optimize=False)


def test_places_hold_their_share_of_the_weight_rounded_up_or_down():
    rng = np.random.default_rng(0)
    log_weights, order = rng.normal(0, 3, 50), rng.permutation(50)
    places, counts = module.systematic(log_weights, order, 8)
    assert counts.sum() == 8
    weights = np.exp(log_weights) / np.exp(log_weights).sum()
    held = np.zeros(50)
    held[places] = counts / 8
    for end in range(1, 51):  # of every stretch in the order
        assert abs(held[order[:end]].sum() - weights[order[:end]].sum()) <= 1 / 8


def test_families_share_a_laplacian_and_areal_kernels_are_one():
    kernels = [
        grf.Matern(nu=2.0),
        grf.Diffusion(1.0),
        grf.Matern(nu=2.0, laplacian="combinatorial"),
    ]
    areal = [grf.BYM2(0.5), grf.CAR(0.5)]
    found = [
        [kernel for kernel, _ in own]
        for own in module.families([(own, ()) for own in (*kernels, *areal)])
    ]
    assert found == [kernels[:2], kernels[2:], areal]


def test_an_end_with_most_of_the_probability_is_warned_of(karate):
    method = SeriesMethod(karate, 1)
    with pytest.warns(UserWarning, match=r"a lengthscale longer than 3 \(60 % of the posterior"):
        module.warn_of_end(grf.Matern(nu=2.0), 3.0, 0.6, method)
    module.warn_of_end(grf.Matern(nu=2.0), 3.0, 0.4, method)


def test_hyperparameters_beside_the_lengthscale_are_at_their_mode(karate):
    gp, points = _points(karate, kernel=grf.Matern(1.5, 2.0), optimize=("nu", "lengthscale"))
    assert gp.kernel_.nu != 1.5
    assert len({point.kernel.nu for point in points}) == 1
    assert len({point.kernel.lengthscale for point in points}) > 1
