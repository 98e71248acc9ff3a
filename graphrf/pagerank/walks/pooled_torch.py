"""Pooled walkers as torch operations on any device: the counts of `walks.pooled`, bit for bit.

What the compiled loop carries from node to node becomes a running sum: the carry of the stops is
one modulo a whole walker, exact in integers; its owner is the last node before that took it over.
Decisions are made in float64 from the same numbers by the same operations, each rounded for itself:
to fuse a product with a sum would change bits.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from graphrf.pagerank.walks.pooled import BLOCK, FRACTION_BITS, ONE, SPARSE
from graphrf.sampling.walks.philox import Use
from graphrf.sampling.walks.philox_torch import bits64, high32, philox, unit64
from graphrf.sampling.walks.transitions_torch import DeviceTransitions, neighbours

# Nodes that stop together, and edges that are dealt along together: some hundred bytes each.
_CHUNK = 1 << 20
# Behind every place in a list.
_FAR = 2**63 - 1


def count_pool_on(
    walk: DeviceTransitions,
    starts: Tensor,
    p_halt: float,
    key: int,
    counts: Tensor,
    *,
    chunk: int = _CHUNK,
) -> int:
    """Run one pool to its end and count, as `graphrf.pagerank.walks.pooled.count_pool`.

    Only sizes come back from the device: the walkers after every round, and the nodes and edges
    that they take. `chunk` nodes and edges are worked on together; the counts do not depend on it.
    """
    n_nodes = walk.n_nodes
    stretch = max(chunk // BLOCK, 1) * BLOCK
    population, following = starts.clone(), torch.zeros_like(starts)
    total = int(population.sum())
    k = n_steps = 0
    while total * SPARSE >= n_nodes and total > 0:
        k += 1
        for low in range(0, n_nodes, stretch):
            nodes = population[low : low + stretch].nonzero().squeeze(1) + low
            block = nodes // BLOCK
            heads = torch.diff(block, prepend=block.new_full((1,), -1)).nonzero().squeeze(1)
            moves = _round(walk, nodes, population[nodes], heads, p_halt, k, key, chunk)
            for targets, walkers in moves:
                following.index_add_(0, targets, walkers)
        counts += following
        total = int(following.sum())
        n_steps += total
        population, following = following, population.zero_()
    nodes = population.nonzero().squeeze(1)
    head = nodes.new_zeros(1)
    first = following.fill_(_FAR)
    steps = nodes.new_zeros(())
    while nodes.numel():
        k += 1
        standing = population[nodes]
        population.index_fill_(0, nodes, 0)
        dealt = [
            (targets[walkers > 0], walkers[walkers > 0])
            for targets, walkers in _round(walk, nodes, standing, head, p_halt, k, key, chunk)
        ]
        if not dealt:
            break
        targets = torch.cat([targets for targets, _ in dealt])
        population.index_add_(0, targets, torch.cat([walkers for _, walkers in dealt]))
        # The list is in the order in which the nodes are
        # reached, which decides how their fractions are rounded.
        place = torch.arange(targets.numel(), device=walk.device)
        first.scatter_reduce_(0, targets, place, "amin")
        nodes = targets[first[targets] == place]
        first.index_fill_(0, nodes, _FAR)
        standing = population[nodes]
        counts.index_add_(0, nodes, standing)
        steps += standing.sum()
    return n_steps + int(steps)


def pool_counts(
    walk: DeviceTransitions, starts: np.ndarray, p_halt: float, key: np.uint64, counts: np.ndarray
) -> int:
    """`count_pool_on` for arrays, as `walks.pooled.count_pool`; counts are read back once."""
    on_device = torch.zeros(counts.size, dtype=torch.int64, device=walk.device)
    n_steps = count_pool_on(
        walk, torch.from_numpy(starts).to(walk.device), p_halt, int(key), on_device
    )
    counts += on_device.cpu().numpy()
    return n_steps


def _round(
    walk: DeviceTransitions,
    nodes: Tensor,
    walkers: Tensor,
    heads: Tensor,
    p_halt: float,
    k: int,
    key: int,
    chunk: int,
) -> Iterator[tuple[Tensor, Tensor]]:
    """One round of walkers on `nodes`: neighbours and their new walkers, in the loop's order.

    A neighbour may come several times, and may get none. `heads` are the places in `nodes` where
    those begin whose stops are rounded together. Counters: (node, round, 0, POOL) for a node's
    stops and its dealing, (first node, round, 1, POOL) for what the stops leave.
    """
    n = nodes.numel()
    if n == 0:
        return
    use = nodes.new_zeros(n + heads.numel())
    use[n:] = 1
    w0, w1, w2, _ = philox(torch.cat((nodes, nodes[heads])), k, use, int(Use.POOL), key)
    uniforms = w0.double() * 2.0**-32
    left = _stop(walkers, p_halt, uniforms[:n], heads, uniforms[n:])
    bits = bits64(w1[:n], w2[:n])
    low = walk.indptr[nodes].long()
    degree = walk.indptr[nodes + 1].long() - low
    going = ((left > 0) & (degree > 0)).nonzero().squeeze(1)
    if going.numel():
        yield from _deal(
            walk, nodes[going], left[going], bits[going], low[going], degree[going], chunk
        )


def _stop(walkers: Tensor, p_halt: float, uniforms: Tensor, heads: Tensor, lasts: Tensor) -> Tensor:
    """The walkers that go on, as `walks.pooled._stop` leaves them in each part, from head to head.

    `uniforms` has one for each population, `lasts` one for each part.
    """
    n = walkers.numel()
    expected = walkers.double() * p_halt
    whole = expected.long()
    fraction = ((expected - whole.double()) * float(ONE)).long()
    # The running sum wraps around, which takes nothing off its last bits.
    before = fraction.cumsum(0) - fraction
    part = torch.zeros_like(walkers).index_fill_(0, heads, 1).cumsum(0) - 1
    carry = (before - before[heads][part]) & (ONE - 1)
    both = carry + fraction
    grant = both >> FRACTION_BITS
    change = torch.where(
        grant == 1,
        uniforms * (2 * ONE - both).double() >= (ONE - carry).double(),
        uniforms * both.double() < fraction.double(),
    )
    # The owner after a node is the last that changed, found by how many have (on GPUs a running
    # maximum of one row is slow). Before the first change of a part there is nothing to take and so
    # no need of an owner.
    place = torch.arange(n, device=walkers.device)
    changes = change.cumsum(0)
    changed = place.new_zeros(n + 1).index_copy_(0, changes * change, place * change)
    owner = changed[changes]
    owner_before = torch.cat((place[:1], owner[:-1]))
    left = walkers - whole
    left.index_add_(0, torch.where(change, owner_before, place), -grant)
    end = torch.cat((heads[1:], heads.new_full((1,), n))) - 1
    rest = (both - (grant << FRACTION_BITS))[end]
    left.index_add_(0, owner[end], -(lasts * float(ONE) < rest.double()).long())
    return left


def _deal(
    walk: DeviceTransitions,
    nodes: Tensor,
    walkers: Tensor,
    bits: Tensor,
    low: Tensor,
    degree: Tensor,
    chunk: int,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Deal walkers (> 0) of nodes with edges, as `walks.pooled._deal`: to which, how many.

    A node has a slot for every edge, or for every walker where these are few; `chunk` slots are
    filled together.
    """
    few = 4 * walkers < degree
    slots = torch.where(few, walkers, degree)
    end = slots.cumsum(0)
    begin = end - slots
    n_slots = int(end[-1])
    cuts = torch.arange(0, n_slots, chunk, device=walk.device)
    rows = [*torch.searchsorted(end, cuts, right=True).tolist(), nodes.numel() - 1]
    gap = _quotient_of_all(walkers)
    # The quantities that the loop computes before it sweeps over a row.
    if walk.cumulative.numel():
        offset = unit64(bits)
    else:
        each = (walkers.double() / degree.double()).long()
        rest = walkers - each * degree
        offset = (high32(bits) * degree) >> 32
    for i in range(len(rows) - 1):
        first, last = i * chunk, min((i + 1) * chunk, n_slots)
        span = slice(rows[i], rows[i + 1] + 1)
        lengths = end[span].clamp(max=last) - begin[span].clamp(min=first)
        row = torch.arange(span.start, span.stop, device=walk.device)
        row = row.repeat_interleave(lengths, output_size=last - first)
        j = torch.arange(first, last, device=walk.device) - begin[row]
        edge = low[row] + j
        targets = walk.indices[edge].long()
        if walk.cumulative.numel():
            c = walkers[row]
            upto = torch.where(j == degree[row] - 1, c, _upto(walk, edge, c, offset[row]))
            dealt = upto - torch.where(
                j == 0, 0, _upto(walk, (edge - 1).clamp(min=0), c, offset[row])
            )
        else:
            # The multiples of the degree in the j-th step of `rest` from the random start.
            from_start = offset[row] + j * rest[row]
            dealt = each[row] + (from_start + rest[row]) // degree[row] - from_start // degree[row]
        picked = few[row].nonzero().squeeze(1)
        if picked.numel():
            who = row[picked]
            targets[picked] = neighbours(nodes[who], bits[who] + j[picked] * gap[who], walk)
            dealt[picked] = 1
        yield targets, dealt


def _upto(walk: DeviceTransitions, edge: Tensor, walkers: Tensor, offset: Tensor) -> Tensor:
    """Number of points (offset + i) / walkers below an edge's cumulative share."""
    return torch.minimum(
        walkers, torch.ceil(walk.cumulative[edge] * walkers.double() - offset).long()
    )


def _quotient_of_all(divisor: Tensor) -> Tensor:
    """(2^64 - 1) // divisor as 64 bits, divisor in [1, 2^62]; torch has signed integers."""
    half, rest = _FAR // divisor, _FAR % divisor
    return 2 * half + (2 * rest + 1) // divisor
