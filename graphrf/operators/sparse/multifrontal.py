r"""Cholesky factor and selected inverse of a sparse matrix by dense blocks: compiled loops.

The columns J of a block and the rows R below them make a dense front. Children add what is left of
theirs to it, its columns are factored, and what is left is passed to the block of the first row
(Duff and Reid 1983, "The multifrontal solution of indefinite sparse symmetric linear equations").
Of each block the factor holds X = L_JJ^-1 and L_RJ. The inverse Z comes back from the last block to
the first, on the same entries (Takahashi, Fagan and Chin 1973; Erisman and Tinney 1975):

.. math:: G = L_{RJ} X, \quad Z_{RJ} = -Z_{RR} G, \quad Z_{JJ} = X^\top X - G^\top Z_{RJ}.
"""

from __future__ import annotations

import numpy as np

from graphrf._base.compiled import njit
from graphrf.operators.sparse.symbolic import block_of


@njit(nogil=True, cache=True)
def factor(indptr, indices, data, start, begins, rows, offsets, values):  # type: ignore[no-untyped-def]
    """Fill `values` with X and L_RJ of each block; -1, or the block that is not positive.

    -2 if the matrix has an entry outside of the pattern that the blocks are made for.

    The matrix by columns; entries above the diagonal are passed over.
    """
    n_blocks = start.size - 1
    n = indptr.size - 1
    block = block_of(start)
    first = np.full(n_blocks, -1, np.int64)
    following = np.full(n_blocks, -1, np.int64)
    local = np.full(n, -1, np.int64)
    places = np.empty(n, np.int64)
    nothing = np.zeros((0, 0))
    left = [nothing] * n_blocks
    for b in range(n_blocks):
        low, k = start[b], start[b + 1] - start[b]
        below = rows[begins[b] : begins[b + 1]]
        r = below.size
        for j in range(k):
            local[low + j] = j
        for i in range(r):
            local[below[i]] = k + i
        columns = np.zeros((k + r, k))
        update = np.zeros((r, r))
        for j in range(k):
            for entry in range(indptr[low + j], indptr[low + j + 1]):
                i = indices[entry]
                if i >= low + j:
                    place = local[i]
                    if not (
                        0 <= place < k + r and i == (low + place if place < k else below[place - k])
                    ):
                        return -2
                    columns[place, j] += data[entry]
        child = first[b]
        while child != -1:
            theirs = left[child]
            m = begins[child + 1] - begins[child]
            for a in range(m):
                places[a] = local[rows[begins[child] + a]]
            for a in range(m):
                row = places[a]
                if row < k:
                    for c in range(a + 1):
                        columns[row, places[c]] += theirs[a, c]
                else:
                    for c in range(a + 1):
                        column = places[c]
                        if column < k:
                            columns[row, column] += theirs[a, c]
                        else:
                            update[row - k, column - k] += theirs[a, c]
            left[child] = nothing
            child = following[child]
        inverse = np.zeros((k, k))
        if k <= 8:
            if not _small_inverse(columns, k, inverse):
                return b
        else:
            top = columns[:k].copy()
            for j in range(k):
                if not top[j, j] > 0:
                    return b
            lower = np.linalg.cholesky(top)
            inverse = _lower_inverse(lower)
        offset = offsets[b]
        for i in range(k):
            for j in range(k):
                values[offset + i * k + j] = inverse[i, j]
        if r:
            panel = np.dot(columns[k:], inverse.T)
            for i in range(r):
                for j in range(k):
                    values[offset + (k + i) * k + j] = panel[i, j]
            if r * k <= 64:
                for i in range(r):
                    for j in range(i + 1):
                        total = 0.0
                        for c in range(k):
                            total += panel[i, c] * panel[j, c]
                        update[i, j] -= total
            else:
                _subtract(update, np.dot(panel, panel.T))
            left[b] = update
            above = block[below[0]]
            following[b] = first[above]
            first[above] = b
    return -1


@njit(nogil=True)
def _subtract(x, y):  # type: ignore[no-untyped-def]
    """x <- x - y for matrices, by a loop, which compiles in less time than an expression."""
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            x[i, j] -= y[i, j]


@njit(nogil=True)
def _small_inverse(columns, k, inverse):  # type: ignore[no-untyped-def]
    """The inverse of the Cholesky factor of the first k rows, overwriting; if positive."""
    for j in range(k):
        for i in range(j, k):
            total = columns[i, j]
            for c in range(j):
                total -= columns[i, c] * columns[j, c]
            if i == j:
                if not total > 0:
                    return False
                columns[j, j] = np.sqrt(total)
            else:
                columns[i, j] = total / columns[j, j]
    _invert_lower(columns, k, inverse)
    return True


