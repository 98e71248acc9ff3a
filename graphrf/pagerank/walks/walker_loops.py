"""The compiled loop of independent walkers: counts of visits, or of end points, at every node.

Many walkers advance together, one step at a time, so that their reads overlap in the memory system; no walk is
stored. All random bits are functions of (seed, source, walk, step), and the counts are integers, so blocks of
sources can be counted apart, in any order, and added.
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
# Walkers that advance together: enough to hide the latency of memory, few enough to stay in the first cache.
_LANES = 128


@njit(nogil=True, cache=True)
def count_walks(  # type: ignore[no-untyped-def]
    indptr, indices, cumulative, sources, n_walks, rule, survival, permutations, key, visits, counts
):
    """Walk from every source and count; returns the number of steps walked.

    Parameters
    ----------
    indptr, indices, cumulative : the walk arrays (`graphrf.sampling.walks.transitions`); an empty row is dangling
    sources : int64, shape (n,)
    n_walks : int, walks from each of them
    rule, survival, permutations : the law of lengths; `permutations` for `n_walks` walks
    key : uint64, the seed
    visits : bool; True counts every node that a step leads to (not the start), False the nodes where walks end
    counts : int64, shape (N,), added to

    Notes
    -----
    A walk that is to go on from a dangling node is lost: it has no end point and no further visits.
    """
    lengths = np.empty(n_walks, np.int64)
    source = np.empty(_LANES, np.uint64)
    walk = np.empty(_LANES, np.uint64)
    length = np.empty(_LANES, np.int64)
    position = np.empty(_LANES, np.int64)
    words = np.empty((_LANES, 4), np.uint64)
    alive = np.empty(_LANES, np.int64)
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
                n_steps += _advance(
                    used, source, walk, length, position, words, alive,
                    indptr, indices, cumulative, key, visits, counts,
                )  # fmt: skip
                used = 0
    n_steps += _advance(
        used, source, walk, length, position, words, alive,
        indptr, indices, cumulative, key, visits, counts,
    )  # fmt: skip
    return n_steps


@njit(nogil=True)
def _advance(  # type: ignore[no-untyped-def]
    used, source, walk, length, position, words, alive, indptr, indices, cumulative, key, visits, counts
):
    """Walk the first `used` lanes to their ends.

    Unweighted graphs use one word a step, so four steps a call of the generator; weighted ones two words.
    Counters: (source, walk, block of steps, DIRECTION).
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
        n_steps += n
        # One kind of read a loop, so that many are under way at once.
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
        kept = 0
        for i in range(n):
            lane = alive[i]
            v = position[lane]
            if length[lane] > k and indptr[v] < indptr[v + 1]:
                alive[kept] = lane
                kept += 1
        n = kept
    return n_steps
