r"""Exact products with kernels: K v and F v by Chebyshev series in the walk matrix, without walks.

A kernel is a function of the walk matrix, K = g(W). On the interval that holds W's eigenvalues ([-1, 1] for
the normalized Laplacian, [0, 1] for the combinatorial one) g is expanded in Chebyshev polynomials, and

.. math:: K v \approx \sum_{k \le d} c_k T_k(M) v, \quad M = (W - m I) / h,

takes d sparse products, where m and h are the interval's middle and half-length. The error in operator norm is
at most sum_{k>d} |c_k|: d is chosen so that this is below the tolerance. Nothing of size N x N is formed, so
these products are the truth on graphs that are too large for dense matrices.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from graphrf import _checks
from graphrf._chebyshev import ROUNDING, chebyshev_coefficients, polynomial
from graphrf._expansion import chebyshev_step as chebyshev_step
from graphrf._kernel import require_kernel
from graphrf.graph import LAPLACIANS, Graph
from graphrf.kernels import Kernel

# Numbers in a block of vectors multiplied at once. Four blocks should stay in the cache: measured per column on
# random graphs of mean degree 8, 32 columns are best at 10,000 nodes (1.7 times faster than one), 16 at 50,000,
# 4 at 200,000, and one at a time at 1,000,000, where blocks are up to twice slower.
_BLOCK_SIZE = 1_000_000
_WIDEST_BLOCK = 32
_MAX_DEGREE = 20_000
_LARGEST_EXACT_TRACE = 1_000


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
    Time: d sparse products for every column, with d about 5 l for `Diffusion` and 18 l for
    `RegularizedLaplacian` (power 2) on the normalized Laplacian at the default tolerance, l > 2. Memory: the
    result, and four blocks of N x p numbers (p at most 32, or of at most a million numbers).

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

    Examples
    --------
    >>> import numpy as np, graphrf as grf
    >>> pair = grf.from_edges([0], [1])
    >>> draw = grf.apply_root(pair, grf.Diffusion(lengthscale=1.0), np.random.default_rng(0).standard_normal(2))
    >>> draw.shape
    (2,)
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
    require_kernel(kernel).check_graph(graph)
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
    scale = require_kernel(kernel).check_graph(graph)
    if graph.n_nodes <= _LARGEST_EXACT_TRACE:
        eigenvalues = np.linalg.eigvalsh(graph.laplacian(kernel.laplacian == "normalized").toarray())
        eigenvalues = np.clip(eigenvalues, 0.0, 2 * scale)
        return MeanVariance(float(kernel.spectrum(eigenvalues, scale).mean()), 0.0)
    expansion = _expansion(graph, kernel, tol, _MAX_DEGREE, root=False)
    rng = np.random.default_rng(seed)
    samples: list[np.ndarray] = []
    block = _block_width(graph.n_nodes)
    for start in range(0, n_probes, block):
        # drawn probe by probe, so that the seed's meaning does not depend on the block
        probes = rng.integers(0, 2, size=(min(block, n_probes - start), graph.n_nodes)).T * 2.0 - 1.0
        probes = np.ascontiguousarray(probes)
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
    square root of the powers needed (normalized Laplacian, powers to a tail of 1e-10: `Diffusion`
    of lengthscale 10, 43 products for 63 powers, and 374 for 2,825 at 100; `RegularizedLaplacian` of lengthscale
    10, 224 for 2,314). The result is the same polynomial, to rounding.

    Time of a product: that many sparse products; the graph is walked whole, however few the rows. Memory
    as `apply_kernel`.
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
        last = self._last  # read once and replaced whole: another thread may be doing the same
        if last is None or last[0] != key:  # solvers apply one modulation many times
            # Rounding in W moves F by eps sum_k k |f_k|; the floor keeps what is dropped, all terms together,
            # below that (the terms decay like exp(-degree / sqrt(slope)) where the slope is large).
            total = float(np.abs(f).sum())
            slope = float(np.arange(f.size) @ np.abs(f)) / total if total > 0 else 0.0
            coefficients, _ = chebyshev_coefficients(
                polynomial(f),
                self._interval[0],
                tol=0.0,
                max_degree=f.size - 1,
                floor=ROUNDING * max(1.0, np.sqrt(slope)),
            )
            shorter = coefficients is not None and coefficients.size < f.size
            last = self._last = (key, coefficients if shorter else None)
        return last[1]

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
        width = _block_width(v.shape[0])
        if v.ndim == 2 and v.shape[1] > width:
            result = np.empty(v.shape)
            for start in range(0, v.shape[1], width):
                stop = start + width
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
    require_kernel(kernel).check_graph(graph)
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
    coefficients, reached = chebyshev_coefficients(
        lambda gap: function(scale * gap, scale), low, tol=tol, max_degree=max_degree
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


def _block_width(n_nodes: int) -> int:
    """Columns to multiply at once."""
    return min(max(_BLOCK_SIZE // n_nodes, 1), _WIDEST_BLOCK)


def _unit_blocks(nodes: np.ndarray, n_nodes: int) -> Iterator[tuple[slice, np.ndarray]]:
    """Unit vectors of the nodes as the columns of dense blocks."""
    width = _block_width(n_nodes)
    for start in range(0, nodes.size, width):
        members = nodes[start : start + width]
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
