"""Which sampled rows suit a kernel: how long they must be, and the lengthscales that given ones can serve."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from graphrf.features.bounds import HEAVY, termination_variance
from graphrf.kernels.factor import Factor
from graphrf.kernels.kernel import Kernel
from graphrf.kernels.truncation import steps_needed
from graphrf.sampling.powers.powers import CompressedPowers

# Default rows: the entries of all powers of the rows that training sees, which are multiplied a hundred times; the
# budgets that share them; how long rows are at first and at most, and the share of sum |f_k| that may lie beyond
# their end.
_TRAINING_ENTRIES = 2_000_000
SMALLEST_BUDGET = 64
LARGEST_BUDGET = 512
FIRST_LENGTH = 16
LONGEST = 128
# How much larger than K_ii the squared norms of rows may be: training takes the rest for a signal that differs at
# every node, and its noise and intervals come out too small.
MOST_EXCESS = 0.25


def default_sampler(laplacian: str, length: int, n_trained: int) -> CompressedPowers:
    """Compressed powers with the budget that so many rows afford: exact rows while these have fewer entries."""
    budget = int(np.clip(_TRAINING_ENTRIES // (n_trained * (length + 1)), SMALLEST_BUDGET, LARGEST_BUDGET))
    return CompressedPowers(budget, max_length=length, laplacian=laplacian)


def serves(sampler: Any, scale: float) -> Callable[[Kernel], bool]:
    """Whether a sampler's walks (or powers) are long enough, and do not end too early, for a kernel."""
    survival = sampler.survival

    def fits(kernel: Kernel) -> bool:
        if not survival.is_complete and steps_needed(kernel, scale) > survival.max_length:
            return False
        heavy, plain = termination_variance(kernel.modulation(survival.table.size, scale), survival.table)
        # f may underflow to 0 throughout where the lengthscale is far beyond these walks
        return 0 < heavy <= HEAVY * plain

    return fits


def shortened(sampler: CompressedPowers, kernels: Sequence[Kernel], scale: float) -> CompressedPowers:
    """A sampler without the steps that none of the kernels needs; the others stay as they are."""
    needed = max(steps_needed(kernel, scale) for kernel in kernels)
    return replace(sampler, max_length=min(needed, sampler.survival.max_length))


def excess(rows: Factor, others: Factor, f: np.ndarray) -> float:
    """By how much |F_i|^2 exceeds K_ii, on average over the nodes and as a share of K_ii, or inf.

    The variance of a row is added to its squared norm. The product of two rows of one node that were drawn
    independently has the mean K_ii.
    """
    first, second = rows.matrix(f), others.matrix(f)
    product = first.multiply(second) if sp.issparse(first) else first * second
    norms = float(rows.diagonal(f).sum())
    return norms / float(product.sum()) - 1.0 if norms > 0 and product.sum() > 0 else np.inf
