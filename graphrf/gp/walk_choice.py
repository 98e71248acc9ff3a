"""Which walks suit a kernel: how long they must be, and the lengthscales that given ones can serve."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphrf.gp.gram import series_length
from graphrf.kernels import Kernel
from graphrf.lengths import Truncated
from graphrf.sampling.random_walks import RandomWalks

# Default walks: how many, how long at first and at most, and the share of sum |f_k| that may lie beyond their end.
N_WALKS = 64
FIRST_LENGTH = 16
LONGEST = 128
_TAIL = 1e-3
# Walks that halt serve a kernel while sum f_k^2 / S(k) stays below this many times sum f_k^2.
_HEAVY = 5.0


def default_walks(laplacian: str, length: int) -> RandomWalks:
    """Stratified walks of fixed length: their bias is bounded and their variance small."""
    return RandomWalks(n_walks=N_WALKS, lengths=Truncated(length), laplacian=laplacian)


def steps_needed(kernel: Kernel, scale: float) -> int:
    """Steps after which a thousandth of sum |f_k| is left, so that K is off by at most 0.2 % of (sum |f_k|)^2."""
    return series_length(kernel, scale, _TAIL)


def serves(sampler: Any, scale: float) -> Callable[[Kernel], bool]:
    """Whether a sampler's walks (or powers) are long enough, and do not end too early, for a kernel."""
    survival = sampler.survival

    def fits(kernel: Kernel) -> bool:
        if not survival.is_complete and steps_needed(kernel, scale) > survival.max_length:
            return False
        squares = np.square(kernel.modulation(survival.table.size, scale))
        # f may underflow to 0 throughout where the lengthscale is far beyond these walks
        return 0 < float((squares / survival.table).sum()) <= _HEAVY * float(squares.sum())

    return fits


def truncation_error(kernel: Kernel, length: int, scale: float) -> float:
    """The bound tail (2 A - tail) on the error of K, in operator norm, of walks or a series cut at `length`."""
    total = kernel.modulation_tail(-1, scale)
    tail = kernel.modulation_tail(length, scale)
    return float(tail * (2 * total - tail))
