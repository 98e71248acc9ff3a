"""Kernels whose inverse is a polynomial of the Laplacian, and so a sparse matrix."""

from __future__ import annotations

import math
import weakref

import numpy as np
import scipy.sparse as sp

from graphrf._base import checks
from graphrf._base.cached import cached_property
from graphrf._base.warn import warn
from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import Kernel
from graphrf.operators.sparse.cholesky import SparseCholesky
from graphrf.operators.sparse.ordering import Elimination, FactorTooLargeError

# Larger powers fill the factor, and lose the smallest eigenvalues to rounding.
LARGEST_POWER = 4
# Entries of a power of the Laplacian that are looked at: 3 GB.
_MOST_ENTRIES = 2e8
# Ratios of the largest to the smallest eigenvalue of Q from which rounding shows (means and deviations are off by
# 2e-5 of the prior's deviation), and from which too little is left (4e-4).
_ROUNDED, _LOST = 1e12, 1e14
# Orders of elimination of powers of a graph's Laplacians, which have one pattern: graphs are fitted repeatedly.
_orders: weakref.WeakKeyDictionary[Graph, dict[int, Elimination]] = weakref.WeakKeyDictionary()


def has_sparse_precision(kernel: Kernel) -> bool:
    """True if the kernel is areal, or its inverse is a polynomial of the Laplacian of small degree."""
    power = kernel.inverse_power
    if power is None:
        return not kernel.is_series
    return float(power[2]).is_integer() and power[2] <= LARGEST_POWER


def require_sparse_precision(kernel: Kernel) -> None:
    """Raise ValueError unless the kernel has a sparse inverse."""
    if not has_sparse_precision(kernel):
        raise checks.value_error(
            "kernel",
            "must have a sparse inverse for method='precision': Matern with nu, or RegularizedLaplacian with "
            f"power, an integer from 1 to {LARGEST_POWER}, or an areal kernel, got {kernel!r}; use one of these, "
            "or method='series'",
        )


def incidence(graph: Graph) -> sp.csr_array:
    """E with E E^T = L, the combinatorial Laplacian: a column for every edge that is no loop."""
    adjacency = sp.triu(graph.adjacency, k=1, format="coo")
    first, second = adjacency.row, adjacency.col
    root, edges = np.sqrt(adjacency.data), np.arange(adjacency.nnz)
    places = np.concatenate([first, second]), np.concatenate([edges, edges])
    return sp.csr_array((np.concatenate([root, -root]), places), shape=(graph.n_nodes, edges.size))


def _to_power(matrix: sp.csr_array, power: int) -> sp.csr_array:
    """A matrix to a power; FactorTooLargeError if that has too many entries."""
    if power == 0:
        return sp.csr_array(sp.eye_array(matrix.shape[0], format="csr"))
    result, lengths = matrix, np.diff(matrix.indptr)
    for _ in range(power - 1):
        if float(np.diff(result.indptr).astype(np.float64) @ lengths) > _MOST_ENTRIES:
            raise FactorTooLargeError(
                f"power {power} of the Laplacian of this graph has too many entries: its largest node has "
                f"{int(lengths.max())} neighbours"
            )
        result = sp.csr_array(result @ matrix)
    return result


