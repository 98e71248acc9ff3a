r"""Products of features: B = Phi_1 .. Phi_n with short factors, B B^T about K (GRFs++)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, DTypeLike

from graphrf._base import checks, html
from graphrf._base.memory import available_memory, require_memory
from graphrf._base.types import NodesLike
from graphrf._base.warn import called_from_outside
from graphrf.features import error
from graphrf.features.features import Features
from graphrf.features.rows import dense_product, row_numbers, squared_norms
from graphrf.graph.graph import Graph, given_nodes, require_graph
from graphrf.kernels.kernel import Kernel, require_kernel
from graphrf.sampling.protocol import Sampler
from graphrf.sampling.sample import require_sampler, sample_features

# Rows with more than this share of non-zeros are multiplied as dense ones: faster, for up to 2.7
# times the memory.
_FILLED = 0.25


class ProductFeatures:
    r"""Products of features: B = Phi_1 .. Phi_n, multiplied out on request; B B^T about K.

    Every factor estimates F_R, the symmetric root of the n-th root R of the kernel (`Kernel.root`),
    from samples of its own, so that E[B] = F_R^n = F up to the longest length of the sampler. Walks
    need only the length of R; a product with B takes `nnz` multiply-adds. B B^T is symmetric and
    positive semi-definite, but biased also off the diagonal, since rows of B share the later
    factors. With C_i the covariance matrix of row i of the first factor, and D diagonal with the
    total variances of the rows of the second,

    .. math:: E[B B^\top] = F_R (R + D) F_R + \operatorname{diag}_i \operatorname{tr}\big((R + D)
        \, C_i\big)
              \qquad (n = 2),

    against K = F_R R F_R. Both excesses are positive semi-definite, and decrease like 1 / n_walks
    for independent walks. `gram` with an independent product as `other` is unbiased everywhere.

    Products pay if 2 nnz is far less than the L nnz(W) multiply-adds of the exact series of L terms
    (`apply_kernel`) and features of single walks have a large error: on dense graphs with long
    kernels. They need all rows of the later factors, so for a few nodes of a large graph use
    `sample_features`.

    Source: Choromanski et al., "GRFs++" (arXiv 2510.07716), whose product of estimates K_1 K_2^T of
    K's n-th root is unbiased, but neither symmetric nor positive; here the K_1 are chained, and
    multiplied by their transpose.

    Parameters
    ----------
    factors : sequence of Features
        At least one, all of one graph and Laplacian, drawn with different seeds unless they draw
        nothing; the second and later ones with one row for every node, in the order of the graph.
        `sample_product` makes them.
    seed : int, optional
        Seed from which the factors' seeds were derived, for the record.

    Examples
    --------
    >>> import networkx as nx, graphrf as grf
    >>> graph = grf.Graph(nx.to_scipy_sparse_array(nx.karate_club_graph(), weight=None))
    >>> kernel = grf.Diffusion(lengthscale=6.0)
    >>> sampler = grf.RandomWalks(
    ...     256, grf.sampling.Truncated(kernel.root(2).truncation_length(1e-3))
    ... )
    >>> product = grf.sampling.sample_product(graph, sampler, n_factors=2, seed=0)
    >>> product.relative_error(kernel) < 0.1
    True
    """

    def __init__(self, factors: Sequence[Features], *, seed: int | None = None) -> None:
        self.factors: tuple[Features, ...] = _checked_factors(factors)
        self.seed: int | None = None if seed is None else checks.seed(seed)
        self._watch = error.Watch()

    # -- sizes -----------------------------------------------------------------------------------

    @property
    def n_factors(self) -> int:
        """Number of factors."""
        return len(self.factors)

    @property
    def nodes(self) -> np.ndarray:
        """Positions of the rows' nodes."""
        return self.factors[0].nodes

    @property
    def n_nodes(self) -> int:
        """Nodes of the graph."""
        return self.factors[0].n_nodes

    @property
    def shape(self) -> tuple[int, int]:
        """(n, N), the shape of B."""
        return self.factors[0].shape

    @property
    def nnz(self) -> int:
        """Non-zeros of all factors."""
        return sum(factor.nnz for factor in self.factors)

    @property
    def n_steps(self) -> int:
        """Steps, or multiply-adds of powers, of all factors."""
        return sum(factor.n_steps for factor in self.factors)

    @property
    def nbytes(self) -> int:
        """Memory of all factors in bytes."""
        return sum(factor.nbytes for factor in self.factors)

    @property
    def laplacian(self) -> str:
        """The Laplacian whose walk matrix was used."""
        return self.factors[0].laplacian

    def __repr__(self) -> str:
        return (
            f"ProductFeatures({self.shape[0]} nodes of {self.n_nodes}, {self.n_factors} factors, "
            f"{self.n_steps} steps, {self.nnz} non-zeros, {self.nbytes / 2**20:.3g} MiB)"
        )

    def _repr_html_(self) -> str:
        """A table for notebooks."""
        rows = [
            ("nodes", f"{self.shape[0]:,} of {self.n_nodes:,}"),
            ("factors", self.n_factors),
            ("steps", self.n_steps),
            ("non-zeros", self.nnz),
            ("memory", html.memory(self.nbytes)),
            ("Laplacian", self.laplacian),
            ("seed", None if self.seed is None else str(self.seed)),
        ]
        return html.table("ProductFeatures", rows)

    # -- matrices --------------------------------------------------------------------------------

    def matrices(self, kernel: Kernel) -> tuple[sp.csr_array, ...]:
        """The matrices of all factors for `kernel.root(n_factors)`: their product is B.

        The first is of shape (n, N), the others (N, N), each of its factor's dtype. O(visits) time
        and `nnz` floats of memory; all methods below begin with this, so use the matrices for many
        products with one kernel. Warns as `Features.matrix`, for each factor and the root.

        Raises
        ------
        TypeError, ValueError
            If the kernel is none, has no such root in closed form, or belongs to the other
            Laplacian.
        """
        root = require_kernel(kernel).root(self.n_factors)
        return tuple(
            factor.matrix_from_modulation(factor.checked_modulation(root))
            for factor in self.factors
        )

    def matrix(self, kernel: Kernel) -> sp.csr_array:
        """B itself: the factors of `matrices` multiplied out, scipy CSR of shape (n, N).

        It may have up to n N non-zeros; `apply` and `apply_t` do not need it. Raises and warns as
        `matrices`, and warns of a large error of B B^T as `Features.matrix` does.
        """
        matrices = self.matrices(kernel)
        product = _multiplied(matrices)
        if called_from_outside():
            self._watch_error(kernel, matrices, self.nodes, product)
        return product

    def relative_error(
        self, kernel: Kernel, *, seed: int = 0, apply: Callable[..., np.ndarray] | None = None
    ) -> float:
        """An estimate of |B B^T - K|_F / |K|_F over the rows: see `Features.relative_error`."""
        seed = checks.seed(seed)
        return error.measured(
            self._rows(self.matrices(kernel)), kernel, apply, self.factors[0].origin, seed
        )

    def apply(self, kernel: Kernel, x: ArrayLike) -> np.ndarray:
        """B x for x of shape (N,) or (N, p); the result has shape (n,) or (n, p).

        Raises and warns as `matrices`; x must be finite numbers. Cost: O(visits), and `nnz`
        multiply-adds a column. The type follows from the features' and x's.
        """
        x = checks.finite("x", checks.columns("x", x, self.n_nodes))
        matrices = self.matrices(kernel)
        return np.asarray(reduce(lambda product, factor: factor @ product, reversed(matrices), x))

    def apply_t(self, kernel: Kernel, y: ArrayLike) -> np.ndarray:
        """B^T y for y of shape (n,) or (n, p), shape (N,) or (N, p); otherwise as `apply`."""
        y = checks.finite("y", checks.columns("y", y, self.shape[0]))
        shape = (self.n_nodes, *y.shape[1:])
        require_memory(
            8.0 * math.prod(shape), f"a product of shape {shape}", "pass fewer columns at a time"
        )
        matrices = self.matrices(kernel)
        return np.asarray(reduce(lambda product, factor: factor.T @ product, matrices, y))

    def gram(
        self,
        kernel: Kernel,
        *,
        rows: NodesLike | None = None,
        cols: NodesLike | None = None,
        other: ProductFeatures | None = None,
    ) -> np.ndarray:
        """An estimate of the Gram matrix K[rows, cols], dense, of the features' dtype.

        It is B B^T or, with `other`, B B'^T: unbiased everywhere, but neither symmetric nor
        positive, so it serves to measure errors only.

        Parameters
        ----------
        kernel : Kernel
        rows, cols : array_like of int, optional
            Node positions among `nodes` (cols: of `other`, where given). Default: all.
        other : ProductFeatures, optional
            A product of features of the same graph that shares no seed with this one (factors that
            draw nothing aside); the numbers of factors may differ.

        Raises
        ------
        TypeError, ValueError
            See `matrices`; also if nodes are unknown or `other` is not a product of features.
        MemoryError
            If the dense result does not fit; it is raised before anything is allocated.
        """
        right_features = self if other is None else self._checked_other(other)
        left_rows = row_numbers("rows", rows, self.nodes)
        right_rows = row_numbers("cols", cols, right_features.nodes)
        shape = left_rows.size, right_rows.size
        require_memory(
            math.prod(shape) * self.factors[0].dtype.itemsize,
            f"a dense Gram matrix of shape {shape}",
            "ask for fewer `rows` and `cols`, or multiply by B and its transpose in turn (apply, "
            "apply_t)",
        )
        matrices = self.matrices(kernel)
        left = _multiplied(matrices, left_rows)
        if other is None and called_from_outside():
            self._watch_error(kernel, matrices, self.nodes[left_rows], left)
        if other is None and np.array_equal(left_rows, right_rows):
            return _dense_product(left, left)
        if other is not None:
            matrices = other.matrices(kernel)
        return _dense_product(left, _multiplied(matrices, right_rows))

    # -- inside ----------------------------------------------------------------------------------

    def _rows(self, matrices: tuple[sp.csr_array, ...]) -> error.MeasuredRows:
        """The rows of B, by products with B B^T."""

        def gram(x: np.ndarray) -> np.ndarray:
            inner = reduce(lambda product, factor: factor.T @ product, matrices, x)
            return np.asarray(
                reduce(lambda product, factor: factor @ product, reversed(matrices), inner)
            )

        return error.MeasuredRows(self.nodes, self.n_nodes, gram, None)

    def _watch_error(
        self,
        kernel: Kernel,
        matrices: tuple[sp.csr_array, ...],
        nodes: np.ndarray,
        product: sp.csr_array,
    ) -> None:
        """Warn of a large error of B B^T, and of its diagonal at nodes with multiplied rows."""
        # The product of the factors has more non-zeros than `nnz`.
        first = self.factors[0]
        f = kernel.modulation(self.n_factors * first.max_length + 1, first.info.scale)
        if self._watch.check_diagonal(
            nodes, lambda: squared_norms(product), kernel, f, first.info.scale
        ):
            return
        self._watch.check(
            self._rows(matrices), kernel, f, first.info.scale, first.origin, float(self.nnz)
        )

    def _checked_other(self, other: Any) -> ProductFeatures:
        if not isinstance(other, ProductFeatures):
            raise checks.type_error(
                "other", f"must be ProductFeatures, got {checks.describe(other)}"
            )
        _check_same_graph("other", self.factors[0], other.factors[0])
        _check_seeds("other", [*self.factors, *other.factors])
        return other


