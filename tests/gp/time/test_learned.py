"""The covariance of sensors that a fit learns: valid, better on wrong graphs, and saved."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import graphrf as grf
from graphrf.gp.time import MaternTime, Part, regression
from graphrf.gp.time.covariance import Sensors, Separable
from graphrf.gp.time.graph_kernels import GraphCovariance, LearnedCovariance, empirical
from graphrf.gp.time.training.ascent import CompleteGrid, evidence
from graphrf.gp.time.training.costs import TrainingCosts
from graphrf.gp.time.training.learned import learned as learned_covariance
from graphrf.gp.time.training.likelihood import log_parameters
from graphrf.gp.time.training.search import TrainingGrid

GRAPH = grf.from_edges(range(11), range(1, 12))
KERNEL = grf.Diffusion(2.0)
SENSORS = np.array([7, 0, 2, 3, 5, 10])  # in any order
NODES = np.arange(12)
MISFIT = "ignore:the graph explains Y no better than sensors that are all equally alike"


# Kernels and variances are compared on less, in fewer rounds, which is quicker.
QUICK = TrainingCosts(own_cells=200, block_cells=100, long_gap_rounds=4, scattered_rounds=4)


@pytest.fixture
def train_with(monkeypatch):
    """Fits are trained with these costs from now on."""

    def use(costs):
        monkeypatch.setattr(regression, "TrainingGrid", partial(TrainingGrid, costs=costs))

    return use


def learned(share: float, matrix: np.ndarray | None = None, **options: float) -> LearnedCovariance:
    graph = GraphCovariance(GRAPH, 0)
    if matrix is None:
        x = np.random.default_rng(0).standard_normal((6, 4))
        matrix = x @ x.T
    return LearnedCovariance(graph, KERNEL, SENSORS, share, 0.0, matrix, **options)


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_it_is_a_covariance_on_all_nodes(share):
    covariance = learned(share)
    whole = covariance.block(KERNEL, NODES, NODES)
    np.testing.assert_allclose(whole, whole.T, atol=1e-12)
    assert np.linalg.eigvalsh(whole).min() > -1e-10
    np.testing.assert_allclose(covariance.diagonal(KERNEL, NODES), np.diag(whole), atol=1e-12)
    near = covariance.graph.block(KERNEL, SENSORS, SENSORS)
    expected = (1 - share) * near + share * covariance.matrix
    np.testing.assert_allclose(whole[np.ix_(SENSORS, SENSORS)], expected, atol=1e-12)
    np.testing.assert_allclose(
        covariance.block(KERNEL, NODES[3:8], SENSORS),
        whole[np.ix_(NODES[3:8], SENSORS)],
        atol=1e-12,
    )


def test_it_is_that_of_the_graph_where_both_agree():
    graph = GraphCovariance(GRAPH, 0)
    same = learned(0.7, graph.block(KERNEL, SENSORS, SENSORS), ridge=1e-12)
    np.testing.assert_allclose(
        same.block(KERNEL, NODES, NODES), graph.block(KERNEL, NODES, NODES), atol=1e-6
    )


def test_the_empirical_covariance_has_no_noise_and_the_scale_of_the_graph():
    rng = np.random.default_rng(0)
    root = rng.standard_normal((5, 5))
    y = rng.standard_normal((40_000, 5)) @ root.T + 2.0 * rng.standard_normal((40_000, 5)) + 7.0
    near = 3.0 * np.eye(5)
    found, expected = empirical(y, 4.0, near), root @ root.T
    np.testing.assert_allclose(found, expected * 15.0 / np.trace(expected), atol=0.2)


def rings(n_times: int = 160) -> np.ndarray:
    """Even nodes are alike, and so are odd ones, which the path does not tell."""
    rng = np.random.default_rng(4)
    slow = np.linalg.cholesky(
        MaternTime(8.0).covariance(np.subtract.outer(np.arange(n_times), np.arange(n_times)))
    )
    common = slow @ rng.standard_normal((n_times, 2))
    return (
        20
        + common[:, NODES % 2]
        + 0.2 * slow @ rng.standard_normal((n_times, 12))
        + 0.1 * rng.standard_normal((n_times, 12))
    )


@pytest.mark.filterwarnings(MISFIT)
def test_a_fit_learns_what_the_graph_does_not_tell(tmp_path, train_with):
    train_with(QUICK)
    truth, times = rings(), np.arange(160.0)
    y = truth.copy()
    y[48:96, [2, 9]] = np.nan
    y[np.random.default_rng(0).random(y.shape) < 0.05] = np.nan
    parts = (Part(MaternTime(5.0), 0.5, 0.5),)
    gp = grf.gp.GraphTimeGPRegressor(GRAPH, time_kernel=parts, seed=0, n_draws=16).fit(
        y, times=times
    )
    graph_only = grf.gp.GraphTimeGPRegressor(GRAPH, gp.kernel_, parts, seed=0).fit(y, times=times)
    assert gp.learned_ > 0
    assert graph_only.learned_ == 0  # a kernel that is given is taken as it is
    hidden = np.isnan(y)
    ours, theirs = (
        np.sqrt(np.mean((model.predict()[hidden] - truth[hidden]) ** 2))
        for model in (gp, graph_only)
    )
    assert ours < 0.75 * theirs
    gp.save(tmp_path / "gp.npz")
    loaded = grf.gp.GraphTimeGPRegressor.load(tmp_path / "gp.npz")
    assert loaded.learned_ == gp.learned_
    for a, b in zip(loaded.predict(return_std=True), gp.predict(return_std=True), strict=True):
        np.testing.assert_array_equal(a, b)
    gp.update(truth[-1:], [160.0])
    assert gp.predict(times=[161.0]).shape == (1, 12)


@pytest.mark.parametrize("own_correlation", [0.0, 2.0])
def test_predictions_at_other_nodes_are_those_of_the_joint_covariance(train_with, own_correlation):
    train_with(replace(QUICK, own_correlations=(own_correlation,)))
    parts, times = (Part(MaternTime(3.0), 1.0, 0.3),), np.arange(110.0)
    y = rings(110)[:, SENSORS]
    y[np.random.default_rng(1).random(y.shape) < 0.2] = np.nan
    gp = grf.gp.GraphTimeGPRegressor(GRAPH, time_kernel=parts, seed=0, tol=1e-10).fit(
        y, times=times, nodes=SENSORS
    )
    assert gp.learned_ > 0
    covariance, part = gp._covariance, gp.parts_[0]
    lags = part.kernel.covariance(times[:, None] - times)

    own = Sensors.of(
        covariance.block(gp.kernel_, SENSORS, SENSORS), covariance.own_correlation
    ).own_matrix
    np.testing.assert_allclose(np.trace(own), SENSORS.size)

    def joint(nodes: np.ndarray) -> np.ndarray:
        same = (nodes[:, None] == SENSORS) @ own
        return np.kron(
            lags, part.shared * covariance.block(gp.kernel_, nodes, SENSORS) + part.own * same
        )

    seen = ~np.isnan(y).ravel()
    matrix = joint(SENSORS)[np.ix_(seen, seen)] + gp.noise_ * np.eye(seen.sum())
    alpha = np.linalg.solve(matrix, y.ravel()[seen] - gp.mean_)
    expected = gp.mean_ + (joint(NODES)[:, seen] @ alpha).reshape(110, 12)
    np.testing.assert_allclose(gp.predict(NODES), expected, atol=1e-6)


def test_a_covariance_is_judged_by_times_that_it_was_not_made_of():
    times, near = np.arange(80.0), GraphCovariance(GRAPH, 0).block(KERNEL, NODES, NODES)
    model = Separable((Part(MaternTime(12.0), 1.0, 0.01),), 0.01)
    # A slow signal of the graph itself: few independent times teach less than the graph says.
    along = np.linalg.cholesky(MaternTime(12.0).covariance(times[:, None] - times))
    rng = np.random.default_rng(0)
    y = along @ rng.standard_normal((80, 12)) @ np.linalg.cholesky(near + 0.01 * np.eye(12)).T
    y += 0.1 * rng.standard_normal(y.shape)
    found = learned_covariance(
        model, near, times, y, np.ones(y.shape, bool), log_parameters(model), 10_000, 0, 1
    )
    assert found.weight <= 0.3

    first = CompleteGrid.of(Sensors.of(near), times[:40], y[:40, None])

    def of_the_first_half(share: float, teacher: np.ndarray) -> float:
        sensors = Sensors.of((1 - share) * near + share * empirical(teacher, model.noise, near))
        return evidence(model, [CompleteGrid.of(sensors, times[:40], y[:40, None])], 1)

    assert (
        of_the_first_half(0.3, y[:40])
        > evidence(model, [first], 1)
        > of_the_first_half(0.3, y[40:])
    )


@pytest.mark.parametrize("together", [True, False])
def test_what_twins_share_of_their_own_is_found_where_they_do(together):
    """Nodes 2 i and 2 i + 1 nearly coincide in what lasts; what is quick they may share."""
    times, near = np.arange(300.0), GraphCovariance(GRAPH, 0).block(KERNEL, NODES, NODES)
    pairs = np.kron(np.eye(6), np.ones((2, 2))) + 0.02 * np.eye(12)
    rng = np.random.default_rng(0)
    kernels = MaternTime(8.0, nu=1.5), MaternTime(1.0)
    slow, quick = (
        np.linalg.cholesky(k.covariance(times[:, None] - times) + 1e-9 * np.eye(300))
        for k in kernels
    )
    root = np.linalg.cholesky(pairs)
    y = slow @ rng.standard_normal((300, 12)) @ root.T
    y += 0.5 * quick @ rng.standard_normal((300, 12)) @ (root.T if together else np.eye(12))
    y += 0.05 * rng.standard_normal(y.shape)
    model = Separable((Part(kernels[0], 1.0, 0.001), Part(kernels[1], 0.001, 0.25)), 0.0025)
    seen = np.ones(y.shape, bool)
    found = learned_covariance(model, near, times, y, seen, log_parameters(model), 10_000, 0, 1)
    assert (found.own_correlation > 0) == together


@pytest.mark.filterwarnings(MISFIT)
def test_a_damaged_share_is_refused(tmp_path, train_with):
    train_with(QUICK)
    parts = (Part(MaternTime(3.0), 1.0, 0.3),)
    y = rings(110)
    gp = grf.gp.GraphTimeGPRegressor(GRAPH, time_kernel=parts, seed=0).fit(
        y, times=np.arange(110.0)
    )
    gp.learned_ = 1.5
    gp.save(tmp_path / "gp.npz")
    with pytest.raises(ValueError, match="learned"):
        grf.gp.GraphTimeGPRegressor.load(tmp_path / "gp.npz")
