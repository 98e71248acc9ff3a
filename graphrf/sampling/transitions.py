"""The arrays that walk loops read: a CSR adjacency, with running shares of the weights where they differ."""

from __future__ import annotations

import weakref
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from graphrf.graph import Graph
from graphrf.sampling.walks import row_cumsum


class Transitions(NamedTuple):
    """Rows of a simple random walk: from u to `indices[e]`, with probability proportional to the weight.

    `cumulative` is the running share of each row's weights (its last entry is 1), or empty when the weights of
    every row are equal, so that the loops can choose uniformly.
    """

    indptr: np.ndarray
    indices: np.ndarray
    cumulative: np.ndarray


def transitions(adjacency: sp.csr_array) -> Transitions:
    """The walk arrays of a canonical CSR adjacency with positive weights; O(nnz).

    They are read-only and of one index type, so that the loops are compiled once for all graphs.
    """
    index_type = np.int32 if adjacency.nnz < 2**31 else np.int64
    indptr = adjacency.indptr.astype(index_type, copy=False)
    indices = adjacency.indices.astype(index_type, copy=False)
    cumulative = _running_shares(indptr, adjacency.data)
    for array in (indptr, indices, cumulative):
        array.setflags(write=False)
    return Transitions(indptr, indices, cumulative)


# Queries come one by one, and making the arrays looks at the whole graph.
_known: weakref.WeakKeyDictionary[Graph, Transitions] = weakref.WeakKeyDictionary()


def graph_transitions(graph: Graph) -> Transitions:
    """The walk arrays of a graph's adjacency, kept as long as the graph."""
    if graph not in _known:
        _known[graph] = transitions(graph.adjacency)
    return _known[graph]


def _running_shares(indptr: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Running shares of each row's weights; empty when the weights of every row are equal."""
    degree = np.diff(indptr)
    filled = degree > 0
    first = np.repeat(weights[indptr[:-1][filled]], degree[filled])
    if np.array_equal(first, weights):
        return np.zeros(0)
    # Sums run within each row, so that a heavy row does not blur the shares of a light one.
    cumulative = np.asarray(row_cumsum(weights, indptr))
    last = indptr[1:][filled] - 1
    cumulative /= np.repeat(cumulative[last], degree[filled])
    cumulative[last] = 1.0
    return cumulative