@njit(nogil=True)
def _invert_lower(lower, k, inverse):  # type: ignore[no-untyped-def]
    """The inverse of a lower triangle, row by row."""
    for i in range(k):
        inverse[i, i] = 1.0 / lower[i, i]
        for j in range(i):
            total = 0.0
            for c in range(j, i):
                total -= lower[i, c] * inverse[c, j]
            inverse[i, j] = total * inverse[i, i]


@njit(nogil=True)
def _lower_inverse(lower):  # type: ignore[no-untyped-def]
    """The inverse of a lower triangle, by its halves and dense products between them."""
    k = lower.shape[0]
    inverse = np.zeros((k, k))
    if k <= 32:
        _invert_lower(lower, k, inverse)
        return inverse
    half = k // 2
    upper_left = _lower_inverse(lower[:half, :half].copy())
    lower_right = _lower_inverse(lower[half:, half:].copy())
    between = np.dot(lower_right, np.dot(lower[half:, :half].copy(), upper_left))
    for i in range(half):
        for j in range(half):
            inverse[i, j] = upper_left[i, j]
    for i in range(k - half):
        for j in range(k - half):
            inverse[half + i, half + j] = lower_right[i, j]
        for j in range(half):
            inverse[half + i, j] = -between[i, j]
    return inverse


@njit(nogil=True, cache=True)
def forward(start, begins, rows, offsets, values, x):  # type: ignore[no-untyped-def]
    """x <- L^-1 x for x of shape (n, p), in place."""
    p = x.shape[1]
    for b in range(start.size - 1):
        low, high = start[b], start[b + 1]
        k, offset = high - low, offsets[b]
        below = rows[begins[b] : begins[b + 1]]
        r = below.size
        if p == 1 or k * (k + r) <= 64:
            for c in range(p):
                for i in range(k - 1, -1, -1):
                    total = 0.0
                    for j in range(i + 1):
                        total += values[offset + i * k + j] * x[low + j, c]
                    x[low + i, c] = total
                panel = offset + k * k
                for i in range(r):
                    total = 0.0
                    for j in range(k):
                        total += values[panel + i * k + j] * x[low + j, c]
                    x[below[i], c] -= total
        else:
            inverse = values[offset : offset + k * k].reshape(k, k)
            own = np.dot(inverse, x[low:high])
            for i in range(k):
                for c in range(p):
                    x[low + i, c] = own[i, c]
            if r:
                panel_matrix = values[offset + k * k : offset + k * k + r * k].reshape(r, k)
                change = np.dot(panel_matrix, own)
                for i in range(r):
                    for c in range(p):
                        x[below[i], c] -= change[i, c]


@njit(nogil=True, cache=True)
def backward(start, begins, rows, offsets, values, x):  # type: ignore[no-untyped-def]
    """x <- L^-T x for x of shape (n, p), in place."""
    p = x.shape[1]
    for b in range(start.size - 2, -1, -1):
        low, high = start[b], start[b + 1]
        k, offset = high - low, offsets[b]
        below = rows[begins[b] : begins[b + 1]]
        r = below.size
        if p == 1 or k * (k + r) <= 64:
            for c in range(p):
                panel = offset + k * k
                for i in range(r):
                    there = x[below[i], c]
                    for j in range(k):
                        x[low + j, c] -= values[panel + i * k + j] * there
                for j in range(k):
                    total = 0.0
                    for i in range(j, k):
                        total += values[offset + i * k + j] * x[low + i, c]
                    x[low + j, c] = total
        else:
            if r:
                panel_matrix = values[offset + k * k : offset + k * k + r * k].reshape(r, k)
                there_all = np.empty((r, p))
                for i in range(r):
                    for c in range(p):
                        there_all[i, c] = x[below[i], c]
                _subtract(x[low:high], np.dot(panel_matrix.T, there_all))
            inverse = values[offset : offset + k * k].reshape(k, k)
            own = np.dot(inverse.T, x[low:high])
            for i in range(k):
                for c in range(p):
                    x[low + i, c] = own[i, c]


