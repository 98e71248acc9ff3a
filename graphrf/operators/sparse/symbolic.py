"""Symbolic Cholesky factorisation: the factor's entries, before their values.

The matrix comes with its rows and columns in the order of elimination. Source: Davis 2006, "Direct
Methods for Sparse Linear Systems", Ch. 4.
"""

from __future__ import annotations

import numpy as np

from graphrf._base.compiled import njit


@njit(nogil=True, cache=True)
def elimination_tree(indptr, indices):  # type: ignore[no-untyped-def]
    """The parent of each column, -1 for roots, from entries j < i by rows or columns."""
    n = indptr.size - 1
    parent = np.full(n, -1, np.int64)
    ancestor = np.full(n, -1, np.int64)
    for i in range(n):
        for entry in range(indptr[i], indptr[i + 1]):
            j = indices[entry]
            while j != -1 and j < i:
                above = ancestor[j]
                ancestor[j] = i
                if above == -1:
                    parent[j] = i
                j = above
    return parent


@njit(nogil=True, cache=True)
def postorder(parent):  # type: ignore[no-untyped-def]
    """The columns with every subtree in one piece, children before parents."""
    n = parent.size
    # The children of each column, and of n, the root of all roots.
    first = np.full(n + 1, -1, np.int64)
    following = np.full(n, -1, np.int64)
    for j in range(n - 1, -1, -1):
        p = parent[j] if parent[j] >= 0 else n
        following[j] = first[p]
        first[p] = j
    order = np.empty(n, np.int64)
    stack = np.empty(n + 1, np.int64)
    stack[0] = n
    top, k = 0, 0
    while top >= 0:
        node = stack[top]
        child = first[node]
        if child == -1:
            if node < n:
                order[k] = node
                k += 1
            top -= 1
        else:
            first[node] = following[child]
            top += 1
            stack[top] = child
    return order


@njit(nogil=True, cache=True)
def column_counts(indptr, indices, parent, most):  # type: ignore[no-untyped-def]
    """Entries of each column of the factor with diagonal; none if more than `most` in all.

    One step for each entry of the factor.
    """
    n = parent.size
    total = 0
    count = np.ones(n, np.int64)
    mark = np.full(n, -1, np.int64)
    for i in range(n):
        mark[i] = i
        for entry in range(indptr[i], indptr[i + 1]):
            j = indices[entry]
            while j < i and mark[j] != i:
                count[j] += 1
                mark[j] = i
                j = parent[j]
                total += 1
        if total > most:
            return count[:0]
    return count


@njit(nogil=True, cache=True)
def supernodes(parent, count):  # type: ignore[no-untyped-def]
    """The first column of each block of columns that are factored together, and n at the end.

    Columns are together where each has the entries of the one before it, and where few zeros are
    taken as entries to join a block with its parent: the narrower the block, the larger the share
    (as CHOLMOD has it).
    """
    n = parent.size
    start = np.empty(n + 1, np.int64)
    rows = np.empty(n, np.int64)  # below the block
    zeros = np.zeros(n)
    top = -1
    for j in range(n):
        top += 1
        start[top] = j
        rows[top] = count[j] - 1
        zeros[top] = 0.0
        # Blocks that end where j begins and whose parent is j's block join it, the last first.
        while top > 0:
            last = start[top] - 1
            if parent[last] < start[top] or parent[last] > j:
                break
            width, wide = start[top] - start[top - 1], j + 1 - start[top]
            more = width * (wide + rows[top] - rows[top - 1])
            both = width + wide
            entries = both * (both + 1) / 2 + both * rows[top]
            fraction = (zeros[top - 1] + zeros[top] + more) / entries
            if more > 0 and not (
                both <= 4
                or (both <= 16 and fraction < 0.8)
                or (both <= 48 and fraction < 0.1)
                or fraction < 0.05
            ):
                break
            zeros[top - 1] += zeros[top] + more
            rows[top - 1] = rows[top]
            top -= 1
    start[top + 1] = n
    return start[: top + 2].copy()


@njit(nogil=True)
def block_of(start):  # type: ignore[no-untyped-def]
    """The block of each column."""
    block = np.empty(start[-1], np.int64)
    for b in range(start.size - 1):
        for j in range(start[b], start[b + 1]):
            block[j] = b
    return block


@njit(nogil=True, cache=True)
def front_rows(indptr, indices, start):  # type: ignore[no-untyped-def]
    """The rows below each block, in no order: where those of each block begin, and all of them.

    The matrix by columns; entries above the diagonal are passed over.
    """
    n, n_blocks = indptr.size - 1, start.size - 1
    block = block_of(start)
    first = np.full(n_blocks, -1, np.int64)
    following = np.full(n_blocks, -1, np.int64)
    mark = np.full(n, -1, np.int64)
    begins = np.zeros(n_blocks + 1, np.int64)
    rows = np.empty(max(16, 4 * n), np.int64)
    used = 0
    own = np.empty(n, np.int64)
    for b in range(n_blocks):
        low, high = start[b], start[b + 1]
        k = 0
        for j in range(low, high):
            for entry in range(indptr[j], indptr[j + 1]):
                i = indices[entry]
                if i >= high and mark[i] != b:
                    mark[i] = b
                    own[k] = i
                    k += 1
        child = first[b]
        while child != -1:
            for place in range(begins[child], begins[child + 1]):
                i = rows[place]
                if i >= high and mark[i] != b:
                    mark[i] = b
                    own[k] = i
                    k += 1
            child = following[child]
        if used + k > rows.size:
            longer = np.empty(2 * rows.size + k, np.int64)
            for place in range(used):
                longer[place] = rows[place]
            rows = longer
        lowest = n
        for place in range(k):
            rows[used + place] = own[place]
            lowest = min(lowest, own[place])
        used += k
        begins[b + 1] = used
        if k:
            above = block[lowest]
            following[b] = first[above]
            first[above] = b
    return begins, rows[:used].copy()
