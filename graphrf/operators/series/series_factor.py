"""The exact factor of a kernel: F = sum_k f_k W^k by Chebyshev series, without a matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from graphrf._base import checks
from graphrf._base.threads import thread_count
from graphrf.graph.graph import LAPLACIANS, Graph, given_nodes
from graphrf.kernels.chebyshev import polynomial_coefficients
from graphrf.operators.factor import Factor, FactorBase
from graphrf.operators.series.chebyshev_sums import ChebyshevSum, RecurrenceSteps
from graphrf.operators.series.costs import SERIES_COSTS, SeriesCosts
from graphrf.operators.series.walk_operator import doubled_matrix


class SeriesFactor(FactorBase):
    """Rows of F = sum_k f_k W^k, exact: the `Factor` whose P_k are powers of the walk matrix.

    Parameters
    ----------
    graph : Graph, undirected, N nodes
    laplacian : "normalized" or "combinatorial"
        Which walk matrix.
    max_length : int
        The largest power, at which modulations are cut; see `kernel.truncation_length`.
    nodes : nodes, by position or string name; default all
        The rows of the factor, in this order; repeats allowed.
    n_threads : int, optional
        Default: the cores that the process may use. The bits do not depend on it.

    Notes
    -----
    `apply` and `apply_t` evaluate the polynomial in the Chebyshev basis, which never takes more
    products than its powers: coefficients below rounding are dropped, and the degree that remains
    is of the order of the square root of the powers needed (normalized Laplacian, powers to a tail
    of 1e-10: `Diffusion` of lengthscale 10, 43 products for 63 powers, and 374 for 2,825 at 100;
    `RegularizedLaplacian` of lengthscale 10, 224 for 2,314).

    Time of a product: that many sparse products; the graph is walked whole, however few the rows.
    Memory as `apply_kernel`.
    """

    def __init__(
        self,
        graph: Graph,
        laplacian: str = "normalized",
        *,
        max_length: int,
        nodes: Any = None,
        n_threads: int | None = None,
        costs: SeriesCosts = SERIES_COSTS,
    ) -> None:
        self._laplacian = checks.choice("laplacian", laplacian, LAPLACIANS)
        self._max_length = checks.integer("max_length", max_length, low=0)
        self._threads = thread_count(n_threads)
        self._costs = costs
        self._doubled, self._width = doubled_matrix(graph, laplacian)
        self._nodes = given_nodes(graph, nodes)
        self._all = self._nodes.size == graph.n_nodes and bool((np.diff(self._nodes) == 1).all())
        self._last: tuple[bytes, ChebyshevSum] | None = None
        self._known: tuple[bytes, ChebyshevSum] | None = None

    @property
    def laplacian(self) -> str:
        """The Laplacian that the walk matrix belongs to."""
        return self._laplacian

    @property
    def nodes(self) -> np.ndarray:
        """Positions of the rows in the graph, shape (n,)."""
        return self._nodes

    @property
    def shape(self) -> tuple[int, int]:
        """(n, N)."""
        return self._nodes.size, int(self._doubled.shape[0])

    @property
    def dtype(self) -> np.dtype[Any]:
        """float64."""
        return np.dtype(np.float64)

    @property
    def doubled(self) -> sp.csr_array:
        """2 M, with the walk matrix moved to [-1, 1]: what Chebyshev polynomials are made with."""
        return self._doubled

    @property
    def width(self) -> float:
        """Width of the interval up to 1 with the walk matrix's eigenvalues, scaled to [-1, 1]."""
        return self._width

    @property
    def max_length(self) -> int:
        """The largest power of W."""
        return self._max_length

    def know(self, f: np.ndarray, coefficients: np.ndarray) -> None:
        """Take F of f from these Chebyshev coefficients, not from the sum of its series.

        That is better where the series is cut, or its terms cancel. Rows that are taken after this
        know them too.
        """
        self._known = (
            self._modulation(f).tobytes(),
            ChebyshevSum(self._doubled, coefficients, self._threads, self._costs),
        )

    def rough(self, f: np.ndarray, tol: float) -> ChebyshevSum:
        """F among all nodes of the graph, with an error of `tol` at most in operator norm."""
        return self._expansion(f).rough(tol)

    def n_products(self, f: np.ndarray) -> int:
        """Sparse products that one application of F takes for this modulation."""
        return self._expansion(f).degree

    def apply(self, f: np.ndarray, x: np.ndarray) -> np.ndarray:
        """F x for x of shape (N,) or (N, p); shape (n,) or (n, p)."""
        return self._rows(self._expansion(f)(self._operand("x", x, self.shape[1])))

    def apply_t(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        """F^T y for y of shape (n,) or (n, p); shape (N,) or (N, p)."""
        return self._expansion(f)(self._spread(self._operand("y", y, self.shape[0])))

    def grad_f(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """<y, P_k x> for k = 0 .. max_length: one pass of products, two blocks in memory."""
        x = self._operand("x", x, self.shape[1])
        y = self._operand("y", y, self.shape[0])
        if x.shape[1:] != y.shape[1:]:
            raise checks.value_error(
                "x", f"and `y` must have as many columns, got {x.shape} and {y.shape}"
            )
        half = 0.5 * self._width
        middle = 1.0 - half
        power = x.reshape(self.shape[1], x[:1].size).copy()
        after = np.zeros_like(power)
        y = y.reshape(self.shape[0], power.shape[1])
        gradient = np.empty(self._max_length + 1)
        with RecurrenceSteps(self._doubled, power.shape[1], self._threads, self._costs) as steps:
            for k in range(self._max_length + 1):
                if k:  # W = M half-length + middle
                    steps.step(0.5 * half, power, 0.0, after, middle, power)
                    power, after = after, power
                gradient[k] = np.vdot(self._rows(power), y)
        return gradient

    def diagonal(self, f: np.ndarray) -> np.ndarray:
        """The exact diagonal of F F^T, (n,); a vector for every node, as in `kernel_block`."""
        distinct, position = np.unique(self._nodes, return_inverse=True)
        expansion, place = self._expansion(f).renumbered(distinct.size)
        order = np.argsort(place[distinct], kind="stable")
        squares = np.empty(distinct.size)
        for part, values in expansion.of_units(
            place[distinct[order]], lambda panel: np.einsum("ij,ij->j", panel, panel)
        ):
            squares[order[part]] = values
        return squares[position]

    def columns(self, f: np.ndarray, other: Factor) -> tuple[np.ndarray, np.ndarray]:
        """F G^T for rows G of a factor of distinct nodes, (n, q), and the diagonal of G G^T.

        One vector for every node, with the Chebyshev series of F F^T itself: of a Gaussian kernel
        it takes 1.4 times the products of F, where F^T and then F would take twice them.
        """
        if not isinstance(other, SeriesFactor):
            return super().columns(f, other)
        nodes = other.nodes
        expansion = self.square(f)
        wanted = np.concatenate([self._nodes, nodes])
        block = np.empty((self._nodes.size, nodes.size))
        diagonal = np.empty(nodes.size)
        for columns, values in expansion.entries(wanted, nodes):
            block[:, columns] = values[: self._nodes.size]
            diagonal[columns] = values[self._nodes.size + columns, np.arange(columns.size)]
        return block, diagonal

    def square(self, f: np.ndarray) -> ChebyshevSum:
        """F F^T among all nodes of the graph."""
        c = self._expansion(f).coefficients
        square = np.polynomial.chebyshev.chebmul(c, c)
        kept = np.flatnonzero(np.abs(square) > np.finfo(np.float64).eps * np.abs(square).max())
        shorter = square[: int(kept[-1]) + 1 if kept.size else 1]
        return ChebyshevSum(self._doubled, shorter, self._threads, self._costs)

    def gram_columns(self, f: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """The columns of F F^T, dense, that belong to distinct positions among the rows."""
        return self.columns(f, self.take(chosen))[0]

    def take(self, rows: np.ndarray) -> SeriesFactor:
        """The factor of some of the rows, given by their position among this factor's rows."""
        other = object.__new__(SeriesFactor)
        other.__dict__.update(self.__dict__)
        other._nodes = self._nodes[np.asarray(rows)]
        other._all = other._nodes.size == self.shape[1] and bool((np.diff(other._nodes) == 1).all())
        return other

    def __repr__(self) -> str:
        rows, columns = self.shape
        settings = f"laplacian={self._laplacian!r}, max_length={self._max_length}"
        return f"SeriesFactor({rows} x {columns}, {settings})"

    def _modulation(self, f: np.ndarray) -> np.ndarray:
        f = checks.array("f", f, np.float64)
        if f.ndim != 1 or f.size == 0:
            raise checks.value_error(
                "f", f"must be a vector of coefficients, got {checks.describe(f)}"
            )
        return f[: self._max_length + 1]

    def _operand(self, name: str, array: np.ndarray, n: int) -> np.ndarray:
        return checks.columns(name, checks.array(name, array, np.float64), n)

    def _rows(self, whole: np.ndarray) -> np.ndarray:
        return whole if self._all else whole[self._nodes]

    def _spread(self, y: np.ndarray) -> np.ndarray:
        """P_0^T y: the rows' values added up at their nodes."""
        if self._all:
            return y
        whole = np.zeros((self.shape[1], *y.shape[1:]))
        np.add.at(whole, self._nodes, y)
        return whole

    def _expansion(self, f: np.ndarray) -> ChebyshevSum:
        """The polynomial in the Chebyshev basis."""
        f = self._modulation(f)
        key = f.tobytes()
        if self._known is not None and self._known[0] == key:
            return self._known[1]
        last = self._last  # read once and replaced whole: another thread may be doing the same
        if last is None or last[0] != key:  # solvers apply one modulation many times
            coefficients = polynomial_coefficients(f, self._width)
            last = self._last = (
                key,
                ChebyshevSum(self._doubled, coefficients, self._threads, self._costs),
            )
        return last[1]
