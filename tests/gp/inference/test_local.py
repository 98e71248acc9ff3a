"""Laplace's approximation with any likelihood: against dense Newton steps, finite differences and normal noise."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.stats import norm

import graphrf as grf
from graphrf.gp.inference.local import dense
from graphrf.gp.inference.local.dense import dense_evidence, find_latent_mode, nearest_dense, with_mean
from graphrf.gp.inference.local.precision import nearest_sparse, precision_evidence
from graphrf.gp.inference.local.responses import Responses
from graphrf.gp.likelihoods import Bernoulli, Binomial, Gamma, Likelihood, NegativeBinomial, Poisson, StudentT
from graphrf.kernels.precision.precision import SparsePrecision
from tests.support.small_graphs import grid_path_and_node

KNOWN = [Poisson(), NegativeBinomial(0.4), Binomial(), Bernoulli(), StudentT(0.3, 3.0), Gamma(3.0)]
KERNEL = grf.Matern(nu=2.0, lengthscale=2.0)
SPREAD = 10.0


def named(likelihood):
    return type(likelihood).__name__


@dataclass(frozen=True)
class Normal(Likelihood):
    """Normal noise, for which Laplace's approximation is exact."""

    noise: float = 0.2

    def log_density(self, y, f):
        return -0.5 * np.square(y - f) / self.noise - 0.5 * np.log(2 * np.pi * self.noise)

    def derivatives(self, y, f):
        return (y - f) / self.noise, np.full(np.shape(y - f), -1 / self.noise)

    def mean(self, f):
        return f


class Problem:
    """Thirty observations at some nodes of a small graph, repeats among them, with one covariate."""

    def __init__(self, likelihood, n=30):
        rng = np.random.default_rng(0)
        self.graph = grid_path_and_node()
        size = self.graph.n_nodes
        self.basis = np.column_stack([np.ones(size), rng.standard_normal(size)])
        whole = KERNEL.dense(self.graph)
        self.amplitude = 1.3 * size / np.trace(whole)
        f = np.linalg.cholesky(self.amplitude * whole) @ rng.standard_normal(size) + 0.3 * self.basis[:, 1]
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

    def evidence(self, likelihood=None, **options):
        names = options.pop("names", None)
        return dense_evidence(
            self.matrix(**options), self.responses, likelihood or self.likelihood, spread=SPREAD, names=names
        )

    def sparse(self, **options):
        return precision_evidence(
            SparsePrecision(self.graph, KERNEL), self.responses, self.likelihood, amplitude=self.amplitude,
            spread=SPREAD, **options,
        )  # fmt: skip


