"""Quantiles of new observations: the least y with P(Y <= y) >= level, by closed forms."""

from dataclasses import dataclass

import numpy as np
import pytest
import scipy.stats
from scipy.special import expit, ndtr

from graphrf.gp import (
    Bernoulli,
    Beta,
    Binomial,
    Gamma,
    Likelihood,
    LogNormal,
    NegativeBinomial,
    Ordinal,
    Poisson,
    StudentT,
    Tweedie,
    Weibull,
    ZeroInflatedNegativeBinomial,
    ZeroInflatedPoisson,
)
from graphrf.gp.likelihoods.real import NormalNoise
from graphrf.gp.posterior.approximation.integrals import monotone_average
from graphrf.gp.posterior.marginals import MarginalMixture, Marginals
from graphrf.gp.posterior.predictive import observed_quantiles

LEVELS = np.array([1e-3, 0.025, 0.5, 0.8, 0.975, 0.999])
Z = np.linspace(-10.0, 10.0, 20_001)
WEIGHTS = np.exp(-0.5 * Z * Z) / np.exp(-0.5 * Z * Z).sum()
BUILT_IN = [
    Poisson(),
    NegativeBinomial(0.4),
    ZeroInflatedPoisson(0.3),
    ZeroInflatedNegativeBinomial(0.2, 0.5),
    Binomial(),
    Bernoulli(),
    Ordinal(4, [0.7, 1.5]),
    StudentT(0.3, 5.0),
    StudentT(0.01, 1.5),
    NormalNoise(0.6),
    Gamma(3.0),
    Gamma(0.2),
    Beta(6.0),
    LogNormal(0.5),
    Weibull(1.7),
    Weibull(0.5),
    Tweedie(2.0, 1.5),
    Tweedie(0.5, 1.8),
]
# At f: distributions of scipy, by which none of our own formulas is used.
SCIPY = [
    (Poisson(), lambda f: scipy.stats.poisson(np.exp(f))),
    (NegativeBinomial(0.4), lambda f: scipy.stats.nbinom(2.5, 1 / (1 + 0.4 * np.exp(f)))),
    (Bernoulli(), lambda f: scipy.stats.bernoulli(expit(f))),
    (StudentT(0.3, 5.0), lambda f: scipy.stats.t(5.0, f, 0.3)),
    (NormalNoise(0.6), lambda f: scipy.stats.norm(f, 0.6)),
    (Gamma(3.0), lambda f: scipy.stats.gamma(3.0, scale=np.exp(f) / 3)),
    (LogNormal(0.5), lambda f: scipy.stats.lognorm(0.5, scale=np.exp(f))),
    (Weibull(1.7), lambda f: scipy.stats.weibull_min(1.7, scale=np.exp(f))),
    (Beta(6.0), lambda f: scipy.stats.beta(6 * expit(f), 6 * expit(-f))),
]


@dataclass(frozen=True)
class Falling(Likelihood):
    """Exponential waiting times, whose hazard and not mean is exp(f)."""

    support = (0.0, np.inf)

    def log_density(self, y, f):
        return f - y * np.exp(f)

    def mean(self, f):
        return np.exp(-f)

    def distribution(self, y, f):
        return -np.expm1(-y * np.exp(f))


def mixture(likelihood, mean, variance):
    """Two normal distributions of f at a node."""
    parts = [(mean, variance), (mean + 0.5, variance / 2)]
    return MarginalMixture(
        [Marginals(np.array([m]), np.array([v]), likelihood) for m, v in parts],
        np.array([0.3, 0.7]),
    )


def at_most(law, y):
    """P(Y <= y) by a sum over 20,001 values of f in each part."""
    parts = zip(law.probabilities, law.parts, strict=True)
    return sum(
        p
        * (part.likelihood.at_most(np.asarray(y), part.mean + np.sqrt(part.variance) * Z) @ WEIGHTS)
        for p, part in parts
    )


@pytest.mark.parametrize("likelihood", [*BUILT_IN, Falling()], ids=repr)
@pytest.mark.parametrize(("mean", "variance"), [(0.3, 0.4), (-3.0, 2.0), (3.0, 0.01)])
def test_the_distribution_function_reaches_each_level_at_its_quantile(likelihood, mean, variance):
    law = mixture(likelihood, mean, variance)
    found = observed_quantiles(law, LEVELS)[0]
    for level, y in zip(LEVELS, found, strict=True):
        if likelihood.whole:
            assert y == np.floor(y)
            assert at_most(law, y) >= level - 1e-7
            assert y == likelihood.support[0] or at_most(law, y - 1) < level + 1e-7
        elif y == 0 and likelihood.is_atom(y):
            assert at_most(law, 0.0) >= level
        else:
            assert at_most(law, y) == pytest.approx(level, rel=1e-3)


