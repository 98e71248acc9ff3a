"""The distribution of the latent function at each node alone, and of observations there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp, ndtr, ndtri

from graphrf._base.memory import require_memory
from graphrf._base.rows import slices
from graphrf.gp.likelihoods.likelihood import normal_average
from graphrf.gp.posterior.approximation.integrals import tilted
from graphrf.gp.posterior.protocol import Law

# Nodes whose predictive densities are integrated, or quantiles bisected, at once.
_ROWS = 2_000
# Halvings of the interval that holds a mixture's quantile.
_BISECTIONS = 60


class Marginals(NamedTuple):
    """The normal distribution of f at each of q nodes."""

    mean: np.ndarray
    variance: np.ndarray
    likelihood: Any  # None for normal noise

    def at(self, positions: np.ndarray) -> Marginals:
        """Marginals at some of the nodes, repeats included."""
        return Marginals(self.mean[positions], self.variance[positions], self.likelihood)

    def with_noise(self, noise: float) -> Marginals:
        """The distribution of f plus normal noise of this variance."""
        return self._replace(variance=self.variance + noise)

    def response(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the expected observation at each node."""
        mean, variance = self.likelihood.moments(self.mean, self.variance)
        return mean, variance

    def observation_variance(self) -> np.ndarray:
        """The mean of an observation's variance given f."""
        return normal_average(self.likelihood.variance, self.mean, self.variance)

    def log_density(self, y: np.ndarray, offset: np.ndarray) -> np.ndarray:
        """The predictive log density of an observation at each node, also where p(y |
        f) is narrow.
        """
        result = np.empty(self.mean.size)
        for first in range(0, self.mean.size, _ROWS):
            rows = np.arange(first, min(first + _ROWS, self.mean.size))

            def log_density(f: np.ndarray, rows: np.ndarray = rows) -> np.ndarray:
                return self.likelihood.log_density(y[..., rows, None], f + offset[rows, None])

            std = np.sqrt(self.variance[rows])
            result[rows] = tilted(log_density, self.mean[rows], std, points=129).log_mass
        return result

    def probability(self, low: float, high: float) -> np.ndarray:
        """The probability of f between two ends, in any order, shape (q,)."""
        low, high = min(low, high), max(low, high)  # expected observations may decrease with f
        std = np.maximum(np.sqrt(self.variance), np.finfo(np.float64).tiny)
        with np.errstate(over="ignore"):
            a, b = (low - self.mean) / std, (high - self.mean) / std
        # of two probabilities near 1 the difference would be lost
        return np.where(a > 0, ndtr(-a) - ndtr(-b), ndtr(b) - ndtr(a))

    def quantiles(self, levels: np.ndarray, reference: Any = None) -> np.ndarray:
        """Quantiles of f, shape (q, levels), or of the f at which likelihood `reference` expects
        those of observations.
        """
        require_quantiles(self.mean.size, levels.size)
        result = np.sqrt(self.variance)[:, None] * ndtri(_of_f(levels, reference))
        result += self.mean[:, None]
        return np.asarray(result)


