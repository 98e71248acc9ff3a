"""The compiled loops of a compressed step: a product that samples heavy rows, then cut.

All values are positive. Subscripts are unsigned and conditions are added as numbers, to avoid
branches.
"""

from __future__ import annotations

import numpy as np
from numba import uint64

from graphrf._base.compiled import njit
from graphrf.sampling.powers.node_sets import drain, insert

_U1 = np.uint64(1)


@njit(inline="always")
def _spread(node, value, indptr, indices, weights, dense, nodes, n):  # type: ignore[no-untyped-def]
    """Add value times a node's row to `dense`; new nodes go to nodes[n:]. Returns their end."""
    for edge in range(uint64(indptr[node]), uint64(indptr[node + _U1])):
        to = indices[edge]
        share = value * weights[edge]
        before = dense[to]
        nodes[n] = to
        n += uint64((before == 0.0) & (share > 0.0))
        dense[to] = before + share
    return n


@njit(nogil=True)
def product(indptr, indices, weights, nodes, values, first, last, dense):  # type: ignore[no-untyped-def]
    """Add the full product with x to `dense`, where x is nodes[first:last] with their values.

    Reached nodes are appended from `last` on; returns their end.
    """
    n = uint64(last)
    for i in range(uint64(first), uint64(last)):
        n = _spread(uint64(nodes[i]), values[i], indptr, indices, weights, dense, nodes, n)
    return np.int64(n)


@njit(inline="always")
def _is_read_whole(degree, mass, unit_mass):  # type: ignore[no-untyped-def]
    """True if the whole row of a node of this mass is read: half its edges would be picked."""
    return degree * unit_mass <= 2.0 * mass


@njit(nogil=True)
def product_within(matrix, nodes, values, first, last, n_picks, u, dense):  # type: ignore[no-untyped-def]
    """Unbiased estimate of `product` by about `n_picks` reads: light entries are sampled.

    Entry i puts the mass y_i = x_i (sum of its row) on its neighbours. A row is read whole if its
    share of the picks is at least half its edges. The other rows are sampled systematically over
    all their edges in turn, each edge with probability proportional to its mass, and every pick has
    the same mass. Returns the end of the reached nodes, and the number of edges read or picked: at
    most 2 n_picks + 1.
    """
    indptr, indices, weights, cumulative = (
        matrix.indptr,
        matrix.indices,
        matrix.weights,
        matrix.cumulative,
    )
    total = 0.0
    for i in range(uint64(first), uint64(last)):
        total += values[i] * cumulative[uint64(indptr[uint64(nodes[i]) + _U1]) - _U1]
    unit_mass = total / n_picks
    rest = 0.0
    n = uint64(last)
    work = 0
    for i in range(uint64(first), uint64(last)):
        node = uint64(nodes[i])
        degree = np.int64(indptr[node + _U1]) - np.int64(indptr[node])
        mass = values[i] * cumulative[uint64(indptr[node + _U1]) - _U1]
        if _is_read_whole(degree, mass, unit_mass):
            n = _spread(node, values[i], indptr, indices, weights, dense, nodes, n)
            work += degree
        else:
            rest += mass
    n_sampled = np.int64(np.ceil(rest / unit_mass))
    if n_sampled == 0:
        return np.int64(n), work
    gap = rest / n_sampled
    point = u * gap
    running = 0.0
    done = 0
    latest = uint64(first)
    for i in range(uint64(first), uint64(last)):
        node = uint64(nodes[i])
        low = uint64(indptr[node])
        high = uint64(indptr[node + _U1]) - _U1
        mass = values[i] * cumulative[high]
        if _is_read_whole(np.int64(high + _U1 - low), mass, unit_mass):
            continue
        end = running + mass
        latest = i
        while point < end and done < n_sampled:
            n = _land(
                low, high, (point - running) / values[i], gap, indices, cumulative, dense, nodes, n
            )
            done += 1
            point += gap
        running = end
    while done < n_sampled:  # picks lost to rounding
        node = uint64(nodes[latest])
        high = uint64(indptr[node + _U1]) - _U1
        n = _land(
            uint64(indptr[node]), high, cumulative[high], gap, indices, cumulative, dense, nodes, n
        )
        done += 1
    return np.int64(n), work + n_sampled


@njit(inline="always")
def _land(low, high, x, mass, indices, cumulative, dense, nodes, n):  # type: ignore[no-untyped-def]
    """Put mass on the neighbour, of edges low .. high, whose running-sum interval holds x."""
    while low < high:
        middle = (low + high) >> _U1
        if x < cumulative[middle]:
            high = middle
        else:
            low = middle + _U1
    to = indices[low]
    before = dense[to]
    nodes[n] = to
    n += uint64(before == 0.0)
    dense[to] = before + mass
    return n


@njit(nogil=True)
def keep_largest(nodes, values, first, last, budget):  # type: ignore[no-untyped-def]
    """Move entries that are kept exactly to the front; returns their end, and others' sum.

    With m places left and a rest of sum S, an entry y of the rest is kept when y m >= S. Keeping
    one lowers S / m, so all entries above one threshold can be kept before it is updated: the
    result is the same as keeping the largest entries one at a time.
    """
    end = uint64(last)
    start = uint64(first)
    total = 0.0
    largest = 0.0
    for i in range(start, end):
        total += values[i]
        largest = max(largest, values[i])
    while largest * budget >= total and budget > 0:
        kept = start
        rest = 0.0
        largest = 0.0
        for i in range(start, end):
            node = nodes[i]
            value = values[i]
            nodes[i] = nodes[kept]
            values[i] = values[kept]
            nodes[kept] = node
            values[kept] = value
            stays = value * budget < total
            value *= stays
            rest += value
            largest = max(largest, value)
            kept += uint64(not stays)
        budget -= np.int64(kept - start)
        start = kept
        total = rest
    return np.int64(start), total


@njit(nogil=True)
def pick(nodes, values, first, last, total, n_picks, u):  # type: ignore[no-untyped-def]
    """Systematic sampling of nodes[first:last], exactly `n_picks`, moved to the front.

    Entry i is picked when a point (u + j) total / n_picks, j = 0, 1, ..., is in its interval of the
    running sum of values: with probability n_picks y_i / total, and then its value is
    total / n_picks. Rounding does not change the number of picks.
    """
    gap = total / n_picks if n_picks else 0.0
    point = u * gap
    running = 0.0
    start = uint64(first)
    end = uint64(first + n_picks)
    stop = uint64(last)
    place = start
    for i in range(start, stop):
        if place == end:
            break
        running += values[i]
        picked = (running > point) | (stop - i <= end - place)
        nodes[place] = nodes[i]
        place += uint64(picked)
        point += gap * picked
    for i in range(start, place):
        values[i] = gap


@njit(nogil=True)
def compress(nodes, values, first, last, budget, u, dense, low, middle, top):  # type: ignore[no-untyped-def]
    """Reduce the entries [first, last) to `budget` without bias; clears their `dense`."""
    kept, total = keep_largest(nodes, values, first, last, budget)
    for i in range(uint64(first), uint64(kept)):
        dense[nodes[i]] = 0.0
    for i in range(uint64(kept), uint64(last)):
        insert(nodes[i], low, middle, top)
    drain(low, middle, top, nodes, kept)
    for i in range(uint64(kept), uint64(last)):
        node = nodes[i]
        values[i] = dense[node]
        dense[node] = 0.0
    pick(nodes, values, kept, last, total, first + budget - kept, u)
