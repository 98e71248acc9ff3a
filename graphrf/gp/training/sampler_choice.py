"""Which sampled rows suit a kernel: how long they must be, and the lengthscales that given ones can serve."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphrf.features.bounds import HEAVY, termination_variance
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
