"""Pooled walkers: those on one node are a population, which stops and splits whole.

Stops and shares of neighbours are rounded at random without bias
([theory](../theory/pagerank.md#pooled-walks)). While most nodes are populated, a round sweeps over
all of them, in blocks that threads share; few walkers are stored as a list of their nodes. Blocks
and the choice between sweep and list do not depend on the threads.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numba import uint64

from graphrf._base.compiled import njit
from graphrf._base.threads import startable
from graphrf.sampling.walks.philox import Use, philox
from graphrf.sampling.walks.transitions import Transitions, neighbour

_USE_POOL = np.uint64(Use.POOL)
_U0 = np.uint64(0)
_U1 = np.uint64(1)
_U11 = np.uint64(11)
_U32 = np.uint64(32)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
# Nodes whose stops are rounded together, by one thread.
BLOCK = 1 << 12
# Walkers are stored as a list if there are fewer than one for this number of nodes.
SPARSE = 16
# Binary digits of fractions of walkers, and a whole walker in this unit.
FRACTION_BITS = 52
ONE = 1 << FRACTION_BITS


def count_pool(
    walk_arrays: Transitions,
    starts: np.ndarray,
    p_halt: float,
    key: np.uint64,
    counts: np.ndarray,
    n_threads: int,
) -> int:
    """Run one pool to its end; returns the number of steps taken by its walkers.

    `starts`, int64, shape (N,), are the walkers that start on each node; the populations after
    every step are added to `counts` (not the start's). Walkers that continue from an empty row of
    the walk arrays are lost.
    """
    total = int(starts.sum())
    n_nodes = starts.size
    # Half the memory traffic if the numbers allow it.
    population = starts.astype(np.int32 if total < 2**31 else np.int64)
    following = np.zeros_like(population)
    k = 0
    n_steps = 0
    n_threads = startable(min(n_threads, -(-n_nodes // BLOCK)))
    if n_threads > 1:
        # Every thread writes into its own array; sums of integers do not depend on the threads.
        targets = [following, *(np.zeros_like(population) for _ in range(n_threads - 1))]
        slices = np.linspace(0, n_nodes, n_threads + 1).astype(np.int64)
        with ThreadPoolExecutor(n_threads, thread_name_prefix="graphrf") as pool:

            def everywhere(function, *arguments):  # type: ignore[no-untyped-def]
                return list(pool.map(lambda part: function(part, *arguments), range(n_threads)))

            def sweep(part: int, k: int) -> None:
                _sweep(*walk_arrays, population, p_halt, k, key, part, n_threads, targets[part])

            def gather(part: int) -> int:
                low, high = slices[part], slices[part + 1]
                for extra in targets[1:]:
                    _merge(extra[low:high], targets[0][low:high])
                return int(_add_up(targets[0][low:high], counts[low:high]))

            while total * SPARSE >= n_nodes:
                k += 1
                everywhere(sweep, k)
                total = sum(everywhere(gather))
                n_steps += total
                population, targets[0] = targets[0], population
        following = targets[0]
    return n_steps + int(_run(*walk_arrays, population, following, p_halt, k, key, counts))


class _Workspace(NamedTuple):
    """Buffers of a round: nodes, walkers left, and random bits of stops and divisions.

    They are allocated once for many blocks, since threads wait for each other when they allocate.
    """

    nodes: np.ndarray
    left: np.ndarray
    stop: np.ndarray
    deal: np.ndarray


@njit(nogil=True)
def _new_workspace(size):  # type: ignore[no-untyped-def]
    return _Workspace(
        np.empty(size, np.int64),
        np.empty(size + 1, np.int64),
        np.empty(size, np.float64),
        np.empty(size, np.uint64),
    )


@njit(nogil=True, cache=True)
def _run(indptr, indices, cumulative, population, following, p_halt, k, key, counts):  # type: ignore[no-untyped-def]
    """Run a pool to its end from populations after round k, on one thread; counts steps."""
    n_nodes = population.size
    total = np.int64(population.sum())
    n_steps = 0
    while total * SPARSE >= n_nodes and total > 0:
        k += 1
        _sweep(indptr, indices, cumulative, population, p_halt, k, key, 0, 1, following)
        total = _add_up(following, counts)
        n_steps += total
        population, following = following, population
    work = _new_workspace(total)
    reached = np.empty(total, np.int64)
    n = 0
    if total > 0:
        for u in range(n_nodes):
            if population[u] > 0:
                work.nodes[n] = u
                n += 1
    while n > 0:
        k += 1
        n = _round(
            indptr, indices, cumulative, population, p_halt, k, key, n, work, following, reached
        )
        for i in range(n):
            v = reached[i]
            work.nodes[i] = v
            counts[v] += following[v]
            n_steps += following[v]
        population, following = following, population
    return n_steps


@njit(nogil=True, cache=True)
def _sweep(  # type: ignore[no-untyped-def]
    indptr, indices, cumulative, population, p_halt, k, key, first, stride, following
):
    """One round of every `stride`-th block of nodes from `first` on; empties populations."""
    work = _new_workspace(BLOCK)
    for low in range(first * BLOCK, population.size, stride * BLOCK):
        n = 0
        for u in range(low, min(low + BLOCK, population.size)):
            work.nodes[n] = u
            n += np.int64(population[u] > 0)
        _round(indptr, indices, cumulative, population, p_halt, k, key, n, work, following, None)


@njit(nogil=True, cache=True)
def _merge(extra, into):  # type: ignore[no-untyped-def]
    """Move the numbers of one array into another."""
    for u in range(extra.size):
        into[u] += extra[u]
        extra[u] = 0


@njit(nogil=True, cache=True)
def _add_up(following, counts):  # type: ignore[no-untyped-def]
    """Count populations; returns their sum."""
    total = np.int64(0)
    for u in range(following.size):
        counts[u] += following[u]
        total += following[u]
    return total


@njit(nogil=True)
def _round(  # type: ignore[no-untyped-def]
    indptr, indices, cumulative, population, p_halt, k, key, n, work, following, reached
):
    """One round of the first n nodes in the workspace; empties their populations.

    Nodes that get walkers are listed in `reached` unless it is None (then the loop is compiled
    without it); returns their number. One kind of work in each loop, so that the generator is
    vectorised. Counters: (node, round, 0, POOL) for a node's stops and division, (first node,
    round, 1, POOL) for the last carry of the stops.
    """
    if n == 0:
        return 0
    nodes, left, stop, deal = work
    for i in range(n):
        w0, w1, w2, _ = philox(uint64(nodes[i]), uint64(k), _U0, _USE_POOL, key)
        stop[i] = float(w0) * 2.0**-32
        deal[i] = (w1 << _U32) | w2
    for i in range(n):
        left[i] = population[nodes[i]]
        population[nodes[i]] = 0
    w0, _, _, _ = philox(uint64(nodes[0]), uint64(k), _U1, _USE_POOL, key)
    _stop(left[: n + 1], p_halt, stop[:n], float(w0) * 2.0**-32)
    listed = 0
    for i in range(n):
        if left[i] > 0:
            listed = _deal(
                nodes[i], left[i], deal[i], indptr, indices, cumulative, following, reached, listed
            )
    return listed


@njit(nogil=True)
def _stop(left, p_halt, uniforms, last):  # type: ignore[no-untyped-def]
    """Remove the walkers that stop of each population c: c p_halt, rounded without bias.

    Fractions are rounded by the pivotal method in order: one place at a time (`owner`) holds the
    carry, so the total number of stops is within one of its expectation, and stops of nearby nodes
    are negatively correlated. `left` has one place more than `uniforms`, for the owner before the
    first; `last` rounds the carry at the end. There are no branches, half of which would be
    mispredicted.

    Fractions are multiples of 2^-52, rounded down, so that their sums are exact in any order and
    other engines have the same carries: a node's expected number of stops is too small by less than
    2^-52.

    Source: Deville and Tillé, "Unequal probability sampling without replacement through a splitting
    method", Biometrika 1998; Chauvet, "On a characterization of ordered pivotal sampling",
    Bernoulli 2012.
    """
    size = uniforms.size
    left[size] = 0
    owner = size
    carry = np.int64(0)
    for i in range(size):
        expected = left[i] * p_halt
        whole = np.int64(expected)
        fraction = np.int64((expected - whole) * float(ONE))
        left[i] -= whole
        both = carry + fraction
        # Below 1, one of the two takes the sum of their fractions, the other nothing; else one of
        # them takes a walker, the other the rest. `change` makes i the owner.
        grant = both >> FRACTION_BITS
        if grant == 1:
            change = uniforms[i] * float(2 * ONE - both) >= float(ONE - carry)
        else:
            change = uniforms[i] * float(both) < float(fraction)
        left[owner if change else i] -= grant
        owner = i if change else owner
        carry = both - (grant << FRACTION_BITS)
    left[owner] -= np.int64(last * float(ONE) < float(carry))


@njit(nogil=True)
def _deal(u, c, bits, indptr, indices, cumulative, following, reached, n):  # type: ignore[no-untyped-def]
    """Divide c > 0 walkers of u among neighbours by systematic sampling: shares rounded.

    Walkers of a dangling node are lost. `n` nodes are listed in `reached`; returns the new number.
    """
    low = np.int64(indptr[u])
    high = np.int64(indptr[u + 1])
    degree = high - low
    if 4 * c < degree:
        gap = _ALL // uint64(c)
        for _ in range(c):
            n = _add(neighbour(u, bits, indptr, indices, cumulative), 1, following, reached, n)
            bits += gap
        return n
    if cumulative.size == 0:
        if degree == 0:
            return n
        # Neighbour j gets the number of multiples of `degree` in the j-th step of `c` from a random
        # start. There are no branches, and the division in floating point is exact below 2^53.
        each = np.int64(float(c) / float(degree))
        rest = c - each * degree
        place = np.int64(((bits >> _U32) * uint64(degree)) >> _U32)
        for e in range(low, high):
            place += rest
            more = np.int64(place >= degree)
            place -= degree * more
            n = _add(indices[e], each + more, following, reached, n)
        return n
    # One pass over the points (offset + i) / c.
    offset = float(bits >> _U11) * 2.0**-53
    dealt = 0
    for e in range(low, high):
        upto = c if e == high - 1 else min(c, np.int64(np.ceil(cumulative[e] * c - offset)))
        n = _add(indices[e], upto - dealt, following, reached, n)
        dealt = upto
    return n


@njit(nogil=True)
def _add(v, walkers, following, reached, n):  # type: ignore[no-untyped-def]
    place = uint64(v)  # unsigned subscripts need no test for negative ones
    if reached is not None and walkers > 0 and following[place] == 0:
        reached[n] = v
        n += 1
    following[place] += walkers
    return n
