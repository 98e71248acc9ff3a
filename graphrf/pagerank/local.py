"""Local queries: personalised PageRank of source nodes from their neighbourhoods."""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from graphrf._base import checks, html
from graphrf._base.progress import progress_bar
from graphrf._base.threads import ordered_map, thread_count
from graphrf._base.types import NodesLike
from graphrf.graph.csr import CHUNK, row_pieces
from graphrf.graph.graph import Graph, given_nodes, is_one_node, require_graph
from graphrf.pagerank.problem import walks_halt, without_alpha
from graphrf.pagerank.push import Query, local_rows
from graphrf.sampling.walks.transitions import graph_transitions

_EPSILON = 0.5
_DELTA = 1e-4
_FAILURE = 0.01
# Sources in one task: enough to outweigh its overhead, few enough for balance, the progress bar and
# interruption; walks may take a second a source.
_TASK_SOURCES, _TASK_SOURCES_WALKED = 64, 8


@dataclass(frozen=True, eq=False, repr=False)
class LocalPageRankResult:
    """Personalised PageRank of some source nodes; see `graphrf.pagerank.local_pagerank`.

    Attributes
    ----------
    scores : scipy.sparse.csr_array, shape (n_sources, N), float64
        A row for every source, with at most `k` entries if `k` was given.
    stderr : scipy.sparse.csr_array of the same pattern, or None without walks
        Standard error of each score from 16 independent batches of walks. It is 0 without visits,
        even if the score is not exact, and rough for rarely visited nodes.
    sources : ndarray of int64, shape (n_sources,)
        Positions of the source nodes.
    residual : ndarray, shape (n_sources,)
        Mass left after pushing: estimated by walks or, without them, the L1 error of the row before
        the cut to `k` entries.
    pushes, walks, steps, touched : ndarray of int64, shape (n_sources,)
        `touched` counts distinct nodes.
    delta : ndarray, shape (n_sources,), or None without walks
        The guarantee covers nodes with a score of at least `delta`.
    epsilon, failure, seed : None without walks
    max_residual : float, or None with walks
    p_halt : float
    k : int or None
    nodes : sequence of N names, the positions if the graph has none
    """

    scores: sp.csr_array
    stderr: sp.csr_array | None
    sources: np.ndarray
    residual: np.ndarray
    pushes: np.ndarray
    walks: np.ndarray
    steps: np.ndarray
    touched: np.ndarray
    delta: np.ndarray | None
    epsilon: float | None
    failure: float | None
    max_residual: float | None
    seed: int | None
    p_halt: float
    k: int | None
    nodes: Sequence[Hashable] = field(repr=False)
    _single: bool

    def top(self, k: int | None = None) -> list[Any]:
        """The `k` best nodes as pairs (name, score), best first; lists of such for several.

        Default: the `k` of the query, else 10. Fewer if fewer nodes have a score. Ties in the order
        of the nodes.
        """
        positions, scores = self.best(k)
        lists = [
            [
                (self.nodes[position], score)
                for position, score in zip(row, values, strict=True)
                if position >= 0
            ]
            for row, values in zip(positions.tolist(), scores.tolist(), strict=True)
        ]
        return lists[0] if self._single else lists

    def best(self, k: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Positions and scores of the `k` best nodes, (n_sources, k) each; missing: -1 and 0."""
        if k is None:
            k = 10 if self.k is None else self.k
        k = min(checks.integer("k", k, low=0), self.scores.shape[1])
        positions = np.full((self.sources.size, k), -1, dtype=np.int64)
        values = np.zeros((self.sources.size, k))
        for row in range(self.sources.size):
            best = self._best_entries(row, k)
            positions[row, : best.size] = self.scores.indices[best]
            values[row, : best.size] = self.scores.data[best]
        return positions, values

    def _best_entries(self, row: int, k: int) -> np.ndarray:
        """Positions, in the data of `scores`, of a row's `k` largest entries, largest first."""
        first, last = self.scores.indptr[row : row + 2]
        return first + np.argsort(-self.scores.data[first:last], kind="stable")[:k]

    def __repr__(self) -> str:
        return f"LocalPageRankResult({self._facts()})"

    def _repr_html_(self) -> str:
        """A table for notebooks: ten nodes of one source, or three of each of the first five."""
        rows: list[list[Any]] = []
        for row in range(min(self.sources.size, 5)):
            for entry in self._best_entries(row, 10 if self.sources.size == 1 else 3):
                names = (
                    self.nodes[int(node)]
                    for node in (self.sources[row], self.scores.indices[entry])
                )
                rows.append([*map(html.short_name, names), float(self.scores.data[entry])])
                if self.stderr is not None:
                    rows[-1].append(float(self.stderr.data[entry]))
        header = ["source", "node", "score", *([] if self.stderr is None else ["standard error"])]
        return html.table(f"LocalPageRankResult: {self._facts()}", rows, header)

    def _facts(self) -> str:
        if self.max_residual is not None:
            how = f"max_residual={self.max_residual:g}"
        else:
            how = f"epsilon={self.epsilon:g}, {self.walks.sum()} walks, {self.steps.sum()} steps"
        touched = self.touched.mean() if self.touched.size else 0
        return (
            f"{html.count(self.sources.size, 'source')}, {self.scores.shape[1]} nodes, "
            f"p_halt={self.p_halt:g}, {how}, {touched:.0f} nodes touched a source"
        )


@without_alpha
def local_pagerank(
    graph: Graph,
    sources: NodesLike,
    *,
    k: int | None = None,
    p_halt: float = 0.15,
    epsilon: float | None = None,
    delta: float | None = None,
    failure: float | None = None,
    max_residual: float | None = None,
    seed: int | None = None,
    n_threads: int | None = None,
    progress: bool = False,
) -> LocalPageRankResult:
    r"""Personalised PageRank of nodes, each from its neighbourhood; p_halt = 1 - alpha of networkx.

    .. math:: \rho_s = p e_s + (1 - p) (P^T \rho_s + \delta_s e_s), \qquad
              \delta_s = \sum_{i\ \text{dangling}} \rho_{s,i}, \qquad P = D^{-1} A,

    for every source s. First, mass is pushed exactly from the source along edges; then walks from
    the residual mass estimate the rest ([theory](../theory/pagerank.md#local-queries)). Only the
    neighbourhood is visited, so the cost does not grow with the graph. For a few sources on a small
    graph, or for a personalisation with many nodes, use `pagerank`.

    Sources: Andersen, Chung and Lang, FOCS 2006 (push); Wang, Yang, Xiao, Wei and Yang, FORA, KDD
    2017 (walks by their end points, for single nodes; here visits, for all nodes at once).

    Parameters
    ----------
    graph : Graph
        Directed or not, weighted or not; self-loops count. From a node without edges the chain
        jumps to the source, as in networkx with all personalisation on the source.
    sources : position or name, or array_like of n_sources of them
        Integers are positions, unlike keys of `personalization`, and are refused if they could also
        be names: `graph.index([...])` converts names, `graph.positions([...])` positions. Nodes may
        repeat.
    k : int, optional
        Return the `k` best nodes of each source. Default: every node touched, N at most.
    p_halt : float in (0, 1)
        Probability of halting before each step; at least 1e-6.
    epsilon : float in (0, 0.5], optional
        Relative error of the guarantee; default 0.5. Typical errors are a small part of it, see
        `stderr`. The number of walks grows as 1 / epsilon^2.
    delta : float in (0, 1), optional
        Smallest score that the guarantee covers; default 1 / N, but at least 1e-4, so that the cost
        does not grow with N. With `k` it is raised to a lower bound on the k-th best score if that
        is larger. The number of walks grows as 1 / delta.
    failure : float in (0, 0.25], optional
        Probability at which the guarantee may fail for a source; default 0.01.
    max_residual : float, optional
        Push only: no walks, nothing random, no `epsilon`, `delta`, `failure`, `seed`. Pushes until
        no node holds more residual than this for each of its edges (a node without edges counts as
        one). 1e-4 is usual for features of graph neural networks.
    seed : int in [0, 2^63), optional
        None draws one, which the result records. The same seed gives the same bits on any number of
        threads and for any other source nodes.
    n_threads : int, optional
        Default: the cores that the process may use. Source nodes are shared out among them.
    progress : bool
        Show a progress bar on standard error.

    Returns
    -------
    LocalPageRankResult
        scores and stderr (n_sources, N) sparse, residual mass, pushes, walks, steps, touched nodes;
        `.top(k)` with names, `.best(k)` with positions in arrays.

    Raises
    ------
    TypeError, ValueError
        If arguments are out of range or incompatible, or there are no sources.

    Notes
    -----
    With walks, for each source with a probability of at least 1 - failure, for all nodes t at once,
    with delta = `result.delta`:

    - where rho_t >= delta, the score differs from rho_t by at most epsilon rho_t;
    - where rho_t < delta, the score is less than (1 + epsilon) delta, so a score of that size
      certifies rho_t >= delta;
    - with `k`, for every i such that i nodes have rho >= delta: the i-th best score is at least 1 -
      epsilon times the i-th best rho, and the node that has it has at least
      ((1 - epsilon) / (1 + epsilon))^2 times that rho.

    The score of a given node is unbiased; those of the k best are slightly too high by selection.

    Push only: score_t <= rho_t for all t, and the differences add up to `residual` (before the cut
    to `k`). If the graph is undirected with equal weights, they are at most `max_residual` times
    the number of edges of t.

    Cost: pushing goes along at most 1 / (p max_residual) edges. With walks, it continues until its
    cost is about that of the walks, of 1 / p steps on average, or it no longer pays. For a hub
    whose neighbours all have small scores, a large k, or a small p_halt, `pagerank` is soon faster.
    Memory: 110 to 600 bytes for each touched node and thread, and 20 bytes for each score returned.
    The first call on a graph takes O(N + edges) for its walk arrays, which are kept as long as the
    graph.

    Examples
    --------
    >>> import graphrf as grf
    >>> from graphrf.pagerank import local_pagerank
    >>> star = grf.Graph([[0, 1, 1], [1, 0, 0], [1, 0, 0]], nodes=["hub", "a", "b"])
    >>> result = local_pagerank(star, "a", k=2, max_residual=1e-9)
    >>> [(node, round(score, 6)) for node, score in result.top()]
    [('hub', 0.459459), ('a', 0.34527)]
    >>> local_pagerank(star, ["a", "b"], seed=1).scores.shape
    (2, 3)
    """
    asked = checked_queries(
        graph,
        sources,
        k=k,
        p_halt=p_halt,
        epsilon=epsilon,
        delta=delta,
        failure=failure,
        max_residual=max_residual,
        seed=seed,
    )
    n_threads = thread_count(n_threads)
    checks.flag("progress", progress)
    tasks = source_tasks(asked, n_threads)
    walk_arrays = graph_transitions(graph)
    blocks = ordered_map(
        lambda task: local_rows(*walk_arrays, task, asked.query, asked.key), tasks, n_threads
    )
    return assembled(asked, tasks, enumerate(blocks), progress=progress)


class LocalQueries(NamedTuple):
    """Valid arguments of `local_pagerank`; `single` if one node was given, and not a list."""

    graph: Graph
    positions: np.ndarray
    single: bool
    query: Query
    seed: int | None

    @property
    def key(self) -> np.uint64:
        """The seed for the loops."""
        return np.uint64(self.seed or 0)


def checked_queries(
    graph: Graph,
    sources: Any,
    *,
    k: int | None,
    p_halt: float,
    epsilon: float | None,
    delta: float | None,
    failure: float | None,
    max_residual: float | None,
    seed: int | None,
) -> LocalQueries:
    """Valid arguments of `local_pagerank`, with their defaults."""
    require_graph(graph)
    p_halt = walks_halt(p_halt)
    positions, single = _source_nodes(graph, sources)
    best = 0 if k is None else min(checks.integer("k", k, low=1), graph.n_nodes)
    if max_residual is not None:
        limit = checks.number("max_residual", max_residual, low=0, include_low=False)
        for name, value in (
            ("epsilon", epsilon),
            ("delta", delta),
            ("failure", failure),
            ("seed", seed),
        ):
            if value is not None:
                raise checks.value_error(
                    name,
                    f"must be None with `max_residual`, which asks for pushes only, got {value!r}; "
                    "leave one of the two out",
                )
        return LocalQueries(
            graph, positions, single, Query(p_halt, best, limit, 1.0, 1.0, 1.0, 1.0), None
        )
    seed = checks.seed(seed)
    epsilon = _EPSILON if epsilon is None else epsilon
    epsilon = checks.number("epsilon", epsilon, low=0, high=0.5, include_low=False)
    delta = max(1 / max(2, graph.n_nodes), _DELTA) if delta is None else delta
    delta = checks.number("delta", delta, low=0, high=1, include_low=False, include_high=False)
    failure = _FAILURE if failure is None else failure
    failure = checks.number("failure", failure, low=0, high=0.25, include_low=False)
    query = Query(
        p_halt,
        best,
        0.0,
        epsilon,
        delta,
        failure,
        visit_variance_bound(p_halt, _largest_loop(graph)),
    )
    return LocalQueries(graph, positions, single, query, seed)


def visit_variance_bound(p_halt: float, loop: float) -> float:
    """The bound s on E X^2 / E X for the score X of one walk at one node, p_halt for each visit.

    `loop` is the largest probability of a step from a node to itself; otherwise a return takes two
    steps.
    """
    back = (1 - p_halt) * (loop + (1 - loop) * (1 - p_halt))
    return p_halt * (1 + back) / (1 - back)


def _source_nodes(graph: Graph, sources: Any) -> tuple[np.ndarray, bool]:
    """Positions of the source nodes, and True if `sources` is one node rather than a list."""
    if sources is None:
        raise checks.type_error(
            "sources", "must be a node or a list of nodes, got None; graph.positions() is all"
        )
    positions = given_nodes(graph, sources, "sources")
    if positions.size == 0:
        raise checks.value_error("sources", "must hold at least one node, got none")
    return positions, is_one_node(graph, sources)


# Queries come one by one, and this takes a pass over the whole graph.
_known_loops: weakref.WeakKeyDictionary[Graph, float] = weakref.WeakKeyDictionary()


def _largest_loop(graph: Graph, chunk_size: int = CHUNK) -> float:
    """The largest probability of a step from a node to itself.

    An undirected graph has 2 n_edges - nnz loops. If there are some, it is read once, in chunks.
    """
    adjacency = graph.adjacency
    if not graph.directed and 2 * graph.n_edges == adjacency.nnz:
        return 0.0
    if graph not in _known_loops:
        largest = 0.0
        for first, counts, piece in row_pieces(adjacency.indptr, chunk_size):
            rows = np.repeat(np.arange(first, first + counts.size), counts)
            at = np.flatnonzero(adjacency.indices[piece] == rows)
            largest = max(
                largest,
                float((adjacency.data[piece][at] / graph.degrees[rows[at]]).max(initial=0.0)),
            )
        _known_loops[graph] = largest
    return _known_loops[graph]


QueryRows = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]
"""The result of `local_rows` for a task, a block of sources."""


