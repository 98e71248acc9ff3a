"""Expectation propagation: against quadrature, finite differences and normal noise."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import norm

import graphrf as grf
from graphrf.gp.likelihoods.counts import NegativeBinomial, Poisson
from graphrf.gp.likelihoods.likelihood import Likelihood
from graphrf.gp.likelihoods.positive import Gamma
from graphrf.gp.likelihoods.proportions import Bernoulli, Binomial
from graphrf.gp.likelihoods.real import StudentT
from graphrf.gp.model.responses import Responses
from graphrf.gp.posterior.approximation import expectation_propagation
from graphrf.gp.posterior.approximation.expectation_propagation import (
    Sites,
    approximate,
    independent_sites,
)
from graphrf.gp.posterior.approximation.integrals import tilted
from graphrf.gp.posterior.approximation.priors import DensePrior, ProductPrior, with_mean
from graphrf.gp.posterior.approximation.sparse import SparsePrior
from graphrf.operators.precision.markov import SparsePrecision
from tests.support.small_graphs import grid_path_and_node

KNOWN = [Poisson(), NegativeBinomial(0.4), Binomial(), Bernoulli(), StudentT(0.3, 3.0), Gamma(3.0)]
KERNEL = grf.Matern(nu=2.0, lengthscale=2.0)
SPREAD = 10.0


def named(likelihood):
    return type(likelihood).__name__


@dataclass(frozen=True)
class Normal(Likelihood):
    """Normal noise, for which expectation propagation is exact."""

    noise: float = 0.2

    def log_density(self, y, f):
        return -0.5 * np.square(y - f) / self.noise - 0.5 * np.log(2 * np.pi * self.noise)

    def mean(self, f):
        return f


class Problem:
    """Thirty observations at nodes of a small graph, repeats among them, a covariate."""

    def __init__(self, likelihood, n=30):
        rng = np.random.default_rng(0)
        self.graph = grid_path_and_node()
        size = self.graph.n_nodes
        self.basis = np.column_stack([np.ones(size), rng.standard_normal(size)])
        whole = KERNEL.dense(self.graph)
        self.amplitude = 1.3 * size / np.trace(whole)
        f = (
            np.linalg.cholesky(self.amplitude * whole) @ rng.standard_normal(size)
            + 0.3 * self.basis[:, 1]
        )
        positions = rng.integers(0, size, n)
        offset = np.log(rng.uniform(0.5, 3.0, n)) if likelihood.log_link else np.full(n, 0.1)
        trials = None
        if isinstance(likelihood, Binomial) and not isinstance(likelihood, Bernoulli):
            trials = rng.integers(1, 6, n).astype(float)
            y = rng.binomial(trials.astype(int), likelihood.mean(f[positions])).astype(float)
        elif isinstance(likelihood, Normal):
            y = f[positions] + rng.standard_normal(n)
        else:
            y = likelihood.sample(f[positions] + offset, rng)
        if isinstance(likelihood, StudentT):
            y[:3] += 4.0  # outliers
        self.likelihood = likelihood
        self.responses = Responses.of(positions, likelihood.checked(y, trials), offset, self.basis)

    def matrix(self, lengthscale=2.0, amplitude=None):
        nodes = self.responses.nodes
        whole = KERNEL.replace(lengthscale=lengthscale).dense(self.graph)
        return (self.amplitude if amplitude is None else amplitude) * whole[np.ix_(nodes, nodes)]

    def dense(self, likelihood=None, **options):
        """The prior by K, and the approximation."""
        likelihood = likelihood or self.likelihood
        prior = DensePrior(with_mean(self.matrix(**options), self.responses.basis, SPREAD))
        sites = independent_sites(self.responses, likelihood, SPREAD)
        return prior, approximate(prior, self.responses, likelihood, sites)

    def evidence(self, likelihood=None, **options):
        return self.dense(likelihood, **options)[1].log_evidence

    def sparse(self):
        """The same by the sparse precision."""
        prior = SparsePrior(
            SparsePrecision(self.graph, KERNEL), self.amplitude, self.responses, SPREAD
        )
        sites = independent_sites(self.responses, self.likelihood, SPREAD)
        return prior, approximate(prior, self.responses, self.likelihood, sites)


@pytest.fixture
def exactly(monkeypatch):
    """Rounds until nothing changes."""
    monkeypatch.setattr(expectation_propagation, "_SETTLED", 1e-10)
    monkeypatch.setattr(expectation_propagation, "_ROUNDS", 500)


def single(likelihood, y, offset=0.3):
    """One observation of one node."""
    trials = np.array([1.0]) if type(likelihood) is Binomial else None
    y = likelihood.checked(np.array([y]), trials)
    return Responses(np.array([0]), np.array([0]), y, np.array([offset]), np.zeros((1, 0)))


@pytest.mark.parametrize("likelihood", KNOWN, ids=named)
def test_tilted_distributions_are_integrals(likelihood):
    responses = single(likelihood, 1.0)
    for mean, std in ((-0.7, 0.5), (1.2, 3.0), (0.0, 40.0)):
        found = tilted(
            lambda f: responses.log_density(likelihood, f),
            np.array([mean]),
            np.array([std]),
            points=129,
        )

        f = np.linspace(mean - 10 * std, mean + 10 * std, 200_001)
        density = np.exp(responses.log_density(likelihood, f[None])[0]) * norm.pdf(f, mean, std)
        moments = [np.trapezoid(f**k * density, f) for k in (0, 1, 2)]
        mean_f = moments[1] / moments[0]
        wanted = np.log(moments[0]), mean_f, moments[2] / moments[0] - mean_f**2
        np.testing.assert_allclose(
            [float(value[0]) for value in found], wanted, rtol=2e-3, atol=1e-3
        )


@pytest.mark.parametrize("likelihood", KNOWN, ids=named)
def test_two_nodes_have_the_moments_and_the_evidence_of_a_quadrature(likelihood):
    """The posterior of two correlated values on a fine grid; independent sites fail."""
    matrix = np.array([[2.0, 1.4], [1.4, 1.5]])
    y = np.array([1.0, 0.0]) if isinstance(likelihood, Binomial) else np.array([2.0, 1.0])
    y = likelihood.checked(y, np.array([1.0, 1.0]) if type(likelihood) is Binomial else None)
    responses = Responses(np.arange(2), np.arange(2), y, np.array([0.3, -0.2]), np.zeros((2, 0)))
    grid = np.linspace(-9.0, 9.0, 1201)
    own = responses.log_density(likelihood, np.broadcast_to(grid, (2, grid.size)))
    inverse = np.linalg.inv(matrix)
    square = (
        inverse[0, 0] * grid[:, None] ** 2
        + 2 * inverse[0, 1] * np.outer(grid, grid)
        + inverse[1, 1] * grid**2
    )
    p = np.exp(own[0][:, None] + own[1] - 0.5 * square) / (
        2 * np.pi * np.sqrt(np.linalg.det(matrix))
    )
    mass = p.sum() * (grid[1] - grid[0]) ** 2
    sides = [p.sum(axis=1) / p.sum(), p.sum(axis=0) / p.sum()]
    mean = np.array([side @ grid for side in sides])
    std = np.sqrt([side @ np.square(grid - m) for side, m in zip(sides, mean, strict=True)])
    prior, sites = DensePrior(matrix), independent_sites(responses, likelihood, 2.0)
    found = approximate(prior, responses, likelihood, sites)
    assert found.settled
    near = 0.1 if isinstance(likelihood, StudentT) else 0.02  # the density is not log-concave
    assert abs(found.log_evidence - np.log(mass)) < near
    assert (np.abs(found.normal.mean - mean) < near * std).all()
    np.testing.assert_allclose(np.sqrt(found.normal.variance), std, rtol=near)
    alone = prior.condition(*independent_sites(responses, likelihood, 10.0))
    assert np.abs(alone.mean - mean).max() > 2 * np.abs(found.normal.mean - mean).max()


@pytest.mark.usefixtures("exactly")
@pytest.mark.parametrize("likelihood", KNOWN, ids=named)
def test_gradients_are_finite_differences(likelihood):
    problem = Problem(likelihood)
    names = tuple(field.name for field in dataclasses.fields(likelihood))
    prior, found = problem.dense()
    slope = prior.slope(found.sites.precision, found.weights)
    h = 1e-4

    def difference(change):
        return (change(h) - change(-h)) / (2 * h)

    wanted = difference(lambda x: problem.evidence(amplitude=problem.amplitude * np.exp(x)))
    # sites of outliers would have negative precisions, and
    # are held at none: near, and not exactly, a fixed point
    near = {"rtol": 0.1} if isinstance(likelihood, StudentT) else {"rtol": 1e-4, "atol": 1e-5}
    np.testing.assert_allclose(np.vdot(slope, problem.matrix()), wanted, **near)
    # This is the control.
    assert abs(float(np.vdot(slope + 0.05 * np.eye(len(slope)), problem.matrix())) - wanted) > 1e-3
    by_length = difference(lambda x: problem.evidence(lengthscale=2.0 + x))
    change = (problem.matrix(2.0 + h) - problem.matrix(2.0 - h)) / (2 * h)
    np.testing.assert_allclose(np.vdot(slope, change), by_length, **near)
    for name in names:
        value = getattr(likelihood, name)
        moved = difference(
            lambda x, n=name, v=value: problem.evidence(likelihood.replace(**{n: v * np.exp(x)}))
        )
        np.testing.assert_allclose(found.slope(problem.responses, likelihood, name), moved, **near)
    by_factor, again = problem.sparse()
    slopes = by_factor.slopes(again.sites.precision, again.normal.variance, ("lengthscale",))
    np.testing.assert_allclose(slopes.log_amplitude, wanted, **near)
    np.testing.assert_allclose(slopes.kernel, [by_length], **near)


@pytest.mark.parametrize("likelihood", [Poisson(), StudentT(0.3, 3.0)], ids=named)
def test_products_give_the_dense_approximation(likelihood):
    """Variances by 20,000 draws have standard errors of 1 %."""
    problem = Problem(likelihood)
    _, dense = problem.dense()
    matrix = with_mean(problem.matrix(), problem.responses.basis, SPREAD)
    root = np.linalg.cholesky(matrix)

    def draws():
        rng = np.random.default_rng(0)
        size = len(root)
        return [
            (root @ rng.standard_normal((size, 5000)), rng.standard_normal((size, 5000)))
            for _ in range(4)
        ]

    prior = ProductPrior(lambda x: matrix @ x, draws)
    sites = independent_sites(problem.responses, likelihood, SPREAD)
    found = approximate(prior, problem.responses, likelihood, sites)
    std = np.sqrt(dense.normal.variance)
    assert (np.abs(found.normal.mean - dense.normal.mean) < 0.05 * std).all()
    np.testing.assert_allclose(np.sqrt(found.normal.variance), std, rtol=0.05)
    assert np.isnan(found.log_evidence)


@pytest.mark.parametrize("likelihood", KNOWN, ids=named)
def test_conditioning_on_the_observations_that_stand_for_the_posterior_gives_it(likelihood):
    problem = Problem(likelihood)
    _, found = problem.dense()
    seen = found.observations(problem.responses)
    matrix = with_mean(problem.matrix(), problem.responses.basis, SPREAD)
    covariance = np.linalg.inv(np.linalg.inv(matrix) + np.diag(seen.counts))
    np.testing.assert_allclose(
        covariance @ (seen.counts * seen.means[:, 0]), found.normal.mean, atol=1e-7
    )
    np.testing.assert_allclose(np.diagonal(covariance), found.normal.variance, rtol=1e-6)


def test_with_normal_noise_it_is_the_exact_posterior_and_evidence():
    problem = Problem(Normal(0.2))
    responses = problem.responses
    prior = with_mean(problem.matrix(), responses.basis, SPREAD)
    own = prior[np.ix_(responses.place, responses.place)]
    covariance = own + 0.2 * np.eye(responses.place.size)
    rest = responses.y - responses.offset
    value = -0.5 * (
        rest @ np.linalg.solve(covariance, rest) + np.linalg.slogdet(2 * np.pi * covariance)[1]
    )
    _, found = problem.dense()
    np.testing.assert_allclose(found.log_evidence, value, rtol=1e-5)
    mean = prior[:, responses.place] @ np.linalg.solve(covariance, rest)
    np.testing.assert_allclose(found.normal.mean, mean, atol=1e-3)


@pytest.mark.parametrize(("variance", "count"), [(1e4, 0.0), (1e4, 1e9), (1e-4, 9.0), (1.0, 0.0)])
def test_extreme_counts_and_priors(variance, count):
    """One node, against quadrature."""
    responses = single(Poisson(), count)
    prior = DensePrior(np.array([[variance]]))
    found = approximate(
        prior, responses, Poisson(), independent_sites(responses, Poisson(), SPREAD)
    )
    wanted = tilted(
        lambda f: responses.log_density(Poisson(), f),
        np.zeros(1),
        np.sqrt([variance]),
        points=2_001,
    )
    assert found.settled
    std = np.sqrt(wanted.variance)
    assert np.abs(found.normal.mean - wanted.mean)[0] < 0.05 * std[0]
    np.testing.assert_allclose(np.sqrt(found.normal.variance), std, rtol=0.05)
    np.testing.assert_allclose(found.log_evidence, wanted.log_mass[0], rtol=1e-6, atol=0.05)


def test_sites_of_impossible_values_leave_the_prior():
    """log p(y | f) is -inf at every point of the rule."""

    @dataclass(frozen=True)
    class Never(Normal):
        def log_density(self, y, f):
            return np.full(np.shape(y - f), -np.inf)

    responses = single(Normal(0.2), 1.0)
    found = approximate(DensePrior(np.eye(1)), responses, Never(), Sites(np.ones(1), np.zeros(1)))
    assert found.log_evidence == -np.inf
    assert np.isfinite(found.normal.mean).all()


def test_rounds_that_do_not_settle_are_warned_of(monkeypatch):
    monkeypatch.setattr(expectation_propagation, "_ROUNDS", 1)
    monkeypatch.setattr(expectation_propagation, "_SETTLED", -1.0)
    gp = grf.GraphGPRegressor(
        grid_path_and_node(), kernel=KERNEL, likelihood="poisson", optimize=False
    )
    with pytest.warns(
        UserWarning, match="had not settled: in the last round a mean still moved by"
    ):
        gp.fit(np.arange(5), [1, 5, 0, 2, 9])
