"""Compiled loops over rows of sparse matrices and of features: their largest entries, and products of records."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from graphrf._base.compiled import njit
from graphrf.sampling.powers.selection import kth_largest


class Visits(NamedTuple):
    """What loops read of a record, and the factors that make probabilities of its counts at each step."""

    indptr: np.ndarray
    indices: np.ndarray
    visit_ptr: np.ndarray
    visits_per_entry: np.ndarray
    steps: np.ndarray
    counts: np.ndarray
    load: np.ndarray


@njit(nogil=True, cache=True)
def largest_entries(indptr, indices, data, k):  # type: ignore[no-untyped-def]
    """The k entries of largest size in each CSR row, in its order; zeros are dropped, early ones win ties.

    Returns indptr, indices and data of the result.
    """
    n_rows = indptr.size - 1
    new_indptr = np.zeros(n_rows + 1, np.int64)
    new_indices = np.empty(min(indices.size, n_rows * k), indices.dtype)
    new_data = np.empty(new_indices.size, data.dtype)
    n = 0
    for row in range(n_rows):
        sizes = np.abs(data[indptr[row] : indptr[row + 1]])
        least = 0.0
        ties = k
        if sizes.size > k:
            least = kth_largest(sizes.copy(), k)
            for size in sizes:
                ties -= size > least
        for i in range(sizes.size):
            if sizes[i] > least or (sizes[i] == least and least > 0.0 and ties > 0):
                ties -= sizes[i] == least
                new_indices[n] = indices[indptr[row] + i]
                new_data[n] = data[indptr[row] + i]
                n += 1
        new_indptr[row + 1] = n
    return new_indptr, new_indices[:n], new_data[:n]


@njit(nogil=True, cache=True)
def meeting_products(  # type: ignore[no-untyped-def]
    first, second, sources, degrees, products
):
    r"""Add sum_v c_iva c'_ivb d_i / d_v to products[i, a + b] for the steps a, b that differ by at most 1.

    c_iva and c'_ivb are the counts of two records of the same rows, `Visits`, times the loads of a and b; pairs
    (a, b) and (b, a), which estimate the same, are averaged. `products` has shape (n, 2 max_length + 1).
    """
    indptr, indices, visit_ptr, visits_per_entry, steps, counts, load = first
    other_indptr, other_indices, other_visit_ptr = second.indptr, second.indices, second.visit_ptr
    other_visits_per_entry, other_steps = second.visits_per_entry, second.steps
    other_counts, other_load = second.counts, second.load
    for row in range(indptr.size - 1):
        own = degrees[sources[row]]
        entry = indptr[row]
        other_entry = other_indptr[row]
        visit = visit_ptr[row]
        other_visit = other_visit_ptr[row]
        while entry < indptr[row + 1] and other_entry < other_indptr[row + 1]:
            node = indices[entry]
            other_node = other_indices[other_entry]
            if node == other_node:
                share = own / degrees[node]
                for i in range(visit, visit + visits_per_entry[entry]):
                    a = np.int64(steps[i])
                    value = counts[i] * load[a] * share
                    for j in range(other_visit, other_visit + other_visits_per_entry[other_entry]):
                        b = np.int64(other_steps[j])
                        if a == b:
                            products[row, a + b] += value * other_counts[j] * other_load[b]
                        elif abs(a - b) == 1:
                            products[row, a + b] += 0.5 * value * other_counts[j] * other_load[b]
            if node <= other_node:
                visit += visits_per_entry[entry]
                entry += 1
            if other_node <= node:
                other_visit += other_visits_per_entry[other_entry]
                other_entry += 1
