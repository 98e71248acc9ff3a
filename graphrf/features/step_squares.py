"""The mean squares of features step by step, from which the mean variance of any kernel follows; without torch."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from graphrf.features.features import Features
from graphrf.features.rows import row_blocks


def step_squares(features: Features) -> np.ndarray:
    """<P_k, P_l> / n for all steps, shape (L + 1, L + 1), float64: f^T M f is the mean diagonal entry of F F^T.

    Of features in blocks of rows it is the mean of the blocks' own, weighted by their numbers of rows.
    """
    load = 1.0 / (features._survival * features.n_walks)
    root = features._degree_roots()
    sums = np.zeros((load.size, load.size))
    visit_ptr = features._visit_ptr
    for first, last in row_blocks(features._indptr):
        entries = slice(int(features._indptr[first]), int(features._indptr[last]))
        visits = slice(int(visit_ptr[first]), int(visit_ptr[last]))
        per_entry = features._visits_per_entry[entries].astype(np.int64)
        counts = features._counts[visits].astype(np.float64)
        if root.size:
            own = np.repeat(root[features.nodes[first:last]], np.diff(features._indptr[first : last + 1]))
            counts *= np.repeat(own / root[features._indices[entries]], per_entry)
        pointer = np.concatenate([[0], np.cumsum(per_entry)])
        by_step = sp.csr_array(
            (counts, features._steps[visits].astype(np.int64), pointer), shape=(per_entry.size, load.size)
        )
        sums += (by_step.T @ by_step).toarray()
    return np.asarray(sums * np.outer(load, load) / features.shape[0])
