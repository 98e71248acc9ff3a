"""The compiled loops of the power samplers on CPUs: sparse products, compression, and the record of a row.

One pass over a block of sources, without the interpreter lock. All entries of W, and so all values, are positive.
Nodes carry the numbers of another order (see `relabelled`) while powers are taken, so that what is alike lies
together in the systematic sampling, and their own numbers in the record.

Subscripts are unsigned, which spares the test for negative ones, and what data decide is added, not branched on.
"""

from __future__ import annotations

import numpy as np
from numba import njit, uint64

from graphrf.sampling.philox import Use, philox, unit

_USE_COMPRESS = np.uint64(Use.COMPRESS)
_U0 = np.uint64(0)
_U1 = np.uint64(1)
_LOW6 = np.uint64(63)
_S6, _S12, _S18 = np.uint64(6), np.uint64(12), np.uint64(18)
# 2 generates the residues of 67, so a word with a single bit set is known by its remainder.
_PRIME = np.uint64(67)
_PLACE = np.zeros(67, np.uint64)
for _bit in range(64):
    _PLACE[(1 << _bit) % 67] = _bit
# Norms of what was dropped are rounded up to float32.
_UP = 1.0 + 2.0**-23


# -- ordered sets of nodes: a bitmap under two levels of summaries --------------------------------------------


@njit(inline="always")
def _insert(node, low, middle, top):  # type: ignore[no-untyped-def]
    """Put a node into the set."""
    word = uint64(node)
    low[word >> _S6] |= _U1 << (word & _LOW6)
    middle[word >> _S12] |= _U1 << ((word >> _S6) & _LOW6)
    top[word >> _S18] |= _U1 << ((word >> _S12) & _LOW6)


@njit(inline="always")
def _lowest(word):  # type: ignore[no-untyped-def]
    """The place of the lowest bit set in a word that is not zero."""
    return _PLACE[(word & (~word + _U1)) % _PRIME]


@njit(nogil=True)
def _drain(low, middle, top, nodes, first):  # type: ignore[no-untyped-def]
    """Empty the set into nodes[first:], ascending; returns the end. O(its size + N / 2^18)."""
    n = uint64(first)
    for t in range(uint64(top.size)):
        top_word = top[t]
        top[t] = _U0
        while top_word != _U0:
            m = (t << _S6) + _lowest(top_word)
            top_word &= top_word - _U1
            middle_word = middle[m]
            middle[m] = _U0
            while middle_word != _U0:
                place = (m << _S6) + _lowest(middle_word)
                middle_word &= middle_word - _U1
                word = low[place]
                low[place] = _U0
                while word != _U0:
                    nodes[n] = (place << _S6) + _lowest(word)
                    word &= word - _U1
                    n += _U1
    return np.int64(n)


# -- powers --------------------------------------------------------------------------------------------------


@njit(inline="always")
def _spread(node, value, indptr, indices, weights, dense, nodes, n):  # type: ignore[no-untyped-def]
    """Add value times the row of a node to `dense`; nodes reached first go to nodes[n:]. Returns their end."""
    for edge in range(uint64(indptr[node]), uint64(indptr[node + _U1])):
        to = indices[edge]
        share = value * weights[edge]
        before = dense[to]
        nodes[n] = to
        n += uint64((before == 0.0) & (share > 0.0))
        dense[to] = before + share
    return n


@njit(nogil=True)
def _product(indptr, indices, weights, nodes, values, first, last, dense):  # type: ignore[no-untyped-def]
    """Add the product with x to `dense`, x being nodes[first:last] with their values, the whole of every row.

    The nodes reached follow from `last` on; returns their end.
    """
    n = uint64(last)
    for i in range(uint64(first), uint64(last)):
        n = _spread(uint64(nodes[i]), values[i], indptr, indices, weights, dense, nodes, n)
    return np.int64(n)


@njit(inline="always")
def _is_read_whole(degree, mass, unit_mass):  # type: ignore[no-untyped-def]
    """Whether a node of this mass has its row read whole: half its edges or more would be picked."""
    return degree * unit_mass <= 2.0 * mass


