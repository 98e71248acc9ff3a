"""The compiled loops of walks on CPUs: lengths, transitions, and the record of visits.

The walks of several sources advance together (`batches.py`); no walk is stored.
"""

from __future__ import annotations

import numpy as np
from numba import uint64

from graphrf._base.compiled import njit
from graphrf.sampling.buffers import with_room
from graphrf.sampling.walks.batches import new_layout, walk_independent, walk_stratified
from graphrf.sampling.walks.lengths import Rule
from graphrf.sampling.walks.philox import Use, philox, unit
from graphrf.sampling.walks.word_sort import sort_words

_RULE_ANTITHETIC = int(Rule.ANTITHETIC)
_RULE_PERMUTATION = int(Rule.PERMUTATION)
_RULE_STRATIFIED = int(Rule.STRATIFIED)
_USE_LENGTH = np.uint64(Use.LENGTH)

_U0 = np.uint64(0)
_U1 = np.uint64(1)
_U32 = np.uint64(32)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


# -- lengths ---------------------------------------------------------------------------------------


@njit(nogil=True)
def _length_of(x, survival):  # type: ignore[no-untyped-def]
    """The number of k >= 1 with x < survival[k]: the quantile of the length at 1 - x."""
    low = 0
    high = survival.size
    while high - low > 1:
        middle = (low + high) >> 1
        if x < survival[middle]:
            low = middle
        else:
            high = middle
    return low


