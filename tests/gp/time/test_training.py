"""Searches for hyperparameters of the time axis: their coordinates, where they end, and what they cost."""

from __future__ import annotations

import numpy as np

import graphrf as grf
from graphrf.gp.time import ConstantTime, MaternTime, Part, PeriodicTime
from graphrf.gp.time.covariance import Sensors, Separable
from graphrf.gp.time.graph_kernels import GraphCovariance
from graphrf.gp.time.training import ascent
from graphrf.gp.time.training.ascent import Complete, information, maximised
from graphrf.gp.time.training.likelihood import log_parameters, with_parameters
from graphrf.gp.time.training.search import Task, train

GRAPH = grf.from_edges(range(11), range(1, 12))
NODES = np.arange(12)
KERNEL = grf.Diffusion(2.0)
NEAR = GraphCovariance(GRAPH, 0).block(KERNEL, NODES, NODES)
MODEL = Separable(
    (
        Part(ConstantTime(), 0.5, 0.3),
        Part(PeriodicTime(12.0, decay=60.0, harmonics=2), 0.8, 0.2),
        Part(MaternTime(6.0, nu=1.5), 1.0, 0.4),
        Part(MaternTime(2.0), 0.3, 0.6),
    ),
    0.2,
)


def covariance(model: Separable, times: np.ndarray) -> np.ndarray:
    lags = times[:, None] - times
    signal = sum(
        np.kron(part.shared * NEAR + part.own * np.eye(12), part.kernel.covariance(lags)) for part in model.parts
    )
    return signal + model.noise * np.eye(len(signal))


def draw(model: Separable, times: np.ndarray, seed: int) -> np.ndarray:
    normal = np.random.default_rng(seed).standard_normal(12 * times.size)
    return (np.linalg.cholesky(covariance(model, times)) @ normal).reshape(12, -1).T


def test_the_information_is_nearly_that_of_dense_algebra():
    times = np.arange(60.0)
    first, inverse = log_parameters(MODEL), np.linalg.inv(covariance(MODEL, times))
    slopes = []
    for i in range(first.size):
        h = 1e-4 * (np.arange(first.size) == i)
        up, down = (covariance(with_parameters(MODEL, first + sign * h), times) for sign in (1, -1))
        slopes.append(inverse @ (up - down) / 2e-4)
    exact = 0.5 * np.array([[np.vdot(a, b.T) for b in slopes] for a in slopes])
    found = information(MODEL, Complete.of(Sensors.of(NEAR), times, np.zeros((60, 1, 12))))
    weak = np.eye(first.size) / np.log(10.0) ** 2  # the prior's
    root = np.linalg.inv(np.linalg.cholesky(exact + weak))
    values = np.linalg.eigvalsh(root @ (found + weak) @ root.T)
    assert 0.4 < values.min() < values.max() < 2.5  # 1 in all directions were it exact
    unscaled = np.linalg.eigvalsh(exact + weak)
    assert unscaled.max() > 100 * unscaled.min()


def test_searches_end_at_the_mode_and_do_not_begin_again(monkeypatch):
    times, steps = np.arange(80.0), []
    grid = Complete.of(Sensors.of(NEAR), times, draw(MODEL, times, 0)[:, None])
    prior = log_parameters(MODEL) + 0.5
    found, value, ended = maximised(with_parameters(MODEL, prior), [grid], prior, 80, 1, lambda: steps.append(1))
    assert ended
    assert len(steps) < 40
    steps.clear()
    _, again, ended = maximised(found, [grid], prior, 80, 1, lambda: steps.append(1))
    assert ended
    assert len(steps) <= 5
    monkeypatch.setattr(ascent, "_NEAR", 1e-3)
    _, best, _ = maximised(found, [grid], prior, 200, 1)
    assert abs(best - value) < 0.2
    assert abs(best - again) < 0.2


def test_variances_alone_leave_kernels():
    times = np.arange(40.0)
    grid = Complete.of(Sensors.of(NEAR), times, draw(MODEL, times, 1)[:, None])
    start = Separable(tuple(part._replace(own=3.0 * part.own) for part in MODEL.parts), 0.5)
    found, value, _ = maximised(start, [grid], log_parameters(MODEL), 30, 1, variances=True)
    np.testing.assert_allclose(log_parameters(found)[9:], log_parameters(start)[9:], rtol=0, atol=1e-12)
    assert found.noise != start.noise
    assert value > ascent.evidence(start, [grid], 1)


def test_white_values_are_noise_and_not_a_process_without_memory():
    times = np.arange(200.0)
    y = np.random.default_rng(2).standard_normal((200, 12))
    model = Separable((Part(MaternTime(1.5), 0.05, 0.05), Part(MaternTime(4.0), 0.05, 0.05)), 0.05)
    grid = Complete.of(Sensors.of(NEAR), times, y[:, None])
    found, _, _ = maximised(model, [grid], log_parameters(model), 80, 1)
    assert found.noise > 0.7
    assert min(kernel.lengthscale for kernel in found.kernels) > 0.25


def test_most_evaluations_are_of_few_times_and_halves_do_not_move_kernels(monkeypatch):
    times = np.arange(150.0)
    y, sizes = draw(MODEL, times, 3), []
    mask = np.random.default_rng(4).random(y.shape) < 0.9
    monkeypatch.setattr("graphrf.gp.time.training.habits._CELLS", 200)
    monkeypatch.setattr("graphrf.gp.time.training.search._BLOCK_CELLS", 100)
    original = ascent.log_likelihood
    monkeypatch.setattr(
        ascent, "log_likelihood", lambda *args, **options: sizes.append(len(args[4])) or original(*args, **options)
    )
    kernels = [grf.Diffusion(1.0), KERNEL, grf.Diffusion(8.0)]
    covariances = GraphCovariance(GRAPH, 0).blocks(kernels, NODES)
    task = Task(np.where(mask, y, 0.0), mask, times, covariances.__getitem__, 0, 1)
    start = with_parameters(MODEL, log_parameters(MODEL) + 1.0)
    graph_only, learned = (train(task, start, kernels, 6_000, learn=learn) for learn in (False, True))
    assert graph_only.kernel == KERNEL
    first, second = (log_parameters(found.model)[9:] for found in (graph_only, learned))
    np.testing.assert_allclose(second, first, rtol=0, atol=1e-12)
    assert sum(sizes) < 0.75 * 150 * len(sizes)