@njit(nogil=True)
def product_within(  # type: ignore[no-untyped-def]
    indptr, indices, weights, cumulative, nodes, values, first, last, n_picks, u, dense
):
    """As `_product`, but of heavy rows and light entries a sample: an unbiased product for about `n_picks` reads.

    Entry i puts the mass y_i = x_i (sum of its row) on its neighbours. Where a fair share of the picks is half
    its edges or more, the row is read whole. The rest is sampled systematically over all its edges in turn, each
    edge with probability proportional to its mass, and every pick stands for the same mass. Returns the end of
    the nodes reached, and the number of edges read or picked: at most 2 n_picks + 1, as rows that are read whole
    have at most 2 edges for each pick of their share.
    """
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
            n = _land(low, high, (point - running) / values[i], gap, indices, cumulative, dense, nodes, n)
            done += 1
            point += gap
        running = end
    while done < n_sampled:  # rounding does not lose a pick
        node = uint64(nodes[latest])
        high = uint64(indptr[node + _U1]) - _U1
        n = _land(uint64(indptr[node]), high, cumulative[high], gap, indices, cumulative, dense, nodes, n)
        done += 1
    return np.int64(n), work + n_sampled


@njit(inline="always")
def _land(low, high, x, mass, indices, cumulative, dense, nodes, n):  # type: ignore[no-untyped-def]
    """Put mass on the neighbour among edges low .. high whose stretch of the row's running sum holds x."""
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
    """Move to the front what compression keeps exactly; returns the end of it, and the sum of the rest.

    With m places left and a rest that sums to S, an entry y of the rest is kept when y m >= S. Keeping one lowers
    S / m, so all that pass one threshold may be kept before it is computed anew: the same set results as by
    keeping the largest, one at a time.
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
    """Systematic sampling of nodes[first:last], exactly `n_picks` of them, moved to the front of the range.

    Entry i is picked when a point (u + j) total / n_picks, j = 0, 1, ..., falls into its stretch of the running
    sum of values: with probability n_picks y_i / total, and then it stands for total / n_picks. Rounding is not
    allowed to change the number of picks.
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
def _compress(nodes, values, first, last, budget, u, dense, low, middle, top):  # type: ignore[no-untyped-def]
    """Reduce the entries [first, last) to `budget` without bias; `dense` holds their values, and is cleared."""
    kept, total = keep_largest(nodes, values, first, last, budget)
    for i in range(uint64(first), uint64(kept)):
        dense[nodes[i]] = 0.0
    for i in range(uint64(kept), uint64(last)):
        _insert(nodes[i], low, middle, top)
    _drain(low, middle, top, nodes, kept)
    for i in range(uint64(kept), uint64(last)):
        node = nodes[i]
        values[i] = dense[node]
        dense[node] = 0.0
    pick(nodes, values, kept, last, total, first + budget - kept, u)


