"""A posterior averaged over several sets of hyperparameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import logsumexp

from graphrf._base.blas import blas_threads
from graphrf._base.memory import require_memory
from graphrf._base.threads import ordered_map, thread_count
from graphrf.gp.posterior.by_precision import PrecisionPosterior
from graphrf.gp.posterior.by_rows import N_DRAWS, Posterior
from graphrf.gp.routes.covariance import shared_variances
from graphrf.operators.solvers import Solution

# Draws of each part, at least, for variances by draws.
LEAST_DRAWS = 8
# Prior variances that are so small beside those of another part are next to nothing.
_NOTHING = 1e-5


class MixturePosterior:
    r"""The mixture of posteriors with probabilities p_c, which averages over hyperparameters.

    .. math:: m = \sum_c p_c m_c, \quad \Sigma = \sum_c p_c \left(\Sigma_c + (m_c - m)(m_c -
        m)^\top\right).
    """

    def __init__(
        self,
        parts: Sequence[Posterior | PrecisionPosterior],
        probabilities: np.ndarray,
        n_threads: int | None = None,
    ) -> None:
        self._parts = parts
        self._p = probabilities
        self._n_threads = n_threads
        self._sampled: np.ndarray | None = None
        solutions = [part.solution for part in parts]
        worst = max(solutions, key=lambda solution: solution.residual)
        self.solution: Solution = worst._replace(
            converged=all(solution.converged for solution in solutions)
        )
        self.solver: str = parts[0].solver
        self.coefficients: np.ndarray = self._average([part.coefficients for part in parts])
        self.noise: float = float(probabilities @ [part.noise for part in parts])
        self.n_outputs: int = parts[0].n_outputs

    def with_basis(self, basis: np.ndarray) -> MixturePosterior:
        """A copy with another basis of the mean at queried nodes."""
        return MixturePosterior(
            [part.with_basis(basis) for part in self._parts], self._p, self._n_threads
        )

    @property
    def log_likelihood(self) -> float:
        """The logarithm of the mean of the parts' marginal likelihoods."""
        return float(logsumexp([part.log_likelihood for part in self._parts], b=self._p))

    @property
    def coefficients_covariance(self) -> np.ndarray:
        """Covariance of beta, shape (b, b), averaged over outputs if these differ in the parts'
        coefficients.
        """
        within = self._average([part.coefficients_covariance for part in self._parts])
        away = np.array([part.coefficients for part in self._parts]) - self.coefficients
        return within + np.einsum("c,cbp,cdp->bd", self._p, away, away) / self.n_outputs

    def means(self, nodes: np.ndarray, bar: Any = None) -> np.ndarray:
        """Posterior means, shape (q, p)."""
        result = self._average([part.means(nodes) for part in self._parts])
        if bar is not None:
            bar.update(nodes.size)
        return result

    def variances(self, nodes: np.ndarray, bar: Any = None) -> np.ndarray:
        """Variances, shape (q,), or (q, p) where outputs differ in the parts' means."""
        return self._average(self._each_variances(nodes, bar))[:, None] + self._between(nodes)

    def sampled_variances(self, rng: np.random.Generator, bar: Any = None) -> np.ndarray:
        """Variances at all N nodes from draws of all parts."""
        if self._sampled is None:
            each = self._each_sampled(rng, bar)
            self._sampled = self._average(each)[:, None] + self._between(np.arange(each[0].size))
        return self._sampled

    def laws(
        self, nodes: np.ndarray, rng: np.random.Generator | None, bar: Any = None
    ) -> list[tuple[float, np.ndarray, np.ndarray]]:
        """Probability, means (q, p) and variances (q,) of each part; the variances by draws if
        `rng` is given.
        """
        if rng is None:
            by_part = self._each_variances(nodes, bar)
        else:
            by_part = [variances[nodes] for variances in self._each_sampled(rng, bar)]
        means = [part.means(nodes) for part in self._parts]
        return list(zip(self._p.tolist(), means, by_part, strict=True))

    def leave_one_out_moments(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """For each part, the moments at observed nodes given the observations of all others."""
        return [moments for part in self._parts for moments in part.leave_one_out_moments()]

    def covariances(self, nodes: np.ndarray) -> np.ndarray:
        """The joint covariance, shape (q, q), averaged over outputs where these differ in the
        parts' means.
        """
        result = self._average([part.covariances(nodes) for part in self._parts])
        means = np.array([part.means(nodes) for part in self._parts])
        away = (means - self._average(means)) * np.sqrt(self._p / means.shape[2])[:, None, None]
        return np.asarray(result + np.einsum("cqp,crp->qr", away, away))

    def draw_bytes(self, n_samples: int) -> float:
        """Memory beside the draws while they are made, in bytes."""
        return max(part.draw_bytes(n_samples) for part in self._parts)

    def draws_and_parts(
        self, nodes: np.ndarray, n_samples: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Joint draws, (n_samples, q, p), and the part of each; the first do not depend on their
        number.
        """
        choice, *streams = rng.spawn(1 + len(self._parts))
        chosen = choice.choice(len(self._parts), size=n_samples, p=self._p)
        result = np.empty((n_samples, nodes.size, self.n_outputs))
        for number, (part, stream) in enumerate(zip(self._parts, streams, strict=True)):
            places = np.flatnonzero(chosen == number)
            if places.size:
                for numbers, block in part.draw_blocks(nodes, places.size, stream):
                    result[places[numbers]] = block
        return result, chosen

    def _each_sampled(self, rng: np.random.Generator, bar: Any) -> list[np.ndarray]:
        """The variances of each part, by exact sparse factors or by draws.

        The number of draws is proportional to the probability: the average is as accurate as one
        part with all of them. There are none for a part of negligible variance, as that of noise
        alone.
        """
        largest = max(
            (part.prior_variance for part in self._parts if isinstance(part, Posterior)),
            default=0.0,
        )
        numbers = np.maximum(np.ceil(N_DRAWS * self._p - 1e-9).astype(int), LEAST_DRAWS).tolist()
        return [
            part.variances_of_the_mean()
            if isinstance(part, Posterior) and part.prior_variance <= _NOTHING * largest
            else part.sampled_variances(rng, bar, n_draws=number)
            for part, number in zip(self._parts, numbers, strict=True)
        ]

    def _each_variances(self, nodes: np.ndarray, bar: Any) -> list[np.ndarray]:
        """The variances of each part, by shared columns of K where possible; the bar counts all
        their nodes.
        """
        parts = [part for part in self._parts if isinstance(part, Posterior)]
        if not parts:
            threads = thread_count(self._n_threads)
            with blas_threads(1):  # bits must not depend on their number
                result = []
                for variances in ordered_map(
                    lambda part: part.variances(nodes), self._parts, threads
                ):
                    result.append(variances)
                    if bar is not None:
                        bar.update(nodes.size)
                return result
        unseen = np.any([part.unseen(nodes) for part in parts], axis=0)
        shared = shared_variances(
            [part.covariance for part in parts], nodes[unseen], parts[0].n_observed
        )
        each = []
        for part, known in zip(parts, shared, strict=True):
            prior = None
            if known is not None:
                prior = np.full(nodes.size, np.nan)
                prior[unseen] = known
            each.append(part.variances(nodes, bar, prior))
        return each

    def _average(self, values: Any) -> np.ndarray:
        return np.asarray(np.tensordot(self._p, np.asarray(values), axes=1))

    def _between(self, nodes: np.ndarray) -> np.ndarray:
        """The variance of the parts' means, shape (q, p)."""
        means = np.array([part.means(nodes) for part in self._parts])
        return self._average(np.square(means - self._average(means)))


def joint_draws(
    posterior: Posterior | PrecisionPosterior | MixturePosterior,
    nodes: np.ndarray,
    inverse: np.ndarray,
    n_samples: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray | None]:
    """Joint draws of f + H beta at nodes[inverse], (n_samples, q, p), and the part of a mixture of
    each.
    """
    copied = not np.array_equal(
        inverse, np.arange(nodes.size)
    )  # no second copy of draws at all nodes
    require_memory(
        8.0 * n_samples * posterior.n_outputs * (nodes.size + copied * inverse.size)
        + posterior.draw_bytes(n_samples),
        f"`n_samples` = {n_samples}",
        "ask for fewer at a time, with another `seed` each, or at fewer places",
    )
    parts = None
    if isinstance(posterior, MixturePosterior):
        draws, parts = posterior.draws_and_parts(nodes, n_samples, rng)
    else:
        draws = np.empty((n_samples, nodes.size, posterior.n_outputs))
        for numbers, block in posterior.draw_blocks(nodes, n_samples, rng):
            draws[numbers] = block
    return draws[:, inverse] if copied else draws, parts
