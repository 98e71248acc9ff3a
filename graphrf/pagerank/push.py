"""The compiled loops of local PageRank: push residual mass along edges from a source, then walk from what is left.

A source's state is kept for the touched nodes alone (`graphrf.pagerank.node_table`), so memory and time depend on
the neighbourhood and not on the graph. All random bits are functions of (seed of the bits, source node, node,
walk, step).

Sources: Andersen, Chung and Lang, "Local graph partitioning using PageRank vectors", FOCS 2006 (push); Berkhin,
"Bookmark-coloring algorithm for personalized PageRank computing", Internet Math. 3, 2006; Wang, Yang, Xiao, Wei
and Yang, "FORA: simple and effective approximate single-source personalized PageRank", KDD 2017 (walks from the
residual).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import uint64

from graphrf._base.compiled import njit
from graphrf._base.prefetch import prefetch
from graphrf.pagerank.node_table import FEWEST_ROWS, append, begin, clear, enlarged, new_table, place_of, unvisited
from graphrf.sampling.walks.philox import Use, philox, unit
from graphrf.sampling.walks.transitions import neighbour

# Independent batches of walks behind each standard error.
N_BATCHES = 16

_USE = np.uint64(Use.PUSH_WALK)
_U0 = np.uint64(0)
_U32 = np.uint64(32)
_MASK = np.uint64(0xFFFFFFFF)
# The counter of a node's number of walks stands where no walk's number does.
_ROUNDING = np.uint64(0xFFFFFFFF)
# Walkers that advance together, so that their reads of memory overlap.
_LANES = 128
# The threshold is lowered by this factor until the walks will cost less than the pushes did, or until lowering it
# cost more than it saved; but not before the pushes cost a 50th of the walks. A step of a walk costs about as
# much as two edges pushed along.
_LOWERING = 0.5
_STEP_COST = 2.0
_PATIENCE = 50.0
# Queued nodes that are requested from memory together, and their edges: no more once there are so many.
_AHEAD, _EDGES_AHEAD = 32, 512
# Probabilities below this, whose logarithm would be lost, are taken for this.
_LEAST_FAILURE = 1e-300


class Query(NamedTuple):
    """Parameters of a query, the same for every source; one type of record for the loops.

    Attributes
    ----------
    p_halt : float
    k : int, the best nodes to return; 0 for all
    limit : float, residual that a node may keep for each of its edges, without walks; 0 for walks
    epsilon, delta, failure : float, the guarantee (`graphrf.pagerank.local_pagerank`)
    spread : float, bound on the variance of a walk's score over its mean
    """

    p_halt: float
    k: int
    limit: float
    epsilon: float
    delta: float
    failure: float
    spread: float


@njit(nogil=True, cache=True)
def local_rows(indptr, indices, cumulative, sources, query, key):  # type: ignore[no-untyped-def]
    """One row of scores for every source.

    Parameters
    ----------
    indptr, indices, cumulative : the walk arrays (`graphrf.sampling.walks.transitions`); an empty row is dangling
    sources : int64, shape (n,)
    query : Query
    key : uint64

    Returns
    -------
    ends : int64, shape (n + 1,), where rows begin and end in the next three, each row best first if k > 0
    nodes : int64; scores, errors : float64
    record : float64, shape (n, 6): residual mass, pushes, walks, steps, touched nodes, delta
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
        count = _rank(table, used, scale, query, best_scores, best_rows) if query.k > 0 else used
        if end + count > nodes.size:
            size = max(2 * nodes.size, end + count)
            nodes, scores, errors = (
                _longer(nodes, end, size),
                _longer(scores, end, size),
                _longer(errors, end, size),
            )
        for j in range(count):
            row = best_rows[j] if query.k > 0 else j
            nodes[end + j] = table.nodes[row]
            scores[end + j] = _score(table, row, scale, query.p_halt)
            errors[end + j] = _error(table, row, scale)
        ends[i + 1] = end + count
        record[i, 4] = used
        clear(table, used)
    return ends, nodes[: ends[n]], scores[: ends[n]], errors[: ends[n]], record


