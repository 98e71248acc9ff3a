"""The compiled loops over visits of features; `counts` are uint16 of walks, float32 of powers."""

from __future__ import annotations

import numpy as np
from numba import uint64

from graphrf._base.compiled import njit


@njit(nogil=True, cache=True)
def fill_values(  # type: ignore[no-untyped-def]
    first,
    last,
    indptr,
    indices,
    visit_ptr,
    visits_per_entry,
    steps,
    counts,
    load,
    nodes,
    root,
    data,
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
    """<y_row, x_column>: products in the arrays' type, summed in float64 in vector registers."""
    total = 0.0
    for j in range(uint64(x.shape[1])):
        total += y[row, j] * x[column, j]
    return total


@njit(nogil=True, cache=True)
def step_products(  # type: ignore[no-untyped-def]
    first,
    last,
    indptr,
    indices,
    visit_ptr,
    visits_per_entry,
    steps,
    counts,
    nodes,
    root,
    x,
    y,
    n_steps,
):
    """Sums over visits at step k of rows first .. last - 1 of count sqrt(d_i / d_v) <y_i, x_v>."""
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
def entry_values(  # type: ignore[no-untyped-def]
    first,
    last,
    indptr,
    visit_ptr,
    visits_per_entry,
    steps,
    counts,
    ratios,
    loads,
    places,
    values,
    diagonals,
):
    """Entries of rows first .. last - 1 under two modulations (`loads`), and diagonals of products.

    `ratios` are sqrt(d_i / d_v) of each entry, empty if all are 1. places[i] is the index of entry
    i in `values`; past its end nothing is stored. `diagonals` are those of R R^T and of R S^T + S
    R^T.
    """
    for row in range(uint64(first), uint64(last)):
        visit = uint64(visit_ptr[row])
        square, product = 0.0, 0.0
        for entry in range(uint64(indptr[row]), uint64(indptr[row + uint64(1)])):
            behind = visit + uint64(visits_per_entry[entry])
            value, slope = 0.0, 0.0
            while visit < behind:
                step = uint64(steps[visit])
                value += counts[visit] * loads[step, 0]
                slope += counts[visit] * loads[step, 1]
                visit += uint64(1)
            if ratios.size:
                value *= ratios[entry]
                slope *= ratios[entry]
            square += value * value
            product += value * slope
            place = uint64(places[entry])
            if place < uint64(values.shape[0]):
                values[place, 0], values[place, 1] = value, slope
        diagonals[row, 0], diagonals[row, 1] = square, 2.0 * product


@njit(nogil=True, cache=True)
def multiply_pairs(first, last, indptr, rows, values, products):  # type: ignore[no-untyped-def]
    """Add rows first .. last - 1 of the lower triangles of R R^T and, optionally, R S^T + S R^T.

    `indptr` and `rows` are the pattern of R and S by columns (CSC), rows ascending in each;
    `values`, shape (nnz, 2), those of R and of S; `products` has shape (m, m, 1) or (m, m, 2).
    """
    both = products.shape[2] > 1
    for column in range(uint64(indptr.size - 1)):
        start = uint64(indptr[column])
        for a in range(start + uint64(1), uint64(indptr[column + uint64(1)])):
            row = rows[a]
            if row < first:
                continue
            if row >= last:
                break
            value, slope = values[a, 0], values[a, 1]
            if both:
                for b in range(start, a):
                    other = uint64(rows[b])
                    products[uint64(row), other, 0] += value * values[b, 0]
                    products[uint64(row), other, 1] += value * values[b, 1] + slope * values[b, 0]
            else:
                for b in range(start, a):
                    products[uint64(row), uint64(rows[b]), 0] += value * values[b, 0]


@njit(nogil=True, cache=True)
def symmetric(products, number, diagonals):  # type: ignore[no-untyped-def]
    """One of the `products` as a symmetric matrix with its diagonal, by tiles for the cache."""
    size, tile = products.shape[0], 32
    matrix = np.empty((size, size))
    for top in range(0, size, tile):
        for left in range(0, top + 1, tile):
            for i in range(top, min(top + tile, size)):
                for j in range(left, min(left + tile, i)):
                    matrix[i, j] = products[i, j, number]
                    matrix[j, i] = products[i, j, number]
    for i in range(size):
        matrix[i, i] = diagonals[i, number]
    return matrix
