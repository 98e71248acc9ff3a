r"""Hyperparameters by the likelihood of a part of the times, with and without gaps.

Complete grids have an exact likelihood. With gaps its derivative is that of complete grids, averaged over draws
of the missing values given the observed ones (Fisher's identity), and the search is expectation maximisation with
such draws (Wei and Tanner 1990). Graph kernels are compared by the exact likelihood of blocks of observed values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, cholesky

from graphrf.gp.model.notices import schwarz_factor
from graphrf.gp.model.progress import Step
from graphrf.gp.time.covariance import GridCovariance, Part, Sensors, Separable
from graphrf.gp.time.gaps import ObservedCells
from graphrf.gp.time.graph_kernels import Blocks
from graphrf.gp.time.kernels import ConstantTime, MaternTime, PeriodicTime, TimeKernel
from graphrf.gp.time.posterior import TimePosterior
from graphrf.gp.time.training.ascent import Complete, maximised, training_rows
from graphrf.gp.time.training.habits import with_habits
from graphrf.gp.time.training.learned import learned
from graphrf.gp.time.training.likelihood import log_parameters
from graphrf.kernels.kernel import Kernel

_ROUNDS = 15  # of expectation maximisation at most
_SETTLED = 0.01  # until no variance changes by more, as a share of all
_MORE_STEPS = 25  # of the search in each round, with gaps
_BLOCK_CELLS = 600  # in a block that compares graph kernels
_COMPARED = 4_000  # values on which transforms of readings are compared
# Correlations of sensors that are all equally alike, with which a graph is compared.
_CORRELATIONS = np.linspace(0.0, 0.95, 7)


class Trained(NamedTuple):
    """The end of a search."""

    model: Separable
    kernel: Kernel
    log_marginal_likelihood: float  # of the training times; with gaps the mean over imputations
    converged: bool
    share: float  # of the empirical covariance of sensors
    bend: float  # of the covariance of what sensors have of their own, see `Sensors`
    empirical: np.ndarray | None
    log_factor: float  # log Bayes factor of the graph against sensors that are all equally alike


class Task(NamedTuple):
    """The data of training: a grid without its mean, and C for each kernel."""

    y: np.ndarray
    mask: np.ndarray
    times: np.ndarray
    blocks: Blocks
    seed: int
    n_threads: int
    step: Step | None = None  # called once for each evaluation of a likelihood

    def rows(self, chosen: np.ndarray) -> Task:
        return self._replace(y=self.y[chosen], mask=self.mask[chosen], times=self.times[chosen])


def automatic_parts(times: np.ndarray, variance: float) -> tuple[Part, ...]:
    """Levels, profiles of day and week where the times can show them, and Matern processes from slow to quick."""
    span = float(times[-1] - times[0])
    step = float(np.median(np.diff(times))) if times.size > 1 else 1.0
    kernels: list[tuple[TimeKernel, float, float]] = [(ConstantTime(), 0.1, 0.1)]
    if span >= 48 and step <= 6:
        kernels.append((PeriodicTime(24.0, decay=20 * 24.0, harmonics=min(6, int(12 / step))), 0.2, 0.1))
    if span >= 3 * 168 and step <= 24:
        kernels.append((PeriodicTime(168.0, decay=20 * 168.0, harmonics=min(6, int(84 / step))), 0.1, 0.1))
    kernels.append((MaternTime(30 * step, nu=1.5), 0.2, 0.1))
    kernels.append((MaternTime(10 * step), 0.1, 0.05))
    kernels.append((MaternTime(4 * step, nu=1.5), 0.05, 0.05))
    kernels.append((MaternTime(1.5 * step), 0.05, 0.05))
    return tuple(Part(kernel, shared * variance, own * variance) for kernel, shared, own in kernels)


def train(task: Task, start: Separable, kernels: list[Kernel], max_train: int, learn: bool = False) -> Trained:
    """Graph kernel and hyperparameters of the time axis; then, to `learn`, the covariance of sensors."""
    seen = task.rows(np.flatnonzero(task.mask.any(axis=1)))
    prior = log_parameters(start)
    model, kernel, value, converged = _by_turns(seen, start, kernels, max_train, prior)
    near, share, bend, matrix = seen.blocks(kernel), 0.0, 0.0, None
    factor = _log_factor(_Blocks(model, seen), near, len(kernels) > 1)
    learned_from = [Sensors.of(near)]
    if learn and seen.times.size >= 100:  # fewer have little on the covariance of sensors
        found = learned(
            model, near, seen.times, seen.y, seen.mask, prior, max_train, task.seed, task.n_threads, task.step
        )
        model, share, bend, value = found.model, found.share, found.bend, found.log_marginal_likelihood
        if share > 0:
            matrix = found.matrix
            learned_from = [Sensors.of((1.0 - share) * near + share * half, bend) for half in found.halves]
    model = with_habits(model, learned_from, seen.times, seen.y, seen.mask)
    return Trained(model, kernel, value, converged, share, bend, matrix, factor)


def log_density(task: Task, start: Separable, kernels: list[Kernel], log_slopes: np.ndarray) -> float:
    """The log density of readings transformed in `task`, up to a constant, after a short training.

    `log_slopes` (T, n) are logarithms of the derivatives of the transform.
    """
    chosen = np.flatnonzero(task.mask.any(axis=1))
    seen, one = task.rows(chosen), kernels[len(kernels) // 2 :][:1]
    model, kernel, _, _ = _by_turns(seen, start, one, _COMPARED, log_parameters(start))
    changed = sum(float(slopes.sum()) for _, _, slopes in _cells(seen._replace(y=log_slopes[chosen])))
    return _Blocks(model, seen).log_likelihood(seen.blocks(kernel)) + changed


def _by_turns(
    seen: Task, model: Separable, kernels: list[Kernel], max_train: int, prior: np.ndarray
) -> tuple[Separable, Kernel, float, bool]:
    """Hyperparameters of the time axis and graph kernel, with the likelihood, and whether the rounds converged."""
    small = seen.rows(training_rows(seen.times.size, seen.mask.shape[1], max_train))
    kernel, value, converged = kernels[len(kernels) // 2], -np.inf, False
    for turn in range(_ROUNDS):
        before = model
        sensors = Sensors.of(small.blocks(kernel))
        cells = ObservedCells(GridCovariance(model, sensors, small.times, small.n_threads), small.mask, 1e-3)
        whole = cells.whole
        # The same random numbers each time, so that the rounds have a fixed point.
        grid = small.y[:, None] if whole else TimePosterior(cells, small.y, 1, 0).imputed(1, small.seed)
        most = 80 if whole else _MORE_STEPS
        complete = Complete.of(sensors, small.times, grid)
        model, value, converged = maximised(model, [complete], prior, most, small.n_threads, small.step)
        chosen = _best_kernel(model, seen, kernels) if turn < 3 and len(kernels) > 1 else kernel
        changed, kernel = chosen != kernel, chosen
        settled = not changed and (whole or _moved(before, model) < _SETTLED)
        # With gaps each round has another likelihood: the end of one search is not that of the rounds.
        converged = settled and (converged or not whole)
        if settled:
            break
    return model, kernel, value, converged


def _moved(before: Separable, after: Separable) -> float:
    """The largest change of a variance as a share of their sum, or a fifth of that of the noise's logarithm."""
    first, second = (np.array([*m.shared, *m.own]) for m in (before, after))
    noise = 0.2 * abs(math.log(after.noise / before.noise))
    return max(float(np.abs(first - second).max() / second.sum()), noise)


