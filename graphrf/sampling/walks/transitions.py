"""The arrays of walk loops: a CSR adjacency, with running shares of the weights if they differ."""

from __future__ import annotations

import weakref
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from numba import uint64

from graphrf._base.compiled import njit
from graphrf.graph.csr import index_dtype
from graphrf.graph.graph import Graph

_U32 = np.uint64(32)
# Weights that are compared together.
_CHUNK = 1 << 20


class Transitions(NamedTuple):
    """Rows of a simple random walk: from u to `indices[e]`, as likely as the weight is large.

    `cumulative` is the running share of each row's weights (its last entry is 1), or empty when the
    weights of every row are equal, so that the loops can choose uniformly.
    """

    indptr: np.ndarray
    indices: np.ndarray
    cumulative: np.ndarray


def transitions(
    adjacency: sp.csr_array, weighted: bool = True, chunk_size: int = _CHUNK
) -> Transitions:
    """The walk arrays of a canonical CSR adjacency with positive weights; O(nnz), or O(1) if not
    `weighted`.

    They are read-only and of one index type, so that the loops are compiled once for all graphs.
    """
    index_type = index_dtype(adjacency.shape[0], adjacency.nnz)
    indptr = adjacency.indptr.astype(index_type, copy=False)
    indices = adjacency.indices.astype(index_type, copy=False)
    cumulative = np.zeros(0)
    if weighted:
        cumulative = _running_shares(indptr, adjacency.data, chunk_size)
    for array in (indptr, indices, cumulative):
        array.setflags(write=False)
    return Transitions(indptr, indices, cumulative)


# Queries come one by one, and the arrays of weights take a pass over the whole graph.
_known: weakref.WeakKeyDictionary[Graph, Transitions] = weakref.WeakKeyDictionary()


def graph_transitions(graph: Graph) -> Transitions:
    """The walk arrays of a graph's adjacency, kept as long as the graph."""
    if graph not in _known:
        _ = graph.degrees  # raises an error if sums of weights overflow
        _known[graph] = transitions(graph.adjacency, graph.is_weighted)
    return _known[graph]


def _running_shares(
    indptr: np.ndarray, weights: np.ndarray, chunk_size: int = _CHUNK
) -> np.ndarray:
    """Running shares of each row's weights; empty when the weights of every row are equal."""
    if _rows_are_level(indptr, weights, chunk_size):
        return np.zeros(0)
    # Sums run within each row, so that a heavy row does not blur the shares of a light one.
    cumulative = row_cumsum(weights, indptr)
    divide_by_last(cumulative, indptr)
    return cumulative


def _rows_are_level(indptr: np.ndarray, weights: np.ndarray, chunk_size: int) -> bool:
    """True if the weights of every row are equal: they then change only where a row begins."""
    for start in range(1, weights.size, chunk_size):
        end = min(start + chunk_size, weights.size)
        changes = start + np.flatnonzero(weights[start:end] != weights[start - 1 : end - 1])
        changes = changes.astype(indptr.dtype)  # avoids a conversion of indptr in the search
        if (indptr[np.searchsorted(indptr, changes)] != changes).any():
            return False
    return True


@njit(nogil=True, cache=True)
def divide_by_last(sums, indptr):  # type: ignore[no-untyped-def]
    """Divide every CSR row by its last entry, which becomes 1 exactly."""
    for row in range(indptr.size - 1):
        if indptr[row] < indptr[row + 1]:
            last = indptr[row + 1] - 1
            total = sums[last]
            for entry in range(indptr[row], last):
                sums[entry] /= total
            sums[last] = 1.0


def row_cumsum(weights: np.ndarray, indptr: np.ndarray) -> np.ndarray:
    """Running sums of `weights` within CSR rows, in a NumPy array, for its large pages."""
    sums = np.empty(weights.size)
    _sum_rows(weights, indptr, sums)
    return sums


@njit(nogil=True, cache=True)
def _sum_rows(weights, indptr, sums):  # type: ignore[no-untyped-def]
    for row in range(indptr.size - 1):
        total = 0.0
        for entry in range(indptr[row], indptr[row + 1]):
            total += weights[entry]
            sums[entry] = total


@njit(inline="always")
def neighbour(v, bits, indptr, indices, cumulative):  # type: ignore[no-untyped-def]
    """The neighbour of v that 64 random bits choose, in proportion to edges' weights.

    Without `cumulative` the high 32 bits choose, and a neighbour's probability is 1/degree within
    2^-32.
    """
    low = np.int64(indptr[v])
    high = np.int64(indptr[v + 1])
    if cumulative.size == 0:
        return indices[low + np.int64(((bits >> _U32) * uint64(high - low)) >> _U32)]
    x = float(bits >> np.uint64(11)) * 2.0**-53
    high -= 1
    while low < high:
        middle = (low + high) >> 1
        if x < cumulative[middle]:
            high = middle
        else:
            low = middle + 1
    return indices[low]
