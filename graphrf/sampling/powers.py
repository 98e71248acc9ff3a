"""Samplers without walkers: powers of the walk matrix, exact, cut, or compressed without bias."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee

from graphrf import _checks
from graphrf.graph import LAPLACIANS, Graph
from graphrf.kernels import Kernel
from graphrf.lengths import LONGEST_WALK, Survival
from graphrf.sampling.power_loops import exact_size, power_block
from graphrf.sampling.record import Block

# Sizes of exact rows are estimated from a few of them, fewer where these take so many multiply-adds.
_PILOT_ROWS, _PILOT_WORK = 24, 20_000_000


@dataclass(frozen=True)
class ExactPowers:
    r"""Exact rows of F = sum_{k <= L} f_k W^k by sparse products: the sampler that drops nothing.

    .. math:: x_0 = e_i, \quad x_k = W x_{k-1}, \quad \phi(i) = \sum_{k \le L} f_k x_k.

    For short kernels on graphs of low degree (roads, meshes), where it costs no more than good walks; the number
    of non-zeros explodes where there are hubs.

    Parameters
    ----------
    max_length : int
        L, the highest power, 0 to 65,534. `kernel.truncation_length(tol)` gives a sufficient one, and
        `Features.truncation_error(kernel)` the error that is left.
    laplacian : {"normalized", "combinatorial"}
        Whose kernels the features will serve.

    Notes
    -----
    Time: a multiply-add for each edge at each node of the support of each x_k. Values are computed in float64 and
    stored in float32, also when the features' dtype is float64.

    Examples
    --------
    >>> import networkx as nx, numpy as np, graphrf as grf
    >>> graph = grf.load_graph(nx.karate_club_graph())
    >>> kernel = grf.Diffusion(lengthscale=1.0)
    >>> features = grf.sample_features(graph, grf.ExactPowers(max_length=12), seed=0)
    >>> bool(np.allclose(features.gram(kernel), kernel.dense(graph), atol=1e-6))
    True
    """

    max_length: int
    laplacian: str = field(default="normalized", kw_only=True)

    def __post_init__(self) -> None:
        _check(self)

    @property
    def survival(self) -> Survival:
        """S(k) = 1 up to `max_length`: no power is left out."""
        return _whole(self.max_length)

    def prepare(self, graph: Graph, seed: int) -> PreparedPowers:
        """The sampler bound to a graph; the seed plays no part."""
        return PreparedPowers(self, graph, seed, remedy="lower max_length, take CompressedPowers or CutPowers")


@dataclass(frozen=True)
class CutPowers:
    r"""Exact powers, of which each row keeps only its `budget` largest nodes: deterministic, with a stated bias.

    The nodes v of row i with the largest sum_k x_k(v) stay, x_k = W^k e_i: a choice that needs no kernel. With
    `kernel` it is sum_k |f_k| x_k(v), so that for that kernel, if f >= 0, the largest entries of F_i stay.
    The norm of what was dropped is recorded for each row and step, so that `Features.row_errors(kernel)` and
    `Features.truncation_error(kernel)` are bounds that hold.

    Parameters
    ----------
    budget : int
        Nodes kept in each row, at least 1.
    max_length : int
        L, the highest power, 0 to 65,534.
    kernel : Kernel, optional
        Whose rows are to lose least; the features serve all kernels of the Laplacian nevertheless.
    laplacian : {"normalized", "combinatorial"}
        Whose kernels the features will serve.

    Notes
    -----
    Time: as `ExactPowers`. Memory: rows of at most `budget` nodes, and 4 (L + 1) bytes a row for the bound.

    Examples
    --------
    >>> import networkx as nx, numpy as np, graphrf as grf
    >>> graph = grf.Graph(nx.to_scipy_sparse_array(nx.grid_2d_graph(8, 8)))
    >>> kernel = grf.Diffusion(lengthscale=1.0)
    >>> features = grf.sample_features(graph, grf.CutPowers(budget=12, max_length=8))
    >>> error = np.linalg.norm(features.gram(kernel) - kernel.dense(graph), 2)
    >>> bool(error <= features.truncation_error(kernel))
    True
    """

    budget: int
    max_length: int
    kernel: Kernel | None = field(default=None, kw_only=True)
    laplacian: str = field(default="normalized", kw_only=True)

    def __post_init__(self) -> None:
        _check(self)
        if self.kernel is None:
            return
        if not isinstance(self.kernel, Kernel):
            raise TypeError(f"`kernel` must be a graphrf kernel, got {_checks.describe(self.kernel)}")
        if self.kernel.laplacian != self.laplacian:
            raise ValueError(
                f"`kernel` must be of the {self.laplacian} Laplacian, as the powers, got {self.kernel!r}; pass "
                f"laplacian={self.kernel.laplacian!r}"
            )

    @property
    def survival(self) -> Survival:
        """S(k) = 1 up to `max_length`: no power is left out."""
        return _whole(self.max_length)

    def prepare(self, graph: Graph, seed: int) -> PreparedPowers:
        """The sampler bound to a graph; the seed plays no part."""
        return PreparedPowers(self, graph, seed, keep=self.budget, remedy="lower budget or max_length")


@dataclass(frozen=True)
class CompressedPowers:
    r"""Powers of the walk matrix, compressed without bias to `budget` entries after every product.

    .. math:: x_0 = e_i, \quad x_k = C(W x_{k-1}), \quad E[C(y)] = y, \quad \phi(i) = \sum_{k \le L} f_k x_k,

    so that E[phi(i)] is row i of F cut at L, and E[phi(i) . phi(j)] = K_ij for i != j as with walks, rows of
    different nodes being independent.

    C keeps exactly what is large: with m places left and a rest of sum S, the largest entry y of the rest as long
    as y m >= S. Of what remains it draws m entries by systematic sampling with probabilities m y / S, in an order
    (reverse Cuthill-McKee) that puts nodes near each other in the graph side by side, and gives each drawn the
    value S / m.

    Parameters
    ----------
    budget : int
        Entries of each x_k, at least 1: what the walkers of one node are to `RandomWalks`.
    max_length : int
        L, the highest power, 0 to 65,534.
    laplacian : {"normalized", "combinatorial"}
        Whose kernels the features will serve.

    Notes
    -----
    Time a node: at most `budget` rows of W are read for each power, and what they reach is sorted in linear time.
    Memory: 6 bytes for each distinct (source, node, step), at most L `budget` + 1 of them. Values are computed in
    float64 and stored in float32, also when the features' dtype is float64.

    Source: Lim and Weare, "Fast randomized iteration", SIAM Review 59 (2017), Sec. 4, with the threshold computed
    anew after every entry kept and systematic sampling in an order of the graph's.

    Examples
    --------
    >>> import networkx as nx, graphrf as grf
    >>> graph = grf.load_graph(nx.karate_club_graph())
    >>> features = grf.sample_features(graph, grf.CompressedPowers(budget=16, max_length=8), seed=0)
    >>> features.matrix(grf.Diffusion(lengthscale=1.0)).shape
    (34, 34)
    """

    budget: int
    max_length: int
    laplacian: str = field(default="normalized", kw_only=True)

    def __post_init__(self) -> None:
        _check(self)

    @property
    def survival(self) -> Survival:
        """S(k) = 1 up to `max_length`: no power is left out."""
        return _whole(self.max_length)

    def prepare(self, graph: Graph, seed: int) -> PreparedPowers:
        """The sampler bound to a graph and a seed."""
        return PreparedPowers(self, graph, seed, budget=self.budget, remedy="lower budget or max_length")


def _check(sampler: ExactPowers | CutPowers | CompressedPowers) -> None:
    """Raise unless a sampler's settings are legal."""
    if not isinstance(sampler, ExactPowers):
        _checks.integer("budget", sampler.budget, low=1)
    _checks.integer("max_length", sampler.max_length, low=0, high=LONGEST_WALK)
    _checks.choice("laplacian", sampler.laplacian, LAPLACIANS)


