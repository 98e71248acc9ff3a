"""Samplers on a torch device: blocks of the compiled loops' records, and their record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphrf._base import checks
from graphrf._base.memory import available_memory
from graphrf.features.device_record import DeviceRecord, starts_of
from graphrf.sampling.block import Block
from graphrf.sampling.device_blocks import DeviceBlock, host_block
from graphrf.sampling.powers.powers_torch import DevicePowers
from graphrf.sampling.powers.prepared import PreparedPowers
from graphrf.sampling.protocol import PreparedSampler
from graphrf.sampling.record_builder import SLACK, SPARE
from graphrf.sampling.walks.random_walks import PreparedWalks
from graphrf.sampling.walks.walks_torch import DeviceWalks

# Factor for the space that allocators leave between tensors.
_ROOM = 1.3
# Share of a finished column that may stay empty.
_WASTE = 0.15


@dataclass(frozen=True)
class DeviceCosts:
    """Sizes of the blocks that a device samples."""

    # Visits of a block: on the CPU adapted to its caches, elsewhere enough to fill a device.
    host_visits: int = 2_000_000
    device_visits: int = 50_000_000
    # Maximum share of the available memory.
    share: float = 0.25


class OnDevice:
    """A prepared sampler of graphrf (else TypeError), its blocks made by torch.

    Blocks are numpy arrays if the device is the CPU, and tensors on any other.
    """

    def __init__(
        self, prepared: PreparedSampler, device: torch.device, costs: DeviceCosts = DeviceCosts()
    ) -> None:
        self.device = device
        self._prepared, self._costs = prepared, costs
        self._maker: DeviceWalks | DevicePowers
        if isinstance(prepared, PreparedWalks):
            self._maker = DeviceWalks(prepared, device)
        elif isinstance(prepared, PreparedPowers):
            self._maker = DevicePowers(prepared, device)
        else:
            raise checks.type_error(
                "sampler",
                "must be RandomWalks, CompressedPowers, CutPowers or ExactPowers for "
                f"engine='torch', got {checks.describe(prepared.sampler)}; others are sampled with "
                "engine='numba', device='cpu'",
            )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # a copy asks before it has attributes
            raise AttributeError(f"'OnDevice' object has no attribute {name!r}")
        return getattr(self._prepared, name)

    def working_bytes(self, n_rows: int) -> int:
        """Memory that `sample` takes for a block of rows, the block included."""
        return int(_ROOM * self._maker.working_bytes(n_rows))

    def sample(self, sources: np.ndarray) -> Block | DeviceBlock:
        """The record of `sources`."""
        block = self._maker.sample(
            torch.from_numpy(np.array(sources, dtype=np.int64)).to(self.device)
        )
        return host_block(block) if self.device.type == "cpu" else block

    def block_rows(self, limit: int | None) -> int:
        """Rows of a block, if `limit` bytes of memory are available."""
        costs = self._costs
        visits = costs.host_visits if self.device.type == "cpu" else costs.device_visits
        rows = max(1, int(visits / self._prepared.visits_per_row))
        while limit is not None and rows > 1 and self.working_bytes(rows) > costs.share * limit:
            rows //= 2
        return rows


def device_memory(device: torch.device) -> int | None:
    """Available bytes of a device; None if unknown."""
    if device.type == "cpu":
        return available_memory()
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        # torch can reuse what it has reserved
        return int(free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device))
    return None


class DeviceRecordBuilder:
    """`RecordBuilder` in tensors: columns that are far larger than needed are copied at the end."""

    def __init__(self, n_nodes: int, expected: tuple[int, int]) -> None:
        self._n_nodes = n_nodes
        # Entries and visits that columns are allocated for.
        self.room: tuple[int, int] = (
            int(SPARE * expected[0]) + SLACK,
            int(SPARE * expected[1]) + SLACK,
        )
        self._columns: dict[str, Tensor] = {}
        self._used = {"entries": 0, "visits": 0}
        self._per_row: dict[str, list[Tensor]] = {}

    @property
    def size(self) -> tuple[int, int]:
        """Entries and visits so far."""
        return self._used["entries"], self._used["visits"]

    def append(self, block: DeviceBlock) -> None:
        """Copy the next block to its place."""
        for name in ("entries_per_row", "visits_per_row", "work", "dropped"):
            values = getattr(block, name)
            if values is not None:
                self._per_row.setdefault(name, []).append(values)
        for kind, room, names in (
            ("entries", self.room[0], ("indices", "visits_per_entry")),
            ("visits", self.room[1], ("steps", "counts")),
        ):
            start = self._used[kind]
            for name in names:
                values = getattr(block, name)
                stop = start + values.numel()
                column = self._columns.get(name)
                if column is None:
                    column = values.new_empty(max(stop, room))
                elif stop > column.numel():
                    column = torch.cat(
                        [column[:start], values.new_empty(stop // 2 + values.numel())]
                    )
                column[start:stop] = values
                self._columns[name] = column
                self._used[kind] = stop

    def record(self) -> DeviceRecord:
        """The finished record."""
        n_entries, n_visits = self._used["entries"], self._used["visits"]
        index = torch.int64 if max(n_entries, self._n_nodes) >= 2**31 else torch.int32
        columns = {}
        for name in list(self._columns):
            whole = self._columns.pop(name)  # freed, if copied, before the next column
            used = n_entries if name in ("indices", "visits_per_entry") else n_visits
            columns[name] = (
                whole[:used].clone() if used < (1 - _WASTE) * whole.numel() else whole[:used]
            )
        columns["indices"] = columns["indices"].to(index)
        per_row = {name: torch.cat(parts) for name, parts in self._per_row.items()}
        pointers = {
            "indptr": starts_of(per_row.pop("entries_per_row")).to(index),
            "visit_ptr": starts_of(per_row.pop("visits_per_row")),
        }
        return DeviceRecord(**pointers, **columns, **per_row)
