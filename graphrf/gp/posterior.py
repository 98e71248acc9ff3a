"""The posterior of a Gaussian process on a graph: means, variances, covariances and draws at any nodes."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from graphrf.factor import Factor
from graphrf.gp.covariance import Covariance, slices
from graphrf.gp.likelihood import least_squares_mean
from graphrf.gp.observations import Observations
from graphrf.gp.pathwise import posterior_draws
from graphrf.gp.solvers import CholeskySolver, ConjugateGradients, Solution, nystrom_preconditioner

# Up to so many distinct observed nodes the covariance is factored: 300 MB and a few seconds. Conjugate gradients
# fit sooner from 3,000 on, but then every deviation takes a solve: at 6,000 of 10,000 nodes, 0.2 s for each.
LARGEST_CHOLESKY = 6_000
# Up to so many distinct query nodes their joint covariance is formed: 200 MB.
LARGEST_JOINT = 5_000
_PRECONDITIONER_RANK = 200
# Numbers in the columns of the observed nodes, kept while deviations are computed: 256 MB.
_COLUMN_NUMBERS = 32_000_000
# Columns solved together by conjugate gradients.
_SOLVE_WIDTH = 64


class SolverWarning(UserWarning):
    """A linear solver stopped before its tolerance; the message says where it stands and what to change."""


class Posterior:
    r"""f given y = H b + f + noise at the observed nodes u, with one covariance K throughout:

    .. math:: m_q = H_q b + K_{qu} A^{-1} (\bar y - H_u b), \quad
              \Sigma_{qq} = K_{qq} - K_{qu} A^{-1} K_{uq}, \quad A = K_{uu} + \mathrm{diag}(noise / counts).

    Source: Rasmussen and Williams 2006, Eqs. 2.25 and 2.26.

    Parameters
    ----------
    covariance : Covariance
    observations : Observations
    noise : float
    basis : ndarray, shape (N, b)
        H, the mean's basis at all nodes, of which `observations` has the rows. b is found by generalised least
        squares and taken as known afterwards.
    solver : "cholesky" or "cg"
    tol, max_iterations
        Of conjugate gradients.
    rng : Generator
        Draws the preconditioner's nodes.
    """

    def __init__(
        self,
        covariance: Covariance,
        observations: Observations,
        *,
        noise: float,
        basis: np.ndarray,
        solver: str,
        tol: float,
        max_iterations: int,
        rng: np.random.Generator,
    ) -> None:
        self._covariance = covariance
        self._rows = covariance.factor(observations.nodes)
        self._diagonal = diagonal = noise / observations.counts
        size = observations.nodes.size
        self._solver: CholeskySolver | ConjugateGradients
        if solver == "cholesky":
            matrix = covariance.dense(self._rows)
            matrix[np.diag_indices(size)] += diagonal
            try:
                self._solver = CholeskySolver(matrix)
            except np.linalg.LinAlgError:
                raise ValueError(
                    f"the covariance of the observations with noise {noise:g} is singular to rounding: raise "
                    "`noise` (a millionth of the variance of y is enough)"
                ) from None
        else:
            chosen = np.sort(rng.choice(size, min(_PRECONDITIONER_RANK, size), replace=False))
            columns = np.hstack(
                [
                    covariance.columns(self._rows, self._rows.take(chosen[block]))[0]
                    for block in covariance.blocks(chosen.size, self._rows)
                ]
            )
            self._solver = ConjugateGradients(
                lambda x: covariance.apply(self._rows, x) + diagonal[:, None] * x,
                nystrom_preconditioner(columns, chosen, diagonal),
                tol=tol,
                max_iterations=max_iterations,
            )
        values, own = observations.means, observations.basis
        outputs = values.shape[1]
        # A^-1 of (y, H) at once: the mean's coefficients come out of the two.
        self.solution = self._solver.solve(np.column_stack([values, own]))
        _report(self.solution, "the fit")
        solved, basis_solved = self.solution.value[:, :outputs], self.solution.value[:, outputs:]
        self._basis = basis
        self.coefficients = least_squares_mean(own.T @ basis_solved, basis_solved.T @ values)
        self._residual = values - own @ self.coefficients
        self.weights = solved - basis_solved @ self.coefficients
        self._spread = covariance.spread(self._rows, self.weights)

    @property
    def solver(self) -> str:
        """ "cholesky" or "cg"."""
        return self._solver.name

    def mean(self, nodes: np.ndarray) -> np.ndarray:
        """The mean function H b at nodes, shape (q, p)."""
        return np.asarray(self._basis[nodes] @ self.coefficients)

    def means(self, nodes: np.ndarray, bar: Any = None) -> np.ndarray:
        """Posterior means, shape (q, p), by blocks of nodes."""
        result = np.empty((nodes.size, self.weights.shape[1]))
        for block in self._covariance.row_blocks(nodes.size):
            result[block] = self._covariance.gather(self._covariance.factor(nodes[block]), self._spread)
            if bar is not None:
                bar.update(block.stop - block.start)
        return result + self.mean(nodes)

    def variances(self, nodes: np.ndarray, bar: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Means, shape (q, p), and variances of f, shape (q,), in one pass over blocks of nodes."""
        means = np.empty((nodes.size, self.weights.shape[1]))
        result = np.empty(nodes.size)
        everywhere = self._covariance.everywhere(self._rows) if self._by_observed_columns(nodes.size) else None
        for block in self._covariance.blocks(nodes.size, self._rows):
            rows = self._covariance.factor(nodes[block])
            if everywhere is None:
                cross, prior = self._covariance.columns(self._rows, rows)
            else:
                cross, prior = everywhere[nodes[block]].T, self._covariance.diagonal(rows)
            means[block] = cross.T @ self.weights
            # Exactly at least 0; what rounding leaves below is 0.
            result[block] = np.maximum(prior - self._reduction(cross), 0.0)
            if bar is not None:
                bar.update(block.stop - block.start)
        return means + self.mean(nodes), result

    def _by_observed_columns(self, n_nodes: int) -> bool:
        """Whether columns of the observed nodes, of whole height, take fewer products than those of the queried.

        Never with sparse rows, which know no whole columns.
        """
        n_observed, height = self._rows.shape
        return (
            not hasattr(self._rows, "matrix")
            and 2 * n_observed < n_nodes
            and n_observed * height <= _COLUMN_NUMBERS
        )

    def covariances(self, nodes: np.ndarray) -> np.ndarray:
        """The joint covariance of f, shape (q, q); distinct nodes of bounded number."""
        if not nodes.size:
            return np.zeros((0, 0))
        rows = self._covariance.factor(nodes)
        prior = self._covariance.dense(rows)
        cross = np.hstack(
            [
                self._covariance.columns(self._rows, rows.take(np.arange(nodes.size)[block]))[0]
                for block in self._covariance.blocks(nodes.size, self._rows)
            ]
        )
        if isinstance(self._solver, CholeskySolver):
            half = self._solver.half(cross)
            return np.asarray(prior - half.T @ half)
        solved = np.hstack([self._solve(cross[:, part]) for part in slices(nodes.size, _SOLVE_WIDTH)])
        # C^T X + X^T C - X^T A X is at most the exact reduction, whatever the solver's error.
        reduction = cross.T @ solved
        product = np.hstack([self._solver.product(solved[:, part]) for part in slices(nodes.size, _SOLVE_WIDTH)])
        return np.asarray(prior - reduction - reduction.T + solved.T @ product)

    def draws(self, nodes: np.ndarray, n_samples: int, rng: np.random.Generator) -> np.ndarray:
        """Joint draws of f, shape (n_samples, q, p), by pathwise conditioning: one block solve for all of them.

        What `rng` yields does not depend on the nodes: a draw is one function on the whole graph.
        """
        drawn = posterior_draws(
            _RootRows(self._covariance, self._rows),
            self._diagonal,
            self._residual,
            self._solver.solve,
            n_samples=n_samples,
            rng=rng,
        )
        _report(drawn.solution, "the samples")
        result = np.empty((n_samples, nodes.size, self.weights.shape[1]))
        for block in self._covariance.row_blocks(nodes.size):
            values = drawn.at(_RootRows(self._covariance, self._covariance.factor(nodes[block])))
            result[:, block] = np.moveaxis(values, 0, 1)
        result += self._basis[nodes] @ self.coefficients
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

    def _solve(self, rhs: np.ndarray) -> np.ndarray:
        solution = self._solver.solve(rhs)
        _report(solution, "the covariances")
        return solution.value


class _RootRows:
    """Rows of sqrt(amplitude) F: the features of the covariance, as `pathwise` asks for them."""

    def __init__(self, covariance: Covariance, factor: Factor) -> None:
        self._covariance = covariance
        self._factor = factor
        self._root = float(np.sqrt(covariance._amplitude))
        self.shape = factor.shape

    def apply(self, x: np.ndarray) -> np.ndarray:
        return self._root * self._covariance.gather(self._factor, x)

    def apply_t(self, y: np.ndarray) -> np.ndarray:
        return self._covariance.spread(self._factor, y) / self._root


def _report(solution: Solution, what: str) -> None:
    if not solution.converged:
        warnings.warn(
            f"conjugate gradients for {what} stopped after {solution.iterations} iterations at a relative "
            f"residual of {solution.residual:.2g}: raise `max_iterations` or `tol`, fix a larger `noise`, or use "
            "solver='cholesky'",
            SolverWarning,
            stacklevel=4,
        )