class SparsePrecision:
    r"""Q = K^-1 = B^q with B = c I + t L, for one graph, Laplacian and power q.

    Parameters
    ----------
    graph : Graph, undirected, N nodes
    kernel : Kernel
        `Matern` with nu, or `RegularizedLaplacian` with power, 1 to 4.

    Raises
    ------
    ValueError
        If the kernel has no sparse inverse, or one that is numerically singular.

    Notes
    -----
    The order of elimination is that of the pattern of Q with its diagonal: one for all lengthscales, and for the
    posterior's precision. It is kept as long as the graph lives.

    Examples
    --------
    >>> import networkx as nx, numpy as np, graphrf as grf
    >>> from graphrf.operators.precision.markov import SparsePrecision
    >>> graph = grf.load_graph(nx.cycle_graph(6))
    >>> kernel = grf.Matern(nu=2.0, lengthscale=2.0)
    >>> precision = SparsePrecision(graph, kernel)
    >>> bool(np.allclose(precision.matrix @ kernel.dense(graph), np.eye(6)))
    True
    """

    def __init__(self, graph: Graph, kernel: Kernel) -> None:
        require_sparse_precision(kernel)
        kernel.check_graph(graph)
        self.graph = graph
        self.kernel = kernel
        self._laplacian = graph.laplacian(kernel.laplacian == "normalized")
        self._eliminations = _orders.setdefault(graph, {})
        self._check_condition()

    def with_kernel(self, kernel: Kernel) -> SparsePrecision:
        """Precision of another kernel on the same graph, which shares what does not depend on the kernel."""
        if kernel == self.kernel:
            return self
        require_sparse_precision(kernel)
        other = object.__new__(SparsePrecision)
        other.graph, other.kernel, other._laplacian = self.graph, kernel, self._laplacian
        if kernel.laplacian != self.kernel.laplacian:
            other._laplacian = self.graph.laplacian(kernel.laplacian == "normalized")
        other._eliminations = self._eliminations
        other._check_condition()
        return other

    @property
    def n_nodes(self) -> int:
        """N."""
        return self.graph.n_nodes

    @property
    def power(self) -> int:
        """q."""
        return int(self._power[2])

    @cached_property
    def base(self) -> sp.csr_array:
        """B."""
        c, t, _ = self._power
        return sp.csr_array(c * sp.eye_array(self.graph.n_nodes, format="csr") + t * self._laplacian)

    @cached_property
    def matrix(self) -> sp.csr_array:
        """Q."""
        return self._raised(self.power)

    @property
    def lifted(self) -> sp.csr_array:
        """Q: there are no constraints."""
        return self.matrix

    @property
    def constraints(self) -> sp.csr_array:
        """C of no rows."""
        return sp.csr_array((0, self.n_nodes))

    def derivative(self, name: str) -> sp.csr_array:
        """The derivative of Q in the lengthscale, or in a share."""
        if name != "lengthscale" and name not in self.kernel.shares:
            raise checks.value_error(
                "optimize", f"must not name {name!r} with method='precision', whose power is an integer"
            )
        dc, dt = self._slopes(name)
        inner = self.power * self._raised(self.power - 1)
        if not dt:  # a multiple of the inner power, whose pattern is smaller
            return sp.csr_array(dc * inner)
        return sp.csr_array(dc * inner + dt * (inner @ self._laplacian))

    @property
    def own_elimination(self) -> Elimination:
        """The order of elimination of Q; FactorTooLargeError if there is no room for the factor."""
        found = self.elimination(self.power)
        found.require_room()
        return found

    def elimination(self, power: int) -> Elimination:
        """The order of elimination for matrices with the pattern of a power of B."""
        if power not in self._eliminations:
            # of absolute values, of which none cancel, so that no other matrix has entries beside these
            self._eliminations[power] = Elimination.of(_to_power(abs(self.base), power))
        return self._eliminations[power]

    def factor(self, weights: np.ndarray | float = 0.0) -> SparseCholesky:
        """The Cholesky factor of Q + diag(weights)."""
        matrix = self.matrix + sp.diags_array(np.broadcast_to(weights, self.graph.n_nodes), format="csr")
        return SparseCholesky(sp.csr_array(matrix), self.elimination(self.power))

    def log_determinant(self) -> float:
        """log |Q|."""
        return self.power * self._base_factor.log_determinant

    def trace_of_derivative(self, name: str) -> float:
        """trace(Q^-1 dQ), from the inverse's diagonal alone."""
        (c, t, q), (dc, dt) = self._power, self._slopes(name)
        inverse = float(self._base_factor.inverse_diagonal.sum())
        return q * (dc * inverse + dt / t * (self.graph.n_nodes - c * inverse))  # t L = B - c I

    @cached_property
    def _base_factor(self) -> SparseCholesky:
        return SparseCholesky(self.base, self.elimination(1))

    @property
    def root_size(self) -> int:
        """Columns of the matrix R with R R^T = Q that `root` has."""
        return self.graph.n_nodes + (self._incidence.shape[1] if self.power % 2 else 0)

    def root(self, z: np.ndarray) -> np.ndarray:
        r"""R z for z of shape (root_size, p), with R R^T = Q.

        R is B^{q/2} for even q; for odd q it is B^{(q-1)/2} (\sqrt{c} I, \sqrt{t} E) with the weighted incidence
        matrix E, L = E E^T.
        """
        n = self.graph.n_nodes
        if self.power % 2:
            c, t, _ = self._power
            z = math.sqrt(c) * z[:n] + math.sqrt(t) * (self._incidence @ z[n:])
        for _ in range(self.power // 2):
            z = self.base @ z
        return np.asarray(z)

    @cached_property
    def _incidence(self) -> sp.csr_array:
        """E with E E^T = L: a column for every edge that is no loop."""
        edges = incidence(self.graph)
        if self.kernel.laplacian != "normalized":
            return edges
        degrees = self.graph.degrees
        size = np.where(degrees > 0, 1 / np.sqrt(np.where(degrees > 0, degrees, 1.0)), 0.0)
        return sp.csr_array(sp.diags_array(size, format="csr") @ edges)

    def unconstrained(self, x: np.ndarray) -> np.ndarray:
        """x: there are no constraints."""
        return x

    def mean_variance(self) -> float:
        """trace(Q^-1) / N."""
        return float(self.factor().inverse_diagonal.mean())

    @property
    def _power(self) -> tuple[float, float, float]:
        power = self.kernel.inverse_power
        assert power is not None
        return power

    def _slopes(self, name: str) -> tuple[float, float]:
        """The derivatives of c and t in a hyperparameter, by those of log K = -q log(c + t L) at L = 0 and 1."""
        c, t, q = self._power
        slopes = self.kernel.log_spectral_derivatives(np.array([0.0, 1.0]))
        assert slopes is not None
        at_zero, at_one = slopes[:, list(self.kernel.hyperparameters).index(name)]
        dc = -at_zero * c / q
        dt = -at_one * (c + t) / q - dc
        return float(dc), float(dt) if abs(dt) > 1e-12 * (abs(dc) + t) else 0.0

    def _raised(self, power: int) -> sp.csr_array:
        """B to a power."""
        return _to_power(self.base, power)

    def serves(self, kernel: Kernel) -> bool:
        """True if the inverse of another kernel of the same kind is not numerically singular."""
        return self._spread_of(kernel) < _LOST

    def _check_condition(self) -> None:
        if not self._spread < _LOST:
            raise checks.value_error(
                "kernel",
                f"{self.kernel!r} has an inverse that is numerically singular on this graph (its eigenvalues span "
                f"a factor of {self._spread:.1g}): shorten the lengthscale, or bring the weights closer together",
            )

    def warn_of_rounding(self) -> None:
        """Warn where the eigenvalues of Q span twelve orders of magnitude or more."""
        if self._spread > _ROUNDED:
            warn(
                f"the eigenvalues of the inverse of {self.kernel!r} span a factor of {self._spread:.1g}, so that "
                f"{math.log10(self._spread):.0f} of 16 digits may be lost to rounding; shorten the lengthscale, "
                "or bring the weights closer together",
            )

    @property
    def _spread(self) -> float:
        return self._spread_of(self.kernel)

    def _spread_of(self, kernel: Kernel) -> float:
        """The largest over the smallest eigenvalue of the kernel's inverse, at most."""
        require_sparse_precision(kernel)
        assert kernel.inverse_power is not None
        c, t, q = kernel.inverse_power
        largest = kernel.spectrum_end(self.graph.laplacian_scale(kernel.laplacian))
        return float(((c + t * largest) / c) ** q) if c > 0 else math.inf
