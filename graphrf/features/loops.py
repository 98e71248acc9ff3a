"""The compiled loops over the visits of features; `counts` are uint16 of walks, float32 of powers."""

from __future__ import annotations

import numpy as np
from numba import uint64

from graphrf._base.compiled import njit


@njit(nogil=True, cache=True)
def fill_values(  # type: ignore[no-untyped-def]
    first, last, indptr, indices, visit_ptr, visits_per_entry, steps, counts, load, nodes, root, data
):
    """Values of the feature matrix for rows first .. last - 1."""
    for row in range(uint64(first), uint64(last)):
        visit = uint64(visit_ptr[row])
        own = root[uint64(nodes[row])] if root.size else 1.0
        for entry in range(uint64(indptr[row]), uint64(indptr[row + uint64(1)])):
            behind = visit + uint64(visits_per_entry[entry])
            value = 0.0
            while visit < behind:
                value += counts[visit] * load[uint64(steps[visit])]
                visit += uint64(1)
            if root.size:
                value *= own / root[uint64(indices[entry])]
            data[entry] = value


@njit(nogil=True, fastmath={"reassoc"})
def _inner(y, row, x, column):  # type: ignore[no-untyped-def]
    """<y_row, x_column>: terms of the arrays' type, added up in float64 in the lanes of vector registers."""
    total = 0.0
    for j in range(uint64(x.shape[1])):
        total += y[row, j] * x[column, j]
    return total


@njit(nogil=True, cache=True)
def step_products(  # type: ignore[no-untyped-def]
    first, last, indptr, indices, visit_ptr, visits_per_entry, steps, counts, nodes, root, x, y, n_steps
):
    """Sums over the visits at step k of rows first .. last - 1 of count * sqrt(d_i / d_v) * <y_i, x_v>."""
    sums = np.zeros(n_steps)
    for row in range(uint64(first), uint64(last)):
        visit = uint64(visit_ptr[row])
        own = root[uint64(nodes[row])] if root.size else 1.0
        for entry in range(uint64(indptr[row]), uint64(indptr[row + uint64(1)])):
            column = uint64(indices[entry])
            product = _inner(y, row, x, column)
            if root.size:
                product *= own / root[column]
            behind = visit + uint64(visits_per_entry[entry])
            while visit < behind:
                sums[uint64(steps[visit])] += counts[visit] * product
                visit += uint64(1)
    return sums


@njit(nogil=True, cache=True)
def multiply_pairs(first, last, indptr, rows, left, right, product):  # type: ignore[no-untyped-def]
    """Add rows first .. last - 1 of the strictly lower triangle of L R^T + R L^T, for L and R of one pattern.

    Parameters
    ----------
    indptr, rows : int64 and int32, the pattern by columns (CSC), rows sorted in each
    left, right : float64, shape (nnz,)
    product : float64, shape (m, m)
    """
    for column in range(indptr.size - 1):
        start = indptr[column]
        for a in range(start + 1, indptr[column + 1]):
            i = rows[a]
            if i < first:
                continue
            if i >= last:
                break
            for b in range(start, a):
                product[i, rows[b]] += left[a] * right[b] + right[a] * left[b]
