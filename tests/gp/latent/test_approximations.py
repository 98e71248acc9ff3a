"""Laplace's approximation and expectation propagation: exact where the noise is normal."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import null_space
from scipy.stats import multivariate_normal

import graphrf as grf
from graphrf.gp import Groups, Nodes, Steps
from graphrf.gp.latent import joint_expectation_propagation, laplace
from graphrf.gp.latent.data import Data
from graphrf.gp.latent.posterior import posterior_at
from graphrf.gp.likelihoods.counts import NegativeBinomial, Poisson
from graphrf.gp.likelihoods.positive import Gamma
from graphrf.gp.likelihoods.proportions import Binomial
from graphrf.gp.likelihoods.real import NormalNoise
from graphrf.gp.posterior.approximation import expectation_propagation
from graphrf.gp.posterior.criteria import Evaluation, LatentRows, leave_one_out, without_sites
from graphrf.gp.posterior.marginals import Marginals
from graphrf.gp.terms.joint import Joint
from graphrf.gp.terms.term import BoundTerm

pandas = pytest.importorskip("pandas")

GRAPH = grf.load_graph(nx.grid_2d_graph(3, 4))
M = 40
RNG = np.random.default_rng(0)
FRAME = pandas.DataFrame(
    {
        "node": [list(GRAPH.nodes)[i] for i in RNG.integers(0, 12, M)],
        "t": np.arange(M) % 7,
        "h": RNG.integers(0, 4, M),
    }
)
TERMS = [Nodes(GRAPH, grf.BYM2(0.4)), Steps("t", "rw1"), Groups("h")]
DESIGN = np.column_stack([np.ones(M), np.linspace(-1, 1, M)])
OFFSET = RNG.uniform(0.0, 0.5, M)
OBSERVED = {
    "normal": (NormalNoise(), RNG.standard_normal(M)),
    "poisson": (Poisson(), RNG.poisson(2.0, M) * 1.0),
    "negative binomial": (NegativeBinomial(), RNG.poisson(2.0, M) * 1.0),
    "gamma": (Gamma(), RNG.gamma(2.0, 1.0, M)),
    "binomial": (Binomial(), np.stack([RNG.integers(0, 6, M), np.full(M, 5)]) * 1.0),
}


def model(name):
    bound = [BoundTerm.of(term, FRAME, number, 1.0) for number, term in enumerate(TERMS)]
    a = sp.csr_array(sp.hstack([*(own.rows(FRAME) for own in bound), sp.csr_array(DESIGN)]))
    own = Joint(bound, np.diag([1 / 4, 1 / 9]), [a])
    likelihood, y = OBSERVED[name]
    data = Data(y, OFFSET, likelihood, 1.0)
    start = np.array(
        [each.coordinate(each.start) for each in (*own.parameters, *data.parameters())]
    )
    return own, data, start


def covariance(own, vector):
    """Of eta, dense."""
    held = own.constraints.toarray()
    basis = null_space(held)
    q = own.prior(vector[: len(own.parameters)]).precision.toarray()
    a = own.a.toarray() @ basis
    return a @ np.linalg.inv(basis.T @ q @ basis) @ a.T


def test_normal_noise_is_exact():
    own, data, vector = model("normal")
    n = len(own.parameters)
    scale = data.likelihood_at(vector[n:]).scale
    k = covariance(own, vector)
    expected = multivariate_normal(OFFSET, k + scale**2 * np.eye(M)).logpdf(data.y)
    mode = laplace.approximation(own, data, data.likelihood_at(vector[n:]), vector[:n])
    assert mode.log_evidence == pytest.approx(expected, abs=1e-7)
    gain = k @ np.linalg.inv(k + scale**2 * np.eye(M))
    np.testing.assert_allclose(own.a @ mode.z, gain @ (data.y - OFFSET), atol=1e-7)
    np.testing.assert_allclose(
        mode.factor.variances(own.observed), np.diag(k - gain @ k), atol=1e-7
    )
    posterior = posterior_at(own, data, vector, mode.sites(own), rounds=False)
    law = Marginals(posterior.eta.mean, posterior.eta.variance, posterior.likelihood)
    rows = LatentRows(law, without_sites(law, posterior.sites), data.y, data.offset)
    left_out = leave_one_out(Evaluation([rows], np.ones(1), np.arange(len(data.offset))), 0.5)
    whole = np.linalg.inv(k + scale**2 * np.eye(M))
    variance = 1 / np.diag(whole)
    mean = data.y - OFFSET - variance * (whole @ (data.y - OFFSET))
    density = -0.5 * (np.log(2 * np.pi * variance) + (data.y - OFFSET - mean) ** 2 / variance)
    np.testing.assert_allclose(left_out.log_density, density, atol=1e-5)


@pytest.mark.parametrize("name", OBSERVED)
def test_gradients_are_those_of_the_evidence(name):
    own, data, vector = model(name)
    n, step = len(own.parameters), 1e-4
    vector = vector + 0.2 * np.random.default_rng(3).standard_normal(vector.size)

    def at(x):
        return laplace.approximation(own, data, data.likelihood_at(x[n:]), x[:n])

    found = laplace.gradient(own, data, data.likelihood_at(vector[n:]), vector[:n], at(vector))
    for k, unit in enumerate(step * np.eye(vector.size)):
        change = (at(vector + unit).log_evidence - at(vector - unit).log_evidence) / (2 * step)
        assert found[k] == pytest.approx(change, abs=1e-5)


@pytest.mark.parametrize("name", ["poisson", "binomial"])
def test_gradients_of_expectation_propagation_are_those_of_its_evidence(name, monkeypatch):
    monkeypatch.setattr(expectation_propagation, "_SETTLED", 1e-9)
    monkeypatch.setattr(expectation_propagation, "_ROUNDS", 200)
    own, data, vector = model(name)

    def at(x, offset=0.0):
        moved = Data(data.y, data.offset + offset, data.likelihood, data.unit)
        return joint_expectation_propagation.approximation(
            own, moved, data.likelihood, x, enough=0.0
        )

    found, step = (
        joint_expectation_propagation.gradient(own, data, data.likelihood, vector, at(vector)),
        1e-4,
    )
    for k, unit in enumerate(step * np.eye(vector.size)):
        change = (at(vector + unit).log_evidence - at(vector - unit).log_evidence) / (2 * step)
        assert found[k] == pytest.approx(change, abs=1e-5)
    slopes = joint_expectation_propagation.coefficient_gradient(own, DESIGN, at(vector))
    for k in range(2):
        change = (
            at(vector, step * DESIGN[:, k]).log_evidence
            - at(vector, -step * DESIGN[:, k]).log_evidence
        )
        assert slopes[k] == pytest.approx(change / (2 * step), abs=1e-5)


def test_gradients_in_coefficients_of_the_offset():
    own, data, vector = model("poisson")
    alone = Joint(own.terms, np.zeros((0, 0)), [sp.csr_array(own.a[:, :-2])])

    def at(b):
        moved = Data(data.y, data.offset + DESIGN @ b, data.likelihood, data.unit)
        return laplace.approximation(alone, moved, data.likelihood, vector)

    b, step = np.array([0.3, -0.2]), 1e-4
    slopes = laplace.coefficient_gradient(alone, DESIGN, at(b))
    for k, unit in enumerate(step * np.eye(2)):
        assert slopes[k] == pytest.approx(
            (at(b + unit).log_evidence - at(b - unit).log_evidence) / (2 * step), abs=1e-5
        )


@pytest.mark.parametrize("name", ["poisson", "binomial"])
def test_moments_are_those_of_the_posterior(name):
    """The exact posterior of eta with these hyperparameters, by weighted draws of a normal."""
    own, data, vector = model(name)
    mode = laplace.approximation(own, data, data.likelihood, vector)
    posterior = posterior_at(own, data, vector, mode.sites(own), rounds=True)
    basis = null_space(own.constraints.toarray())
    q = basis.T @ own.prior(vector).precision.toarray() @ basis
    a = own.a.toarray() @ basis
    p = q + a.T @ np.diag(posterior.sites.precision) @ a
    rng = np.random.default_rng(5)
    root = np.linalg.cholesky(1.3 * np.linalg.inv(p))
    w = basis.T @ posterior.mean
    total, first, second = 0.0, 0.0, 0.0
    for _ in range(15):
        z = rng.standard_normal((w.size, 10_000))
        x = w[:, None] + root @ z
        eta = a @ x
        log = data.likelihood.log_density(data.y[..., None], eta + OFFSET[:, None]).sum(axis=0)
        log += -0.5 * np.einsum("id,ij,jd->d", x, q, x) + 0.5 * np.square(z).sum(axis=0)
        if isinstance(total, float) and total == 0.0:
            shift = log.max()
        weight = np.exp(log - shift)
        total, first, second = total + weight.sum(), first + eta @ weight, second + eta**2 @ weight
    mean = first / total
    deviation = np.sqrt(second / total - mean**2)
    assert np.abs((posterior.eta.mean - mean) / deviation).max() < 0.05
    assert np.abs(np.sqrt(posterior.eta.variance) / deviation - 1).max() < 0.05
    wrong = own.a @ mode.z  # the mode is not the mean, or nothing was tested
    assert name != "poisson" or np.abs((wrong - mean) / deviation).max() > 0.05
