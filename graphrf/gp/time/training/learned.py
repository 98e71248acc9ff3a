r"""The covariance of sensors, learned from a signal beside the graph's by expectation maximisation.

In each round gaps are filled by a draw given the observations, the empirical covariance E of the
filled grid is averaged with those of earlier rounds (Delyon, Lavielle and Moulines 1999), and
hyperparameters follow. E must not explain the values that it comes from: each half of the times has
the likelihood under the covariance of the other half, and the weight w of E in (1 - w) C + w E is
the most likely one. Without gaps hyperparameters stay as they were trained on all times at once,
which determine lasting parts better than halves.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from graphrf.gp.model.progress import Step
from graphrf.gp.time.covariance import GridCovariance, Sensors, Separable
from graphrf.gp.time.gaps import ObservedCells
from graphrf.gp.time.graph_kernels import empirical
from graphrf.gp.time.posterior import TimePosterior
from graphrf.gp.time.training.ascent import CompleteGrid, ascended, evidence, training_rows
from graphrf.gp.time.training.costs import TRAINING_COSTS, TrainingCosts

_TOL = 1e-2  # of the solves for draws


class Learned(NamedTuple):
    """The end of the rounds."""

    model: Separable
    weight: float  # w
    own_correlation: float  # of B, see `Sensors`
    matrix: np.ndarray  # E
    # E of the second half of the times, for the first half, and of the first, for the second.
    halves: list[np.ndarray]
    log_marginal_likelihood: float  # of the halves

    def sensors(self, near: np.ndarray, other: np.ndarray) -> Sensors:
        """The mixture of C = `near` and another covariance of sensors."""
        return Sensors.of((1.0 - self.weight) * near + self.weight * other, self.own_correlation)


def halves(n_times: int) -> list[slice]:
    """The first and the second half of the times."""
    return [slice(None, n_times // 2), slice(n_times // 2, None)]


def learned(
    model: Separable,
    near: np.ndarray,
    times: np.ndarray,
    y: np.ndarray,
    mask: np.ndarray,
    prior: np.ndarray,
    max_train: int,
    seed: int,
    n_threads: int,
    step: Step | None = None,
    costs: TrainingCosts = TRAINING_COSTS,
) -> Learned:
    """The covariance of sensors, its weight, and the hyperparameters of the time axis with it.

    `near` (n, n) is C among the sensors, `y` (T, n) are values without their mean, observed where
    `mask` is true, and `prior` has the logarithms of the prior modes of hyperparameters. `step` is
    called for each likelihood.
    """
    parts = halves(times.size)
    weight, correlation, value = 0.0, 0.0, -np.inf
    averages: list[np.ndarray] = []
    cells = ObservedCells(GridCovariance(model, Sensors.of(near), times, n_threads), mask, _TOL)
    without_gaps, scattered = cells.whole, cells.scattered

    # Short steps dominate the evidence. Predictions in long gaps rest on lasting parts, which a
    # correlation harms.
    choices = costs.own_correlations if scattered else costs.own_correlations[:1]
    rounds = costs.scattered_rounds if scattered else costs.long_gap_rounds
    for turn in range(1 if without_gaps else rounds):
        if turn > 0:
            mixed = Sensors.of((1.0 - weight) * near + weight * averages[-1], correlation)
            cells = ObservedCells(GridCovariance(model, mixed, times, n_threads), mask, _TOL)

        filled = TimePosterior(cells, y, 1, 0).imputed(1, seed + turn)
        new = [
            empirical(filled[part, 0], model.noise, near)
            for part in [*reversed(parts), slice(None)]
        ]
        rate = 1.0 if turn < 2 else 0.5
        averages = (
            new if turn == 0 else [a + rate * (b - a) for a, b in zip(averages, new, strict=True)]
        )

        grids = partial(_conditional_halves, near, times, filled, averages[:2], max_train // 2)
        weights = (0.0, 0.3, 0.5, 0.7, 0.85)
        result = [
            evidence(model, grids(candidate, correlation), n_threads, step) for candidate in weights
        ]
        weight, correlation = weights[int(np.argmax(result))], 0.0
        if weight > 0:
            result = [
                evidence(model, grids(weight, candidate), n_threads, step) for candidate in choices
            ]
            correlation = choices[int(np.argmax(result))]
        value = max(result)

        if not without_gaps:
            model, value, _ = ascended(
                model, grids(weight, correlation), prior, 10, n_threads, step
            )
    return Learned(model, weight, correlation, averages[-1], averages[:2], value)


def _conditional_halves(
    near: np.ndarray,
    times: np.ndarray,
    filled: np.ndarray,
    others: list[np.ndarray],
    most: int,
    weight: float,
    correlation: float,
) -> list[CompleteGrid]:
    """About `most` values of each half of the times, under what the other half teaches."""
    result = []
    for part, other in zip(halves(times.size), others, strict=True):
        rows = training_rows(times[part].size, near.shape[0], most)
        sensors = Sensors.of((1.0 - weight) * near + weight * other, correlation)
        result.append(CompleteGrid.of(sensors, times[part][rows], filled[part][rows]))
    return result
