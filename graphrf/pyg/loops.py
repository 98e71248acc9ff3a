"""The compiled loop over rows of sparse matrices that keeps their largest entries."""

from __future__ import annotations

import numpy as np

from graphrf._base.compiled import njit
from graphrf.sampling.powers.selection import kth_largest


@njit(nogil=True, cache=True)
def largest_entries(indptr, indices, data, k):  # type: ignore[no-untyped-def]
    """CSR arrays of the k entries of largest size of each row, not 0; early ones win ties."""
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
