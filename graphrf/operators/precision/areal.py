"""The precisions of areal kernels: proper, intrinsic, and intrinsic with an unstructured part."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
import scipy.sparse as sp

from graphrf._base import checks
from graphrf._base.cached import cached_property
from graphrf._base.warn import warn
from graphrf.graph.graph import Graph
from graphrf.kernels.areal import BYM2, CAR, ICAR
from graphrf.kernels.kernel import Kernel
from graphrf.operators.precision.markov import SparsePrecision, require_sparse_precision
from graphrf.operators.precision.protocol import KernelPrecision
from graphrf.operators.sparse.cholesky import SparseCholesky
from graphrf.operators.sparse.constrained import ConstrainedCholesky
from graphrf.operators.sparse.ordering import Elimination

Made = TypeVar("Made")

# The smallest 1 - proportion for which the precision keeps six digits.
_ROUNDED = 1e-10


class Intrinsic(NamedTuple):
    """The scaled intrinsic autoregression of a graph: what does not depend on hyperparameters.

    `precision` is s L in each component with its own s, and 1 at isolated nodes, which have no
    constraint (`summed`); `lifted` is positive definite, and equal to it on fields that sum to zero
    in each component. The geometric mean of `variances` is 1 in each component. `log_determinant`
    is that of the precision on the fields that sum to zero.
    """

    precision: sp.csr_array
    lifted: sp.csr_array
    component: np.ndarray
    summed: np.ndarray
    variances: np.ndarray
    log_determinant: float

    @classmethod
    def of(cls, graph: Graph) -> Intrinsic:
        """Compute the quantities of a graph by one sparse factor and a selected inverse.

        With k e e^T added to L at one node of each component, M = (L + k e e^T)^-1 differs from L^+
        by constants alone, which centring takes off.
        """
        laplacian, component = graph.laplacian(normalized=False), graph.components()
        degrees = laplacian.diagonal()
        sizes = np.bincount(component)
        summed = (sizes > 1)[component]
        first = np.lexsort((np.arange(component.size), -degrees, component))
        # the node with the largest degree of each component
        hub = first[np.searchsorted(component[first], np.arange(sizes.size))]
        raised = np.zeros(component.size)
        raised[hub] = np.where(sizes > 1, degrees[hub], 1.0)
        factor = SparseCholesky(sp.csr_array(laplacian + sp.diags_array(raised, format="csr")))
        sums = factor.solve(np.ones(component.size))
        level = (np.bincount(component, weights=sums) / sizes**2)[component]
        variances = factor.inverse_diagonal - 2 * sums / sizes[component] + level
        variances[~summed] = 1.0
        scale = np.exp(np.bincount(component, weights=np.log(variances)) / sizes)
        variances = variances / scale[component]
        # |L + k e e^T| = k |L without the node's row|, which is the product of L's other
        # eigenvalues over the size
        several = sizes > 1
        log_determinant = (
            factor.log_determinant - float(np.log(raised[hub]).sum()) + float(np.log(sizes).sum())
        )
        log_determinant += float(((sizes - 1) * np.log(scale)).sum())
        precision = sp.csr_array(
            sp.diags_array(scale[component]) @ laplacian + sp.diags_array(1.0 * ~summed)
        )
        # 1 b^T + b 1^T with a multiple b of e is 0 on fields
        # that sum to zero; a small b leaves all definite
        size = np.where(several, 1 / (sizes * variances[hub]), 0.0)
        rows, columns = hub[component], np.arange(component.size)
        arrow = sp.csr_array((size[component], (rows, columns)), shape=laplacian.shape)
        return cls(
            precision,
            sp.csr_array(precision + arrow + arrow.T),
            component,
            summed,
            variances,
            log_determinant,
        )


class ArealPrecision:
    """Base class of precisions of areal kernels, with the `KernelPrecision` methods they share."""

    graph: Graph
    kernel: Kernel

    def __init__(self, graph: Graph, kernel: Kernel) -> None:
        kernel.check_graph(graph)
        self.graph, self.kernel = graph, kernel
        self._shared: dict[str, Any] = {}

    def smooth_in_lengthscale(self) -> Self:
        """This: there is no lengthscale."""
        return self

    def with_kernel(self, kernel: Kernel) -> Self:
        """Precision for other hyperparameters, which shares what does not depend on them."""
        if kernel == self.kernel:
            return self
        if type(kernel) is not type(self.kernel):
            raise checks.value_error(
                "kernel", f"must be a {type(self.kernel).__name__}, got {kernel!r}"
            )
        other = object.__new__(type(self))
        other.graph, other.kernel, other._shared = self.graph, kernel, self._shared
        return other

    @property
    def n_nodes(self) -> int:
        """The rows of Q."""
        return int(self.matrix.shape[0])

    @property
    def matrix(self) -> sp.csr_array:
        """Q."""
        raise NotImplementedError

    @property
    def own_elimination(self) -> Elimination:
        """The order of elimination of Q."""
        return self._once("elimination", lambda: Elimination.of(self.lifted))

    def _once(self, name: str, make: Callable[[], Made]) -> Made:
        """A value that does not depend on hyperparameters, made once for all of them."""
        if name not in self._shared:
            self._shared[name] = make()
        found: Made = self._shared[name]
        return found

    def factor(self, weights: np.ndarray | float = 0.0) -> SparseCholesky:
        """The Cholesky factor of Q + diag(weights)."""
        matrix = self.lifted + sp.diags_array(np.broadcast_to(weights, self.n_nodes), format="csr")
        return self._factored(sp.csr_array(matrix))

    @cached_property
    def _prior(self) -> SparseCholesky:
        return self.factor()

    def unconstrained(self, x: np.ndarray) -> np.ndarray:
        """x: there are no constraints."""
        return x

    def warn_of_rounding(self) -> None:
        """Warn about proportions so near to 0 or 1 that digits are lost."""
        for name in self.kernel.proportions:
            value = self.kernel.hyperparameters[name]
            if 1 - value < _ROUNDED:
                warn(
                    f"{self.kernel!r} is so near to {name} = 1 that rounding takes most digits of "
                    "its variances"
                )

    @property
    def lifted(self) -> sp.csr_array:
        """A positive definite matrix that is Q where the constraints hold."""
        return self.matrix

    @property
    def constraints(self) -> sp.csr_array:
        """C, shape (k, n): C x = 0; k may be 0."""
        return sp.csr_array((0, self.n_nodes))

    def _factored(self, matrix: sp.csr_array) -> SparseCholesky:
        return SparseCholesky(matrix, self.own_elimination)

    def derivative(self, name: str) -> sp.csr_array:
        """The derivative of Q in a hyperparameter."""
        raise checks.value_error(
            "optimize", f"must name hyperparameters of {self.kernel!r}, got {name!r}"
        )

    def trace_of_derivative(self, name: str) -> float:
        """trace(Q^-1 dQ)."""
        raise checks.value_error(
            "optimize", f"must name hyperparameters of {self.kernel!r}, got {name!r}"
        )


class ProperPrecision(ArealPrecision):
    """Precision of `CAR`: Q = (1 - rho) D + rho L."""

    kernel: CAR

    @cached_property
    def matrix(self) -> sp.csr_array:
        rho = self.kernel.dependence
        return sp.csr_array((1 - rho) * self._diagonal + rho * self._laplacian)

    def log_determinant(self) -> float:
        return self._prior.log_determinant

    def derivative(self, name: str) -> sp.csr_array:
        """The derivative of Q in rho."""
        return sp.csr_array(self._laplacian - self._diagonal)

    def trace_of_derivative(self, name: str) -> float:
        return self._prior.trace(self.derivative(name))

    def mean_variance(self) -> float:
        return float(self._prior.inverse_diagonal.mean())

    @property
    def _laplacian(self) -> sp.csr_array:
        return self._once("laplacian", lambda: self.graph.laplacian(normalized=False))

    @property
    def _diagonal(self) -> sp.csr_array:
        return sp.csr_array(sp.diags_array(self._laplacian.diagonal()))


class IntrinsicPrecision(ArealPrecision):
    """Precision of `ICAR`: the scaled Laplacian, for fields that sum to zero in each component."""

    @property
    def intrinsic(self) -> Intrinsic:
        """Quantities that do not depend on hyperparameters."""
        return self._once("intrinsic", lambda: Intrinsic.of(self.graph))

    @property
    def matrix(self) -> sp.csr_array:
        return self.intrinsic.precision

    def log_determinant(self) -> float:
        """log |Q| on the fields that sum to zero."""
        return self.intrinsic.log_determinant

    def mean_variance(self) -> float:
        return float(self.intrinsic.variances.mean())

    def unconstrained(self, x: np.ndarray) -> np.ndarray:
        """x of shape (n, p), less its means over the summed coordinates of each component."""
        component, summed = self._constraints
        result = x.copy()
        sums = np.zeros((int(component.max()) + 1, x.shape[1]))
        np.add.at(sums, component[summed], x[summed])
        counts = np.maximum(np.bincount(component[summed], minlength=sums.shape[0]), 1)
        result[summed] -= (sums / counts[:, None])[component[summed]]
        return result

    @property
    def lifted(self) -> sp.csr_array:
        return self.intrinsic.lifted

    def _factored(self, matrix: sp.csr_array) -> SparseCholesky:
        return ConstrainedCholesky(matrix, self.own_elimination, *self._constraints)

    @property
    def constraints(self) -> sp.csr_array:
        """The sums over the components of more than one node."""
        component, summed = self._constraints
        held, row = np.unique(component[summed], return_inverse=True)
        places = row, np.flatnonzero(summed)
        return sp.csr_array((np.ones(row.size), places), shape=(held.size, component.size))

    @property
    def _constraints(self) -> tuple[np.ndarray, np.ndarray]:
        """The component of every coordinate, and those that sum to zero."""
        return self.intrinsic.component, self.intrinsic.summed


class MixedPrecision(IntrinsicPrecision):
    r"""Precision of `BYM2`: that of f and its structured part u jointly, shape (2 N, 2 N).

    .. math:: Q = \begin{pmatrix} I & -\sqrt\varphi I \\ -\sqrt\varphi I & \varphi I \end{pmatrix}
        / (1 - \varphi)
              + \begin{pmatrix} 0 & 0 \\ 0 & Q_u \end{pmatrix},

    since f given u is N(sqrt(phi) u, (1 - phi) I). Source: Riebler et al. 2016, Sec. 3.4.
    """

    kernel: BYM2

    @cached_property
    def matrix(self) -> sp.csr_array:
        return self._joint(self.intrinsic.precision)

    @cached_property
    def lifted(self) -> sp.csr_array:
        return self._joint(self.intrinsic.lifted)

    def derivative(self, name: str) -> sp.csr_array:
        """The derivative of Q in phi."""
        phi = self.kernel.mixing
        rest = 1 - phi
        across = -(1 + phi) / (2 * math.sqrt(phi) * rest**2)
        return self._blocks(1 / rest**2, across, 1 / rest**2)

    def log_determinant(self) -> float:
        """log |Q| on the fields u that sum to zero."""
        return self.intrinsic.log_determinant - self.graph.n_nodes * math.log1p(-self.kernel.mixing)

    def trace_of_derivative(self, name: str) -> float:
        return self.graph.n_nodes / (1 - self.kernel.mixing)

    def mean_variance(self) -> float:
        phi = self.kernel.mixing
        return 1 - phi + phi * float(self.intrinsic.variances.mean())

    def _joint(self, structured: sp.csr_array) -> sp.csr_array:
        phi = self.kernel.mixing
        rest, n = 1 - phi, self.graph.n_nodes
        mixed = self._blocks(1 / rest, -math.sqrt(phi) / rest, phi / rest)
        return sp.csr_array(mixed + sp.block_diag([sp.csr_array((n, n)), structured], format="csr"))

    def _blocks(self, own: float, across: float, structured: float) -> sp.csr_array:
        """The matrix of four multiples of the identity."""
        return sp.csr_array(
            sp.kron(
                np.array([[own, across], [across, structured]]), sp.eye_array(self.graph.n_nodes)
            )
        )

    @property
    def _constraints(self) -> tuple[np.ndarray, np.ndarray]:
        component, summed = self.intrinsic.component, self.intrinsic.summed
        return np.tile(component, 2), np.concatenate([np.zeros_like(summed), summed])


_PRECISIONS: dict[type[Kernel], type[Any]] = {
    ICAR: IntrinsicPrecision,
    BYM2: MixedPrecision,
    CAR: ProperPrecision,
}


def precision_of(graph: Graph, kernel: Kernel) -> KernelPrecision:
    """The sparse precision of a kernel on a graph; ValueError if it has none."""
    require_sparse_precision(kernel)
    if kernel.is_series:
        return SparsePrecision(graph, kernel)
    made: KernelPrecision = _PRECISIONS[type(kernel)](graph, kernel)
    return made
