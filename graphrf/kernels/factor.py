"""The protocol that carries inference: a factor F of a kernel matrix K = F F^T, linear in the modulation."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np


@runtime_checkable
class Factor(Protocol):
    r"""A matrix F(f) = sum_k f_k P_k with n rows (nodes) and N columns, so that K = F F^T.

    Everything in `graphrf.gp` is written once against these methods. Sparse features of walks or powers
    (`Features.factor`) and exact powers of the walk matrix (`SeriesFactor`, where P_k = W^k) implement it.

    `f` is a modulation: a vector of coefficients; what is missing at its end counts as zero. Arrays that
    come back live on `device` and have `dtype`.
    """

    @property
    def shape(self) -> tuple[int, int]:
        """(n, N): rows of this factor, and nodes of the graph."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """Floating-point type of the products."""
        ...

    @property
    def device(self) -> str:
        """Where the products are computed: "cpu" or a torch device."""
        ...

    @property
    def max_length(self) -> int:
        """The largest k with a matrix P_k: modulations longer than `max_length + 1` are cut there."""
        ...

    def apply(self, f: np.ndarray, x: np.ndarray) -> np.ndarray:
        """F x for x of shape (N,) or (N, p); shape (n,) or (n, p)."""
        ...

    def apply_t(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        """F^T y for y of shape (n,) or (n, p); shape (N,) or (N, p)."""
        ...

    def grad_f(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """The vector <y, P_k x> for k = 0 .. max_length: the gradient of <y, F x> in f."""
        ...

    def diagonal(self, f: np.ndarray) -> np.ndarray:
        """The diagonal of F F^T, shape (n,)."""
        ...

    def take(self, rows: np.ndarray) -> Factor:
        """The factor of some of the rows, given by their position among this factor's rows; repeats allowed."""
        ...


@runtime_checkable
class GramFactor(Factor, Protocol):
    """A factor that multiplies by F F^T in one go, whose rows live elsewhere, as on the workers of a cluster.

    The N x p numbers of F^T x stay where the rows are; only n x p numbers travel, either way. Such a factor need
    not have its rows as a matrix here.
    """

    def gram_apply(self, f: np.ndarray, x: np.ndarray) -> np.ndarray:
        """F F^T x for x of shape (n,) or (n, p); the same shape."""
        ...
