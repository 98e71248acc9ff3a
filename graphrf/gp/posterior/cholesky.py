"""The posterior by rows and a Cholesky factor of the covariance of the observations."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphrf._base.rows import slices
from graphrf.gp.posterior.by_rows import SOLVE_WIDTH, RowsPosterior
from graphrf.gp.posterior.generalised_mean import ALONE
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

    def leave_one_out_moments(self) -> list[tuple[np.ndarray, np.ndarray]]:
        r"""Means (m, p) and variances (m,) of f + H beta at each observed node, given the
        observations of all other nodes; the variances are infinite where nothing else is known.

        .. math:: m_i = \bar y_i - (B \bar y)_i / B_{ii}, \quad v_i = 1 / B_{ii} - D_{ii}, \quad
                  B = A^{-1} - A^{-1} H M^{-1} H^\top A^{-1}

        where F = E (Rasmussen and Williams 2006, Eqs. 5.10-5.12).
        """
        half, inverse = self._mean.half(self._mean.solved), self._solver.inverse_diagonal
        diagonal = inverse - np.square(half).sum(axis=1)  # of B
        alone = diagonal <= ALONE * inverse
        diagonal = np.where(alone, inverse, diagonal)
        if self.covariance.exact:
            mean = self._values - self.weights / diagonal[:, None]
            variance = 1 / diagonal - self._diagonal
        else:
            mean, variance = self._left_out_by_sampled_rows(half, diagonal)
        variance = np.maximum(variance, np.finfo(np.float64).tiny)
        return [(mean, np.where(alone, np.inf, variance))]

    def _left_out_by_sampled_rows(
        self, half: np.ndarray, diagonal: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Means and error variances of the predictor without each observed node, whose weights are
        w_i - B e_i w_ii / B_ii.
        """
        places = np.arange(self._nodes.size)
        mean, variance = np.empty(self._values.shape), np.empty(places.size)
        for part in slices(places.size, SOLVE_WIDTH):
            units = np.eye(places.size)[:, part]
            exact = self.covariance.exact_rows(self._nodes[part]).apply_t(units[part])
            weights = self._predictor(self._rows.apply(exact), self._nodes[part])
            columns = self._solve(units) - half @ half[part].T
            weights -= columns * ((weights * units).sum(axis=0) / diagonal[part])
            mean[part] = weights.T @ self._values
            exact -= self._exact_rows.apply_t(weights)
            variance[part] = np.square(exact).sum(axis=0) + self._diagonal @ np.square(weights)
            variance[part] += np.square(self._biases(weights, self._nodes[part])).sum(axis=1)
        return mean, variance

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
