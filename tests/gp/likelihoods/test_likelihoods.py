"""Every likelihood: densities against sums, integrals, draws; derivatives; refusals."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from scipy.integrate import quad

import graphrf as grf
from graphrf.gp import (
    Bernoulli,
    Beta,
    Binomial,
    Gamma,
    LatentGaussianModel,
    Likelihood,
    LogNormal,
    NegativeBinomial,
    Ordinal,
    PointProcess,
    Poisson,
    StudentT,
    Tweedie,
    Weibull,
    ZeroInflatedNegativeBinomial,
    ZeroInflatedPoisson,
)
from graphrf.gp.latent.laplace import derivatives
from graphrf.gp.likelihoods.real import NormalNoise
from graphrf.gp.model.likelihoods import checked_likelihood
from graphrf.gp.model.responses import checked_responses
from graphrf.gp.posterior.marginals import MarginalMixture, Marginals

DISCRETE = [
    Poisson(),
    NegativeBinomial(0.4),
    ZeroInflatedPoisson(0.3),
    ZeroInflatedNegativeBinomial(0.2, 0.5),
    Binomial(),
    Bernoulli(),
    Ordinal(4, [0.7, 1.5]),
]
CONTINUOUS = [
    NormalNoise(0.6),
    StudentT(0.3, 5.0),
    Gamma(3.0),
    Beta(6.0),
    Beta(1.5),
    LogNormal(0.5),
    Weibull(1.7),
    Weibull(0.8),
]
PLACES = [-1.3, 0.4, 1.1]
DRAWS = 200_000


def taken(likelihood, values):
    """Observations as the likelihood takes them."""
    return likelihood.checked(
        values, np.ones(values.size) if type(likelihood) is Binomial else None
    )


def support(likelihood):
    """All values, or as many as matter, of discrete observations."""
    if isinstance(likelihood, Ordinal):
        return np.arange(float(likelihood.n_levels))
    return np.arange(2.0 if isinstance(likelihood, Binomial) else 600.0)


def ends(likelihood):
    if isinstance(likelihood, Beta):
        return 0.0, 1.0
    return (-np.inf if isinstance(likelihood, NormalNoise | StudentT) else 0.0), np.inf


def density(likelihood, value, f):
    return float(
        np.exp(likelihood.log_density(taken(likelihood, np.array([value])), np.array([f])))[0]
    )


@pytest.mark.parametrize("f", PLACES)
@pytest.mark.parametrize("likelihood", DISCRETE, ids=repr)
def test_sums_of_probabilities_are_the_stated_moments_and_distribution(likelihood, f):
    values = support(likelihood)
    y = taken(likelihood, values)
    p = np.exp(likelihood.log_density(y, np.full(values.size, f)))
    found = [p.sum(), p @ values, p @ values**2 - (p @ values) ** 2]
    stated = [1.0, likelihood.mean(np.array(f)), likelihood.variance(np.array(f))]
    np.testing.assert_allclose(found, stated, rtol=1e-9)
    np.testing.assert_allclose(
        likelihood.distribution(y, np.full(values.size, f)), np.cumsum(p) - 0.5 * p, atol=1e-9
    )


def test_sums_of_probabilities_of_several_trials():
    y = Binomial().checked(np.arange(8.0), np.full(8, 7.0))
    p = np.exp(Binomial().log_density(y, np.full(8, 0.3)))
    np.testing.assert_allclose(
        Binomial().distribution(y, np.full(8, 0.3)), np.cumsum(p) - 0.5 * p, atol=1e-12
    )


@pytest.mark.parametrize("f", PLACES)
@pytest.mark.parametrize("likelihood", CONTINUOUS, ids=repr)
def test_integrals_of_densities_are_the_stated_moments_and_distribution(likelihood, f):
    low, high = ends(likelihood)
    middle = float(likelihood.mean(np.array(f)))

    def integral(power, top=high):
        def own(y):
            return y**power * density(likelihood, y, f)

        cuts = [low, *(cut for cut in (0.5 * middle, middle, 2 * middle) if low < cut < top), top]
        return sum(quad(own, a, b, limit=400, epsabs=1e-11)[0] for a, b in pairwise(sorted(cuts)))

    found = [integral(0), integral(1), integral(2) - integral(1) ** 2]
    np.testing.assert_allclose(
        found, [1.0, middle, likelihood.variance(np.array(f))], rtol=1e-5, atol=1e-7
    )
    for value in (0.3 * middle, 1.1 * middle) if middle > 0 else (middle - 0.5, middle + 0.2):
        stated = likelihood.distribution(taken(likelihood, np.array([value])), np.array([f]))[0]
        assert stated == pytest.approx(integral(0, value), abs=1e-6)


@pytest.mark.parametrize("likelihood", [*DISCRETE, *CONTINUOUS], ids=repr)
def test_draws_have_the_stated_moments_and_distribution(likelihood):
    """Within five standard errors; those of the variance by the draws' own fourth moment."""
    f = 0.4
    draws = likelihood.sample(np.full(DRAWS, f), np.random.default_rng(7))
    mean, variance = likelihood.mean(np.array(f)), likelihood.variance(np.array(f))
    assert abs(draws.mean() - mean) < 5 * np.sqrt(variance / DRAWS)
    squares = np.square(draws - mean)
    assert abs(squares.mean() - variance) < 5 * squares.std() / DRAWS**0.5
    for value in np.unique(np.quantile(draws, [0.1, 0.5, 0.9], method="nearest")):
        found = np.mean(draws < value) + 0.5 * np.mean(draws == value)
        stated = likelihood.distribution(taken(likelihood, np.array([value])), np.array([f]))[0]
        assert abs(found - stated) < 5 * 0.5 / DRAWS**0.5 + 1 / DRAWS


