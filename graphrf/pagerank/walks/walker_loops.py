"""The compiled loop of independent walkers: counts of visits, or of end points, at every node.

Many walkers advance together, one step at a time, so that their reads overlap in the memory system;
no walk is stored. All random bits are functions of (seed, source, walk, step), and counts are
integers, so blocks of sources can be counted separately, in any order, and added.
"""

from __future__ import annotations

import numpy as np
from numba import uint64

from graphrf._base.compiled import njit
from graphrf.sampling.walks.loops import draw_lengths
from graphrf.sampling.walks.philox import Use, philox
from graphrf.sampling.walks.transitions import neighbour

_USE_DIRECTION = np.uint64(Use.DIRECTION)
_U32 = np.uint64(32)
# Walkers that advance together: enough to hide the latency
# of memory, few enough to stay in the first cache.
_LANES = 128


@njit(nogil=True, cache=True)
def count_walks(  # type: ignore[no-untyped-def]
    indptr,
    indices,
    cumulative,
    sources,
    n_walks,
    rule,
    survival,
    permutations,
    key,
    visits,
    counts,
    traced,
):
    """Walk `n_walks` times from every source and count; returns steps, and their trail.

    `visits` counts every node that a step leads to (not the start), else the nodes where walks end.
    If `traced`, the trail holds the node that each step led to and the source of its walk, in any
    order, uint32, shape (2, steps). A walk that continues from a dangling node, an empty row, is
    lost: it has no end point and no further visits.
    """
    lengths = np.empty(n_walks, np.int64)
    source = np.empty(_LANES, np.uint64)
    walk = np.empty(_LANES, np.uint64)
    length = np.empty(_LANES, np.int64)
    position = np.empty(_LANES, np.int64)
    words = np.empty((_LANES, 4), np.uint64)
    alive = np.empty(_LANES, np.int64)
    trail = np.empty((2, 0), np.uint32)
    n_steps = 0
    used = 0
    for row in range(sources.size):
        start = sources[row]
        draw_lengths(uint64(start), rule, survival, permutations, key, lengths)
        dangling = indptr[start] == indptr[start + 1]
        for j in range(n_walks):
            if lengths[j] == 0:
                if not visits:
                    counts[start] += 1
                continue
            if dangling:
                continue
            source[used] = uint64(start)
            walk[used] = uint64(j)
            length[used] = lengths[j]
            position[used] = start
            used += 1
            if used == _LANES:
                if traced:
                    trail = _with_room(trail, n_steps, length)
                n_steps += _advance(
                    used,
                    source,
                    walk,
                    length,
                    position,
                    words,
                    alive,
                    indptr,
                    indices,
                    cumulative,
                    key,
                    visits,
                    counts,
                    trail,
                    n_steps,
                )
                used = 0
    if traced:
        trail = _with_room(trail, n_steps, length[:used])
    n_steps += _advance(
        used,
        source,
        walk,
        length,
        position,
        words,
        alive,
        indptr,
        indices,
        cumulative,
        key,
        visits,
        counts,
        trail,
        n_steps,
    )
    return n_steps, trail[:, : n_steps if traced else 0].copy()


@njit(nogil=True)
def _with_room(trail, filled, lengths):  # type: ignore[no-untyped-def]
    """The trail, enlarged if walks of these lengths may not fit behind its first `filled` steps."""
    needed = filled + lengths.sum()
    if needed <= trail.shape[1]:
        return trail
    larger = np.empty((2, 2 * needed), np.uint32)
    for part in range(2):
        for i in range(filled):
            larger[part, i] = trail[part, i]
    return larger


@njit(nogil=True)
def _advance(  # type: ignore[no-untyped-def]
    used,
    source,
    walk,
    length,
    position,
    words,
    alive,
    indptr,
    indices,
    cumulative,
    key,
    visits,
    counts,
    trail,
    filled,
):
    """Walk the first `used` lanes to their ends.

    Unweighted graphs use one word per step, so four steps a call of the generator; weighted ones
    two words. Steps are written to the trail from `filled` on, unless it is empty. Counters:
    (source, walk, block of steps, DIRECTION).
    """
    per_call = 4 if cumulative.size == 0 else 2
    n_steps = 0
    for lane in range(used):
        alive[lane] = lane
    n = used
    k = 0
    while n > 0:
        phase = k % per_call
        if phase == 0:
            block = uint64(k // per_call)
            for i in range(n):
                lane = alive[i]
                words[lane, 0], words[lane, 1], words[lane, 2], words[lane, 3] = philox(
                    source[lane], walk[lane], block, _USE_DIRECTION, key
                )
        k += 1
        # One kind of read in each loop, so that many are in flight.
        for i in range(n):
            lane = alive[i]
            if per_call == 4:
                bits = words[lane, phase] << _U32
            else:
                bits = (words[lane, 2 * phase] << _U32) | words[lane, 2 * phase + 1]
            position[lane] = neighbour(position[lane], bits, indptr, indices, cumulative)
        for i in range(n):
            lane = alive[i]
            if visits or length[lane] == k:
                counts[position[lane]] += 1
        if trail.shape[1] > 0:
            for i in range(n):
                trail[0, filled + n_steps + i] = np.uint32(position[alive[i]])
                trail[1, filled + n_steps + i] = np.uint32(source[alive[i]])
        n_steps += n
        kept = 0
        for i in range(n):
            lane = alive[i]
            v = position[lane]
            if length[lane] > k and indptr[v] < indptr[v + 1]:
                alive[kept] = lane
                kept += 1
        n = kept
    return n_steps
