"""Points as arrays, or as torch tensors where torch is loaded: type tests and checks."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np

from graphrf._base import checks


def is_tensor(value: Any) -> bool:
    """True if `value` is a torch tensor; torch is not imported."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def floating(name: str, value: Any, dimension: int | None = None) -> Any:
    """Floating-point points (..., d), tensor or array; integers are widened, not validated."""
    if is_tensor(value):
        import torch

        if value.is_complex():
            raise checks.type_error(name, f"must be real, got {checks.describe(value)}")
        if not value.is_floating_point():
            value = value.to(torch.get_default_dtype())
    else:
        value = checks.array(name, value)
        if value.dtype.kind not in "fiu":
            raise checks.type_error(name, f"must hold real numbers, got {checks.describe(value)}")
        if value.dtype not in (np.float32, np.float64):
            value = value.astype(np.float32 if value.dtype == np.float16 else np.float64)
    if value.ndim < 1 or value.shape[-1] == 0:
        raise checks.value_error(name, f"must have shape (..., d), got {checks.describe(value)}")
    if dimension is not None and value.shape[-1] != dimension:
        raise checks.value_error(
            name, f"must have {dimension} columns, got {checks.describe(value)}"
        )
    return value


def finite_tensor(name: str, value: Any, dimension: int | None = None) -> Any:
    """A tensor of finite floating-point points, shape (..., d)."""
    import torch

    value = floating(name, value, dimension)
    if not bool(torch.isfinite(value).all()):
        raise checks.value_error(
            name, f"must be finite, got NaN or infinity in {checks.describe(value)}"
        )
    return value


def paired(projection: Any) -> Any:
    """[cos p, sin p] / sqrt(m) of a tensor p (..., m); shape (..., 2m), rows of norm 1."""
    import torch

    return torch.cat([projection.cos(), projection.sin()], -1) / math.sqrt(projection.shape[-1])