@pytest.mark.parametrize("likelihood", KNOWN, ids=named)
def test_derivatives_are_those_of_the_log_density(likelihood):
    f = np.linspace(-2.0, 1.5, 9)
    y = likelihood.checked(np.full(9, 1.0), np.full(9, 3.0) if type(likelihood) is Binomial else None)
    h = 1e-5
    first, second = likelihood.derivatives(y, f)
    numerical = (likelihood.log_density(y, f + h) - likelihood.log_density(y, f - h)) / (2 * h)
    np.testing.assert_allclose(first, numerical, rtol=1e-6, atol=1e-8)
    ends = [likelihood.derivatives(y, f + sign * h) for sign in (1, -1)]
    np.testing.assert_allclose(second, (ends[0][0] - ends[1][0]) / (2 * h), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(likelihood.third(y, f), (ends[0][1] - ends[1][1]) / (2 * h), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("likelihood", KNOWN, ids=named)
def test_densities_sum_to_one_with_the_stated_mean_and_variance(likelihood):
    f = 0.4
    if isinstance(likelihood, StudentT | Gamma):
        low, high = (-np.inf, np.inf) if isinstance(likelihood, StudentT) else (0.0, np.inf)

        def moment(power):
            return quad(lambda y: y**power * np.exp(likelihood.log_density(y, f)), low, high, limit=500)[0]

        moments = [moment(0), moment(1), moment(2)]
    else:
        values = np.arange(2.0 if isinstance(likelihood, Binomial) else 400.0)
        y = np.stack([values, np.ones_like(values)]) if isinstance(likelihood, Binomial) else values
        p = np.exp(likelihood.log_density(y, np.full(values.size, f)))
        moments = [p.sum(), p @ values, p @ values**2]
    variance = moments[2] - moments[1] ** 2
    stated = likelihood.mean(np.array(f)), likelihood.variance(np.array(f))
    np.testing.assert_allclose([moments[0], moments[1], variance], [1.0, *stated], rtol=2e-4)
    draws = likelihood.sample(np.full(100_000, f), np.random.default_rng(1))
    np.testing.assert_allclose(draws.mean(), stated[0], atol=6 * (stated[1] / 1e5) ** 0.5)


@pytest.mark.parametrize("likelihood", KNOWN, ids=named)
def test_mode_and_evidence_are_those_of_a_dense_optimiser(likelihood):
    problem = Problem(likelihood)
    responses = problem.responses
    matrix = with_mean(problem.matrix(), responses.basis, SPREAD)
    root = np.linalg.cholesky(matrix)

    def negative(z):
        f = root @ z
        first, _ = likelihood.derivatives(responses.y, f[responses.place] + responses.offset)
        gradient = np.bincount(responses.place, first, responses.nodes.size)
        value = likelihood.log_density(responses.y, f[responses.place] + responses.offset).sum()
        return 0.5 * z @ z - value, z - root.T @ gradient

    found = minimize(negative, np.zeros(len(root)), jac=True, method="BFGS", options={"gtol": 1e-8})
    f = root @ found.x
    result = problem.evidence()
    assert result.mode.converged
    np.testing.assert_allclose(result.mode.latent, f, atol=2e-6)
    _, second = likelihood.derivatives(responses.y, f[responses.place] + responses.offset)
    w = np.maximum(-np.bincount(responses.place, second, responses.nodes.size), 0.0)
    value = -found.fun - 0.5 * np.linalg.slogdet(np.eye(len(root)) + matrix * w)[1]
    np.testing.assert_allclose(result.value, value, rtol=1e-6)
    by_products = find_latent_mode(lambda x: matrix @ x, responses, likelihood)
    np.testing.assert_allclose(by_products.latent, result.mode.latent, atol=1e-4)


@pytest.mark.parametrize("likelihood", KNOWN, ids=named)
def test_gradients_are_finite_differences(likelihood):
    problem = Problem(likelihood)
    names = tuple(field.name for field in dataclasses.fields(likelihood))
    result = problem.evidence(names=names)
    h = 1e-4

    def slope(change):
        return (change(h).value - change(-h).value) / (2 * h)

    wanted = slope(lambda x: problem.evidence(amplitude=problem.amplitude * np.exp(x)))
    np.testing.assert_allclose(np.vdot(result.slope, problem.matrix()), wanted, rtol=1e-5, atol=1e-6)
    by_length = slope(lambda x: problem.evidence(lengthscale=2.0 + x))
    change = (problem.matrix(2.0 + h) - problem.matrix(2.0 - h)) / (2 * h)
    np.testing.assert_allclose(np.vdot(result.slope, change), by_length, rtol=1e-5, atol=1e-6)
    for name, found in zip(names, result.parameters, strict=True):
        value = getattr(likelihood, name)
        moved = slope(lambda x, n=name, v=value: problem.evidence(likelihood.replace(**{n: v * np.exp(x)})))
        np.testing.assert_allclose(found, moved, rtol=1e-5, atol=1e-6)
    sparse = problem.sparse(kernel_names=("lengthscale",), names=names)
    np.testing.assert_allclose(sparse.log_amplitude, wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(sparse.kernel, [by_length], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(sparse.parameters, result.parameters, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("likelihood", KNOWN, ids=named)
def test_the_sparse_precision_gives_the_dense_evidence(likelihood):
    problem = Problem(likelihood)
    dense, sparse = problem.evidence(), problem.sparse()
    assert sparse.mode.converged
    np.testing.assert_allclose(sparse.value, dense.value, rtol=1e-7)
    np.testing.assert_allclose(sparse.mode.latent, dense.mode.latent, atol=1e-6)
    # from a mode nearby the same one is found
    again = problem.sparse(start=1.01 * sparse.mode.start)
    np.testing.assert_allclose(again.value, sparse.value, rtol=1e-7)


def test_a_mode_that_is_held_still_gives_another_gradient():
    """The negative control of the gradients: without the movement of the mode they are wrong."""
    problem = Problem(Poisson())
    result = problem.evidence(names=())
    matrix = with_mean(problem.matrix(), problem.responses.basis, SPREAD)
    a = result.mode.start
    middle = np.linalg.inv(matrix + np.diag(1 / result.mode.local.curvature))
    explicit = 0.5 * np.outer(a, a) - 0.5 * middle
    whole, part = (float(np.vdot(slope, problem.matrix())) for slope in (result.slope, explicit))
    assert abs(whole - part) > 1e-3 * abs(whole)


def test_with_normal_noise_it_is_the_exact_evidence():
    likelihood = Normal(0.2)
    problem = Problem(likelihood)
    responses = problem.responses
    own = with_mean(problem.matrix(), responses.basis, SPREAD)[np.ix_(responses.place, responses.place)]
    covariance = own + 0.2 * np.eye(responses.place.size)
    rest = responses.y - responses.offset
    value = -0.5 * (rest @ np.linalg.solve(covariance, rest) + np.linalg.slogdet(2 * np.pi * covariance)[1])
    np.testing.assert_allclose(problem.evidence().value, value, rtol=1e-10)


@pytest.mark.parametrize("likelihood", KNOWN, ids=named)
def test_averages_over_normal_laws_are_integrals(likelihood):
    y = likelihood.checked(np.array([1.0, 1.0]), np.full(2, 3.0) if type(likelihood) is Binomial else None)
    mean, variance = np.array([-0.7, 1.2]), np.array([0.5, 2.0])
    if isinstance(likelihood, StudentT):  # whose posterior deviations are at most 1.3 scales
        variance = np.array([0.05, 0.15])
    found = likelihood.averages(y, mean, variance)
    for one in range(2):
        at, own = norm(mean[one], variance[one] ** 0.5), y[..., one : one + 1]

        def averaged(function, law=at, y=own):
            return quad(
                lambda f: float(np.squeeze(function(y, np.array([f])))) * law.pdf(f), *law.interval(1 - 1e-15)
            )[0]

        wanted = [averaged(likelihood.log_density)]
        wanted += [averaged(lambda y, f, k=k: likelihood.derivatives(y, f)[k]) for k in (0, 1)]
        np.testing.assert_allclose(
            [values[one] for values in found], wanted, rtol=5e-3 if isinstance(likelihood, StudentT) else 1e-6
        )


def fixed_point(inverse, responses, likelihood, latent, information):
    """Mean and variances of the normal law nearest to the posterior, by plain dense algebra."""
    for _ in range(25):
        variances = np.diagonal(np.linalg.inv(inverse + np.diag(information)))
        for _ in range(5):
            _, first, second = likelihood.averages(
                responses.y, latent[responses.place] + responses.offset, variances[responses.place]
            )
            first, second = (np.bincount(responses.place, x, latent.size) for x in (first, second))
            latent = latent + 0.7 * np.linalg.solve(inverse - np.diag(second), first - inverse @ latent)
        information = np.maximum(0.5 * information - 0.5 * second, 0.0)
    return latent, variances


@pytest.mark.parametrize("likelihood", KNOWN, ids=named)
def test_the_nearest_normal_law_is_that_of_dense_algebra(likelihood):
    problem = Problem(likelihood)
    responses = problem.responses
    matrix = with_mean(problem.matrix(), responses.basis, SPREAD)
    inverse = np.linalg.inv(matrix)
    mode = find_latent_mode(matrix, responses, likelihood)
    mean, variances = fixed_point(inverse, responses, likelihood, mode.latent, mode.information)
    found = nearest_dense(matrix, responses, likelihood)
    assert found.converged
    # conditioning on the observations that stand for the posterior gives this law
    seen = found.observations(responses)
    own = np.linalg.inv(inverse + np.diag(seen.counts))
    np.testing.assert_allclose(own @ (seen.counts * seen.means[:, 0]), found.latent, atol=1e-7)
    std = np.sqrt(variances)
    near = 0.05 if isinstance(likelihood, StudentT) else 0.01  # rounds converge slowly at outliers
    assert (np.abs(found.latent - mean) < near * std).all()
    np.testing.assert_allclose(np.sqrt(np.diagonal(own)), std, rtol=near)
    before = np.sqrt(np.mean(np.square((mode.latent - mean) / std)))
    assert before > 10 * np.sqrt(np.mean(np.square((found.latent - mean) / std)))  # the negative control
    sparse = nearest_sparse(
        SparsePrecision(problem.graph, KERNEL), responses, likelihood, amplitude=problem.amplitude, spread=SPREAD
    )
    np.testing.assert_allclose(sparse.latent, found.latent, atol=2e-5)
    np.testing.assert_allclose(sparse.information, found.information, rtol=1e-3, atol=1e-4)

    def draws():  # 20,000 of them: standard errors of variances of 1 %
        rng = np.random.default_rng(0)
        size = root.shape[0]
        return [(root @ rng.standard_normal((size, 5000)), rng.standard_normal((size, 5000))) for _ in range(4)]

    root = np.linalg.cholesky(matrix)
    by_products = nearest_dense(lambda x: matrix @ x, responses, likelihood, draws)
    assert (np.abs(by_products.latent - mean) < 0.05 * std).all()


@pytest.mark.parametrize("likelihood", [x for x in KNOWN if not isinstance(x, StudentT)], ids=named)
def test_the_nearest_normal_law_is_nearer_to_quadrature(likelihood):
    """One node, prior N(0, 2), one small observation: the mean of f is nearer to the truth than its mode."""
    y = np.array([1.0 if isinstance(likelihood, Binomial | Gamma) else 0.0])
    y = likelihood.checked(y, np.array([1.0]) if type(likelihood) is Binomial else None)
    responses = Responses(np.array([0]), np.array([0]), y, np.array([0.3]), np.zeros((1, 0)))

    def density(f):
        return float(np.exp(likelihood.log_density(y, np.array([f + 0.3]))[0] - 0.25 * f * f))

    mass = quad(density, -12, 12)[0]
    mean = quad(lambda f: f * density(f), -12, 12)[0] / mass
    mode = find_latent_mode(np.array([[2.0]]), responses, likelihood)
    found = nearest_dense(np.array([[2.0]]), responses, likelihood)
    assert abs(mode.latent[0] - mean) > 0.05
    assert abs(found.latent[0] - mean) < 0.3 * abs(mode.latent[0] - mean)


def test_large_variances_keep_laplaces_approximation():
    """Averages of exp(f) would be of another order than at the mode."""
    responses = Responses(np.array([0]), np.array([0]), np.array([0.0]), np.array([0.0]), np.zeros((1, 0)))
    matrix = np.array([[1e4]])
    mode, found = find_latent_mode(matrix, responses, Poisson()), nearest_dense(matrix, responses, Poisson())
    assert found.converged
    assert (found.latent, found.information) == (mode.latent, mode.information)


def test_means_under_normal_noise_need_no_correction():
    problem = Problem(Normal(0.2))
    matrix = with_mean(problem.matrix(), problem.responses.basis, SPREAD)
    mode = find_latent_mode(matrix, problem.responses, Normal(0.2))
    found = nearest_dense(matrix, problem.responses, Normal(0.2))
    np.testing.assert_allclose(found.latent, mode.latent, atol=1e-9)


def test_huge_counts_do_not_overflow():
    problem = Problem(Poisson())
    y = problem.responses.y.copy()
    y[0] = 1e9
    responses = dataclasses.replace(problem.responses, y=y)
    result = dense_evidence(problem.matrix(), responses, Poisson(), spread=SPREAD, names=())
    assert result.mode.converged
    assert np.isfinite(result.value)
    assert np.isfinite(result.slope).all()


def test_rounds_that_do_not_settle_say_so(monkeypatch):
    monkeypatch.setattr(dense, "_SETTLED", -1.0)
    with pytest.warns(UserWarning, match="had not settled after 8 rounds"):
        nearest_dense(
            np.array([[2.0]]),
            Responses(np.array([0]), np.array([0]), np.array([3.0]), np.zeros(1), np.zeros((1, 0))),
            Poisson(),
        )
