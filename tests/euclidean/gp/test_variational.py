"""The variational sparse spectrum GP: bound against evidence, moments against quadrature."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from scipy.special import logsumexp

from graphrf.euclidean.gp.variational import UncertainBasis, VariationalSparseSpectrumGPRegressor
from tests.euclidean.gp.slopes import assert_slopes

SCALE, NOISE, LENGTHSCALE = 1.3, 0.05, 0.7
FIXED = {"lengthscale": LENGTHSCALE, "output_scale": SCALE, "noise": NOISE}


pytestmark = pytest.mark.usefixtures("one_torch_thread")


def tiny():
    """Six observations of one function of one variable, in units of y."""
    x = np.linspace(-1.5, 1.5, 6)[:, None]
    y = np.sin(3 * x[:, 0]) + 0.1
    return x, y


def normal_nodes(m, order):
    """Nodes (order^m, m) and log weights of the normal law of m frequencies in one dimension."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(order)
    grid = np.array(list(itertools.product(nodes, repeat=m)))
    logs = np.log(np.array(list(itertools.product(weights / weights.sum(), repeat=m)))).sum(1)
    return grid, logs


def features(x, frequencies, anchors):
    """phi of one-dimensional points, shape (n, 2m), for known frequencies (m,)."""
    phase = (x - anchors[None]) / LENGTHSCALE * frequencies[None]
    return np.hstack([np.cos(phase), np.sin(phase)]) / np.sqrt(frequencies.size)


def log_likelihoods(x, y, frequencies):
    """log p(y | W) of many sets of frequencies (q, m); anchors do not matter to it."""
    phi = np.array([features(x, each, np.zeros(each.size)) for each in frequencies])
    a = SCALE * phi @ phi.swapaxes(1, 2) + NOISE * np.eye(y.size)
    squares = np.einsum(
        "i,qi->q", y, np.linalg.solve(a, np.broadcast_to(y[:, None], (*a.shape[:2], 1)))[:, :, 0]
    )
    return -0.5 * (squares + np.linalg.slogdet(a)[1] + y.size * np.log(2 * np.pi))


def log_evidence(x, y, m):
    """log of the mean likelihood over the prior of the frequencies."""
    nodes, logs = normal_nodes(m, 80 if m == 1 else 40)
    return logsumexp(log_likelihoods(x, y, nodes) + logs)


def bound_at(x, y, point):
    m = point["frequencies"].shape[0]
    gp = VariationalSparseSpectrumGPRegressor(m, mean="zero", **FIXED)
    gp._m = m
    data, _ = gp._observed(x, y[:, None])
    # given hyperparameters are in units of y, and the search's x is about its mean, here 0
    return gp.bound(data)({k: torch.tensor(v) for k, v in point.items()}) - y.size * np.log(
        data.unit
    )


def points(m, number=60):
    rng = np.random.default_rng(0)
    for _ in range(number):
        yield {
            "frequencies": rng.normal(0, 2, (m, 1)),
            "log_deviations": np.log(rng.uniform(0.02, 1, (m, 1))),
            "anchors": rng.normal(0, 1, (m, 1)),
        }


@pytest.mark.parametrize("m", [1, 2])
def test_the_bound_is_below_the_evidence(m):
    x, y = tiny()
    evidence = log_evidence(x, y, m)
    gp = VariationalSparseSpectrumGPRegressor(m, mean="zero", n_starts=2, seed=0, **FIXED).fit(x, y)
    bounds = [bound_at(x, y, point) for point in points(m)]
    assert max([*bounds, gp.lower_bound_]) < evidence
    # and of use: the posterior has 2^m m! equal modes (signs and order), of which q covers one, and
    # that costs their logarithm; a nat is left for the rest
    assert evidence - gp.lower_bound_ < np.log(2**m * math.factorial(m)) + 1


def test_without_the_divergence_or_the_covariances_it_would_not_be_a_bound():
    """Negative controls: each of two plausible slips rises above the evidence."""
    x, y = tiny()
    evidence = log_evidence(x, y, 1)
    no_divergence, certain = [], []
    for point in points(1):
        basis = basis_of(point)
        no_divergence.append(bound_at(x, y, point) + float(basis.divergence()))
        narrow = point | {"log_deviations": np.full((1, 1), -9.0)}
        certain.append(
            bound_at(x, y, narrow) + float(basis_of(narrow).divergence() - basis.divergence())
        )
    assert max(no_divergence) > evidence
    assert max(certain) > evidence


