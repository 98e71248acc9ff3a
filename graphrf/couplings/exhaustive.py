"""Trying every permutation: the reference for the other solvers of Eq. 55."""

from __future__ import annotations

import itertools

import numpy as np

from graphrf.couplings.quadratic import QuadraticCost

LARGEST_ORDER = 9


def solve_exhaustive(cost: QuadraticCost) -> np.ndarray:
    """The permutation of least cost among all n!, n at most 9 (362,880 of them)."""
    order = cost.terms.shape[0]
    permutations = np.array(list(itertools.permutations(range(order))))
    best, least = permutations[0], np.inf
    for start in range(0, len(permutations), 20_000):
        costs = cost(permutations[start : start + 20_000])
        lowest = int(costs.argmin())
        if costs[lowest] < least:
            best, least = permutations[start + lowest], costs[lowest]
    return best
