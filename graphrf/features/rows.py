"""Rows of features: lookup by node, selection, and division into blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from graphrf._base import checks
from graphrf._base.rows import within

# Largest number of entries for a pointer in int32.
MOST_SHORT = 2**31 - 1
# Entries of a block of rows.
BLOCK_ENTRIES = 1_000_000
# Entries of a block of a dense product.
_PRODUCT_BLOCK = 4_000_000
# A product of two sparse matrices is computed with dense ones above this fraction of non-zeros
# (measured on 500 rows), and up to this number of entries.
_DENSE_FRACTION = 0.02
DENSE_NUMBERS = 40_000_000


def row_numbers(argument: str, wanted: Any, nodes: np.ndarray) -> np.ndarray:
    """The first row of each wanted node, given by position; None stands for all rows."""
    if wanted is None:
        return np.arange(nodes.size)
    wanted = np.asarray(wanted)
    if wanted.dtype.kind not in "iu" or wanted.ndim > 1:
        raise TypeError(
            f"`{argument}` must be integer node positions of shape (n,), got "
            f"{checks.describe(wanted)}; features hold no names: graph.index([...]) turns names "
            "into positions"
        )
    wanted = np.atleast_1d(wanted).astype(np.int64)
    order = np.argsort(nodes, kind="stable")
    found = np.searchsorted(nodes, wanted, sorter=order)
    found = order[np.minimum(found, nodes.size - 1)]
    missing = nodes[found] != wanted
    if missing.any():
        raise not_sampled(argument, int(wanted[missing][0]))
    return np.asarray(found)


def not_sampled(argument: str, node: int) -> ValueError:
    """The error for a node without a row."""
    return ValueError(f"`{argument}` must be among the sampled nodes, got {node}")


def gathered(
    pointer: np.ndarray, rows: np.ndarray, most_short: int = MOST_SHORT
) -> tuple[np.ndarray, np.ndarray]:
    """Entries of CSR rows in the order given, and the row pointer of the result, int64 where it
    needs to be: where there are more than `most_short` entries.
    """
    sizes = np.diff(pointer)[rows].astype(np.int64)
    entries = np.repeat(pointer[rows].astype(np.int64), sizes) + within(sizes)
    joined = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes)])
    return entries, joined if joined[-1] > most_short else joined.astype(pointer.dtype)


def row_blocks(indptr: np.ndarray, entries: int = BLOCK_ENTRIES) -> list[tuple[int, int]]:
    """Ranges of rows with about that many entries each."""
    n = indptr.size - 1
    size = max(1, int(n * entries / max(int(indptr[-1]), 1)))
    return [(start, min(start + size, n)) for start in range(0, n, size)]


def dense_product(
    left: sp.csr_array, right: sp.csr_array, *, filled: float = 1.0, most: int | None = None
) -> np.ndarray:
    """left right^T, dense.

    It is computed with dense rows if their fraction of non-zeros is above `filled` and they have at
    most `most` numbers; else some rows at a time, to save memory.
    """
    numbers = (left.shape[0] + right.shape[0]) * left.shape[1]
    if left.nnz + right.nnz > filled * numbers and (most is None or numbers <= most):
        dense = left.toarray()
        return np.asarray(dense @ (dense if right is left else right.toarray()).T)
    result = np.empty((left.shape[0], right.shape[0]), np.result_type(left.dtype, right.dtype))
    transposed = right.T.tocsr()
    size = max(1, _PRODUCT_BLOCK // max(right.shape[0], 1))
    for start in range(0, left.shape[0], size):
        result[start : start + size] = (left[start : start + size] @ transposed).toarray()
    return result


def product(left: Any, right: Any) -> np.ndarray:
    """left right^T, dense, for sparse or dense matrices of as many columns."""
    if sp.issparse(left) and sp.issparse(right):
        return dense_product(left, right, filled=_DENSE_FRACTION, most=DENSE_NUMBERS)
    return np.asarray(left @ right.T)


def squared_norms(rows: Any) -> np.ndarray:
    """The diagonal of rows rows^T, for a sparse matrix (CSR) or a dense one."""
    if not sp.issparse(rows):
        return np.asarray(np.square(rows).sum(axis=1))
    result = np.empty(rows.shape[0], rows.dtype)
    for first, last in row_blocks(rows.indptr):
        result[first:last] = rows[first:last].power(2).sum(axis=1)
    return result