@pytest.mark.parametrize("likelihood", [*DISCRETE, *CONTINUOUS], ids=repr)
def test_derivatives_are_fine_differences(likelihood):
    f = np.array([-1.3, -0.2, 0.4, 1.1])
    y = taken(
        likelihood, likelihood.sample(np.array([0.4, 0.4, 0.4, 0.4]), np.random.default_rng(2))
    )
    found = derivatives(likelihood, y, f, 1.0)
    h = 1e-4

    def at(x):
        return likelihood.log_density(y, x)

    np.testing.assert_allclose(found.value, at(f))
    np.testing.assert_allclose(found.first, (at(f + h) - at(f - h)) / (2 * h), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        found.second, (at(f + h) - 2 * at(f) + at(f - h)) / h**2, rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("likelihood", [*DISCRETE, *CONTINUOUS], ids=repr)
def test_log_concavity_and_shapes(likelihood):
    f = np.linspace(-6.0, 6.0, 241)
    values = likelihood.sample(np.linspace(-2.0, 2.0, 30), np.random.default_rng(0))
    if not isinstance(likelihood, Beta):
        values = np.append(values, likelihood.sample(np.full(3, -4.0), np.random.default_rng(1)))
    else:
        values = np.append(np.clip(values, 0.01, 0.99), [0.001, 0.999])
    own = likelihood.log_density(taken(likelihood, values)[..., None], f)
    assert own.shape == (values.size, 241)
    assert likelihood.distribution(taken(likelihood, values)[..., None], f).shape == own.shape
    bend = np.diff(own, 2, axis=1)
    if likelihood.log_concave:
        assert (bend < 1e-9).all()
    else:
        assert (bend > 1e-6).any()


@pytest.mark.parametrize(
    ("likelihood", "f", "y"),
    [
        (ZeroInflatedPoisson(0.3), 40.0, 1.0),
        (Ordinal(3, [1.0]), 60.0, 1.0),
        (Ordinal(3, [1.0]), -60.0, 1.0),
    ],
)
def test_densities_far_away_are_finite(likelihood, f, y):
    assert np.isfinite(likelihood.log_density(np.array([y]), np.array([f]))).all()


def test_censored_times_contribute_the_probability_of_survival():
    likelihood = Weibull(1.7)
    y = likelihood.with_events(np.array([0.5, 2.0]), np.array([1.0, 0.0]))
    f = np.array([0.3, 0.3])
    tail = quad(lambda t: density(likelihood, t, 0.3), 2.0, np.inf)[0]
    found = likelihood.log_density(y, f)
    np.testing.assert_allclose(
        found, [np.log(density(likelihood, 0.5, 0.3)), np.log(tail)], rtol=1e-6
    )
    assert np.isnan(likelihood.distribution(y, f)).tolist() == [False, True]
    np.testing.assert_array_equal(derivatives(likelihood, y, f, 1.0).value, found)


def test_quantiles_of_expected_observations_where_likelihoods_expect_different_ones():
    """The parts of a mixture differ in the parameter on which the mean depends.

    Quantiles are compared with draws; those of f under one likelihood are the negative control.
    """
    rng = np.random.default_rng(0)
    for one, other in (
        (ZeroInflatedPoisson(0.1), ZeroInflatedPoisson(0.6)),
        (LogNormal(0.2), LogNormal(1.2)),
        (Weibull(0.6), Weibull(3.0)),
        (Ordinal(4, [0.3, 0.5]), Ordinal(4, [1.0, 2.5])),
    ):
        parts = [
            Marginals(np.array([0.2, -1.0]), np.array([0.5, 2.0]), own) for own in (one, other)
        ]
        law = MarginalMixture(parts, np.array([0.4, 0.6]))
        levels = np.array([0.1, 0.5, 0.9])
        found = one.mean(law.quantiles(levels, one))
        which = rng.random(DRAWS) < 0.4
        z = rng.standard_normal(DRAWS)
        for row, (mean, variance) in enumerate(((0.2, 0.5), (-1.0, 2.0))):
            f = mean + variance**0.5 * z
            draws = np.where(which, one.mean(f), other.mean(f))
            below = np.mean(draws[:, None] < found[row], axis=0)
            np.testing.assert_allclose(below, levels, atol=0.006)  # five standard errors
            above = law.probability(one.latent_at(found[row, 1]), np.inf, one)[row]
            assert above == pytest.approx(0.5, abs=1e-3)
            alone = np.mean(draws[:, None] < one.mean(law.quantiles(levels))[row], axis=0)
            assert np.abs(alone - levels).max() > 0.05


def test_gaps_of_ordinal_levels_are_parameters():
    whole = Ordinal(5, [None, 2.0, None])
    assert whole.unknown == ("gap_1", "gap_3")
    made = whole.replace(gap_1=0.5, gap_3=1.0)
    np.testing.assert_array_equal(made.thresholds, [0.0, 0.5, 2.5, 3.5])
    assert made.unknown == ()
    assert pickle.loads(pickle.dumps(made)) == made
    with pytest.raises(AttributeError):
        made.gap_4  # noqa: B018


@pytest.mark.parametrize(
    ("dispersion", "power", "f"),
    [(2.0, 1.5, 0.0), (14.83, 1.565, 3.0), (0.1, 1.1, 1.0), (1.0, 1.9, -1.0), (0.01, 1.2, 2.0)],
)
def test_tweedie_is_a_mass_at_0_and_a_density(dispersion, power, f):
    """The total, mean, variance and distribution by quadrature, the mass at 0 by its formula."""
    likelihood = Tweedie(dispersion, power)
    mean, variance = np.exp(f), dispersion * np.exp(power * f)
    at_0 = density(likelihood, 0.0, f)
    rate = mean ** (2 - power) / (dispersion * (2 - power))
    assert at_0 == pytest.approx(np.exp(-rate), rel=1e-12)
    assert likelihood.mean(np.array(f)) == pytest.approx(mean, rel=1e-14)
    assert likelihood.variance(np.array(f)) == pytest.approx(variance, rel=1e-14)

    # in the logarithm of y: for powers near 2 the density is not bounded at 0
    x = np.linspace(-60, np.log(mean + 60 * variance**0.5), 60_001)
    y = np.exp(x)
    p = np.exp(likelihood.log_density(y, np.full(y.size, f)) + x)

    def integral(values, upto=np.inf):
        inside = y <= upto
        return np.trapezoid((p * values)[inside], x[inside])

    found = [at_0 + integral(1.0), integral(y), at_0 * mean**2 + integral((y - mean) ** 2)]
    np.testing.assert_allclose(found, [1.0, mean, variance], rtol=1e-5)
    for value in y[np.searchsorted(y, [0.1 * mean, mean, 2 * mean])]:
        stated = likelihood.distribution(np.array([value]), np.array([f]))[0]
        assert stated == pytest.approx(at_0 + integral(1.0, value), abs=1e-4)
    assert likelihood.distribution(np.zeros(1), np.array([f]))[0] == pytest.approx(0.5 * at_0)


def test_tweedie_of_power_one_and_a_half_is_a_bessel_function():
    """Its series is that of I_1: p(y) = exp(-a) sqrt(c / y) I_1(2 sqrt(c y)), in closed form."""
    from scipy.special import ive

    dispersion, f = 1.7, 0.4
    rate, scale = 2 * np.exp(0.5 * f) / dispersion, 0.5 * dispersion * np.exp(0.5 * f)
    y = np.array([1e-8, 1e-3, 0.3, 2.0, 40.0, 1e4])
    z = 2 * np.sqrt(rate * y / scale)
    wanted = -rate - y / scale + 0.5 * np.log(rate / (scale * y)) + np.log(ive(1, z)) + z
    found = Tweedie(dispersion, 1.5).log_density(y, np.full(y.size, f))
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


def test_draws_of_tweedie_have_its_moments_and_distribution():
    """Within five standard errors, of which one part is exactly 0."""
    likelihood, f = Tweedie(1.5, 1.6), 0.4
    draws = likelihood.sample(np.full(DRAWS, f), np.random.default_rng(7))
    mean, variance = likelihood.mean(np.array(f)), likelihood.variance(np.array(f))
    assert abs(draws.mean() - mean) < 5 * np.sqrt(variance / DRAWS)
    squares = np.square(draws - mean)
    assert abs(squares.mean() - variance) < 5 * squares.std() / DRAWS**0.5
    at_0 = density(likelihood, 0.0, f)
    assert abs(np.mean(draws == 0) - at_0) < 2.5 / DRAWS**0.5
    for value in (0.1, 1.0, 4.0):
        stated = likelihood.distribution(np.array([value]), np.array([f]))[0]
        assert abs(np.mean(draws < value) - stated) < 2.5 / DRAWS**0.5


@pytest.mark.parametrize("power", [1.01, 1.1, 1.5, 1.9, 1.99])
@pytest.mark.parametrize("dispersion", [1e-3, 0.1, 30.0, 1e4])
def test_tweedie_at_extremes(dispersion, power):
    """No NaN, increasing distributions, and slopes in f of (y - m) / (dispersion m^(p - 1))."""
    likelihood = Tweedie(dispersion, power)
    y = np.array([0.0, 1e-8, 1e-3, 1.0, 1e3, 1e8])[:, None]
    f = np.array([-300.0, -20.0, -1.0, 0.0, 3.0, 20.0, 300.0])
    assert not np.isnan(likelihood.log_density(y, f)).any()
    own = likelihood.log_density(y, f[1:-1])
    assert np.isfinite(own).all()
    below = likelihood.distribution(y, f[1:-1])
    assert ((below >= 0) & (below <= 1)).all()
    assert (np.diff(below, axis=0) > -1e-9).all()
    h, at = 1e-5, f[2:5]
    slope = (likelihood.log_density(y, at + h) - likelihood.log_density(y, at - h)) / (2 * h)
    wanted = (y - np.exp(at)) * np.exp((1 - power) * at) / dispersion
    np.testing.assert_allclose(slope, wanted, rtol=1e-5, atol=1e-4 * max(1, 1e-3 / dispersion))


@pytest.mark.parametrize("power", [1.2, 1.5, 1.8])
def test_tweedie_by_its_series_and_by_saddlepoints_agree(power, monkeypatch):
    """Where a sum has many terms; their error falls with the number, which is larger in use."""
    likelihood, f = Tweedie(1e-4, power), np.zeros(9)
    y = 1 + 1e-2 * np.linspace(-4, 4, 9)
    series = likelihood.log_density(y, f), likelihood.distribution(y, f)
    monkeypatch.setattr("graphrf.gp.likelihoods.tweedie._MANY", 10.0)
    saddle = likelihood.log_density(y, f), likelihood.distribution(y, f)
    np.testing.assert_allclose(saddle[0], series[0], atol=1e-4)
    np.testing.assert_allclose(saddle[1], series[1], atol=1e-6)
    assert (saddle[0] != series[0]).all()


def test_a_pattern_is_the_likelihood_of_a_poisson_process():
    """With constant intensity c in an area: n log c - c area, largest at n / area."""
    y = np.array([1.0, 1.0, 1.0, 0.0, 0.0])
    likelihood = PointProcess()
    exposure = np.array([5.0, 0.0, 9.0, 0.5, 1.5])  # of events it is not used
    offset = likelihood.log_exposure(y, exposure)
    np.testing.assert_array_equal(offset, [0, 0, 0, np.log(0.5), np.log(1.5)])
    c = np.linspace(0.2, 4.0, 39)
    found = likelihood.log_density(y[:, None], np.log(c) + offset[:, None]).sum(axis=0)
    np.testing.assert_allclose(found, 3 * np.log(c) - 2 * c, rtol=1e-13, atol=1e-13)
    assert likelihood.start(y, offset) == pytest.approx(np.log(1.5))
    draws = likelihood.sample(np.full(DRAWS, 0.4), np.random.default_rng(7))
    assert abs(draws.mean() - np.exp(0.4)) < 5 * np.exp(0.2) / DRAWS**0.5
    found = derivatives(likelihood, y, np.full(5, 0.3), 1.0)
    np.testing.assert_allclose(found.first, np.where(y == 1, 1.0, -np.exp(0.3)), rtol=1e-6)
    np.testing.assert_allclose(
        found.second, np.where(y == 1, 0.0, -np.exp(0.3)), rtol=1e-4, atol=1e-5
    )


REFUSED = {
    "a negative catch": (Tweedie(), [-1.0, 1.0], {}, "0 or more for .*'tweedie', got -1 at 0"),
    "a pattern of counts": (PointProcess(), [2.0, 0.0], {}, r"1 for events and 0.*quadrature"),
    "a pattern without events": (PointProcess(), [0.0, 0.0], {}, "some of each"),
    "a pattern without a quadrature": (PointProcess(), [1.0, 1.0], {}, r"mesh\.quadrature"),
    "a quadrature without weights": (
        PointProcess(),
        [1.0, 0.0],
        {"exposure": [1.0, 0.0]},
        "`exposure` must be greater than 0",
    ),
    "half a count": (ZeroInflatedPoisson(), [0.5, 1.0], {}, "counts"),
    "a negative count": (ZeroInflatedNegativeBinomial(), [-1.0, 1.0], {}, "counts, 0 or more"),
    "a share of 0": (Beta(), [0.0, 0.5], {}, "neither of them.*got 0 at 0.*binomial.*inwards"),
    "a share of 1": (Beta(), [0.5, 1.0], {}, "got 1 at 1"),
    "a price of 0": (LogNormal(), [1.0, 0.0], {}, "'log_normal', got 0 at 1"),
    "a negative time": (Weibull(), [-1.0, 1.0], {}, "'weibull', got -1 at 0"),
    "half an event": (
        Weibull(),
        [1.0, 1.0],
        {"event": [1.0, 0.5]},
        "`event` must be 1.*got 0.5 at 1",
    ),
    "no event": (Weibull(), [1.0, 1.0], {"event": 0}, "`event` must be 1 somewhere"),
    "events of counts": (
        Poisson(),
        [1.0, 1.0],
        {"event": 1},
        "`event` is for times until an event",
    ),
    "three events": (Weibull(), [1.0, 1.0], {"event": [1, 1, 0]}, "one for each observation"),
    "an unknown level": (Ordinal(3), [0.0, 3.0], {}, "levels 0 to 2.*got 3 at 1"),
    "half a level": (Ordinal(3), [0.5, 1.0], {}, "got 0.5 at 0"),
    "trials of shares": (
        Beta(),
        [0.5, 0.5],
        {"trials": 3},
        "`trials` is for likelihood='binomial'",
    ),
    "exposure of shares": (Beta(), [0.5, 0.5], {"exposure": 3.0}, "`exposure`"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_observations_that_cannot_be_are_refused(case):
    likelihood, y, beside, said = REFUSED[case]
    beside = {"exposure": None, "trials": None, **beside}
    with pytest.raises(ValueError, match=said):
        checked_responses(likelihood, 2, np.array(y), **beside)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ZeroInflatedPoisson(1.0), "`zero_probability` must be less than 1, got 1"),
        (lambda: ZeroInflatedNegativeBinomial(0.5, -1.0), "`dispersion`"),
        (lambda: Beta(0.0), "`precision`"),
        (lambda: Tweedie(power=2.0), "`power` must be between 1 and 2.*Gamma"),
        (lambda: Tweedie(power=1.0), "`power` must be between 1 and 2.*Poisson"),
        (lambda: Tweedie(dispersion=0.0), "`dispersion`"),
        (lambda: LogNormal(-1.0), "`scale`"),
        (lambda: Weibull(0.0), "`shape`"),
        (lambda: Ordinal(2), "`n_levels`"),
        (
            lambda: Ordinal(4, [1.0]),
            "`gaps` must hold 2 distances between the 3 thresholds of 4 levels, got 1",
        ),
        (lambda: Ordinal(4, [1.0, -1.0]), r"`gaps\[1\]`"),
        (lambda: checked_likelihood("weibul"), "weibull"),
    ],
)
def test_parameters_that_cannot_be_are_refused(make, said):
    with pytest.raises(ValueError, match=said):
        make()