class MarginalMixture(NamedTuple):
    """Distributions of f at each of q nodes under several sets of hyperparameters, with their
    probabilities.
    """

    parts: list[Marginals]
    probabilities: np.ndarray

    @classmethod
    def alone(cls, mean: np.ndarray, variance: np.ndarray, likelihood: Any) -> MarginalMixture:
        """The distributions under one set of hyperparameters."""
        return cls([Marginals(mean, variance, likelihood)], np.ones(1))

    def at(self, positions: np.ndarray) -> MarginalMixture:
        """Marginals at some of the nodes, repeats included."""
        return MarginalMixture([part.at(positions) for part in self.parts], self.probabilities)

    @property
    def centre(self) -> np.ndarray:
        """The mean of f, shape (q,)."""
        return np.asarray(self.probabilities @ [part.mean for part in self.parts])

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of f at each node."""
        return self._total(np.array([part[:2] for part in self.parts]))

    def shifted(self, offset: np.ndarray) -> MarginalMixture:
        """The distributions of f plus a known offset of each node, shape (q,) or (1,)."""
        return self._replace(parts=[part._replace(mean=part.mean + offset) for part in self.parts])

    def under(self, likelihood: Any) -> MarginalMixture:
        """The distributions of f, seen through another likelihood."""
        return self._replace(parts=[part._replace(likelihood=likelihood) for part in self.parts])

    def with_noise(self, noises: Sequence[float]) -> MarginalMixture:
        """The distribution of f plus normal noise, of a variance for each part."""
        return self._replace(
            parts=[part.with_noise(noise) for part, noise in zip(self.parts, noises, strict=True)]
        )

    def response(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the expected observation at each node."""
        return self._total(np.array([part.response() for part in self.parts]))

    def _total(self, moments: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the mixture from those of the parts, (parts, 2, q)."""
        if len(moments) == 1:  # also where infinite means leave no deviation from them
            return moments[0, 0], moments[0, 1]
        means, variances = moments.swapaxes(0, 1)
        mean = self.probabilities @ means
        return mean, self.probabilities @ (variances + np.square(means - mean))

    def observation_variance(self) -> np.ndarray:
        """The mean of an observation's variance given f."""
        return np.asarray(self.probabilities @ [part.observation_variance() for part in self.parts])

    def log_density(self, y: np.ndarray, offset: np.ndarray) -> np.ndarray:
        """The predictive log densities of an observation at each node."""
        densities = np.array([part.log_density(y, offset) for part in self.parts])
        return np.asarray(logsumexp(densities, axis=0, b=self.probabilities[:, None]))

    def probability(self, low: float, high: float, reference: Any = None) -> np.ndarray:
        """The probability of f between two ends, in any order, shape (q,); `reference` is as in
        `quantiles`.
        """
        if len(self.parts) == 1:
            return self.parts[0].probability(low, high)
        of_parts = [
            part.probability(*_latent_in(part, np.array([low, high]), reference).tolist())
            for part in self.parts
        ]
        # a rounded sum of weights may exceed 1
        return np.minimum(self.probabilities @ of_parts, 1.0)

    def quantiles(self, levels: np.ndarray, reference: Any = None) -> np.ndarray:
        """Quantiles of the mixture, (q, levels), by bisection between the extreme quantiles of its
        parts.

        Expected observations at f may differ between the likelihoods of the parts. With one of them
        as `reference`, quantiles are of the f at which that expects what each part does, so that
        its means there are quantiles of the expected observation.
        """
        if len(self.parts) == 1:
            return self.parts[0].quantiles(levels, reference)
        size = self.parts[0].mean.size
        require_quantiles(size, levels.size)
        result = np.empty((size, levels.size))
        for block in slices(size, _ROWS):
            of_block = self.at(np.arange(block.start, block.stop))
            result[block] = of_block._quantiles(_of_f(levels, reference), reference)
        return result

    def _quantiles(self, levels: np.ndarray, reference: Any) -> np.ndarray:
        """Quantiles of a few nodes, all at once."""
        mean = np.array([part.mean for part in self.parts])[..., None]
        std = np.sqrt([part.variance for part in self.parts])[..., None]
        quantiles = mean + std * ndtri(levels)
        if reference is not None:
            quantiles = np.array(
                [
                    reference.latent_like(f, part.likelihood)
                    for f, part in zip(quantiles, self.parts, strict=True)
                ]
            )

        low, high = quantiles.min(axis=0), quantiles.max(axis=0)
        std = np.maximum(std, np.finfo(np.float64).tiny)
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            with np.errstate(over="ignore"):
                f = np.array([_latent_in(part, middle, reference) for part in self.parts])
                below = np.tensordot(self.probabilities, ndtr((f - mean) / std), axes=1) < levels
            low, high = np.where(below, middle, low), np.where(below, high, middle)

        return np.asarray(0.5 * (low + high))


def marginals_of(laws: Sequence[Law], likelihoods: Sequence[Any]) -> MarginalMixture:
    """The distribution of f, one output, from those under each set of hyperparameters."""
    parts = [
        Marginals(law.means[:, 0], law.variances.reshape(-1), likelihood)
        for law, likelihood in zip(laws, likelihoods, strict=True)
    ]
    return MarginalMixture(parts, np.array([law.probability for law in laws]))


def require_quantiles(n_nodes: int, n_levels: int) -> None:
    """Raise NoRoomError where the quantiles, and a copy in another order, do not fit."""
    what = f"an array of {n_levels} quantiles of {n_nodes} values"
    require_memory(16.0 * n_nodes * n_levels, what, "ask for fewer nodes or levels")


def _of_f(levels: np.ndarray, reference: Any) -> np.ndarray:
    """The levels of the f at which `reference` expects quantiles of these levels."""
    return levels if reference is None or reference.increases else 1 - levels


def _latent_in(part: Marginals, f: np.ndarray, reference: Any) -> np.ndarray:
    """The latent values at which the likelihood of a part expects what `reference` expects at f."""
    return f if reference is None else part.likelihood.latent_like(f, reference)
