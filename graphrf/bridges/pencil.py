"""Factors of the matrices a diag(m) + b M, of which there is one symbolic analysis."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from graphrf.operators.sparse.cholesky import SparseCholesky
from graphrf.operators.sparse.ordering import Elimination


class Pencil:
    """The matrices a diag(m) + b M with positive a and b, with one order of elimination.

    `diagonal` is m > 0, `matrix` M, symmetric and positive semidefinite; FactorTooLargeError if
    there is no room.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from graphrf.bridges.pencil import Pencil
    >>> pencil = Pencil(np.ones(2), sp.csr_array([[1.0, -1.0], [-1.0, 1.0]]))
    >>> round(pencil.factor(1.0, 1.0).log_determinant, 6)  # log 3
    1.098612
    """

    def __init__(self, diagonal: np.ndarray, matrix: sp.csr_array) -> None:
        self.diagonal, self.matrix = diagonal, matrix
        whole = sp.csr_array(abs(matrix) + sp.diags_array(diagonal, format="csr"))
        self.elimination = Elimination.of(whole)
        order = self.elimination.order
        lower = sp.csc_array(sp.tril(sp.csr_array(whole[order][:, order]), format="csc"))
        lower.sort_indices()
        self._indices, self._indptr = lower.indices, lower.indptr
        self._first = lower.indptr[:-1]  # the diagonal, in sorted columns of a lower triangle
        self._own = diagonal[order]
        rows, columns = lower.indices, np.repeat(np.arange(order.size), np.diff(lower.indptr))
        self._entries = np.asarray(matrix[order[rows], order[columns]])

    def factor(self, a: float, b: float) -> SparseCholesky:
        """The Cholesky factor of a diag(m) + b M; LinAlgError if that is not positive definite."""
        values = b * self._entries
        values[self._first] += a * self._own
        lower = sp.csc_array((values, self._indices, self._indptr), shape=self.matrix.shape)
        return SparseCholesky.of_lower(lower, self.elimination)

    def traces(self, factor: SparseCholesky) -> tuple[float, float]:
        """trace(F^-1 diag(m)) and trace(F^-1 M) of one such matrix F, by its selected inverse."""
        inverse = factor.selected_inverse()
        own = inverse[self._first]
        return float(own @ self._own), float(
            2 * (inverse @ self._entries) - own @ self._entries[self._first]
        )
