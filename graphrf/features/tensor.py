"""Feature matrices as sparse torch tensors."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from graphrf._base.memory import require_memory
from graphrf.features.device_passes import DegreeRoots, entry_values
from graphrf.features.device_record import VISITS_AT_ONCE

if TYPE_CHECKING:
    from graphrf.features.features import Features

# Torch warns once that CSR tensors are in beta, and does so here, unheard. Filters of warnings are the process's:
# threads that changed them at every tensor would leave them changed.
with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
    torch.zeros((1, 1)).to_sparse_csr()


def feature_tensor(features: Features, f: np.ndarray, device: torch.device) -> Tensor:
    """See `Features.torch`; f is the modulation."""
    record = features._on_device
    if record is None:
        # The values, and a copy of the indices: those of a tensor can be written to.
        require_memory(
            features.nnz * (features.dtype.itemsize + features._indices.itemsize),
            f"a torch matrix of {features.nnz} non-zeros",
            'take some of the rows (Features.take), or sample with dtype="float32"',
        )
        matrix = features.matrix_from_modulation(f)
        pointer, index = (torch.from_numpy(np.array(part)) for part in (matrix.indptr, matrix.indices))
        values = torch.from_numpy(matrix.data)
    else:
        load = torch.from_numpy(features._load(f)).to(record.device)
        dtype = torch.float32 if features.dtype == np.float32 else torch.float64
        pointer, index = record.indptr, record.indices
        values = entry_values(record, features._device_roots, load, dtype, VISITS_AT_ONCE)
    return csr_tensor(pointer.to(device), index.to(device), values.to(device), features.shape)


def degree_roots(features: Features, nodes: Tensor) -> DegreeRoots | None:
    """sqrt(d) of the rows' nodes, which come as a tensor, and of all, on its device; None where loads are 1."""
    if features._degrees is None:
        return None
    every = torch.from_numpy(features._degree_roots()).to(nodes.device)
    return DegreeRoots(every[nodes], every)


def csr_tensor(pointer: Tensor, index: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    """A torch CSR matrix of arrays that are known to be right."""
    return torch.sparse_csr_tensor(pointer, index, values, size=shape, check_invariants=False)
