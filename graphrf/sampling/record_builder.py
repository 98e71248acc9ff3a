"""The record of many rows, built from blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphrf._base.threads import ordered_map
from graphrf.features.record import Record
from graphrf.sampling.block import Block
from graphrf.sampling.protocol import PreparedSampler

# Room in excess of the expected size, as a factor and in elements; untouched memory costs nothing.
SPARE, SLACK = 1.1, 65_536
_COUNTS = np.dtype(np.uint16)


def record_bytes(n_rows: int, n_entries: int, n_visits: int, count_bytes: int = 2) -> int:
    """Memory of a record: 4 bytes a visit (6 of powers), 6 or 10 an entry, 20 or 24 a row."""
    index = 4 if n_entries < 2**31 else 8
    return (
        (2 + count_bytes) * n_visits
        + (2 + index) * n_entries
        + (8 + index) * (n_rows + 1)
        + 8 * n_rows
    )


class RecordBuilder:
    """One record from blocks that arrive in order.

    Arrays are allocated once, a little larger than expected, so that peak memory is the record and
    the blocks in flight.
    """

    def __init__(
        self,
        n_rows: int,
        n_nodes: int,
        expected: tuple[int, int],
        counts_dtype: np.dtype[Any] = _COUNTS,
    ) -> None:
        entries, visits = (int(SPARE * size) + SLACK for size in expected)
        self._wide = max(entries, n_nodes) >= 2**31
        self._entries: dict[str, np.ndarray] = {
            "indices": np.empty(entries, np.int64 if self._wide else np.int32),
            "visits_per_entry": np.empty(entries, np.uint16),
        }
        self._visits: dict[str, np.ndarray] = {
            "steps": np.empty(visits, np.uint16),
            "counts": np.empty(visits, counts_dtype),
        }
        self._per_row: dict[str, np.ndarray] = {}
        self._indptr = np.zeros(n_rows + 1, np.int64)
        self._visit_ptr = np.zeros(n_rows + 1, np.int64)
        self._rows = 0

    @property
    def size(self) -> tuple[int, int]:
        """Entries and visits so far."""
        return int(self._indptr[self._rows]), int(self._visit_ptr[self._rows])

    def append(self, block: Block) -> None:
        """Copy the next block to its place."""
        end = self._rows + block.n_rows
        for pointer, sizes, arrays in (
            (self._indptr, block.entries_per_row, self._entries),
            (self._visit_ptr, block.visits_per_row, self._visits),
        ):
            start = int(pointer[self._rows])
            np.cumsum(sizes, out=pointer[self._rows + 1 : end + 1])
            pointer[self._rows + 1 : end + 1] += start
            stop = int(pointer[end])
            for name, array in arrays.items():
                if stop > array.size:
                    array = arrays[name] = _enlarged(array, start, stop + stop // 2)
                array[start:stop] = getattr(block, name)
        if block.work is None and self._visits["counts"].dtype == np.float32:
            raise ValueError(
                "blocks of powers (float32) must have `work`, the multiply-adds of each row"
            )
        for name in ("work", "dropped"):
            values = getattr(block, name)
            if values is not None:
                if name not in self._per_row:
                    self._per_row[name] = np.empty(
                        (self._indptr.size - 1, *values.shape[1:]), values.dtype
                    )
                self._per_row[name][self._rows : end] = values
        self._rows = end

    def record(self) -> Record:
        """The finished record, trimmed."""
        n_entries, n_visits = int(self._indptr[-1]), int(self._visit_ptr[-1])
        if not self._wide and n_entries >= 2**31:
            self._entries["indices"] = self._entries["indices"].astype(np.int64)
            self._wide = True
        for size, arrays in ((n_entries, self._entries), (n_visits, self._visits)):
            for array in arrays.values():
                # Releases the room at the end without a copy.
                array.resize(size, refcheck=False)
        # scipy requires both index arrays to have one type.
        indptr = self._indptr.astype(self._entries["indices"].dtype)
        return Record(
            indptr=indptr,
            visit_ptr=self._visit_ptr,
            **self._entries,
            **self._visits,
            **self._per_row,
        )


def draw_into(
    builder: Any,
    prepared: PreparedSampler,
    nodes: np.ndarray,
    size: int,
    threads: int,
    after: Callable[[int], Any] | None = None,
) -> None:
    """Append blocks of nodes, `size` rows each, to a builder; `after` gets their rows."""
    tasks = [nodes[start : start + size] for start in range(0, nodes.size, size)]
    for block in ordered_map(prepared.sample, tasks, threads):
        builder.append(block)
        if after is not None:
            after(block.n_rows)
        del block  # before the next one is made


def sample_rows(
    prepared: PreparedSampler,
    nodes: np.ndarray,
    n_nodes: int,
    size: int,
    threads: int = 1,
    after: Callable[[int], Any] | None = None,
) -> Record:
    """The record of some nodes of a graph with `n_nodes`; see `draw_into`."""
    entries, visits = prepared.merged_per_row
    expected = int(nodes.size * entries), int(nodes.size * visits)
    builder = RecordBuilder(nodes.size, n_nodes, expected, prepared.counts_dtype)
    draw_into(builder, prepared, nodes, size, threads, after)
    return builder.record()


def _enlarged(array: np.ndarray, used: int, room: int) -> np.ndarray:
    """A larger copy of the first `used` elements; the rest stays untouched, and costs nothing."""
    larger = np.empty(room, array.dtype)
    larger[:used] = array[:used]
    return larger
