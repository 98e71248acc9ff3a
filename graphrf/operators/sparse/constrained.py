"""The inverse of a sparse matrix on the subspace that sums over components leave."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from graphrf._base.cached import cached_property
from graphrf.operators.sparse.cholesky import SparseCholesky
from graphrf.operators.sparse.ordering import Elimination


class ConstrainedCholesky(SparseCholesky):
    r"""A on vectors x with C x = 0, constraints on sums of coordinates of each component.

    .. math:: S = A^{-1} - A^{-1} C^\top (C A^{-1} C^\top)^{-1} C A^{-1} = R (I - V V^\top) R^\top,
        \quad
              \log |Z^\top A Z| = \log |A| + \log |C A^{-1} C^\top| - \log |C C^\top|,

    with A^-1 = R R^T and an orthonormal basis Z of the subspace. The base class's A^-1 and log |A|
    stand here for S = Z (Z^T A Z)^-1 Z^T and log |Z^T A Z|.

    `matrix`, A, is positive definite and joins no two components. `component` is that of every
    coordinate, from 0; those in `summed` sum to 0 over each component. The constraints cost one
    solve and two vectors, however many there are. Source: Rue and Held 2005, "Gaussian Markov
    Random Fields", Sec. 2.3.3.
    """

    def __init__(
        self,
        matrix: sp.csr_array,
        elimination: Elimination,
        component: np.ndarray,
        summed: np.ndarray,
    ) -> None:
        super().__init__(matrix, elimination)
        self._component, self._summed = component, summed.astype(np.float64)
        sums, order = _by_component(component), elimination.order
        self._sums, self._ordered_sums = sums, sums[:, order]
        held = sums @ self._summed  # the diagonal of C C^T
        bound = held > 0
        half = super().root_t(self._summed)
        size = self._ordered_sums @ np.square(half)  # the diagonal of C A^-1 C^T
        self._log_constraints = float(np.log(size[bound] / held[bound]).sum())
        root = np.sqrt(np.where(bound, size, 1.0))
        self._half = half / root[component[order]]  # V, each column on its component
        self._inner = super().solve(self._summed) / root[component]

    @property
    def log_determinant(self) -> float:
        return super().log_determinant + self._log_constraints

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        found = super().solve(rhs)
        removed = self._sums.T @ (self._sums @ _times(self._inner, rhs))
        return np.asarray(found - _times(self._inner, removed))

    def root(self, z: np.ndarray) -> np.ndarray:
        return super().root(self._free(z))

    def root_t(self, b: np.ndarray) -> np.ndarray:
        return self._free(super().root_t(b))

    def inverse_between(self, nodes: np.ndarray) -> np.ndarray:
        """S between distinct coordinates, shape (m, m)."""
        own, component = self._inner[nodes], self._component[nodes]
        return super().inverse_between(nodes) - np.outer(own, own) * (
            component[:, None] == component
        )

    @cached_property
    def inverse_diagonal(self) -> np.ndarray:
        """The diagonal of S, shape (n,)."""
        return np.asarray(super().inverse_diagonal - np.square(self._inner))

    def trace(self, other: sp.csr_array) -> float:
        """trace(S B) of a symmetric matrix whose pattern that of A holds."""
        return super().trace(other) - float(self._inner @ (other @ self._inner))

    def _free(self, z: np.ndarray) -> np.ndarray:
        """(I - V V^T) z."""
        removed = self._ordered_sums.T @ (self._ordered_sums @ _times(self._half, z))
        return np.asarray(z - _times(self._half, removed))


def _by_component(component: np.ndarray) -> sp.csr_array:
    """The matrix that sums coordinates over components."""
    places = component, np.arange(component.size)
    return sp.csr_array(
        (np.ones(component.size), places), shape=(int(component.max()) + 1, component.size)
    )


def _times(vector: np.ndarray, x: np.ndarray) -> np.ndarray:
    """diag(vector) x for x of shape (n,) or (n, p)."""
    return vector * x if x.ndim == 1 else vector[:, None] * x
