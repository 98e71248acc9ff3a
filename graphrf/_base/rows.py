"""Rows of arrays and sparse matrices: numbers in groups, memory on cache lines, shares."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

# Bytes of a line of the cache.
LINE = 64


def begins_line(array: np.ndarray) -> bool:
    """True if an array begins at the start of a cache line."""
    return array.ctypes.data % LINE == 0


def aligned_zeros(n: int, width: int, dtype: Any = np.float64) -> np.ndarray:
    """Zeros, shape (n, width), beginning with a line of the cache: narrow rows take one line."""
    size = np.dtype(dtype).itemsize
    memory: Any = np.zeros(n * width + LINE // size, dtype=dtype)
    skipped = -memory.ctypes.data % LINE // size
    return np.asarray(memory[skipped : skipped + n * width].reshape(n, width))


def row_shares(
    indptr: np.ndarray, n_shares: int, rows: tuple[int, int] | None = None
) -> list[tuple[int, int]]:
    """Runs of rows with about as many entries each, in order; together rows from .. to, or all."""
    first, last = (0, indptr.size - 1) if rows is None else rows
    low, high = int(indptr[first]), int(indptr[last])
    wanted = [low + (high - low) * share // n_shares for share in range(1, n_shares)]
    inner = np.searchsorted(indptr, np.array(wanted, dtype=indptr.dtype))
    return list(pairwise([first, *np.clip(inner, first, last).tolist(), last]))


def within(counts: np.ndarray) -> np.ndarray:
    """0, 1, ..., c - 1 for each count c, one group after the other."""
    return np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)


def slices(n: int, size: int) -> Iterator[slice]:
    """0 .. n - 1 in slices of the given size."""
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))
