"""One compressed step of many rows at once in torch, with the results of `compression.py`.

Vectors keep the order of the loops, since systematic sampling depends on it, and sums are over
segments in that order, so values have the same bits. The running sums of systematic sampling go
along the rows of a padded matrix: devices other than the CPU may add them in another order, so that
a pick may differ by rounding.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from graphrf.features.device_record import starts_of
from graphrf.sampling.device_blocks import Packing, run_lengths
from graphrf.sampling.powers.prepared import Matrix
from graphrf.sampling.walks.transitions_torch import search_rows

_NO_PLACE = -1


class DeviceMatrix(NamedTuple):
    """`powers.prepared.Matrix` on a device; `halvings` complete a search in the longest row."""

    indptr: Tensor
    indices: Tensor
    weights: Tensor
    cumulative: Tensor
    level: Tensor
    load: Tensor
    order: Tensor
    rank: Tensor
    halvings: int


def matrix_on_device(matrix: Matrix, device: torch.device) -> DeviceMatrix:
    """A copy of the matrix on a device."""
    short = np.int32 if matrix.order.size < 2**31 else np.int64
    integers = {"indptr": np.int64, "indices": short, "order": np.int64, "rank": np.int64}
    tensors = {
        name: torch.from_numpy(np.array(array, integers.get(name, np.float64))).to(device)
        for name, array in matrix._asdict().items()
    }
    return DeviceMatrix(
        **tensors, halvings=int(np.diff(matrix.indptr).max(initial=1) - 1).bit_length()
    )


class Vectors(NamedTuple):
    """A sparse vector for each row: nodes (int64) with values (float64), and rows' sizes."""

    nodes: Tensor
    values: Tensor
    sizes: Tensor

    def rows(self) -> Tensor:
        """The row of each entry, int64."""
        return _numbers(self.sizes, self.nodes.numel())


class Reached(NamedTuple):
    """Nodes that a product reaches, ascending within rows from `starts`, with row and value.

    `places` is the rank of each in the order of being reached.
    """

    rows: Tensor
    nodes: Tensor
    values: Tensor
    places: Tensor
    starts: Tensor


def segment_sums(values: Tensor, sizes: Tensor) -> Tensor:
    """The sum of each segment of `values`, in order."""
    # With two dimensions each sum is one thread's on GPUs too, which keeps the order.
    return torch.segment_reduce(values[:, None], "sum", lengths=sizes, axis=0, unsafe=True)[:, 0]


def edges_of(x: Vectors, matrix: DeviceMatrix) -> tuple[Tensor, Tensor]:
    """Number of edges of each entry, and of all entries of each row."""
    degrees = at(matrix.indptr, x.nodes + 1) - at(matrix.indptr, x.nodes)
    return degrees, _per_row(degrees, x.sizes)


def at(values: Tensor, places: Tensor) -> Tensor:
    """values[places] in one dimension; `index_select` takes a fifth of the time on CPUs."""
    return values.index_select(0, places)


def _numbers(sizes: Tensor, total: int) -> Tensor:
    """Segment number of each of `total` elements, for segments of these sizes."""
    numbers = torch.arange(sizes.numel(), device=sizes.device)
    return torch.repeat_interleave(numbers, sizes, output_size=total)


def _per_row(integers: Tensor, sizes: Tensor) -> Tensor:
    """Sums of integers, or numbers of true elements, over segments of these sizes."""
    return at(starts_of(integers), starts_of(sizes)).diff()


def _running(padded: Tensor) -> Tensor:
    """Running sums along rows of non-negative numbers: not decreasing in any order."""
    return padded.cumsum(1).cummax(1).values


def _totals(padded: Tensor) -> Tensor:
    """The sum of each row."""
    return segment_sums(
        padded.reshape(-1), torch.full_like(padded[:, 0], padded.shape[1], dtype=torch.int64)
    )


def _points(gap: Tensor, u: Tensor, most: int) -> Tensor:
    """(u + j) gap for j = 0 .. most - 1, a row for each gap, added up as in the loops."""
    points = gap[:, None].expand(-1, most).clone()
    points[:, 0] *= u
    return _running(points)


# -- the product -----------------------------------------------------------------------------------


class _Plan(NamedTuple):
    """Edges that a product reads of each entry (all or none), and those picked by row."""

    reads: Tensor
    picks: Tensor
    nodes: Tensor
    values: Tensor


