"""Weighted samples of a posterior of hyperparameters, and a few points that represent them.

Sources: Owen and Zhou 2000, "Safe and effective importance sampling", Sec. 2.2; Niederreiter 1992,
"Random Number Generation and Quasi-Monte Carlo Methods".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol, Self

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import ndtri

# The step of differences of gradients, in coordinates.
_STEP = 0.02
# The largest deviation of a coordinate that is taken from the curvature.
_WIDEST = 3.0


class Proposal(Protocol):
    """A distribution from which points are drawn, and weighted by its density."""

    def at(self, levels: np.ndarray) -> np.ndarray:
        """The points of levels between 0 and 1, one row each."""
        ...

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """The log density at points, one row each."""
        ...


class NormalProposal(NamedTuple):
    """A normal distribution with the covariance R R^T."""

    middle: np.ndarray
    root: np.ndarray  # R, lower triangular

    @classmethod
    def fitted(
        cls, points: np.ndarray, weights: np.ndarray, added: np.ndarray, factor: float
    ) -> Self:
        """The distribution of weighted points with a covariance added, and deviations times a
        factor.
        """
        middle = weights @ points
        covariance = ((points - middle).T * weights) @ (points - middle) + added
        return cls(middle, factor * np.linalg.cholesky(covariance))

    @classmethod
    def around(
        cls,
        mode: np.ndarray,
        gradient: Callable[[np.ndarray], np.ndarray],
        box: np.ndarray,
        factor: float,
    ) -> Self:
        """The distribution with the curvature of a log density at its mode, from differences of its
        gradient within a box, and with deviations times a factor.
        """
        values, vectors = np.linalg.eigh(curvature(mode, gradient, box))
        covariance = (vectors / np.maximum(values, _WIDEST**-2)) @ vectors.T
        return cls(mode, factor * np.linalg.cholesky(0.5 * (covariance + covariance.T)))

    def at(self, levels: np.ndarray) -> np.ndarray:
        """The points of levels between 0 and 1, shape (n, p)."""
        return np.asarray(self.middle + ndtri(levels) @ self.root.T)

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """The log density at points, shape (n, p)."""
        z = solve_triangular(self.root, (points - self.middle).T, lower=True)
        constant = 0.5 * self.middle.size * math.log(2 * math.pi) + float(
            np.log(np.diag(self.root)).sum()
        )
        return np.asarray(-0.5 * np.square(z).sum(axis=0) - constant)


def curvature(
    mode: np.ndarray, gradient: Callable[[np.ndarray], np.ndarray], box: np.ndarray
) -> np.ndarray:
    """Minus the second derivatives of a log density, shape (p, p), by differences of its gradient
    within a box of shape (p, 2).
    """
    rows = []
    for k in range(mode.size):
        ahead, behind = mode.copy(), mode.copy()
        ahead[k] = min(ahead[k] + _STEP, box[k, 1])
        behind[k] = max(behind[k] - _STEP, box[k, 0])
        rows.append((gradient(behind) - gradient(ahead)) / (ahead[k] - behind[k]))
    return 0.5 * (np.array(rows) + np.transpose(rows))


class MixtureSample(NamedTuple):
    """Points of the mixture of two proposals, half of them of each."""

    points: np.ndarray
    log_target: np.ndarray  # the log density that is sampled, up to a constant
    log_density: np.ndarray  # of the mixture


def mixture_sample(
    first: Proposal,
    fitted: Callable[[np.ndarray, np.ndarray], Proposal],
    log_target: Callable[[np.ndarray], np.ndarray],
    shape: tuple[int, int],
    rng: np.random.Generator,
) -> MixtureSample:
    """A sample in two halves of this shape: of a first proposal, and of one fitted to it.

    `fitted` takes the points of the first half and their values of `log_target`. The density of the
    mixture in the weights bounds them where either proposal is narrower than the target.
    """
    halves = [evenly(*shape, rng) for _ in range(2)]
    points = first.at(halves[0])
    log = log_target(points)
    second = fitted(points, log)
    more = second.at(halves[1])
    points, log = np.vstack([points, more]), np.concatenate([log, log_target(more)])
    density = np.logaddexp(first.log_density(points), second.log_density(points)) - math.log(2)
    return MixtureSample(points, log, density)


def evenly(n: int, p: int, rng: np.random.Generator) -> np.ndarray:
    """n points that fill the unit cube of p dimensions: a shifted Kronecker sequence."""
    root = 2.0
    for _ in range(60):
        root = (1 + root) ** (1 / (p + 1))
    steps = root ** -np.arange(1.0, p + 1)
    points = (rng.random(p) + np.arange(n)[:, None] * steps) % 1.0
    return np.clip(points, 1e-9, 1 - 1e-9)


def log_sum_exp(values: np.ndarray) -> float:
    """log(sum(exp(values))), -inf where there is nothing else."""
    largest = float(np.max(values, initial=-np.inf))
    return (
        largest + math.log(float(np.exp(values - largest).sum()))
        if math.isfinite(largest)
        else -math.inf
    )


def probabilities(log_weights: np.ndarray) -> np.ndarray:
    """Weights over their sum."""
    return np.asarray(np.exp(log_weights - log_sum_exp(log_weights)))


def systematic(log_weights: np.ndarray, order: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Up to n of the weighted points, by systematic resampling, and how often each was taken."""
    cumulated = np.cumsum(np.exp(log_weights[order] - log_weights.max()))
    places = np.searchsorted(cumulated, (np.arange(n) + 0.5) / n * cumulated[-1])
    return np.unique(order[np.minimum(places, order.size - 1)], return_counts=True)
