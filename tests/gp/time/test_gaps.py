"""Gaps: conjugate gradients in what is missing, and training where not everything was observed."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import graphrf as grf
from graphrf.gp.posterior.by_rows import SolverWarning
from graphrf.gp.time import ConstantTime, MaternTime, Part, gaps, regression
from graphrf.gp.time.covariance import GridCovariance, Sensors, Separable
from graphrf.gp.time.gaps import ObservedCells
from graphrf.gp.time.graph_kernels import GraphCovariance
from graphrf.gp.time.training.costs import TrainingCosts
from graphrf.gp.time.training.likelihood import log_likelihood
from graphrf.gp.time.training.search import TrainingGrid
from graphrf.operators.solvers import ConjugateGradients

KERNEL = grf.Diffusion(2.0)
PARTS = (
    Part(ConstantTime(), 1.0, 0.5),
    Part(MaternTime(6.0, nu=1.5), 2.0, 0.5),
    Part(MaternTime(2.0), 1.0, 1.0),
)
MODEL = Separable(PARTS, 0.3)
GRAPH = grf.from_edges([*range(23), 0, 5], [*range(1, 24), 23, 17])


def mask_of(kind: str, n_times: int, n: int = 24, seed: int = 0) -> np.ndarray:
    """What is observed: 70 or 30 % of values, or a third of sensors in turns of 24 times."""
    rng = np.random.default_rng(seed)
    if kind == "runs":
        return np.repeat(rng.random((-(-n_times // 24), n)) > 0.3, 24, axis=0)[:n_times]
    return rng.random((n_times, n)) < float(kind)


def cells_of(
    mask: np.ndarray, tol: float, model: Separable = MODEL, long_gap: float = gaps.LONG_GAP
) -> ObservedCells:
    nodes = np.arange(mask.shape[1])
    sensors = Sensors.of(GraphCovariance(GRAPH, 0).block(KERNEL, nodes, nodes))
    grid = GridCovariance(model, sensors, np.arange(float(len(mask))))
    return ObservedCells(grid, mask, tol, long_gap)


def dense(cells: ObservedCells) -> np.ndarray:
    """The covariance of all values of the grid, noise included."""
    grid, times = cells.covariance, cells.covariance.times
    n = len(grid.sensors.matrix)
    return grid.model.noise * np.eye(times.size * n) + sum(
        np.kron(
            part.kernel.covariance(times[:, None] - times),
            part.shared * grid.sensors.matrix + part.own * np.eye(n),
        )
        for part in grid.model.parts
    )


@pytest.mark.parametrize("kind", ["0.7", "0.3", "runs"])
def test_solves_are_those_of_dense_algebra(kind):
    mask = mask_of(kind, 30)
    mask[[3, 17]] = False  # and two times without any value
    cells = cells_of(mask, 1e-11)
    assert (cells._gap_length > gaps.LONG_GAP) == (kind != "0.7")
    assert cells.scattered == (kind != "runs")
    y = np.random.default_rng(1).standard_normal((30, 2, 24))
    alpha, filled, solution = cells.solve(y)
    covariance, seen = dense(cells), mask.ravel()
    columns = np.moveaxis(y, 1, 2).reshape(-1, 2)[seen]
    expected = np.linalg.solve(covariance[np.ix_(seen, seen)], columns)
    np.testing.assert_allclose(np.moveaxis(alpha, 1, 2)[mask], expected, atol=1e-9)
    missing = cells.missing.ravel()
    z = covariance[np.ix_(missing, seen)] @ expected
    np.testing.assert_allclose(np.moveaxis(filled, 1, 2)[cells.missing], z, atol=1e-8)
    assert solution.converged
    # a guess to begin with changes nothing but the number of steps
    again, _, less = cells.solve(y, start=filled)
    np.testing.assert_allclose(again, alpha, atol=1e-8)
    assert less.iterations < solution.iterations


@pytest.mark.parametrize(("kind", "most"), [("0.7", 12), ("0.3", 18), ("runs", 20)])
def test_steps_are_few_and_do_not_grow_with_the_times(kind, most):
    y = np.random.default_rng(1).standard_normal((1200, 1, 24)).cumsum(axis=0) / 10
    steps = [
        cells_of(mask_of(kind, size), 1e-3).solve(y[:size])[2].iterations for size in (150, 1200)
    ]
    assert max(steps) <= most
    assert steps[1] <= 1.3 * steps[0] + 1


@pytest.mark.parametrize(
    ("kind", "lengthscale", "ratio"), [("runs", 6.0, 0.5), ("0.3", 30.0, 0.75)]
)
def test_preconditioners_save_steps(kind, lengthscale, ratio):
    y = np.random.default_rng(1).standard_normal((240, 1, 24)).cumsum(axis=0) / 10
    mask, slow = mask_of(kind, 240), MaternTime(lengthscale, nu=1.5)
    model = Separable((Part(slow, 1.0, 0.1), Part(MaternTime(2.0), 0.02, 0.1)), 0.3)
    with_it = cells_of(mask, 1e-3, model).solve(y)[2].iterations
    without = cells_of(mask, 1e-3, model, long_gap=np.inf)
    assert with_it < ratio * without.solve(y)[2].iterations


def signal(n_times: int, seed: int = 2) -> np.ndarray:
    """A draw of the model, with a mean of 10."""
    rng = np.random.default_rng(seed)
    cells = cells_of(np.ones((n_times, 24), bool), 1e-3)
    return 10 + (np.linalg.cholesky(dense(cells)) @ rng.standard_normal(n_times * 24)).reshape(
        n_times, 24
    )


def test_warnings_where_conjugate_gradients_stop_early(monkeypatch):
    y = np.where(mask_of("runs", 48), signal(48), np.nan)
    gp = grf.gp.GraphTimeGPRegressor(
        GRAPH, KERNEL, PARTS, noise=0.3, optimize=False, n_draws=2, seed=0
    )
    gp.fit(y, times=np.arange(48.0))
    monkeypatch.setattr(
        gaps,
        "ConjugateGradients",
        lambda *given, **options: ConjugateGradients(*given, **{**options, "max_iterations": 1}),
    )
    with pytest.warns(SolverWarning, match="predictions and intervals are inaccurate"):
        gp.predict(return_std=True)
    with pytest.warns(SolverWarning, match="above 0.001"):
        gp.fit(y, times=np.arange(48.0))
    assert not gp.converged_


def test_hyperparameters_with_gaps_are_those_without():
    times, y = np.arange(50.0), signal(50)
    cells = cells_of(np.ones(y.shape, bool), 1e-3)
    values = []
    for kind in ("1.1", "0.7", "0.4"):
        gapped = np.where(mask_of(kind, 50, seed=3), y, np.nan)
        gp = grf.gp.GraphTimeGPRegressor(GRAPH, KERNEL, PARTS, noise=3.0, seed=0).fit(
            gapped, times=times
        )
        assert gp.converged_
        sensors, steps = cells.covariance.sensors, cells.covariance.steps
        residual = (y - y.mean()) @ sensors.vectors
        model = Separable(gp.parts_, gp.noise_)
        values.append(
            log_likelihood(
                model, sensors.eigenvalues, sensors.own, steps, residual, with_slopes=False
            ).value
        )
    # Of the complete data. Nine hyperparameters from a share q of them lose 9 (1 / q - 1) / 2 on
    # average: 2 and 7.
    assert values[1] > values[0] - 20
    assert values[2] > values[0] - 30


def test_training_with_gaps_that_does_not_settle_has_not_converged(monkeypatch):
    # so many steps that the search of the round ends by itself
    costs = TrainingCosts(rounds=1, settled=0.0, more_steps=500)
    monkeypatch.setattr(regression, "TrainingGrid", partial(TrainingGrid, costs=costs))
    gapped = np.where(mask_of("0.7", 24), signal(24), np.nan)
    gp = grf.gp.GraphTimeGPRegressor(GRAPH, KERNEL, PARTS, noise=3.0, seed=0).fit(
        gapped, times=np.arange(24.0)
    )
    assert not gp.converged_
