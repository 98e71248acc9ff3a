"""The record of features as tensors of one torch device."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from graphrf.features.record import Record
from graphrf.features.rows import MOST_SHORT, not_sampled

# Visits worked on at once: 128 MB for one float64 of each.
VISITS_AT_ONCE = 2**24


class RecordPart(NamedTuple):
    """Some consecutive rows of a record, with their entries and their visits."""

    rows: slice
    entries: slice
    visits: slice


@dataclass(frozen=True, eq=False)
class DeviceRecord:
    """A `graphrf.features.record.Record` in tensors of one device.

    Torch supports few operations on uint16, so `visits_per_entry`, `steps` and the counts of walks
    are kept as the same bits in int16 (see `unsigned16`). `visit_ptr` is int64.
    """

    indptr: Tensor
    indices: Tensor
    visit_ptr: Tensor
    visits_per_entry: Tensor
    steps: Tensor
    counts: Tensor
    work: Tensor | None = None
    dropped: Tensor | None = None
    _parts: dict[int, list[RecordPart]] = field(default_factory=dict, init=False, repr=False)

    @property
    def device(self) -> torch.device:
        """Device of the tensors."""
        return self.indices.device

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.indptr.numel() - 1

    @property
    def n_entries(self) -> int:
        """Number of entries of all rows."""
        return self.indices.numel()

    @property
    def nbytes(self) -> int:
        """Memory of the tensors in bytes."""
        return sum(tensor.nbytes for tensor in self.tensors().values())

    def tensors(self) -> dict[str, Tensor]:
        """The tensors that are not None, by name."""
        named = {part.name: getattr(self, part.name) for part in fields(self) if part.init}
        return {name: tensor for name, tensor in named.items() if tensor is not None}

    def total_count(self) -> int:
        """The sum of the counts of walks."""
        # read as int16, a count of at least 2^15 is too small by 2^16
        return int(self.counts.sum(dtype=torch.int64) + (self.counts < 0).sum() * 2**16)

    def to(self, device: torch.device) -> DeviceRecord:
        """The record on another device, or itself."""
        if device == self.device:
            return self
        return DeviceRecord(**{name: tensor.to(device) for name, tensor in self.tensors().items()})

    def to_host(self) -> Record:
        """The record as arrays; a copy unless it is on the CPU."""
        return Record(**{name: host_array(tensor) for name, tensor in self.tensors().items()})

    def parts(self, visits_at_once: int) -> list[RecordPart]:
        """The rows in runs of about `visits_at_once` visits, plus at most those of one row."""
        if visits_at_once not in self._parts:
            marks = torch.arange(0, self.steps.numel(), visits_at_once, device=self.device)
            first = torch.searchsorted(self.visit_ptr, marks, right=True) - 1
            first[:1] = 0  # rows without visits at the beginning
            first = torch.cat([torch.unique_consecutive(first), first.new_full((1,), self.n_rows)])
            pointers = [first, self.indptr[first].long(), self.visit_ptr[first]]
            limits = torch.stack(pointers, 1).tolist()
            self._parts[visits_at_once] = [
                RecordPart(*(slice(start, stop) for start, stop in zip(here, there, strict=True)))
                for here, there in pairwise(limits)
            ]
        return self._parts[visits_at_once]

    def entry_sizes(self, part: RecordPart) -> Tensor:
        """Visits of each entry, int32."""
        return unsigned16(self.visits_per_entry[part.entries])

    def visit_steps(self, part: RecordPart) -> Tensor:
        """Steps of the visits, int32."""
        return unsigned16(self.steps[part.visits])

    def visit_counts(self, part: RecordPart) -> Tensor:
        """Counts of the visits, as a new float64 tensor."""
        counts = self.counts[part.visits]
        return (counts if counts.is_floating_point() else unsigned16(counts)).double()

    def take(self, rows: Tensor | np.ndarray, most_short: int = MOST_SHORT) -> DeviceRecord:
        """Some of the rows, by numbers >= 0, in the order given; waits for the sizes of
        the result, whose pointers are int64 above `most_short` entries.
        """
        if not isinstance(rows, Tensor):
            rows = torch.from_numpy(np.array(rows, dtype=np.int64))
        rows = rows.to(self.device)
        indptr, visit_ptr = (
            starts_of(self.indptr.diff()[rows]),
            starts_of(self.visit_ptr.diff()[rows]),
        )
        n_entries, n_visits = torch.stack([indptr[-1], visit_ptr[-1]]).tolist()
        # repeated rows may have more entries than the type of the whole record can count
        kind = torch.int64 if n_entries > most_short else self.indices.dtype
        taken = DeviceRecord(
            indptr=indptr.to(kind),
            indices=self.indices.new_empty(n_entries, dtype=kind),
            visit_ptr=visit_ptr,
            visits_per_entry=self.visits_per_entry.new_empty(n_entries),
            steps=self.steps.new_empty(n_visits),
            counts=self.counts.new_empty(n_visits),
            work=None if self.work is None else self.work[rows],
            dropped=None if self.dropped is None else self.dropped[rows],
        )
        for part in taken.parts(VISITS_AT_ONCE):
            members = rows[part.rows]
            entries = _places(self.indptr, members, taken.indptr, part.rows, part.entries)
            for name in ("indices", "visits_per_entry"):
                getattr(taken, name)[part.entries] = getattr(self, name)[entries]
            visits = _places(self.visit_ptr, members, taken.visit_ptr, part.rows, part.visits)
            for name in ("steps", "counts"):
                getattr(taken, name)[part.visits] = getattr(self, name)[visits]
        return taken


def device_record(record: Record, device: torch.device) -> DeviceRecord:
    """The host's record as tensors on a device; on the CPU they share its memory."""
    return DeviceRecord(
        **{name: shared(array).to(device) for name, array in record.arrays().items()}
    )


