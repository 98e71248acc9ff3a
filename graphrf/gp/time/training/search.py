r"""Hyperparameters by the likelihood of a part of the times, with and without gaps.

Complete grids have an exact likelihood. With gaps its derivative is that of complete grids,
averaged over draws of the missing values given the observed ones (Fisher's identity), and the
search is expectation maximisation with such draws (Wei and Tanner 1990). Graph kernels are compared
by the exact likelihood of blocks of observed values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, cholesky

from graphrf.gp.model.notices import schwarz_factor
from graphrf.gp.model.progress import Step
from graphrf.gp.time.covariance import GridCovariance, Sensors, Separable
from graphrf.gp.time.gaps import ObservedCells
from graphrf.gp.time.graph_kernels import Blocks
from graphrf.gp.time.posterior import TimePosterior
from graphrf.gp.time.training.ascent import CompleteGrid, ascended, training_rows
from graphrf.gp.time.training.costs import TRAINING_COSTS, TrainingCosts
from graphrf.gp.time.training.learned import Learned, learned
from graphrf.gp.time.training.likelihood import log_parameters
from graphrf.gp.time.training.own_variance import inflate_own_variance
from graphrf.kernels.kernel import Kernel

_COMPARED = 4_000  # values on which transforms of readings are compared
# Correlations of sensors that are all equally alike, with which a graph is compared.
_CORRELATIONS = np.linspace(0.0, 0.95, 7)


class SearchResult(NamedTuple):
    """The end of a search."""

    model: Separable
    kernel: Kernel
    log_marginal_likelihood: float  # of the training times; with gaps the mean over imputations
    converged: bool
    learned: Learned | None  # where the covariance of sensors is learned
    log_factor: float  # log Bayes factor of the graph against sensors that are all equally alike


class TrainingGrid(NamedTuple):
    """The data of training: a grid without its mean, and C for each kernel."""

    y: np.ndarray
    mask: np.ndarray
    times: np.ndarray
    blocks: Blocks
    seed: int
    n_threads: int
    step: Step | None = None  # called once for each evaluation of a likelihood
    costs: TrainingCosts = TRAINING_COSTS

    def rows(self, chosen: np.ndarray) -> TrainingGrid:
        return self._replace(y=self.y[chosen], mask=self.mask[chosen], times=self.times[chosen])


def train(
    data: TrainingGrid, start: Separable, kernels: list[Kernel], max_train: int, learn: bool = False
) -> SearchResult:
    """Graph kernel and time hyperparameters; then, to `learn`, the covariance of sensors."""
    seen = data.rows(np.flatnonzero(data.mask.any(axis=1)))
    prior = log_parameters(start)
    model, kernel, value, converged = _by_turns(seen, start, kernels, max_train, prior)
    near, result = seen.blocks(kernel), None
    factor = _log_factor(_Blocks(model, seen), near, len(kernels) > 1)
    sensors = [Sensors.of(near)]

    if learn and seen.times.size >= 100:  # fewer hardly determine the covariance of sensors
        result = learned(
            model,
            near,
            seen.times,
            seen.y,
            seen.mask,
            prior,
            max_train,
            data.seed,
            data.n_threads,
            data.step,
            data.costs,
        )
        model, value = result.model, result.log_marginal_likelihood
        result = result if result.weight > 0 else None
        if result is not None:
            sensors = [result.sensors(near, half) for half in result.halves]
    model = inflate_own_variance(
        model, sensors, seen.times, seen.y, seen.mask, data.costs.own_cells
    )
    return SearchResult(model, kernel, value, converged, result, factor)


def log_density(
    data: TrainingGrid, start: Separable, kernels: list[Kernel], log_slopes: np.ndarray
) -> float:
    """The log density of readings transformed in `data`, up to a constant, after a short training.

    `log_slopes` (T, n) are logarithms of the derivatives of the transform.
    """
    chosen = np.flatnonzero(data.mask.any(axis=1))
    seen, one = data.rows(chosen), kernels[len(kernels) // 2 :][:1]
    model, kernel, _, _ = _by_turns(seen, start, one, _COMPARED, log_parameters(start))
    changed = sum(
        float(slopes.sum()) for _, _, slopes in _cells(seen._replace(y=log_slopes[chosen]))
    )
    return _Blocks(model, seen).log_likelihood(seen.blocks(kernel)) + changed


def _by_turns(
    seen: TrainingGrid, model: Separable, kernels: list[Kernel], max_train: int, prior: np.ndarray
) -> tuple[Separable, Kernel, float, bool]:
    """Time hyperparameters and graph kernel, their likelihood, and whether rounds converged."""
    small = seen.rows(training_rows(seen.times.size, seen.mask.shape[1], max_train))
    kernel, value, converged = kernels[len(kernels) // 2], -np.inf, False
    costs = seen.costs
    for turn in range(costs.rounds):
        before = model
        sensors = Sensors.of(small.blocks(kernel))
        cells = ObservedCells(
            GridCovariance(model, sensors, small.times, small.n_threads), small.mask, 1e-3
        )
        without_gaps = cells.whole

        # The same random numbers each time, so that the rounds have a fixed point.
        grid = (
            small.y[:, None]
            if without_gaps
            else TimePosterior(cells, small.y, 1, 0).imputed(1, small.seed)
        )
        most = 80 if without_gaps else costs.more_steps
        complete = CompleteGrid.of(sensors, small.times, grid)
        model, value, converged = ascended(
            model, [complete], prior, most, small.n_threads, small.step
        )

        chosen = _best_kernel(model, seen, kernels) if turn < 3 and len(kernels) > 1 else kernel
        changed, kernel = chosen != kernel, chosen
        settled = not changed and (without_gaps or _moved(before, model) < costs.settled)
        # With gaps each round has another likelihood: the end of one search is not that of the
        # rounds.
        converged = settled and (converged or not without_gaps)
        if settled:
            break
    return model, kernel, value, converged


def _moved(before: Separable, after: Separable) -> float:
    """The largest change of a variance by their sum, or a fifth of that of the log noise."""
    first, second = (np.array([*m.shared, *m.own]) for m in (before, after))
    noise = 0.2 * abs(math.log(after.noise / before.noise))
    return max(float(np.abs(first - second).max() / second.sum()), noise)


class _Blocks:
    """Blocks of observed values, whose likelihood depends on C among the sensors alone."""

    def __init__(self, model: Separable, data: TrainingGrid) -> None:
        self._step = data.step
        self._blocks: list[tuple[tuple[np.ndarray, ...], np.ndarray, np.ndarray, np.ndarray]] = []
        for times, sensor, y in _cells(data):
            along = [part.kernel.covariance(times[:, None] - times) for part in model.parts]
            shared = np.tensordot(model.shared, along, axes=1)
            own = np.tensordot(model.own, along, axes=1) * (sensor[:, None] == sensor)
            own[np.diag_indices(y.size)] += model.noise
            self._blocks.append((np.ix_(sensor, sensor), shared, own, y))

    @property
    def n_values(self) -> int:
        return sum(y.size for _, _, _, y in self._blocks)

    def log_likelihood(self, matrix: np.ndarray) -> float:
        """The log likelihood of all blocks under C = `matrix`, unnormalised; -inf if invalid."""
        if self._step is not None:
            self._step()
        total = 0.0
        for pairs, shared, each, y in self._blocks:
            try:
                root = cholesky(shared * matrix[pairs] + each, lower=True)
            except np.linalg.LinAlgError:
                return -np.inf
            total -= 0.5 * float(y @ cho_solve((root, True), y)) + float(
                np.log(np.diag(root)).sum()
            )
        return total


def _best_kernel(model: Separable, data: TrainingGrid, kernels: list[Kernel]) -> Kernel:
    """The graph kernel under which blocks of observed values have the largest likelihood."""
    blocks = _Blocks(model, data)
    return max(kernels, key=lambda kernel: blocks.log_likelihood(data.blocks(kernel)))


def _log_factor(blocks: _Blocks, near: np.ndarray, chosen: bool) -> float:
    """The log Bayes factor of C = `near` against equal correlation, by Schwarz's formula.

    A kernel that was `chosen` has a shape and a lengthscale, the alternative one correlation.
    """
    n = len(near)
    variance = float(np.trace(near)) / n
    alike = (variance * ((1.0 - each) * np.eye(n) + each) for each in _CORRELATIONS)
    others = max(blocks.log_likelihood(matrix) for matrix in alike)
    return schwarz_factor(blocks.log_likelihood(near), others, 1 if chosen else -1, blocks.n_values)


def _cells(data: TrainingGrid) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Times, sensors and values of blocks: what was observed in a few consecutive times, evenly
    spaced.
    """
    cells = data.costs.block_cells
    per_time = max(1.0, float(data.mask.sum(axis=1).mean()))
    length = int(np.clip(cells // per_time, 1, data.times.size))
    count = int(np.clip(data.times.size // length, 1, 5))
    for first in np.linspace(0, data.times.size - length, count).astype(int):
        row, sensor = np.nonzero(data.mask[first : first + length])
        if row.size > 2 * cells:  # one time of very many sensors
            chosen = np.linspace(0, row.size - 1, 2 * cells).astype(int)
            row, sensor = row[chosen], sensor[chosen]
        yield data.times[first + row], sensor, data.y[first + row, sensor]