@njit(nogil=True)
def _solve(  # type: ignore[no-untyped-def]
    table, used, indptr, indices, cumulative, query, key, best_scores, best_rows, record
):
    """Push, and walk if asked to; returns the walks for each unit of mass, 0 without walks."""
    p = query.p_halt
    origin = table.nodes[0]
    record[5] = query.delta
    if indptr[origin] == indptr[origin + 1]:  # every jump leads back
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
        if query.k > 0 and _rank(table, used, 0.0, query, best_scores, best_rows) == query.k:
            # Scores without walks are lower bounds, so the k best nodes are all above the k-th of them.
            delta = max(delta, _score(table, best_rows[query.k - 1], 0.0, p))
        density = walk_density(query.epsilon, delta, max(delta * query.failure, _LEAST_FAILURE), query.spread)
        # What has just been pushed for must have paid, unless pushing has hardly begun.
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


# -- pushing -------------------------------------------------------------------------------------------------


@njit(nogil=True, cache=True)
def _push(table, used, indptr, indices, cumulative, p_halt, limit):  # type: ignore[no-untyped-def]
    """Push until no node's residual exceeds `limit` for each of its edges; first come, first served.

    A push turns p_halt of a node's residual into reserve and deals the rest to its neighbours, from a dangling
    node to the source. Returns the table, its rows, the pushes and the edges that they went along.
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
            ahead, room = _look_ahead(table.queues[side], table.nodes, done, n, indptr, indices, cumulative)
            if used + room > table.nodes.size:
                table = enlarged(table, used, used + room)
            used, following = _deal(
                table.slots, table.places, table.nodes, table.mass, table.queues[side], table.queues[1 - side],
                done, ahead, used, following, indptr, indices, cumulative, p_halt, limit,
            )  # fmt: skip
            edges += room
            done = ahead
        pushes += n
        side = 1 - side
        n = following
    return table, used, pushes, edges


@njit(nogil=True)
def _deal(  # type: ignore[no-untyped-def]
    slots, places, nodes, mass, queue, next_queue, first, last, used, following, indptr, indices, cumulative,
    p_halt, limit,
):  # fmt: skip
    """Push the nodes first .. last - 1 of a queue; returns the table's rows, and the length of the next queue.

    Arrays, not the table: numba would count references to each of them at every edge.
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
    """Request what pushing some nodes of a queue from `first` on will read; returns their end, and their edges.

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


# -- walks ---------------------------------------------------------------------------------------------------


@njit(nogil=True)
def walk_density(epsilon, score, failure, spread):  # type: ignore[no-untyped-def]
    """Walks for each unit of residual mass, so that a node of `score` or more is missed by epsilon times its score
    with probability `failure` at most (derived in `graphrf.pagerank.local_pagerank`)."""
    return spread * (2 + epsilon) * np.log(2 / failure) / (epsilon * epsilon * score)


@njit(nogil=True, cache=True)
def _walk(table, used, indptr, indices, cumulative, p_halt, density, key):  # type: ignore[no-untyped-def]
    """Walk from the residual, `density` walks for each unit of mass that does not halt at once, and count.

    Each walk takes at least one step. A node's number of walks is rounded at random, with the right mean. The
    batches take walks in turn. Counters, under a key of the source node: (node, walk, block of steps, PUSH_WALK).
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
                table, used, first, min(n, first + _LANES), source, walk, batch,
                indptr, indices, cumulative, p_halt, key,
            )  # fmt: skip
            steps += taken
    for row in range(used):
        _close(table.visits, row)
    return table, used, walks, steps