class _Writable:
    """The memory of an array, declared writable, since torch warns of read-only arrays."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array  # keeps the memory alive
        interface = array.__array_interface__
        self.__array_interface__ = {**interface, "data": (interface["data"][0], False)}


def shared(array: np.ndarray) -> Tensor:
    """A read-only array as a tensor of the CPU in the same memory, uint16 as int16."""
    return torch.from_numpy(
        np.asarray(_Writable(array.view(np.int16) if array.dtype == np.uint16 else array))
    )


def host_array(tensor: Tensor) -> np.ndarray:
    """A tensor of the record as a read-only array, 16-bit integers as uint16; a copy off CPUs."""
    array = tensor.cpu().numpy()
    array = array.view(np.uint16) if array.dtype == np.int16 else array.view()
    array.setflags(write=False)
    return array


def unsigned16(bits: Tensor) -> Tensor:
    """The int32 values of uint16 that are kept as their bits in int16."""
    return bits.int() & 0xFFFF


def device_row_numbers(argument: str, wanted: Tensor, nodes: Tensor) -> Tensor:
    """`graphrf.features.rows.row_numbers` of int64 tensors; ValueError if a node is missing."""
    if not wanted.numel() or not nodes.numel():
        found = torch.zeros_like(wanted)
        missing = torch.ones_like(wanted, dtype=torch.bool)
    else:
        ordered, order = torch.sort(nodes, stable=True)
        found = order[torch.searchsorted(ordered, wanted).clamp_(max=nodes.numel() - 1)]
        missing = nodes[found] != wanted
    if bool(missing.any()):
        raise not_sampled(argument, int(wanted[missing][0]))
    return found


def row_index(rows: Any, n_rows: int, device: torch.device) -> Tensor:
    """Row numbers as int64 on a device from a slice, array or tensor; negatives allowed."""
    if isinstance(rows, slice):
        first, behind, step = rows.indices(n_rows)  # torch supports no negative steps
        return torch.arange(len(range(first, behind, step)), device=device).mul_(step).add_(first)
    if not isinstance(rows, Tensor):
        rows = torch.from_numpy(np.array(rows))
    rows = rows.to(device)
    if not (rows.is_floating_point() or rows.dtype == torch.bool):
        rows = rows.long()  # torch would take uint8 for a mask
    return torch.arange(n_rows, device=device)[rows]


def starts_of(sizes: Tensor) -> Tensor:
    """Start of each segment of these sizes, and the end of the last, int64."""
    starts = torch.zeros(sizes.numel() + 1, dtype=torch.int64, device=sizes.device)
    torch.cumsum(sizes, 0, out=starts[1:])
    return starts


def _places(pointer: Tensor, members: Tensor, joined: Tensor, rows: slice, span: slice) -> Tensor:
    """Original positions of the elements `span` of concatenated rows."""
    begin, end = joined[rows], joined[rows.start + 1 : rows.stop + 1]
    shift = torch.repeat_interleave(
        pointer[members].long() - begin, (end - begin).long(), output_size=span.stop - span.start
    )
    return shift + torch.arange(span.start, span.stop, device=pointer.device)
