"""Importance sampling: points that fill a cube, and normal proposals."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular


class NormalProposal(NamedTuple):
    """A normal distribution with the covariance R R^T."""

    middle: np.ndarray
    root: np.ndarray  # R, lower triangular

    @classmethod
    def fitted(
        cls, points: np.ndarray, weights: np.ndarray, added: np.ndarray, factor: float
    ) -> NormalProposal:
        """The distribution of weighted points with a covariance added, and deviations times a
        factor.
        """
        middle = weights @ points
        covariance = ((points - middle).T * weights) @ (points - middle) + added
        return cls(middle, factor * np.linalg.cholesky(covariance))

    def at(self, z: np.ndarray) -> np.ndarray:
        """Draws from standard normal ones."""
        return np.asarray(self.middle + z @ self.root.T)

    def log_density(self, points: np.ndarray) -> np.ndarray:
        """The log density at points, shape (n, p)."""
        z = solve_triangular(self.root, (points - self.middle).T, lower=True)
        constant = 0.5 * self.middle.size * math.log(2 * math.pi) + float(
            np.log(np.diag(self.root)).sum()
        )
        return np.asarray(-0.5 * np.square(z).sum(axis=0) - constant)


def evenly(n: int, p: int, rng: np.random.Generator) -> np.ndarray:
    """n points that fill the unit cube of p dimensions: a shifted Kronecker sequence (Niederreiter
    1992).
    """
    root = 2.0
    for _ in range(60):
        root = (1 + root) ** (1 / (p + 1))
    steps = root ** -np.arange(1.0, p + 1)
    points = (rng.random(p) + np.arange(n)[:, None] * steps) % 1.0
    return np.clip(points, 1e-9, 1 - 1e-9)
