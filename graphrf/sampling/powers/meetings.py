"""The compiled loop that multiplies two independent samples of the powers of a source."""

from __future__ import annotations

import numpy as np
from numba import uint64

from graphrf._base.compiled import njit
from graphrf.sampling.buffers import with_room
from graphrf.sampling.powers.loops import powers_of
from graphrf.sampling.powers.node_sets import drain, insert


@njit(nogil=True, cache=True)
def meeting_block(  # type: ignore[no-untyped-def]
    matrix, scratch, sources, budgets, picks, keys, degrees, products
):
    """Add sum_v p_iva p'_ivb d_i / d_v to products[i, a + b] for |a - b| at most 1.

    p_iva and p'_ivb are the records of the powers of the two `keys`. Pairs (a, b) and (b, a) are
    averaged; sums run over nodes ascending, then over a and b.
    """
    load, order, rank = matrix.load, matrix.order, matrix.rank
    dense, _, low, middle, top = scratch
    n_powers = budgets.size
    ends = np.zeros(n_powers + 1, np.int64)
    other_ends = np.zeros(n_powers + 1, np.int64)
    nodes = np.empty(1024, np.uint32)
    values = np.empty(1024)
    other_nodes = np.empty(1024, np.uint32)
    other_values = np.empty(1024)
    common = np.empty(1024, np.uint32)
    for row in range(sources.size):
        source = sources[row]
        start = rank[source]
        nodes, values, _ = powers_of(
            matrix, start, uint64(source), budgets, picks, keys[0], scratch, ends, nodes, values
        )
        other_nodes, other_values, _ = powers_of(
            matrix,
            start,
            uint64(source),
            budgets,
            picks,
            keys[1],
            scratch,
            other_ends,
            other_nodes,
            other_values,
        )
        n = ends[n_powers]
        other_n = other_ends[n_powers]
        common = with_room(common, 0, n)
        # `dense` marks nodes: 0 not reached, 1 in the
        # first sample, 2 + i the i-th of those in both.
        for i in range(uint64(n)):
            dense[nodes[i]] = 1.0
        for i in range(uint64(other_n)):
            if dense[other_nodes[i]] == 1.0:
                dense[other_nodes[i]] = 2.0
                insert(order[other_nodes[i]], low, middle, top)
        n_common = drain(low, middle, top, common, 0)
        for i in range(uint64(n_common)):
            dense[rank[common[i]]] = 2.0 + i
        starts, steps, shares = _by_node(nodes, values, ends, n_common, dense)
        other_starts, other_steps, other_shares = _by_node(
            other_nodes, other_values, other_ends, n_common, dense
        )
        for c in range(uint64(n_common)):
            node = common[c]
            ratio = load[node] / load[source]
            weight = degrees[source] / degrees[node]
            for i in range(starts[c], starts[c + 1]):
                a = np.int64(steps[i])
                value = np.float32(shares[i] * ratio) * weight
                for j in range(other_starts[c], other_starts[c + 1]):
                    b = np.int64(other_steps[j])
                    if a == b:
                        products[row, a + b] += value * np.float32(other_shares[j] * ratio)
                    elif abs(a - b) == 1:
                        products[row, a + b] += 0.5 * value * np.float32(other_shares[j] * ratio)
        for i in range(uint64(n)):
            dense[nodes[i]] = 0.0
        for i in range(uint64(other_n)):
            dense[other_nodes[i]] = 0.0


@njit(nogil=True)
def _by_node(nodes, values, ends, n_common, dense):  # type: ignore[no-untyped-def]
    """Starts, steps and values of the nodes that `dense` numbers, ascending by node and step."""
    starts = np.zeros(n_common + 2, np.int64)
    n = ends[ends.size - 1]
    for i in range(uint64(n)):
        where = dense[nodes[i]]
        if where >= 2.0:
            starts[np.int64(where)] += 1
    for c in range(2, n_common + 2):
        starts[c] += starts[c - 1]
    # starts[c + 1] is the place of the next value of node c, and its end afterwards.
    steps = np.empty(starts[n_common + 1], np.uint16)
    found = np.empty(steps.size)
    for k in range(ends.size - 1):
        for i in range(uint64(ends[k]), uint64(ends[k + 1])):
            where = dense[nodes[i]]
            if where >= 2.0:
                place = starts[np.int64(where) - 1]
                steps[place] = k
                found[place] = values[i]
                starts[np.int64(where) - 1] = place + 1
    return starts, steps, found
