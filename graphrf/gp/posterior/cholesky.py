"""The posterior by rows and a Cholesky factor of the covariance of the observations."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphrf.gp.posterior.by_rows import RowsPosterior
from graphrf.operators.solvers import CholeskySolver, Solution


class CholeskyPosterior(RowsPosterior[CholeskySolver]):
    """Exact solves, and the likelihood: m^2 numbers for m observed nodes."""

    solver = "cholesky"

    @property
    def log_likelihood(self) -> float:
        """The log marginal likelihood of the observations."""
        residual = self._values - self._mean.basis @ self.coefficients
        return self._observations.log_likelihood(
            float(np.vdot(residual, self.weights)), self._solver.log_determinant, self.noise
        )

    def _unseen(self, nodes: np.ndarray) -> np.ndarray:
        """Mask of nodes that are not observed, or with a noise above their prior variance."""
        if not self.covariance.exact:
            return super()._unseen(nodes)
        place = np.searchsorted(self._nodes, nodes).clip(max=self._nodes.size - 1)
        return (self._nodes[place] != nodes) | (self._diagonal[place] > self._solver.prior[place])

    def _variances(
        self, nodes: np.ndarray, bar: Any, prior_variances: np.ndarray | None
    ) -> np.ndarray:
        """Variances, at observed nodes from the diagonal of A^-1 where columns of K are exact."""
        if not self.covariance.exact:
            return super()._variances(nodes, bar, prior_variances)
        result, unseen = np.empty(nodes.size), self._unseen(nodes)
        if not unseen.all():
            # At an observed node d - d^2 (A^-1)_qq is left of the prior, and little cancels where
            # the noise d is below the prior.
            place = np.searchsorted(self._nodes, nodes[~unseen])
            noise = self._diagonal[place]
            result[~unseen] = noise * np.maximum(
                1 - noise * self._solver.inverse_diagonal[place], 0.0
            )
            if bar is not None:
                bar.update(place.size)

        if prior_variances is not None:
            prior_variances = prior_variances[unseen]
        result[unseen] = super()._variances(nodes[unseen], bar, prior_variances)
        return result + np.square(self._mean.half(self._unexplained(nodes))).sum(axis=1)

    def _exact_covariance(
        self, prior: np.ndarray, cross: np.ndarray, nodes: np.ndarray
    ) -> np.ndarray:
        """The prior covariance less its reduction for a known mean, plus what the coefficients
        add.
        """
        solved, half = self._solver.half(cross), self._mean.half(self._unexplained(nodes))
        return np.asarray(prior - solved.T @ solved + half @ half.T)

    def _reduction(self, cross: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        """The reduction for a known mean."""
        return np.asarray(np.square(self._solver.half(cross)).sum(axis=0))

    def _loosely_solved(self, rhs: np.ndarray) -> Solution:
        """A^-1 b, exactly."""
        return self._solver.solve(rhs)