class _Blocks:
    """Blocks of observed values, whose likelihood depends on C among the sensors, time left as it is."""

    def __init__(self, model: Separable, task: Task) -> None:
        self._step = task.step
        self._blocks: list[tuple[tuple[np.ndarray, ...], np.ndarray, np.ndarray, np.ndarray]] = []
        for times, sensor, y in _cells(task):
            along = [part.kernel.covariance(times[:, None] - times) for part in model.parts]
            shared = np.tensordot(model.shared, along, axes=1)
            own = np.tensordot(model.own, along, axes=1) * (sensor[:, None] == sensor)
            own[np.diag_indices(y.size)] += model.noise
            self._blocks.append((np.ix_(sensor, sensor), shared, own, y))

    @property
    def n_values(self) -> int:
        return sum(y.size for _, _, _, y in self._blocks)

    def log_likelihood(self, matrix: np.ndarray) -> float:
        """The log likelihood of all blocks under C = `matrix`, without a constant; -inf if C is no covariance."""
        if self._step is not None:
            self._step()
        total = 0.0
        for pairs, shared, own, y in self._blocks:
            try:
                root = cholesky(shared * matrix[pairs] + own, lower=True)
            except np.linalg.LinAlgError:
                return -np.inf
            total -= 0.5 * float(y @ cho_solve((root, True), y)) + float(np.log(np.diag(root)).sum())
        return total


def _best_kernel(model: Separable, task: Task, kernels: list[Kernel]) -> Kernel:
    """The graph kernel under which blocks of observed values have the largest likelihood."""
    blocks = _Blocks(model, task)
    return max(kernels, key=lambda kernel: blocks.log_likelihood(task.blocks(kernel)))


def _log_factor(blocks: _Blocks, near: np.ndarray, chosen: bool) -> float:
    """The log Bayes factor of C = `near` against equally correlated sensors, by Schwarz's approximation.

    A kernel that was `chosen` has a shape and a lengthscale, the alternative one correlation.
    """
    n = len(near)
    variance = float(np.trace(near)) / n
    alike = (variance * ((1.0 - own) * np.eye(n) + own) for own in _CORRELATIONS)
    others = max(blocks.log_likelihood(matrix) for matrix in alike)
    return schwarz_factor(blocks.log_likelihood(near), others, 1 if chosen else -1, blocks.n_values)


def _cells(task: Task) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Times, sensors and values of blocks: what was observed in a few consecutive times, evenly spread."""
    per_time = max(1.0, float(task.mask.sum(axis=1).mean()))
    length = int(np.clip(_BLOCK_CELLS // per_time, 1, task.times.size))
    count = int(np.clip(task.times.size // length, 1, 5))
    for first in np.linspace(0, task.times.size - length, count).astype(int):
        row, sensor = np.nonzero(task.mask[first : first + length])
        if row.size > 2 * _BLOCK_CELLS:  # one time of very many sensors
            chosen = np.linspace(0, row.size - 1, 2 * _BLOCK_CELLS).astype(int)
            row, sensor = row[chosen], sensor[chosen]
        yield task.times[first + row], sensor, task.y[first + row, sensor]
