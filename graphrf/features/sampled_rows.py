"""Rows of features, on the host or on a torch device, before any kernel is applied."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from graphrf._base import html
from graphrf._base.cached import cached_property
from graphrf._base.devices import torch_device
from graphrf._base.types import NodesLike
from graphrf.features.error import Origin, Watch
from graphrf.features.files import write_features
from graphrf.features.record import Record
from graphrf.features.rows import row_numbers
from graphrf.features.sample_info import SampleInfo, SampleProperties

if TYPE_CHECKING:
    from typing import Self

    import torch

    from graphrf.features.device_record import DeviceRecord
    from graphrf.features.tensor import DeviceRows


class SampledRows(SampleProperties):
    """The record of some nodes, with its sizes, its device and its file; see `Features`."""

    def __init__(
        self,
        info: SampleInfo,
        nodes: np.ndarray,
        record: Record | DeviceRecord,
        origin: Origin | None = None,
    ) -> None:
        nodes.setflags(write=False)  # loops are compiled for read-only arrays alone
        self.info = info
        self.nodes = nodes
        self._record = record
        self.origin = origin
        self._watch = Watch()

    def __getstate__(self) -> dict[str, Any]:
        return {"info": self.info, "nodes": self.nodes, "record": self._fetched()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        SampledRows.__init__(self, **state)

    @cached_property
    def record(self) -> Record:
        """The record on the host; from a device it is copied at the first access."""
        return self._fetched()

    def _fetched(self) -> Record:
        """The record on the host; a copy from a device is not kept."""
        if isinstance(self._record, Record):
            return self._record
        known: Record | None = vars(self).get("record")
        return self._record.to_host() if known is None else known

    # -- devices ---------------------------------------------------------------------------------

    @property
    def device(self) -> str:
        """Device of the record: "cpu", or a torch device such as "cuda:0"."""
        return "cpu" if isinstance(self._record, Record) else str(self._record.device)

    @property
    def on_device(self) -> bool:
        """True if the record is of torch tensors, not of arrays."""
        return not isinstance(self._record, Record)

    def to(self, device: str | torch.device) -> Self:
        """The same features with their record on a device; themselves if it is there already.

        "cpu" stands for the host, with arrays of numpy. `nbytes` are copied, and take as much
        memory there; 16-bit integers are kept as their bits in int16. ImportError or ValueError if
        torch is missing, or knows no such device.

        Examples
        --------
        >>> import graphrf as grf
        >>> features = grf.sample_features(
        ...     grf.from_edges([0, 1], [1, 2]), grf.RandomWalks(n_walks=4), seed=0
        ... )
        >>> features.to("cpu") is features  # to("cuda") copies them
        True
        """
        if str(device) == "cpu" and not self.on_device:
            return self
        place = torch_device(device, "Features.to")
        moved = self._fetched() if place.type == "cpu" else self._moved(place)
        if moved is self._record:
            return self
        return type(self)(self.info, self.nodes, moved, self.origin)

    def _moved(self, device: torch.device) -> DeviceRecord:
        """The record as tensors on a device; on the host's CPU they share the arrays' memory."""
        if not isinstance(self._record, Record):
            return self._record.to(device)
        from graphrf.features.device_record import device_record

        return device_record(self._record, device)

    def device_rows(self, device: torch.device) -> DeviceRows:
        """The rows as tensors on a device; kept if the record is there."""
        moved = self._moved(device)
        return self._own_device_rows if moved is self._record else self._rows_of(moved)

    @cached_property
    def _own_device_rows(self) -> DeviceRows:
        """The rows on the device of the record."""
        assert not isinstance(self._record, Record)
        return self._rows_of(self._record)

    def _rows_of(self, record: DeviceRecord) -> DeviceRows:
        from graphrf.features.tensor import device_rows

        return device_rows(self.info, self.nodes, record)

    # -- sizes -----------------------------------------------------------------------------------

    @property
    def sampler(self) -> Any:
        """The sampler that drew the features, if known."""
        return None if self.origin is None else self.origin.sampler

    @property
    def choice(self) -> Any:
        """Record of how the sampler was chosen, if an error was given; else None."""
        return None if self.origin is None else self.origin.choice

    @property
    def nnz(self) -> int:
        """Number of (node, visited node) pairs."""
        return self._record.n_entries

    @cached_property
    def n_steps(self) -> int:
        """Steps of these rows' walks; multiply-adds of powers."""
        return self.info.n_steps(self._record)

    @property
    def nbytes(self) -> int:
        """Memory of the stored arrays in bytes (without degrees, which belong to the graph)."""
        return self._record.nbytes + self.nodes.nbytes

    @property
    def shape(self) -> tuple[int, int]:
        """(n, N), the shape of every feature matrix."""
        return self.nodes.size, self.n_nodes

    def __repr__(self) -> str:
        how = f"{self.n_walks} walks per node, {self.n_steps} steps"
        if self.info.of_powers:
            how = f"powers up to {self.max_length}, {self.n_steps} multiply-adds"
        return (
            f"Features({self.shape[0]} nodes of {self.n_nodes}, {how}, {self.nnz} non-zeros, "
            f"{self.nbytes / 2**20:.3g} MiB{'' if self.device == 'cpu' else ' on ' + self.device})"
        )

    def _repr_html_(self) -> str:
        """A table for notebooks."""
        rows = [
            ("nodes", f"{self.shape[0]:,} of {self.n_nodes:,}"),
            *self.info.settings_shown(),
            ("multiply-adds" if self.info.of_powers else "steps", self.n_steps),
            ("non-zeros", self.nnz),
            ("memory", html.memory(self.nbytes)),
            ("device", self.device),
        ]
        return html.table("Features", rows)

    # -- some of the rows, and files ---------------------------------------------------------------

    def take(self, nodes: NodesLike) -> Self:
        """The features of some nodes (positions), in the order given; repeats are allowed."""
        return self._take_rows(row_numbers("nodes", nodes, self.nodes))

    def _take_rows(self, rows: np.ndarray) -> Self:
        return type(self)(self.info, self.nodes[rows], self._record.take(rows), self.origin)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the features as an .npz file, atomically; it can be used without the graph."""
        write_features(path, self.info, self.nodes, self._fetched())
