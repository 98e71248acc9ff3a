"""Blocks of rows as tensors of a device, made from visits in any order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from graphrf.features.device_record import host_array
from graphrf.sampling.block import Block

# Torch sorts less than 2^31 keys on GPUs. At most so many are expected; their number differs by far
# less.
MOST_KEYS = 2**30


class DeviceBlock(NamedTuple):
    """`graphrf.sampling.block.Block` as tensors of a device, 16-bit as in `DeviceRecord`."""

    entries_per_row: Tensor
    visits_per_row: Tensor
    indices: Tensor
    visits_per_entry: Tensor
    steps: Tensor
    counts: Tensor
    work: Tensor | None = None
    dropped: Tensor | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.entries_per_row.numel()


class Packing(NamedTuple):
    """Packing of row, node and step, at most `max_step`, into an int64 that sorts alike."""

    n_nodes: int
    max_step: int

    @property
    def node_bits(self) -> int:
        """Bits of a node."""
        return (self.n_nodes - 1).bit_length()

    @property
    def step_bits(self) -> int:
        """Bits of a step."""
        return self.max_step.bit_length()

    @property
    def most_rows(self) -> int:
        """Maximum number of rows in a key: at least 32,767, as nodes have 32 bits and steps 16."""
        return (2**63 - 1) >> (self.node_bits + self.step_bits)

    def pairs(self, rows: Tensor, nodes: Tensor) -> Tensor:
        """Words (row, node) from int64 tensors."""
        return (rows << self.node_bits) | nodes

    def nodes(self, pairs: Tensor) -> Tensor:
        """The nodes of words (row, node)."""
        return pairs & ((1 << self.node_bits) - 1)

    def rows(self, pairs: Tensor) -> Tensor:
        """The rows of words (row, node)."""
        return pairs >> self.node_bits

    def keys(self, pairs: Tensor, steps: Tensor | int) -> Tensor:
        """Keys (row, node, step) from words (row, node) and steps."""
        return (pairs << self.step_bits) | steps


def merged(
    keys: Tensor,
    values: Tensor | None,
    packing: Packing,
    n_rows: int,
    *,
    work: Tensor | None = None,
    dropped: Tensor | None = None,
) -> DeviceBlock:
    """The block of visits in any order: sorted by (row, node, step), with equal keys added up.

    `values`, one for each key, become `counts`; None counts the visits of a key, in 16 bits. Sums
    of more than two floats of a key may depend on the device.
    """
    if values is None:
        keys = torch.sort(keys).values
        first = run_starts(keys)
        values = run_lengths(first, keys.numel()).to(torch.int16)
    else:
        keys, order = torch.sort(keys)
        values = values[order]
        del order
        first = run_starts(keys)
        if first.numel() < keys.numel():
            sums = values.new_zeros(first.numel())
            values = sums.index_add_(0, run_numbers(keys), values)
    keys = keys[first]
    del first
    visits_per_row = _per_row(keys, packing.node_bits + packing.step_bits, n_rows)
    steps = (keys & ((1 << packing.step_bits) - 1)).to(torch.int16)
    pairs = keys >> packing.step_bits
    del keys
    first = run_starts(pairs)
    visits_per_entry = run_lengths(first, pairs.numel()).to(torch.int16)
    pairs = pairs[first]
    del first
    return DeviceBlock(
        _per_row(pairs, packing.node_bits, n_rows),
        visits_per_row,
        packing.nodes(pairs).to(torch.int32 if packing.n_nodes < 2**31 else torch.int64),
        visits_per_entry,
        steps,
        values,
        work,
        dropped,
    )


def in_parts(
    make: Callable[[Tensor], DeviceBlock],
    sources: Tensor,
    visits_per_row: float,
    packing: Packing,
    most_keys: int = MOST_KEYS,
) -> DeviceBlock:
    """The block of all sources, which `make` makes of as many at once as torch can sort the keys
    of.
    """
    rows = max(1, int(most_keys / visits_per_row))
    return joined([make(part) for part in sources.split(min(rows, packing.most_rows))])


def joined(blocks: Sequence[DeviceBlock]) -> DeviceBlock:
    """One block of the rows of several blocks, in order."""
    if len(blocks) == 1:
        return blocks[0]
    fields: list[Any] = [
        None if parts[0] is None else torch.cat(parts) for parts in zip(*blocks, strict=True)
    ]
    return DeviceBlock(*fields)


def host_block(block: DeviceBlock) -> Block:
    """The block as numpy arrays with their own types; on the CPU they share the tensors' memory."""
    fields: list[Any] = [None if tensor is None else host_array(tensor) for tensor in block]
    return Block(*fields)


def run_starts(sorted_words: Tensor) -> Tensor:
    """Start of each run of equal words; waits for the device."""
    starts = torch.ones_like(sorted_words, dtype=torch.bool)
    torch.ne(sorted_words[1:], sorted_words[:-1], out=starts[1:])
    return starts.nonzero().view(-1)


def run_lengths(starts: Tensor, n: int) -> Tensor:
    """Length of the run that begins at each of `starts`, among n words."""
    lengths = torch.empty_like(starts)
    torch.sub(starts[1:], starts[:-1], out=lengths[:-1])
    lengths[-1:] = n - starts[-1:]
    return lengths


def run_numbers(sorted_words: Tensor) -> Tensor:
    """The number of the run that each word belongs to, from 0."""
    numbers = torch.zeros_like(sorted_words)
    torch.cumsum(sorted_words[1:] != sorted_words[:-1], 0, out=numbers[1:])
    return numbers


def _per_row(sorted_words: Tensor, shift: int, n_rows: int) -> Tensor:
    """Number of words in each row, if words have their row above `shift` bits."""
    bounds = torch.arange(n_rows + 1, device=sorted_words.device) << shift
    return torch.diff(torch.searchsorted(sorted_words, bounds))