TRUE = {
    "zero_inflated_poisson": ZeroInflatedPoisson(0.3),
    "zero_inflated_negative_binomial": ZeroInflatedNegativeBinomial(0.3, 0.4),
    "beta": Beta(8.0),
    "log_normal": LogNormal(0.5),
    "weibull": Weibull(1.6),
    "ordinal": Ordinal(4, [0.8, 1.4]),
}


def simulated(name, n=400):
    """400 rows of twelve groups, a covariate with the effect 0.5, and the intercept 1.2."""
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("formulaic")
    rng = np.random.default_rng(11)
    x, group = rng.standard_normal(n), np.arange(n) % 12
    frame = pandas.DataFrame({"x": x, "group": group, "people": rng.uniform(1.0, 3.0, n)})
    level = 0.4 * rng.standard_normal(12)
    likelihood = TRUE[name]
    offset = np.log(frame["people"].to_numpy()) if likelihood.log_link else 0.0
    frame["y"] = likelihood.sample(1.2 + 0.5 * x + (level - level.mean())[group] + offset, rng)
    frame["seen"] = True
    if name == "weibull":
        limit = rng.uniform(2.0, 20.0, n)
        frame["seen"] = frame["y"] < limit
        frame["y"] = np.minimum(frame["y"], limit)
        assert 0.2 < frame["seen"].mean() < 0.8
    return frame