@njit(nogil=True)
def _powers(  # type: ignore[no-untyped-def]
    indptr,
    indices,
    weights,
    cumulative,
    start,
    source,
    budgets,
    picks,
    key,
    dense,
    low,
    middle,
    top,
    ends,
    nodes,
    values,
):
    """The powers x_k of e_start, compressed to budgets[k] entries after every product.

    A product reads about `picks` budgets[k] edges where its rows have more, and all of them where `picks` is 0.
    x_k is nodes[ends[k] : ends[k + 1]] with their values; `ends` has room for one more than the powers. Returns
    the buffers, which may have grown, and the number of multiply-adds. Counters: (source, step, 0, COMPRESS).
    """
    nodes[0] = start
    values[0] = 1.0
    ends[0] = 0
    ends[1] = 1
    work = 0
    for k in range(1, ends.size - 1):
        first = ends[k - 1]
        last = ends[k]
        budget = budgets[k]
        edges = 0
        for i in range(uint64(first), uint64(last)):
            node = uint64(nodes[i])
            edges += np.int64(indptr[node + _U1]) - np.int64(indptr[node])
        whole = picks == 0 or edges <= 2 * picks * budget
        reads = edges if whole else min(edges, 2 * picks * budget + 1)
        most = last + min(reads, dense.size) + 1
        if most > nodes.size:
            nodes = grown(nodes, last, 2 * most)
            values = grown(values, last, 2 * most)
        w0, w1, w2, w3 = philox(source, uint64(k), _U0, _USE_COMPRESS, key)
        if whole:
            end = _product(indptr, indices, weights, nodes, values, first, last, dense)
            work += edges
        else:
            end, reads = product_within(
                indptr,
                indices,
                weights,
                cumulative,
                nodes,
                values,
                first,
                last,
                picks * budget,
                unit(w2, w3),
                dense,
            )
            work += reads
        if end - last <= budget:
            for i in range(uint64(last), uint64(end)):
                node = nodes[i]
                values[i] = dense[node]
                dense[node] = 0.0
            ends[k + 1] = end
        else:
            for i in range(uint64(last), uint64(end)):
                values[i] = dense[nodes[i]]
            _compress(nodes, values, last, end, budget, unit(w0, w1), dense, low, middle, top)
            ends[k + 1] = last + budget
    return nodes, values, work


# -- the record ----------------------------------------------------------------------------------------------


@njit(nogil=True)
def _drop_smallest(found, n, keep, dense, tally):  # type: ignore[no-untyped-def]
    """Mark by -1 in `tally` all but the `keep` largest of found[:n] by `dense`; the lower node wins a tie."""
    scores = np.empty(n)
    for i in range(n):
        scores[i] = dense[found[i]]
    least = np.partition(scores, n - keep)[n - keep]
    ties = keep
    for i in range(n):
        ties -= scores[i] > least
    for i in range(n):
        if scores[i] < least:
            tally[found[i]] = -1
        elif scores[i] == least:
            if ties == 0:
                tally[found[i]] = -1
            else:
                ties -= 1


