"""Solves with the covariance of what was observed: Kalman filters where times are whole, else with their help."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphrf._base.cached import cached_property
from graphrf.gp.inference.solvers import ConjugateGradients, Solution
from graphrf.gp.time.covariance import GridCovariance, Series


@dataclass(frozen=True)
class ObservedCells:
    r"""The covariance A of the observed values of a grid, noise included.

    Where each time has all sensors or none, eigenvectors of C and Kalman filters are its inverse. Else A^-1 b is
    by conjugate gradients with the matrix A, a product of semiseparable matrices and C, preconditioned by the
    inverse for a complete grid whose noise at time t is s n / n_t, for n_t of n sensors that were observed.

    Parameters
    ----------
    covariance : GridCovariance
    mask : ndarray of bool, shape (T, n)
        What was observed.
    tol : float
        Of the residual, relative to the right-hand side.

    Source: Lin, Ament, Balandat and Bakshy 2024, "Scaling Gaussian Processes for Learning Curve Prediction via
    Latent Kronecker Structure", for the conjugate gradients.
    """

    covariance: GridCovariance
    mask: np.ndarray
    tol: float = 1e-4
    max_iterations: int = 1000

    @property
    def whole(self) -> bool:
        """Whether no time has some of the sensors only."""
        seen = self.mask.sum(axis=1)
        return bool(((seen == 0) | (seen == self.mask.shape[1])).all())

    @cached_property
    def series(self) -> Series:
        """The complete grid that stands for this one: it where it is whole, and in the preconditioner else."""
        seen = self.mask.mean(axis=1)
        with np.errstate(divide="ignore"):
            return self.covariance.series(self.covariance.model.noise / seen)

    def solve(self, y: np.ndarray, tol: float | None = None) -> tuple[np.ndarray, Solution]:
        """A^-1 y for y (T, R, n), which is not looked at in gaps: shape (T, R, n), 0 in gaps; and how it went."""
        n_columns = y.shape[1]
        if self.whole:
            value = self._complete(y)
            value[~self.mask.any(axis=1)] = 0.0
            return value, Solution(value, True, 0, 0.0)
        noise = self.covariance.model.noise

        def product(x: np.ndarray) -> np.ndarray:
            return self._gathered(self.covariance.product(self._spread(x))) + noise * x

        def precondition(x: np.ndarray) -> np.ndarray:
            return self._gathered(self._complete(self._spread(x)))

        solver = ConjugateGradients(product, precondition, tol=self.tol, max_iterations=self.max_iterations)
        solution = solver.solve_to(self._gathered(y), self.tol if tol is None else tol)
        return self._spread(solution.value.reshape(-1, n_columns)), solution

    def _complete(self, y: np.ndarray) -> np.ndarray:
        vectors = self.covariance.sensors.vectors
        return np.asarray(self.series.solve(y @ vectors) @ vectors.T)

    def _gathered(self, grid: np.ndarray) -> np.ndarray:
        return np.moveaxis(grid, 1, 2)[self.mask]

    def _spread(self, cells: np.ndarray) -> np.ndarray:
        grid = np.zeros((*self.mask.shape, cells.shape[1]))
        grid[self.mask] = cells
        return np.ascontiguousarray(np.moveaxis(grid, 2, 1))
