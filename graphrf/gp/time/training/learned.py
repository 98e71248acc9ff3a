r"""The covariance of sensors that a signal teaches beside the graph's: expectation maximisation.

In each round gaps are filled by a draw given what was observed, the empirical covariance E of the filled grid is
averaged with those of the rounds before (Delyon, Lavielle and Moulines 1999), and hyperparameters follow. So that
E does not explain the values that it was made of, each half of the times is judged under the covariance that the
other half teaches, and the share w of E in (1 - w) C + w E is the one under which both are most likely. Without
gaps hyperparameters stay as they were trained on all times at once, which tells more of what lasts than halves do.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from graphrf.gp.time.covariance import GridCovariance, Sensors, Separable
from graphrf.gp.time.gaps import ObservedCells
from graphrf.gp.time.graph_kernels import empirical
from graphrf.gp.time.posterior import TimePosterior
from graphrf.gp.time.training.ascent import Complete, climbed, evidence, training_rows

_SHARES = (0.0, 0.3, 0.5, 0.7, 0.85)
_BENDS = (0.0, 0.3, 1.0, 3.0)
# Rounds, with values missing independently and in long gaps, and steps of the search in each round.
_SCATTERED_ROUNDS, _ROUNDS, _STEPS = 8, 12, 10
_WEIGHT = 0.5  # of the newest covariance in the average, from the third round on
_TOL = 1e-2  # of the solves for draws


class Learned(NamedTuple):
    """What the rounds ended with."""

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
    max_train: int, seed: int, n_threads: int,
) -> Learned:  # fmt: skip
    """The covariance of sensors, its share, and the hyperparameters of the time axis with it.

    Parameters
    ----------
    near : ndarray, shape (n, n)
        C among the sensors.
    times : ndarray, shape (T,)
    y, mask : ndarray, shape (T, n)
        Values without their mean, and where they were observed.
    prior : ndarray
        Logarithms of hyperparameters that are most likely beforehand.
    """
    parts, n = halves(times.size), near.shape[0]
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
        weight = 1.0 if turn < 2 else _WEIGHT
        averages = new if turn == 0 else [a + weight * (b - a) for a, b in zip(averages, new, strict=True)]

        def grids(
            share: float, bend: float, filled: np.ndarray = filled, others: list[np.ndarray] = averages
        ) -> list[Complete]:
            result = []
            for part, other in zip(parts, others[:2], strict=True):
                rows = training_rows(times[part].size, n, max_train // 2)
                sensors = Sensors.of((1.0 - share) * near + share * other, bend)
                result.append(Complete.of(sensors, times[part][rows], filled[part][rows]))
            return result

        found = [evidence(model, grids(each, bend), n_threads) for each in _SHARES]
        share, bend = _SHARES[int(np.argmax(found))], 0.0
        if share > 0:
            found = [evidence(model, grids(share, each), n_threads) for each in bends]
            bend = bends[int(np.argmax(found))]
        value = max(found)
        if not whole:
            model, value, _ = climbed(model, grids(share, bend), prior, _STEPS, n_threads)
    return Learned(model, share, bend, averages[-1], averages[:2], value)
