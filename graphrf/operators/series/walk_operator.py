"""The walk matrix for Chebyshev recurrences: scaled to [-2, 2], renumbered if worth it."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee

from graphrf.graph.graph import Graph
from graphrf.kernels.chebyshev import WIDTHS

# The spread of edges, over that in the given order, from which on another one is worth it.
_NARROWER = 0.8

# The matrices that somebody holds: several kernels of one graph need the same one at the same time,
# as in an average over hyperparameters.
_in_use: weakref.WeakKeyDictionary[Graph, dict[str, tuple[weakref.ref[sp.csr_array], float]]]
_in_use = weakref.WeakKeyDictionary()

# Those that `kept_matrices` holds.
_kept: ContextVar[list[sp.csr_array] | None] = ContextVar("kept", default=None)


@contextmanager
def kept_matrices() -> Iterator[None]:
    """A context in which matrices of `doubled_matrix` stay in memory for later callers."""
    token = _kept.set([])
    try:
        yield
    finally:
        _kept.reset(token)


def doubled_matrix(graph: Graph, laplacian: str) -> tuple[sp.csr_array, float]:
    """2 M, M = I - 2 (I - W) / width, and the width of the interval up to 1 of W's spectrum.

    As long as one caller holds the matrix, or it was made within `kept_matrices`, all others are
    given the same one, so none of them may change it.
    """
    of_graph = _in_use.setdefault(graph, {})
    if laplacian in of_graph:
        known, width = of_graph[laplacian]
        if (matrix := known()) is not None:
            return matrix, width
    matrix, width = _made_doubled(graph, laplacian)
    of_graph[laplacian] = weakref.ref(matrix), width
    if (kept := _kept.get()) is not None:
        kept.append(matrix)
    return matrix, width


def _made_doubled(graph: Graph, laplacian: str) -> tuple[sp.csr_array, float]:
    """Compute the matrix and width that `doubled_matrix` returns.

    M has its eigenvalues in [-1, 1]. Self-loops are no part of L = D - A, but of its scale c = 2
    max(D), and with heavy ones all eigenvalues of W = I - L / c lie near 1. On a wider interval
    functions of L may be huge where there is no eigenvalue, and their values at eigenvalues drown;
    the width is that of the graph without loops.
    """
    width = WIDTHS[laplacian]
    middle = 1.0 - 0.5 * width
    plain = graph.without_loops() if laplacian == "combinatorial" else graph
    walk = plain.walk_matrix(laplacian)
    if middle:
        walk = walk - middle * sp.eye_array(walk.shape[0], format="csr")
    doubled = sp.csr_array(walk * (4.0 / width))
    if doubled.nnz <= np.iinfo(np.int32).max:
        indices = (
            doubled.indices.astype(np.int32, copy=False),
            doubled.indptr.astype(np.int32, copy=False),
        )
        doubled = sp.csr_array((doubled.data, *indices), shape=doubled.shape)
    if plain is not graph:
        ratio = plain.laplacian_scale(laplacian) / graph.laplacian_scale(laplacian)
        width *= ratio if plain.adjacency.nnz else 0.0  # without edges all of W's eigenvalues are 1
    return doubled, width


def renumbered_matrix(matrix: sp.csr_array) -> tuple[sp.csr_array, np.ndarray]:
    """A symmetric matrix with neighbours near in node order, and the place of each node.

    The order is the reverse one of Cuthill and McKee, found in O(nnz); the matrix itself where
    neighbours are near already.
    """
    as_given = np.arange(matrix.shape[0])
    if _spread(matrix) <= np.sqrt(matrix.shape[0]):
        return matrix, as_given
    order = reverse_cuthill_mckee(sp.csr_matrix(matrix), symmetric_mode=True)
    place = np.empty_like(order)
    place[order] = np.arange(order.size, dtype=order.dtype)
    rows = matrix[order]
    moved = sp.csr_array(
        (rows.data, place[rows.indices].astype(matrix.indices.dtype), rows.indptr), rows.shape
    )
    if _spread(moved) > _NARROWER * _spread(matrix):
        return matrix, as_given
    moved.sort_indices()
    return moved, place.astype(np.int64)


def _spread(matrix: sp.csr_array) -> float:
    """Mean distance between the two nodes of an edge in the order of the nodes."""
    rows = np.repeat(np.arange(matrix.shape[0], dtype=matrix.indices.dtype), np.diff(matrix.indptr))
    return float(np.abs(rows - matrix.indices).mean()) if rows.size else 0.0
