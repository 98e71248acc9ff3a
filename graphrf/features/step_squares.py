"""The mean squares of features step by step, from which the mean variance of any kernel follows; without torch."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from graphrf.features.frame import Frame
from graphrf.features.record import Record
from graphrf.features.rows import row_blocks


def step_squares(frame: Frame, nodes: np.ndarray, record: Record) -> np.ndarray:
    """<P_k, P_l> / n for all steps, shape (L + 1, L + 1), float64: f^T M f is the mean diagonal entry of F F^T.

    Of features in blocks of rows it is the mean of the blocks' own, weighted by their numbers of rows.
    """
    load = 1.0 / frame.walkers
    root = frame.degree_roots
    sums = np.zeros((load.size, load.size))
    for first, last in row_blocks(record.indptr):
        entries, visits = (slice(int(ends[first]), int(ends[last])) for ends in (record.indptr, record.visit_ptr))
        per_entry = record.visits_per_entry[entries].astype(np.int64)
        counts = record.counts[visits].astype(np.float64)
        if root.size:
            own = np.repeat(root[nodes[first:last]], np.diff(record.indptr[first : last + 1]))
            counts *= np.repeat(own / root[record.indices[entries]], per_entry)
        pointer = np.concatenate([[0], np.cumsum(per_entry)])
        by_step = sp.csr_array(
            (counts, record.steps[visits].astype(np.int64), pointer), shape=(per_entry.size, load.size)
        )
        sums += (by_step.T @ by_step).toarray()
    return np.asarray(sums * np.outer(load, load) / nodes.size)