def product(
    x: Vectors, matrix: DeviceMatrix, n_picks: int, u: Tensor | None, packing: Packing
) -> tuple[Reached, Tensor]:
    """The products of rows with the walk matrix, and how many edges each reads or picks.

    With a uniform u of each row, rows with more than 2 `n_picks` edges are sampled, as by
    `product_within`.
    """
    n_rows = x.sizes.numel()
    reads, work = edges_of(x, matrix)
    plan = None
    if u is not None:
        sampled = work > 2 * n_picks
        if bool(sampled.any()):
            plan = _planned(x, matrix, reads, sampled, n_picks, u)
            reads = plan.reads
    ends = reads.cumsum(0)
    n_reads = int(ends[-1])
    entry = _numbers(reads, n_reads)
    edge = torch.arange(n_reads, device=ends.device) + at(
        at(matrix.indptr, x.nodes) - ends + reads, entry
    )
    shares = at(x.values, entry) * at(matrix.weights, edge)
    keys = packing.pairs(at(x.rows(), entry), at(matrix.indices, edge).long())
    del entry, edge
    # Shares may underflow, and then they reach no node.
    keys.masked_fill_(shares == 0.0, n_rows << packing.node_bits)
    if plan is not None:
        work = _per_row(reads, x.sizes)
        keys, shares = _with_picks(keys, shares, work, plan, packing)
        work = work + plan.picks
    return _gathered(keys, shares, n_rows, packing), work


def _planned(
    x: Vectors, matrix: DeviceMatrix, degrees: Tensor, sampled: Tensor, n_picks: int, u: Tensor
) -> _Plan:
    """Plan of a product; `sampled` marks the rows whose light entries have their edges sampled."""
    rows = x.rows()
    masses = x.values * at(matrix.cumulative, at(matrix.indptr, x.nodes + 1) - 1)
    # By a tensor: GPUs multiply by the reciprocal of a number, which may round an integer quotient.
    unit_mass = segment_sums(masses, x.sizes) / torch.full_like(x.sizes, n_picks)
    is_light = at(sampled, rows) & (degrees * at(unit_mass, rows) > 2.0 * masses)
    reads = torch.where(is_light, 0, degrees)
    masses = torch.where(is_light, masses, 0.0)
    rest = segment_sums(masses, x.sizes)
    picks = torch.where(rest > 0.0, torch.ceil(rest / unit_mass), 0.0).long()
    # From here on only light entries, and only rows that have some, as rows of padded matrices.
    sizes = _per_row(is_light, x.sizes)
    chosen = (sizes > 0).nonzero().view(-1)
    if chosen.numel() == 0:
        return _Plan(reads, picks, x.nodes[:0], x.values[:0])
    sizes, some, gap = at(sizes, chosen), at(picks, chosen), at(rest, chosen) / at(picks, chosen)
    starts = starts_of(sizes)
    light = is_light.nonzero().view(-1)
    width, most, n_landed = torch.stack([sizes.max(), some.max(), some.sum()]).tolist()
    row = _numbers(sizes, light.numel())
    ends = masses.new_zeros(chosen.numel(), width)
    ends[row, torch.arange(light.numel(), device=row.device) - at(starts, row)] = at(masses, light)
    ends = _running(ends)
    points = _points(gap, at(u, chosen), most)
    entry = torch.searchsorted(ends, points, right=True)
    # Each pick in turn. One lost to rounding goes to the last possible edge.
    row = _numbers(some, n_landed)
    nth = torch.arange(n_landed, device=row.device) - at(starts_of(some), row)
    entry, point = entry[row, nth], points[row, nth]
    lost = entry >= at(sizes, row)
    before = torch.where(entry > 0, ends[row, (entry - 1).clamp_min(0)], 0.0)
    entry = at(light, torch.minimum(entry + at(starts, row), at(starts, row + 1) - 1))
    stretch = torch.where(lost, torch.inf, (point - before) / at(x.values, entry))
    return _Plan(reads, picks, _landed(at(x.nodes, entry), stretch, matrix), at(gap, row))


def _landed(nodes: Tensor, x: Tensor, matrix: DeviceMatrix) -> Tensor:
    """The neighbour of each node whose interval of the row's running sum holds x."""
    low, high = at(matrix.indptr, nodes), at(matrix.indptr, nodes + 1) - 1
    return at(matrix.indices, search_rows(x, low, high, matrix.cumulative, matrix.halvings)).long()


