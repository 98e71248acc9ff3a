"""The posterior on graph and time for known hyperparameters, at any node and time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from graphrf._base.cached import cached_property
from graphrf._base.warn import warn
from graphrf.gp.posterior.by_rows import SolverWarning
from graphrf.gp.posterior.mixture import LEAST_DRAWS
from graphrf.gp.time import kalman
from graphrf.gp.time.covariance import GridCovariance, turned
from graphrf.gp.time.gaps import ObservedCells
from graphrf.gp.time.kernels import StateSpace, TimeKernel, TimeSteps, transitions
from graphrf.gp.time.online import Filter
from graphrf.operators.solvers import Solution


class QueriedNodes(NamedTuple):
    """Queried nodes by their covariances with sensors."""

    covariance: np.ndarray  # C between queried nodes and sensors, (q, n)
    among: np.ndarray  # C among them, (q, q), or (q,) its diagonal where no joint draws are wanted
    sensor: np.ndarray  # which sensor each is; -1: none


class _Projection(NamedTuple):
    """A queried node's part p as a sum over the series' unit-variance parts, and what remains."""

    coefficients: np.ndarray  # (p, q, n)
    remainder: np.ndarray  # (p, q, q) or (p, q): covariances of what no sensor determines


@dataclass(eq=False)
class TimePosterior:
    """f given y at the observed cells of a grid, for known hyperparameters and a mean of 0.

    The mean at node u and time t is sum_p sum_v (a_p C_uv + b_p delta_uv) k_p(t, t') alpha(t', v)
    with alpha = A^-1 y. Where each time has all sensors or none, variances are exact, by the
    smoother of each series; else see `_with_gaps`. `before` is the posterior given the first of
    these times only, from which solves begin.
    """

    cells: ObservedCells
    y: np.ndarray  # (T, n), without its mean; not used in gaps
    n_draws: int  # for variances where there are gaps; their relative error is sqrt(2 / n_draws)
    seed: int
    before: TimePosterior | None = None
    _start: np.ndarray | None = field(init=False, default=None)
    _states: Filter | None = field(init=False, default=None)

    @property
    def covariance(self) -> GridCovariance:
        return self.cells.covariance

    def __post_init__(self) -> None:
        """Start from the states or the solution of the earlier posterior, without keeping it."""
        before, self.before = self.before, None
        if before is not None and self.cells.whole and before.states is not None:
            new = slice(before.covariance.times.size, None)
            more = self.y[new] @ self.covariance.sensors.vectors
            self._states = before.states.observed(self.covariance.times[new], more)
        elif before is not None:
            self._start = np.zeros(self.y.shape)
            self._start[: before.covariance.times.size] = before.solution[1]

    @property
    def outcome(self) -> Solution:
        """The outcome of the solve; a direct one is left until it is needed."""
        return Solution(np.zeros(0), True, 0, 0.0) if self.cells.whole else self.solution[2]

    @cached_property
    def solution(self) -> tuple[np.ndarray, np.ndarray, Solution]:
        """alpha (T, n), y with its gaps filled, and the outcome of the solve."""
        start = None if self._start is None else self._start[:, None]
        value, filled, solution = self.cells.solve(self.y[:, None], start=start)
        return value[:, 0], filled[:, 0], solution

    @cached_property
    def states(self) -> Filter | None:
        """The filter after the last time, where forecasts begin; None if partly observed."""
        if not self.cells.whole:
            return None
        if self._states is not None:
            return self._states
        y = self.y @ self.covariance.sensors.vectors
        return Filter.of(self.cells.series, y, float(self.covariance.times[-1]))

    def _ahead(
        self, projection: _Projection, times: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Means and variances of what sensors determine, for times from the last one on."""
        if times[0] < self.covariance.times[-1] or self.states is None:
            return None
        return self.states.ahead(times, projection.coefficients)

    def means(self, places: QueriedNodes, times: np.ndarray) -> np.ndarray:
        """Posterior means at increasing times, shape (t, q)."""
        ahead = self._ahead(self._projection(places), times)
        if ahead is not None:
            return ahead[0]
        return self._weighted(self.solution[0][:, None], places, times)[:, 0]

    def variances(self, places: QueriedNodes, times: np.ndarray) -> np.ndarray:
        """Posterior variances of f, shape (t, q)."""
        projection = self._projection(places)
        remainder = projection.remainder
        rest = (remainder if remainder.ndim == 2 else np.einsum("pqq->pq", remainder)).sum(axis=0)
        ahead = self._ahead(projection, times)
        if ahead is not None:
            return ahead[1] + rest
        exact = self._smoothed(projection, times)
        return rest + (exact if self.cells.whole else self._with_gaps(exact, places, times))

    def _with_gaps(self, exact: np.ndarray, places: QueriedNodes, times: np.ndarray) -> np.ndarray:
        r"""Variances of what sensors determine; `exact` (t, q) are those of a grid without gaps.

        By the law of total variance they are conditional on missing values z: on all of them, but
        at a gap i on all others. There, with the exact variance v and Lambda_ii = (s - v) / s^2,

        .. math:: \mathrm{var}(f_i) = \Lambda_{ii}^{-1} - s + \mathrm{var}(\mathrm E[y_i \mid
            z_{-i}]), \quad
                  \mathrm E[y_i \mid z_{-i}] = z_i - (\Lambda [y; z])_i / \Lambda_{ii}.

        Draws of z serve the last term only, and the smaller it is, the fewer are needed (Sidén et
        al. 2018, "Efficient Covariance Approximations for Large Sparse Precision Matrices").
        """
        model, cells, own_times = self.covariance.model, self.cells, self.covariance.times
        row = np.minimum(np.searchsorted(own_times, times), own_times.size - 1)
        gaps = (
            cells.missing[row][:, places.sensor]
            & (own_times[row] == times)[:, None]
            & (places.sensor >= 0)
        )
        at, of = np.nonzero(gaps)
        here = row[at], slice(None), places.sensor[of]

        prior = np.diag(self.covariance.sensors.matrix) * model.shared.sum()
        prior = prior + np.diag(self.covariance.sensors.own_matrix) * model.own.sum()
        inverse = (model.noise - exact[gaps]) / model.noise**2
        # Rounding may have lost this.
        inverse = np.maximum(inverse, 1.0 / (prior[here[2]] + model.noise))
        exact[gaps] = 1.0 / inverse - model.noise

        squares, done, tiny = np.zeros(exact.shape), 0, np.finfo(float).tiny
        for rng, count in self._draw_blocks(self.n_draws, times.size, places.sensor.size):
            _, y = self._prior(own_times, count, rng, np.arange(own_times.size))
            # The variance of draws is too small by the square of a loose solve's error.
            _, filled, solution = cells.solve(y, tol=max(cells.tol, 1e-2))
            check_converged(solution, max(cells.tol, 1e-2))
            off = np.where(cells.missing[:, None], y - filled, 0.0)
            moved = cells.complete(off)
            errors = self._weighted(moved, places, times)
            errors[at, :, of] = off[here] - moved[here] / inverse[:, None]
            squares += (errors**2).sum(axis=1)
            done += count

            result = squares / done
            # The draws' fraction of variances, for each node the mean over its times, weighted by
            # what draws add.
            fraction = (result**2 / np.maximum(exact + result, tiny)).sum(axis=0) / np.maximum(
                result.sum(axis=0), tiny
            )
            if done >= max(LEAST_DRAWS, self.n_draws * float(fraction.max()) ** 2):
                break
        return np.asarray(exact + result)

    def draws(self, places: QueriedNodes, times: np.ndarray, n_draws: int, seed: int) -> np.ndarray:
        """Joint draws of f, shape (n_draws, t, q); `places.among` must be a matrix."""
        projection = self._projection(places)
        mean = self.means(places, times)
        steps = self.covariance.at(times).steps
        out = np.empty((n_draws, times.size, places.sensor.size))
        done = 0
        for rng, count in self._draw_blocks(n_draws, times.size, places.sensor.size, seed):
            errors = self._errors(projection, places, times, count, rng)
            for part, among in zip(self.covariance.model.parts, projection.remainder, strict=True):
                values, vectors = np.linalg.eigh(among)
                root = vectors * np.sqrt(np.maximum(values, 0.0))
                own = process_draws(part.kernel, steps, count * places.sensor.size, rng)
                errors += own.reshape(times.size, count, -1) @ root.T
            out[done : done + count] = np.moveaxis(errors + mean[:, None], 1, 0)
            done += count
        return out

    def imputed(self, n_draws: int, seed: int) -> np.ndarray:
        """Draws of what all cells would show, with noise, given the observed: (T, n_draws, n)."""
        rng = np.random.default_rng([seed, 3])
        _, y = self._prior(
            self.covariance.times, n_draws, rng, np.arange(self.covariance.times.size)
        )
        _, filled, solution = self.cells.solve(self.y[:, None] - y)
        check_converged(solution, self.cells.tol)
        return np.where(self.cells.mask[:, None], self.y[:, None], filled + y)

    # -- pieces ------------------------------------------------------------------------------------

    def _weighted(self, alpha: np.ndarray, places: QueriedNodes, times: np.ndarray) -> np.ndarray:
        """Cross-covariances of queries and grid times alpha (T, R, n): shape (t, R, q)."""
        grid, of_grid, of_query = _united(self.covariance.times, times)
        wide = np.zeros((grid.size, *alpha.shape[1:]))
        wide[of_grid] = alpha
        shared, own = self.covariance.at(grid).along_time(wide)
        result = turned(shared[of_query], places.covariance.T)
        known = np.flatnonzero(places.sensor >= 0)
        own, sensors, chosen = own[of_query], self.covariance.sensors, places.sensor[known]
        bent = bool((sensors.own != 1.0).any())  # else B is the identity
        result[..., known] += (
            turned(own, sensors.own_matrix[:, chosen]) if bent else own[..., chosen]
        )
        return np.asarray(result)

    def _projection(self, places: QueriedNodes) -> _Projection:
        model, sensors = self.covariance.model, self.covariance.sensors
        known = np.flatnonzero(places.sensor >= 0)
        turned = places.covariance @ sensors.vectors
        among = places.among
        coefficients, remainders = [], []
        for a, b in zip(model.shared, model.own, strict=True):
            scales = np.sqrt(a * sensors.eigenvalues + b * sensors.own)
            with np.errstate(divide="ignore", invalid="ignore"):
                own = np.where(scales > 1e-9 * scales.max(initial=0.0), a * turned / scales, 0.0)
            own[known] = sensors.vectors[places.sensor[known]] * scales
            if among.ndim == 1:
                rest = np.maximum(a * among + b - np.einsum("qn,qn->q", own, own), 0.0)
                rest[known] = 0.0
            else:
                rest = a * among + b * np.eye(len(among)) - own @ own.T
                rest[known] = 0.0
                rest[:, known] = 0.0
            coefficients.append(own)
            remainders.append(rest)
        return _Projection(np.array(coefficients), np.array(remainders))

    def _smoothed(self, projection: _Projection, times: np.ndarray) -> np.ndarray:
        """Exact variances of what sensors determine, on a grid without partly observed times."""
        grid, of_grid, of_query = _united(self.covariance.times, times)
        noise = np.full(grid.size, np.inf)
        noise[of_grid] = np.where(self.cells.mask.any(axis=1), self.covariance.model.noise, np.inf)
        series = self.covariance.at(grid).series(noise)
        result = np.zeros((times.size, projection.coefficients.shape[1]))
        for first, block in series.smoothed():
            own = projection.coefficients[:, :, first : first + block.shape[0]]
            for m in range(own.shape[2]):
                pairs = own[:, None, :, m] * own[None, :, :, m]
                result += np.tensordot(block[m][of_query], pairs, ((1, 2), (0, 1)))
        return result

    def _draw_blocks(
        self, n_draws: int, n_times: int, n_queried: int, seed: int | None = None
    ) -> Iterator[tuple[np.random.Generator, int]]:
        """Generators with how many draws to make by each."""
        n_times, n = (
            n_times + self.covariance.times.size,
            max(self.covariance.sensors.eigenvalues.size, n_queried),
        )
        count = int(np.clip(10_000_000 // (n_times * n * 4), 1, 256))  # four arrays of 80 MB
        for block, done in enumerate(range(0, n_draws, count)):
            rng = np.random.default_rng([self.seed if seed is None else seed, 2, block])
            yield rng, min(count, n_draws - done)

    def _prior(
        self, grid: np.ndarray, count: int, rng: np.random.Generator, observed: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Unit-variance parts of series at all times, (p, t, R, n), and y at the observed ones."""
        model, sensors = self.covariance.model, self.covariance.sensors
        n = sensors.eigenvalues.size
        steps = self.covariance.at(grid).steps
        parts = np.stack(
            [
                process_draws(kernel, steps, count * n, rng).reshape(-1, count, n)
                for kernel in model.kernels
            ]
        )
        scales = np.sqrt(
            model.shared[:, None] * sensors.eigenvalues + model.own[:, None] * sensors.own
        )
        f = np.zeros((observed.size, count, n))
        for part, scale in zip(parts, scales, strict=True):
            f += part[observed] * scale
        f = turned(f, sensors.vectors.T)
        return parts, f + np.sqrt(model.noise) * rng.standard_normal(f.shape)

    def _errors(
        self,
        projection: _Projection,
        places: QueriedNodes,
        times: np.ndarray,
        count: int,
        rng: np.random.Generator,
    ) -> np.ndarray:
        """Draws of f - E[f | y], but for what no sensor determines: shape (t, count, q)."""
        grid, of_grid, of_query = _united(self.covariance.times, times)
        parts, y = self._prior(grid, count, rng, of_grid)
        value, _, solution = self.cells.solve(y)
        check_converged(solution, self.cells.tol)
        truth = np.zeros((times.size, count, places.sensor.size))
        for each, part in zip(projection.coefficients, parts, strict=True):
            truth += turned(part[of_query], each.T)
        return truth - self._weighted(value, places, times)


def check_converged(solution: Solution, tol: float) -> None:
    """A warning where conjugate gradients stopped too early."""
    if not solution.converged:
        warn(
            f"conjugate gradients stopped at a residual of {solution.residual:.1g}, above {tol:g}: "
            "predictions and intervals are inaccurate; a larger noise makes the equations better "
            "conditioned",
            SolverWarning,
        )


def _united(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The times of both, increasing, and where those of each stand."""
    grid, places = np.unique(np.concatenate([first, second]), return_inverse=True)
    return grid, places[: first.size], places[first.size :]


def process_draws(
    kernel: TimeKernel, steps: TimeSteps, n_columns: int, rng: np.random.Generator
) -> np.ndarray:
    """Independent draws of a process with unit variance, (T, n_columns), in O(T d n_columns)."""
    space = StateSpace.of((kernel,))
    phi = transitions((kernel,), steps.lengths)
    noise = space.stationary - phi @ space.stationary @ np.swapaxes(phi, 1, 2)
    normals = rng.standard_normal((steps.which.size, space.low.size, n_columns))
    out = np.empty((steps.which.size, n_columns))
    kalman.simulated(
        phi,
        steps.which,
        _root(noise),
        _root(space.stationary[None])[0],
        space.low,
        space.high,
        space.readouts[0],
        normals,
        out,
    )
    return out


def _root(covariances: np.ndarray) -> np.ndarray:
    """A symmetric root of each positive semidefinite matrix, which keeps its blocks."""
    values, vectors = np.linalg.eigh(0.5 * (covariances + np.swapaxes(covariances, 1, 2)))
    return np.asarray(
        (vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]) @ np.swapaxes(vectors, 1, 2)
    )
