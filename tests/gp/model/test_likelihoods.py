"""GraphGPRegressor with other likelihoods than normal noise, as a user calls it."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from scipy.stats import norm, poisson

import graphrf as grf
from graphrf.gp import metrics
from graphrf.gp.model.likelihoods import LIKELIHOODS
from tests.support.elliptical_slice import elliptical_slices

SMOOTH = grf.Matern(nu=2.0, lengthscale=8.0)
EVERY = list(LIKELIHOODS)
# With a logarithmic link and exposures, and one that is not log-concave.
QUICK = ("poisson", "student_t")
TRUE = {
    "negative_binomial": {"dispersion": 0.3},
    "student_t": {"scale": 0.3, "df": 4.0},
    "gamma": {"shape": 4.0},
    "log_normal": {"scale": 0.4},
    "weibull": {"shape": 2.0},
    "beta": {"precision": 6.0},
    "tweedie": {"dispersion": 1.0, "power": 1.5},
    "zero_inflated_poisson": {"zero_probability": 0.2},
    "zero_inflated_negative_binomial": {"zero_probability": 0.2, "dispersion": 0.3},
}


@pytest.fixture(scope="module")
def grid():
    return grf.Graph(nx.to_scipy_sparse_array(nx.grid_2d_graph(14, 14)))


@pytest.fixture(scope="module")
def signal(grid):
    """A draw of the prior with variance 1, and a constant of 0.5."""
    whole = SMOOTH.dense(grid)
    root = np.linalg.cholesky(whole / np.trace(whole) * grid.n_nodes)
    return 0.5 + root @ np.random.default_rng(5).standard_normal(grid.n_nodes)


def observed(name, signal, n=120, seed=0):
    """Nodes, y and the arguments of `fit` beside."""
    rng = np.random.default_rng(seed)
    nodes = rng.integers(0, signal.size, n)
    if name == "binomial":
        trials = rng.integers(1, 8, n)
        return nodes, rng.binomial(trials, 1 / (1 + np.exp(-signal[nodes]))), {"trials": trials}
    likelihood = LIKELIHOODS[name](**TRUE.get(name, {}))
    if name == "point_process":  # events at some nodes, and a quadrature of all
        events = rng.integers(0, signal.size, n // 3)
        y = np.repeat([1.0, 0.0], [n // 3, n - n // 3])
        nodes = np.append(events, np.arange(n - n // 3) % signal.size)
        return nodes, y, {"exposure": np.full(n, 0.3)}
    if not likelihood.log_link:
        return nodes, likelihood.sample(signal[nodes], rng), {}
    exposure = rng.uniform(0.5, 4.0, n)
    return nodes, likelihood.sample(signal[nodes] + np.log(exposure), rng), {"exposure": exposure}


# with trials, too; long Markov chains agree for all
@pytest.mark.parametrize("name", [*QUICK, pytest.param("binomial", marks=pytest.mark.more)])
def test_the_field_is_recovered_with_its_uncertainty(grid, signal, name):
    nodes, y, beside = observed(name, signal, n=150)
    settings = {"kernel": grf.Matern(nu=2.0), "likelihood": name, "seed": 0}
    if name in QUICK:
        settings["hyperparameters"] = "mode"  # which is too narrow for two of the others
    gp = grf.GraphGPRegressor(grid, **settings).fit(nodes, y, **beside)
    assert gp.converged_
    mean, std = gp.predict(latent=True, return_std=True)
    assert np.corrcoef(mean, signal)[0, 1] > 0.5
    assert np.mean(np.abs(mean - signal) < 1.96 * std) > 0.8
    rate, deviation = gp.predict(return_std=True)
    truth = gp.likelihood_.mean(signal)
    low, middle, high = gp.predict(quantiles=(0.025, 0.5, 0.975)).T
    assert (low < middle).all()
    assert (middle < high).all()
    assert np.mean((low < truth) & (truth < high)) > 0.8
    _, noisy = gp.predict(return_std="observation")
    assert (noisy > deviation).all()
    # the moments are those of draws
    draws = gp.sample([3, 90], 4000, seed=1)
    np.testing.assert_allclose(draws.mean(axis=0), mean[[3, 90]], atol=0.1)
    np.testing.assert_allclose(gp.likelihood_.mean(draws).mean(axis=0), rate[[3, 90]], rtol=0.1)
    seen = gp.sample([3, 90], 4000, seed=1, observations=True)
    np.testing.assert_allclose(
        seen.mean(axis=0), rate[[3, 90]], atol=5 * noisy[[3, 90]].max() / 4000**0.5
    )


SHORT = grf.Matern(nu=2.0, lengthscale=2.0)
RATES = {
    "kernel": SHORT,
    "optimize": False,
    "output_scale": 1.0,
    "likelihood": "poisson",
    "seed": 0,
}
SOME = np.arange(0, 196, 7)


@pytest.fixture(scope="module")
def by_series(grid, signal):
    """Means, deviations and those of draws by the series."""
    nodes, y, beside = observed("poisson", signal)
    gp = grf.GraphGPRegressor(grid, method="series", **RATES).fit(nodes, y, **beside)
    return *gp.predict(SOME, latent=True, return_std=True), gp.sample(SOME, 2000, seed=0).std(
        axis=0
    )


@pytest.mark.parametrize(
    "options",
    [{"method": "precision"}, {"method": "series", "solver": "cg"}, {"method": "features"}],
    ids=str,
)
def test_all_methods_agree(grid, signal, by_series, options):
    nodes, y, beside = observed("poisson", signal)
    numerics = grf.gp.Numerics(
        sampler=grf.sampling.ExactPowers(60) if options["method"] == "features" else None,
        solver=options.get("solver", "auto"),
    )
    gp = grf.GraphGPRegressor(grid, method=options["method"], numerics=numerics, **RATES)
    gp.fit(nodes, y, **beside)
    assert gp.converged_
    for a, b in zip(gp.predict(SOME, latent=True, return_std=True), by_series[:2], strict=True):
        np.testing.assert_allclose(b, a, rtol=0.02, atol=0.02)
    np.testing.assert_allclose(by_series[2], gp.sample(SOME, 2000, seed=1).std(axis=0), rtol=0.15)


def test_coefficients_of_the_gaussian_are_those_of_least_squares(grid, signal):
    rng = np.random.default_rng(3)
    covariate = 100 + 30 * rng.standard_normal(196)
    y = signal + 0.02 * covariate + 0.1 * rng.standard_normal(196)
    for method in ("series", "precision"):
        gp = grf.GraphGPRegressor(
            grid,
            kernel=SMOOTH,
            mean=covariate,
            method=method,
            optimize=False,
            output_scale=1.0,
            noise=0.01,
            numerics=grf.gp.Numerics(normalize=False),
            seed=0,
        ).fit(np.arange(196), y)
        a = SMOOTH.dense(grid) + 0.01 * np.eye(196)
        h = np.column_stack([np.ones(196), covariate])
        inverse = np.linalg.inv(h.T @ np.linalg.solve(a, h))
        np.testing.assert_allclose(
            gp.coefficients_["mean"].to_numpy(), inverse @ h.T @ np.linalg.solve(a, y), rtol=1e-5
        )
        np.testing.assert_allclose(
            gp.coefficients_["sd"].to_numpy(), np.sqrt(np.diagonal(inverse)), rtol=1e-5
        )


def test_averages_over_hyperparameters_are_mixtures(grid, signal, tmp_path):
    nodes, y, beside = observed("negative_binomial", signal, n=25)
    settings = {
        "kernel": grf.Matern(nu=1.0),
        "likelihood": "negative_binomial",
        "method": "precision",
        "seed": 0,
    }
    gp = grf.GraphGPRegressor(grid, hyperparameters="average", **settings).fit(nodes, y, **beside)
    points = gp._fitted.points
    assert 2 <= gp.n_points_ == len(points) <= 8
    assert sum(point.weight for point in points) == pytest.approx(1)
    assert len({point.likelihood.dispersion for point in points}) > 1
    # each point is the approximation with its hyperparameters fixed
    laws = []
    for point in points:
        fixed = settings | {"kernel": point.kernel, "likelihood": point.likelihood}
        one = grf.GraphGPRegressor(
            grid,
            optimize=False,
            numerics=grf.gp.Numerics(normalize=False),
            output_scale=point.amplitude,
            **fixed,
        )
        one.fit(nodes, y, **beside)
        laws.append(
            (
                *one.predict([3, 90], latent=True, return_std=True),
                one.log_density([3, 90], [2.0, 0.0], exposure=1.0),
            )
        )
    p = np.array([point.weight for point in points])
    means, stds, densities = np.array(laws).swapaxes(0, 1)
    mean, std = gp.predict([3, 90], latent=True, return_std=True)
    np.testing.assert_allclose(mean, p @ means, rtol=1e-4)
    np.testing.assert_allclose(std**2, p @ (stds**2 + (means - mean) ** 2), rtol=1e-4)
    np.testing.assert_allclose(
        gp.log_density([3, 90], [2.0, 0.0], exposure=1.0), np.log(p @ np.exp(densities)), rtol=1e-4
    )
    levels = [0.025, 0.5, 0.975]
    quantiles = gp.predict([3, 90], latent=True, quantiles=levels)
    below = np.tensordot(p, norm.cdf((quantiles - means[..., None]) / stds[..., None]), axes=1)
    np.testing.assert_allclose(below, np.broadcast_to(levels, (2, 3)), rtol=1e-3)
    # moments of rates and of counts are those of draws: within five standard errors
    rate, noisy = gp.predict([3, 90], return_std="observation")
    seen = gp.sample([3, 90], 4000, seed=1, observations=True)
    assert (np.abs(seen.mean(axis=0) - rate) < 5 * noisy / 4000**0.5).all()
    gp.save(tmp_path / "gp.npz")
    loaded = grf.GraphGPRegressor.load(tmp_path / "gp.npz")
    np.testing.assert_array_equal(loaded.predict(quantiles=levels), gp.predict(quantiles=levels))
    np.testing.assert_array_equal(
        loaded.sample([1], 3, seed=0, observations=True),
        gp.sample([1], 3, seed=0, observations=True),
    )


def test_huge_counts_do_not_overflow(grid):
    y = 1e9 * (1.0 + np.arange(50))
    gp = grf.GraphGPRegressor(
        grid,
        kernel=SMOOTH,
        optimize=False,
        output_scale=1.0,
        likelihood="poisson",
        method="series",
        seed=0,
    ).fit(np.arange(50), y)
    np.testing.assert_allclose(gp.predict(np.arange(50)), y, rtol=1e-4)
    # Newton's method begins at the mode, where the gradient is rounding.
    gp.fit(np.arange(50), np.full(50, 1e12))
    assert gp.converged_
    np.testing.assert_allclose(gp.predict(np.arange(50)), 1e12, rtol=1e-4)


@pytest.mark.filterwarnings("ignore:so little is known of the rates")
def test_all_zeros_and_separable_classes_have_a_posterior(grid):
    zeros = grf.GraphGPRegressor(grid, kernel=SMOOTH, likelihood="poisson", seed=0).fit(
        np.arange(50), np.zeros(50)
    )
    rates = zeros.predict()  # far from the observations a rate of some tenths is not ruled out
    assert (rates[:50] < 0.05).all()
    assert (rates < 1).all()
    assert np.median(rates) < 0.05
    settings = {"kernel": SMOOTH, "likelihood": "bernoulli", "hyperparameters": "mode", "seed": 0}
    ones = grf.GraphGPRegressor(grid, **settings).fit(np.arange(50), np.ones(50))
    probability = ones.predict()
    assert ((probability > 0.8) & (probability < 1)).all()
    halves = (np.arange(196) % 14 < 7).astype(float)
    split = grf.GraphGPRegressor(grid, **settings).fit(np.arange(0, 196, 2), halves[::2])
    assert np.isfinite(split.predict()).all()


def test_log_densities_are_those_of_draws(grid, signal):
    nodes, y, beside = observed("poisson", signal)
    settings = {
        "kernel": SMOOTH,
        "likelihood": "poisson",
        "optimize": False,
        "output_scale": 1.0,
        "seed": 0,
    }
    gp = grf.GraphGPRegressor(grid, **settings).fit(nodes, y, **beside)
    found = gp.log_density([3, 90], [2.0, 0.0], exposure=[1.0, 3.0])
    rate = np.exp(gp.sample([3, 90], 20_000, seed=0)) * [1.0, 3.0]
    np.testing.assert_allclose(found, np.log(poisson.pmf([2, 0], rate).mean(axis=0)), atol=0.03)
    normal = grf.GraphGPRegressor(
        grid, kernel=SMOOTH, optimize=False, output_scale=1.0, noise=0.1, seed=0
    )
    normal.fit(nodes, signal[nodes])
    mean, std = normal.predict([3], return_std="observation")
    np.testing.assert_allclose(-normal.log_density([3], [1.0])[0], metrics.nlpd([1.0], mean, std))


BAD = {
    "negative counts": ({"likelihood": "poisson"}, [1.0, -1.0], {}, "counts, 0 or more"),
    "fractions": ({"likelihood": "poisson"}, [1.0, 0.5], {}, "`exposure`"),
    "huge": ({"likelihood": "poisson"}, [1.0, 1e17], {}, "at most 2"),
    "no trials": ({"likelihood": "binomial"}, [1.0, 2.0], {}, "`trials` must be given"),
    "few trials": ({"likelihood": "binomial"}, [1.0, 2.0], {"trials": 1}, "at least the successes"),
    "half a trial": (
        {"likelihood": "binomial"},
        [0.0, 1.0],
        {"trials": [1.5, 1]},
        "whole numbers, .* y counts events, use likelihood=.poisson. with `exposure`",
    ),
    "trials of counts": ({"likelihood": "poisson"}, [1.0, 2.0], {"trials": 3}, "binomial"),
    "no exposure": (
        {"likelihood": "poisson"},
        [1.0, 2.0],
        {"exposure": [0.0, 1.0]},
        "greater than 0",
    ),
    "exposure of classes": ({"likelihood": "bernoulli"}, [1.0, 0.0], {"exposure": 2.0}, "rates"),
    "exposures": (
        {"likelihood": "poisson"},
        [1.0, 0.0],
        {"exposure": [1.0, 2.0, 3.0]},
        "one for each",
    ),
    "two outputs": ({"likelihood": "poisson"}, [[1.0, 0.0], [1.0, 0.0]], {}, "one output"),
    "not yes or no": ({"likelihood": "bernoulli"}, [2.0, 0.0], {}, "0 or 1"),
    "zero": ({"likelihood": "gamma"}, [1.0, 0.0], {}, "greater than 0"),
    "noise": ({"likelihood": "poisson", "noise": 0.1}, [1.0, 0.0], {}, "`noise`"),
    "a name": ({"likelihood": "poison"}, [1.0, 0.0], {}, "poisson"),
    "a class": ({"likelihood": grf.gp.Poisson}, [1.0, 0.0], {}, "`likelihood`"),
    "gaussian exposure": ({}, [1.0, 0.0], {"exposure": 2.0}, "`likelihood`"),
    "trials of nothing": ({"likelihood": "binomial"}, [0.0, 1.0], {"trials": [0, 1]}, "at least 1"),
    "negative exposure": (
        {"likelihood": "gamma"},
        [1.0, 2.0],
        {"exposure": -1.0},
        "greater than 0",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_told(grid, case):
    settings, y, beside, said = BAD[case]
    with pytest.raises((ValueError, TypeError), match=said):
        grf.GraphGPRegressor(grid, **settings).fit([0, 1], y, **beside)


def test_bad_questions_are_told(grid):
    with pytest.raises(ValueError, match="df"):
        grf.gp.StudentT(df=0.5)
    gp = grf.GraphGPRegressor(
        grid, kernel=SMOOTH, optimize=False, output_scale=1.0, likelihood="poisson", seed=0
    )
    gp.fit([0, 1, 2], [1, 0, 3])
    with pytest.raises(ValueError, match="latent=True"):
        gp.predict(return_cov=True)
    with pytest.raises(ValueError, match="quantiles"):
        gp.predict(quantiles=[0.0, 0.5])
    with pytest.raises(ValueError, match="latent=False"):
        gp.predict(latent=True, return_std="observation")


def test_scores_of_honest_predictions():
    rng = np.random.default_rng(0)
    rate = rng.gamma(2.0, 2.0, 3000)
    y = rng.poisson(rate).astype(float)
    draws = rng.poisson(rate, (200, 3000)).astype(float)
    counts, _ = np.histogram(metrics.pit(y, draws, seed=0), 10, (0, 1))
    assert ((counts - 300) ** 2 / 300).sum() < 30  # chi-squared with 9 degrees of freedom
    wide, _ = np.histogram(metrics.pit(y, draws * 3, seed=0), 10, (0, 1))
    assert ((wide - 300) ** 2 / 300).sum() > 100
    assert metrics.crps(y, draws) < metrics.crps(y, draws + 2)
    # of normal predictions it is 2 phi(0) - 1/sqrt(pi) at their mean
    normal = rng.standard_normal((400_000, 1))
    assert metrics.crps([0.0], normal) == pytest.approx(
        2 / (2 * np.pi) ** 0.5 - np.pi**-0.5, abs=0.005
    )
    low, high = np.full(3000, -1.96), np.full(3000, 1.96)
    values = rng.standard_normal(3000)
    best = metrics.interval_score(values, low, high)
    assert best < min(metrics.interval_score(values, by * low, by * high) for by in (0.5, 2.0))


def test_precisions_that_would_go_to_and_fro_settle(grid):
    """The posterior of one outlier has two humps; rounds of whole steps alternated."""
    whole = SMOOTH.dense(grid)
    root = np.linalg.cholesky(whole / np.trace(whole) * grid.n_nodes)
    rng = np.random.default_rng([1, 174])
    signal = rng.normal(0.5, 0.3) + root @ rng.standard_normal(grid.n_nodes)
    nodes, y, _ = observed("student_t", signal, n=100, seed=174)
    likelihood = LIKELIHOODS["student_t"](**TRUE["student_t"])
    grf.GraphGPRegressor(
        grid,
        kernel=SMOOTH,
        optimize=False,
        output_scale=1.0,
        likelihood=likelihood,
        method="series",
        seed=0,
    ).fit(nodes, y)


@pytest.mark.more
@pytest.mark.parametrize("name", EVERY)
def test_long_markov_chains_agree(grid, signal, name):
    """Elliptical slice sampling: means within 0.1 deviation, deviations within 10 %."""
    nodes, y, beside = observed(name, signal, n=300)
    likelihood = LIKELIHOODS[name](**TRUE.get(name, {}))
    gp = grf.GraphGPRegressor(
        grid,
        kernel=SMOOTH,
        optimize=False,
        output_scale=1.0,
        likelihood=likelihood,
        method="series",
        seed=0,
    ).fit(nodes, y, **beside)
    mean, std = gp.predict(latent=True, return_std=True)
    checked = likelihood.checked(
        np.asarray(y, float),
        np.asarray(beside.get("trials"), float) if "trials" in beside else None,
    )
    exposure = np.asarray(beside.get("exposure", np.ones(300)))
    offset = likelihood.log_exposure(checked, exposure) if likelihood.log_link else np.zeros(300)
    offset = offset + gp._fitted.offset[0]
    whole = SMOOTH.dense(grid)
    prior = np.linalg.inv(whole / np.trace(whole) * 196 + 1 / gp._fitted.mean_precision)
    # chains in the coordinates of a somewhat wider approximation, which mix at once
    wide = 1.3 * gp.predict(latent=True, return_cov=True)[1]
    own, middle = np.linalg.inv(wide), mean - gp._fitted.offset[0]

    def log_ratio(x):
        f = middle + x
        likely = float(likelihood.log_density(checked, f[nodes] + offset).sum())
        return likely - 0.5 * f @ prior @ f + 0.5 * x @ own @ x

    draws = mean + elliptical_slices(
        np.linalg.cholesky(wide), log_ratio, 4_000, np.random.default_rng(0)
    )
    assert np.sqrt(np.mean(((draws.mean(axis=0) - mean) / std) ** 2)) < 0.1
    assert abs(np.mean(std / draws.std(axis=0)) - 1) < 0.1


def test_hyperparameters_are_averaged_over_unless_the_mode_is_wanted(grid, signal):
    nodes, y, extra = observed("poisson", signal, n=20)
    gp = grf.GraphGPRegressor(grid, kernel="matern", likelihood="poisson", seed=0)
    average = gp.fit(nodes, y, **extra).predict(return_std=True, latent=True)
    gp.set_params(hyperparameters="average").fit(nodes, y, **extra)
    np.testing.assert_array_equal(gp.predict(return_std=True, latent=True), average)
    gp.set_params(hyperparameters="mode").fit(nodes, y, **extra)
    assert not np.array_equal(gp.predict(return_std=True, latent=True), average)


def test_poisson_counts_beyond_the_digits_of_the_algebra_are_refused():
    graph = grf.from_edges(range(9), range(1, 10))
    counts = np.arange(10) * 10**8
    model = grf.GraphGPRegressor(graph, kernel="matern", likelihood="poisson", seed=0)
    np.testing.assert_allclose(model.fit(range(10), counts).predict()[1:], counts[1:], rtol=1e-3)
    with pytest.raises(ValueError, match=r"`y` must be counts of at most 10\^13"):
        model.fit(range(10), counts * 10**6)
