"""The protocol of inference: a factor F of a kernel matrix K = F F^T, linear in the modulation."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

import numpy as np

# Numbers in a panel of columns over all nodes of the graph: 64 MB.
_PANEL_NUMBERS = 8_000_000


@runtime_checkable
class Factor(Protocol):
    """A matrix F(f) = sum_k f_k P_k with n rows (nodes) and N columns, so that K = F F^T.

    Everything in `graphrf.gp` is written once against these methods. Sparse features of walks or
    powers (`Features.factor`) and exact powers of the walk matrix (`SeriesFactor`, where P_k = W^k)
    implement it. A factor of your own inherits from `FactorBase` and supplies what is listed there;
    the rest follows.

    `f` is a modulation: a vector of coefficients; what is missing at its end counts as zero. Arrays
    that come back have `dtype`.
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
    def max_length(self) -> int:
        """The largest k with a matrix P_k: modulations longer than that are cut there."""
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
        """The factor of some rows, by position among this factor's rows; repeats allowed."""
        ...

    # -- derived methods, which may be overridden with cheaper ones --------------------------------

    def gram_apply(self, f: np.ndarray, x: np.ndarray, weight: float = 1.0) -> np.ndarray:
        """weight F F^T x for x of shape (n,) or (n, p); the same shape."""
        ...

    def matrix(self, f: np.ndarray) -> Any:
        """F(f) itself, shape (n, N): sparse where the factor has it so, else dense."""
        ...

    def dense_rows(self, f: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """F^T e_i for some of the rows, dense, shape (N, len(rows))."""
        ...

    def columns(self, f: np.ndarray, other: Factor) -> tuple[np.ndarray, np.ndarray]:
        """F G^T for the rows G of another factor of distinct nodes, and the diagonal of G G^T."""
        ...

    def gram_columns(self, f: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """The columns of F F^T, dense, that belong to distinct positions among the rows."""
        ...


class FactorBase:
    """Base class of factors: methods built on their products, with rows in panels of 64 MB.

    Supply `shape`, `dtype`, `max_length`, `apply`, `apply_t`, `grad_f`, `diagonal` and `take` of
    `Factor`. Where rows live elsewhere, as on the workers of a cluster, `gram_apply` is best
    supplied too: the N x p numbers of F^T x then stay where the rows are, and only n x p numbers
    travel, either way.
    """

    def gram_apply(self: Factor, f: np.ndarray, x: np.ndarray, weight: float = 1.0) -> np.ndarray:
        """See `Factor`; here by two products, each with the root of the weight."""
        root = math.sqrt(weight)
        return np.asarray(root * self.apply(f, root * self.apply_t(f, x)))

    def matrix(self: Factor, f: np.ndarray) -> Any:
        """F(f) itself, dense."""
        return self.dense_rows(f, np.arange(self.shape[0])).T

    def dense_rows(self: Factor, f: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """F^T e_i for some of the rows, shape (N, len(rows))."""
        return self.apply_t(f, units(self.shape[0], rows))

    def columns(self: Factor, f: np.ndarray, other: Factor) -> tuple[np.ndarray, np.ndarray]:
        """F G^T from panels of G^T, whose squared norms are the diagonal of G G^T."""
        size = other.shape[0]
        block, diagonal = np.empty((self.shape[0], size)), np.empty(size)
        for part in panels(size, other.shape[1]):
            panel = other.dense_rows(f, np.arange(size)[part])
            block[:, part] = self.apply(f, panel)
            diagonal[part] = np.einsum("ij,ij->j", panel, panel)
        return block, diagonal

    def gram_columns(self: Factor, f: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """The columns of F F^T that belong to distinct positions, by `gram_apply`."""
        parts = (chosen[part] for part in panels(chosen.size, self.shape[1]))
        return np.hstack([self.gram_apply(f, units(self.shape[0], part)) for part in parts])


def panels(n: int, n_nodes: int, numbers: int = _PANEL_NUMBERS) -> Iterator[slice]:
    """Slices of n columns so small that a panel of them over all nodes of the graph has at most so
    many numbers, by default 64 MB.
    """
    size = max(1, numbers // n_nodes)
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def units(n: int, positions: np.ndarray) -> np.ndarray:
    """The columns of the identity at some positions, shape (n, len(positions))."""
    units = np.zeros((n, positions.size))
    units[positions, np.arange(positions.size)] = 1.0
    return units
