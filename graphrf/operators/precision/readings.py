"""Linear maps from the variables of a sparse precision to values at nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import scipy.sparse as sp

from graphrf._base.rows import slices
from graphrf.operators.precision.protocol import Precision
from graphrf.operators.sparse.cholesky import SparseCholesky
from graphrf.operators.sparse.layout import VariableLayout
from graphrf.operators.sparse.ordering import Elimination

# Numbers of half solves at once, for variances of rows outside of the pattern.
_NUMBERS = 2e7


class Readings(Protocol):
    """The linear map from n variables to the values at N nodes."""

    def read(self, x: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        """The values at nodes of variables of shape (n, p), shape (q, p)."""
        ...

    def spread(self, values: np.ndarray, nodes: np.ndarray, n: int) -> np.ndarray:
        """The transposed map for distinct nodes: values of shape (q, p) to shape (n, p)."""
        ...

    def factor(
        self, precision: Precision, nodes: np.ndarray, weights: np.ndarray
    ) -> SparseCholesky:
        """The factor of P, which is Q plus the weights of the values at distinct nodes."""
        ...

    def elimination(self, precision: Precision) -> Elimination:
        """The order of elimination of P."""
        ...

    def inverse(self, factor: SparseCholesky) -> np.ndarray:
        """The entries of P^-1 by which variances are known without a factor."""
        ...

    def variances(
        self, nodes: np.ndarray, inverse: np.ndarray | None, factor: Callable[[], SparseCholesky]
    ) -> np.ndarray:
        """The variances of the values at distinct nodes where variables have the covariance P^-1,
        shape (q,), by these entries; `factor` is called where they are None or do not suffice.
        """
        ...

    def weighted_variance(
        self, factor: SparseCholesky, nodes: np.ndarray, weights: np.ndarray
    ) -> float:
        """The sum of variances times weights at the nodes by which the factor was made."""
        ...

    def covariances(self, factor: SparseCholesky, nodes: np.ndarray) -> np.ndarray:
        """Their covariances, shape (q, q)."""
        ...


class VariableReadings:
    """The variables are the values at the nodes, and others may follow."""

    def read(self, x: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        return np.asarray(x[nodes])

    def spread(self, values: np.ndarray, nodes: np.ndarray, n: int) -> np.ndarray:
        result = np.zeros((n, *values.shape[1:]))
        result[nodes] = values
        return result

    def factor(
        self, precision: Precision, nodes: np.ndarray, weights: np.ndarray
    ) -> SparseCholesky:
        return precision.factor(self.spread(weights, nodes, precision.n_nodes))

    def elimination(self, precision: Precision) -> Elimination:
        return precision.own_elimination

    def inverse(self, factor: SparseCholesky) -> np.ndarray:
        return factor.inverse_diagonal

    def variances(
        self, nodes: np.ndarray, inverse: np.ndarray | None, factor: Callable[[], SparseCholesky]
    ) -> np.ndarray:
        if inverse is not None:
            return np.asarray(inverse[nodes])
        made = factor()
        if nodes.size**2 <= made.shape[0]:  # for so few, faster than selected inversion
            return np.diagonal(made.inverse_between(nodes))
        return np.asarray(made.inverse_diagonal[nodes])

    def weighted_variance(
        self, factor: SparseCholesky, nodes: np.ndarray, weights: np.ndarray
    ) -> float:
        return float(factor.inverse_diagonal[nodes] @ weights)

    def covariances(self, factor: SparseCholesky, nodes: np.ndarray) -> np.ndarray:
        return factor.inverse_between(nodes)


VARIABLES = VariableReadings()


class RowReadings:
    r"""The value at a node is a row of a sparse matrix R times the variables.

    With the rows A of the observed nodes, P = Q + A^T diag(w) A, whose entries are added up in one
    pattern for all hyperparameters. Variances of rows any two of whose variables have an entry in
    that pattern come from the selected inverse, and others from half a solve for each row.
    """

    def __init__(self, rows: sp.csr_array, layout: VariableLayout) -> None:
        self.rows, self.layout = rows, layout
        self._weighted: tuple[np.ndarray, sp.csr_array] | None = None

    def with_rows(self, rows: sp.csr_array) -> RowReadings:
        """Other nodes of the same variables."""
        return RowReadings(rows, self.layout)

    def read(self, x: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        return np.asarray(self.rows[nodes] @ x)

    def spread(self, values: np.ndarray, nodes: np.ndarray, n: int) -> np.ndarray:
        return np.asarray(self.rows[nodes].T @ values)

    def factor(
        self, precision: Precision, nodes: np.ndarray, weights: np.ndarray
    ) -> SparseCholesky:
        kept, places = self.layout.places(precision.matrix)
        lower = self._pairs_of(nodes) @ weights
        lower[places] += precision.matrix.data[kept]
        return self.layout.factor(lower)

    def elimination(self, precision: Precision) -> Elimination:
        return self.layout.elimination

    def inverse(self, factor: SparseCholesky) -> np.ndarray:
        return factor.selected_inverse()

    def variances(
        self, nodes: np.ndarray, inverse: np.ndarray | None, factor: Callable[[], SparseCholesky]
    ) -> np.ndarray:
        rows = sp.csr_array(self.rows[nodes])
        try:
            pairs = self.layout.rows(rows).pairs
        except KeyError:  # averages over more than a triangle
            return self._by_solves(factor(), rows)
        known = self.inverse(factor()) if inverse is None else inverse
        return np.asarray(pairs.T @ (known * self.layout.twice))

    def weighted_variance(
        self, factor: SparseCholesky, nodes: np.ndarray, weights: np.ndarray
    ) -> float:
        inverse = factor.selected_inverse() * self.layout.twice
        return float(inverse @ (self._pairs_of(nodes) @ weights))

    def covariances(self, factor: SparseCholesky, nodes: np.ndarray) -> np.ndarray:
        half = factor.root_t(self.rows[nodes].toarray().T)
        return np.asarray(half.T @ half)

    def _pairs_of(self, nodes: np.ndarray) -> sp.csr_array:
        """The pairs of the variables of observed nodes, kept for further factors."""
        if self._weighted is None or not np.array_equal(self._weighted[0], nodes):
            self._weighted = nodes, self.layout.rows(sp.csr_array(self.rows[nodes])).pairs
        return self._weighted[1]

    def _by_solves(self, factor: SparseCholesky, rows: sp.csr_array) -> np.ndarray:
        q, n = rows.shape
        result = np.empty(q)
        for part in slices(q, max(1, int(_NUMBERS / n))):
            half = factor.root_t(rows[part.start : part.stop].toarray().T)
            result[part] = np.square(half).sum(axis=0)
        return result
