"""Edges that come in chunks, checked one by one, as entries that sort as numbers."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from graphrf._base import checks
from graphrf.graph.edges import checked_positions, checked_weights, host_array

# An entry is one number, row * 2^32 + column, so that sorting numbers sorts entries.
SHIFT = np.uint64(32)
COLUMN = np.uint64(2**32 - 1)


class Tally(NamedTuple):
    """Counts and checksums on which both passes over the edges must agree."""

    n_edges: int = 0
    weighted: bool | None = None
    keys_checksum: int = 0
    weights_checksum: int = 0

    def with_chunk(self, keys: np.ndarray, weights: np.ndarray | None) -> Tally:
        """The tally after one more chunk."""
        return Tally(
            self.n_edges + keys.size,
            weights is not None,
            zlib.crc32(keys.data, self.keys_checksum),
            self.weights_checksum if weights is None else zlib.crc32(weights.data, self.weights_checksum),
        )


def checked_chunks(
    pass_once: Callable[[], Iterable[Any]], n_nodes: int | None
) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
    """Every chunk as keys source * 2^32 + target, uint64, and float64 weights or None."""
    chunks = pass_once()
    if not isinstance(chunks, Iterable):
        raise checks.type_error(
            "edges", f"must return an iterable of chunks of edges, got {checks.describe(chunks)}"
        )
    width = None
    for number, chunk in enumerate(chunks):
        if not isinstance(chunk, tuple | list) or len(chunk) not in (2, 3):
            raise checks.type_error(
                "edges",
                "must give chunks (sources, targets) or (sources, targets, weights), got for chunk "
                f"{number} {checks.describe(chunk)}; edges in one piece are a list of one chunk",
            )
        if width not in (None, len(chunk)):
            raise checks.value_error(
                "edges", f"must give weights in all chunks or in none, but chunk {number} is different"
            )
        width = len(chunk)
        sources, targets = (
            _chunk_positions(f"{name} of chunk {number}", values, n_nodes)
            for name, values in zip(("sources", "targets"), chunk[:2], strict=True)
        )
        if sources.size != targets.size:
            raise checks.value_error(
                "edges",
                f"must give as many sources as targets, got {sources.size} and {targets.size} in chunk {number}",
            )
        weights = None
        if width == 3:
            weights = _chunk_weights(number, chunk[2], sources.size)
        yield (sources << SHIFT) | targets, weights


def _chunk_positions(name: str, values: Any, n_nodes: int | None) -> np.ndarray:
    array = _chunk_array(name, values)
    if array.ndim != 1:
        hint = "; edges in one piece are a list of one chunk" if array.ndim == 0 else ""
        raise checks.value_error(name, f"must have shape (E,), got {array.shape}{hint}")
    if array.dtype.kind not in "iu" and array.size:
        numeric = array.dtype.kind in "fbc"
        way_out = "convert whole numbers with .astype(int)" if numeric else "graphrf.from_edges takes names"
        raise checks.type_error(name, f"must hold integer positions, got dtype {array.dtype}; {way_out}")
    return checked_positions(name, array, n_nodes).astype(np.uint64)


def _chunk_weights(number: int, values: Any, n_edges: int) -> np.ndarray:
    name = f"weights of chunk {number}"
    array = _chunk_array(name, values)
    if array.dtype.kind not in "biuf":
        raise checks.type_error(name, f"must hold numbers, got {checks.describe(values)}")
    if array.shape != (n_edges,):
        raise checks.value_error(name, f"must have shape ({n_edges},), one for each edge, got {array.shape}")
    return checked_weights(array, n_edges, "similarity", f"chunk {number}, edge {{}}".format)


def _chunk_array(name: str, values: Any) -> np.ndarray:
    try:
        return host_array(values)
    except ValueError as error:  # ragged lists
        raise checks.value_error(name, f"must be an array: {error}") from None


def entries_of(
    keys: np.ndarray, weights: np.ndarray | None, directed: bool
) -> tuple[np.ndarray, np.ndarray | None]:
    """Keys and weights of the matrix entries of a chunk, without zeros; mirrored ones have negative weights."""
    if weights is not None and not weights.all():
        keys, weights = keys[weights > 0], weights[weights > 0]
    if directed:
        return keys, weights
    mirrored = (keys << SHIFT) | (keys >> SHIFT)
    apart = mirrored != keys
    keys = np.concatenate([keys, mirrored[apart]])
    return keys, None if weights is None else np.concatenate([weights, -weights[apart]])


def rows_of(keys: np.ndarray) -> np.ndarray:
    """The rows of entries, int64."""
    return (keys >> SHIFT).view(np.int64)
