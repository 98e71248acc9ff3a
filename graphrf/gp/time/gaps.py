"""Solves with the covariance of what was observed, by Kalman filters and conjugate gradients."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from graphrf._base.cached import cached_property
from graphrf.gp.time.covariance import GridCovariance, Separable, Series, turned
from graphrf.gp.time.kernels import MaternTime
from graphrf.operators.solvers import ConjugateGradients, Solution

# Gaps that are longer than so many times on average are worth a preconditioner. They are long, not
# scattered, if they are so many times as long as values that are missing independently would make
# them.
LONG_GAP, _SCATTERED = 2.0, 1.5


@dataclass(frozen=True)
class ObservedCells:
    r"""The covariance A of the observed values of a grid, noise included.

    Where each time has all sensors or none, eigenvectors of C and Kalman filters are its inverse.
    Else let Lambda be that inverse for the complete grid. The missing values z that Lambda expects,
    and A^-1 y, are

    .. math:: \Lambda_{mm} z = -\Lambda_{mo} y, \qquad A^{-1} y = (\Lambda [y; z])_o.

    Conjugate gradients compute z. Eigenvalues of the inverse of Lambda_mm, the covariance of the
    missing values given the observed ones, lie between the noise and the largest conditional
    variance: few steps suffice for scattered gaps. In long gaps the preconditioner is the
    covariance of the Matern processes of each sensor given all other sensors, restricted to missing
    values, plus noise. Where most values are missing independently, it is the covariance of a
    complete grid with noise N = s / rho, rho the observed fraction at a time:

    .. math:: P = (N - N (K + N)^{-1} N)_{mm} + s I.

    A step costs one complete-grid solve, O(n T (n + d)), and two where most values are missing
    independently.
    """

    covariance: GridCovariance
    mask: np.ndarray  # what was observed, (T, n)
    tol: float = 1e-4  # of the residual of the equations for z, relative to their right-hand side
    long_gap: float = LONG_GAP

    @property
    def whole(self) -> bool:
        """True if no time has some of the sensors only."""
        return not self.missing.any()

    @cached_property
    def missing(self) -> np.ndarray:
        """Gaps at times that have some of the sensors, (T, n); others need no solve."""
        return ~self.mask & self.mask.any(axis=1, keepdims=True)

    @cached_property
    def series(self) -> Series:
        """The grid as it were if each time that has some of the sensors had all."""
        noise = np.where(self.mask.any(axis=1), self.covariance.model.noise, np.inf)
        return self.covariance.series(noise)

    def solve(
        self, y: np.ndarray, tol: float | None = None, start: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, Solution]:
        """Lambda [y; z], the completed values [y; z], (T, R, n), and convergence; y unused in gaps.

        The first is A^-1 y where something was observed, and the residual of the equations for z in
        gaps. `start` has first guesses of z.
        """
        filled = np.where(self.mask[:, None], y, 0.0)
        if self.whole:
            return self.complete(filled), filled, Solution(filled, True, 0, 0.0)

        n_columns = y.shape[1]
        if start is not None:
            filled += np.where(self.missing[:, None], start, 0.0)
        right = -self._in_cells(self.complete(np.where(self.mask[:, None], y, 0.0)))
        rest = right if start is None else -self._in_cells(self.complete(filled))
        scale = float(np.linalg.norm(right)) / max(float(np.linalg.norm(rest)), 1e-300)
        tol = self.tol if tol is None else tol

        def product(x: np.ndarray) -> np.ndarray:
            return self._in_cells(self.complete(self._on_grid(x)))

        solver = ConjugateGradients(product, self._precondition, tol=tol, max_iterations=1000)
        solution = solver.solve_to(rest, min(0.5, tol * scale))
        filled += self._on_grid(solution.value.reshape(-1, n_columns))
        return (
            self.complete(filled),
            filled,
            solution._replace(residual=solution.residual / max(scale, 1e-300)),
        )

    @cached_property
    def _gap_length(self) -> float:
        """The mean number of times in a gap."""
        ends = self.missing & ~np.vstack(
            [self.missing[1:], np.zeros((1, self.mask.shape[1]), bool)]
        )
        return float(self.missing.sum() / ends.sum())

    @cached_property
    def scattered(self) -> bool:
        """True if gaps are about as long as if values were missing independently."""
        if self.whole:
            return True
        partly = self.mask.any(axis=1)
        return self._gap_length * float(self.mask[partly].mean()) <= _SCATTERED

    @cached_property
    def _quick(self) -> tuple[GridCovariance, np.ndarray]:
        """Matern processes, and their variances at sensors given all others, (p, n)."""
        model, sensors = self.covariance.model, self.covariance.sensors
        parts = tuple(part for part in model.parts if isinstance(part.kernel, MaternTime))
        variances = np.zeros((len(parts), sensors.eigenvalues.size))
        for variance, part in zip(variances, parts, strict=True):
            spectrum = part.shared * sensors.eigenvalues + part.own * sensors.own
            spectrum = np.maximum(spectrum, 1e-6 * spectrum.max())
            variance[:] = 1.0 / (sensors.vectors**2 @ (1.0 / spectrum))
        return dataclasses.replace(self.covariance, model=Separable(parts, model.noise)), variances

    @cached_property
    def _thinned(self) -> tuple[Series, np.ndarray]:
        """The complete grid with noise s / rho, and that noise, (T, 1, 1), 0 without any."""
        with np.errstate(divide="ignore"):
            noise = self.covariance.model.noise / self.mask.mean(axis=1)
        finite = np.where(np.isfinite(noise), noise, 0.0)
        return self.covariance.series(noise), finite[:, None, None]

    def _precondition(self, x: np.ndarray) -> np.ndarray:
        noise = self.covariance.model.noise
        if self._gap_length <= self.long_gap:
            return x.copy()
        if self.scattered:
            series, wide = self._thinned
            grid = wide * self._on_grid(x)
            return self._in_cells(grid - wide * self._turned_solve(series, grid)) + noise * x
        covariance, variances = self._quick
        if not len(variances):
            return x.copy()
        along = covariance.along_time(self._on_grid(x), np.eye(len(variances)))
        return self._in_cells(np.einsum("ptrn,pn->trn", along, variances)) + noise * x

    def complete(self, y: np.ndarray) -> np.ndarray:
        """Lambda y for y (T, R, n); 0 at times without observation."""
        value = self._turned_solve(self.series, y)
        value[~self.mask.any(axis=1)] = 0.0
        return value

    def _turned_solve(self, series: Series, y: np.ndarray) -> np.ndarray:
        """A solve of series, to and from the basis of eigenvectors."""
        vectors = self.covariance.sensors.vectors
        return turned(series.solve(turned(y, vectors)), vectors.T)

    def _in_cells(self, grid: np.ndarray) -> np.ndarray:
        return np.moveaxis(grid, 1, 2)[self.missing]

    def _on_grid(self, cells: np.ndarray) -> np.ndarray:
        grid = np.zeros((*self.mask.shape, cells.shape[1]))
        grid[self.missing] = cells
        return np.ascontiguousarray(np.moveaxis(grid, 2, 1))
