"""The compiled loops of local PageRank: push residual mass from a source, then walk.

A source's state is kept for the touched nodes alone (`graphrf.pagerank.node_table`), so memory and
time depend on the neighbourhood and not on the graph. All random bits are functions of (seed,
source node, node, walk, step). Sources: `graphrf.pagerank.local_pagerank`; Berkhin, Internet Math.
3, 2006.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import uint64

from graphrf._base.compiled import njit
from graphrf._base.intrinsics import prefetch
from graphrf.pagerank.node_table import (
    FEWEST_ROWS,
    append,
    begin,
    clear,
    enlarged_table,
    new_table,
    place_of,
    unvisited,
)
from graphrf.pagerank.row_scores import N_BATCHES, rank, row_score, standard_error
from graphrf.sampling.buffers import enlarged
from graphrf.sampling.walks.philox import Use, philox, unit
from graphrf.sampling.walks.transitions import neighbour

_USE = np.uint64(Use.PUSH_WALK)
_U0 = np.uint64(0)
_U32 = np.uint64(32)
_MASK = np.uint64(0xFFFFFFFF)
# Counter of a node's number of walks, in the place of a walk's number.
_ROUNDING = np.uint64(0xFFFFFFFF)
# Walkers that advance together, so that their reads of memory overlap.
_LANES = 128
# The threshold is lowered by this factor until the walks will cost less than the pushes did, or
# until lowering it costs more than it saves and the pushes cost a 50th of the walks. A step of a
# walk costs as much as pushing along two edges.
_LOWERING = 0.5
_STEP_COST = 2.0
_PATIENCE = 50.0
# Maximum of queued nodes, and of their edges, that are prefetched together.
_AHEAD, _EDGES_AHEAD = 32, 512
# Lower limit of probabilities, whose logarithm must exist.
_LEAST_FAILURE = 1e-300


class Query(NamedTuple):
    """Parameters of a query, the same for every source; one type of record for the loops.

    `k` is 0 for all nodes; `limit` the residual that a node may keep for each of its edges, 0 for
    walks; `variance_bound` bounds the variance of a walk's score over its mean.
    """

    p_halt: float
    k: int
    limit: float
    epsilon: float
    delta: float
    failure: float
    variance_bound: float


@njit(nogil=True, cache=True)
def local_rows(indptr, indices, cumulative, sources, query, key):  # type: ignore[no-untyped-def]
    """One row of scores for every source, from the walk arrays, where an empty row is dangling.

    Returns `ends`, the limits of rows in `nodes`, `scores` and `errors`, each row best first if
    k > 0, and `record`, shape (n, 6): residual mass, pushes, walks, steps, touched nodes, delta.
    """
    n = sources.size
    ends = np.zeros(n + 1, np.int64)
    room = n * min(max(1, query.k), FEWEST_ROWS)
    nodes = np.empty(room, np.int64)
    scores = np.empty(room, np.float64)
    errors = np.empty(room, np.float64)
    record = np.zeros((n, 6), np.float64)
    best_scores = np.empty(max(1, query.k), np.float64)
    best_rows = np.empty(max(1, query.k), np.int64)
    table = new_table(FEWEST_ROWS)
    for i in range(n):
        table, used = begin(table, sources[i], indptr)
        table, used, density = _solve(
            table, used, indptr, indices, cumulative, query, key, best_scores, best_rows, record[i]
        )
        scale = query.p_halt / density if density > 0 else 0.0
        end = ends[i]
        count = rank(table, used, scale, query, best_scores, best_rows) if query.k > 0 else used
        if end + count > nodes.size:
            size = max(2 * nodes.size, end + count)
            nodes = enlarged(nodes, end, size)
            scores = enlarged(scores, end, size)
            errors = enlarged(errors, end, size)
        for j in range(count):
            row = best_rows[j] if query.k > 0 else j
            nodes[end + j] = table.nodes[row]
            scores[end + j] = row_score(table, row, scale, query.p_halt)
            errors[end + j] = standard_error(table, row, scale)
        ends[i + 1] = end + count
        record[i, 4] = used
        clear(table, used)
    return ends, nodes[: ends[n]], scores[: ends[n]], errors[: ends[n]], record


@njit(nogil=True)
def _solve(  # type: ignore[no-untyped-def]
    table, used, indptr, indices, cumulative, query, key, best_scores, best_rows, record
):
    """Push, then walk unless `query.limit` is given; returns walks for each unit of mass."""
    p = query.p_halt
    origin = table.nodes[0]
    record[5] = query.delta
    if indptr[origin] == indptr[origin + 1]:  # all jumps return to the source
        table.mass[0, 0] = 0.0
        table.mass[0, 1] = 1.0
        return table, used, 0.0
    walks_follow = query.limit == 0
    limit = _LOWERING / table.mass[0, 2] if walks_follow else query.limit
    walking = np.inf
    edges = 0
    while True:
        table, used, pushes, new_edges = _push(table, used, indptr, indices, cumulative, p, limit)
        edges += new_edges
        record[0] = (1 - p) * _residual(table, used)
        record[1] += pushes
        if not walks_follow:
            return table, used, 0.0
        delta = query.delta
        if query.k > 0 and rank(table, used, 0.0, query, best_scores, best_rows) == query.k:
            # Scores without walks are lower bounds, so the
            # k best scores are at least the k-th of them.
            delta = max(delta, row_score(table, best_rows[query.k - 1], 0.0, p))
        density = walk_density(
            query.epsilon, delta, max(delta * query.failure, _LEAST_FAILURE), query.variance_bound
        )
        # The last pushes must have paid, except near the start.
        saved = walking
        walking = _STEP_COST * record[0] * density / p
        saved -= walking
        if walking <= edges or (walking <= _PATIENCE * edges and saved <= new_edges):
            break
        limit *= _LOWERING
    record[5] = delta
    table, used, walks, steps = _walk(table, used, indptr, indices, cumulative, p, density, key)
    record[2] = walks
    record[3] = steps
    return table, used, density


# -- pushing ---------------------------------------------------------------------------------------


@njit(nogil=True, cache=True)
def _push(table, used, indptr, indices, cumulative, p_halt, limit):  # type: ignore[no-untyped-def]
    """Push nodes in order of arrival until no residual exceeds `limit` for each edge.

    A push turns p_halt of a node's residual into reserve and gives the rest to its neighbours, from
    a dangling node to the source. Returns the table, its number of rows, and the numbers of pushes
    and of edges.
    """
    pushes = 0
    edges = 0
    side = 0
    n = 0
    for row in range(used):
        waits = table.mass[row, 0] > limit * table.mass[row, 2]
        table.mass[row, 3] = 1.0 if waits else 0.0
        if waits:
            table.queues[0, n] = row
            n += 1
    while n > 0:
        done = 0
        following = 0
        while done < n:
            ahead, room = _look_ahead(
                table.queues[side], table.nodes, done, n, indptr, indices, cumulative
            )
            if used + room > table.nodes.size:
                table = enlarged_table(table, used, used + room)
            used, following = _deal(
                table.slots,
                table.places,
                table.nodes,
                table.mass,
                table.queues[side],
                table.queues[1 - side],
                done,
                ahead,
                used,
                following,
                indptr,
                indices,
                cumulative,
                p_halt,
                limit,
            )
            edges += room
            done = ahead
        pushes += n
        side = 1 - side
        n = following
    return table, used, pushes, edges


@njit(nogil=True)
def _deal(  # type: ignore[no-untyped-def]
    slots,
    places,
    nodes,
    mass,
    queue,
    next_queue,
    first,
    last,
    used,
    following,
    indptr,
    indices,
    cumulative,
    p_halt,
    limit,
):
    """Push nodes first .. last - 1 of a queue; returns numbers of rows and nodes of the next.

    The table is passed as arrays, since numba would count references to each of them at every edge.
    """
    weighted = cumulative.size > 0
    for i in range(first, last):
        row = queue[i]
        node = nodes[row]
        low = np.int64(indptr[node])
        high = np.int64(indptr[node + 1])
        residual = mass[row, 0]
        mass[row, 0] = 0.0
        mass[row, 1] += p_halt * residual
        mass[row, 3] = 0.0
        residual *= 1 - p_halt
        if low == high:
            mass[0, 0] += residual
            if mass[0, 3] == 0.0 and mass[0, 0] > limit * mass[0, 2]:
                mass[0, 3] = 1.0
                next_queue[following] = 0
                following += 1
            continue
        share = residual / (high - low)
        before = 0.0
        for e in range(low, high):
            if weighted:
                share = residual * (cumulative[e] - before)
                before = cumulative[e]
            v = uint64(indices[e])
            place = place_of(slots, v)
            word = slots[place]
            if word == _U0:
                to = used
                used = append(slots, places, nodes, mass, used, place, v, indptr)
            else:
                to = np.int64(word & _MASK) - 1
            held = mass[to, 0] + share
            mass[to, 0] = held
            if held > limit * mass[to, 2] and mass[to, 3] == 0.0:
                mass[to, 3] = 1.0
                next_queue[following] = to
                following += 1
    return used, following


@njit(nogil=True)
def _look_ahead(queue, nodes, first, last, indptr, indices, cumulative):  # type: ignore[no-untyped-def]
    """Prefetch data of a queue's nodes from `first` on; returns their end and edges.

    Nodes without edges count as one edge.
    """
    edges = 0
    end = first
    while end < last and end - first < _AHEAD and edges < _EDGES_AHEAD:
        node = nodes[queue[end]]
        low = np.int64(indptr[node])
        edges += max(1, np.int64(indptr[node + 1]) - low)
        prefetch(indices, low)
        if cumulative.size > 0:
            prefetch(cumulative, low)
        end += 1
    for i in range(first, end):
        node = nodes[queue[i]]
        low = np.int64(indptr[node])
        for e in range(low, min(np.int64(indptr[node + 1]), low + _EDGES_AHEAD)):
            prefetch(indptr, indices[e])
    return end, edges


@njit(nogil=True)
def _residual(table, used):  # type: ignore[no-untyped-def]
    total = 0.0
    for row in range(used):
        total += table.mass[row, 0]
    return total


# -- walks -----------------------------------------------------------------------------------------


@njit(nogil=True)
def walk_density(epsilon, score, failure, variance_bound):  # type: ignore[no-untyped-def]
    """Walks for each unit of residual mass that keep the relative errors of large scores.

    The error of a score of at least `score` exceeds epsilon with probability at most `failure`.

    A walk that has reached t comes back with probability R at most, so its score X has
    E exp(a X) - 1 <= E[X] a / (1 - s a / 2) for 0 <= a < 2 / s (s and R: `visit_variance_bound`).
    Let n walks start for each unit of mass, and let m be the part of rho_t that they estimate. By
    Chernoff the score misses rho_t by h or more with probability at most
    2 exp(-n h^2 / (s (2 m + h))); h = epsilon rho_t and m <= rho_t give n. At most 1 / delta nodes
    have rho_t >= delta, so that delta times the failure of a source serves all; smaller rho_t fail
    with probabilities that add up to less than the rest.
    """
    return variance_bound * (2 + epsilon) * np.log(2 / failure) / (epsilon * epsilon * score)


@njit(nogil=True, cache=True)
def _walk(table, used, indptr, indices, cumulative, p_halt, density, key):  # type: ignore[no-untyped-def]
    """Walk from the residual, `density` walks a unit of mass that goes on, and count.

    Each walk takes at least one step. A node's number of walks is rounded at random without bias,
    and batches take walks in turn. Counters, with a key of the source node: (node, walk, block of
    steps, PUSH_WALK).
    """
    w0, w1, _, _ = philox(uint64(table.nodes[0]), _U0, _U0, _USE, key)
    key = (w0 << _U32) | w1
    starts = np.empty((used, 3), np.int64)  # node, its walks, walks before it
    n_starts = 0
    walks = 0
    for row in range(used):
        unvisited(table, row)
        expected = table.mass[row, 0] * (1 - p_halt) * density
        if expected > 0:
            w0, w1, _, _ = philox(uint64(table.nodes[row]), _ROUNDING, _U0, _USE, key)
            number = np.int64(expected + unit(w0, w1))
            if number > 0:
                starts[n_starts, 0] = table.nodes[row]
                starts[n_starts, 1] = number
                starts[n_starts, 2] = walks
                n_starts += 1
                walks += number
    source = np.empty(walks // N_BATCHES + 1, np.uint64)
    walk = np.empty(source.size, np.uint64)
    steps = 0
    for batch in range(N_BATCHES):
        n = 0
        for i in range(n_starts):
            for j in range((batch - starts[i, 2]) % N_BATCHES, starts[i, 1], N_BATCHES):
                source[n] = uint64(starts[i, 0])
                walk[n] = uint64(j)
                n += 1
        for first in range(0, n, _LANES):
            table, used, taken = _advance(
                table,
                used,
                first,
                min(n, first + _LANES),
                source,
                walk,
                batch,
                indptr,
                indices,
                cumulative,
                p_halt,
                key,
            )
            steps += taken
    for row in range(used):
        _close(table.visits, row)
    return table, used, walks, steps


@njit(nogil=True)
def _advance(  # type: ignore[no-untyped-def]
    table, used, first, last, source, walk, batch, indptr, indices, cumulative, p_halt, key
):
    """Walk walks first .. last - 1 to their ends, together, and count every step's node.

    The first two words of a walk's bits give its length; a step takes one word, two on weighted
    graphs.
    """
    words = np.empty((_LANES, 4), np.uint64)
    position = np.empty(_LANES, np.int64)
    length = np.empty(_LANES, np.int64)
    alive = np.empty(_LANES, np.int64)
    origin = table.nodes[0]
    rate = 1.0 / np.log1p(-p_halt)
    n = last - first
    for lane in range(n):
        i = first + lane
        words[lane, 0], words[lane, 1], words[lane, 2], words[lane, 3] = philox(
            source[i], walk[i], _U0, _USE, key
        )
        length[lane] = 1 + np.int64(np.log1p(-unit(words[lane, 0], words[lane, 1])) * rate)
        position[lane] = np.int64(source[i])
        alive[lane] = lane
    per_call = 4 if cumulative.size == 0 else 2
    skipped = per_call // 2  # words spent on the length, in steps
    k = skipped
    steps = 0
    while n > 0:
        phase = k % per_call
        if phase == 0:
            for i in range(n):
                lane = alive[i]
                words[lane, 0], words[lane, 1], words[lane, 2], words[lane, 3] = philox(
                    source[first + lane], walk[first + lane], uint64(k // per_call), _USE, key
                )
        k += 1
        steps += n
        # One kind of read in each loop, so that many are in flight.
        for i in range(n):
            lane = alive[i]
            v = position[lane]
            if indptr[v] == indptr[v + 1]:
                position[lane] = origin
                continue
            if per_call == 4:
                bits = words[lane, phase] << _U32
            else:
                bits = (words[lane, 2 * phase] << _U32) | words[lane, 2 * phase + 1]
            position[lane] = neighbour(v, bits, indptr, indices, cumulative)
        table, used = _count(table, used, position, alive, n, batch, indptr)
        kept = 0
        for i in range(n):
            lane = alive[i]
            if length[lane] > k - skipped:
                alive[kept] = lane
                kept += 1
        n = kept
    return table, used, steps


@njit(nogil=True)
def _count(table, used, position, alive, n, batch, indptr):  # type: ignore[no-untyped-def]
    """Count a visit of every living walk to its node, and give new nodes a row."""
    if used + n > table.nodes.size:
        table = enlarged_table(table, used, used + n)
    for i in range(n):
        v = uint64(position[alive[i]])
        place = place_of(table.slots, v)
        word = table.slots[place]
        if word == _U0:
            row = used
            used = append(
                table.slots, table.places, table.nodes, table.mass, used, place, v, indptr
            )
            unvisited(table, row)
        else:
            row = np.int64(word & _MASK) - 1
        if table.visits[row, 1] != batch:
            _close(table.visits, row)
            table.visits[row, 1] = batch
        table.visits[row, 0] += 1.0
    return table, used


@njit(nogil=True)
def _close(visits, row):  # type: ignore[no-untyped-def]
    """Add the visits of the current batch to the sums over batches."""
    count = visits[row, 0]
    visits[row, 0] = 0.0
    visits[row, 2] += count
    visits[row, 3] += count * count