# two parameters, times that are censored, and gaps; long Markov chains agree for all in
# model/test_likelihoods.py
@pytest.mark.more
@pytest.mark.parametrize("name", ["zero_inflated_negative_binomial", "weibull", "ordinal"])
def test_parameters_are_recovered(name):
    frame, likelihood = simulated(name), TRUE[name]
    model = LatentGaussianModel(
        "y ~ 1 + x",
        grf.gp.Groups("group"),
        Ordinal(4) if name == "ordinal" else name,
        exposure="people" if likelihood.log_link else None,
        event="seen" if name == "weibull" else None,
        seed=0,
    ).fit(frame)
    table = model.summary()
    wanted = {"Intercept": 1.2, "x": 0.5}
    wanted |= {"gap_1": 0.8, "gap_2": 1.4} if name == "ordinal" else vars(likelihood)
    for row, value in wanted.items():
        mean, sd = table.loc[row, ["mean", "sd"]]
        assert abs(mean - value) < 3 * sd, (row, mean, sd)
        assert sd < 0.35 * max(value, 1.0), (row, sd)
    # quantiles and probabilities are those of draws of the expected observation
    rows = frame.iloc[:5]
    draws = model.sample(rows, 4_000, seed=0)
    quantiles = model.predict(rows, quantiles=(0.1, 0.9))
    np.testing.assert_allclose(
        (draws[:, :, None] < quantiles).mean(axis=0), [[0.1, 0.9]] * 5, atol=0.03
    )
    middle = float(np.median(draws))
    np.testing.assert_allclose(
        model.probability(rows, above=middle), (draws > middle).mean(axis=0), atol=0.04
    )
    pit = model.loo().pit
    assert (np.isnan(pit) == ~frame["seen"].to_numpy()).all()
    if name != "weibull":  # observed times are not a random part of all
        assert abs(pit.mean() - 0.5) < 0.06
        assert abs(pit.std() - 12**-0.5) < 0.06 or name == "ordinal"


