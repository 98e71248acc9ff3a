r"""Exact products with kernels: K v and F v by Chebyshev series in the walk matrix, without walks.

A kernel is a function of the walk matrix, K = g(W). On the interval that holds W's eigenvalues ([-1, 1] for
the normalized Laplacian, [0, 1] for the combinatorial one) g is expanded in Chebyshev polynomials, and

.. math:: K v \approx \sum_{k \le d} c_k T_k(M) v, \quad M = (W - m I) / h,

takes d sparse products, where m and h are the interval's middle and half-length. The error in operator norm is
at most sum_{k>d} |c_k|: d is chosen so that this is below the tolerance. Nothing of size N x N is formed, so
these products are the truth on graphs that are too large for dense matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.fft
import scipy.sparse as sp

from graphrf import _checks
from graphrf.graph import LAPLACIANS, Graph
from graphrf.kernels import Kernel

# Columns multiplied at once: past 16 the time per column of a CSR product no longer falls, and past 64 the
# block leaves the cache on graphs of middling size.
_BLOCK = 32
_MAX_DEGREE = 20_000
_ROUNDING = 2.3e-16
_LARGEST_EXACT_TRACE = 1_000

Function = Callable[[np.ndarray], np.ndarray]


def apply_kernel(
    graph: Graph, kernel: Kernel, v: Any, *, tol: float = 1e-10, max_degree: int = _MAX_DEGREE
) -> np.ndarray:
    r"""K v for a node kernel K, without forming it.

    Parameters
    ----------
    graph : Graph, undirected, N nodes
    kernel : Kernel
    v : array_like, shape (N,) or (N, p)
    tol : float
        Error in operator norm, relative to the largest |g| on the interval of eigenvalues (for kernels that
        decrease in the Laplacian this is the operator norm of K).
    max_degree : int
        The most sparse products to spend on a vector.

    Returns
    -------
    ndarray, shape of v; float32 if v is float32 (computed in float64 all the same), else float64

    Raises
    ------
    ValueError
        If the kernel does not fit the graph, or `tol` needs more than `max_degree` products.

    Notes
    -----
    Time: d sparse products for every column, with d about 5 l for `Diffusion` and 12 l for
    `RegularizedLaplacian` on the normalized Laplacian at the default tolerance. Memory: four blocks of N x 32.

    Examples
    --------
    >>> import numpy as np, graphrf as grf
    >>> graph = grf.Graph(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]))
    >>> kernel = grf.Diffusion(lengthscale=2.0)
    >>> v = np.array([1.0, 0.0, -1.0])
    >>> np.allclose(grf.apply_kernel(graph, kernel, v), kernel.dense(graph) @ v)
    True
    """
    return _apply(graph, kernel, v, tol, max_degree, root=False)


def apply_root(
    graph: Graph, kernel: Kernel, v: Any, *, tol: float = 1e-10, max_degree: int = _MAX_DEGREE
) -> np.ndarray:
    r"""F v for the symmetric root F of a node kernel, K = F F^T; arguments and cost as `apply_kernel`.

    With v standard normal, F v is a draw from the Gaussian process with covariance K.

    Roots that are singular at the end of the spectrum (`InverseCosine`, `PStepRandomWalk` with few odd steps
    at alpha = 2) converge like 1 / d or so: at the default tolerance they are refused, with the tolerance that
    `max_degree` reaches.
    """
    return _apply(graph, kernel, v, tol, max_degree, root=True)


def kernel_block(
    graph: Graph,
    kernel: Kernel,
    rows: Any = None,
    cols: Any = None,
    *,
    tol: float = 1e-10,
    max_degree: int = _MAX_DEGREE,
) -> np.ndarray:
    """The exact block K[rows, cols], dense, by products with unit vectors.

    Parameters
    ----------
    graph, kernel, tol, max_degree
        As for `apply_kernel`; the tolerance bounds the error of every entry.
    rows, cols : nodes, by position or string name; default all
        Repeats are allowed.

    Returns
    -------
    ndarray, shape (len(rows), len(cols)), float64

    Notes
    -----
    Time: as `apply_kernel` on min(distinct rows, distinct cols) vectors.
    """
    row_nodes = graph.positions(rows, argument="rows")
    col_nodes = graph.positions(cols, argument="cols")
    expansion = _expansion(graph, kernel, tol, max_degree, root=False)
    if np.unique(row_nodes).size < np.unique(col_nodes).size:
        return _columns(expansion, row_nodes, col_nodes).T
    return _columns(expansion, col_nodes, row_nodes)


class MeanVariance(NamedTuple):
    """trace(K) / N and its standard error, which is 0 where the trace was computed exactly."""

    value: float
    stderr: float


def mean_variance(
    graph: Graph, kernel: Kernel, *, n_probes: int = 64, seed: int | None = None, tol: float = 1e-6
) -> MeanVariance:
    r"""The mean prior variance of a kernel over the nodes, trace(K) / N.

    Up to 1,000 nodes from the eigenvalues of the dense Laplacian; above by Hutchinson's estimator,

    .. math:: \mathrm{trace}(K) \approx \frac{1}{m} \sum_j z_j^\top K z_j, \quad z_j \in \{-1, 1\}^N,

    with the Chebyshev series of K, two of whose moments come from each sparse product:
    z^T T_{2k} z = 2 |T_k z|^2 - |z|^2. The error falls as 1 / sqrt(n_probes N).

    Parameters
    ----------
    graph, kernel
        As for `apply_kernel`.
    n_probes : int
        m, at least 2. Used above 1,000 nodes only, as are the rest.
    seed : int, optional
        Of the probes; the same seed gives the same bits. None draws one.
    tol : float
        Tolerance of the Chebyshev series, as in `apply_kernel`.

    Returns
    -------
    MeanVariance
        `value` and `stderr`.
    """
    n_probes = _checks.integer("n_probes", n_probes, low=2)
    scale = kernel.check_graph(graph)
    if graph.n_nodes <= _LARGEST_EXACT_TRACE:
        eigenvalues = np.linalg.eigvalsh(graph.laplacian(kernel.laplacian == "normalized").toarray())
        eigenvalues = np.clip(eigenvalues, 0.0, 2 * scale)
        return MeanVariance(float(kernel.spectrum(eigenvalues, scale).mean()), 0.0)
    expansion = _expansion(graph, kernel, tol, _MAX_DEGREE, root=False)
    rng = np.random.default_rng(seed)
    samples: list[np.ndarray] = []
    for start in range(0, n_probes, _BLOCK):
        width = min(_BLOCK, n_probes - start)
        probes = rng.integers(0, 2, size=(graph.n_nodes, width)) * 2.0 - 1.0
        samples.append(expansion.quadratic_forms(probes) / graph.n_nodes)
    values = np.concatenate(samples)
    return MeanVariance(float(values.mean()), float(values.std(ddof=1) / np.sqrt(n_probes)))


class SeriesFactor:
    r"""Rows of F = sum_k f_k W^k, exact: the `Factor` whose P_k are powers of the walk matrix.

    Parameters
    ----------
    graph : Graph, undirected, N nodes
    laplacian : "normalized" or "combinatorial"
        Which walk matrix.
    max_length : int
        The largest power; modulations are cut there. `kernel.truncation_length` says what a kernel needs.
    nodes : nodes, by position or string name; default all
        The rows of the factor, in this order; repeats allowed.

    Notes
    -----
    `apply` and `apply_t` evaluate the polynomial in the Chebyshev basis where that takes fewer products than
    its powers: coefficients below rounding are dropped, and the degree that remains is of the order of the
    square root of the powers needed (diffusion, normalized Laplacian: 37 products for 71 powers at
    lengthscale 10, 92 for 2,700 at lengthscale 100). The result is the same polynomial, to rounding.

    Time of a product: that many sparse products; the graph is walked whole, however few the rows. Memory:
    four blocks of N x 32.
    """

    def __init__(self, graph: Graph, laplacian: str = "normalized", *, max_length: int, nodes: Any = None) -> None:
        self._laplacian = _checks.choice("laplacian", laplacian, LAPLACIANS)
        self._max_length = _checks.integer("max_length", max_length, low=0)
        self._walk = graph.walk_matrix(laplacian)
        self._interval = _INTERVALS[laplacian]
        self._doubled = _doubled(self._walk, *self._interval)
        self._nodes = graph.positions(nodes)
        self._all = self._nodes.size == graph.n_nodes and bool((np.diff(self._nodes) == 1).all())
        self._last: tuple[bytes, np.ndarray | None] | None = None

    @property
    def laplacian(self) -> str:
        """Which Laplacian the walk matrix belongs to."""
        return self._laplacian

    @property
    def nodes(self) -> np.ndarray:
        """Positions of the rows in the graph, shape (n,)."""
        return self._nodes

    @property
    def shape(self) -> tuple[int, int]:
        """(n, N)."""
        return self._nodes.size, int(self._walk.shape[0])

    @property
    def dtype(self) -> np.dtype[Any]:
        """float64."""
        return np.dtype(np.float64)

    @property
    def device(self) -> str:
        """ "cpu"."""
        return "cpu"

    @property
    def max_length(self) -> int:
        """The largest power of W."""
        return self._max_length

    def n_products(self, f: np.ndarray) -> int:
        """Sparse products that one application of F takes for this modulation."""
        f = self._modulation(f)
        coefficients = self._chebyshev(f)
        return (f.size if coefficients is None else coefficients.size) - 1

    def apply(self, f: np.ndarray, x: np.ndarray) -> np.ndarray:
        """F x for x of shape (N,) or (N, p); shape (n,) or (n, p)."""
        return self._rows(self._whole(self._modulation(f), self._operand("x", x, self.shape[1])))

    def apply_t(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        """F^T y for y of shape (n,) or (n, p); shape (N,) or (N, p)."""
        return self._whole(self._modulation(f), self._spread(self._operand("y", y, self.shape[0])))

    def grad_f(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """<y, P_k x> for k = 0 .. max_length: one pass of max_length products, two blocks in memory."""
        power = self._operand("x", x, self.shape[1])
        y = self._operand("y", y, self.shape[0])
        if power.shape[1:] != y.shape[1:]:
            raise ValueError(f"`x` and `y` must have as many columns, got {power.shape} and {y.shape}")
        gradient = np.empty(self._max_length + 1)
        for k in range(self._max_length + 1):
            if k:
                power = self._walk @ power
            gradient[k] = np.vdot(self._rows(power), y)
        return gradient

    def diagonal(self, f: np.ndarray) -> np.ndarray:
        """The diagonal of F F^T, exact, shape (n,); as costly as `apply` on one vector for every node."""
        f = self._modulation(f)
        distinct, position = np.unique(self._nodes, return_inverse=True)
        squares = np.empty(distinct.size)
        for block, units in _unit_blocks(distinct, self.shape[1]):
            squares[block] = np.square(self._whole(f, units)).sum(axis=0)
        return squares[position]

    def take(self, rows: np.ndarray) -> SeriesFactor:
        """The factor of some of the rows, given by their position among this factor's rows."""
        other = object.__new__(SeriesFactor)
        other.__dict__.update(self.__dict__)
        other._nodes = self._nodes[np.asarray(rows)]
        other._all = other._nodes.size == self.shape[1] and bool((np.diff(other._nodes) == 1).all())
        return other

    def __repr__(self) -> str:
        rows, columns = self.shape
        return f"SeriesFactor({rows} x {columns}, laplacian={self._laplacian!r}, max_length={self._max_length})"

    def _modulation(self, f: np.ndarray) -> np.ndarray:
        f = np.asarray(f, dtype=np.float64)
        if f.ndim != 1 or f.size == 0:
            raise ValueError(f"`f` must be a vector of coefficients, got {_checks.describe(f)}")
        return f[: self._max_length + 1]

    def _operand(self, name: str, array: np.ndarray, n: int) -> np.ndarray:
        array = np.asarray(array, dtype=np.float64)
        if array.ndim not in (1, 2) or array.shape[0] != n:
            raise ValueError(f"`{name}` must have shape ({n},) or ({n}, p), got {array.shape}")
        return array

    def _rows(self, whole: np.ndarray) -> np.ndarray:
        return whole if self._all else whole[self._nodes]

    def _spread(self, y: np.ndarray) -> np.ndarray:
        """P_0^T y: the rows' values added up at their nodes."""
        if self._all:
            return y
        whole = np.zeros((self.shape[1], *y.shape[1:]))
        np.add.at(whole, self._nodes, y)
        return whole

    def _chebyshev(self, f: np.ndarray) -> np.ndarray | None:
        """Chebyshev coefficients of the polynomial, or None where powers take no more products."""
        key = f.tobytes()
        if self._last is None or self._last[0] != key:  # solvers apply one modulation many times
            polynomial = _polynomial(f)
            coefficients, _ = _chebyshev(polynomial, *self._interval, tol=0.0, max_degree=f.size - 1)
            shorter = coefficients is not None and coefficients.size < f.size
            self._last = (key, coefficients if shorter else None)
        return self._last[1]

    def _whole(self, f: np.ndarray, x: np.ndarray) -> np.ndarray:
        """F x on all nodes."""
        coefficients = self._chebyshev(f)
        if coefficients is not None:
            return _Expansion(self._doubled, coefficients)(x)
        result = f[-1] * x
        for value in f[-2::-1]:
            result = self._walk @ result
            result += value * x
        return np.asarray(result)


