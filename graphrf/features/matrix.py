"""Feature matrices in scipy's CSR form, and the mean products of features of any two steps."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from graphrf._base.memory import require_memory
from graphrf._base.threads import ordered_map, thread_count
from graphrf.features.loops import fill_values
from graphrf.features.record import Record
from graphrf.features.rows import BLOCK_ENTRIES, row_blocks
from graphrf.features.sample_info import SampleInfo


def feature_matrix(
    info: SampleInfo,
    nodes: np.ndarray,
    record: Record,
    f: np.ndarray,
    *,
    n_threads: int | None = None,
    block_entries: int = BLOCK_ENTRIES,
) -> sp.csr_array:
    """The feature matrix of a modulation, for the record of some nodes; see `Features.matrix`."""
    load = info.load(f)
    root = info.degree_roots
    require_memory(
        record.n_entries * info.dtype.itemsize,
        f"a feature matrix of {record.n_entries} non-zeros",
        'take some of the rows (Features.take), or sample with dtype="float32"',
    )
    data = np.empty(record.n_entries, dtype=info.dtype)

    def fill(rows: tuple[int, int]) -> None:
        fill_values(
            rows[0],
            rows[1],
            record.indptr,
            record.indices,
            record.visit_ptr,
            record.visits_per_entry,
            record.steps,
            record.counts,
            load,
            nodes,
            root,
            data,
        )

    for _ in ordered_map(fill, row_blocks(record.indptr, block_entries), thread_count(n_threads)):
        pass
    return sp.csr_array((data, record.indices, record.indptr), shape=(nodes.size, info.n_nodes))


def step_squares(info: SampleInfo, nodes: np.ndarray, record: Record) -> np.ndarray:
    """<P_k, P_l> / n for all steps, (L + 1, L + 1): f^T M f is the mean diagonal of F F^T."""
    load = 1.0 / info.walkers
    root = info.degree_roots
    sums = np.zeros((load.size, load.size))
    for first, last in row_blocks(record.indptr):
        entries, visits = (
            slice(int(ends[first]), int(ends[last])) for ends in (record.indptr, record.visit_ptr)
        )
        per_entry = record.visits_per_entry[entries].astype(np.int64)
        counts = record.counts[visits].astype(np.float64)
        if root.size:
            own = np.repeat(root[nodes[first:last]], np.diff(record.indptr[first : last + 1]))
            counts *= np.repeat(own / root[record.indices[entries]], per_entry)
        pointer = np.concatenate([[0], np.cumsum(per_entry)])
        by_step = sp.csr_array(
            (counts, record.steps[visits].astype(np.int64), pointer),
            shape=(per_entry.size, load.size),
        )
        sums += (by_step.T @ by_step).toarray()
    return np.asarray(sums * np.outer(load, load) / nodes.size)
