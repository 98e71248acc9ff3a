r"""Exact products with kernels: K v and F v by Chebyshev series in the walk matrix, without walks.

K = g(W) is expanded in Chebyshev polynomials on the interval with middle m and half-length h that
holds W's eigenvalues ([-1, 1] for the normalized Laplacian, [0, 1] for the combinatorial one),

.. math:: K v \approx \sum_{k \le d} c_k T_k(M) v, \quad M = (W - m I) / h,

with an error in operator norm of at most sum_{k>d} |c_k|, which d brings below the tolerance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from graphrf._base import checks
from graphrf._base.blas import blas_threads
from graphrf._base.memory import require_memory
from graphrf._base.types import NodesLike
from graphrf.graph.graph import Graph, given_nodes
from graphrf.kernels.chebyshev import chebyshev_coefficients
from graphrf.kernels.kernel import Kernel, cleaned_eigenvalues, require_kernel
from graphrf.operators.factor import units
from graphrf.operators.precision.areal import precision_of
from graphrf.operators.series.chebyshev_sums import ChebyshevSum, shared_blocks, shared_diagonals
from graphrf.operators.series.costs import SERIES_COSTS, SeriesCosts
from graphrf.operators.series.walk_operator import doubled_matrix

_PROBES_AT_ONCE = 32
_MAX_DEGREE = 20_000


@dataclass(frozen=True)
class TraceCosts:
    """Sizes up to which a trace is exact."""

    # Nodes of a dense Laplacian whose eigenvalues are computed.
    dense_nodes: int = 1_000
    # Multiply-adds that an exact trace of the series may take: a few seconds.
    products: float = 3e9


def apply_kernel(
    graph: Graph,
    kernel: Kernel,
    v: ArrayLike,
    *,
    tol: float = 1e-10,
    max_degree: int = _MAX_DEGREE,
    n_threads: int | None = None,
) -> np.ndarray:
    """K v for a node kernel K, without forming it.

    By a Chebyshev series of sparse products, or for areal kernels that are no function of the
    Laplacian by one sparse factor.

    Parameters
    ----------
    graph : Graph, undirected, N nodes
    kernel : Kernel
    v : array_like, shape (N,) or (N, p)
    tol : float
        Error in operator norm, relative to the largest |g| on the interval of eigenvalues (for
        kernels that decrease in the Laplacian this is the operator norm of K).
    max_degree : int
        Maximum number of sparse products per vector.
    n_threads : int, optional
        Default: the cores that the process may use. The bits do not depend on it.

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
    `RegularizedLaplacian` (power 2) on the normalized Laplacian at the default tolerance, l > 2.
    Memory: the result, and three blocks of N x 16 numbers for each thread (above 250,000 nodes N x
    8, once).

    Examples
    --------
    >>> import numpy as np, graphrf as grf
    >>> graph = grf.Graph(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]))
    >>> kernel = grf.Diffusion(lengthscale=2.0)
    >>> v = np.array([1.0, 0.0, -1.0])
    >>> np.allclose(grf.apply_kernel(graph, kernel, v), kernel.dense(graph) @ v)
    True
    """
    return _apply(graph, kernel, v, tol, max_degree, n_threads, root=False)


def apply_root(
    graph: Graph,
    kernel: Kernel,
    v: ArrayLike,
    *,
    tol: float = 1e-10,
    max_degree: int = _MAX_DEGREE,
    n_threads: int | None = None,
) -> np.ndarray:
    r"""F v for the symmetric root F of a node kernel, K = F F^T; otherwise as `apply_kernel`.

    With v standard normal, F v is a draw from the Gaussian process with covariance K.

    Roots that are singular at the end of the spectrum (`InverseCosine`, `PStepRandomWalk` with few
    odd steps at alpha = 2) converge like 1 / d or so: at the default tolerance they are refused,
    with the tolerance that `max_degree` reaches.

    Examples
    --------
    >>> import numpy as np, graphrf as grf
    >>> pair = grf.from_edges([0], [1])
    >>> draw = grf.apply_root(
    ...     pair, grf.Diffusion(lengthscale=1.0), np.random.default_rng(0).standard_normal(2)
    ... )
    >>> draw.shape
    (2,)
    """
    return _apply(graph, kernel, v, tol, max_degree, n_threads, root=True)


def kernel_block(
    graph: Graph,
    kernel: Kernel,
    rows: NodesLike | None = None,
    cols: NodesLike | None = None,
    *,
    tol: float = 1e-10,
    max_degree: int = _MAX_DEGREE,
    n_threads: int | None = None,
) -> np.ndarray:
    """The exact block K[rows, cols], dense, by products with unit vectors.

    Parameters
    ----------
    graph, kernel, tol, max_degree, n_threads
        See `apply_kernel`; the tolerance bounds the error of every entry.
    rows, cols : nodes, by position or string name; default all
        Repeats are allowed.

    Returns
    -------
    ndarray, shape (len(rows), len(cols)), float64

    Notes
    -----
    Time: as `apply_kernel` on min(distinct rows, distinct cols) vectors, or less: of graphs whose
    edges join near positions (grids, meshes) only the part that the products reach is visited.
    """
    require_kernel(kernel).check_graph(graph)
    row_nodes = given_nodes(graph, rows, "rows")
    col_nodes = given_nodes(graph, cols, "cols")
    require_memory(
        8.0 * row_nodes.size * col_nodes.size,
        f"a block of a kernel matrix of shape ({row_nodes.size}, {col_nodes.size})",
        "ask for fewer rows and columns at a time",
    )
    if not kernel.is_series:
        distinct, inverse = np.unique(col_nodes, return_inverse=True)
        return _solved(graph, kernel, units(graph.n_nodes, distinct))[np.ix_(row_nodes, inverse)]
    expansion = _expansion(graph, kernel, tol, max_degree, n_threads, root=False)
    return expansion.block(row_nodes, col_nodes)


def kernel_blocks(
    graph: Graph,
    kernels: Sequence[Kernel],
    rows: np.ndarray,
    cols: np.ndarray,
    *,
    tol: float = 1e-10,
) -> np.ndarray:
    """K[rows, cols] by position of kernels with one Laplacian, shape (kernels, rows, cols).

    By as many products as the longest series takes; positions must be distinct.
    """
    sums = [_expansion(graph, kernel, tol, _MAX_DEGREE, None, root=False) for kernel in kernels]
    return shared_blocks(sums, rows, cols)


def kernel_diagonal(
    graph: Graph, kernel: Kernel, nodes: np.ndarray, *, tol: float = 1e-10
) -> np.ndarray:
    """The entries K[q, q] by position, with half as many products for each as a column takes."""
    expansion = _expansion(graph, kernel, tol, _MAX_DEGREE, None, root=False)
    return shared_diagonals([expansion], nodes)[0]


class MeanVariance(NamedTuple):
    """trace(K) / N and its standard error, which is 0 where the trace was computed exactly."""

    value: float
    stderr: float


def mean_variance(
    graph: Graph, kernel: Kernel, *, n_probes: int = 64, seed: int | None = None, tol: float = 1e-6
) -> MeanVariance:
    r"""The mean prior variance of a kernel over the nodes, trace(K) / N.

    Up to 1,000 nodes from the eigenvalues of the dense Laplacian; above from one vector for every
    node while that takes less than 3e9 multiply-adds (to `tol`), else by Hutchinson's estimator,

    .. math:: \mathrm{trace}(K) \approx \frac{1}{m} \sum_j z_j^\top K z_j, \quad z_j \in \{-1,
        1\}^N,

    with the Chebyshev series of K, two of whose moments come from each sparse product:
    z^T T_{2k} z = 2 |T_k z|^2 - |z|^2. The error falls as 1 / sqrt(n_probes N).

    Parameters
    ----------
    graph, kernel
        See `apply_kernel`.
    n_probes : int
        m, at least 2. Used by the estimator only, as is `seed`.
    seed : int, optional
        Seed of the probes; the same seed gives the same bits. None draws one.
    tol : float
        Tolerance of the Chebyshev series, as in `apply_kernel`.

    Returns
    -------
    MeanVariance
        `value` and `stderr`.
    """
    n_probes = checks.integer("n_probes", n_probes, low=2)
    return _mean_variance(graph, kernel, n_probes, seed, tol)


def _mean_variance(
    graph: Graph,
    kernel: Kernel,
    n_probes: int,
    seed: int | None,
    tol: float,
    costs: TraceCosts = TraceCosts(),
) -> MeanVariance:
    scale = require_kernel(kernel).check_graph(graph)
    if not kernel.is_series:
        return MeanVariance(precision_of(graph, kernel).mean_variance(), 0.0)
    if graph.n_nodes <= costs.dense_nodes:
        laplacian = graph.laplacian(kernel.laplacian == "normalized").toarray()
        with blas_threads(1):  # the bits depend on their number
            eigenvalues = np.linalg.eigvalsh(laplacian)
        eigenvalues = cleaned_eigenvalues(eigenvalues, graph, kernel.laplacian)
        values = kernel.spectrum(eigenvalues, scale)
        kernel.warn_of_rounding(graph, eigenvalues, values)
        return MeanVariance(float(values.mean()), 0.0)
    expansion = _expansion(graph, kernel, tol, _MAX_DEGREE, None, root=False)
    if graph.adjacency.nnz * graph.n_nodes * expansion.degree <= costs.products:
        return MeanVariance(
            float(shared_diagonals([expansion], np.arange(graph.n_nodes)).mean()), 0.0
        )
    rng = np.random.default_rng(seed)
    samples: list[np.ndarray] = []
    for start in range(0, n_probes, _PROBES_AT_ONCE):
        # drawn probe by probe, so that the seed's meaning does not depend on the block
        size = min(_PROBES_AT_ONCE, n_probes - start), graph.n_nodes
        probes = rng.integers(0, 2, size=size).T * 2.0 - 1.0
        samples.append(expansion.quadratic_forms(probes) / graph.n_nodes)
    values = np.concatenate(samples)
    return MeanVariance(float(values.mean()), float(values.std(ddof=1) / np.sqrt(n_probes)))


def _apply(
    graph: Graph,
    kernel: Kernel,
    v: Any,
    tol: float,
    max_degree: int,
    n_threads: int | None,
    root: bool,
) -> np.ndarray:
    require_kernel(kernel).check_graph(graph)
    array = checks.array("v", v)
    if (
        array.dtype.kind not in "biuf"
        or array.ndim not in (1, 2)
        or array.shape[0] != graph.n_nodes
    ):
        n = graph.n_nodes
        raise checks.value_error(
            "v", f"must be numbers of shape ({n},) or ({n}, p), got {checks.describe(array)}"
        )
    require_memory(
        24.0 * array.size,
        f"a product with {array.size // graph.n_nodes} vectors of {graph.n_nodes} nodes",
        "multiply by fewer columns of `v` at a time",
    )
    checks.finite("v", array)
    values = array.astype(np.float64)
    if not kernel.is_series and not root:
        result = _solved(graph, kernel, values)
    else:
        result = _expansion(graph, kernel, tol, max_degree, n_threads, root)(values)
    return result.astype(np.float32) if array.dtype == np.float32 else result


def _solved(graph: Graph, kernel: Kernel, v: np.ndarray) -> np.ndarray:
    """K v by the sparse precision of a kernel that is no series."""
    precision = precision_of(graph, kernel)
    padded = np.zeros((precision.n_nodes, *v.shape[1:]))
    padded[: graph.n_nodes] = v
    return precision.factor().solve(padded)[: graph.n_nodes]


def _expansion(
    graph: Graph,
    kernel: Kernel,
    tol: float,
    max_degree: int,
    n_threads: int | None,
    root: bool,
    costs: SeriesCosts = SERIES_COSTS,
) -> ChebyshevSum:
    """The Chebyshev series of K, or of F, on a graph."""
    tol = checks.number("tol", tol, low=1e-14, high=1, include_high=False)
    max_degree = checks.integer("max_degree", max_degree, low=1)
    scale = kernel.check_graph(graph)
    doubled, width = doubled_matrix(graph, kernel.laplacian)
    function = kernel.root_spectrum if root else kernel.spectrum
    coefficients, reached = chebyshev_coefficients(
        lambda gap: function(scale * gap, scale), width, tol=tol, max_degree=max_degree
    )
    if coefficients is None:
        what = "the root of " if root else ""
        raise checks.value_error(
            "tol",
            f"= {tol:g} needs more than max_degree = {max_degree} products for {what}{kernel!r}, "
            f"which reach {reached:.1g}: raise `tol` or `max_degree`"
            + (" (apply_kernel may need far fewer)" if root else ""),
        )
    return ChebyshevSum(doubled, coefficients, n_threads, costs)
