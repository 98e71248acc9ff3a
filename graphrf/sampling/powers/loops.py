"""The compiled loops of the power samplers on CPUs: powers of a source, and their record.

Powers are computed in another order of the nodes (see `relabelled`); the record has their own
numbers.
"""

from __future__ import annotations

import numpy as np
from numba import uint64

from graphrf._base.compiled import njit
from graphrf._base.intrinsics import prefetch
from graphrf.sampling.buffers import with_room
from graphrf.sampling.powers.compression import compress, product, product_within
from graphrf.sampling.powers.node_sets import drain, insert
from graphrf.sampling.powers.selection import kth_largest
from graphrf.sampling.walks.philox import Use, philox, unit

_USE_COMPRESS = np.uint64(Use.COMPRESS)
_U0 = np.uint64(0)
_U1 = np.uint64(1)
# Norms of dropped parts are rounded up to float32.
_UP = 1.0 + 2.0**-23


@njit(nogil=True)
def powers_of(  # type: ignore[no-untyped-def]
    matrix, start, source, budgets, picks, key, scratch, ends, nodes, values
):
    """The powers x_k of e_start, compressed to budgets[k] entries after every product.

    x_k is nodes[ends[k] : ends[k + 1]] with their values. Returns the buffers, which may have been
    enlarged, and the number of multiply-adds. Counters: (source, step, 0, COMPRESS).
    """
    indptr, indices, weights, cumulative = (
        matrix.indptr,
        matrix.indices,
        matrix.weights,
        matrix.cumulative,
    )
    dense, _, low, middle, top = scratch
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
            edge = np.int64(indptr[node])
            edges += np.int64(indptr[node + _U1]) - edge
            # Rows are scattered over memory, and all of them are read soon.
            prefetch(indices, edge)
            prefetch(cumulative, np.int64(indptr[node + _U1]) - 1)
        whole = picks == 0 or edges <= 2 * picks * budget
        reads = edges if whole else min(edges, 2 * picks * budget + 1)
        most = last + min(reads, dense.size) + 1
        nodes = with_room(nodes, last, most)
        values = with_room(values, last, most)
        w0, w1, w2, w3 = philox(source, uint64(k), _U0, _USE_COMPRESS, key)
        if whole:
            end = product(indptr, indices, weights, nodes, values, first, last, dense)
            work += edges
        else:
            end, reads = product_within(
                matrix, nodes, values, first, last, picks * budget, unit(w2, w3), dense
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
            compress(nodes, values, last, end, budget, unit(w0, w1), dense, low, middle, top)
            ends[k + 1] = last + budget
    return nodes, values, work


# -- the record ------------------------------------------------------------------------------------


@njit(nogil=True)
def _drop_smallest(found, keep, nodes, values, own, level, dense, tally):  # type: ignore[no-untyped-def]
    """Mark by -1 in `tally` all of `found` but `keep` of largest sum; lower ones win ties."""
    n = found.size
    for i in range(nodes.size):
        dense[nodes[i]] += values[i] * (own / level[nodes[i]])
    scores = np.empty(n)
    for i in range(n):
        scores[i] = dense[found[i]]
        dense[found[i]] = 0.0
    least = kth_largest(scores.copy(), keep)
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


@njit(nogil=True)
def _assign_places(found, per_entry, tally, first, last, place):  # type: ignore[no-untyped-def]
    """Move kept ones of found[first:last] to the front; places of values from `place` on."""
    entry = first
    for i in range(uint64(first), uint64(last)):
        node = found[i]
        count = tally[node]
        if count > 0:
            found[entry] = node
            per_entry[entry] = np.uint16(count)
            tally[node] = place
            place += count
            entry += 1
    return entry, place


@njit(nogil=True, cache=True)
def power_block(  # type: ignore[no-untyped-def]
    matrix, scratch, sources, budgets, picks, keep, key, capacity
):
    """The powers W^k e_i of every source, as a record by (node, step) of walk probabilities.

    Each x_k is compressed to budgets[k] entries, and a product reads `picks` edges for each of
    them, 0 for all. `keep` nodes of a finished row are kept: those with the largest sum_k (W^k)_iv.
    `scratch` is all zeros, as at the end; `capacity` is the initial room for values, which grows.
    Returns sizes of rows, multiply-adds, norms of the dropped part of each x_k (no rows if none is
    dropped), the buffers of the record, and the used sizes of these.
    """
    level, load, order, rank = matrix.level, matrix.load, matrix.order, matrix.rank
    dense, tally, low, middle, top = scratch
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
        nodes, values, work[row] = powers_of(
            matrix,
            rank[sources[row]],
            uint64(sources[row]),
            budgets,
            picks,
            key,
            scratch,
            ends,
            nodes,
            values,
        )
        own = level[sources[row]]
        n = ends[max_length + 1]
        steps = with_room(steps, n_values, n_values + n)
        counts = with_room(counts, n_values, n_values + n)
        found = with_room(found, n_entries, n_entries + n)
        per_entry = with_room(per_entry, n_entries, n_entries + n)
        # Values of each node are counted, then moved to
        # their places in the order of nodes and steps.
        for i in range(uint64(n)):
            node = order[nodes[i]]
            nodes[i] = node
            insert(node, low, middle, top)
            tally[node] += 1
        last_entry = drain(low, middle, top, found, n_entries)
        if last_entry - n_entries > keep:
            _drop_smallest(
                found[n_entries:last_entry], keep, nodes[:n], values, own, level, dense, tally
            )
        entry, place = _assign_places(found, per_entry, tally, n_entries, last_entry, n_values)
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
    return (
        entries_per_row,
        values_per_row,
        work,
        dropped,
        found,
        per_entry,
        steps,
        counts,
        n_entries,
        n_values,
    )


@njit(nogil=True, cache=True)
def exact_size(indptr, indices, start, max_length):  # type: ignore[no-untyped-def]
    """Nodes, values and multiply-adds of the exact powers of one source, without the values."""
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
