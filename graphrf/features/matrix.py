"""Feature matrices in scipy's CSR form."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from graphrf._base.memory import require_memory
from graphrf._base.threads import ordered_map, thread_count
from graphrf.features.frame import Frame
from graphrf.features.loops import fill_values
from graphrf.features.record import Record
from graphrf.features.rows import row_blocks


def feature_matrix(
    frame: Frame, nodes: np.ndarray, record: Record, f: np.ndarray, *, n_threads: int | None = None
) -> sp.csr_array:
    """The feature matrix of a modulation, for the record of some nodes; see `Features.matrix`."""
    load = frame.load(f)
    root = frame.degree_roots
    require_memory(
        record.n_entries * frame.dtype.itemsize,
        f"a feature matrix of {record.n_entries} non-zeros",
        'take some of the rows (Features.take), or sample with dtype="float32"',
    )
    data = np.empty(record.n_entries, dtype=frame.dtype)

    def fill(rows: tuple[int, int]) -> None:
        fill_values(
            rows[0], rows[1], record.indptr, record.indices, record.visit_ptr, record.visits_per_entry,
            record.steps, record.counts, load, nodes, root, data,
        )  # fmt: skip

    for _ in ordered_map(fill, row_blocks(record.indptr), thread_count(n_threads)):
        pass
    return sp.csr_array((data, record.indices, record.indptr), shape=(nodes.size, frame.n_nodes))