@njit(nogil=True, cache=True)
def power_block(  # type: ignore[no-untyped-def]
    indptr, indices, weights, cumulative, level, load, order, rank, dense, tally, low, middle, top,
    sources, budgets, picks, keep, key, capacity,
):  # fmt: skip
    """The powers W^k e_i of every source, as a record by (node, step).

    Parameters
    ----------
    indptr, indices, weights, cumulative, level, load, order, rank : what `relabelled` makes of the walk matrix
    dense, tally, low, middle, top : scratch memory, all zeros, and zeros again at the end
    sources : int64, shape (n,)
    budgets : int64, shape (max_length + 1,), entries that each x_k is compressed to
    picks : int, edges that a product reads for every place of the budget; 0 for all
    keep : int, nodes of the finished row that are kept: those with the largest sum_k (W^k)_iv
    key : uint64, the seed
    capacity : int, values to make room for at first; buffers grow when it does not suffice

    Returns
    -------
    entries_per_row, values_per_row : int64, shape (n,)
    work : int64, shape (n,), multiply-adds
    dropped : float32, shape (n, max_length + 1), Euclidean norm of what was dropped of
        each x_k; no rows where `keep` drops none
    found : uint32, the nodes of each row, ascending within it
    per_entry : uint16, how many (step, value) pairs belong to each of them
    steps, counts : uint16, float32, those pairs, steps ascending; a value is (W^k)_iv sqrt(d_v / d_i), the
        probability of a walk
    n_entries, n_values : int, how much of these buffers is used
    """
    max_length = budgets.size - 1
    n_rows = sources.size
    entries_per_row = np.empty(n_rows, np.int64)
    values_per_row = np.empty(n_rows, np.int64)
    work = np.empty(n_rows, np.int64)
    cuts = keep < dense.size
    dropped = np.zeros((n_rows if cuts else 0, max_length + 1), np.float32)
    found = np.empty(capacity, np.uint32)
    per_entry = np.empty(capacity, np.uint16)
    steps = np.empty(capacity, np.uint16)
    counts = np.empty(capacity, np.float32)
    ends = np.zeros(max_length + 2, np.int64)
    nodes = np.empty(1024, np.uint32)
    values = np.empty(1024)
    n_entries = 0
    n_values = 0
    for row in range(n_rows):
        nodes, values, work[row] = _powers(
            indptr, indices, weights, cumulative, rank[sources[row]], uint64(sources[row]), budgets, picks, key,
            dense, low, middle, top, ends, nodes, values,
        )  # fmt: skip
        own = level[sources[row]]
        n = ends[max_length + 1]
        if n_values + n > steps.size:
            room = max(2 * steps.size, n_values + n)
            steps = grown(steps, n_values, room)
            counts = grown(counts, n_values, room)
        if n_entries + n > found.size:
            room = max(2 * found.size, n_entries + n)
            found = grown(found, n_entries, room)
            per_entry = grown(per_entry, n_entries, room)
        # Values of each node: counted, then every one goes to its place, in the order of nodes and steps.
        for i in range(uint64(n)):
            node = order[nodes[i]]
            nodes[i] = node
            _insert(node, low, middle, top)
            tally[node] += 1
        last_entry = _drain(low, middle, top, found, n_entries)
        if last_entry - n_entries > keep:
            for i in range(n):
                dense[nodes[i]] += values[i] * (own / level[nodes[i]])
            _drop_smallest(found[n_entries:last_entry], last_entry - n_entries, keep, dense, tally)
            for i in range(n_entries, last_entry):
                dense[found[i]] = 0.0
        place = n_values
        entry = n_entries
        for i in range(uint64(n_entries), uint64(last_entry)):
            node = found[i]
            count = tally[node]
            if count > 0:
                found[entry] = node
                per_entry[entry] = np.uint16(count)
                tally[node] = place
                place += count
                entry += 1
        for k in range(max_length + 1):
            lost = 0.0
            for i in range(uint64(ends[k]), uint64(ends[k + 1])):
                node = nodes[i]
                to = tally[node]
                if to < 0:
                    lost += (values[i] * (own / level[node])) ** 2
                else:
                    steps[uint64(to)] = np.uint16(k)
                    counts[uint64(to)] = np.float32(values[i] * (load[node] / load[sources[row]]))
                    tally[node] = to + 1
            if cuts:
                dropped[row, k] = np.float32(np.sqrt(lost) * _UP)
        for i in range(uint64(n)):
            tally[nodes[i]] = 0
        entries_per_row[row] = entry - n_entries
        values_per_row[row] = place - n_values
        n_entries = entry
        n_values = place
    return entries_per_row, values_per_row, work, dropped, found, per_entry, steps, counts, n_entries, n_values


@njit(nogil=True, cache=True)
def exact_size(indptr, indices, start, max_length):  # type: ignore[no-untyped-def]
    """Nodes, values (nodes and steps) and multiply-adds of the exact powers of one source, without making them."""
    n_nodes = indptr.size - 1
    last_step = np.full(n_nodes, -1, np.int32)
    here = np.empty(n_nodes, np.int64)
    there = np.empty(n_nodes, np.int64)
    here[0] = start
    last_step[start] = 0
    n = 1
    n_found = 1
    n_values = 1
    work = 0
    for k in range(1, max_length + 1):
        reached = 0
        for i in range(n):
            node = here[i]
            work += np.int64(indptr[node + 1] - indptr[node])
            for edge in range(indptr[node], indptr[node + 1]):
                to = indices[edge]
                if last_step[to] != k:
                    n_found += last_step[to] < 0
                    last_step[to] = k
                    there[reached] = to
                    reached += 1
        here, there = there, here
        n = reached
        n_values += n
    return n_found, n_values, work


@njit(nogil=True)
def grown(array, used, room):  # type: ignore[no-untyped-def]
    """A larger copy of a buffer, of which `used` elements matter."""
    larger = np.empty(room, array.dtype)
    for i in range(used):
        larger[i] = array[i]
    return larger
