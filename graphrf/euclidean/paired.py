"""The paired readout of random Fourier features for tensors, of nothing but torch."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def paired(projection: Tensor) -> Tensor:
    """[cos p, sin p] / sqrt(m) of a projection p, shape (..., m); shape (..., 2m), every row of norm 1."""
    return torch.cat([projection.cos(), projection.sin()], -1) / math.sqrt(projection.shape[-1])