def sample_product(
    graph: Graph,
    sampler: Sampler,
    *,
    n_factors: int = 2,
    nodes: NodesLike | None = None,
    seed: int | None = None,
    n_threads: int | None = None,
    dtype: DTypeLike = "float32",
    memory_limit: int | None = None,
    progress: bool = False,
) -> ProductFeatures:
    """Sample the factors of B = Phi_1 .. Phi_n, E[B] = F, K about B B^T: `ProductFeatures`.

    Parameters
    ----------
    graph : Graph
        Undirected, N nodes.
    sampler : RandomWalks, CompressedPowers, CutPowers, ExactPowers, or any other `Sampler`
        Sampler of each factor, for the n-th root of the kernel: with lengths
        `AutoLengths(kernel.root(n_factors))` or
        `Truncated(kernel.root(n_factors).truncation_length(tol / n_factors))`, by which the product
        of the means is off F by at most tol A^n_factors in operator norm, A = sum_k |f_k| of the
        root kernel.
    n_factors : int
        Number of factors, at least 1.
    nodes : array_like of int positions or str names, optional
        The rows of the first factor and of B, in this order. The other factors have rows for all
        nodes.
    seed : int in [0, 2^63), optional
        None draws one, which the result records. Factor i is drawn with the 63 high bits of the
        i-th word (64 bits) of `numpy.random.SeedSequence(seed, spawn_key=(n_factors,))`, so that
        factors share streams neither with each other nor with `sample_features` or other products
        (a chance of 2^-63 a pair apart).
    n_threads, dtype, memory_limit, progress
        See `sample_features`; the limit is that of all factors together.

    Returns
    -------
    ProductFeatures

    Examples
    --------
    >>> import networkx as nx, numpy as np, graphrf as grf
    >>> graph = grf.Graph(nx.to_scipy_sparse_array(nx.karate_club_graph(), weight=None))
    >>> kernel = grf.Diffusion(lengthscale=6.0)
    >>> sampler = grf.RandomWalks(16, grf.sampling.AutoLengths(kernel.root(3)))
    >>> product = grf.sampling.sample_product(graph, sampler, n_factors=3, nodes=[0, 33], seed=0)
    >>> product.apply(kernel, np.ones(34)).shape
    (2,)
    >>> [factor.shape for factor in product.factors]
    [(2, 34), (34, 34), (34, 34)]
    """
    sources = given_nodes(require_graph(graph), nodes)
    require_sampler(sampler)
    n_factors = checks.integer("n_factors", n_factors, low=1)
    limit = None if memory_limit is None else checks.integer("memory_limit", memory_limit, low=1)
    seed = checks.seed(seed)
    words = np.random.SeedSequence(seed, spawn_key=(n_factors,)).generate_state(
        n_factors, np.uint64
    )
    factors: list[Features] = []
    for i, word in enumerate(words):
        taken = sum(factor.nbytes for factor in factors)
        factors.append(
            sample_features(
                graph,
                sampler,
                nodes=graph.positions(sources) if i == 0 else None,
                seed=int(word >> np.uint64(1)),
                n_threads=n_threads,
                dtype=dtype,
                memory_limit=None if limit is None else max(1, limit - taken),
                progress=progress,
            )
        )
    return ProductFeatures(factors, seed=seed)


