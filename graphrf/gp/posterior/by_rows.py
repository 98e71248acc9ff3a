"""The posterior of a Gaussian process by rows of its prior covariance, whatever solves with the
covariance of the observations.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, Generic, Self, TypeVar

import numpy as np

from graphrf._base.rows import slices
from graphrf._base.warn import warn
from graphrf.gp.covariance.covariance import Covariance, shared_variances
from graphrf.gp.covariance.rows import RootRows
from graphrf.gp.model.observations import Observations
from graphrf.gp.posterior.generalised_mean import GeneralisedMean
from graphrf.gp.posterior.single import N_DRAWS, SinglePosterior
from graphrf.operators.pathwise import FEWEST_DRAWS, draw_normals, draws_at_once, draws_bytes, signs
from graphrf.operators.solvers import CholeskySolver, IterativeSolver, Solution

# Up to so many distinct query nodes their joint covariance is formed: 200 MB.
LARGEST_JOINT = 5_000
# Columns solved together.
SOLVE_WIDTH = 64
# The residual that is enough for draws whose squares estimate variances; so much of the prior's
# standard deviation may their exact rows lack where those of the predictor are sampled anyway.
DRAWS_TOLERANCE = 1e-4
# Nodes at which prior variances are sampled to find their size, and the fraction of the largest of
# several prior variances below which one is next to nothing.
_FEW_NODES, _NEGLIGIBLE = 16, 1e-5

Solver = TypeVar("Solver", CholeskySolver, IterativeSolver)


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


class RowsPosterior(SinglePosterior, Generic[Solver]):
    r"""f + H beta given y = H beta + f + noise at the observed nodes u, by rows F of the
    covariance.

    The predictor is linear in y, with A = F_u F_u^T + D, D = diag(noise / counts):

    .. math:: m_q = H_q \hat\beta + F_q F_u^\top A^{-1} (\bar y - H_u \hat\beta) = w_q^\top \bar y,
        \quad
              \hat\beta = (H_u^\top A^{-1} H_u)^{-1} H_u^\top A^{-1} \bar y.

    Variances, covariances and draws are those of its error under the exact prior, whose rows are E:

    .. math:: \Sigma_{qq} = |E_q - w_q^\top E_u|^2 + w_q^\top D w_q + |H_q - w_q^\top H_u|^2 / p,

    where the last term is 0 for a flat prior of beta: its predictor is unbiased, w_q^T H_u = H_q.
    With the prior N(0, I / p), p I is added to H_u^T A^{-1} H_u.

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
        solver: Solver,
        observations: Observations,
        *,
        noise: float,
        basis: np.ndarray,
        offset: np.ndarray,
        mean_precision: float = 0.0,
    ) -> None:
        self.covariance = covariance
        self._rows = rows
        self._solver: Solver = solver
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
        report(self.solution, "the fit")

        self._basis = basis
        self._offset = offset
        self._mean = GeneralisedMean(
            observations.basis, self.solution.value[:, outputs:], mean_precision
        )
        self.coefficients_covariance = self._mean.covariance
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

    def with_basis(self, basis: np.ndarray) -> Self:
        """A copy with another basis of the mean at queried nodes."""
        other = copy.copy(self)
        other._basis, other._sampled = basis, None
        return other

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

    def variances(self, nodes: np.ndarray, bar: Any = None) -> np.ndarray:
        """Variances of f + H beta at distinct nodes, shape (q,)."""
        return self._variances(nodes, bar, None)

    @classmethod
    def variances_of(
        cls, parts: Sequence[Self], nodes: np.ndarray, bar: Any, n_threads: int | None
    ) -> list[np.ndarray]:
        """Variances of several posteriors, by shared columns of K where possible; the bar counts
        the nodes of each.
        """
        unseen = np.any([part._unseen(nodes) for part in parts], axis=0)
        shared = shared_variances(
            [part.covariance for part in parts], nodes[unseen], parts[0]._nodes.size
        )
        result = []
        for part, unseen_variances in zip(parts, shared, strict=True):
            prior_variances = None
            if unseen_variances is not None:
                prior_variances = np.full(nodes.size, np.nan)
                prior_variances[unseen] = unseen_variances
            result.append(part._variances(nodes, bar, prior_variances))
        return result

    def _unseen(self, nodes: np.ndarray) -> np.ndarray:
        """Mask of nodes whose columns of K `variances` needs, shape (q,)."""
        return np.ones(nodes.size, dtype=bool)

    def _variances(
        self, nodes: np.ndarray, bar: Any, prior_variances: np.ndarray | None
    ) -> np.ndarray:
        """Variances by blocks of nodes; prior variances of f may be known already."""
        result = np.empty(nodes.size)
        if prior_variances is None:
            (prior_variances,) = shared_variances([self.covariance], nodes, self._nodes.size)

        for block in self._exact_rows.blocks(nodes.size, whole=prior_variances is None):
            queried = nodes[block]
            if not self.covariance.exact:
                result[block] = self._error_variances(queried)
            else:
                if prior_variances is None:
                    cross, prior = self._rows.columns(self.covariance.rows(queried))
                else:
                    cross = self.covariance.block(self._nodes, queried)
                    prior = prior_variances[block]
                # Exactly at least 0; what rounding leaves below is 0.
                result[block] = np.maximum(prior - self._reduction(cross, queried), 0.0)
            if bar is not None:
                bar.update(queried.size)

        return result

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
            root = self.covariance.rough_root(DRAWS_TOLERANCE * norm)

        for part in slices(n_draws, FEWEST_DRAWS):
            count = part.stop - part.start
            prior = signs(every.size, count, rng).astype(dtype, copy=False)
            errors = np.sqrt(self._diagonal)[:, None] * signs(self._nodes.size, count, rng)
            # A draw given observations of 0 is an error of the predictor.
            trends = self._mean.prior_draws(count, rng)
            weights, trend, _ = self._drawn(
                nothing, prior, errors, trends, self._loosely_solved, root
            )

            draws = root(every, weights)
            draws += self._basis @ trend
            squares += np.einsum("ij,ij->i", draws, draws)
            if bar is not None:
                bar.update(every.size * count // n_draws)

        self._sampled = squares / n_draws
        return self._sampled

    @classmethod
    def sampled_variances_of(
        cls, parts: Sequence[Self], numbers: Sequence[int], rng: np.random.Generator, bar: Any
    ) -> list[np.ndarray]:
        """Sampled variances of several posteriors; there are no draws of one whose f has a
        negligible variance, as that of noise alone.
        """
        largest = max(part.prior_variance for part in parts)
        return [
            part.variances_of_the_mean()
            if part.prior_variance <= _NEGLIGIBLE * largest
            else part.sampled_variances(rng, bar, n_draws=number)
            for part, number in zip(parts, numbers, strict=True)
        ]

    def covariances(self, nodes: np.ndarray) -> np.ndarray:
        """The joint covariance of f + H beta at distinct nodes, (q, q), made positive
        semi-definite.
        """
        if not nodes.size:
            return np.zeros((0, 0))

        queried = self.covariance.exact_rows(nodes)
        prior = queried.dense()
        prior = 0.5 * (prior + prior.T)
        cross = self._cross(self._exact_rows, queried)
        if self.covariance.exact:
            return positive_semidefinite(self._exact_covariance(prior, cross, nodes), prior)

        weights = self._predictor(self._cross(self._rows, queried), nodes)
        both = [
            self._exact_rows.gram(weights[:, part]) + self._diagonal[:, None] * weights[:, part]
            for part in slices(nodes.size, SOLVE_WIDTH)
        ]
        gain = weights.T @ np.hstack(both)
        reduction = weights.T @ cross
        biases = self._biases(weights, nodes)
        return positive_semidefinite(
            prior - reduction - reduction.T + 0.5 * (gain + gain.T) + biases @ biases.T, prior
        )

    @abstractmethod
    def _exact_covariance(
        self, prior: np.ndarray, cross: np.ndarray, nodes: np.ndarray
    ) -> np.ndarray:
        """The joint covariance, (q, q), by exact rows, from the prior's, and that with the observed
        nodes, (m, q).
        """

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

            report(solution, "the samples")
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

    def _biases(self, weights: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        """(H_q - w_q^T H_u) / sqrt(p) of any linear predictor, shape (q, b): its bias for each
        standard deviation of the coefficients' prior; without columns where that is flat.
        """
        return self._mean.biases(self._basis[nodes] - weights.T @ self._mean.basis)

    def _error_variances(self, nodes: np.ndarray) -> np.ndarray:
        """|E_q - w_q^T E_u|^2 + w_q^T D w_q + |H_q - w_q^T H_u|^2 / p of a block of nodes."""
        errors = self.covariance.exact_rows(nodes).apply_t(np.eye(nodes.size))
        weights = self._predictor(self._rows.apply(errors), nodes)
        errors -= self._exact_rows.apply_t(weights)
        variances = np.square(errors).sum(axis=0) + self._diagonal @ np.square(weights)
        return np.asarray(variances + np.square(self._biases(weights, nodes)).sum(axis=1))

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

    @abstractmethod
    def _reduction(self, cross: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        """Reduction of the prior variances of nodes, (q,), from their covariance with the observed
        nodes, (m, q).
        """

    @abstractmethod
    def _loosely_solved(self, rhs: np.ndarray) -> Solution:
        """A^-1 b as exactly as squares of draws need."""

    def _solve(self, rhs: np.ndarray) -> np.ndarray:
        """A^-1 b, some columns at a time."""
        solved = []
        for part in slices(rhs.shape[1], SOLVE_WIDTH):
            solution = self._solver.solve(rhs[:, part])
            report(solution, "the deviations")
            solved.append(solution.value)
        return np.hstack(solved)


def report(solution: Solution, what: str) -> None:
    """Warn where a solve for something stopped before its tolerance."""
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
