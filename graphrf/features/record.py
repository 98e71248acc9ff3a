"""The record of features on the host: nodes reached from each row, steps, and counts."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from graphrf.features.rows import MOST_SHORT, gathered


@dataclass(frozen=True, eq=False)
class Record:
    """Rows of entries (nodes reached), and entries of visits (steps); read-only.

    `indptr` and `visit_ptr`, shape (n + 1,), are the starts of each row's entries and visits, int32
    or int64; `indices`, of the type of `indptr`, the nodes reached, ascending within a row;
    `visits_per_entry` and `steps`, ascending within an entry, are uint16; `counts` uint16 of walks,
    float32 of powers. Powers have `work`, int64, the multiply-adds of each row, and cut ones
    `dropped`, float32, shape (n, steps), the norms of the dropped part of each row of W^k.
    `graphrf.features.device_record.DeviceRecord` is the same in tensors.
    """

    indptr: np.ndarray
    indices: np.ndarray
    visit_ptr: np.ndarray
    visits_per_entry: np.ndarray
    steps: np.ndarray
    counts: np.ndarray
    work: np.ndarray | None = None
    dropped: np.ndarray | None = None

    def __post_init__(self) -> None:
        for array in self.arrays().values():
            array.setflags(write=False)  # loops are compiled for read-only arrays alone

    def __reduce__(self) -> Any:
        # Pickle drops read-only flags.
        return Record, tuple(getattr(self, part.name) for part in fields(self))

    @classmethod
    def empty(cls, of_powers: bool) -> Record:
        """The record of no rows."""
        return cls(
            indptr=np.zeros(1, np.int32),
            indices=np.zeros(0, np.int32),
            visit_ptr=np.zeros(1, np.int64),
            visits_per_entry=np.zeros(0, np.uint16),
            steps=np.zeros(0, np.uint16),
            counts=np.zeros(0, np.float32 if of_powers else np.uint16),
            work=np.zeros(0, np.int64) if of_powers else None,
        )

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.indptr.size - 1)

    @property
    def n_entries(self) -> int:
        """Number of entries of all rows."""
        return int(self.indices.size)

    @property
    def nbytes(self) -> int:
        """Memory of the arrays in bytes."""
        return sum(array.nbytes for array in self.arrays().values())

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays that are not None, by name."""
        named = {part.name: getattr(self, part.name) for part in fields(self)}
        return {name: array for name, array in named.items() if array is not None}

    def total_count(self) -> int:
        """The sum of the counts of walks."""
        return int(self.counts.sum())

    def take(self, rows: np.ndarray, most_short: int = MOST_SHORT) -> Record:
        """Some of the rows, in the order given; repeats are allowed. The pointer is int64 above
        `most_short` entries.
        """
        entries, indptr = gathered(self.indptr, rows, most_short)
        visits, visit_ptr = gathered(self.visit_ptr, rows)
        return Record(
            indptr=indptr,
            indices=self.indices[entries].astype(indptr.dtype, copy=False),
            visit_ptr=visit_ptr,
            visits_per_entry=self.visits_per_entry[entries],
            steps=self.steps[visits],
            counts=self.counts[visits],
            work=None if self.work is None else self.work[rows],
            dropped=None if self.dropped is None else self.dropped[rows],
        )