def source_tasks(asked: LocalQueries, n_threads: int, *, times: int = 1) -> list[np.ndarray]:
    """The sources in blocks for all threads, `times` as large if starting a task costs more."""
    most = times * (_TASK_SOURCES if asked.query.limit > 0 else _TASK_SOURCES_WALKED)
    n = asked.positions.size
    size = int(np.clip(n // (8 * n_threads), 1, most))
    return [asked.positions[first : first + size] for first in range(0, n, size)]


def assembled(
    asked: LocalQueries,
    tasks: Sequence[np.ndarray],
    blocks: Iterable[tuple[int, QueryRows]],
    *,
    progress: bool,
) -> LocalPageRankResult:
    """The result from numbers and rows of tasks in any order, with a progress bar."""
    rows: dict[int, QueryRows] = {}
    with progress_bar(
        "local PageRank", progress, total=asked.positions.size, unit="sources"
    ) as bar:
        for number, block in blocks:
            rows[number] = block
            bar.update(tasks[number].size)
    scores, errors, record = _as_sparse(
        [rows[number] for number in range(len(tasks))], (asked.positions.size, asked.graph.n_nodes)
    )
    counts = record[:, 1:5].astype(np.int64)
    query = asked.query
    walked = query.limit == 0
    return LocalPageRankResult(
        scores=scores,
        stderr=errors if walked else None,
        sources=asked.positions,
        residual=record[:, 0].copy(),
        pushes=counts[:, 0],
        walks=counts[:, 1],
        steps=counts[:, 2],
        touched=counts[:, 3],
        delta=record[:, 5].copy() if walked else None,
        epsilon=query.epsilon if walked else None,
        failure=query.failure if walked else None,
        max_residual=None if walked else query.limit,
        seed=asked.seed,
        p_halt=query.p_halt,
        k=query.k or None,
        nodes=asked.graph.nodes,
        _single=asked.single,
    )


def _as_sparse(
    rows: list[QueryRows], shape: tuple[int, int]
) -> tuple[sp.csr_array, sp.csr_array, np.ndarray]:
    """Scores and errors as canonical CSR arrays of one pattern, and the record of each source."""
    counts = np.concatenate([np.diff(ends) for ends, *_ in rows])
    nodes, scores, errors, record = (
        np.concatenate([block[i] for block in rows]) for i in range(1, 5)
    )
    index_type = np.int32 if max(nodes.size, shape[1]) < 2**31 else np.int64
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(index_type)
    # This is 6 times faster than lexsort.
    order = np.argsort(np.repeat(np.arange(shape[0]), counts) * shape[1] + nodes)
    indices = nodes[order].astype(index_type)
    return (
        sp.csr_array((scores[order], indices, indptr), shape=shape),
        sp.csr_array((errors[order], indices, indptr), shape=shape),
        record,
    )
