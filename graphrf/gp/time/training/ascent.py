"""Quasi-Newton ascent on the likelihood of complete grids."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

from graphrf.gp.model.progress import Step
from graphrf.gp.search.maximum import Tolerances, maximised
from graphrf.gp.time.covariance import Sensors, Separable, turned
from graphrf.gp.time.kernels import TimeSteps
from graphrf.gp.time.training.likelihood import log_likelihood, log_parameters, with_parameters

_RUN = 12  # consecutive times in a training run
# Times and values that are trained on by default, of which more change neither errors nor coverage,
# and the most values: chosen by the row `year` of `benchmarks/waits.py`.
_TIMES, _VALUES, _MOST_VALUES = 600, 20_000, 60_000


class CompleteGrid(NamedTuple):
    """A grid without gaps, in the basis of C's eigenvectors."""

    eigenvalues: np.ndarray
    own: np.ndarray  # eigenvalues of B
    steps: TimeSteps
    y: np.ndarray  # (T, n, draws)

    @classmethod
    def of(cls, sensors: Sensors, times: np.ndarray, draws: np.ndarray) -> Self:
        """The grid of draws (T, draws, n) of all values."""
        y = np.moveaxis(turned(draws, sensors.vectors), 1, 2)
        return cls(sensors.eigenvalues, sensors.own, TimeSteps.of(times), y)


def default_values(n: int) -> int:
    """Values of n sensors that are trained on by default."""
    return min(_MOST_VALUES, max(_TIMES * n, _VALUES))


def training_rows(n_times: int, n: int, max_train: int) -> np.ndarray:
    """Runs of consecutive times, evenly spaced, with about so many values of n sensors."""
    wanted = max(2 * _RUN, max_train // n)
    if n_times <= wanted:
        return np.arange(n_times)
    starts = np.linspace(0, n_times - _RUN, max(2, wanted // _RUN)).astype(int)
    return np.unique((starts[:, None] + np.arange(_RUN)).ravel())


def evidence(
    model: Separable, grids: Sequence[CompleteGrid], n_threads: int, step: Step | None = None
) -> float:
    """The sum of the log likelihoods of grids; `step` is called once."""
    if step is not None:
        step()
    return sum(
        log_likelihood(model, *grid, with_slopes=False, n_threads=n_threads).value for grid in grids
    )


def ascended(
    model: Separable,
    grids: Sequence[CompleteGrid],
    prior: np.ndarray,
    most: int,
    n_threads: int,
    step: Step | None = None,
) -> tuple[Separable, float, bool]:
    """The model after `most` steps on the grids' likelihood with weak priors, and whether it ended.

    `step` is called once for each evaluation of that likelihood.
    """
    width = math.log(10.0)  # one standard deviation of the weak priors
    low, high = prior + math.log(1e-6), prior + math.log(1e4)
    size = sum(grid.y[..., 0].size for grid in grids)
    last: list[float] = [0.0]

    def log_posterior(logarithms: np.ndarray) -> tuple[float, np.ndarray]:
        result = [
            log_likelihood(with_parameters(model, logarithms), *grid, n_threads=n_threads)
            for grid in grids
        ]
        last[0] = sum(each.value for each in result)
        slopes = np.sum([each.slopes for each in result], axis=0)
        off = (logarithms - prior) / width
        if step is not None:
            step()
        return last[0] - 0.5 * float(off @ off), slopes - off / width

    result = maximised(
        log_posterior,
        np.clip(log_parameters(model), low, high),
        np.column_stack([low, high]),
        scale=size,
        tolerances=Tolerances(most, 1e-7, 1e-5 * size),
    )
    return with_parameters(model, result.vector), last[0], result.stopped
