"""Everything on graph and time against dense algebra with the whole Kronecker covariance."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import graphrf as grf
from graphrf.gp.time import ConstantTime, MaternTime, Part, PeriodicTime
from graphrf.gp.time import posterior as time_posterior
from graphrf.gp.time.covariance import Sensors, Separable
from graphrf.gp.time.graph_kernels import GraphCovariance
from graphrf.gp.time.kernels import TimeSteps
from graphrf.gp.time.training.filters import interpolation
from graphrf.gp.time.training.likelihood import log_likelihood, log_parameters, with_parameters

PARTS = (
    Part(ConstantTime(), 0.4, 0.6),
    Part(PeriodicTime(24.0, decay=100.0, harmonics=2), 0.7, 0.2),
    Part(MaternTime(3.0, nu=2.5), 0.3, 0.1),
    Part(MaternTime(2.0, nu=1.5), 1.0, 0.0),
    Part(MaternTime(0.5), 0.0, 0.5),
)
NOISE = 0.1
KERNEL = grf.Matern(nu=1.0, lengthscale=1.5)
SENSORS = np.array([0, 2, 3, 5, 6, 8, 9, 11, 12, 14])  # more than one block of eight series
MEAN = 3.0


@pytest.fixture(scope="module")
def graph() -> grf.Graph:
    return grf.from_edges([*range(15), 0], [*range(1, 16), 7])


def dense(
    graph: grf.Graph, nodes: np.ndarray, times: np.ndarray, other=None, at=None
) -> np.ndarray:
    """Covariances of f at all times and nodes (time-major) with those of others."""
    other, at = (nodes, times) if other is None else (other, at)
    near = GraphCovariance(graph, 0).block(KERNEL, nodes, other)
    same = nodes[:, None] == other
    lags = times[:, None] - at
    return sum(
        np.kron(part.kernel.covariance(lags), part.shared * near + part.own * same)
        for part in PARTS
    )


def signal(graph: grf.Graph, times: np.ndarray, gaps: str) -> np.ndarray:
    """A draw on the sensors, with gaps: "none", "times" (all sensors at once) or "cells"."""
    rng = np.random.default_rng(5)
    covariance = dense(graph, SENSORS, times) + NOISE * np.eye(times.size * SENSORS.size)
    y = MEAN + rng.multivariate_normal(np.zeros(len(covariance)), covariance).reshape(
        times.size, -1
    )
    if gaps == "times":
        y[[3, 4]] = np.nan
    if gaps == "cells":
        y[rng.random(y.shape) < 0.3] = np.nan
    return y


def fitted(graph: grf.Graph, y: np.ndarray, times, **settings) -> grf.gp.GraphTimeGPRegressor:
    settings = {"tol": 1e-11, "seed": 0, "n_threads": 2} | settings
    gp = grf.gp.GraphTimeGPRegressor(graph, KERNEL, PARTS, noise=NOISE, optimize=False, **settings)
    return gp.fit(y, times=times, nodes=SENSORS)


def posterior(
    graph: grf.Graph, y: np.ndarray, times: np.ndarray, nodes: np.ndarray, at: np.ndarray
):
    """Mean and covariance of f by dense algebra, with the constant that the regressor takes."""
    seen = ~np.isnan(y).ravel()
    constant = float(np.nanmean(np.nanmean(y, axis=0)))
    covariance = (dense(graph, SENSORS, times) + NOISE * np.eye(seen.size))[np.ix_(seen, seen)]
    cross = dense(graph, nodes, at, SENSORS, times)[:, seen]
    mean = constant + cross @ np.linalg.solve(covariance, y.ravel()[seen] - constant)
    return mean, dense(graph, nodes, at) - cross @ np.linalg.solve(covariance, cross.T)


REGULAR, IRREGULAR = np.arange(9.0), np.array([0.0, 0.7, 1.0, 3.5, 3.6, 8.0, 20.0, 21.5])
NODES = np.array([0, 1, 2, 6, 7, 15])  # sensors and others
AT = np.array([-4.0, 1.0, 2.5, 3.0, 20.0, 26.0])  # before, at, between and after the times


@pytest.mark.parametrize("times", [REGULAR, IRREGULAR], ids=["regular", "irregular"])
@pytest.mark.parametrize("gaps", ["none", "times", "cells"])
def test_means(graph, times, gaps):
    y = signal(graph, times, gaps)
    gp = fitted(graph, y, times)
    mean, _ = posterior(graph, y, times, NODES, AT)
    np.testing.assert_allclose(gp.predict(NODES, AT), mean.reshape(AT.size, -1), atol=1e-8)
    assert gp.converged_
    assert gp.n_observations_ == (~np.isnan(y)).sum()


@pytest.mark.parametrize("times", [REGULAR, IRREGULAR], ids=["regular", "irregular"])
@pytest.mark.parametrize("gaps", ["none", "times"])
def test_deviations_without_partial_gaps_are_exact(graph, times, gaps):
    y = signal(graph, times, gaps)
    _, std = fitted(graph, y, times).predict(NODES, AT, return_std=True)
    _, covariance = posterior(graph, y, times, NODES, AT)
    np.testing.assert_allclose(std.ravel(), np.sqrt(np.diag(covariance)), atol=1e-8)
    _, of_y = fitted(graph, y, times).predict(NODES, AT, return_std="observation")
    np.testing.assert_allclose(of_y**2, std**2 + NOISE)


def test_deviations_with_gaps_are_those_of_draws(graph, monkeypatch):
    monkeypatch.setattr(time_posterior, "LEAST_DRAWS", 2_000)
    y = signal(graph, REGULAR, "cells")
    n_draws = 2_000
    _, std = fitted(graph, y, REGULAR, n_draws=n_draws, tol=1e-6).predict(
        NODES, AT, return_std=True
    )
    _, covariance = posterior(graph, y, REGULAR, NODES, AT)
    # Each ratio has a deviation of at most sqrt(2 / n_draws):
    # a false alarm in one of 36 is below 1e-6.
    ratio = std.ravel() ** 2 / np.diag(covariance)
    assert np.abs(ratio - 1).max() < 5.6 * np.sqrt(2 / n_draws)


def test_few_draws_do_where_most_of_a_variance_is_exact(graph, monkeypatch):
    drawn = []

    def blocks(self, n_draws, *_):
        for block in range(n_draws // 4):
            drawn.append(4)
            yield np.random.default_rng(block), 4

    monkeypatch.setattr(time_posterior.TimePosterior, "_draw_blocks", blocks)
    gp = fitted(graph, signal(graph, REGULAR, "cells"), REGULAR, n_draws=400, tol=1e-6)
    _, std = gp.predict(NODES, AT, return_std=True)
    assert 8 <= sum(drawn) < 200
    _, covariance = posterior(graph, signal(graph, REGULAR, "cells"), REGULAR, NODES, AT)
    # On average ratios have deviations of sqrt(2 / 400) at most where draws contribute.
    assert np.abs(std.ravel() ** 2 / np.diag(covariance) - 1).mean() < 5 * np.sqrt(2 / 400)


def test_nodes_that_no_sensor_tells_of_keep_the_prior():
    graph = grf.from_edges([0, 1, 2, 4], [1, 2, 3, 5])
    y = np.random.default_rng(0).standard_normal((REGULAR.size, 4))
    y[2, 1] = np.nan
    gp = grf.gp.GraphTimeGPRegressor(graph, KERNEL, PARTS, noise=NOISE, optimize=False)
    _, std = gp.fit(y, times=REGULAR, nodes=range(4)).predict([5], REGULAR, return_std=True)
    near = GraphCovariance(graph, 0).block(KERNEL, np.array([5]), np.array([5]))[0, 0]
    prior = sum(part.shared * near + part.own for part in PARTS)
    np.testing.assert_allclose(std**2, prior)


@pytest.mark.parametrize("gaps", ["none", "cells"])
def test_draws_have_the_posterior_covariance(graph, gaps):
    y = signal(graph, REGULAR, gaps)
    n = 4_000
    draws = (
        fitted(graph, y, REGULAR, tol=1e-6).sample(NODES, AT, n_samples=n, seed=1).reshape(n, -1)
    )
    mean, covariance = posterior(graph, y, REGULAR, NODES, AT)
    white = np.linalg.solve(np.linalg.cholesky(covariance), (draws - mean).T)
    size = len(mean)
    # The squares' sum is chi-squared; entries of the
    # covariance have deviations of at most sqrt(2 / n).
    assert abs((white**2).sum() - size * n) < 6 * np.sqrt(2 * size * n)
    assert np.abs(white @ white.T / n - np.eye(size)).max() < 6.5 * np.sqrt(2 / n)


@pytest.mark.parametrize(
    ("times", "own_correlation"), [(REGULAR, 0.0), (IRREGULAR, 0.7)], ids=["regular", "irregular"]
)
def test_likelihood_and_its_slopes(graph, times, own_correlation):
    sensors = Sensors.of(GraphCovariance(graph, 0).block(KERNEL, SENSORS, SENSORS), own_correlation)
    model = Separable(
        tuple(part._replace(shared=part.shared + 0.1, own=part.own + 0.1) for part in PARTS), NOISE
    )
    rng = np.random.default_rng(2)
    y = rng.standard_normal((times.size, SENSORS.size, 2))
    turned = np.einsum("tnr,nm->tmr", y, sensors.vectors)
    steps = TimeSteps.of(times)

    def value(logarithms):
        other = with_parameters(model, logarithms)
        return log_likelihood(
            other, sensors.eigenvalues, sensors.own, steps, turned, with_slopes=False
        ).value

    near, lags = sensors.matrix, times[:, None] - times
    covariance = NOISE * np.eye(times.size * SENSORS.size) + sum(
        np.kron(part.kernel.covariance(lags), part.shared * near + part.own * sensors.own_matrix)
        for part in model.parts
    )
    law = multivariate_normal(np.zeros(len(covariance)), covariance)
    evidence = log_likelihood(model, sensors.eigenvalues, sensors.own, steps, turned, n_threads=2)
    assert evidence.value == pytest.approx(
        np.mean([law.logpdf(y[..., r].ravel()) for r in range(2)]), rel=1e-10
    )
    first = log_parameters(model)
    for i, slope in enumerate(evidence.slopes):
        h = 1e-5 * (np.arange(first.size) == i)
        assert slope == pytest.approx(
            (value(first + h) - value(first - h)) / 2e-5, rel=1e-5, abs=1e-5
        )


@pytest.mark.parametrize(("own_correlation", "noise"), [(0.0, NOISE), (0.7, NOISE), (0.7, 1e-6)])
def test_the_likelihood_of_many_sensors_by_filters_of_some(own_correlation, noise):
    eigenvalues = np.concatenate([[0.0, 1e-9], np.geomspace(1e-5, 20.0, 98)])
    own = Sensors.of(np.diag(eigenvalues), own_correlation).own
    model = Separable(
        tuple(part._replace(shared=part.shared + 0.1, own=part.own + 0.1) for part in PARTS), noise
    )
    steps, rng = TimeSteps.of(IRREGULAR), np.random.default_rng(0)
    y, exact = np.empty((IRREGULAR.size, eigenvalues.size, 1)), 0.0
    for i in range(eigenvalues.size):
        covariance = noise * np.eye(IRREGULAR.size) + sum(
            (part.shared * eigenvalues[i] + part.own * own[i])
            * part.kernel.covariance(IRREGULAR[:, None] - IRREGULAR)
            for part in model.parts
        )
        law = multivariate_normal(np.zeros(IRREGULAR.size), covariance)
        y[:, i, 0] = law.rvs(random_state=rng)
        exact += law.logpdf(y[:, i, 0])
    nodes, weights = interpolation(eigenvalues)
    assert nodes.size < 45
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    evidence = log_likelihood(model, eigenvalues, own, steps, y)
    assert evidence.value == pytest.approx(exact, abs=1e-3 * eigenvalues.size)
    first = log_parameters(model)
    for i, slope in enumerate(evidence.slopes):
        h = 1e-4 * (np.arange(first.size) == i)
        up, down = (
            log_likelihood(
                with_parameters(model, first + s * h), eigenvalues, own, steps, y, with_slopes=False
            )
            for s in (1, -1)
        )
        assert slope == pytest.approx((up.value - down.value) / 2e-4, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("gaps", ["none", "times", "cells"])
def test_forecasts_after_updates(graph, gaps):
    y = signal(graph, IRREGULAR, gaps)
    gp = fitted(graph, y[:3], IRREGULAR[:3], n_draws=2)
    ahead = np.array([21.5, 22.0, 40.0])
    for first, last in ((3, 5), (5, 8)):
        gp.update(y[first:last], IRREGULAR[first:last])
    assert (gp._posterior._states is not None) == (gaps != "cells")  # filters went on
    constant = gp.mean_
    seen = ~np.isnan(y).ravel()
    covariance = (dense(graph, SENSORS, IRREGULAR) + NOISE * np.eye(seen.size))[np.ix_(seen, seen)]
    cross = dense(graph, NODES, ahead, SENSORS, IRREGULAR)[:, seen]
    mean, std = gp.predict(NODES, ahead, return_std=True)
    wanted = constant + cross @ np.linalg.solve(covariance, y.ravel()[seen] - constant)
    np.testing.assert_allclose(mean.ravel(), wanted, atol=1e-8)
    if gaps != "cells":
        variance = dense(graph, NODES, ahead) - cross @ np.linalg.solve(covariance, cross.T)
        np.testing.assert_allclose(std.ravel(), np.sqrt(np.diag(variance)), atol=1e-8)
    # what lies before is solved for when it is asked for
    cross = dense(graph, NODES, IRREGULAR, SENSORS, IRREGULAR)[:, seen]
    wanted = constant + cross @ np.linalg.solve(covariance, y.ravel()[seen] - constant)
    np.testing.assert_allclose(gp.predict(NODES, IRREGULAR).ravel(), wanted, atol=1e-8)