_INTERVALS = {"normalized": (-1.0, 1.0), "combinatorial": (0.0, 1.0)}


class _Expansion(NamedTuple):
    """sum_k c_k T_k(M), with `doubled` = 2 M."""

    doubled: sp.csr_array
    coefficients: np.ndarray

    def __call__(self, v: np.ndarray) -> np.ndarray:
        if v.ndim == 2 and v.shape[1] > _BLOCK:
            result = np.empty(v.shape)
            for start in range(0, v.shape[1], _BLOCK):
                stop = start + _BLOCK
                result[:, start:stop] = self(np.ascontiguousarray(v[:, start:stop]))
            return result
        c = self.coefficients
        result = c[0] * v
        for k, term in self.terms(v):
            if c[k] != 0:  # every second one of an even or odd function
                result += c[k] * term
        return result

    def terms(self, v: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """T_k(M) v for k = 1 .. degree; each is valid until the next but one is drawn."""
        before, now = v, v
        for k in range(1, self.coefficients.size):
            after = self.doubled @ now
            if k == 1:
                after *= 0.5
            else:
                after -= before
            before, now = now, after
            yield k, now

    def quadratic_forms(self, z: np.ndarray) -> np.ndarray:
        """z_j^T g(M) z_j for each column, with half as many products as the degree."""
        c = self.coefficients
        half = _Expansion(self.doubled, c[: (c.size + 1) // 2 + 1])
        norm = np.square(z).sum(axis=0)
        forms, before = c[0] * norm, z
        first = np.zeros_like(norm)  # z^T T_1 z
        for k, term in half.terms(z):
            if k == 1:
                first = (z * term).sum(axis=0)
                if c.size > 1:
                    forms = forms + c[1] * first
            elif 2 * k - 1 < c.size:  # T_{2k-1} = 2 T_k T_{k-1} - T_1
                forms = forms + c[2 * k - 1] * (2 * (term * before).sum(axis=0) - first)
            if 2 * k < c.size:  # T_{2k} = 2 T_k^2 - 1
                forms = forms + c[2 * k] * (2 * np.square(term).sum(axis=0) - norm)
            before = term
        return forms


def _apply(graph: Graph, kernel: Kernel, v: Any, tol: float, max_degree: int, root: bool) -> np.ndarray:
    array = np.asarray(v)
    if array.dtype.kind not in "biuf" or array.ndim not in (1, 2) or array.shape[0] != graph.n_nodes:
        n = graph.n_nodes
        raise ValueError(f"`v` must be numbers of shape ({n},) or ({n}, p), got {_checks.describe(array)}")
    _checks.finite("v", array)
    expansion = _expansion(graph, kernel, tol, max_degree, root)
    result = expansion(array.astype(np.float64))
    return result.astype(np.float32) if array.dtype == np.float32 else result


def _expansion(graph: Graph, kernel: Kernel, tol: float, max_degree: int, root: bool) -> _Expansion:
    """The Chebyshev series of K, or of F, on a graph."""
    tol = _checks.number("tol", tol, low=1e-14, high=1, include_high=False)
    max_degree = _checks.integer("max_degree", max_degree, low=1)
    scale = kernel.check_graph(graph)
    low, high = _INTERVALS[kernel.laplacian]
    function = kernel.root_spectrum if root else kernel.spectrum
    coefficients, reached = _chebyshev(
        lambda x: function(scale * (1 - x), scale), low, high, tol=tol, max_degree=max_degree
    )
    if coefficients is None:
        what = "the root of " if root else ""
        raise ValueError(
            f"`tol` = {tol:g} needs more than max_degree = {max_degree} products for {what}{kernel!r}, which "
            f"reach {reached:.1g}: raise `tol` or `max_degree`"
            + (" (apply_kernel may need far fewer)" if root else "")
        )
    return _Expansion(_doubled(graph.walk_matrix(kernel.laplacian), low, high), coefficients)


def _doubled(walk: sp.csr_array, low: float, high: float) -> sp.csr_array:
    """2 M = 2 (W - middle) / half-length."""
    if (low, high) == (-1.0, 1.0):
        return sp.csr_array(walk * 2.0)
    middle, half = 0.5 * (low + high), 0.5 * (high - low)
    return sp.csr_array((walk - middle * sp.eye_array(walk.shape[0], format="csr")) * (2.0 / half))


def _chebyshev(
    function: Function, low: float, high: float, *, tol: float, max_degree: int
) -> tuple[np.ndarray | None, float]:
    """Chebyshev coefficients of a function on [low, high] whose dropped tail is below tol max |function|.

    With tol = 0 only what is below rounding is dropped. The second result is the tail beyond `max_degree`,
    relative to max |function|; where that is too large the first is None.
    """
    middle, half = 0.5 * (low + high), 0.5 * (high - low)
    n = 64
    while True:
        values = function(middle + half * np.cos(np.pi * np.arange(n + 1) / n))
        largest = float(np.abs(values).max())
        c = scipy.fft.dct(values, type=1) / n
        c[[0, -1]] *= 0.5
        if largest == 0:
            return np.zeros(1), 0.0
        c[np.abs(c) <= _ROUNDING * largest] = 0.0
        dropped = np.append(np.cumsum(np.abs(c[::-1]))[::-1], 0.0)  # dropped[d] = sum_{k >= d} |c_k|
        size = max(int(np.argmax(dropped <= tol * largest)), 1)
        # only the lower half is trusted: the function's higher terms are folded back onto the upper one
        if size - 1 <= min(n // 2, max_degree):
            return c[:size].copy(), float(dropped[size]) / largest
        if n // 2 >= max_degree:
            return None, float(dropped[min(max_degree + 1, n)]) / largest
        n *= 2


def _polynomial(f: np.ndarray) -> Function:
    return lambda x: np.asarray(np.polynomial.polynomial.polyval(x, f))


def _unit_blocks(nodes: np.ndarray, n_nodes: int) -> Iterator[tuple[slice, np.ndarray]]:
    """Unit vectors of the nodes as the columns of dense blocks."""
    for start in range(0, nodes.size, _BLOCK):
        members = nodes[start : start + _BLOCK]
        units = np.zeros((n_nodes, members.size))
        units[members, np.arange(members.size)] = 1.0
        yield slice(start, start + members.size), units


def _columns(expansion: _Expansion, cols: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Entries [rows, cols] of the expansion, one product for each distinct column."""
    distinct, position = np.unique(cols, return_inverse=True)
    block = np.empty((rows.size, distinct.size))
    for columns, units in _unit_blocks(distinct, int(expansion.doubled.shape[0])):
        block[:, columns] = expansion(units)[rows]
    return (
        block
        if (position == np.arange(cols.size)).all() and position.size == distinct.size
        else block[:, position]
    )
