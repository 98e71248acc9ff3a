"""Kronecker products of the rows of two sparse matrices."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from graphrf._base.rows import within


def row_products(first: sp.csr_array, second: sp.csr_array) -> sp.csr_array:
    """The rows a_i (x) b_i."""
    m, width = first.shape[0], second.shape[1]
    counts, others = np.diff(first.indptr), np.diff(second.indptr)
    sizes = counts * others
    row = np.repeat(np.arange(m), sizes)
    place = within(sizes)
    own = first.indptr[row] + place // np.maximum(others[row], 1)
    other = second.indptr[row] + place % np.maximum(others[row], 1)
    data = first.data[own] * second.data[other]
    columns = first.indices[own].astype(np.int64) * width + second.indices[other]
    return sp.csr_array(
        (data, columns, np.concatenate([[0], np.cumsum(sizes)])), shape=(m, first.shape[1] * width)
    )
