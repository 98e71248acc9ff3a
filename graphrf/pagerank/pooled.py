"""Pooled walkers: all walkers that stand on one node are one population, which stops and parts in whole numbers.

Walkers that stand together need not choose independently. Of a population c, c p_halt stop and the rest are
dealt to the neighbours in proportion to the weights, both rounded at random with the right mean. Expectations
are linear, so the expected populations are those of independent walkers (no independence is needed), while
the noise is that of rounding alone. The cost is per node and round, not per walker; with many walkers this
becomes power iteration with rounding. Scores come from the populations (`graphrf.pagerank.visits`).
"""

from __future__ import annotations

import numpy as np
from numba import njit, uint64

from graphrf.sampling.philox import Use, philox
from graphrf.sampling.walks import neighbour

_USE_STOP = np.uint64(Use.POOL_STOP)
_USE_DEAL = np.uint64(Use.POOL_DEAL)
_U0 = np.uint64(0)
_U11 = np.uint64(11)
_U32 = np.uint64(32)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


@njit(nogil=True, cache=True)
def count_pool(indptr, indices, cumulative, starts, p_halt, key, counts):  # type: ignore[no-untyped-def]
    """Run one pool to its end and count; returns the number of steps taken by its walkers.

    Parameters
    ----------
    indptr, indices, cumulative : the walk arrays (`graphrf.sampling.transitions`); an empty row is dangling
    starts : int64, shape (N,), the walkers that start on each node
    p_halt : float
    key : uint64, the seed
    counts : int64, shape (N,), to which the populations after every step are added (not the start's)
    """
    n_nodes = starts.size
    population = starts.copy()
    following = np.zeros(n_nodes, np.int64)
    n_steps = 0
    total = population.sum()
    k = 0
    while total > 0:
        k += 1
        _stop(population, p_halt, uint64(k), key)
        total = 0
        for u in range(n_nodes):
            c = population[u]
            if c == 0:
                continue
            population[u] = 0
            if indptr[u] < indptr[u + 1]:  # else dangling: lost
                total += c
                _deal(u, c, uint64(k), indptr, indices, cumulative, key, following)
        n_steps += total
        for u in range(n_nodes):
            counts[u] += following[u]
        population, following = following, population
    return n_steps


@njit(nogil=True)
def _stop(population, p_halt, k, key):  # type: ignore[no-untyped-def]
    """Take from each population the walkers that stop: c p_halt, rounded up or down with the right mean.

    The fractions are rounded by the pivotal method in node order: one node at a time carries what has been
    neither granted nor lost, so the number of stops in all is within one of its expectation, and stops of
    nearby nodes are negatively correlated. Counters: (four nodes, round, 0, POOL_STOP).

    Source: Deville and Tillé, "Unequal probability sampling through a splitting method", Biometrika 1998;
    Chauvet, "On a characterization of ordered pivotal sampling", Bernoulli 2012.
    """
    w0 = w1 = w2 = w3 = _U0
    used = 0
    owner = -1
    carry = 0.0
    for u in range(population.size):
        c = population[u]
        if c == 0:
            continue
        expected = c * p_halt
        whole = np.int64(expected)
        fraction = expected - whole
        population[u] -= whole
        if fraction == 0.0:
            continue
        if used & 3 == 0:
            w0, w1, w2, w3 = philox(uint64(used >> 2), k, _U0, _USE_STOP, key)
            word = w0
        elif used & 3 == 1:
            word = w1
        elif used & 3 == 2:
            word = w2
        else:
            word = w3
        used += 1
        x = float(word) * 2.0**-32
        both = carry + fraction
        if both < 1.0:
            # One of the two takes the sum of their fractions, the other nothing.
            if x * both < fraction:
                owner = u
            carry = both
        else:
            # One of the two takes a walker, the other what is left.
            if x * (2.0 - both) < 1.0 - carry:
                population[u] -= 1
            else:
                population[owner] -= 1
                owner = u
            carry = both - 1.0
    if carry > 0.0:
        w0, w1, w2, w3 = philox(uint64(used >> 2) + uint64(1), k, _U0, _USE_STOP, key)
        if float(w0) * 2.0**-32 < carry:
            population[owner] -= 1


@njit(nogil=True)
def _deal(u, c, k, indptr, indices, cumulative, key, following):  # type: ignore[no-untyped-def]
    """Deal the c walkers of u to its neighbours by systematic sampling: each gets its share rounded up or down.

    Counters: (node, round, 0, POOL_DEAL).
    """
    low = indptr[u]
    high = indptr[u + 1]
    degree = np.int64(high - low)
    rest = c
    if cumulative.size == 0:
        each = c // degree
        if each > 0:
            rest -= each * degree
            for e in range(low, high):
                following[indices[e]] += each
            if rest == 0:
                return
    w0, w1, _, _ = philox(uint64(u), k, _U0, _USE_DEAL, key)
    bits = (w0 << _U32) | w1
    if rest < degree:
        gap = _ALL // uint64(rest)
        for _ in range(rest):
            following[neighbour(u, bits, indptr, indices, cumulative)] += 1
            bits += gap
        return
    # Weighted, and more walkers than neighbours: one sweep over the points (offset + i) / c.
    offset = float(bits >> _U11) * 2.0**-53
    dealt = 0
    for e in range(low, high):
        upto = c if e == high - 1 else min(c, np.int64(np.ceil(cumulative[e] * c - offset)))
        following[indices[e]] += upto - dealt
        dealt = upto
