"""Sums of Chebyshev polynomials of a sparse matrix, times blocks of vectors, on several threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from graphrf import _checks
from graphrf._series_loops import step_rows
from graphrf._threads import ordered_map, thread_count

# Multiply-adds of one product below which threads cost more than they save.
_WORTH_THREADS = 1_000_000
_NO_UNITS = np.empty(0, dtype=np.int64)


def chebyshev_step(
    doubled: sp.csr_array, now: np.ndarray, before: np.ndarray, n_threads: int | None = None
) -> None:
    r"""In place, before <- 2 M now - before: with T_k(M) v and T_{k-1}(M) v it makes T_{k+1}(M) v.

    Parameters
    ----------
    doubled : scipy.sparse.csr_array, shape (N, N), float64
        2 M.
    now, before : ndarray, shape (N,) or (N, p), float64, C-contiguous
        `before` is overwritten. Blocks of 8 or 16 columns take the least time a column.
    n_threads : int, optional
        At most so many threads share the rows; default the cores at hand. The bits do not depend on it.

    Raises
    ------
    ValueError
        If the arrays do not fit, or share memory.

    Notes
    -----
    Time: one pass over the matrix and the two blocks, with 2 nnz p operations. Nothing is allocated.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> before, now = np.array([1.0, 0.0]), np.array([0.0, 1.0])
    >>> chebyshev_step(sp.csr_array([[0.0, 2.0], [2.0, 0.0]]), now, before)
    >>> before
    array([1., 0.])
    """
    n = doubled.shape[0]
    for name, array in (("now", now), ("before", before)):
        if array.dtype != np.float64 or array.ndim not in (1, 2) or not array.flags.c_contiguous:
            raise ValueError(
                f"`{name}` must be C-contiguous float64, (N,) or (N, p), got {_checks.describe(array)}"
            )
    if now.shape != before.shape or now.shape[0] != n:
        raise ValueError(f"`now` and `before` must have one shape and {n} rows, got {now.shape}, {before.shape}")
    if np.may_share_memory(now, before):
        raise ValueError("`now` and `before` must not share memory")
    n_threads = thread_count(n_threads)
    now, before = now.reshape(n, now[:1].size), before.reshape(n, now[:1].size)
    if doubled.nnz * now.shape[1] < _WORTH_THREADS:
        n_threads = 1
    none = np.empty((0, now.shape[1]))
    bounds = _shares(doubled.indptr, 0, n, n_threads)

    def rows(t: int) -> None:
        step_rows(
            bounds[t], bounds[t + 1], doubled.indptr, doubled.indices, doubled.data, 1.0, now, -1.0, before, 0.0,
            none, _NO_UNITS,
        )  # fmt: skip

    for _ in ordered_map(rows, range(n_threads), n_threads):
        pass


def _shares(indptr: Any, first: int, last: int, n: int) -> list[int]:
    """Bounds of n runs of rows from `first` to `last` with about as many non-zeros each."""
    low, high = int(indptr[first]), int(indptr[last])
    wanted = np.array([low + (high - low) * t // n for t in range(1, n)], dtype=indptr.dtype)
    inner = np.searchsorted(indptr, wanted)
    return [first, *np.clip(inner, first, last).tolist(), last]
