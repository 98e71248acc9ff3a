"""Validation of adjacency matrices, done once, when a graph is made."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from graphrf._base import checks
from graphrf._base.memory import require_memory
from graphrf.graph.csr import index_dtype

_OTHER_SOURCES = (
    "graphrf.load_graph reads files and other libraries' graphs, graphrf.from_edges edge lists"
)


def validated_adjacency(adjacency: Any, directed: bool) -> sp.csr_array:
    """A private, read-only, canonical CSR copy of a legal adjacency matrix."""
    if sp.issparse(adjacency):
        matrix = adjacency
    else:
        adjacency = checks.to_array_like("adjacency", adjacency)
        try:
            matrix = np.asarray(adjacency)
        except ValueError as error:  # ragged lists
            raise checks.value_error("adjacency", f"must be a square matrix: {error}") from None

    if matrix.dtype.kind not in "biuf":
        raise checks.type_error(
            "adjacency",
            f"must be a numeric matrix, got {checks.describe(matrix)}; {_OTHER_SOURCES}",
        )
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise checks.value_error(
            "adjacency", f"must be a square matrix, got {checks.describe(matrix)}; {_OTHER_SOURCES}"
        )

    n_nodes = matrix.shape[0]
    if n_nodes == 0:
        raise checks.value_error("adjacency", "must have at least one node, got shape (0, 0)")
    if n_nodes >= 2**32:
        raise checks.value_error("adjacency", f"must have fewer than 2^32 nodes, got {n_nodes}")
    stored = matrix.nnz if sp.issparse(matrix) else np.count_nonzero(matrix)
    require_memory(
        24.0 * stored + 16.0 * n_nodes,
        f"a graph of {n_nodes} nodes and {stored} entries",
        "pass fewer nodes",
    )

    # Converted first: duplicates are added on the way to CSR, where small integers would overflow.
    csr = sp.csr_array(matrix.astype(np.float64, copy=False), copy=True)
    if not csr.has_canonical_format:
        csr.sum_duplicates()
    _check_weights(csr)
    csr.eliminate_zeros()
    if not directed:
        csr = _symmetric(csr)

    narrow = index_dtype(n_nodes, csr.nnz)
    if narrow == np.int32 and csr.indices.dtype != narrow:
        csr = sp.csr_array(
            (csr.data, csr.indices.astype(narrow), csr.indptr.astype(narrow)), shape=csr.shape
        )
    for array in (csr.data, csr.indices, csr.indptr):
        array.setflags(write=False)
    return csr


def _check_weights(csr: sp.csr_array) -> None:
    """Refuse weights that are NaN, infinite or negative."""
    for problem, bad, way_out in (
        ("NaN", np.isnan(csr.data), "drop or fill them first"),
        ("infinite", np.isinf(csr.data), "drop or fill them first"),
        ("negative", csr.data < 0, "weights are similarities, at least 0"),
    ):
        if bad.any():
            row, column = _place(csr, int(np.flatnonzero(bad)[0]))
            raise checks.value_error(
                "adjacency",
                f"must hold finite weights of at least 0, got {int(bad.sum())} {problem} "
                f"entries, the first at [{row}, {column}]; {way_out}",
            )


def _symmetric(csr: sp.csr_array) -> sp.csr_array:
    """The matrix itself if symmetric; its symmetric part if it differs from it by rounding only."""
    transposed = sp.csr_array(csr.T)
    if not transposed.has_sorted_indices:
        transposed.sort_indices()

    same_pattern = np.array_equal(csr.indptr, transposed.indptr) and np.array_equal(
        csr.indices, transposed.indices
    )
    if same_pattern and np.array_equal(csr.data, transposed.data):
        return csr

    if same_pattern:
        off = np.abs(csr.data - transposed.data) > 1e-10 * np.maximum(csr.data, transposed.data)
        if not off.any():
            return sp.csr_array(
                (0.5 * (csr.data + transposed.data), csr.indices, csr.indptr), shape=csr.shape
            )
        row, column = _place(csr, int(np.flatnonzero(off)[0]))
    else:
        difference = sp.coo_array(csr - transposed)
        worst = int(np.abs(difference.data).argmax())
        row, column = int(difference.row[worst]), int(difference.col[worst])

    raise checks.value_error(
        "adjacency",
        f"must be symmetric, got {csr[row, column]:g} at [{row}, {column}] but "
        f"{csr[column, row]:g} at [{column}, {row}]; pass directed=True to keep directions, "
        "or A + A.T to drop them",
    )


def _place(csr: sp.csr_array, entry: int) -> tuple[int, int]:
    """Row and column of a stored entry."""
    return int(np.searchsorted(csr.indptr, entry, side="right")) - 1, int(csr.indices[entry])
