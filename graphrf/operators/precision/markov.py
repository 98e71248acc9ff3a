"""Kernels whose inverse is a (half-)integer power of a sparse matrix, and their precisions."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable
from functools import partial

import numpy as np
import scipy.sparse as sp

from graphrf._base import checks
from graphrf._base.cached import cached_property
from graphrf._base.rows import within
from graphrf._base.warn import warn
from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import Kernel
from graphrf.kernels.lengthscales import LENGTHSCALES, lengthscale_unit
from graphrf.operators.precision.root_chain import INVERSE, RootChain, layers_needed
from graphrf.operators.sparse.cholesky import SparseCholesky
from graphrf.operators.sparse.ordering import Elimination, FactorTooLargeError, nested_dissection

# Larger powers fill the factor, and lose the smallest eigenvalues to rounding.
LARGEST_POWER, LARGEST_HALF_POWER = 4, 2.5
# The largest number of entries of a power of the Laplacian that is formed: 3 GB.
_MOST_ENTRIES = 2e8
# Ratios of the largest to the smallest eigenvalue of Q from which rounding shows (means and
# deviations are off by 2e-5 of the prior's deviation), and from which too little is left (4e-4).
_ROUNDED, _LOST = 1e12, 1e14
# Orders of elimination by power and layers, of both of a graph's Laplacians, which have one
# pattern: graphs are fitted repeatedly.
_orders: weakref.WeakKeyDictionary[Graph, dict[tuple[float, int], Elimination]] = (
    weakref.WeakKeyDictionary()
)


def has_sparse_precision(kernel: Kernel) -> bool:
    """True if K is areal, or a small (half-)integer power of (c I + t L)^-1."""
    power = kernel.inverse_power
    if power is None:
        return not kernel.is_series
    return has_sparse_inverse(kernel) or (
        (2 * power[2]).is_integer() and power[2] <= LARGEST_HALF_POWER
    )


def has_sparse_inverse(kernel: Kernel) -> bool:
    """True if the inverse is a polynomial of small degree in L, without layers."""
    power = kernel.inverse_power
    return power is not None and float(power[2]).is_integer() and power[2] <= LARGEST_POWER


def require_sparse_precision(
    kernel: Kernel, what: str = "method='precision'", other: str = "method='series'"
) -> None:
    """Raise ValueError unless the kernel has a sparse precision; `other` takes all kernels."""
    if not has_sparse_precision(kernel):
        raise checks.value_error(
            "kernel",
            f"must have a sparse precision for {what}: Matern with nu, or "
            f"RegularizedLaplacian with power, 1/2, 1, 3/2, 2, 5/2, 3 or {LARGEST_POWER}, or an "
            f"areal kernel, got {kernel!r}; use one of these, or {other}",
        )


def _to_power(matrix: sp.csr_array, power: int) -> sp.csr_array:
    """A matrix to a power; FactorTooLargeError if that has too many entries."""
    if power == 0:
        return sp.csr_array(sp.eye_array(matrix.shape[0], format="csr"))
    result, lengths = matrix, np.diff(matrix.indptr)
    for _ in range(power - 1):
        if float(np.diff(result.indptr).astype(np.float64) @ lengths) > _MOST_ENTRIES:
            raise FactorTooLargeError(
                f"power {power} of the Laplacian of this graph has too many entries: its largest "
                f"node has {int(lengths.max())} neighbours"
            )
        result = sp.csr_array(result @ matrix)
    return result


def _sum_of_layers(terms: Iterable[tuple[np.ndarray, sp.csr_array]]) -> sp.csr_array:
    """The sum of Kronecker products M (x) A, without those of which M is zero."""
    products = (
        sp.kron(sp.coo_array(own), matrix, format="csr") if own.size > 1 else own.item() * matrix
        for own, matrix in terms
        if own.any()
    )
    return sp.csr_array(sum(products, start=next(products)))


class SparsePrecision:
    r"""Q of K = B^-q with B = c I + t L, for one graph, Laplacian and power q = p + 1 or p + 1/2.

    For integers Q is B^q. For half-integers it is that of m layers of N variables, the first of
    which are the nodes: with T and b of the `RootChain` of 1 / sqrt(x) between the ends of B's
    spectrum,

    .. math:: Q_{jj} = B^{p_j} (T_{jj} I + B) / b, \quad Q_{j,j+1} = T_{j,j+1} B^{(p_j + p_{j+1}) /
        2} / b,

    :math:`p_1 = p`, and p_j of the hidden layers 0 or 1, as p is even or odd. The nodes have the
    covariance b e_1^T (T (x) I + I (x) B)^-1 e_1 B^-p: standard deviations differ by 2.5 % at most.
    As log |T (x) I + I (x) B| is the sum of log |B + s_i I| over the chain's poles s_i,

    .. math:: \log |Q| = \sum_i \log |B + s_i I| + \sum_j p_j \log |B| - N m \log b.

    ValueError if the kernel has no sparse precision, or one that is numerically singular. There are
    as many layers as the kernel's lengthscale needs. The order of elimination is that of the
    pattern of Q with its diagonal: one for as many layers, and for the posterior's precision. It is
    kept as long as the graph lives.

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
        self._smooth = False
        self._check_condition()

    def with_kernel(self, kernel: Kernel) -> SparsePrecision:
        """Precision of another kernel on the same graph, sharing what is not the kernel's."""
        if kernel == self.kernel:
            return self
        require_sparse_precision(kernel)
        return self._of(kernel, self._smooth)

    def smooth_in_lengthscale(self) -> SparsePrecision:
        """A copy which, like all that `with_kernel` makes of it, has as many layers as the longest
        lengthscale that training tries needs, so that likelihoods are smooth functions.
        """
        return self._of(self.kernel, True)

    def _of(self, kernel: Kernel, smooth: bool) -> SparsePrecision:
        other = object.__new__(SparsePrecision)
        other.graph, other.kernel, other._laplacian = self.graph, kernel, self._laplacian
        if kernel.laplacian != self.kernel.laplacian:
            other._laplacian = self.graph.laplacian(kernel.laplacian == "normalized")
        other._eliminations, other._smooth = self._eliminations, smooth
        other._check_condition()
        return other

    @property
    def n_nodes(self) -> int:
        """N m, the rows of Q."""
        return self.graph.n_nodes * len(self._powers)

    @property
    def power(self) -> float:
        """q."""
        return self._power[2]

    @cached_property
    def base(self) -> sp.csr_array:
        """B."""
        c, t, _ = self._power
        return sp.csr_array(
            c * sp.eye_array(self.graph.n_nodes, format="csr") + t * self._laplacian
        )

    @cached_property
    def _chain(self) -> RootChain:
        """The layers, of which an integer power has one."""
        if self.power.is_integer():
            return INVERSE
        return RootChain.of(*self._ends_of(self.kernel), self._n_layers)

    @property
    def _n_layers(self) -> int:
        """The fewest layers that are accurate, for a search at its longest lengthscale."""
        widest, length = self.kernel, self.kernel.hyperparameters.get("lengthscale", math.inf)
        longest = LENGTHSCALES[1] * lengthscale_unit(self.graph, widest.laplacian)
        if self._smooth and length < longest:
            widest = widest.replace(lengthscale=longest)
        low, high = self._ends_of(widest)
        return layers_needed(high / low)

    @cached_property
    def _powers(self) -> tuple[int, ...]:
        """p_j: the power of B that multiplies each layer."""
        inner = math.ceil(self.power) - 1
        return inner, *([inner % 2] * (self._chain.poles.size - 1))

    @cached_property
    def matrix(self) -> sp.csr_array:
        terms = self._coefficients(self._chain.tridiagonal, 1.0).items()
        return (
            _sum_of_layers((own, self._raised(power)) for power, own in terms) / self._chain.scale
        )

    def _coefficients(self, tridiagonal: np.ndarray, own: float) -> dict[int, np.ndarray]:
        """The matrices M_r of b Q = sum_r M_r (x) B^r; `own` multiplies B^(p_j + 1) in layer j."""
        powers = np.array(self._powers)
        between = np.add.outer(powers, powers) // 2
        every = range(powers[0] + 2)
        return {r: tridiagonal * (between == r) + own * np.diag(powers + 1 == r) for r in every}

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
        if name != "lengthscale" and name not in self.kernel.proportions:
            raise checks.value_error(
                "optimize", f"must not name {name!r} with method='precision', whose power is fixed"
            )
        _, slopes, log_scale = self._chain_slopes(name)
        terms = [
            (own, self._raised(power)) for power, own in self._coefficients(slopes, 0.0).items()
        ]
        for power, own in self._coefficients(self._chain.tridiagonal, 1.0).items():
            if power:
                terms.append((own, self._raised_slope(power, name)))
        found = _sum_of_layers(terms) / self._chain.scale
        return sp.csr_array(found - log_scale * self.matrix) if log_scale else found

    def _chain_slopes(self, name: str) -> tuple[np.ndarray, np.ndarray, float]:
        """Derivatives of the chain's poles, of T and of log b."""
        if self._chain is INVERSE:
            return np.zeros(1), np.zeros((1, 1)), 0.0
        dc, dt = self._slopes(name)
        return self._chain.slopes(
            *self._ends_of(self.kernel), dc, dc + dt * self._largest_of(self.kernel)
        )

    def _raised_slope(self, power: int, name: str) -> sp.csr_array:
        """The derivative of B to a positive power."""
        dc, dt = self._slopes(name)
        inner = power * self._raised(power - 1)
        if not dt:  # a multiple of the inner power, whose pattern is smaller
            return sp.csr_array(dc * inner)
        return sp.csr_array(dc * inner + dt * (inner @ self._laplacian))

    @property
    def own_elimination(self) -> Elimination:
        """The order of elimination of Q; FactorTooLargeError if there is no room for the factor."""
        key = self.power, len(self._powers)
        if key not in self._eliminations:
            self._eliminations[key] = self._dissected()
        self._eliminations[key].require_room()
        return self._eliminations[key]

    @property
    def seconds(self) -> float:
        """Seconds that a factorisation takes on a core, from the order of elimination alone.

        Separators are as many nodes wide in each layer as the power of B there.
        """
        widths = np.add(self._powers, 1)
        nodes = self.elimination(widths[0])
        return nodes.layered_seconds(widths.sum() / widths[0], widths.size)

    def elimination(self, power: float) -> Elimination:
        """The order of elimination for matrices with the pattern of an integer power of B."""
        if (power, 1) not in self._eliminations:
            # of absolute values, of which none cancel, so
            # that no other matrix has entries beside these
            self._eliminations[power, 1] = Elimination.of(_to_power(abs(self.base), int(power)))
        return self._eliminations[power, 1]

    def _dissected(self) -> Elimination:
        """The order of elimination of Q, by dissection of nodes and one hidden layer for all.

        It equals a dissection of all layers in quality at the cost of two; hidden variables of a
        node are consecutive.
        """
        n, size = self.graph.n_nodes, len(self._powers)
        if size == 1:
            return self.elimination(self._powers[0] + 1)
        absolute = abs(self.base)
        chain = np.eye(size) + np.eye(size, k=1) + np.eye(size, k=-1)
        terms = self._coefficients(chain, 1.0).items()
        pattern = _sum_of_layers((own, _to_power(absolute, power)) for power, own in terms)
        order = nested_dissection(sp.csr_array(pattern[: 2 * n, : 2 * n]))
        copies = np.where(order < n, 1, size - 1)
        return Elimination.of(pattern, order=np.repeat(order, copies) + n * within(copies))

    def factor(self, weights: np.ndarray | float = 0.0) -> SparseCholesky:
        matrix = self.matrix + sp.diags_array(np.broadcast_to(weights, self.n_nodes), format="csr")
        return SparseCholesky(sp.csr_array(matrix), self.own_elimination)

    def log_determinant(self) -> float:
        found = sum(self._shifted(pole).log_determinant for pole in self._chain.poles)
        if inner := sum(self._powers):
            found += inner * self._shifted(0.0).log_determinant
        return found - self.n_nodes * math.log(self._chain.scale)

    def trace_of_derivative(self, name: str) -> float:
        """trace(Q^-1 dQ), the derivative of log |Q|, from the diagonals of inverses alone."""
        d_poles, _, log_scale = self._chain_slopes(name)
        found = sum(map(partial(self._shifted_trace, name), self._chain.poles, d_poles))
        if inner := sum(self._powers):
            found += inner * self._shifted_trace(name, 0.0, 0.0)
        return found - self.n_nodes * log_scale

    def _shifted_trace(self, name: str, shift: float, d_shift: float) -> float:
        """The derivative of log |B + s I|."""
        (c, t, _), (dc, dt) = self._power, self._slopes(name)
        inverse = float(self._shifted(shift).inverse_diagonal.sum())
        # t L = (B + s I) - (c + s) I
        return (dc + d_shift) * inverse + dt / t * (self.graph.n_nodes - (c + shift) * inverse)

    def _shifted(self, shift: float) -> SparseCholesky:
        """The factor of B + s I."""
        if shift not in self._shifted_factors:
            matrix = self.base + shift * sp.eye_array(self.graph.n_nodes, format="csr")
            self._shifted_factors[shift] = SparseCholesky(sp.csr_array(matrix), self.elimination(1))
        return self._shifted_factors[shift]

    @cached_property
    def _shifted_factors(self) -> dict[float, SparseCholesky]:
        return {}

    def unconstrained(self, x: np.ndarray) -> np.ndarray:
        """x: there are no constraints."""
        return x

    def mean_variance(self) -> float:
        n = self.graph.n_nodes
        if self._powers[0]:
            return float(self.factor().inverse_diagonal[:n].mean())
        terms = zip(self._chain.weights, self._chain.poles, strict=True)
        return sum(
            weight * float(self._shifted(pole).inverse_diagonal.mean()) for weight, pole in terms
        )

    @property
    def _power(self) -> tuple[float, float, float]:
        power = self.kernel.inverse_power
        assert power is not None
        return power

    def _slopes(self, name: str) -> tuple[float, float]:
        """Derivatives of c and t in a hyperparameter, by those of log K at L = 0 and 1."""
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

    def _largest_of(self, kernel: Kernel) -> float:
        """The largest eigenvalue that the kernel's Laplacian may have."""
        return kernel.spectrum_end(self.graph.laplacian_scale(kernel.laplacian))

    def _ends_of(self, kernel: Kernel) -> tuple[float, float]:
        """The ends of the spectrum of a kernel's B, at most."""
        assert kernel.inverse_power is not None
        c, t, _ = kernel.inverse_power
        return c, c + t * self._largest_of(kernel)

    def serves(self, kernel: Kernel) -> bool:
        """True if the inverse of another kernel of the same kind is not numerically singular."""
        return self._spread_of(kernel) < _LOST

    def _check_condition(self) -> None:
        if not self._spread < _LOST:
            raise checks.value_error(
                "kernel",
                f"{self.kernel!r} has an inverse that is numerically singular on this graph (its "
                f"eigenvalues span a factor of {self._spread:.1g}): shorten the lengthscale, or "
                "bring the weights closer together",
            )

    def warn_of_rounding(self) -> None:
        """Warn where the eigenvalues of Q span twelve orders of magnitude or more."""
        if self._spread > _ROUNDED:
            warn(
                f"the eigenvalues of the inverse of {self.kernel!r} span a factor of "
                f"{self._spread:.1g}, so that {math.log10(self._spread):.0f} of 16 digits may be "
                "lost to rounding; shorten the lengthscale, or bring the weights closer together"
            )

    @property
    def _spread(self) -> float:
        return self._spread_of(self.kernel)

    def _spread_of(self, kernel: Kernel) -> float:
        """The largest over the smallest eigenvalue of the kernel's inverse, at most."""
        require_sparse_precision(kernel)
        assert kernel.inverse_power is not None
        low, high = self._ends_of(kernel)
        return float((high / low) ** math.ceil(kernel.inverse_power[2])) if low > 0 else math.inf
