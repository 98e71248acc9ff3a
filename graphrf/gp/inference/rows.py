"""Rows of a factor as matrices, and their products."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from graphrf.features.rows import dense_product
from graphrf.kernels.factor import Factor

# Above this share of non-zeros a product of two sparse matrices is made with dense ones (measured on 500 rows).
_DENSE_SHARE = 0.02
DENSE_NUMBERS = 40_000_000


def rows_of(factor: Factor, f: np.ndarray) -> Any:
    """F(f) itself: sparse where the factor has it so, else dense (n, N)."""
    if hasattr(factor, "matrix"):
        return factor.matrix(f)
    return factor.apply_t(f, np.eye(factor.shape[0])).T


def product(left: Any, right: Any) -> np.ndarray:
    """left right^T, dense, for sparse or dense matrices of as many columns."""
    if sp.issparse(left) and sp.issparse(right):
        return dense_product(left, right, filled=_DENSE_SHARE, most=DENSE_NUMBERS)
    return np.asarray(left @ right.T)


def squared_norms(rows: Any) -> np.ndarray:
    """The diagonal of rows rows^T, for a sparse or dense matrix."""
    squares = rows.multiply(rows) if sp.issparse(rows) else np.square(rows)
    return np.asarray(squares.sum(axis=1)).ravel()
