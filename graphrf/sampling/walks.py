"""The compiled loops of the walk engine on CPUs: lengths, steps, and the merged record of visits.

Free functions on plain arrays, one pass over a block of sources each, without the interpreter lock, so that a
thread pool runs blocks side by side. All walks of a source advance together, one step at a time, so that
their reads overlap in the memory system; no walk is stored.
"""

from __future__ import annotations

import numpy as np
from numba import njit, uint64

from graphrf.lengths import Rule
from graphrf.sampling.philox import Use, philox, unit

_RULE_INDEPENDENT = int(Rule.INDEPENDENT)
_RULE_ANTITHETIC = int(Rule.ANTITHETIC)
_RULE_PERMUTATION = int(Rule.PERMUTATION)
_RULE_STRATIFIED = int(Rule.STRATIFIED)
_USE_LENGTH = np.uint64(Use.LENGTH)
_USE_DIRECTION = np.uint64(Use.DIRECTION)
_USE_SHARED = np.uint64(Use.SHARED_DIRECTION)

_U0 = np.uint64(0)
_U1 = np.uint64(1)
_U16 = np.uint64(16)
_U32 = np.uint64(32)
_LOW8 = np.uint64(0xFF)
_LOW16 = np.uint64(0xFFFF)
_LOW32 = np.uint64(0xFFFFFFFF)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


# -- lengths -------------------------------------------------------------------------------------------------


