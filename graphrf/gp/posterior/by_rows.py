"""The posterior of a Gaussian process on a graph: means, variances, covariances and draws at any
nodes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, Self

import numpy as np

from graphrf._base.rows import slices
from graphrf._base.warn import warn
from graphrf.gp.model.observations import Observations
from graphrf.gp.posterior.generalised_mean import ALONE, GeneralisedMean
from graphrf.gp.routes.covariance import Covariance, shared_variances
from graphrf.gp.routes.rows import RootRows
from graphrf.operators.pathwise import FEWEST_DRAWS, draw_normals, draws_at_once, draws_bytes, signs
from graphrf.operators.solvers import CholeskySolver, IterativeSolver, Solution

# Up to so many distinct query nodes their joint covariance is formed: 200 MB.
LARGEST_JOINT = 5_000
# Columns solved together by conjugate gradients.
_SOLVE_WIDTH = 64
# Draws whose squares estimate variances, and the residual that is enough for them; so much of the
# prior's standard deviation may their exact rows lack where those of the predictor are sampled
# anyway.
N_DRAWS = 64
_DRAWS_TOLERANCE = 1e-4
# Nodes at which prior variances are sampled to find their size.
_FEW_NODES = 16


class SolverWarning(UserWarning):
    """A linear solver stopped before its tolerance; the message has its residual and
    the way out.
    """


# Below this fraction of the largest variance negative eigenvalues stay: factoring adds as much to
# the diagonal.
_SMALLEST_EIGENVALUE = 1e-8
# Of the prior and of the solves that explain it; on graphs of six nodes 7 were seen.
_ROUNDING = 16 * np.finfo(np.float64).eps


def positive_semidefinite(covariance: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """A posterior covariance, the prior one less a reduction, made positive semi-definite; it may
    be overwritten.

    Where nearly all of the prior is explained, rounding is large beside the rest: there the matrix
    is projected.
    """
    diagonal = np.einsum("ii->i", covariance)
    largest = diagonal.max(initial=0.0)
    if (
        _ROUNDING * float(np.abs(prior).sum(axis=1).max(initial=0.0))
        <= _SMALLEST_EIGENVALUE * largest
    ):
        np.maximum(diagonal, 0.0, out=diagonal)
        return covariance
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(root @ root.T)


class Posterior:
    r"""f + H beta given y = H beta + f + noise at the observed nodes u, by rows F of the
    covariance.

    The predictor is linear in y, with A = F_u F_u^T + D, D = diag(noise / counts):

    .. math:: m_q = H_q \hat\beta + F_q F_u^\top A^{-1} (\bar y - H_u \hat\beta) = w_q^\top \bar y,
        \quad
              \hat\beta = (H_u^\top A^{-1} H_u)^{-1} H_u^\top A^{-1} \bar y.

    Variances, covariances and draws are those of its error under the exact prior, whose rows are E:

    .. math:: \Sigma_{qq} = |E_q - w_q^\top E_u|^2 + w_q^\top D w_q.

    Where F = E, as with the series, that is the posterior covariance (Rasmussen and Williams 2006,
    Eqs. 2.26 and 2.42; universal kriging)

    .. math:: \Sigma_{qq} = K_{qq} - K_{qu} A^{-1} K_{uq} + R_q (H_u^\top A^{-1} H_u)^{-1}
        R_q^\top, \quad
              R_q = H_q - K_{qu} A^{-1} H_u.

    Where F_u are sampled rows, the error that they cause is included. `rows` are F_u, `basis` (N,
    b) is H at all nodes, `offset` (p,) is added to all predictions, and `mean_precision` is that of
    the prior of beta, 0 if flat.
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
        offset: np.ndarray,
        mean_precision: float = 0.0,
    ) -> None:
        self.covariance = covariance
        self._rows = rows
        self._solver = solver
        self._nodes = observations.nodes
        self._diagonal = noise / observations.counts
        self._values = observations.means
        self._observations = observations
        self.noise = noise
        self.n_outputs = outputs = observations.n_outputs
        # A^-1 of (y, H) at once: the mean's coefficients come out of the two.
        self.solution: Solution = self._solver.solve(
            np.column_stack([self._values, observations.basis])
        )
        _report(self.solution, "the fit")
        self._basis = basis
        self._offset = offset
        self._mean = GeneralisedMean(
            observations.basis, self.solution.value[:, outputs:], mean_precision
        )
        self.coefficients, self.weights = self._mean.fit(
            self._values, self.solution.value[:, :outputs]
        )
        # F_u^T A^-1 (y - H_u beta), and after the first mean E times that at all nodes, shape (N,
        # p): in one attribute for threads.
        self._mean_values: tuple[np.ndarray, bool] = rows.apply_t(self.weights), False
        self._sampled: np.ndarray | None = None

    @cached_property
    def _exact_rows(self) -> RootRows:
        """E_u: F_u itself where that is exact."""
        return self._rows if self.covariance.exact else self.covariance.exact_rows(self._nodes)

    @cached_property
    def _transposed_mean(self) -> np.ndarray:
        """F_u^T A^-1 H_u, shape (N, b)."""
        return np.asarray(self._rows.apply_t(self._mean.solved))

    @property
    def log_likelihood(self) -> float:
        """The log marginal likelihood of the observations; NaN with conjugate gradients: no
        determinant.
        """
        if not isinstance(self._solver, CholeskySolver):
            return float("nan")
        residual = self._values - self._mean.basis @ self.coefficients
        return self._observations.log_likelihood(
            float(np.vdot(residual, self.weights)), self._solver.log_determinant, self.noise
        )

    @property
    def solver(self) -> str:
        """ "cholesky" or "cg"."""
        return self._solver.name

    def with_basis(self, basis: np.ndarray) -> Self:
        """A copy with another basis of the mean at queried nodes."""
        other = copy.copy(self)
        other._basis, other._sampled = basis, None
        return other

    @property
    def coefficients_covariance(self) -> np.ndarray:
        """Covariance of beta, shape (b, b)."""
        return self._mean.covariance

    @cached_property
    def prior_variance(self) -> float:
        """The mean prior variance of f at observed nodes: at a few of them where exact rows make it
        expensive.
        """
        rows = self._rows
        if self.covariance.exact:
            some = np.linspace(0, self._nodes.size - 1, min(self._nodes.size, _FEW_NODES)).astype(
                np.int64
            )
            rows = self.covariance.rows(self._nodes[some])
        return float(rows.variances().mean())

    def variances_of_the_mean(self) -> np.ndarray:
        """Variances of H beta at all N nodes, which are those of the whole where f varies by next
        to nothing.
        """
        return np.asarray(np.square(self._mean.half(self._basis)).sum(axis=1))

    @property
    def n_observed(self) -> int:
        """Distinct observed nodes."""
        return self._nodes.size

    def means(self, nodes: np.ndarray, bar: Any = None) -> np.ndarray:
        """Posterior means, shape (q, p)."""
        values, applied = self._mean_values
        if not applied:  # a product has all nodes, however few are needed
            values = self.covariance.root_values(np.arange(values.shape[0]), values)
            self._mean_values = values, True
        result = values[nodes] + self._basis[nodes] @ self.coefficients + self._offset
        if bar is not None:
            bar.update(nodes.size)
        return np.asarray(result)

    def variances(
        self, nodes: np.ndarray, bar: Any = None, prior: np.ndarray | None = None
    ) -> np.ndarray:
        """Variances of f + H beta, (q,), by blocks of distinct nodes; `prior` are those of f if
        known.
        """
        result = np.empty(nodes.size)
        unseen = self.unseen(nodes)
        rest = np.flatnonzero(unseen)
        if isinstance(self._solver, CholeskySolver) and rest.size < nodes.size:
            # At an observed node d - d^2 (A^-1)_qq is left of the prior, and little cancels where
            # the noise d is below the prior.
            place = np.searchsorted(self._nodes, nodes[~unseen])
            noise = self._diagonal[place]
            result[~unseen] = noise * np.maximum(
                1 - noise * self._solver.inverse_diagonal[place], 0.0
            )
            if bar is not None:
                bar.update(place.size)
        if prior is None:
            (known,) = shared_variances([self.covariance], nodes[rest], self._nodes.size)
        else:
            known = prior[rest]
        for block in self._exact_rows.blocks(rest.size, whole=known is None):
            part = rest[block]
            if self.covariance.exact:
                if known is None:
                    cross, own = self._rows.columns(self.covariance.rows(nodes[part]))
                else:
                    cross, own = self.covariance.block(self._nodes, nodes[part]), known[block]
                # Exactly at least 0; what rounding leaves below is 0.
                result[part] = np.maximum(own - self._reduction(cross, nodes[part]), 0.0)
            else:
                result[part] = self._error_variances(nodes[part])
            if bar is not None:
                bar.update(part.size)
        if isinstance(self._solver, CholeskySolver) and self.covariance.exact:
            result += np.square(self._mean.half(self._unexplained(nodes))).sum(axis=1)
        return result

    def unseen(self, nodes: np.ndarray) -> np.ndarray:
        """Mask of nodes whose columns of K `variances` needs, shape (q,): by Cholesky not the
        observed ones.
        """
        if not (isinstance(self._solver, CholeskySolver) and self.covariance.exact):
            return np.ones(nodes.size, dtype=bool)
        place = np.searchsorted(self._nodes, nodes).clip(max=self._nodes.size - 1)
        return (self._nodes[place] != nodes) | (self._diagonal[place] > self._solver.prior[place])

    def sampled_variances(
        self, rng: np.random.Generator, bar: Any = None, n_draws: int = N_DRAWS
    ) -> np.ndarray:
        """Variances at all N nodes from draws: unbiased, of relative error at most sqrt(2 /
        n_draws); made once.

        The draws are those of Matheron's rule with random signs in place of normals, which have the
        same second moments and smaller fourth ones (Hutchinson 1990).
        """
        if self._sampled is not None:
            return self._sampled
        every, nothing = np.arange(self._rows.shape[1]), np.zeros((self._nodes.size, 1))
        squares = np.zeros(every.size)
        dtype = np.float64 if self.covariance.exact else np.float32
        root: Callable[[np.ndarray, np.ndarray], np.ndarray] = self.covariance.root_values
        if not self.covariance.exact:
            norm = np.sqrt(self.prior_variance / self.covariance.amplitude)
            root = self.covariance.rough_root(_DRAWS_TOLERANCE * norm)
        for part in slices(n_draws, FEWEST_DRAWS):
            count = part.stop - part.start
            prior = signs(every.size, count, rng).astype(dtype, copy=False)
            errors = np.sqrt(self._diagonal)[:, None] * signs(self._nodes.size, count, rng)
            # A draw given observations of 0 is an error of the predictor.
            trends = self._mean.prior_draws(count, rng)
            weights, trend, _ = self._drawn(
                nothing, prior, errors, trends, self._solve_loosely, root
            )
            draws = root(every, weights)
            draws += self._basis @ trend
            squares += np.einsum("ij,ij->i", draws, draws)
            if bar is not None:
                bar.update(every.size * count // n_draws)
        self._sampled = squares / n_draws
        return self._sampled

    def leave_one_out_moments(self) -> list[tuple[np.ndarray, np.ndarray]]:
        r"""Means (m, p) and variances (m,) of f + H beta at each observed node, given the
        observations of all other nodes; the variances are infinite where nothing else is known.

        .. math:: m_i = \bar y_i - (B \bar y)_i / B_{ii}, \quad v_i = 1 / B_{ii} - D_{ii}, \quad
                  B = A^{-1} - A^{-1} H M^{-1} H^\top A^{-1}

        where F = E (Rasmussen and Williams 2006, Eqs. 5.10-5.12).
        """
        if not isinstance(self._solver, CholeskySolver):
            raise ValueError(
                "leave-one-out densities and WAIC need the variances at all observed nodes, which "
                "conjugate gradients do not have: fit with numerics=Numerics(solver='cholesky'), "
                "or on roads and meshes with method='precision'"
            )
        half, inverse = self._mean.half(self._mean.solved), self._solver.inverse_diagonal
        own = inverse - np.square(half).sum(axis=1)
        alone = own <= ALONE * inverse
        own = np.where(alone, inverse, own)
        if self.covariance.exact:
            mean, variance = self._values - self.weights / own[:, None], 1 / own - self._diagonal
        else:
            mean, variance = self._left_out_by_sampled_rows(half, own)
        variance = np.maximum(variance, np.finfo(np.float64).tiny)
        return [(mean, np.where(alone, np.inf, variance))]

    def _left_out_by_sampled_rows(
        self, half: np.ndarray, own: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Means and error variances of the predictor without each observed node, whose weights are
        w_i - B e_i w_ii / B_ii.
        """
        places = np.arange(self._nodes.size)
        mean, variance = np.empty(self._values.shape), np.empty(places.size)
        for part in slices(places.size, _SOLVE_WIDTH):
            units = np.eye(places.size)[:, part]
            exact = self.covariance.exact_rows(self._nodes[part]).apply_t(units[part])
            weights = self._predictor(self._rows.apply(exact), self._nodes[part])
            columns = self._solve(units) - half @ half[part].T
            weights -= columns * ((weights * units).sum(axis=0) / own[part])
            mean[part] = weights.T @ self._values
            exact -= self._exact_rows.apply_t(weights)
            variance[part] = np.square(exact).sum(axis=0) + self._diagonal @ np.square(weights)
        return mean, variance

    def covariances(self, nodes: np.ndarray) -> np.ndarray:
        """The joint covariance of f + H beta at distinct nodes, (q, q), made positive
        semi-definite.
        """
        if not nodes.size:
            return np.zeros((0, 0))
        queried = self.covariance.exact_rows(nodes)
        prior = queried.dense()
        prior = 0.5 * (prior + prior.T)
        half = self._mean.half(self._unexplained(nodes))
        cross = self._cross(self._exact_rows, queried)
        if not self.covariance.exact:
            weights = self._predictor(self._cross(self._rows, queried), nodes)
            both = [
                self._exact_rows.gram(weights[:, part]) + self._diagonal[:, None] * weights[:, part]
                for part in slices(nodes.size, _SOLVE_WIDTH)
            ]
            gain = weights.T @ np.hstack(both)
            reduction = weights.T @ cross
            return positive_semidefinite(
                prior - reduction - reduction.T + 0.5 * (gain + gain.T), prior
            )
        if isinstance(self._solver, CholeskySolver):
            solved = self._solver.half(cross)
            return positive_semidefinite(prior - solved.T @ solved + half @ half.T, prior)
        parts = list(slices(nodes.size, _SOLVE_WIDTH))
        weights = np.hstack(
            [self._unbiased(cross[:, part], nodes[part], self._solver.tol) for part in parts]
        )
        # C^T W + W^T C - W^T A W is at most the exact reduction, for any solver error.
        reduction = cross.T @ weights
        product = np.hstack([self._solver.product(weights[:, part]) for part in parts])
        covariance = (
            prior - reduction - reduction.T + 0.5 * (weights.T @ product + product.T @ weights)
        )
        return positive_semidefinite(covariance, prior)

    def draw_bytes(self, n_samples: int) -> float:
        """Memory beside the draws while they are made, in bytes."""
        return draws_bytes(self._rows.shape[1] * self.n_outputs, n_samples)

    def draw_blocks(
        self, nodes: np.ndarray, n_samples: int, rng: np.random.Generator
    ) -> Iterator[tuple[slice, np.ndarray]]:
        """Joint draws of f + H beta, a few at a time, (these, q, p), by one block solve each.

        A draw is one function on the whole graph: `rng` advances alike for all nodes.
        """
        n, p = self._rows.shape[1], self.n_outputs
        trends = self._mean.prior_draws(n_samples * p, rng)
        for part in slices(n_samples, draws_at_once(n * p)):
            count = part.stop - part.start
            normals = draw_normals(
                n, self._nodes.size, self._diagonal, n_samples=count, outputs=p, rng=rng
            )
            prior, errors = (array.reshape(array.shape[0], -1) for array in normals)
            weights, trend, solution = self._drawn(
                np.tile(self._values, count),
                prior,
                errors,
                None if trends is None else trends[:, part.start * p : part.stop * p],
                self._solver.solve,
                self.covariance.root_values,
            )
            _report(solution, "the samples")
            values = self.covariance.root_values(nodes, weights)
            values += self._basis[nodes] @ trend
            yield part, np.moveaxis(values.reshape(nodes.size, count, p), 0, 1) + self._offset

    def _drawn(
        self,
        values: np.ndarray,
        prior: np.ndarray,
        errors: np.ndarray,
        drawn: np.ndarray | None,
        solve: Callable[[np.ndarray], Solution],
        root: Callable[[np.ndarray, np.ndarray], np.ndarray],
    ) -> tuple[np.ndarray, np.ndarray, Solution]:
        """Draws given values, by Matheron's rule: weights g' of E, (N, k), in place of `prior`, and
        of H, (b, k).

        The predictor of values - E_u g - noise is added to a draw E g from the prior, so that the
        coefficients of the mean vary as much as the observations leave them open. `drawn` are draws
        of the coefficients' prior, if that is not flat; `root` is (q, x) -> E_q x.
        """
        observed = values - errors - root(self._nodes, prior)
        if drawn is not None:
            observed -= self._mean.basis @ drawn
        solution = solve(observed)
        trend, weights = self._mean.fit(observed, solution.value)
        if drawn is not None:
            trend += drawn
        prior += self._rows.apply_t(weights)
        return prior, trend, solution

    def _unexplained(self, nodes: np.ndarray) -> np.ndarray:
        """R_q, what the observations leave of the mean's basis at nodes, shape (q, b)."""
        if not self._basis.shape[1]:
            return np.zeros((nodes.size, 0))
        return np.asarray(
            self._basis[nodes] - self.covariance.root_values(nodes, self._transposed_mean)
        )

    def _predictor(self, cross: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        """w_q of nodes as columns, shape (m, q), from F_u E_q^T."""
        return self._solve(cross) + self._mean.weights(self._unexplained(nodes))

    def _error_variances(self, nodes: np.ndarray) -> np.ndarray:
        """|E_q - w_q^T E_u|^2 + w_q^T D w_q of a block of nodes."""
        own = self.covariance.exact_rows(nodes).apply_t(np.eye(nodes.size))
        weights = self._predictor(self._rows.apply(own), nodes)
        own -= self._exact_rows.apply_t(weights)
        return np.asarray(np.square(own).sum(axis=0) + self._diagonal @ np.square(weights))

    def _cross(self, rows: RootRows, queried: RootRows) -> np.ndarray:
        """The covariance between the observed nodes, by these rows of them, and queried ones, shape
        (m, q).
        """
        parts = [
            queried.take(np.arange(queried.shape[0])[block])
            for block in rows.blocks(queried.shape[0])
        ]
        if rows is self._exact_rows:
            return np.hstack([rows.columns(part)[0] for part in parts])
        return np.hstack([rows.apply(part.apply_t(np.eye(part.shape[0]))) for part in parts])

    def _reduction(self, cross: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        """Reduction of the prior variances of nodes by the observations; by Cholesky that for a
        known mean.
        """
        if isinstance(self._solver, CholeskySolver):
            return np.square(self._solver.half(cross)).sum(axis=0)
        result = np.empty(cross.shape[1])
        tol = max(
            self._solver.tol, 0.1 * self._solver.tol**0.5
        )  # the error is the square of the solution's
        for part in slices(cross.shape[1], _SOLVE_WIDTH):
            weights = self._unbiased(cross[:, part], nodes[part], tol)
            result[part] = (
                2 * cross[:, part] * weights - weights * self._solver.product(weights)
            ).sum(axis=0)
        return result

    def _unbiased(self, cross: np.ndarray, nodes: np.ndarray, tol: float) -> np.ndarray:
        """Weights of a linear predictor at nodes, (m, q), unbiased for every mean however loose the
        solve.
        """
        assert not isinstance(self._solver, CholeskySolver)
        solution = self._solver.solve_to(cross, tol)
        _report(solution, "the deviations")
        return solution.value + self._mean.lacking(
            self._basis[nodes] - solution.value.T @ self._mean.basis
        )

    def _solve_loosely(self, rhs: np.ndarray) -> Solution:
        """A^-1 b as exactly as squares of draws need."""
        if isinstance(self._solver, CholeskySolver):
            return self._solver.solve(rhs)
        solution = self._solver.solve_to(rhs, max(self._solver.tol, _DRAWS_TOLERANCE))
        _report(solution, "the deviations")
        return solution

    def _solve(self, rhs: np.ndarray) -> np.ndarray:
        """A^-1 b, some columns at a time."""
        solved = []
        for part in slices(rhs.shape[1], _SOLVE_WIDTH):
            solution = self._solver.solve(rhs[:, part])
            _report(solution, "the deviations")
            solved.append(solution.value)
        return np.hstack(solved)


def _report(solution: Solution, what: str) -> None:
    if solution.converged:
        return
    if solution.iterations:
        warn(
            f"conjugate gradients for {what} stopped after {solution.iterations} iterations at a "
            f"relative residual of {solution.residual:.2g}: raise `max_iterations` or `tol`, fix a "
            "larger `noise`, or use numerics=Numerics(solver='cholesky')",
            SolverWarning,
        )
    else:
        warn(
            f"the solution for {what} has a relative residual of {solution.residual:.2g}: the "
            "noise is so small beside the kernel that it is lost to rounding, and standard "
            "deviations near observed nodes are just as inaccurate; fix a larger `noise`",
            SolverWarning,
        )