@njit(nogil=True)
def draw_lengths(source, rule, survival, permutations, key, lengths):  # type: ignore[no-untyped-def]
    """Fill `lengths`, one per walk of `source`: step k is reached with a uniform below survival[k].

    `permutations` are those of `LengthLaw`. Counters: (source, walk, block, LENGTH).
    """
    m = lengths.size
    if rule == _RULE_ANTITHETIC:
        for pair in range(m // 2):
            alive0 = True
            alive1 = True
            lengths[2 * pair] = 0
            lengths[2 * pair + 1] = 0
            w2 = _U0
            w3 = _U0
            for k in range(1, survival.size):
                if not (alive0 or alive1):
                    break
                if k & 1:
                    w0, w1, w2, w3 = philox(source, uint64(pair), uint64(k >> 1), _USE_LENGTH, key)
                    t = unit(w0, w1)
                else:
                    t = unit(w2, w3)
                halt = 1.0 - survival[k] / survival[k - 1]
                alive0 = alive0 and t >= halt
                t = t + 0.5 if t < 0.5 else t - 0.5
                alive1 = alive1 and t >= halt
                lengths[2 * pair] += alive0
                lengths[2 * pair + 1] += alive1
        return
    group = permutations.shape[0] + 1
    order = permutations.shape[1]
    tile = 0
    shift = 0
    for j in range(m):
        w0, w1, w2, w3 = philox(source, uint64(j), _U0, _USE_LENGTH, key)
        x = unit(w0, w1)
        if rule == _RULE_PERMUTATION:
            # Tiles count from short to long walks, as in
            # the paper; x counts from long to short ones.
            member = j % group
            if member == 0:
                tile = np.int64((w2 * uint64(order)) >> _U32)
                x = (order - 1 - tile + x) / order
            else:
                x = (order - 1 - permutations[member - 1, tile] + x) / order
        elif rule == _RULE_STRATIFIED:
            # A random rotation of the strata makes every walk's own distribution exact.
            if j == 0:
                shift = np.int64((w2 * uint64(m)) >> _U32)
            x = ((permutations[0, j] + shift) % m + x) / m
        lengths[j] = _length_of(x, survival)


# -- the record ------------------------------------------------------------------------------------


@njit(nogil=True, cache=True)
def walk_block(  # type: ignore[no-untyped-def]
    indptr,
    indices,
    cumulative,
    sources,
    n_walks,
    rule,
    survival,
    permutations,
    stratified,
    key,
    desk,
    capacity,
):
    """The visits of all walks from each of `sources`, merged by (node, step).

    `desk` is `new_desk` for the sources whose walks advance together: 1, or at most `MOST_TOGETHER`
    walks in all; `capacity` the initial room for visits, which grows. Returns the arrays of a
    `Block`, whose entries and visits are the first elements of buffers, and the used sizes of
    these.
    """
    n_rows = sources.size
    n_nodes = indptr.size - 1
    longest = survival.size - 1
    batch = desk.lengths.size // n_walks
    layout = new_layout(n_nodes, longest, n_walks, batch)
    words = np.empty(1024, np.uint64)
    spare = np.empty(1024, np.uint64)
    entries_per_row = np.empty(n_rows, np.int64)
    visits_per_row = np.empty(n_rows, np.int64)
    nodes = np.empty(capacity, np.uint32)
    visits_per_entry = np.empty(capacity, np.uint16)
    steps = np.empty(capacity, np.uint16)
    counts = np.empty(capacity, np.uint16)
    # Typed, since constants would cause another compilation.
    n_entries = np.int64(0)
    n_visits = np.int64(0)
    for first in range(0, n_rows, batch):
        members = sources[first : min(first + batch, n_rows)]
        most = 0
        for s in range(members.size):
            lengths = desk.lengths[s * n_walks : (s + 1) * n_walks]
            draw_lengths(uint64(members[s]), rule, survival, permutations, key, lengths)
            total = 1
            furthest = 0
            for j in range(n_walks):
                total += lengths[j]
                furthest = max(furthest, lengths[j])
            # Stratified walks write one visit for each (node, step).
            most += min(total, 1 + furthest * n_nodes) if stratified else total
        if words.size < most:
            words = np.empty(most + most // 4, np.uint64)
            spare = np.empty(words.size, np.uint64)
        if stratified:
            n = walk_stratified(
                members, n_walks, indptr, indices, cumulative, key, layout, desk, words
            )
        else:
            n = walk_independent(
                members, n_walks, indptr, indices, cumulative, key, layout, desk, words
            )
        # Both write in the order of steps, and the sort keeps it among the visits of one node.
        in_place = sort_words(
            words, n, layout.node_bit, layout.node_bits + layout.source_bits, spare, desk.places
        )
        visits = words if in_place else spare
        steps = with_room(steps, n_visits, n_visits + n)
        counts = with_room(counts, n_visits, n_visits + n)
        nodes = with_room(nodes, n_entries, n_entries + n)
        visits_per_entry = with_room(visits_per_entry, n_entries, n_entries + n)
        last = first + members.size
        n_entries, n_visits = _record(
            visits[:n],
            layout,
            entries_per_row[first:last],
            visits_per_row[first:last],
            nodes,
            visits_per_entry,
            steps,
            counts,
            n_entries,
            n_visits,
        )
    return (
        entries_per_row,
        visits_per_row,
        nodes,
        visits_per_entry,
        steps,
        counts,
        n_entries,
        n_visits,
    )


@njit(nogil=True)
def _record(  # type: ignore[no-untyped-def]
    visits,
    layout,
    entries_per_row,
    visits_per_row,
    nodes,
    visits_per_entry,
    steps,
    counts,
    n_entries,
    n_visits,
):
    """Append the sorted visits of a batch to the record; returns its used sizes.

    Every word writes its pair and its entry, at the place of the last one if they are equal,
    without branches.
    """
    count_mask = (_U1 << layout.step_bit) - _U1
    step_mask = (_U1 << (layout.node_bit - layout.step_bit)) - _U1
    node_mask = (_U1 << uint64(layout.node_bits)) - _U1
    entry = n_entries - 1
    visit = n_visits - 1
    i = 0
    for row in range(entries_per_row.size):
        before = entry, visit
        pair = place = _ALL  # none: shifted words end in zeros above
        count = pairs = _U0
        while i < visits.size and (visits[i] >> (layout.source_bit - _U1)) >> _U1 == uint64(row):
            word = visits[i]
            new_pair = word >> layout.step_bit != pair
            new_place = word >> layout.node_bit != place
            pair = word >> layout.step_bit
            place = word >> layout.node_bit
            visit += np.int64(new_pair)
            entry += np.int64(new_place)
            count = (_U0 if new_pair else count) + (word & count_mask)
            pairs = (_U0 if new_place else pairs) + uint64(new_pair)
            steps[visit] = np.uint16(pair & step_mask)
            counts[visit] = np.uint16(count)
            nodes[entry] = np.uint32(place & node_mask)
            visits_per_entry[entry] = np.uint16(pairs)
            i += 1
        entries_per_row[row] = entry - before[0]
        visits_per_row[row] = visit - before[1]
    return entry + 1, visit + 1
