"""The sampled rows that are drawn by default, and the kernels that rows serve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from graphrf.features.bounds import HEAVY, termination_variance
from graphrf.kernels.kernel import Kernel
from graphrf.kernels.truncation import steps_needed
from graphrf.operators.factor import Factor
from graphrf.sampling.powers.powers import CompressedPowers

# Entries of the default rows of all training nodes together, and the budgets of a power between
# which they choose.
_TRAINING_ENTRIES = 2_000_000
SMALLEST_BUDGET, LARGEST_BUDGET = 64, 512
# Lengths of default rows, in the order in which training tries them.
LENGTHS = (16, 32, 64, 128)


def default_sampler(laplacian: str, length: int, n_trained: int) -> CompressedPowers:
    """Compressed powers with the budget that so many rows afford: exact rows while these have fewer
    entries.
    """
    budget = int(
        np.clip(_TRAINING_ENTRIES // (n_trained * (length + 1)), SMALLEST_BUDGET, LARGEST_BUDGET)
    )
    return CompressedPowers(budget, max_length=length, laplacian=laplacian)


def long_enough(sampler: Any, kernel: Kernel, scale: float) -> bool:
    """True if a sampler's walks (or powers) have the steps of a kernel, and do not end too early
    for it.
    """
    survival = sampler.survival
    if not survival.is_complete and steps_needed(kernel, scale) > survival.max_length:
        return False
    heavy, plain = termination_variance(
        kernel.modulation(survival.table.size, scale), survival.table
    )
    # f may underflow to 0 throughout where the lengthscale is far longer than these walks serve
    return bool(0 < heavy <= HEAVY * plain)


def shortened(
    sampler: CompressedPowers, kernels: Sequence[Kernel], scale: float
) -> CompressedPowers:
    """A sampler without the steps that none of the kernels needs; the others stay as they are."""
    needed = max(steps_needed(kernel, scale) for kernel in kernels)
    return replace(sampler, max_length=min(needed, sampler.survival.max_length))


def excess(rows: Factor, others: Factor, f: np.ndarray) -> float:
    """The mean relative excess of |F_i|^2 over K_ii, from two independent draws of rows; or inf."""
    first, second = rows.matrix(f), others.matrix(f)
    product = first.multiply(second) if sp.issparse(first) else first * second
    norms = float(rows.diagonal(f).sum())
    return norms / float(product.sum()) - 1.0 if norms > 0 and product.sum() > 0 else np.inf
