"""Derivatives of kernels in their hyperparameters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphrf.kernels.chebyshev import polynomial
from graphrf.kernels.kernel import Kernel
from graphrf.kernels.truncation import series_length


def jacobian_columns(kernel: Kernel, names: Sequence[str], n: int, scale: float) -> np.ndarray:
    """The columns of `modulation_jacobian(n)` that belong to `names`, shape (n, len(names))."""
    order = list(kernel.hyperparameters)
    return kernel.modulation_jacobian(n, scale)[:, [order.index(name) for name in names]]


def root_derivatives(
    kernel: Kernel, names: Sequence[str], gap: np.ndarray, scale: float
) -> np.ndarray:
    r"""dF/d(hyperparameter) at 1 less eigenvalues of W, shape (len(gap), len(names)).

    F d log g / 2 where the kernel has that in closed form, else the sum of (df_k / dtheta) x^k,
    whose terms after `LONGEST_SERIES` are left out.
    """
    if not names:
        return np.zeros((gap.size, 0))
    slopes = kernel.log_spectral_derivatives(scale * gap)
    if slopes is not None:
        order = list(kernel.hyperparameters)
        half = 0.5 * kernel.root_spectrum(scale * gap, scale)
        return np.asarray(half[:, None] * slopes[:, [order.index(name) for name in names]])
    jacobian = jacobian_columns(kernel, names, series_length(kernel, scale, 1e-11) + 1, scale)
    return np.stack([polynomial(column)(gap) for column in jacobian.T], axis=1)


def spectral_derivatives(
    kernel: Kernel, names: Sequence[str], x: np.ndarray, scale: float
) -> np.ndarray:
    r"""dg/d(hyperparameter) at eigenvalues x of W, shape (len(x), len(names)), for K = g(W).

    g = F^2, so dg = 2 F dF.
    """
    if not names:
        return np.zeros((x.size, 0))
    gap = 1 - x
    return (
        2.0
        * kernel.root_spectrum(scale * gap, scale)[:, None]
        * root_derivatives(kernel, names, gap, scale)
    )