@pytest.mark.parametrize("likelihood", [Weibull(1.6), Ordinal(4, [0.8, 1.4])], ids=repr)
def test_files_keep_events_and_gaps(likelihood, tmp_path):
    name = type(likelihood).__name__.lower()
    frame, event = simulated(name, 60), "seen" if name == "weibull" else None
    model = LatentGaussianModel(
        "y ~ 1 + x", grf.gp.Groups("group"), likelihood, event=event, hyperparameters="mode", seed=0
    )
    model.fit(frame).save(tmp_path / "model.npz")
    loaded = LatentGaussianModel.load(tmp_path / "model.npz")
    assert loaded.likelihood == likelihood
    assert loaded.event == event
    np.testing.assert_allclose(loaded.predict(frame), model.predict(frame), rtol=1e-9)
    np.testing.assert_allclose(loaded.loo().log_density, model.loo().log_density, rtol=1e-7)


@dataclass(frozen=True)
class Exponential(Likelihood):
    """A likelihood of a user, with no more than it needs."""

    log_link = True

    def log_density(self, y, f):
        return -f - y * np.exp(-f)

    def mean(self, f):
        return np.exp(f)


def test_a_likelihood_without_distribution_has_no_integral_transforms():
    frame = simulated("log_normal", 60)
    settings = {"hyperparameters": "mode", "seed": 0}
    own = LatentGaussianModel("y ~ 1 + x", grf.gp.Groups("group"), Exponential(), **settings).fit(
        frame
    )
    same = LatentGaussianModel("y ~ 1 + x", grf.gp.Groups("group"), Weibull(1.0), **settings).fit(
        frame
    )
    assert own.loo().pit is None
    assert same.loo().pit.shape == (60,)
    np.testing.assert_allclose(own.loo().log_density, same.loo().log_density, rtol=1e-6)
    np.testing.assert_allclose(
        own.predict(quantiles=(0.1, 0.9)), same.predict(quantiles=(0.1, 0.9)), rtol=1e-5
    )


