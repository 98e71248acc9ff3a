"""Numbers within groups that lie one after the other."""

from __future__ import annotations

import numpy as np


def within(counts: np.ndarray) -> np.ndarray:
    """0, 1, ..., c - 1 for each count c, one group after the other."""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
