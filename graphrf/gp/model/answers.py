"""Predictions with standard deviations or covariances: how they are asked for, and their shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphrf._base import checks


def check_deviations(return_std: Any, return_cov: Any = False) -> None:
    """Raise unless deviations are asked for in a known way, and not beside the covariance."""
    checks.flag("return_cov", return_cov)
    refuse_both(return_std, return_cov)
    if not isinstance(return_std, bool | np.bool_) and return_std != "observation":
        raise checks.value_error(
            "return_std", f"must be True, False or 'observation', got {checks.describe(return_std)}"
        )


def refuse_both(return_std: Any, return_cov: Any) -> None:
    """Raise if deviations and covariance are asked for at once."""
    if return_std and return_cov:
        raise checks.value_error(
            "return_std", "and `return_cov` exclude each other; the covariance's diagonal has both"
        )


def deviations_like(mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Standard deviations in the shape of the mean (q, p), of variances (q,) that all outputs share, or (q, p)."""
    std = np.sqrt(variance)
    return np.broadcast_to(std[:, None] if std.ndim == 1 else std, mean.shape).copy()
