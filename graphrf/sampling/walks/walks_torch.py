"""The walk engine in torch: the record of `walks.loops`, bit for bit, by its counters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from graphrf.sampling.device_blocks import (
    MOST_KEYS,
    DeviceBlock,
    Packing,
    in_parts,
    merged,
    run_lengths,
    run_numbers,
    run_starts,
)
from graphrf.sampling.walks.lengths_torch import DeviceLengths
from graphrf.sampling.walks.philox import Use
from graphrf.sampling.walks.philox_torch import bits64, philox, signed64
from graphrf.sampling.walks.random_walks import PreparedWalks
from graphrf.sampling.walks.transitions_torch import neighbours, on_device


@dataclass(frozen=True)
class WalkCosts:
    """Sizes of the parts in which walks are drawn on a device."""

    # With few walks left, one call of the generator draws about this many words of their further
    # steps.
    stage: int = 65_536
    # Keys of visits that are sorted at once.
    most_keys: int = MOST_KEYS


class DeviceWalks:
    """`PreparedWalks` on a device: a pure function from source nodes to their visits."""

    def __init__(
        self, prepared: PreparedWalks, device: torch.device, costs: WalkCosts = WalkCosts()
    ) -> None:
        self._prepared, self._costs = prepared, costs
        self._n_walks = prepared.n_walks
        self._key = int(prepared._key)
        self._walk = on_device(prepared.transitions, device)
        self._lengths = DeviceLengths(prepared.law, self._n_walks, self._key, device)
        self._packing = Packing(self._walk.n_nodes, prepared.survival.max_length)
        self._stratified = prepared.sampler.directions == "stratified"
        if self._stratified:
            # Shares 1 / c of 2^64 for c walks that leave a node together; element 0 is not used.
            gaps = [signed64((2**64 - 1) // max(1, c)) for c in range(self._n_walks + 1)]
            self._gaps = torch.tensor(gaps, device=device)

    def sample(self, sources: Tensor) -> DeviceBlock:
        """The visits of the walks from `sources`, int64 on the device; sources may repeat."""
        visits = self._prepared.visits_per_row
        return in_parts(self._block, sources, visits, self._packing, self._costs.most_keys)

    def _block(self, sources: Tensor) -> DeviceBlock:
        """The visits of at most `most_rows` rows."""
        n_rows = sources.numel()
        if self._stratified:
            keys, counts = self._walk_stratified(sources)
            return merged(keys, counts, self._packing, n_rows)
        block = merged(self._walk_independent(sources), None, self._packing, n_rows)
        # One key stands for all walks of a source at step 0.
        block.counts.masked_fill_(block.steps == 0, _bits16(self._n_walks))
        return block

    def _walk_independent(self, sources: Tensor) -> Tensor:
        """Keys of visits of walks with independent directions; at step 0 one a source."""
        packing, n_rows = self._packing, sources.numel()
        lengths, walkers = torch.sort(
            self._lengths.draw(sources).view(-1), descending=True, stable=True
        )
        alive = _reaching(lengths)
        del lengths
        walkers = walkers[: alive[0] if alive else 0]
        rows = walkers // self._n_walks
        walkers = walkers % self._n_walks
        keys = sources.new_empty(n_rows + sum(alive))
        keys[:n_rows] = packing.keys(_pairs_of(sources, packing), 0)
        starts = nodes = sources[rows]
        place = n_rows
        for k, bits in enumerate(self._directions(starts, walkers, alive), start=1):
            n = bits.numel()
            nodes = neighbours(nodes[:n], bits, self._walk)
            keys[place : place + n] = packing.keys(packing.pairs(rows[:n], nodes), k)
            place += n
        return keys

    def _directions(self, sources: Tensor, walks: Tensor, alive: list[int]) -> Iterator[Tensor]:
        """64 bits for each walk that continues, by steps; only the higher 32 if unweighted.

        Counters: (source, walk, block of steps, DIRECTION), as in `walk_independent`.
        """
        per_call = 2 if self._walk.cumulative.numel() else 4
        for first, last in _stages(alive[::per_call], self._costs.stage):
            n = alive[first * per_call]
            calls = torch.arange(first, last, device=sources.device)[:, None]
            words = philox(sources[:n], walks[:n], calls, Use.DIRECTION, self._key)
            for step in range(first * per_call, min(last * per_call, len(alive))):
                call, phase = step // per_call - first, step % per_call
                if per_call == 4:
                    yield words[phase][call, : alive[step]] << 32
                else:
                    yield bits64(
                        *(word[call, : alive[step]] for word in words[2 * phase : 2 * phase + 2])
                    )

    def _walk_stratified(self, sources: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and counts (16 bits) of visits with stratified directions; keys are distinct.

        Counters: (source, node, step, SHARED_DIRECTION).
        """
        packing = self._packing
        lengths = self._lengths.draw(sources).view(-1)
        alive = [*_reaching(lengths), 0]
        pairs = _pairs_of(sources, packing).repeat_interleave(self._n_walks)
        keys, counts = [], []
        for k, n in enumerate(alive):
            if k > 0:
                pairs, order = torch.sort(pairs, stable=True)
                lengths = lengths[order]
                del order
            first = run_starts(pairs)
            standing = run_lengths(first, pairs.numel())
            keys.append(packing.keys(pairs[first], k))
            counts.append(standing.to(torch.int16))
            if n == 0:
                break
            if n < pairs.numel():
                kept = (lengths > k).nonzero().view(-1)
                pairs, lengths = pairs[kept], lengths[kept]
                first = run_starts(pairs)
                standing = run_lengths(first, n)
                del kept
            choices = self._dealt(sources, pairs, first, standing, k)
            nodes = neighbours(packing.nodes(pairs), choices, self._walk)
            pairs = packing.pairs(packing.rows(pairs), nodes)
        return torch.cat(keys), torch.cat(counts)

    def _dealt(
        self, sources: Tensor, pairs: Tensor, first: Tensor, standing: Tensor, k: int
    ) -> Tensor:
        """64 bits for each walk by systematic sampling (`batches.gaps`), by runs of pairs."""
        of_run = pairs[first]
        high, low, _, _ = philox(
            sources[self._packing.rows(of_run)],
            self._packing.nodes(of_run),
            k,
            Use.SHARED_DIRECTION,
            self._key,
        )
        gaps = self._gaps[standing]
        bits = bits64(high, low) - first * gaps
        run = run_numbers(pairs)
        return bits[run] + torch.arange(pairs.numel(), device=pairs.device) * gaps[run]

    def working_bytes(self, n_rows: int) -> int:
        """Peak memory that `sample` takes for a block: of lengths, walks or the merge."""
        prepared = self._prepared
        walks = n_rows * self._n_walks
        moving = walks * float(prepared.survival.table[1:2].sum())
        lengths = walks * self._lengths.walk_bytes
        if self._stratified:
            steps, merge = 12 * walks + 100 * moving, 50 * n_rows * prepared.merged_per_row[1]
        else:
            visits = n_rows * prepared.visits_per_row
            words = max(moving, min(self._costs.stage, moving * prepared.survival.max_length))
            steps, merge = 32 * moving + 72 * words + 8 * visits, 48 * visits
        return int(max(lengths, steps, merge)) + 4096


def _pairs_of(sources: Tensor, packing: Packing) -> Tensor:
    """A word (row, node) for each row and its source."""
    return packing.pairs(torch.arange(sources.numel(), device=sources.device), sources)


def _bits16(count: int) -> int:
    """The int16 with the bits of a uint16."""
    return count - 2**16 if count >> 15 else count


def _reaching(lengths: Tensor) -> list[int]:
    """Numbers of walks that reach step 1, 2, ... up to the last; waits for the device."""
    reaching: list[int] = torch.bincount(lengths).flip(0).cumsum(0).flip(0)[1:].tolist()
    return reaching


def _stages(sizes: list[int], stage: int) -> Iterator[tuple[int, int]]:
    """Runs [first, last) of calls of the generator to make together, of about `stage` words;
    `sizes` of them do not increase.
    """
    first = 0
    while first < len(sizes):
        last = min(len(sizes), first + max(1, stage // sizes[first]))
        yield first, last
        first = last
