"""What inference asks of a prior with a sparse precision."""

from __future__ import annotations

from typing import Any, Protocol, Self

import numpy as np
import scipy.sparse as sp

from graphrf.kernels.precision.cholesky import SparseCholesky


class Precision(Protocol):
    """Q, the sparse inverse of a prior covariance at n nodes, as a function of a kernel's hyperparameters."""

    @property
    def n_nodes(self) -> int:
        """n."""
        ...

    @property
    def matrix(self) -> sp.csr_array:
        """Q, shape (n, n)."""
        ...

    @property
    def root_size(self) -> int:
        """Columns of the matrix R with R R^T = Q that `root` has."""
        ...

    def root(self, z: np.ndarray) -> np.ndarray:
        """R z for z of shape (root_size, p)."""
        ...

    def with_kernel(self, kernel: Any) -> Self:
        """That of other hyperparameters, which shares what does not depend on them."""
        ...

    def factor(self, weights: np.ndarray | float = 0.0) -> SparseCholesky:
        """The Cholesky factor of Q + diag(weights)."""
        ...

    def log_determinant(self) -> float:
        """log |Q|."""
        ...

    def derivative(self, name: str) -> sp.csr_array:
        """The derivative of Q in a hyperparameter."""
        ...

    def trace_of_derivative(self, name: str) -> float:
        """trace(Q^-1 dQ)."""
        ...