def basis_of(point):
    values = {name: torch.tensor(value) for name, value in point.items()}
    return UncertainBasis.of(torch.tensor(LENGTHSCALE, dtype=torch.float64), values)


@pytest.mark.parametrize("m", [1, 2])
def test_the_bound_is_the_one_that_quadrature_finds(m):
    """E_q log p(y | W, a) - KL(q(a) || p(a)) - KL(q(W) || p(W)), optimal q(a), by terms."""
    x, y = tiny()
    nodes, logs = normal_nodes(m, 60)
    for point in points(m, 5):
        means, deviations, anchors = (
            point["frequencies"][:, 0],
            np.exp(point["log_deviations"][:, 0]),
            point["anchors"][:, 0],
        )
        phis = np.array([features(x, means + deviations * node, anchors) for node in nodes])
        weights = np.exp(logs)
        first = np.einsum("q,qnk->nk", weights, phis)
        second = np.einsum("q,qnk,qnl->kl", weights, phis, phis)
        precision = np.eye(2 * m) / SCALE + second / NOISE
        covariance = np.linalg.inv(precision)
        mean = covariance @ first.T @ y / NOISE
        fit = y @ y - 2 * y @ first @ mean + np.trace(second @ (covariance + np.outer(mean, mean)))
        likelihood = -0.5 * (fit / NOISE + y.size * np.log(2 * np.pi * NOISE))
        for_weights = 0.5 * (
            np.trace(covariance) / SCALE
            + mean @ mean / SCALE
            - 2 * m
            + 2 * m * np.log(SCALE)
            - np.linalg.slogdet(covariance)[1]
        )
        for_frequencies = 0.5 * np.sum(deviations**2 + means**2 - 1 - 2 * np.log(deviations))
        expected = likelihood - for_weights - for_frequencies
        assert bound_at(x, y, point) == pytest.approx(expected, abs=1e-8)


def test_the_gradient_of_the_bound_is_that_of_finite_differences():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(12, 2)), rng.normal(size=12)
    gp = VariationalSparseSpectrumGPRegressor(3)
    gp._m = 3
    data, _ = gp._observed(x, y[:, None])
    point = {
        "lengthscale": np.log([0.9, 1.4]),
        "output_scale": np.log(1.2),
        "noise": np.log(0.2),
        "frequencies": rng.normal(size=(3, 2)),
        "log_deviations": rng.normal(-1, 0.3, (3, 2)),
        "anchors": rng.normal(size=(3, 2)),
    }
    assert_slopes(gp.bound(data._replace(block_numbers=20)), point, rel=1e-4)


def test_predictions_have_the_moments_of_the_law_they_stand_for():
    """Mean and variance of phi_W(x) . a over q(W) q(a), W by quadrature and a in closed form."""
    x, y = tiny()
    gp = VariationalSparseSpectrumGPRegressor(
        2, mean="zero", max_iterations=20, seed=0, **FIXED
    ).fit(x, y)
    x_new = np.array([[-0.3], [2.0], [5.0]])
    nodes, logs = normal_nodes(2, 60)
    frequencies, deviations, anchors = (
        gp.frequencies_[:, 0],
        gp.deviations_[:, 0],
        gp.anchors_[:, 0],
    )
    phis = np.array([features(x_new, frequencies + deviations * node, anchors) for node in nodes])
    posterior = gp._posterior._weights
    mean, covariance = (
        gp._unit * posterior.weights[:, 0].numpy(),
        gp._unit**2 * posterior.weight_covariance().numpy(),
    )
    values = phis @ mean
    expected = np.exp(logs) @ values
    spread = np.einsum("qnk,kl,qnl->qn", phis, covariance, phis)
    variance = np.exp(logs) @ (spread + values**2) - expected**2
    predicted, std = gp.predict(x_new, return_std=True)
    np.testing.assert_allclose(predicted, expected, atol=1e-9)
    np.testing.assert_allclose(std**2, variance, rtol=1e-8)

    draws = gp.sample(x_new, 1000, seed=1)
    assert (np.abs(draws.mean(0) - predicted) / std * np.sqrt(1000) < 5).all()
    kurtosis = np.mean(((draws - predicted) / std) ** 4, 0)
    assert (np.abs(draws.var(0) / std**2 - 1) < 5 * np.sqrt((kurtosis - 1) / 1000)).all()
