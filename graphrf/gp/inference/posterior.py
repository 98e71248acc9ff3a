"""The posterior of a Gaussian process on a graph: means, variances, covariances and draws at any nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphrf._base.warn import warn
from graphrf.gp.inference.covariance import Covariance
from graphrf.gp.inference.likelihood import least_squares_mean
from graphrf.gp.inference.observations import Observations
from graphrf.gp.inference.pathwise import posterior_draws
from graphrf.gp.inference.rounding import positive_semidefinite
from graphrf.gp.inference.rows import RootRows, slices
from graphrf.gp.inference.solvers import CholeskySolver, IterativeSolver, Solution

# Up to so many distinct observed nodes the covariance is factored: 0.8 GB with the inverse of its factor.
LARGEST_CHOLESKY = 7_000
# Up to so many distinct query nodes their joint covariance is formed: 200 MB.
LARGEST_JOINT = 5_000
# Columns solved together by conjugate gradients.
_SOLVE_WIDTH = 64
# Draws whose squares estimate variances, how many are held at once, and the residual that is enough for them.
N_DRAWS = 64
_DRAWS_AT_ONCE = 16
_DRAWS_TOLERANCE = 1e-4


class SolverWarning(UserWarning):
    """A linear solver stopped before its tolerance; the message says where it stands and what to change."""


class Posterior:
    r"""f given y = H b + f + noise at the observed nodes u, with a positive semi-definite covariance K:

    .. math:: m_q = H_q b + K_{qu} A^{-1} (\bar y - H_u b), \quad
              \Sigma_{qq} = K_{qq} - K_{qu} A^{-1} K_{uq}, \quad A = K_{uu} + \mathrm{diag}(noise / counts).

    Source: Rasmussen and Williams 2006, Eqs. 2.25 and 2.26.

    Parameters
    ----------
    covariance : Covariance
    rows : RootRows
        Of the observed nodes.
    solver : CholeskySolver or IterativeSolver
        Of A.
    observations : Observations
    noise : float
    basis : ndarray, shape (N, b)
        H, the mean's basis at all nodes, of which `observations` has the rows. b is found by generalised least
        squares and taken as known afterwards.
    """

    def __init__(
        self,
        covariance: Covariance,
        rows: RootRows,
        solver: CholeskySolver | IterativeSolver,
        observations: Observations,
        *,
        noise: float,
        basis: np.ndarray,
    ) -> None:
        self._covariance = covariance
        self._rows = rows
        self._solver = solver
        self._nodes = observations.nodes
        self._diagonal = noise / observations.counts
        values, own = observations.means, observations.basis
        outputs = values.shape[1]
        # A^-1 of (y, H) at once: the mean's coefficients come out of the two.
        self.solution: Solution = self._solver.solve(np.column_stack([values, own]))
        _report(self.solution, "the fit")
        solved, basis_solved = self.solution.value[:, :outputs], self.solution.value[:, outputs:]
        self._basis = basis
        self.coefficients: np.ndarray = least_squares_mean(own.T @ basis_solved, basis_solved.T @ values)
        self._residual = values - own @ self.coefficients
        self.weights: np.ndarray = solved - basis_solved @ self.coefficients
        self._spread = rows.apply_t(self.weights)
        self._sampled: np.ndarray | None = None

    @property
    def solver(self) -> str:
        """ "cholesky" or "cg"."""
        return self._solver.name

    def mean(self, nodes: np.ndarray) -> np.ndarray:
        """The mean function H b at nodes, shape (q, p)."""
        return np.asarray(self._basis[nodes] @ self.coefficients)

    def means(self, nodes: np.ndarray, bar: Any = None) -> np.ndarray:
        """Posterior means, shape (q, p)."""
        result = self._covariance.root_values(nodes, self._spread)
        if bar is not None:
            bar.update(nodes.size)
        return result + self.mean(nodes)

    def variances(self, nodes: np.ndarray, bar: Any = None) -> np.ndarray:
        """Variances of f, shape (q,), by blocks of distinct nodes, exact but for the solver's tolerance."""
        result = np.empty(nodes.size)
        if isinstance(self._solver, CholeskySolver) and self._covariance.exact:
            # At an observed node d - d^2 (A^-1)_qq is left of the prior: no column is needed, and little cancels
            # where the noise d is below the prior.
            place = np.searchsorted(self._nodes, nodes).clip(max=self._nodes.size - 1)
            seen = (self._nodes[place] == nodes) & (self._diagonal[place] <= self._solver.prior[place])
            noise = self._diagonal[place[seen]]
            result[seen] = noise * np.maximum(1 - noise * self._solver.inverse_diagonal[place[seen]], 0.0)
            rest = np.flatnonzero(~seen)
            if bar is not None:
                bar.update(nodes.size - rest.size)
        else:
            rest = np.arange(nodes.size)
        for block in self._rows.blocks(rest.size):
            part = rest[block]
            cross, prior = self._rows.columns(self._covariance.queried(nodes[part]))
            # Exactly at least 0; what rounding leaves below is 0.
            result[part] = np.maximum(prior - self._reduction(cross), 0.0)
            if bar is not None:
                bar.update(part.size)
        return result

    def sampled_variances(self, rng: np.random.Generator, bar: Any = None) -> np.ndarray:
        """Variances of f at all N nodes from draws, shape (N,): unbiased, with relative error sqrt(2 / N_DRAWS).

        They are made once; what `rng` yields later does not change them.
        """
        if self._sampled is not None:
            return self._sampled
        every = np.arange(self._rows.shape[1])
        squares = np.zeros(every.size)
        nothing = np.zeros((self._nodes.size, 1))  # given that only noise was seen, draws are about 0
        for part in slices(N_DRAWS, _DRAWS_AT_ONCE):
            count = part.stop - part.start
            drawn = posterior_draws(
                self._rows, self._diagonal, nothing, self._solve_loosely,
                n_samples=count, rng=rng,
            )  # fmt: skip
            draws = self._covariance.root_values(every, drawn.coefficients[:, :, 0])
            squares += np.einsum("ij,ij->i", draws, draws)
            if bar is not None:
                bar.update(every.size * count // N_DRAWS)
        self._sampled = squares / N_DRAWS
        return self._sampled

    def covariances(self, nodes: np.ndarray) -> np.ndarray:
        """The joint covariance of f, shape (q, q); distinct nodes of bounded number.

        Positive semi-definite, `rounding.positive_semidefinite`: it is a difference, whose small variances have
        the rounding of the prior's.
        """
        if not nodes.size:
            return np.zeros((0, 0))
        rows = self._covariance.queried(nodes)
        prior = rows.dense()
        prior = 0.5 * (prior + prior.T)
        cross = np.hstack(
            [
                self._rows.columns(rows.take(np.arange(nodes.size)[block]))[0]
                for block in self._rows.blocks(nodes.size)
            ]
        )
        if isinstance(self._solver, CholeskySolver):
            half = self._solver.half(cross)
            return positive_semidefinite(prior - half.T @ half, prior)
        solved = np.hstack([self._solve(cross[:, part]) for part in slices(nodes.size, _SOLVE_WIDTH)])
        # C^T X + X^T C - X^T A X is at most the exact reduction, whatever the solver's error.
        reduction = cross.T @ solved
        product = np.hstack([self._solver.product(solved[:, part]) for part in slices(nodes.size, _SOLVE_WIDTH)])
        covariance = prior - reduction - reduction.T + 0.5 * (solved.T @ product + product.T @ solved)
        return positive_semidefinite(covariance, prior)

    def draws(self, nodes: np.ndarray, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        """Joint draws of f, shape (n_samples, q, p), by pathwise conditioning: one block solve for all of them.

        What `rng` yields does not depend on the nodes: a draw is one function on the whole graph.
        """
        drawn = posterior_draws(
            self._rows, self._diagonal, self._residual, self._solver.solve, n_samples=n_samples, rng=rng
        )
        _report(drawn.solution, "the samples")
        coefficients = drawn.coefficients
        values = self._covariance.root_values(nodes, coefficients.reshape(coefficients.shape[0], -1))
        result = np.moveaxis(values.reshape(nodes.size, *coefficients.shape[1:]), 0, 1)
        result += self.mean(nodes)
        return result

    def _reduction(self, cross: np.ndarray) -> np.ndarray:
        """The diagonal of K_qu A^-1 K_uq."""
        if isinstance(self._solver, CholeskySolver):
            return self._solver.quadratic(cross)[0]
        result = np.empty(cross.shape[1])
        for part in slices(cross.shape[1], _SOLVE_WIDTH):
            result[part], solution = self._solver.quadratic(cross[:, part])
            if solution is not None:
                _report(solution, "the deviations")
        return result

    def _solve_loosely(self, rhs: np.ndarray) -> Solution:
        """A^-1 b as exactly as squares of draws need."""
        if isinstance(self._solver, CholeskySolver):
            return self._solver.solve(rhs)
        solution = self._solver.solve_to(rhs, max(self._solver.tol, _DRAWS_TOLERANCE))
        _report(solution, "the deviations")
        return solution

    def _solve(self, rhs: np.ndarray) -> np.ndarray:
        solution = self._solver.solve(rhs)
        _report(solution, "the covariances")
        return solution.value


def _report(solution: Solution, what: str) -> None:
    if not solution.converged:
        warn(
            f"conjugate gradients for {what} stopped after {solution.iterations} iterations at a relative "
            f"residual of {solution.residual:.2g}: raise `max_iterations` or `tol`, fix a larger `noise`, or use "
            "solver='cholesky'",
            SolverWarning,
        )
