"""Sparse matrices by rows: pieces of them, the type of their indices, and their digest."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

# Entries that are read together: 2 MiB of the widest type.
_CHUNK = 1 << 18


def chunks(array: np.ndarray) -> Iterator[np.ndarray]:
    """Views of consecutive entries of a vector."""
    for start in range(0, array.size, _CHUNK):
        yield array[start : start + _CHUNK]


def row_pieces(indptr: np.ndarray) -> Iterator[tuple[int, np.ndarray, slice]]:
    """All entries in pieces of at most `_CHUNK` entries and rows: first row, sizes, and place.

    Each block of rows has at least one piece, which may be without entries.
    """
    for first in range(0, indptr.size - 1, _CHUNK):
        pointers = indptr[first : first + _CHUNK + 1].astype(np.int64)
        for start in range(int(pointers[0]), max(int(pointers[-1]), int(pointers[0]) + 1), _CHUNK):
            stop = min(start + _CHUNK, int(pointers[-1]))
            yield first, np.diff(pointers.clip(start, stop)), slice(start, stop)


def index_dtype(n_nodes: int, n_entries: int) -> np.dtype:
    """The type of both index arrays of an adjacency matrix."""
    return np.dtype(np.int32 if n_entries < 2**31 and n_nodes <= 2**31 else np.int64)


def graph_digest(adjacency: sp.csr_array) -> str:
    """SHA-256 of indptr, indices and weights, whatever the indices' width; O(nnz) time."""
    digest = hashlib.sha256()
    for array in (adjacency.indptr, adjacency.indices, adjacency.data):
        for chunk in chunks(array):
            digest.update(canonical(chunk))
    return digest.hexdigest()


def canonical(chunk: np.ndarray) -> memoryview:
    """The bytes that enter the digest: little-endian int64 or float64."""
    return np.ascontiguousarray(chunk, dtype="<f8" if chunk.dtype.kind == "f" else "<i8").data