def _whole(max_length: int) -> Survival:
    return Survival(np.ones(max_length + 1))


class _Matrix(NamedTuple):
    """The walk matrix in a narrow order: CSR arrays, the node at each place, and the place of each node."""

    indptr: np.ndarray
    indices: np.ndarray
    weights: np.ndarray
    order: np.ndarray
    rank: np.ndarray


class _Scratch(NamedTuple):
    """An accumulator and a counter for every node, and an ordered set of nodes; memory not touched until used."""

    dense: np.ndarray
    tally: np.ndarray
    low: np.ndarray
    middle: np.ndarray
    top: np.ndarray


# Gaussian processes prepare a sampler for one graph again and again.
_relabelled: weakref.WeakKeyDictionary[Graph, dict[str, _Matrix]] = weakref.WeakKeyDictionary()


def relabelled(graph: Graph, laplacian: str) -> _Matrix:
    """The walk matrix in reverse Cuthill-McKee order, kept as long as the graph lives; O(nnz) the first time."""
    of_graph = _relabelled.setdefault(graph, {})
    if laplacian not in of_graph:
        walk = graph.walk_matrix(laplacian)
        order = np.asarray(reverse_cuthill_mckee(sp.csr_matrix(walk), symmetric_mode=True)).astype(np.uint32)
        rank = np.empty_like(order)
        rank[order] = np.arange(order.size, dtype=np.uint32)
        walk = sp.csr_array(walk[order][:, order])
        walk.sort_indices()
        matrix = _Matrix(walk.indptr.astype(np.int64), walk.indices.astype(np.uint32), walk.data, order, rank)
        for array in matrix:
            array.setflags(write=False)
        of_graph[laplacian] = matrix
    return of_graph[laplacian]


