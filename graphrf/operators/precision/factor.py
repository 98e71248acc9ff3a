"""The exact factor of a kernel with a sparse inverse: rows of R = P^T L^-T, without a matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphrf._base import checks
from graphrf.operators.factor import Factor, FactorBase, panels, units
from graphrf.operators.sparse.cholesky import SparseCholesky


class PrecisionFactor(FactorBase):
    """Rows of F = f_0 R, R R^T = Q^-1 = K: the `Factor` of a precision's inverse root.

    `cholesky` is that of Q, `nodes` are the rows in order, repeats allowed. A product with R is
    half a solve, two multiply-adds for each number of the factor's together with R^T, whatever the
    rows; the diagonal of K is made by selected inversion, once for all that share the factor.

    Examples
    --------
    >>> import numpy as np, scipy.sparse as sp
    >>> from graphrf.operators.sparse.cholesky import SparseCholesky
    >>> from graphrf.operators.precision.factor import PrecisionFactor
    >>> rows = PrecisionFactor(
    ...     SparseCholesky(sp.csr_array([[2.0, -1.0], [-1.0, 2.0]])), np.array([1])
    ... )
    >>> one = np.ones(1)
    >>> rows.gram_apply(one, one).round(6), rows.diagonal(one).round(6)
    (array([0.666667]), array([0.666667]))
    """

    def __init__(self, cholesky: SparseCholesky, nodes: np.ndarray) -> None:
        self._cholesky = cholesky
        self.nodes = nodes

    @property
    def shape(self) -> tuple[int, int]:
        return self.nodes.size, self._cholesky.shape[0]

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float64)

    @property
    def max_length(self) -> int:
        """0: there is one matrix."""
        return 0

    def apply(self, f: np.ndarray, x: np.ndarray) -> np.ndarray:
        return np.asarray(
            f[0] * self._cholesky.root(self._operand("x", x, self.shape[1]))[self.nodes]
        )

    def apply_t(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        return self._cholesky.root_t(f[0] * self._spread(y))

    def grad_f(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """<y, R x>, shape (1,)."""
        return np.array([np.vdot(y, self.apply(np.ones(1), x))])

    def diagonal(self, f: np.ndarray) -> np.ndarray:
        """The diagonal of F F^T, shape (n,), by selected inversion."""
        return np.asarray(f[0] ** 2 * self._cholesky.inverse_diagonal[self.nodes])

    def take(self, rows: np.ndarray) -> PrecisionFactor:
        return PrecisionFactor(self._cholesky, self.nodes[np.asarray(rows)])

    def gram_apply(self, f: np.ndarray, x: np.ndarray, weight: float = 1.0) -> np.ndarray:
        """weight F F^T x by one solve."""
        return np.asarray(weight * f[0] ** 2 * self._cholesky.solve(self._spread(x))[self.nodes])

    def columns(self, f: np.ndarray, other: Factor) -> tuple[np.ndarray, np.ndarray]:
        """F G^T for rows G of a factor of distinct nodes, and the diagonal of G G^T, by solves."""
        if not isinstance(other, PrecisionFactor) or other._cholesky is not self._cholesky:
            return super().columns(f, other)
        size = other.shape[0]
        block, diagonal = np.empty((self.shape[0], size)), np.empty(size)
        for part in panels(size, self.shape[1]):
            columns = self._cholesky.solve(units(self.shape[1], other.nodes[part]))
            block[:, part] = columns[self.nodes]
            diagonal[part] = columns[other.nodes[part], np.arange(columns.shape[1])]
        return f[0] ** 2 * block, f[0] ** 2 * diagonal

    def gram_columns(self, f: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        return self.columns(f, self.take(chosen))[0]

    def _operand(self, name: str, array: np.ndarray, n: int) -> np.ndarray:
        return checks.columns(name, checks.array(name, array, np.float64), n)

    def _spread(self, y: np.ndarray) -> np.ndarray:
        """Values at the rows added up at their nodes."""
        y = self._operand("y", y, self.shape[0])
        whole = np.zeros((self.shape[1], *y.shape[1:]))
        np.add.at(whole, self.nodes, y)
        return whole
