"""The arrays of a walk's transitions as tensors, and the choice of neighbours by 64 random bits."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from graphrf.sampling.walks.philox_torch import high32, unit64
from graphrf.sampling.walks.transitions import Transitions


class DeviceTransitions(NamedTuple):
    """`Transitions` on a device; `halvings` complete a search in the longest row, or 0."""

    indptr: Tensor
    indices: Tensor
    cumulative: Tensor
    halvings: int

    @property
    def n_nodes(self) -> int:
        """N."""
        return self.indptr.numel() - 1

    @property
    def device(self) -> torch.device:
        """Device of the arrays."""
        return self.indptr.device


def on_device(arrays: Transitions, device: torch.device) -> DeviceTransitions:
    """A copy of the arrays on a device."""
    indptr, indices, cumulative = (torch.from_numpy(np.array(array)).to(device) for array in arrays)
    halvings = 0
    if cumulative.numel():
        halvings = int(np.diff(arrays.indptr).max(initial=1) - 1).bit_length()
    return DeviceTransitions(indptr, indices, cumulative, halvings)


def neighbours(nodes: Tensor, bits: Tensor, walk: DeviceTransitions) -> Tensor:
    """The neighbours (int64) that 64 bits choose for nodes, as `transitions.neighbour`."""
    low = walk.indptr[nodes].long()
    high = walk.indptr[nodes + 1].long()
    if not walk.cumulative.numel():
        return walk.indices[low + ((high32(bits) * (high - low)) >> 32)].long()
    edge = search_rows(unit64(bits), low, high - 1, walk.cumulative, walk.halvings)
    return walk.indices[edge].long()


def search_rows(x: Tensor, low: Tensor, high: Tensor, running: Tensor, halvings: int) -> Tensor:
    """The first place in low .. high with a running sum above x; high if there is none."""
    for _ in range(halvings):
        middle = (low + high) >> 1
        below = (x < running.index_select(0, middle)) | (low == high)
        high = torch.where(below, middle, high)
        low = torch.where(below, low, middle + 1)
    return low
