"""Feature matrices as sparse torch tensors, and passes over the records of features on a device."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from graphrf._base.memory import require_memory
from graphrf.features.device_record import VISITS_AT_ONCE, DeviceRecord, starts_of
from graphrf.features.matrix import feature_matrix
from graphrf.features.record import Record
from graphrf.features.sample_info import SampleInfo

if TYPE_CHECKING:
    from graphrf.features.device_record import RecordPart

# Torch warns once that CSR tensors are in beta: this first tensor
# consumes the warning. Filters of warnings belong to the process and are
# not safe to change in threads, so they are not changed at every tensor.
with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
    torch.zeros((1, 1)).to_sparse_csr()


# Bins for sums by step: 512 KB in float64.
_BINS = 2**16


class DegreeRoots(NamedTuple):
    """sqrt(d), float64, of the nodes of the rows, shape (n,), and of all nodes, shape (N,)."""

    rows: Tensor
    nodes: Tensor


def entry_values(
    record: DeviceRecord,
    roots: DegreeRoots | None,
    load: Tensor,
    dtype: torch.dtype,
    visits_at_once: int,
) -> Tensor:
    """Values of the feature matrix, (entries,), with the bits of `fill_values` everywhere."""
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
        own = _of_entries(y[part.rows], record, part)
        inner = (own * x.index_select(0, record.indices[part.entries])).sum(1).double()
        if roots is not None:
            inner *= _ratios(record, roots, part)
        terms = _of_visits(inner, record, part).mul_(record.visit_counts(part))
        sums += _binned(record.visit_steps(part).long(), terms, n_steps)
    return sums


def step_squares(
    record: DeviceRecord, roots: DegreeRoots | None, n_steps: int, visits_at_once: int
) -> Tensor:
    """Sums of d_i / d_v c_k c_l over pairs of visits of an entry, (n_steps, n_steps)."""
    sums = torch.zeros(n_steps * n_steps, dtype=torch.float64, device=record.device)
    for part in record.parts(visits_at_once):
        weights, steps = record.visit_counts(part), record.visit_steps(part).long()
        if roots is not None:
            weights *= _of_visits(_ratios(record, roots, part), record, part)
        sums += _binned(steps * (n_steps + 1), weights.square(), n_steps**2)
        sizes = record.entry_sizes(part)
        place = torch.arange(weights.numel(), device=record.device)
        # The number of visits of the entry that follow.
        after = _of_visits(torch.cumsum(sizes, 0), record, part) - place - 1
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


def transposed_pattern(
    record: DeviceRecord, n_nodes: int, visits_at_once: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The feature matrix's pattern by columns: pointer, rows (ascending), and entries."""
    kind = record.indices.dtype
    pointer = starts_of(torch.bincount(record.indices, minlength=n_nodes))
    free = pointer[:-1].clone()
    rows, order = torch.empty_like(record.indices), torch.empty_like(record.indices)
    for part in record.parts(visits_at_once):
        columns, entries = torch.sort(record.indices[part.entries], stable=True)
        here = torch.bincount(columns, minlength=n_nodes)
        rank = torch.arange(columns.numel(), device=record.device)
        places = rank.add_((free - torch.cumsum(here, 0) + here).index_select(0, columns))
        numbers = torch.arange(part.rows.start, part.rows.stop, dtype=kind, device=record.device)
        rows[places] = _of_entries(numbers, record, part)[entries]
        order[places] = entries.to(kind).add_(part.entries.start)
        free += here
    return pointer.to(kind), rows, order


def _segment_sums(terms: Tensor, sizes: Tensor) -> Tensor:
    """Sums of consecutive runs of terms, each in order: CUDA leaves that of atomic sums open."""
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
    """Sums of terms by bin, int64 below `n_bins`, in many copies: threads rarely collide."""
    copies = max(1, min(_BINS, terms.numel()) // n_bins)
    lane = torch.arange(bins.numel(), device=bins.device) % copies
    sums = terms.new_zeros(copies * n_bins).index_add_(0, lane * n_bins + bins, terms)
    return sums.reshape(copies, n_bins).sum(0)


def _ratios(record: DeviceRecord, roots: DegreeRoots, part: RecordPart) -> Tensor:
    """sqrt(d_i / d_v) of entries."""
    own = _of_entries(roots.rows[part.rows], record, part)
    return own.div_(roots.nodes.index_select(0, record.indices[part.entries]))


def _of_visits(values: Tensor, record: DeviceRecord, part: RecordPart) -> Tensor:
    """The value of the entry of each visit."""
    sizes = record.entry_sizes(part)
    return torch.repeat_interleave(
        values, sizes, 0, output_size=part.visits.stop - part.visits.start
    )


def _of_entries(values: Tensor, record: DeviceRecord, part: RecordPart) -> Tensor:
    """The value of the row of each entry."""
    sizes = record.indptr[part.rows.start : part.rows.stop + 1].diff()
    return torch.repeat_interleave(
        values, sizes, 0, output_size=part.entries.stop - part.entries.start
    )


class DeviceRows(NamedTuple):
    """Rows on a device: nodes (int64), record, and roots of loads, None if all are 1."""

    nodes: Tensor
    record: DeviceRecord
    roots: DegreeRoots | None


def device_rows(info: SampleInfo, nodes: np.ndarray, record: DeviceRecord) -> DeviceRows:
    """The rows of a record, with their nodes and the roots of the loads."""
    there = torch.from_numpy(np.array(nodes)).to(record.device)
    if info.degrees is None:
        return DeviceRows(there, record, None)
    every = torch.from_numpy(info.degree_roots).to(record.device)
    return DeviceRows(there, record, DegreeRoots(every[there], every))


def tensor_on_device(
    info: SampleInfo, rows: DeviceRows, f: np.ndarray, device: torch.device
) -> Tensor:
    """See `Features.torch`, for rows on a device; f is the modulation."""
    record = rows.record
    load = torch.from_numpy(info.load(f)).to(record.device)
    dtype = torch.float32 if info.dtype == np.float32 else torch.float64
    values = entry_values(record, rows.roots, load, dtype, VISITS_AT_ONCE)
    pointer, index = record.indptr.to(device), record.indices.to(device)
    return csr_tensor(pointer, index, values.to(device), (record.n_rows, info.n_nodes))


def tensor_from_host(
    info: SampleInfo, nodes: np.ndarray, record: Record, f: np.ndarray, device: torch.device
) -> Tensor:
    """See `Features.torch`, for a record on the host; f is the modulation."""
    # The values, and a copy of the indices, which may be written to in a tensor.
    require_memory(
        record.n_entries * (info.dtype.itemsize + record.indices.itemsize),
        f"a torch matrix of {record.n_entries} non-zeros",
        'take some of the rows (Features.take), or sample with dtype="float32"',
    )
    matrix = feature_matrix(info, nodes, record, f)
    pointer, index = (
        torch.from_numpy(np.array(part)).to(device) for part in (matrix.indptr, matrix.indices)
    )
    return csr_tensor(pointer, index, torch.from_numpy(matrix.data).to(device), matrix.shape)


def row_squares(values: Tensor, pointer: Tensor) -> Tensor:
    """Row sums of squares of a CSR matrix, shape (n,)."""
    squares = values.square()
    row = torch.repeat_interleave(pointer.diff(), output_size=squares.numel())
    return squares.new_zeros(pointer.numel() - 1).index_add_(0, row, squares)


def csr_tensor(pointer: Tensor, index: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    """A torch CSR matrix of arrays that are known to be valid."""
    return torch.sparse_csr_tensor(pointer, index, values, size=shape, check_invariants=False)
