"""Sparse Cholesky factorisation: solves, determinants and selected inversion."""

from __future__ import annotations

from typing import Self

import numpy as np
import scipy.sparse as sp

from graphrf._base.blas import blas_threads
from graphrf.operators.sparse import multifrontal
from graphrf.operators.sparse.ordering import Elimination


class SparseCholesky:
    """A = P^T L L^T P of a sparse, symmetric, positive definite matrix, with dense blocks.

    `elimination` is that of a pattern that holds that of the matrix; it is made if it is not given.
    Raises `numpy.linalg.LinAlgError` if A is not positive definite to rounding, FactorTooLargeError
    if there is no room.

    `elimination.operations` multiply-adds, and `elimination.n_entries` numbers. BLAS takes one
    thread: most blocks are small, and the bits do not depend on the cores. Sources: Duff and Reid
    1983 (multifrontal); Davis 2006, "Direct Methods for Sparse Linear Systems".

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from graphrf.operators.sparse.cholesky import SparseCholesky
    >>> factor = SparseCholesky(
    ...     sp.csr_array([[2.0, -1.0, 0.0], [-1.0, 2.0, -1.0], [0.0, -1.0, 2.0]])
    ... )
    >>> (
    ...     factor.solve(np.ones(3)).round(6),
    ...     round(factor.log_determinant, 6),
    ...     factor.inverse_diagonal.round(6),
    ... )
    (array([1.5, 2. , 1.5]), 1.386294, array([0.75, 1.  , 0.75]))
    """

    def __init__(self, matrix: sp.csr_array, elimination: Elimination | None = None) -> None:
        elimination = Elimination.of(matrix) if elimination is None else elimination
        order = elimination.order
        lower = sp.csc_array(sp.tril(sp.csr_array(matrix[order][:, order]), format="csc"))
        lower.sort_indices()
        self._set(lower, elimination)

    @classmethod
    def of_lower(cls, lower: sp.csc_array, elimination: Elimination) -> Self:
        """The factor of a matrix by its lower triangle, by sorted columns, in elimination order."""
        made = object.__new__(cls)
        made._set(lower, elimination)
        return made

    def _set(self, lower: sp.csc_array, elimination: Elimination) -> None:
        self.elimination, self._lower = elimination, lower
        # one type of indices, for which the loops are compiled
        self._pattern = self._lower.indptr.astype(np.int64), self._lower.indices.astype(np.int64)
        self._values = np.empty(self.elimination.n_entries)
        with blas_threads(1):
            failed = multifrontal.factor(
                *self._pattern, self._lower.data, *self._blocks, self._values
            )
        if failed == -2:
            raise ValueError(
                "the matrix has entries outside of the pattern of its order of elimination"
            )
        if failed >= 0:
            raise np.linalg.LinAlgError("the sparse matrix is not positive definite to rounding")
        self._inverse: np.ndarray | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """(n, n)."""
        return self.elimination.order.size, self.elimination.order.size

    @property
    def log_determinant(self) -> float:
        """log |A|."""
        return -2 * multifrontal.log_diagonal(
            self.elimination.start, self.elimination.offsets, self._values
        )

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        """A^-1 b for b of shape (n,) or (n, p)."""
        x = self._columns(rhs)[self.elimination.order]
        with blas_threads(1):
            multifrontal.forward(*self._blocks, self._values, x)
            multifrontal.backward(*self._blocks, self._values, x)
        return self._restored(x, rhs.shape)

    def root(self, z: np.ndarray) -> np.ndarray:
        """R z for z of shape (n,) or (n, p), where R = P^T L^-T and R R^T = A^-1."""
        x = self._columns(z)
        with blas_threads(1):
            multifrontal.backward(*self._blocks, self._values, x)
        return self._restored(x, z.shape)

    def root_t(self, b: np.ndarray) -> np.ndarray:
        """R^T b for b of shape (n,) or (n, p)."""
        x = self._columns(b)[self.elimination.order]
        with blas_threads(1):
            multifrontal.forward(*self._blocks, self._values, x)
        return x.reshape(b.shape)

    def inverse_between(self, nodes: np.ndarray) -> np.ndarray:
        """A^-1 between distinct coordinates, (m, m), much faster than by solves."""
        place = np.empty(self.shape[0], dtype=np.int64)
        place[self.elimination.order] = np.arange(place.size)
        own = place[nodes]
        order = np.argsort(own)
        with blas_threads(1):
            block = multifrontal.inverse_between(*self._blocks, self._values, own[order])
        result = np.empty_like(block)
        result[np.ix_(order, order)] = 0.5 * (block + block.T)
        return result

    @property
    def inverse_diagonal(self) -> np.ndarray:
        """The diagonal of A^-1, (n,), by selected inversion: twice the cost of the factor."""
        result = np.empty(self.shape[0])
        result[self.elimination.order] = self.selected_inverse()[self._lower.indptr[:-1]]
        return result

    def trace(self, other: sp.csr_array) -> float:
        """trace(A^-1 B) of a symmetric matrix whose pattern that of A holds."""
        order = self.elimination.order
        lower = sp.csc_array(sp.tril(sp.csr_array(other[order][:, order]), format="csc"))
        inverse = sp.csc_array(
            (self.selected_inverse(), self._lower.indices, self._lower.indptr), shape=self.shape
        )
        both = inverse.multiply(lower)
        return float(2 * both.sum() - both.diagonal().sum())

    def selected_inverse(self) -> np.ndarray:
        """A^-1 where the lower triangle of A has entries, by columns, in elimination order."""
        if self._inverse is None:
            with blas_threads(1):
                self._inverse = multifrontal.selected_inverse(
                    *self._pattern, *self._blocks, self._values
                )
        return self._inverse

    @property
    def _blocks(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        elimination = self.elimination
        return elimination.start, elimination.begins, elimination.rows, elimination.offsets

    def _columns(self, x: np.ndarray) -> np.ndarray:
        """A copy as float64 of shape (n, p)."""
        return np.array(x, dtype=np.float64, order="C").reshape(self.shape[0], -1)

    def _restored(self, x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
        """Rows in the order of the matrix."""
        result = np.empty_like(x)
        result[self.elimination.order] = x
        return result.reshape(shape)