def _checked_factors(factors: Any) -> tuple[Features, ...]:
    """The factors as a tuple; TypeError or ValueError if they do not form a product."""
    if isinstance(factors, Features) or not isinstance(factors, Sequence):
        raise checks.type_error(
            "factors", f"must be a sequence of Features, got {checks.describe(factors)}"
        )
    if not factors:
        raise checks.value_error("factors", "must hold at least one factor, got none")
    for i, factor in enumerate(factors):
        if not isinstance(factor, Features):
            raise TypeError(f"`factors[{i}]` must be Features, got {checks.describe(factor)}")
        _check_same_graph(f"factors[{i}]", factors[0], factor)
        if i > 0 and not np.array_equal(factor.nodes, np.arange(factor.n_nodes)):
            raise ValueError(
                f"`factors[{i}]` must have one row for every node of the graph, in its order "
                f"(nodes=None), got {factor.nodes.size} rows for {factor.n_nodes} nodes; only the "
                "first factor may have some"
            )
    _check_seeds("factors", factors)
    return tuple(factors)


def _check_same_graph(argument: str, first: Features, second: Features) -> None:
    if not first.info.is_of_same_matrix(second.info):
        raise ValueError(
            f"`{argument}` must be features of the same graph and Laplacian as the first"
        )


def _check_seeds(argument: str, factors: Sequence[Features]) -> None:
    seeds = [factor.seed for factor in factors if factor.info.is_random]
    if len(set(seeds)) < len(seeds):
        repeated = next(seed for seed in seeds if seeds.count(seed) > 1)
        raise ValueError(
            f"`{argument}` must be drawn with different seeds, got {repeated} twice: equal seeds "
            "give dependent samples and a biased estimate"
        )


def _multiplied(matrices: tuple[sp.csr_array, ...], rows: np.ndarray | None = None) -> sp.csr_array:
    """The product of matrices, or some of its rows."""
    first = matrices[0] if rows is None else matrices[0][rows]
    product = reduce(lambda product, factor: product @ factor, matrices[1:], first)
    product.sort_indices()  # makes Gram matrices symmetric to the last bit
    return product


def _dense_product(left: sp.csr_array, right: sp.csr_array) -> np.ndarray:
    """left right^T, with dense rows if they are filled and fit."""
    room = available_memory()
    return dense_product(
        left, right, filled=_FILLED, most=None if room is None else room // left.dtype.itemsize
    )
