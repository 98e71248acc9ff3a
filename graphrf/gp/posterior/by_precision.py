"""The posterior of a Gaussian process whose prior has a sparse precision: means, variances and
draws.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np

from graphrf._base.blas import blas_threads
from graphrf._base.cached import cached_property
from graphrf._base.threads import ordered_map
from graphrf.gp.model.observations import Observations
from graphrf.gp.posterior.generalised_mean import ALONE, GeneralisedMean
from graphrf.gp.posterior.single import SinglePosterior
from graphrf.operators.pathwise import draws_bytes
from graphrf.operators.precision.protocol import Precision
from graphrf.operators.precision.readings import VARIABLES, Readings
from graphrf.operators.solvers import Solution
from graphrf.operators.sparse.cholesky import SparseCholesky


class PrecisionPosterior(SinglePosterior):
    r"""f + H beta given y = H beta + f + noise at the observed nodes u, for f ~ N(0, a Q^-1) with a
    sparse Q.

    The noise is D = diag(noise / counts), and S^T extends values at observed nodes by zeros to all
    N, or S has other sparse rows (`readings`). One sparse Cholesky factor of P gives everything:

    .. math:: P = Q + a S^\top D^{-1} S, \quad A^{-1} r = D^{-1} (r - S \hat f), \quad
              \hat f = a P^{-1} S^\top D^{-1} r,

    with A = S a Q^-1 S^T + D: f given y and beta is N(f_hat, a P^-1). `basis` (N, b) is H at all
    nodes, `offset` (p,) is added to all predictions, and `mean_precision` is that of the prior of
    beta, 0 if it is flat.

    Means at all nodes are kept, and of `keeps` "factor", "variances" or neither ("means"). What
    else is asked for takes another factorisation, to the same bits: variances if these are not
    kept, covariances, averages over more than a triangle, and all draws of one call.

    Source: Rue and Held 2005, "Gaussian Markov Random Fields", Ch. 2; variances by selected
    inversion (Erisman and Tinney 1975; Rue and Martino 2007).
    """

    solver = "cholesky"

    def __init__(
        self,
        precision: Precision,
        amplitude: float,
        observations: Observations,
        *,
        noise: float,
        basis: np.ndarray,
        offset: np.ndarray,
        mean_precision: float = 0.0,
        readings: Readings = VARIABLES,
        keeps: str = "factor",
    ) -> None:
        self._precision = precision
        self._readings = self._observed_readings = readings
        self._amplitude = amplitude
        self.noise = noise
        self._observations = observations
        self.n_outputs = observations.n_outputs
        self._nodes = observations.nodes
        self._noise_precisions = observations.counts / noise
        self._basis = basis
        self._offset = offset

        own = copy.copy(precision)  # the matrices that it makes go with it
        factor = readings.factor(own, self._nodes, amplitude * self._noise_precisions)
        self._held = factor if keeps == "factor" else None
        self._inverse = readings.inverse(factor) if keeps == "variances" else None
        self._elimination, self._log_determinant = factor.elimination, factor.log_determinant

        values = np.column_stack([observations.means, observations.basis])
        weights = (amplitude * self._noise_precisions)[:, None]
        predicted = factor.solve(self._spread(weights * values))  # f_hat of values and basis
        p = self.n_outputs

        self._mean = GeneralisedMean(
            observations.basis, self._solved(observations.basis, predicted[:, p:]), mean_precision
        )
        self.coefficients_covariance = self._mean.covariance
        solved = self._solved(observations.means, predicted[:, :p])
        self.coefficients, _ = self._mean.fit(observations.means, solved)

        self._by_mean = predicted[:, p:]
        self._f = predicted[:, :p] - self._by_mean @ self.coefficients
        residual = observations.means - observations.basis @ self.coefficients
        self.solution = self._checked(own, residual)

    def with_basis(self, basis: np.ndarray) -> Self:
        """A copy with another basis of the mean at queried nodes."""
        return self.with_readings(self._readings, basis)

    def with_readings(self, readings: Readings, basis: np.ndarray) -> Self:
        """A copy with other nodes to query, whose values come from the same variables, and the
        basis of the mean there.
        """
        other = copy.copy(self)
        other._readings, other._basis = readings, basis
        return other

    @cached_property
    def log_likelihood(self) -> float:
        """The log marginal likelihood of the observations."""
        observations = self._observations
        residual = observations.means - observations.basis @ self.coefficients
        quadratic = float(
            np.vdot(
                residual, self._noise_precisions[:, None] * (residual - self._observed(self._f))
            )
        )
        log_determinant = self._log_determinant - copy.copy(self._precision).log_determinant()
        log_determinant -= float(np.log(self._noise_precisions).sum())
        return observations.log_likelihood(quadratic, log_determinant, self.noise)

    def means(self, nodes: np.ndarray, bar: Any = None) -> np.ndarray:
        """Posterior means, shape (q, p)."""
        if bar is not None:
            bar.update(nodes.size)
        f = self._readings.read(self._f, nodes)
        return np.asarray(f + self._basis[nodes] @ self.coefficients + self._offset)

    def variances(self, nodes: np.ndarray, bar: Any = None) -> np.ndarray:
        """Variances of f + H beta, exact, shape (q,)."""
        return self._variances(self._readings, nodes, self._unexplained(nodes), bar)

    def _variances(
        self, readings: Readings, nodes: np.ndarray, unexplained: np.ndarray, bar: Any = None
    ) -> np.ndarray:
        variances = readings.variances(nodes, self._inverse, self._made)
        if bar is not None:
            bar.update(nodes.size)
        return np.asarray(
            self._amplitude * variances + np.square(self._mean.half(unexplained)).sum(axis=1)
        )

    @classmethod
    def variances_of(
        cls, parts: Sequence[Self], nodes: np.ndarray, bar: Any, n_threads: int | None
    ) -> list[np.ndarray]:
        """The variances of several posteriors, on threads; the bar counts the nodes of each."""
        result = []
        with blas_threads(1):  # bits must not depend on the number of threads
            for variances in ordered_map(
                lambda part: part.variances(nodes), parts, parts[0]._elimination.at_once(n_threads)
            ):
                result.append(variances)
                if bar is not None:
                    bar.update(nodes.size)
        return result

    def sampled_variances(
        self, rng: np.random.Generator, bar: Any = None, n_draws: int = 0
    ) -> np.ndarray:
        """The exact variances at all N nodes: nothing is gained by drawing."""
        return self.variances(np.arange(self._basis.shape[0]), bar)

    @classmethod
    def sampled_variances_of(
        cls, parts: Sequence[Self], numbers: Sequence[int], rng: np.random.Generator, bar: Any
    ) -> list[np.ndarray]:
        """The exact variances of several posteriors at all N nodes."""
        return [part.sampled_variances(rng, bar) for part in parts]

    def leave_one_out_moments(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Means (m, p) and variances (m,) of f + H beta at each observed node, given the
        observations of all other nodes.

        With the variance v and the noise d of a node they are y - r / (1 - v / d), for the residual
        r of the posterior mean, and v / (1 - v / d); infinite where nothing else is known.
        """
        unexplained = self._observations.basis - self._observed(self._by_mean)
        variance = self._variances(self._observed_readings, self._nodes, unexplained)
        left = 1 - variance * self._noise_precisions
        alone = left <= ALONE
        left = np.where(alone, 1.0, left)
        values = self._observations.means
        predicted = self._observed(self._f) + self._observations.basis @ self.coefficients
        mean = values - (values - predicted) / left[:, None]
        return [(mean, np.where(alone, np.inf, variance / left))]

    def covariances(self, nodes: np.ndarray) -> np.ndarray:
        """The joint covariance of f + H beta, shape (q, q)."""
        half = self._mean.half(self._unexplained(nodes))
        between = self._readings.covariances(self._made(), nodes)
        return np.asarray(self._amplitude * between + half @ half.T)

    def draw_bytes(self, n_samples: int) -> float:
        """Memory beside the draws while they are made one after the other, in bytes."""
        numbers = 0 if self._held is not None else self._elimination.n_entries
        return draws_bytes(self._precision.n_nodes * self.n_outputs, 1) + 8.0 * numbers

    def draw_blocks(
        self, nodes: np.ndarray, n_samples: int, rng: np.random.Generator
    ) -> Iterator[tuple[slice, np.ndarray]]:
        """Joint draws of f + H beta, (1, q, p) each, by half a solve; `rng` advances alike for all
        nodes.
        """
        b, p = self._mean.rank, self.n_outputs
        factor = self._made()
        for number in range(n_samples):
            z = rng.standard_normal((factor.shape[0], p))
            trend = self._mean.draw(rng.standard_normal((b, p)))
            f = np.sqrt(self._amplitude) * factor.root(z)
            f += self._f - self._by_mean @ trend
            mean = self._basis[nodes] @ (self.coefficients + trend)
            draw = self._readings.read(f, nodes) + mean + self._offset
            yield slice(number, number + 1), draw[None]

    def _made(self) -> SparseCholesky:
        """The factor of P, made again unless it is held."""
        if self._held is not None:
            return self._held
        weights = self._amplitude * self._noise_precisions
        own = copy.copy(self._precision)
        return self._observed_readings.factor(own, self._nodes, weights)

    def _observed(self, x: np.ndarray) -> np.ndarray:
        """Values at the observed nodes, from variables."""
        return self._observed_readings.read(x, self._nodes)

    def _spread(self, values: np.ndarray) -> np.ndarray:
        """S^T values at the observed nodes."""
        return self._observed_readings.spread(values, self._nodes, self._precision.n_nodes)

    def _solved(self, values: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        """A^-1 values."""
        return np.asarray(self._noise_precisions[:, None] * (values - self._observed(predicted)))

    def _unexplained(self, nodes: np.ndarray) -> np.ndarray:
        """Residual at nodes of the mean's basis, less its prediction from the observed nodes, shape
        (q, b).
        """
        return np.asarray(self._basis[nodes] - self._readings.read(self._by_mean, nodes))

    def _checked(self, precision: Precision, residual: np.ndarray) -> Solution:
        """The relative residual of P f_hat = a S^T D^-1 r."""
        weights = (self._amplitude * self._noise_precisions)[:, None]
        wanted = self._spread(weights * residual)
        left = wanted - precision.matrix @ self._f
        left -= self._spread(weights * self._observed(self._f))
        left = precision.unconstrained(left)
        size = float(
            np.linalg.norm(left) / max(float(np.linalg.norm(wanted)), np.finfo(np.float64).tiny)
        )
        return Solution(self._f, size <= 1e-6, 0, size)
