"""The power samplers in torch: all sources of a block advance together, as in `loops.py`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from graphrf.features.device_record import starts_of
from graphrf.sampling.device_blocks import (
    MOST_KEYS,
    DeviceBlock,
    Packing,
    in_parts,
    merged,
    run_lengths,
    run_starts,
)
from graphrf.sampling.powers.compression_torch import (
    Vectors,
    at,
    compressed,
    edges_of,
    matrix_on_device,
    product,
    segment_sums,
)
from graphrf.sampling.powers.prepared import PreparedPowers
from graphrf.sampling.walks.philox import Use
from graphrf.sampling.walks.philox_torch import philox, unit

# Peak memory in bytes: of an edge held, of a value, more of one that may be cut, of a row.
_EDGE_BYTES, _VALUE_BYTES, _CUT_BYTES, _ROW_BYTES = 130, 80, 40, 200
# Norms of dropped parts are rounded up to float32.
_UP = 1.0 + 2.0**-23


@dataclass(frozen=True)
class PowerCosts:
    """Sizes of the parts in which powers are computed on a device."""

    # Edges held at once, enough for a GPU; rows are processed in turn if there are more.
    edges: int = 1 << 21
    # Keys of values that are sorted at once.
    most_keys: int = MOST_KEYS


class _Values(NamedTuple):
    """Values of all rows, by power and row, with keys (row, node, step), counts in float32.

    `entries` are those of W^k if rows are cut; `sizes` the number of values of each power and row.
    """

    keys: Tensor
    counts: Tensor
    entries: Tensor
    sizes: Tensor


class DevicePowers:
    """`PreparedPowers` on a device: a function from source nodes to powers, as tensors."""

    def __init__(
        self, prepared: PreparedPowers, device: torch.device, costs: PowerCosts = PowerCosts()
    ) -> None:
        self._prepared, self._costs = prepared, costs
        self._matrix = matrix_on_device(prepared._matrix, device)
        self._budgets: list[int] = prepared._budgets.tolist()
        self._picks = prepared._picks
        self._keep = prepared._keep
        self._key = int(prepared._key)
        self._n_nodes = prepared._matrix.order.size
        self._cuts = self._keep < self._n_nodes
        self._packing = Packing(self._n_nodes, len(self._budgets) - 1)

    def working_bytes(self, n_rows: int) -> int:
        """Memory of `sample` for a block: its values (twice for exact powers) and edges."""
        values = self._prepared.visits_per_row
        most_edges = self._matrix.indices.numel()
        if self._picks:
            budget = max(self._budgets)
            most_edges = min(2 * self._picks * budget + 1, most_edges) + min(budget, self._n_nodes)
        else:
            values = min(2.0 * values, float(self._n_nodes * len(self._budgets)))
        edges = min(max(self._costs.edges, most_edges), n_rows * most_edges)
        value_bytes = _VALUE_BYTES + (_CUT_BYTES if self._cuts else 0)
        row_bytes = _ROW_BYTES + (32 * len(self._budgets) if self._cuts else 0)
        return int(_EDGE_BYTES * edges + (value_bytes * values + row_bytes) * n_rows)

    def sample(self, sources: Tensor) -> DeviceBlock:
        """The powers of `sources`, int64 on the device, in the record of
        `graphrf.sampling.powers.loops`.
        """
        values = self._prepared.visits_per_row
        return in_parts(self._block, sources, values, self._packing, self._costs.most_keys)

    def _block(self, sources: Tensor) -> DeviceBlock:
        """The record of at most `most_rows` rows."""
        values, work = self._powers(sources)
        keys, counts, dropped = values.keys, values.counts, None
        if self._cuts:
            stays, dropped = self._cut(values, sources.numel())
            keys, counts = keys[stays], counts[stays]
        del values
        return merged(keys, counts, self._packing, sources.numel(), work=work, dropped=dropped)

    def _powers(self, sources: Tensor) -> tuple[_Values, Tensor]:
        """The powers x_k of every source, and its number of multiply-adds."""
        ones = torch.ones_like(sources)
        x = Vectors(at(self._matrix.rank, sources), ones.double(), ones)
        work = torch.zeros_like(sources)
        powers = [self._values(x, 0, sources)]
        for k in range(1, len(self._budgets)):
            parts = [self._power(part, k, some) for part, some in self._parts(x, k, sources)]
            x = Vectors(
                *(torch.cat(arrays) for arrays in zip(*(part for part, _ in parts), strict=True))
            )
            work += torch.cat([reads for _, reads in parts])
            powers.append(self._values(x, k, sources))
        return _Values(*(torch.cat(arrays) for arrays in zip(*powers, strict=True))), work

    def _parts(self, x: Vectors, k: int, sources: Tensor) -> Iterator[tuple[Vectors, Tensor]]:
        """Groups of rows with at most `edges` of the costs together, or single rows."""
        most_edges = self._costs.edges
        sizes = edges_of(x, self._matrix)[1]
        if self._picks:
            # The entries too, since some steps hold all rows at the width of the widest.
            sizes = sizes.clamp_max(2 * self._picks * self._budgets[k] + 1) + x.sizes.max()
        ends = sizes.cumsum(0)
        if int(ends[-1]) <= most_edges:
            yield x, sources
            return
        starts = starts_of(x.sizes)
        n_rows, first, before = sources.numel(), 0, 0
        while first < n_rows:
            last = max(int(torch.searchsorted(ends, before + most_edges, right=True)), first + 1)
            before, low, high = torch.stack([ends[last - 1], starts[first], starts[last]]).tolist()
            yield (
                Vectors(x.nodes[low:high], x.values[low:high], x.sizes[first:last]),
                sources[first:last],
            )
            first = last

    def _power(self, x: Vectors, k: int, sources: Tensor) -> tuple[Vectors, Tensor]:
        """x_k from x_{k-1}, and its multiply-adds. Counters: (source, step, 0, COMPRESS)."""
        u_product = u_compress = None
        if self._picks:
            w0, w1, w2, w3 = philox(sources, k, 0, int(Use.COMPRESS), self._key)
            u_compress, u_product = unit(w0, w1), unit(w2, w3)
        y, work = product(x, self._matrix, self._picks * self._budgets[k], u_product, self._packing)
        return compressed(y, self._budgets[k], u_compress), work

    def _values(self, x: Vectors, k: int, sources: Tensor) -> _Values:
        """The values of one power, ready for the record."""
        matrix = self._matrix
        rows, nodes = x.rows(), at(matrix.order, x.nodes)
        keys = self._packing.keys(self._packing.pairs(rows, nodes), k)
        load = at(matrix.load, nodes).div_(at(at(matrix.load, sources), rows))
        counts = load.mul_(x.values).float()
        entries = x.values[:0]
        if self._cuts:
            entries = (
                at(at(matrix.level, sources), rows).div_(at(matrix.level, nodes)).mul_(x.values)
            )
        return _Values(keys, counts, entries, x.sizes)

    def _cut(self, values: _Values, n_rows: int) -> tuple[Tensor, Tensor]:
        """Marks values of nodes that a row keeps (lower ones win ties); others' norms by step."""
        # Sums by (row, node), over the steps in turn.
        keys, order = torch.sort(values.keys)
        pairs = keys >> self._packing.step_bits
        del keys
        first = run_starts(pairs)
        lengths = run_lengths(first, pairs.numel())
        sums = segment_sums(at(values.entries, order), lengths)
        rows = self._packing.rows(pairs[first])
        del pairs, first
        ranked = torch.sort(sums, descending=True, stable=True).indices
        rows, by_row = torch.sort(rows[ranked], stable=True)
        ranked = ranked[by_row]
        del sums, by_row
        begins = torch.searchsorted(rows, torch.arange(n_rows, device=rows.device))
        keeps = torch.empty_like(rows, dtype=torch.bool)
        keeps[ranked] = torch.arange(rows.numel(), device=rows.device) - begins[rows] < self._keep
        del rows, ranked
        stays = torch.empty_like(order, dtype=torch.bool)
        stays[order] = torch.repeat_interleave(keeps, lengths, output_size=order.numel())
        del order
        lost = segment_sums(torch.where(stays, 0.0, values.entries).square(), values.sizes)
        norms = (lost.view(-1, n_rows).T.sqrt() * _UP).float()
        return stays, norms.contiguous()
