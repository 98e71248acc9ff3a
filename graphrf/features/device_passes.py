"""Passes over the visits of features on a torch device: torch versions of the compiled loops in `loops.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

if TYPE_CHECKING:
    from graphrf.features.device_record import DeviceRecord, RecordPart

# Bins for sums by step: 512 KB in float64.
_BINS = 2**16


class DegreeRoots(NamedTuple):
    """sqrt(d), float64, of the nodes of the rows, shape (n,), and of all nodes, shape (N,)."""

    rows: Tensor
    nodes: Tensor


def entry_values(
    record: DeviceRecord, roots: DegreeRoots | None, load: Tensor, dtype: torch.dtype, visits_at_once: int
) -> Tensor:
    """Values of the feature matrix, shape (entries,): sqrt(d_i / d_v) times the sum of load_k c over the visits.

    Sums are in float64 in the order of the visits, so that every device gives the bits of `fill_values`.
    """
    values = torch.zeros(record.indices.numel(), dtype=dtype, device=record.device)
    for part in record.parts(visits_at_once):
        terms = record.visit_counts(part).mul_(load.index_select(0, record.visit_steps(part)))
        sums = _segment_sums(terms, record.entry_sizes(part))
        if roots is not None:
            sums *= _ratios(record, roots, part)
        values[part.entries] = sums
    return values


def step_products(
    record: DeviceRecord,
    roots: DegreeRoots | None,
    x: Tensor,
    y: Tensor,
    n_steps: int,
    visits_at_once: int,
) -> Tensor:
    """Sums over all visits at step k of c sqrt(d_i / d_v) <y_i, x_v>, float64, shape (n_steps,)."""
    sums = torch.zeros(n_steps, dtype=torch.float64, device=record.device)
    for part in record.parts(visits_at_once):
        own = _spread(y[part.rows], record.indptr[part.rows.start : part.rows.stop + 1], part.entries)
        inner = (own * x.index_select(0, record.indices[part.entries])).sum(1).double()
        if roots is not None:
            inner *= _ratios(record, roots, part)
        terms = _of_visits(inner, record, part).mul_(record.visit_counts(part))
        sums += _binned(record.visit_steps(part).long(), terms, n_steps)
    return sums


def step_squares(record: DeviceRecord, roots: DegreeRoots | None, n_steps: int, visits_at_once: int) -> Tensor:
    """Sums of d_i / d_v c_k c_l over all pairs of visits of an entry, float64, shape (n_steps, n_steps).

    Time: the sum of squares of the visits of entries.
    """
    sums = torch.zeros(n_steps * n_steps, dtype=torch.float64, device=record.device)
    for part in record.parts(visits_at_once):
        weights, steps = record.visit_counts(part), record.visit_steps(part).long()
        if roots is not None:
            weights *= _of_visits(_ratios(record, roots, part), record, part)
        sums += _binned(steps * (n_steps + 1), weights.square(), n_steps**2)
        sizes = record.entry_sizes(part)
        place = torch.arange(weights.numel(), device=record.device)
        after = _of_visits(torch.cumsum(sizes, 0), record, part) - place - 1  # visits of the entry that follow
        distance = 1
        first = place[after >= distance]
        while first.numel():
            second = first + distance
            products = weights[first] * weights[second]
            for k, other in ((first, second), (second, first)):
                sums += _binned(steps[k] * n_steps + steps[other], products, n_steps**2)
            distance += 1
            first = first[after[first] >= distance]
    return sums.reshape(n_steps, n_steps)


def transposed_pattern(record: DeviceRecord, n_nodes: int, visits_at_once: int) -> tuple[Tensor, Tensor, Tensor]:
    """The pattern of the feature matrix by columns: pointer, rows, and the entry at each place.

    Rows ascend within a column. Each part's entries are sorted stably by column and go to the next free places.
    """
    kind = record.indices.dtype
    pointer = torch.zeros(n_nodes + 1, dtype=torch.int64, device=record.device)
    pointer[1:] = torch.cumsum(torch.bincount(record.indices, minlength=n_nodes), 0)
    free = pointer[:-1].clone()
    rows, order = torch.empty_like(record.indices), torch.empty_like(record.indices)
    for part in record.parts(visits_at_once):
        columns, entries = torch.sort(record.indices[part.entries], stable=True)
        here = torch.bincount(columns, minlength=n_nodes)
        rank = torch.arange(columns.numel(), device=record.device)
        places = rank.add_((free - torch.cumsum(here, 0) + here).index_select(0, columns))
        numbers = torch.arange(part.rows.start, part.rows.stop, dtype=kind, device=record.device)
        owners = _spread(numbers, record.indptr[part.rows.start : part.rows.stop + 1], part.entries)
        rows[places] = owners[entries]
        order[places] = entries.to(kind).add_(part.entries.start)
        free += here
    return pointer.to(kind), rows, order


def _segment_sums(terms: Tensor, sizes: Tensor) -> Tensor:
    """Sums of consecutive runs of terms, each in order.

    The first terms of all runs are taken, then the second ones are added, and so on: without atomic additions,
    whose order CUDA leaves open.
    """
    first = torch.cumsum(sizes, 0) - sizes
    if not terms.numel():
        return terms.new_zeros(sizes.numel())
    sums = terms[first.clamp(max=terms.numel() - 1)]
    sums.masked_fill_(sizes == 0, 0.0)
    rank = 1
    long = torch.nonzero(sizes > rank).squeeze(1)
    while long.numel():
        sums[long] += terms[first[long] + rank]
        rank += 1
        long = long[sizes[long] > rank]
    return sums


def _binned(bins: Tensor, terms: Tensor, n_bins: int) -> Tensor:
    """Sums of terms by bin, int64 numbers below `n_bins`.

    Each of many copies of the bins takes a part of the terms, so that threads of a GPU rarely collide.
    """
    copies = max(1, min(_BINS, terms.numel()) // n_bins)
    lane = torch.arange(bins.numel(), device=bins.device) % copies
    sums = terms.new_zeros(copies * n_bins).index_add_(0, lane * n_bins + bins, terms)
    return sums.reshape(copies, n_bins).sum(0)


def _ratios(record: DeviceRecord, roots: DegreeRoots, part: RecordPart) -> Tensor:
    """sqrt(d_i / d_v) of entries."""
    own = _spread(roots.rows[part.rows], record.indptr[part.rows.start : part.rows.stop + 1], part.entries)
    return own.div_(roots.nodes.index_select(0, record.indices[part.entries]))


def _of_visits(values: Tensor, record: DeviceRecord, part: RecordPart) -> Tensor:
    """The value of the entry of each visit."""
    sizes = record.entry_sizes(part)
    return torch.repeat_interleave(values, sizes, 0, output_size=part.visits.stop - part.visits.start)


def _spread(values: Tensor, pointer: Tensor, span: slice) -> Tensor:
    """The value of the row of each entry."""
    return torch.repeat_interleave(values, pointer.diff(), 0, output_size=span.stop - span.start)
