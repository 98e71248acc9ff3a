"""The posterior by rows and conjugate gradients."""

from __future__ import annotations

import numpy as np

from graphrf._base.rows import slices
from graphrf.gp.posterior.by_rows import DRAWS_TOLERANCE, SOLVE_WIDTH, RowsPosterior, report
from graphrf.operators.solvers import IterativeSolver, Solution


class IterativePosterior(RowsPosterior[IterativeSolver]):
    """Solves by products, to a tolerance: no matrix of the observed nodes, and no likelihood.

    Variances and covariances are those of the errors of linear predictors, which are unbiased for
    every mean where its prior is flat, so that a loose solve makes them larger than the
    posterior's, never smaller.
    """

    solver = "cg"

    @property
    def log_likelihood(self) -> float:
        """NaN: there is no determinant."""
        return float("nan")

    def leave_one_out_moments(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """ValueError: the variances at all observed nodes are not known."""
        raise ValueError(
            "leave-one-out densities and WAIC need the variances at all observed nodes, which "
            "conjugate gradients do not have: fit with numerics=Numerics(solver='cholesky'), or "
            "on roads and meshes with method='precision'"
        )

    def _exact_covariance(
        self, prior: np.ndarray, cross: np.ndarray, nodes: np.ndarray
    ) -> np.ndarray:
        """The covariance of the predictors' errors."""
        parts = list(slices(nodes.size, SOLVE_WIDTH))
        weights = np.hstack(
            [self._unbiased(cross[:, part], nodes[part], self._solver.tol) for part in parts]
        )
        # C^T W + W^T C - W^T A W is at most the exact reduction, for any solver error.
        reduction = cross.T @ weights
        product = np.hstack([self._solver.product(weights[:, part]) for part in parts])
        biases = self._biases(weights, nodes)
        return np.asarray(
            prior
            - reduction
            - reduction.T
            + 0.5 * (weights.T @ product + product.T @ weights)
            + biases @ biases.T
        )

    def _reduction(self, cross: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        """The reduction by the predictors, whose coefficients of the mean are estimated."""
        result = np.empty(cross.shape[1])
        # The error of a variance is the square of the solution's.
        tol = max(self._solver.tol, 0.1 * self._solver.tol**0.5)
        for part in slices(cross.shape[1], SOLVE_WIDTH):
            weights = self._unbiased(cross[:, part], nodes[part], tol)
            result[part] = (
                2 * cross[:, part] * weights - weights * self._solver.product(weights)
            ).sum(axis=0)
            result[part] -= np.square(self._biases(weights, nodes[part])).sum(axis=1)
        return result

    def _unbiased(self, cross: np.ndarray, nodes: np.ndarray, tol: float) -> np.ndarray:
        """Weights of a linear predictor at nodes, (m, q), unbiased for every mean of a flat prior
        however loose the solve.
        """
        solution = self._solver.solve_to(cross, tol)
        report(solution, "the deviations")
        return solution.value + self._mean.lacking(
            self._basis[nodes] - solution.value.T @ self._mean.basis
        )

    def _loosely_solved(self, rhs: np.ndarray) -> Solution:
        """A^-1 b as exactly as squares of draws need."""
        solution = self._solver.solve_to(rhs, max(self._solver.tol, DRAWS_TOLERANCE))
        report(solution, "the deviations")
        return solution
