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
def add_pairs(  # type: ignore[no-untyped-def]
    indptr, rows, values, slopes, gram, changes
):
    """Add the lower triangles of R R^T and of dR R^T + R dR^T, for a sparse R by columns.

    Parameters
    ----------
    indptr, rows : int64, the pattern by columns (CSC), rows sorted in each
    values : float64, shape (nnz,), R
    slopes : float64, shape (q, nnz), derivatives of R
    gram, changes : float64, shapes (m, m) and (q, m, m)
    """
    for column in range(indptr.size - 1):
        for a in range(indptr[column], indptr[column + 1]):
            i = rows[a]
            for b in range(indptr[column], a + 1):
                j = rows[b]
                gram[i, j] += values[a] * values[b]
                for t in range(slopes.shape[0]):
                    changes[t, i, j] += slopes[t, a] * values[b] + values[a] * slopes[t, b]
