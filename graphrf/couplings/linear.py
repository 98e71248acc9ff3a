"""Linear matching of quantiles: Eq. 56 of the paper, solved by the Hungarian algorithm."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import linear_sum_assignment


def spectral_cost(left: np.ndarray, right: np.ndarray, weights: np.ndarray) -> np.ndarray:
    r"""Eq. 56 averaged over all node pairs: C[a, b] = sum_p weights_p (left_ap + right_bp)^4.

    `left` and `right` have shape (tiles, points of the spectrum), `weights` (points,). The mean
    over pairs [(psi^(a) + psi^(b))_i . (psi^(a) + psi^(b))_j]^2 is this sum (up to the constant N),
    since
    ||(h_a + h_b)(W)^2||_F^2 is the sum of fourth powers of eigenvalues.
    """
    # The binomial expansion: five matrix products, and
    # no array of order^2 times the number of points.
    cost = np.zeros((left.shape[0], right.shape[0]))
    for power in range(5):
        cost += math.comb(4, power) * ((weights * left**power) @ (right ** (4 - power)).T)
    return cost


def pair_cost(products: np.ndarray) -> np.ndarray:
    """Eq. 56 averaged over node pairs, from psi^(a)_i . psi^(b)_j of shape (pairs, n, n)."""
    own = np.diagonal(products, axis1=1, axis2=2)
    sums = own[:, :, None] + products + products.transpose(0, 2, 1) + own[:, None, :]
    return np.asarray((sums**2).mean(axis=0))


def solve_linear(cost: np.ndarray) -> np.ndarray:
    """The permutation sigma that minimises sum_q cost[q, sigma(q)], O(n^3)."""
    return linear_sum_assignment(cost)[1]


def linear_cost(cost: np.ndarray, permutation: np.ndarray) -> float:
    """sum_q cost[q, sigma(q)]."""
    return float(cost[np.arange(permutation.size), permutation].sum())


def independent_cost(spectra: np.ndarray, weights: np.ndarray, n_walkers: int) -> float:
    """Eq. 56 for walkers with independent tiles: `order` times the mean fourth power of the sum."""
    one = [(spectra**power).mean(axis=0) for power in range(5)]
    total = one
    for _ in range(n_walkers - 1):  # raw moments of a sum of independent parts
        total = [
            sum(math.comb(k, i) * total[i] * one[k - i] for i in range(k + 1)) for k in range(5)
        ]
    return float(spectra.shape[0] * (weights @ total[4]))