@njit(nogil=True, cache=True)
def inverse_between(start, begins, rows, offsets, values, places):  # type: ignore[no-untyped-def]
    """A^-1 between sorted, distinct places: Y^T Y, Y = L^-1 E, E their unit columns.

    Y has rows of the blocks of these places and of the blocks above them only, and in each of
    these, columns between the first and the last place below it only.
    """
    n_blocks, m = start.size - 1, places.size
    block = block_of(start)
    first, last = np.full(n_blocks, m, np.int64), np.zeros(n_blocks, np.int64)
    for c in range(m):
        b = block[places[c]]
        first[b], last[b] = min(first[b], c), c + 1
    for b in range(n_blocks):
        if last[b] and begins[b + 1] > begins[b]:
            above = block[rows[begins[b]]]
            first[above], last[above] = min(first[above], first[b]), max(last[above], last[b])
    result = np.zeros((m, m))
    nothing = np.zeros((0, 0))
    waiting = [nothing] * n_blocks
    for b in range(n_blocks):
        if not last[b]:
            continue
        low, k, offset = start[b], start[b + 1] - start[b], offsets[b]
        left, right = first[b], last[b]
        x = waiting[b] if waiting[b].size else np.zeros((k, right - left))
        for c in range(left, right):
            if low <= places[c] < low + k:
                x[places[c] - low, c - left] = 1.0
        own = np.dot(values[offset : offset + k * k].reshape(k, k), x)
        more = np.dot(own.T, own)
        for i in range(right - left):
            for j in range(right - left):
                result[left + i, left + j] += more[i, j]
        waiting[b] = nothing
        below = rows[begins[b] : begins[b + 1]]
        if not below.size:
            continue
        change = np.dot(
            values[offset + k * k : offset + k * k + below.size * k].reshape(below.size, k), own
        )
        for i in range(below.size):
            a = block[below[i]]
            if not waiting[a].size:
                waiting[a] = np.zeros((start[a + 1] - start[a], last[a] - first[a]))
            theirs, shift = waiting[a][below[i] - start[a]], left - first[a]
            for c in range(right - left):
                theirs[c + shift] -= change[i, c]
    return result


@njit(nogil=True, cache=True)
def selected_inverse(indptr, indices, start, begins, rows, offsets, values):  # type: ignore[no-untyped-def]
    """The inverse's entries where a lower triangle, by columns, has some; in their order."""
    n, n_blocks = indptr.size - 1, start.size - 1
    block = block_of(start)
    children = np.zeros(n_blocks, np.int64)
    above = np.full(n_blocks, -1, np.int64)
    for b in range(n_blocks):
        if begins[b + 1] > begins[b]:
            above[b] = block[rows[begins[b]]]
            children[above[b]] += 1
    result = np.zeros(indices.size)
    local = np.empty(n, np.int64)
    nothing = np.zeros((0, 0))
    fronts = [nothing] * n_blocks
    for b in range(n_blocks - 1, -1, -1):
        low, k, offset = start[b], start[b + 1] - start[b], offsets[b]
        below = rows[begins[b] : begins[b + 1]]
        r = below.size
        z = np.empty((k + r, k + r))
        inverse = values[offset : offset + k * k].reshape(k, k)
        own = np.dot(inverse.T, inverse)
        if r:
            p = above[b]
            theirs, k_theirs = fronts[p], start[p + 1] - start[p]
            places = np.empty(r, np.int64)
            place = 0
            for i in range(r):
                if below[i] < start[p + 1]:
                    places[i] = below[i] - start[p]
                else:
                    while rows[begins[p] + place] != below[i]:
                        place += 1
                    places[i] = k_theirs + place
            known = np.empty((r, r))
            for i in range(r):
                for j in range(r):
                    known[i, j] = theirs[places[i], places[j]]
            g = np.dot(values[offset + k * k : offset + k * k + r * k].reshape(r, k), inverse)
            between = np.dot(known, g)
            for i in range(r):
                for j in range(k):
                    between[i, j] = -between[i, j]
                    z[k + i, j] = between[i, j]
                    z[j, k + i] = between[i, j]
                for j in range(r):
                    z[k + i, k + j] = known[i, j]
            _subtract(own, np.dot(g.T, between))
            children[p] -= 1
            if not children[p]:
                fronts[p] = nothing
        for i in range(k):
            local[low + i] = i
            for j in range(k):
                z[i, j] = own[i, j]
        for i in range(r):
            local[below[i]] = k + i
        for j in range(k):
            for entry in range(indptr[low + j], indptr[low + j + 1]):
                result[entry] = z[local[indices[entry]], j]
        if children[b]:
            fronts[b] = z
    return result


@njit(nogil=True, cache=True)
def log_diagonal(start, offsets, values):  # type: ignore[no-untyped-def]
    """The sum of the logarithms of the diagonal of L^-1."""
    total = 0.0
    for b in range(start.size - 1):
        k = start[b + 1] - start[b]
        for j in range(k):
            total += np.log(values[offsets[b] + j * k + j])
    return total