def _with_picks(
    keys: Tensor, shares: Tensor, whole: Tensor, plan: _Plan, packing: Packing
) -> tuple[Tensor, Tensor]:
    """Keys and shares row by row: in each row edges that are read first, then picked ones."""
    n_keys, n_picks = keys.numel(), plan.nodes.numel()
    starts = starts_of(whole + plan.picks)[:-1]
    row = _numbers(whole, n_keys)
    read = torch.arange(n_keys, device=row.device) + at(starts - starts_of(whole)[:-1], row)
    row = _numbers(plan.picks, n_picks)
    picked = torch.arange(n_picks, device=row.device) + at(
        starts + whole - starts_of(plan.picks)[:-1], row
    )
    all_keys, all_shares = keys.new_empty(n_keys + n_picks), shares.new_empty(n_keys + n_picks)
    all_keys.scatter_(0, read, keys).scatter_(0, picked, packing.pairs(row, plan.nodes))
    all_shares.scatter_(0, read, shares).scatter_(0, picked, plan.values)
    return all_keys, all_shares


def _gathered(keys: Tensor, shares: Tensor, n_rows: int, packing: Packing) -> Reached:
    """Sums of shares that reach the same node of a row, in the order given; rows in order."""
    n_keys = keys.numel()
    keys, order = torch.sort(keys, stable=True)
    is_first = keys < (n_rows << packing.node_bits)
    n_landed = is_first.sum()
    is_first[1:] &= keys[1:] != keys[:-1]
    first = is_first.nonzero().view(-1)
    pairs = at(keys, first)
    del keys, is_first
    sizes = run_lengths(first, 0)
    sizes[-1:] = n_landed - first[-1:]
    values = segment_sums(at(shares, order), sizes)
    first = at(order, first)
    del order, shares
    reached = torch.zeros(n_keys, dtype=torch.bool, device=first.device).index_fill_(0, first, True)
    places = at(reached.cumsum(0), first) - 1
    rows = packing.rows(pairs)
    bounds = torch.arange(n_rows + 1, device=rows.device) << packing.node_bits
    starts = torch.searchsorted(pairs, bounds)
    return Reached(rows, packing.nodes(pairs), values, places - at(starts, rows), starts)


# -- compression -----------------------------------------------------------------------------------


def compressed(y: Reached, budget: int, u: Tensor | None) -> Vectors:
    """Each row reduced to at most `budget` entries without bias; without u, none has more."""
    nodes, values, places, rows, sizes = y.nodes, y.values, y.places, y.rows, y.starts.diff()
    chosen = (sizes > budget).nonzero().view(-1) if u is not None else sizes[:0]
    if u is not None and chosen.numel():
        width = int(sizes[chosen].max())
        columns = torch.arange(width, device=sizes.device)
        there = columns < sizes[chosen, None]
        entries = (y.starts[chosen, None] + columns)[there]
        padded = values.new_zeros(there.shape).masked_scatter_(there, at(values, entries))
        found = columns.expand_as(there).masked_scatter(there, at(places, entries))
        found, padded = compress(padded, found, sizes[chosen], budget, u[chosen])
        places = places.scatter(0, entries, found[there])
        values = values.scatter(0, entries, padded[there])
        stays = (places >= 0).nonzero().view(-1)
        nodes, values, places, rows = (
            at(tensor, stays) for tensor in (nodes, values, places, rows)
        )
        sizes = sizes.clamp_max(budget)
    places = places + at(starts_of(sizes), rows)
    return Vectors(
        torch.empty_like(nodes).scatter_(0, places, nodes),
        torch.empty_like(values).scatter_(0, places, values),
        sizes,
    )


def compress(
    y: Tensor, found: Tensor, sizes: Tensor, budget: int, u: Tensor
) -> tuple[Tensor, Tensor]:
    """Reduce rows of y, which has sizes[i] > `budget` values and zeros, without bias.

    Columns are in the order of systematic sampling; `found` is the rank of each in the order of the
    loops. Returns the ranks of the values afterwards, -1 for dropped ones, and the values.
    """
    places, total, left = keep_largest(y, found, sizes, budget)
    is_rest = (places < 0) & (y > 0.0)
    rest = torch.where(is_rest, y, 0.0)
    picked, gap = pick(rest, is_rest, total, left, u)
    places = torch.where(picked, (budget - left)[:, None] + picked.cumsum(1) - 1, places)
    return places, torch.where(picked, gap[:, None], y)