class PreparedPowers:
    """A power sampler bound to a graph and a seed: a pure function from source nodes to their powers."""

    n_walks = 1
    degrees = None
    counts_dtype = np.dtype(np.float32)

    def __init__(
        self,
        sampler: ExactPowers | CutPowers | CompressedPowers,
        graph: Graph,
        seed: int,
        *,
        budget: int | None = None,
        keep: int | None = None,
        remedy: str,
    ) -> None:
        graph.require_undirected("a kernel's features")
        self.sampler = sampler
        self.survival = sampler.survival
        self.scale = graph.laplacian_scale(sampler.laplacian)
        self.remedy = remedy
        n_nodes = graph.n_nodes
        self._budget = n_nodes if budget is None else min(budget, n_nodes)
        self._keep = n_nodes if keep is None else min(keep, n_nodes)
        # The multiply-adds, and the norms of what is cut.
        self.row_bytes = 8 + (4 * self.survival.table.size if self._keep < n_nodes else 0)
        self._matrix = relabelled(graph, sampler.laplacian)
        self._scores = _scores(sampler, self.scale)
        self._key = np.uint64(seed)

    @property
    def visits_per_row(self) -> float:
        """Expected number of values of a row's powers, before any is cut."""
        return self._row_size[2]

    @property
    def merged_per_row(self) -> tuple[float, float]:
        """Nodes and values of a row: of compressed powers the most, of exact ones the mean over a few rows."""
        return self._row_size[:2]

    @cached_property
    def _row_size(self) -> tuple[float, float, float]:
        """Nodes and values of a row, and values before it is cut."""
        n_powers, n_nodes = float(self.survival.table.size), self._matrix.order.size
        if self._budget < n_nodes:
            values = 1.0 + self._budget * (n_powers - 1)
            return min(values, float(n_nodes)), values, values
        sizes = []
        work = 0
        for place in np.linspace(0, n_nodes - 1, min(_PILOT_ROWS, n_nodes)).astype(np.int64):
            entries, values, edges = exact_size(*self._matrix[:2], place, self.survival.max_length)
            sizes.append((entries, values))
            work += edges
            if work > _PILOT_WORK:
                break
        entries, values = (float(size) for size in np.mean(sizes, axis=0))
        kept = min(entries, float(self._keep))
        return kept, min(values, kept * n_powers), values

    def working_bytes(self, n_rows: int) -> int:
        """Memory that `sample` takes for a block: scratch, the powers of one row, and the block's record."""
        n_nodes = self._matrix.order.size
        scratch = sum(array.nbytes for array in self._scratch())
        row = min(2.0 * self.visits_per_row, float(n_nodes) * self.survival.table.size) + n_nodes
        return int(scratch + 16 * row + 12 * self._capacity(n_rows) + self.row_bytes * n_rows)

    def _capacity(self, n_rows: int) -> int:
        # Enough in most graphs; the buffers grow if not.
        return int(0.75 * n_rows * self.merged_per_row[1]) + 1024

    def _scratch(self) -> _Scratch:
        n_nodes = self._matrix.order.size
        low, middle, top = (np.zeros(-(-n_nodes // 64**level), np.uint64) for level in (1, 2, 3))
        return _Scratch(np.zeros(n_nodes), np.zeros(n_nodes, np.int64), low, middle, top)

    def sample(self, sources: np.ndarray) -> Block:
        """The powers of `sources`; runs without the interpreter lock."""
        rows, per_row, work, dropped, nodes, per_entry, steps, values, n_entries, n_values = power_block(
            *self._matrix,
            *self._scratch(),
            sources,
            self.survival.max_length,
            self._budget,
            self._keep,
            self._scores,
            self._key,
            self._capacity(sources.size),
        )
        return Block(
            rows,
            per_row,
            nodes[:n_entries],
            per_entry[:n_entries],
            steps[:n_values],
            values[:n_values],
            work,
            dropped if dropped.size else None,
        )

    def describe(self) -> dict[str, Any]:
        """The sampler's settings, for the record that features keep."""
        settings = {name: value for name, value in vars(self.sampler).items() if name != "kernel"}
        if isinstance(self.sampler, CutPowers) and self.sampler.kernel is not None:
            settings["kernel"] = repr(self.sampler.kernel)
        return {"sampler": type(self.sampler).__name__, **settings}


def _scores(sampler: ExactPowers | CutPowers | CompressedPowers, scale: float) -> np.ndarray:
    """What each power counts when a row's largest nodes are chosen."""
    size = sampler.max_length + 1
    if isinstance(sampler, CutPowers) and sampler.kernel is not None:
        return np.abs(sampler.kernel.modulation(size, scale))
    return np.ones(size)
