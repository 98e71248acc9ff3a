"""Interface of priors with a sparse precision."""

from __future__ import annotations

from typing import Any, Protocol, Self

import numpy as np
import scipy.sparse as sp

from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import Kernel
from graphrf.operators.sparse.cholesky import SparseCholesky
from graphrf.operators.sparse.ordering import Elimination


class Precision(Protocol):
    """Q, the sparse inverse of a prior covariance, as a function of kernel hyperparameters.

    Where linear constraints bind its variables, inverses, traces and determinants are those of Q on
    the subspace that they leave.
    """

    @property
    def n_nodes(self) -> int:
        """n, the rows of Q."""
        ...

    @property
    def matrix(self) -> sp.csr_array:
        """Q, shape (n, n)."""
        ...

    def with_kernel(self, kernel: Any) -> Self:
        """Precision for other hyperparameters, which shares what does not depend on them."""
        ...

    @property
    def own_elimination(self) -> Elimination:
        """The order of elimination of Q."""
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

    def unconstrained(self, x: np.ndarray) -> np.ndarray:
        """x of shape (n, p), less what is normal to the subspace that the constraints leave."""
        ...


class KernelPrecision(Precision, Protocol):
    """Precision Q of a kernel on a graph: N nodes first, then hidden variables."""

    @property
    def graph(self) -> Graph:
        """The graph."""
        ...

    @property
    def kernel(self) -> Kernel:
        """The kernel."""
        ...

    def smooth_in_lengthscale(self) -> Self:
        """One whose likelihoods, like those of all that `with_kernel` makes of it, are smooth
        functions of the lengthscale.
        """
        ...

    @property
    def lifted(self) -> sp.csr_array:
        """A positive definite matrix that equals Q where the constraints hold."""
        ...

    @property
    def constraints(self) -> sp.csr_array:
        """C, shape (k, n), of the constraints C x = 0; k may be 0."""
        ...

    def warn_of_rounding(self) -> None:
        """Warn where much of Q's inverse is lost to rounding."""
        ...

    def mean_variance(self) -> float:
        """The mean of the prior variances over the N nodes."""
        ...
