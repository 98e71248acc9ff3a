"""Feature matrices as sparse torch tensors."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from graphrf._base.memory import require_memory
from graphrf.features.device_passes import DegreeRoots, entry_values
from graphrf.features.device_record import VISITS_AT_ONCE, DeviceRecord
from graphrf.features.matrix import feature_matrix
from graphrf.features.record import Record
from graphrf.features.sample_info import SampleInfo

# Torch warns once that CSR tensors are in beta: this first tensor consumes the warning. Filters of warnings belong
# to the process and are not safe to change in threads, so they are not changed at every tensor.
with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
    torch.zeros((1, 1)).to_sparse_csr()


class DeviceRows(NamedTuple):
    """Rows on a device: their nodes (int64), record, and roots of loads, None if all loads are 1."""

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


def tensor_on_device(info: SampleInfo, rows: DeviceRows, f: np.ndarray, device: torch.device) -> Tensor:
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
    pointer, index = (torch.from_numpy(np.array(part)).to(device) for part in (matrix.indptr, matrix.indices))
    return csr_tensor(pointer, index, torch.from_numpy(matrix.data).to(device), matrix.shape)


def row_squares(values: Tensor, pointer: Tensor) -> Tensor:
    """Row sums of squares of a CSR matrix, shape (n,)."""
    squares = values.square()
    row = torch.repeat_interleave(pointer.diff(), output_size=squares.numel())
    return squares.new_zeros(pointer.numel() - 1).index_add_(0, row, squares)


def csr_tensor(pointer: Tensor, index: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    """A torch CSR matrix of arrays that are known to be valid."""
    return torch.sparse_csr_tensor(pointer, index, values, size=shape, check_invariants=False)