@pytest.mark.parametrize(("likelihood", "known"), SCIPY, ids=[repr(each) for each, _ in SCIPY])
def test_quantiles_where_f_is_known_are_those_of_scipy(likelihood, known):
    f = np.array([-2.0, 0.3, 3.0])
    found = observed_quantiles(MarginalMixture.alone(f, np.full(3, 1e-16), likelihood), LEVELS)
    np.testing.assert_allclose(found, [known(each).ppf(LEVELS) for each in f], rtol=1e-5)


def test_probabilities_of_counts_and_levels_add_up_to_their_distribution_functions():
    f = np.array([-1.0, 0.4, 2.0])
    for likelihood in filter(lambda each: each.whole, BUILT_IN):
        last = int(min(likelihood.support[1], 40))
        y = np.arange(last + 1.0)
        masses = np.exp([likelihood.log_density(likelihood.in_form(np.full(3, k)), f) for k in y])
        below = [likelihood.at_most(np.full(3, k), f) for k in y]
        np.testing.assert_allclose(below, np.cumsum(masses, axis=0), rtol=1e-10)


@pytest.mark.parametrize("steepness", 10.0 ** np.arange(-6, 4))
def test_means_of_monotone_functions_are_right_however_steep_they_are(steepness):
    """Phi((y - f) / s) over a normal f, which is Phi of (y - m) over the root of s^2 + v."""
    y = np.linspace(-6.0, 6.0, 41)
    mean, std = np.full(41, 0.3), np.full(41, 1.5)
    found = monotone_average(lambda f: ndtr((y[:, None] - f) / steepness), mean, std)
    np.testing.assert_allclose(found, ndtr((y - 0.3) / np.hypot(steepness, 1.5)), atol=3e-4)


def test_many_nodes_and_levels_in_any_order_are_those_of_each_alone():
    rng = np.random.default_rng(0)
    mean, variance = rng.standard_normal(1_203), rng.uniform(0.0, 1.0, 1_203)
    law = MarginalMixture.alone(mean, variance, Poisson())
    found = observed_quantiles(law, np.array([0.9, 0.1]))
    for node in (0, 999, 1_000, 1_202):
        alone = observed_quantiles(law.at(np.array([node])), np.array([0.1, 0.9]))
        np.testing.assert_array_equal(found[node], alone[0, ::-1])


def test_counts_beyond_all_reason_have_quantiles():
    law = MarginalMixture.alone(np.array([30.0, -700.0]), np.array([1e-4, 0.0]), Poisson())
    found = observed_quantiles(law, np.array([0.1, 0.9]))
    np.testing.assert_allclose(
        found[0], np.exp(30 + 0.01 * scipy.stats.norm.ppf([0.1, 0.9])), rtol=1e-5
    )
    np.testing.assert_array_equal(found[1], 0.0)


def test_quantiles_of_values_that_decrease_with_f_are_in_the_order_of_the_levels():
    law = mixture(Falling(), 0.3, 1.0)
    expected = law.quantiles(LEVELS, Falling())
    assert (np.diff(Falling().mean(expected), axis=1) > 0).all()
    np.testing.assert_allclose(  # P(mean <= y) = P(f >= -log y)
        [law.probability(-np.log(y), np.inf)[0] for y in Falling().mean(expected)[0]],
        LEVELS,
        atol=1e-9,
    )
    assert (np.diff(observed_quantiles(law, LEVELS)) > 0).all()


def test_probabilities_take_ends_in_any_order():
    for law in (mixture(Poisson(), 0.3, 1.0), mixture(Poisson(), 0.3, 1.0).parts[0]):
        assert law.probability(1.0, -0.5) == law.probability(-0.5, 1.0)
        assert 0 < law.probability(1.0, -0.5)[0] < 1
        assert law.probability(np.inf, 1.0) == law.probability(1.0, np.inf)


def test_a_likelihood_without_distribution_says_what_its_quantiles_need():
    class Bare(Falling):
        distribution = Likelihood.distribution

    with pytest.raises(
        NotImplementedError, match=r"has no `distribution`.*define it, or take quantiles of obs"
    ):
        observed_quantiles(mixture(Bare(), 0.0, 1.0), LEVELS)


def test_probabilities_are_at_most_1_where_weights_do_not_sum_to_it():
    weights = np.full(10, 0.1)
    weights[0] += np.spacing(1.0)
    parts = [Marginals(np.zeros(3), np.ones(3), None)] * 10
    assert (weights @ np.ones(10)) > 1
    np.testing.assert_array_equal(MarginalMixture(parts, weights).probability(-50.0, 50.0), 1.0)
