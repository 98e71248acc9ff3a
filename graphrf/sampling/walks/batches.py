"""Compiled steps of walks of several sources that advance together, and their visits.

The walks of a batch of sources advance one step at a time, so that their reads of memory overlap,
by loops that do not branch on data, since a mispredicted branch would stop the reads. A visit is a
word of 64 bits: number of the source in the batch | node | step | count (`WordLayout`), so that
sorting words sorts the record.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import uint32, uint64

from graphrf._base.compiled import njit
from graphrf._base.intrinsics import prefetch
from graphrf.sampling.walks.philox import Use, philox
from graphrf.sampling.walks.word_sort import DIGIT_BITS, sort_words

# Enough to hide the latency of memory, few enough for the second cache (benchmarks/walks.py). Nodes
# have 32 bits and steps 16, and so many walks take 12 bits for count and source together.
MOST_TOGETHER = 2_048

_USE_DIRECTION = np.uint64(Use.DIRECTION)
_USE_SHARED = np.uint64(Use.SHARED_DIRECTION)
_U0 = np.uint64(0)
_U1 = np.uint64(1)
_U11 = np.uint64(11)
_I62 = np.int64(62)
_U32 = np.uint64(32)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


class WordLayout(NamedTuple):
    """Bit layout of a visit (uint64): count at bit 0, then step, node, source; widths."""

    step_bit: np.uint64
    node_bit: np.uint64
    source_bit: np.uint64
    node_bits: int
    source_bits: int


class Desk(NamedTuple):
    """Buffers for the walks of a batch, an element for each walk, allocated once for many batches.

    `by_length` has one for each length, `words` four for each walk, `n_edges` and `share` none
    without weights, `gaps` one for each number of walks, `places` those of `sort_words`.
    """

    lengths: np.ndarray
    by_length: np.ndarray
    words: np.ndarray
    bits: np.ndarray
    walkers: np.ndarray
    others: np.ndarray
    source: np.ndarray
    number: np.ndarray
    position: np.ndarray
    rank: np.ndarray
    leaving: np.ndarray
    edge: np.ndarray
    n_edges: np.ndarray
    share: np.ndarray
    gaps: np.ndarray
    places: np.ndarray


def new_desk(n_sources: int, n_walks: int, longest: int, weighted: bool) -> Desk:
    """Buffers for the walks of so many sources, none longer than `longest`; 100 bytes per walk."""
    n = n_sources * n_walks
    return Desk(
        lengths=np.empty(n, np.int64),
        by_length=np.empty(longest + 1, np.int64),
        words=np.empty((4, n), np.uint32),
        bits=np.empty(n, np.uint64),
        walkers=np.empty(n, np.uint64),
        others=np.empty(n, np.uint64),
        source=np.empty(n, np.uint32),
        number=np.empty(n, np.uint32),
        position=np.empty(n, np.uint32),
        rank=np.empty(n, np.uint32),
        leaving=np.empty(n, np.uint32),
        edge=np.empty(n, np.uint64),
        n_edges=np.empty(n if weighted else 0, np.uint64),
        share=np.empty(n if weighted else 0, np.float64),
        gaps=gaps(n_walks),
        places=np.empty(1 << DIGIT_BITS, np.int64),
    )


def gaps(n_walks: int) -> np.ndarray:
    """Spacing of c even points in 64-bit numbers, c = 1 .. n_walks, uint64; [0] is unused.

    The j-th of c walkers that leave a node together takes the neighbour at share
    (o + j / c) mod 1 of the node's weights, with one uniform o for all (systematic sampling): in
    64-bit numbers, bits + j gaps[c].
    """
    return np.uint64(_ALL) // np.maximum(np.arange(n_walks + 1, dtype=np.uint64), _U1)


@njit(nogil=True)
def bit_length(number):  # type: ignore[no-untyped-def]
    """Bits that hold 0 .. number."""
    bits = 0
    while (number >> bits) > 0:
        bits += 1
    return bits


@njit(nogil=True)
def new_layout(n_nodes, longest, n_walks, n_sources):  # type: ignore[no-untyped-def]
    """The layout for so many nodes, steps up to `longest`, and counts up to `n_walks`."""
    count_bits = bit_length(n_walks)
    step_bits = bit_length(longest)
    node_bits = bit_length(n_nodes - 1)
    return WordLayout(
        uint64(count_bits),
        uint64(count_bits + step_bits),
        uint64(count_bits + step_bits + node_bits),
        node_bits,
        bit_length(n_sources - 1),
    )


@njit(nogil=True)
def choose_edges(  # type: ignore[no-untyped-def]
    n, position, high_bits, low_bits, indptr, cumulative, edge, n_edges, share
):
    """The edges by which n walkers leave their nodes, as `transitions.neighbour` chooses.

    The low 32 of 64 random bits are used only with weights. Searches in rows of weights run side by
    side, each halving its part of a row in every round. Non-negative floats are ordered like their
    bits as integers, so they are compared by the sign of a difference: a comparison would compile
    to a branch, mispredicted half the time.
    """
    if cumulative.size == 0:
        for i in range(n):
            node = uint64(position[i])
            low = uint64(indptr[node])
            high = uint64(indptr[node + _U1])
            edge[i] = low + ((uint64(high_bits[i]) * (high - low)) >> _U32)
        return
    sums = cumulative.view(np.int64)
    widest = _U1
    for i in range(n):
        node = uint64(position[i])
        low = uint64(indptr[node])
        size = uint64(indptr[node + _U1]) - low
        prefetch(cumulative, np.int64(low))
        prefetch(cumulative, np.int64(low + size) - 1)
        edge[i] = low
        n_edges[i] = size
        share[i] = float(((uint64(high_bits[i]) << _U32) | uint64(low_bits[i])) >> _U11) * 2.0**-53
        widest = max(widest, size)
    bits = share.view(np.int64)
    widest -= _U1
    while widest > _U0:
        for i in range(n):
            half = n_edges[i] >> _U1
            # The last edge of the lower half; a row of one edge has none.
            last = edge[i] + half - uint64(half > _U0)
            # All ones if the sum there is at most the share: both are below 2^62, so the shift
            # keeps the sign.
            above = uint64((sums[last] - bits[i] - 1) >> _I62)
            edge[i] += half & above
            n_edges[i] -= half
        widest >>= _U1


@njit(nogil=True)
def walk_independent(  # type: ignore[no-untyped-def]
    sources, n_walks, indptr, indices, cumulative, key, layout, desk, visits
):
    """Walks with independent directions; returns the number of words of `visits`.

    Walkers are sorted by falling length, so that those that still walk are the first ones.
    Counters: (source, walk, block of steps, DIRECTION), of four steps, or of two with weights,
    which take two words a step.
    """
    lengths, by_length, words = desk.lengths, desk.by_length, desk.words
    origin, source, number, position, edge = (
        desk.walkers,
        desk.source,
        desk.number,
        desk.position,
        desk.edge,
    )
    n_walkers = sources.size * n_walks
    longest = 0
    for j in range(n_walkers):
        longest = max(longest, lengths[j])
    for length in range(longest + 1):
        by_length[length] = 0
    for j in range(n_walkers):
        by_length[lengths[j]] += 1
    place = 0
    for length in range(longest, -1, -1):
        count = by_length[length]
        by_length[length] = place
        place += count
    j = 0
    for s in range(sources.size):
        first = (uint64(s) << (layout.source_bit - _U1)) << _U1  # shifts by 64 are not defined
        # All walks start there, at step 0.
        visits[s] = first | (uint64(sources[s]) << layout.node_bit) | uint64(n_walks)
        for walk in range(n_walks):
            place = by_length[lengths[j]]
            by_length[lengths[j]] += 1
            origin[place] = first
            source[place] = uint32(sources[s])
            position[place] = uint32(sources[s])
            number[place] = uint32(walk)
            j += 1
    n = sources.size
    per_call = 4 if cumulative.size == 0 else 2
    for k in range(1, longest + 1):
        walking = by_length[k]
        phase = (k - 1) % per_call
        if phase == 0:
            block = uint64((k - 1) // per_call)
            for i in range(walking):
                w0, w1, w2, w3 = philox(
                    uint64(source[i]), uint64(number[i]), block, _USE_DIRECTION, key
                )
                words[0, i] = uint32(w0)
                words[1, i] = uint32(w1)
                words[2, i] = uint32(w2)
                words[3, i] = uint32(w3)
        high = phase * (4 // per_call)
        low = high + 1 if per_call == 2 else high
        choose_edges(
            walking,
            position,
            words[high],
            words[low],
            indptr,
            cumulative,
            edge,
            desk.n_edges,
            desk.share,
        )
        step = (uint64(k) << layout.step_bit) | _U1
        for i in range(walking):
            node = uint64(indices[edge[i]])
            position[i] = uint32(node)
            visits[n + i] = origin[i] | (node << layout.node_bit) | step
        n += walking
    return n


@njit(nogil=True)
def _group_walkers(now, standing, k, node_bit, layout, desk, visits):  # type: ignore[no-untyped-def]
    """Write a visit for each group of walkers on a node, and move those that go on to the front.

    Returns the numbers of groups, and of walkers that continue.
    """
    lengths, group, rank, leaving = desk.lengths, desk.number, desk.rank, desk.leaving
    number_mask = (_U1 << node_bit) - _U1
    step = uint64(k) << layout.step_bit
    previous = _ALL
    size = _U0
    left = _U0
    g = -1
    kept = 0
    for i in range(standing):
        word = now[i]
        place = word >> node_bit
        is_new = place != previous
        previous = place
        g += np.int64(is_new)
        size = (_U0 if is_new else size) + _U1
        left = _U0 if is_new else left
        visits[g] = (place << layout.node_bit) | step | size
        goes_on = lengths[word & number_mask] > k
        now[kept] = word
        group[kept] = uint32(g)
        rank[kept] = uint32(left)
        left += uint64(goes_on)
        leaving[g] = uint32(left)
        kept += np.int64(goes_on)
    return g + 1, kept


@njit(nogil=True)
def walk_stratified(  # type: ignore[no-untyped-def]
    sources, n_walks, indptr, indices, cumulative, key, layout, desk, visits
):
    """Walks with stratified directions; returns the number of words of `visits`.

    The walks on one node at one step leave it together (`gaps`), in the order in which they
    arrived, with a uniform for each (source, node, step). Walkers are words: number of the source
    in the batch | node | number of the walk in the batch. Counters: (source, node, step,
    SHARED_DIRECTION).
    """
    words, group_bits, group, rank, leaving = (
        desk.words,
        desk.bits,
        desk.number,
        desk.rank,
        desk.leaving,
    )
    now, then, source, position, edge = (
        desk.walkers,
        desk.others,
        desk.source,
        desk.position,
        desk.edge,
    )
    standing = sources.size * n_walks
    node_bit = uint64(bit_length(standing - 1))
    source_bit = node_bit + uint64(layout.node_bits)
    number_mask = (_U1 << node_bit) - _U1
    node_mask = (_U1 << uint64(layout.node_bits)) - _U1
    for s in range(sources.size):
        for walk in range(n_walks):
            number = s * n_walks + walk
            now[number] = (
                (uint64(s) << source_bit) | (uint64(sources[s]) << node_bit) | uint64(number)
            )
    n = 0
    k = 0
    while standing > 0:
        if k > 0 and not sort_words(
            now, standing, node_bit, layout.node_bits + layout.source_bits, then, desk.places
        ):
            now, then = then, now
        n_groups, kept = _group_walkers(now, standing, k, node_bit, layout, desk, visits[n:])
        for i in range(n_groups):
            place = visits[n + i] >> layout.node_bit
            source[i] = uint32(sources[np.int64(place >> uint64(layout.node_bits))])
            position[i] = uint32(place & node_mask)
        for i in range(n_groups):
            w0, w1, _, _ = philox(
                uint64(source[i]), uint64(position[i]), uint64(k), _USE_SHARED, key
            )
            group_bits[i] = (w0 << _U32) | w1
        for i in range(kept):
            own = uint64(group[i])
            bits = group_bits[own] + uint64(rank[i]) * desk.gaps[uint64(leaving[own])]
            words[0, i] = uint32(bits >> _U32)
            words[1, i] = uint32(bits)
            position[i] = uint32((now[i] >> node_bit) & node_mask)
        choose_edges(
            kept, position, words[0], words[1], indptr, cumulative, edge, desk.n_edges, desk.share
        )
        for i in range(kept):
            word = now[i]
            node = uint64(indices[edge[i]])
            now[i] = (
                ((word >> source_bit) << source_bit) | (node << node_bit) | (word & number_mask)
            )
        n += n_groups
        standing = kept
        k += 1
    return n
