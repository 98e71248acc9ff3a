"""The compiled loop of power iteration: product with P^T, jumps and change, in one pass."""

from __future__ import annotations

import numpy as np
from numba import uint64

from graphrf._base.compiled import njit
from graphrf.operators.series.loops import step_rows

# The change is summed within blocks of so many rows, then over the blocks, so that it does not
# depend on threads.
BLOCK_ROWS = 2048


@njit(nogil=True, cache=True)
def sweep(  # type: ignore[no-untyped-def]
    first,
    last,
    indptr,
    indices,
    data,
    degrees,
    now,
    following,
    starts,
    jump,
    walk,
    restart,
    leak,
    weight,
    change,
    lost,
):
    """Blocks first .. last - 1, of `BLOCK_ROWS` rows: following += weight (F(now) - following).

    Here F(z) = D^-1 (walk A^T z + restart starts + leak jump). Vectors are scores per degree,
    z = D^-1 rho, so that A^T z = P^T rho needs no scaled matrix, and on undirected graphs only the
    adjacency. At dangling nodes, of degree 0, z = rho; no row reads them. `data` is empty if all
    entries are 1 (one vector only), `jump` if it is `starts`. `change` and `lost`, shape
    (n_blocks, p), receive the L1 norm of F(now) - now in each block as a change of rho, and rho at
    its dangling nodes. Every number is a sum in the order of its row, so its bits do not depend on
    other columns or threads.
    """
    n_nodes, width = now.shape
    none = np.zeros((0, width))
    no_units = np.zeros(0, np.int64)
    extrapolate = False
    for c in range(width):
        extrapolate |= weight[c] != 1.0
    before = np.empty((BLOCK_ROWS if extrapolate else 0, width))
    for block in range(first, last):
        row = block * BLOCK_ROWS
        stop = min(row + BLOCK_ROWS, n_nodes)
        if extrapolate:
            for i in range(row, stop):
                for c in range(width):
                    before[i - row, c] = following[i, c]
        # With several vectors, `data` is empty only without edges.
        if data.size == 0 and width == 1:
            _sum_rows(row, stop, indptr, indices, walk, now.ravel(), following.ravel())
        else:
            step_rows(
                row, stop, indptr, indices, data, walk, now, 0.0, following, 0.0, none, no_units
            )
        for c in range(width):
            change[block, c] = lost[block, c] = 0.0
        for i in range(row, stop):
            degree = degrees[i]
            for c in range(width):
                score = following[i, c] + restart[c] * starts[i, c]
                if jump.size > 0:
                    score += leak[c] * jump[i]
                if degree > 0.0:
                    score /= degree
                    change[block, c] += abs(score - now[i, c]) * degree
                else:
                    change[block, c] += abs(score - now[i, c])
                if extrapolate:
                    old = before[i - row, c]
                    score = weight[c] * (score - old) + old
                if degree == 0.0:
                    lost[block, c] += score
                following[i, c] = score


@njit(nogil=True)
def _sum_rows(first, last, indptr, indices, scale, now, product):  # type: ignore[no-untyped-def]
    """Rows of product <- scale A^T now for weights of 1."""
    stop = uint64(indptr[first])
    for i in range(uint64(first), uint64(last)):
        start = stop
        stop = uint64(indptr[i + uint64(1)])
        total = 0.0
        for entry in range(start, stop):
            total += now[uint64(indices[entry])]
        product[i] = scale * total
