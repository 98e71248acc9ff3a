"""A posterior averaged over several sets of hyperparameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import logsumexp

from graphrf._base.memory import require_memory
from graphrf.gp.model.hyperparameters import Hyperparameters
from graphrf.gp.posterior.protocol import Law, Posterior
from graphrf.gp.posterior.single import N_DRAWS, SinglePosterior
from graphrf.operators.precision.readings import Readings
from graphrf.operators.solvers import Solution

# Draws of each part, at least, for variances by draws.
LEAST_DRAWS = 8


class MixturePosterior(Posterior):
    r"""The mixture of posteriors with probabilities p_c, which averages over hyperparameters.

    .. math:: m = \sum_c p_c m_c, \quad \Sigma = \sum_c p_c \left(\Sigma_c + (m_c - m)(m_c -
        m)^\top\right).
    """

    def __init__(
        self,
        parts: Sequence[SinglePosterior],
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

        self.solver, self.n_outputs = parts[0].solver, parts[0].n_outputs
        self.coefficients: np.ndarray = self._average([part.coefficients for part in parts])
        self.coefficients_covariance = self._coefficients_covariance()
        self.noise: float = float(probabilities @ [part.noise for part in parts])

    def with_basis(self, basis: np.ndarray) -> MixturePosterior:
        """A copy with another basis of the mean at queried nodes."""
        return MixturePosterior(
            [part.with_basis(basis) for part in self._parts], self._p, self._n_threads
        )

    def with_readings(self, readings: Readings, basis: np.ndarray) -> MixturePosterior:
        """A copy with other nodes of the same variables, for parts that have sparse precisions."""
        parts: Sequence[Any] = self._parts
        return MixturePosterior(
            [part.with_readings(readings, basis) for part in parts], self._p, self._n_threads
        )

    @property
    def log_likelihood(self) -> float:
        """The logarithm of the mean of the parts' marginal likelihoods."""
        return float(logsumexp([part.log_likelihood for part in self._parts], b=self._p))

    def means(self, nodes: np.ndarray, bar: Any = None) -> np.ndarray:
        """Posterior means, shape (q, p)."""
        result = self._average([part.means(nodes) for part in self._parts])
        if bar is not None:
            bar.update(nodes.size)
        return result

    def variances(self, nodes: np.ndarray, bar: Any = None) -> np.ndarray:
        """Variances, shape (q,), or (q, p) where outputs differ in the parts' means."""
        return self._average(self._variances_of_parts(nodes, bar))[:, None] + self._between(nodes)

    def sampled_variances(self, rng: np.random.Generator, bar: Any = None) -> np.ndarray:
        """Variances at all N nodes from draws of all parts."""
        if self._sampled is None:
            by_part = self._sampled_of_parts(rng, bar)
            every = np.arange(by_part[0].size)
            self._sampled = self._average(by_part)[:, None] + self._between(every)
        return self._sampled

    def laws(
        self, nodes: np.ndarray, rng: np.random.Generator | None, bar: Any = None
    ) -> list[Law]:
        """The distribution of each part; with `rng`, of sampled variances."""
        if rng is None:
            by_part = self._variances_of_parts(nodes, bar)
        else:
            by_part = [variances[nodes] for variances in self._sampled_of_parts(rng, bar)]
        means = [part.means(nodes) for part in self._parts]
        return list(map(Law, self._p.tolist(), means, by_part))

    def leave_one_out_moments(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """The moments of each part at observed nodes, given the observations of all others."""
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

    def _sampled_of_parts(self, rng: np.random.Generator, bar: Any) -> list[np.ndarray]:
        """The sampled variances of each part.

        The number of draws is proportional to the probability: the average is as accurate as one
        part with all of them.
        """
        numbers = np.maximum(np.ceil(N_DRAWS * self._p - 1e-9).astype(int), LEAST_DRAWS).tolist()
        return self._parts[0].sampled_variances_of(self._parts, numbers, rng, bar)

    def _variances_of_parts(self, nodes: np.ndarray, bar: Any) -> list[np.ndarray]:
        """The variances of each part; the bar counts the nodes of all of them."""
        return self._parts[0].variances_of(self._parts, nodes, bar, self._n_threads)

    def _coefficients_covariance(self) -> np.ndarray:
        """Covariance of beta, averaged over outputs if these differ in the parts' coefficients."""
        within = self._average([part.coefficients_covariance for part in self._parts])
        away = np.array([part.coefficients for part in self._parts]) - self.coefficients
        return within + np.einsum("c,cbp,cdp->bd", self._p, away, away) / self.n_outputs

    def _average(self, values: Any) -> np.ndarray:
        return np.asarray(np.tensordot(self._p, np.asarray(values), axes=1))

    def _between(self, nodes: np.ndarray) -> np.ndarray:
        """The variance of the parts' means, shape (q, p)."""
        means = np.array([part.means(nodes) for part in self._parts])
        return self._average(np.square(means - self._average(means)))


def averaged(
    posteriors: Sequence[SinglePosterior], points: Sequence[Hyperparameters], n_threads: int | None
) -> Posterior:
    """The average of the posteriors at points; without points the only posterior."""
    if not points:
        return posteriors[0]
    return MixturePosterior(posteriors, np.array([point.weight for point in points]), n_threads)


def joint_draws(
    posterior: Posterior,
    nodes: np.ndarray,
    inverse: np.ndarray,
    n_samples: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Joint draws of f + H beta at nodes[inverse], (n_samples, q, p), and the set of
    hyperparameters of each.
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
    draws, parts = posterior.draws_and_parts(nodes, n_samples, rng)
    return draws[:, inverse] if copied else draws, parts