def test_ordinal_levels_on_a_graph(tmp_path):
    graph = grf.load_graph(nx.grid_2d_graph(10, 10))
    rng = np.random.default_rng(4)
    f = 0.7 + grf.apply_root(
        graph, grf.Matern(nu=2.0, lengthscale=5.0), 8 * rng.standard_normal(100)
    )
    nodes = np.repeat(np.arange(0, 100, 2), 3)
    settings = {
        "kernel": grf.Matern(nu=2.0),
        "likelihood": Ordinal(4),
        "hyperparameters": "mode",
        "seed": 0,
    }
    gp = grf.GraphGPRegressor(graph, **settings)
    gp.fit(nodes, Ordinal(4, [0.8, 1.4]).sample(f[nodes], rng))
    np.testing.assert_allclose(gp.likelihood_.gaps, [0.8, 1.4], rtol=0.5)
    truth = Ordinal(4, [0.8, 1.4]).mean(f)
    low, high = gp.predict(quantiles=(0.025, 0.975)).T
    assert np.mean((low < truth) & (truth < high)) > 0.8
    assert np.corrcoef(gp.predict(), truth)[0, 1] > 0.7
    draws = gp.likelihood_.mean(gp.sample([3, 90], 4_000, seed=0))
    np.testing.assert_allclose(
        gp.probability([3, 90], above=1.5), np.mean(draws > 1.5, axis=0), atol=0.05
    )
    gp.save(tmp_path / "gp.npz")
    assert grf.GraphGPRegressor.load(tmp_path / "gp.npz").likelihood_ == gp.likelihood_


@pytest.mark.parametrize(
    "settings", [{"event": "sen"}, {"event": "seen", "likelihood": "gamma"}], ids=str
)
def test_events_that_cannot_be_are_refused(settings):
    frame = simulated("weibull", 60)
    with pytest.raises(ValueError, match=r"`event`.*(did you mean 'seen'|until an event)"):
        LatentGaussianModel(
            "y ~ 1", grf.gp.Groups("group"), **{"likelihood": "weibull", **settings}
        ).fit(frame)


@pytest.mark.more
def test_censored_times_taken_for_observed_are_too_short():
    """The negative control of `event`."""
    frame = simulated("weibull")
    found = {}
    for event in ("seen", None):
        model = LatentGaussianModel(
            "y ~ 1 + x",
            grf.gp.Groups("group"),
            "weibull",
            exposure="people",
            event=event,
            hyperparameters="mode",
        )
        found[event] = model.fit(frame).coefficients_.loc["Intercept", "mean"]
    assert abs(found["seen"] - 1.2) < 0.15
    assert found[None] < found["seen"] - 0.15
