"""Sparse matrices by rows: pieces of them, the type of their indices, and their digest."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

# Entries that are read together: 2 MiB of the widest type.
CHUNK = 1 << 18

RowPieces = Iterator[tuple[int, np.ndarray, slice]]
"""First row, entries of each row, and where they are, for each piece of a matrix."""


def chunks(array: np.ndarray, size: int = CHUNK) -> Iterator[np.ndarray]:
    """Views of `size` consecutive entries of a vector."""
    for start in range(0, array.size, size):
        yield array[start : start + size]


def row_pieces(indptr: np.ndarray, size: int = CHUNK) -> RowPieces:
    """All entries in pieces of at most `size` entries and rows: first row, entries of each row,
    and where they are.

    Each block of rows has at least one piece, which may be without entries.
    """
    for first in range(0, indptr.size - 1, size):
        pointers = indptr[first : first + size + 1].astype(np.int64)
        for start in range(int(pointers[0]), max(int(pointers[-1]), int(pointers[0]) + 1), size):
            stop = min(start + size, int(pointers[-1]))
            yield first, np.diff(pointers.clip(start, stop)), slice(start, stop)


def index_dtype(n_nodes: int, n_entries: int) -> np.dtype:
    """The type of both index arrays of an adjacency matrix."""
    return np.dtype(np.int32 if n_entries < 2**31 and n_nodes <= 2**31 else np.int64)


def graph_digest(adjacency: sp.csr_array, chunk_size: int = CHUNK) -> str:
    """SHA-256 of indptr, indices and weights, whatever the width of the indices; O(nnz) time, O(1)
    memory.
    """
    digest = hashlib.sha256()
    for array in (adjacency.indptr, adjacency.indices, adjacency.data):
        for chunk in chunks(array, chunk_size):
            digest.update(canonical(chunk))
    return digest.hexdigest()


def canonical(chunk: np.ndarray) -> memoryview:
    """The bytes that enter the digest: little-endian int64 or float64."""
    return np.ascontiguousarray(chunk, dtype="<f8" if chunk.dtype.kind == "f" else "<i8").data