def keep_largest(
    y: Tensor, found: Tensor, sizes: Tensor, budget: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Select the entries that are kept exactly, in all rows at once, until none keeps more.

    Returns the rank of each among the kept ones, -1 for others; the sum of the rest; and the places
    left.
    """
    n_rows, width = y.shape
    positions = torch.arange(width, device=y.device)
    places = torch.full_like(found, _NO_PLACE)
    # In the order of the loops: y, and the column of each value.
    column = torch.empty_like(found).scatter_(1, found, positions.expand_as(found))
    y = y.gather(1, column)
    total = _totals(y)
    left = torch.full((n_rows,), budget, device=y.device)
    totals, lefts = total.clone(), left.clone()
    active = torch.arange(n_rows, device=y.device)
    kept = None
    while True:
        again = ((y.amax(1) * left >= total) & (left > 0)).nonzero().view(-1)
        if again.numel() == 0:
            return places, totals, lefts
        active, left, total, y, column = (
            tensor[again] for tensor in (active, left, total, y, column)
        )
        before = positions < (budget - left)[:, None]
        if kept is not None:
            order = after_swaps(kept[again], sizes[active])
            y, column = y.gather(1, order).masked_fill_(before, 0.0), column.gather(1, order)
        keeps = y * left[:, None] >= total[:, None]
        kept = keeps | before
        row, position = keeps.nonzero(as_tuple=True)
        places[active[row], column[row, position]] = (kept.cumsum(1) - 1)[row, position]
        y = torch.where(keeps, 0.0, y)
        left = left - keeps.sum(1)
        total = _totals(y)
        totals[active], lefts[active] = total, left


def after_swaps(kept: Tensor, sizes: Tensor) -> Tensor:
    """Original positions of the rest, after loops have moved kept entries to the front.

    Going through a row, the loops swap every entry with the one at the front of the rest, and the
    front advances when the entry is kept. So position i receives entry i - 1 if that was not kept;
    else the entry then at the new front, which position c_i, the number kept before i, had received
    in the same way, or entry i if c_i = i. The front itself ends with the entry that a position
    past the end would receive. Results for kept positions are undefined.
    """
    width = kept.shape[1]
    end = torch.arange(width + 1, device=kept.device)
    counts = torch.zeros(kept.shape[0], width + 1, dtype=torch.int64, device=kept.device)
    torch.cumsum(kept, 1, out=counts[:, 1:])
    rests = torch.zeros_like(counts, dtype=torch.bool)
    torch.logical_not(kept, out=rests[:, 1:])
    source = torch.where(rests, end, counts)
    for _ in range(width.bit_length()):
        source = source.gather(1, source)
    source -= rests.gather(1, source).long()
    positions = end[:-1]
    front = counts[:, -1:]
    last = source.gather(1, sizes[:, None])
    source = torch.where(positions == front, last, source[:, :-1])
    return torch.where(positions < sizes[:, None], source, positions)


def pick(
    rest: Tensor, is_rest: Tensor, total: Tensor, n_picks: Tensor, u: Tensor
) -> tuple[Tensor, Tensor]:
    """Systematic sampling of n_picks[i] entries of every row, and the value of each pick.

    Entry i is picked when a point not yet taken, (u + j) total / n_picks, is below the running sum
    (at most one), and when all remaining entries are needed. With d_i the larger of the number of
    points below and the number of picks that must be made by then, the number of picks up to i is

        n_i = min(n_{i-1} + 1, d_i) = min(i + 1, min_{k <= i} d_k + i - k).
    """
    gap = torch.where(n_picks > 0, total / n_picks, 0.0)
    most = max(int(n_picks.max()), 1)
    points = _points(gap, u, most)
    points = torch.where(torch.arange(most, device=u.device) < n_picks[:, None], points, torch.inf)
    below = torch.searchsorted(points, _running(rest))
    del points
    i = is_rest.cumsum(1) - 1
    d = torch.maximum(below, n_picks[:, None] - i[:, -1:] + i)
    n = torch.minimum(i + 1, (d - i).cummin(1).values + i)
    picked = is_rest.clone()
    picked[:, 1:] &= n[:, 1:] > n[:, :-1]
    picked[:, 0] &= n[:, 0] > 0
    return picked, gap