@njit(nogil=True)
def _length_of(x, survival):  # type: ignore[no-untyped-def]
    """The number of k >= 1 with x < survival[k]: the quantile of the law at 1 - x."""
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
    """Fill `lengths` (one entry a walk) for the walks of `source`.

    A walk reaches step k when its uniform x is below survival[k]. `permutations` is what
    `LengthLaw.permutations(n_walks)` gives. Counters: (source, walk, block, LENGTH).
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
            # Tiles count from short to long walks, as in the paper; x counts from long to short ones.
            member = j % group
            if member == 0:
                tile = np.int64((w2 * uint64(order)) >> _U32)
                x = (order - 1 - tile + x) / order
            else:
                x = (order - 1 - permutations[member - 1, tile] + x) / order
        elif rule == _RULE_STRATIFIED:
            # A random rotation of the strata makes every walk's own law exact.
            if j == 0:
                shift = np.int64((w2 * uint64(m)) >> _U32)
            x = ((permutations[0, j] + shift) % m + x) / m
        lengths[j] = _length_of(x, survival)


# -- transitions ---------------------------------------------------------------------------------------------


@njit(nogil=True, cache=True)
def row_cumsum(weights, indptr):  # type: ignore[no-untyped-def]
    """Running sums of `weights` that start anew at every CSR row."""
    sums = np.empty(weights.size, np.float64)
    for row in range(indptr.size - 1):
        total = 0.0
        for entry in range(indptr[row], indptr[row + 1]):
            total += weights[entry]
            sums[entry] = total
    return sums


# -- sorting -------------------------------------------------------------------------------------------------


@njit(nogil=True)
def sort_by_node(words, n, spare, places):  # type: ignore[no-untyped-def]
    """Sort words[:n] (uint64) in place by their high 32 bits, keeping the order of equal ones.

    Radix sort from the lowest byte, of the bytes that differ; insertion sort where few words would not repay
    its counters. `spare` has room for n words, `places` 256 int64.
    """
    if n <= 24:
        for i in range(1, n):
            word = words[i]
            node = word >> _U32
            j = i - 1
            while j >= 0 and words[j] >> _U32 > node:
                words[j + 1] = words[j]
                j -= 1
            words[j + 1] = word
        return
    differ = _U0
    for i in range(1, n):
        differ |= words[i] ^ words[0]
    source, target = words, spare
    in_place = True
    for byte in range(4, 8):
        shift = uint64(8 * byte)
        if (differ >> shift) & _LOW8 == _U0:
            continue
        for digit in range(256):
            places[digit] = 0
        for i in range(n):
            places[np.int64((source[i] >> shift) & _LOW8)] += 1
        place = 0
        for digit in range(256):
            count = places[digit]
            places[digit] = place
            place += count
        for i in range(n):
            digit = np.int64((source[i] >> shift) & _LOW8)
            target[places[digit]] = source[i]
            places[digit] += 1
        source, target = target, source
        in_place = not in_place
    if not in_place:
        for i in range(n):  # slices that are assigned take numba two seconds to compile
            words[i] = spare[i]


# -- steps ---------------------------------------------------------------------------------------------------


@njit(inline="always")
def neighbour(v, bits, indptr, indices, cumulative):  # type: ignore[no-untyped-def]
    """The neighbour of v that 64 random bits choose, with probability proportional to the edge's weight.

    `cumulative` holds each row's running share of the weights, or is empty when the weights of every row are
    equal; then the high 32 bits choose, and a neighbour's probability is 1/degree within 2^-32.
    """
    low = np.int64(indptr[v])
    high = np.int64(indptr[v + 1])
    if cumulative.size == 0:
        return indices[low + np.int64(((bits >> _U32) * uint64(high - low)) >> _U32)]
    x = float(bits >> np.uint64(11)) * 2.0**-53
    high -= 1
    while low < high:
        middle = (low + high) >> 1
        if x < cumulative[middle]:
            high = middle
        else:
            low = middle + 1
    return indices[low]


@njit(nogil=True)
def _walk_independent(  # type: ignore[no-untyped-def]
    source, lengths, indptr, indices, cumulative, key, position, words, visits
):
    """Walks with independent directions; writes words (node, step, 1) to `visits`, returns their number.

    Unweighted graphs use one word a step, so four steps a call of the generator; weighted ones two words.
    Counters: (source, walk, block of steps, DIRECTION).
    """
    m = lengths.size
    per_call = 4 if cumulative.size == 0 else 2
    visits[0] = (source << _U32) | uint64(m)  # every walk starts on its source, at step 0
    n = 1
    longest = 0
    for j in range(m):
        position[j] = source
        longest = max(longest, lengths[j])
    for k in range(1, longest + 1):
        phase = (k - 1) % per_call
        if phase == 0:
            block = uint64((k - 1) // per_call)
            for j in range(m):
                if lengths[j] >= k:
                    words[j, 0], words[j, 1], words[j, 2], words[j, 3] = philox(
                        source, uint64(j), block, _USE_DIRECTION, key
                    )
        for j in range(m):
            if lengths[j] >= k:
                if per_call == 4:
                    bits = words[j, phase] << _U32
                else:
                    bits = (words[j, 2 * phase] << _U32) | words[j, 2 * phase + 1]
                v = neighbour(position[j], bits, indptr, indices, cumulative)
                position[j] = v
                visits[n] = (uint64(v) << _U32) | (uint64(k) << _U16) | _U1
                n += 1
    return n


@njit(nogil=True)
def deal(choices, first, last, bits):  # type: ignore[no-untyped-def]
    """Fill choices[first:last] for walks that leave one node together, by systematic sampling.

    With c walks, the j-th takes the neighbour at share (o + j / c) mod 1 of the node's weights, where o is the
    uniform of 64 `bits`: each by itself moves like a simple random walk, together they spread as evenly as can be.
    """
    gap = _ALL // uint64(last - first)
    for i in range(first, last):
        choices[i] = bits
        bits += gap


@njit(nogil=True)
def advance(walkers, choices, n, indptr, indices, cumulative):  # type: ignore[no-untyped-def]
    """Move walkers[:n], words of (node, number), to the neighbours that `choices` say.

    A loop of its own, so that the reads of different walkers overlap in the memory system.
    """
    for i in range(n):
        node = np.int64(walkers[i] >> _U32)
        to = neighbour(node, choices[i], indptr, indices, cumulative)
        walkers[i] = (uint64(to) << _U32) | (walkers[i] & _LOW32)


@njit(nogil=True)
def _walk_stratified(  # type: ignore[no-untyped-def]
    source, lengths, indptr, indices, cumulative, key, walkers, choices, spare, places, visits
):
    """Walks with stratified directions; writes words (node, step, count) to `visits`, returns their number.

    The walks that stand on one node at one step leave it together (`deal`), with a uniform that is fresh for each
    (source, node, step) and independent of the lengths. Counters: (source, node, step, SHARED_DIRECTION).
    """
    m = lengths.size
    n = 0
    standing = m
    for j in range(m):
        walkers[j] = (source << _U32) | uint64(j)
    k = 0
    while standing > 0:
        sort_by_node(walkers, standing, spare, places)
        kept = 0
        first = 0
        while first < standing:
            node = walkers[first] >> _U32
            last = first
            start = kept
            while last < standing and walkers[last] >> _U32 == node:
                if lengths[np.int64(walkers[last] & _LOW32)] > k:
                    walkers[kept] = walkers[last]
                    kept += 1
                last += 1
            visits[n] = (node << _U32) | (uint64(k) << _U16) | uint64(last - first)
            n += 1
            if kept > start:
                w0, w1, _, _ = philox(source, node, uint64(k), _USE_SHARED, key)
                deal(choices, start, kept, (w0 << _U32) | w1)
            first = last
        advance(walkers, choices, kept, indptr, indices, cumulative)
        standing = kept
        k += 1
    return n


# -- the record ----------------------------------------------------------------------------------------------


@njit(nogil=True, cache=True)
def walk_block(  # type: ignore[no-untyped-def]
    indptr, indices, cumulative, sources, n_walks, rule, survival, permutations, stratified, key, capacity
):
    """The visits of all walks from each of `sources`, merged by (node, step).

    Parameters
    ----------
    indptr, indices : int arrays of the CSR walk adjacency
    cumulative : float64, running share of each row's weights, or empty if unweighted
    sources : int64, shape (n,)
    rule, survival, permutations : the law of lengths
    stratified : bool, whether directions are stratified
    key : uint64, the seed
    capacity : int, visits to make room for at first; buffers grow when it does not suffice

    Returns
    -------
    entries_per_row, visits_per_row : int64, shape (n,)
    nodes : uint32, the distinct nodes visited from each source, ascending within a row
    visits_per_entry : uint16, how many (step, count) pairs belong to each of them
    steps, counts : uint16, those pairs, steps ascending
    n_entries, n_visits : int, how much of these buffers is used
    """
    n_rows = sources.size
    entries_per_row = np.empty(n_rows, np.int64)
    visits_per_row = np.empty(n_rows, np.int64)
    nodes = np.empty(capacity, np.uint32)
    visits_per_entry = np.empty(capacity, np.uint16)
    steps = np.empty(capacity, np.uint16)
    counts = np.empty(capacity, np.uint16)
    lengths = np.empty(n_walks, np.int64)
    position = np.empty(n_walks, np.int64)
    words = np.empty((n_walks, 4), np.uint64)
    walkers = np.empty(n_walks, np.uint64)
    choices = np.empty(n_walks, np.uint64)
    row_visits = np.empty(1024, np.uint64)
    spare = np.empty(max(1024, n_walks), np.uint64)
    places = np.empty(256, np.int64)
    n_entries = 0
    n_visits = 0
    for row in range(n_rows):
        source = uint64(sources[row])
        draw_lengths(source, rule, survival, permutations, key, lengths)
        total = 0
        longest = 0
        for j in range(n_walks):
            total += lengths[j]
            longest = max(longest, lengths[j])
        most = total + 1
        if stratified:  # writes one visit for each (node, step)
            most = min(most, 1 + longest * (indptr.size - 1))
        if row_visits.size < most:
            row_visits = np.empty(2 * most, np.uint64)
            spare = np.empty(2 * most + n_walks, np.uint64)
        if stratified:
            n = _walk_stratified(
                source, lengths, indptr, indices, cumulative, key, walkers, choices, spare, places, row_visits
            )
        else:
            n = _walk_independent(source, lengths, indptr, indices, cumulative, key, position, words, row_visits)
        # Both write in the order of steps, and the sort keeps it among the visits of one node.
        sort_by_node(row_visits, n, spare, places)
        if n_visits + n > steps.size:
            room = max(2 * steps.size, n_visits + n)
            steps = grown(steps, n_visits, room)
            counts = grown(counts, n_visits, room)
        if n_entries + n > nodes.size:
            room = max(2 * nodes.size, n_entries + n)
            nodes = grown(nodes, n_entries, room)
            visits_per_entry = grown(visits_per_entry, n_entries, room)
        first_entry = n_entries
        first_visit = n_visits
        previous = _ALL  # no (node, step) pair: the low bits of a real one are zero after the shift below
        node = _ALL
        for i in range(n):
            word = row_visits[i]
            pair = word >> _U16
            if pair == previous:
                counts[n_visits - 1] += np.uint16(word & _LOW16)
                continue
            previous = pair
            if word >> _U32 != node:
                node = word >> _U32
                nodes[n_entries] = np.uint32(node)
                visits_per_entry[n_entries] = 0
                n_entries += 1
            visits_per_entry[n_entries - 1] += np.uint16(1)
            steps[n_visits] = np.uint16(pair & _LOW16)
            counts[n_visits] = np.uint16(word & _LOW16)
            n_visits += 1
        entries_per_row[row] = n_entries - first_entry
        visits_per_row[row] = n_visits - first_visit
    return entries_per_row, visits_per_row, nodes, visits_per_entry, steps, counts, n_entries, n_visits


@njit(nogil=True)
def grown(array, used, room):  # type: ignore[no-untyped-def]
    """A larger copy of a buffer, of which `used` elements matter."""
    larger = np.empty(room, array.dtype)
    for i in range(used):
        larger[i] = array[i]
    return larger