@njit(nogil=True)
def _advance(  # type: ignore[no-untyped-def]
    table, used, first, last, source, walk, batch, indptr, indices, cumulative, p_halt, key
):
    """Walk walks first .. last - 1 to their ends, together, and count every step's node.

    The first two words of a walk's bits give its length; a step takes one word, two on weighted graphs.
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
        words[lane, 0], words[lane, 1], words[lane, 2], words[lane, 3] = philox(source[i], walk[i], _U0, _USE, key)
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
        # One kind of read a loop, so that many are under way at once.
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
        table = enlarged(table, used, used + n)
    for i in range(n):
        v = uint64(position[alive[i]])
        place = place_of(table.slots, v)
        word = table.slots[place]
        if word == _U0:
            row = used
            used = append(table.slots, table.places, table.nodes, table.mass, used, place, v, indptr)
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
    """Add the visits of the batch under way to the sums over batches."""
    count = visits[row, 0]
    visits[row, 0] = 0.0
    visits[row, 2] += count
    visits[row, 3] += count * count


# -- scores --------------------------------------------------------------------------------------------------


@njit(nogil=True)
def _score(table, row, scale, p_halt):  # type: ignore[no-untyped-def]
    """Reserve, the part of the residual that halts at once, and the walks' visits."""
    score = table.mass[row, 1] + p_halt * table.mass[row, 0]
    return score + scale * table.visits[row, 2] if scale > 0 else score


@njit(nogil=True)
def _error(table, row, scale):  # type: ignore[no-untyped-def]
    if scale == 0:  # no walks
        return 0.0
    total = table.visits[row, 2]
    variance = (N_BATCHES * table.visits[row, 3] - total * total) / (N_BATCHES - 1)
    return scale * np.sqrt(max(variance, 0.0))


@njit(nogil=True)
def _rank(table, used, scale, query, best_scores, best_rows):  # type: ignore[no-untyped-def]
    """The rows of the k best scores, best first, ties by node; returns how many there are.

    A heap whose top is the worst of the best, then taken apart.
    """
    k = query.k
    n = 0
    nodes = table.nodes
    for row in range(used):
        score = _score(table, row, scale, query.p_halt)
        if n < k:
            n += 1
            hole = n - 1
            while hole > 0:
                parent = (hole - 1) >> 1
                if _better(best_scores[parent], nodes[best_rows[parent]], score, nodes[row]):
                    best_scores[hole] = best_scores[parent]
                    best_rows[hole] = best_rows[parent]
                    hole = parent
                else:
                    break
            best_scores[hole] = score
            best_rows[hole] = row
        elif _better(score, nodes[row], best_scores[0], nodes[best_rows[0]]):
            _sink(best_scores, best_rows, nodes, n, score, row)
    for last in range(n - 1, 0, -1):
        score = best_scores[last]
        row = best_rows[last]
        best_scores[last] = best_scores[0]
        best_rows[last] = best_rows[0]
        _sink(best_scores, best_rows, nodes, last, score, row)
    return n


@njit(nogil=True)
def _better(score, node, other_score, other_node):  # type: ignore[no-untyped-def]
    return score > other_score or (score == other_score and node < other_node)


@njit(nogil=True)
def _sink(best_scores, best_rows, nodes, n, score, row):  # type: ignore[no-untyped-def]
    """Replace the top of a heap of n entries."""
    hole = 0
    while True:
        child = 2 * hole + 1
        if child >= n:
            break
        if child + 1 < n and _better(
            best_scores[child], nodes[best_rows[child]], best_scores[child + 1], nodes[best_rows[child + 1]]
        ):
            child += 1
        if _better(best_scores[child], nodes[best_rows[child]], score, nodes[row]):
            break
        best_scores[hole] = best_scores[child]
        best_rows[hole] = best_rows[child]
        hole = child
    best_scores[hole] = score
    best_rows[hole] = row


@njit(nogil=True)
def _longer(array, used, size):  # type: ignore[no-untyped-def]
    longer = np.empty(size, array.dtype)
    for i in range(used):
        longer[i] = array[i]
    return longer
