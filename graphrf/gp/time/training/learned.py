r"""The covariance of sensors that a signal teaches beside the graph's: expectation maximisation.

In each round gaps are filled by a draw given what was observed, the empirical covariance E of the filled grid is
averaged with those of the rounds before (Delyon, Lavielle and Moulines 1999), and hyperparameters follow. So that
E does not explain the values that it was made of, each half of the times is judged under the covariance that the
other half teaches, and the share w of E in (1 - w) C + w E is the one under which both are most likely. Without
gaps hyperparameters stay as they were trained on all times at once, which show more of what lasts than halves do.
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
from graphrf.gp.time.training.ascent import Complete, evidence, maximised, training_rows

_BENDS = (0.0, 0.3, 1.0, 3.0)
# Rounds, with values missing independently and in long gaps.
_SCATTERED_ROUNDS, _ROUNDS = 8, 12
_TOL = 1e-2  # of the solves for draws


class Learned(NamedTuple):
    """The end of the rounds."""

    model: Separable
    share: float  # w
    bend: float  # of B, see `Sensors`
    matrix: np.ndarray  # E
    halves: list[np.ndarray]  # E of the second half of the times, and of the first: for the first, and the second
    log_marginal_likelihood: float  # of the halves


def halves(n_times: int) -> list[slice]:
    """The first and the second half of the times."""
    return [slice(None, n_times // 2), slice(n_times // 2, None)]


def learned(
    model: Separable, near: np.ndarray, times: np.ndarray, y: np.ndarray, mask: np.ndarray, prior: np.ndarray,
    max_train: int, seed: int, n_threads: int, step: Step | None = None,
) -> Learned:  # fmt: skip
    """The covariance of sensors, its weight, and the hyperparameters of the time axis with it.

    `near` (n, n) is C among the sensors, `y` (T, n) are values without their mean, observed where `mask` is true,
    and `prior` has the logarithms of the prior modes of hyperparameters. `step` is called for each likelihood.
    """
    parts = halves(times.size)
    share, bend, value = 0.0, 0.0, -np.inf
    averages: list[np.ndarray] = []
    cells = ObservedCells(GridCovariance(model, Sensors.of(near), times, n_threads), mask, _TOL)
    whole, scattered = cells.whole, cells.scattered
    # Evidence is ruled by short steps. Predictions in long gaps rest on what lasts, in which a bend does harm.
    bends = _BENDS if scattered else _BENDS[:1]
    for turn in range(1 if whole else _SCATTERED_ROUNDS if scattered else _ROUNDS):
        if turn > 0:
            mixed = Sensors.of((1.0 - share) * near + share * averages[-1], bend)
            cells = ObservedCells(GridCovariance(model, mixed, times, n_threads), mask, _TOL)
        filled = TimePosterior(cells, y, 1, 0).imputed(1, seed + turn)
        new = [empirical(filled[part, 0], model.noise, near) for part in [*reversed(parts), slice(None)]]
        weight = 1.0 if turn < 2 else 0.5
        averages = new if turn == 0 else [a + weight * (b - a) for a, b in zip(averages, new, strict=True)]
        grids = partial(_halves_given, near, times, filled, averages[:2], max_train // 2)
        shares = (0.0, 0.3, 0.5, 0.7, 0.85)
        found = [evidence(model, grids(each, bend), n_threads, step) for each in shares]
        share, bend = shares[int(np.argmax(found))], 0.0
        if share > 0:
            found = [evidence(model, grids(share, each), n_threads, step) for each in bends]
            bend = bends[int(np.argmax(found))]
        value = max(found)
        if not whole:
            model, value, _ = maximised(model, grids(share, bend), prior, 10, n_threads, step)
    return Learned(model, share, bend, averages[-1], averages[:2], value)


def _halves_given(
    near: np.ndarray, times: np.ndarray, filled: np.ndarray, others: list[np.ndarray], most: int, share: float,
    bend: float,
) -> list[Complete]:  # fmt: skip
    """About `most` values of each half of the times, under the covariance that the other half teaches."""
    result = []
    for part, other in zip(halves(times.size), others, strict=True):
        rows = training_rows(times[part].size, near.shape[0], most)
        sensors = Sensors.of((1.0 - share) * near + share * other, bend)
        result.append(Complete.of(sensors, times[part][rows], filled[part][rows]))
    return result
