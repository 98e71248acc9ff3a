"""PageRank as a backend of networkx: `nx.pagerank(G, backend="graphrf")`.

networkx finds this module through the entry point `networkx.backends`; what it asks while it is
imported is in `graphrf.pagerank.networkx_info`. Only `pagerank` is implemented; every other
function stays with networkx. A `graphrf.Graph` is taken as it is: `nx.pagerank(graph)`.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import networkx as nx
import numpy as np
import scipy.sparse as sp

from graphrf._base import checks
from graphrf.graph.graph import Graph

METHODS = ("power", "walks")

# Below this number of nodes networkx takes milliseconds, less than loading the compiled loops.
_FEWEST_NODES = 1000


class BackendGraph:
    """A networkx graph made ready for this backend: nodes in order, weights as a `Graph`.

    `weight` names the attribute that the weights were read from, None if every edge counts 1;
    `weighted` is None without nodes; `unit` has weights of 1 for every edge, parallel ones added,
    where that is not simply the pattern of `weighted`.
    """

    __networkx_backend__ = "graphrf"

    def __init__(
        self,
        nodes: list[Hashable],
        directed: bool,
        weight: Hashable,
        weighted: Graph | None,
        unit: Graph | None = None,
    ) -> None:
        self.nodes = nodes
        self.weight = weight
        self._directed = directed
        self._weighted = weighted
        self._unit = unit
        self.__networkx_cache__: dict[str, Any] = {}

    def graph(self, weight: Hashable) -> Graph:
        """The graph with the weights `weight`, an edge's attribute, or None for 1."""
        if self._weighted is None:
            raise checks.value_error("graph", "has no nodes")
        if weight == self.weight:
            return self._weighted
        if weight is not None:
            raise checks.value_error(
                "weight",
                f"must be {self.weight!r}, the name of this graph's weights, or None, got "
                f"{weight!r}; a networkx graph is converted with other weights by "
                f"edge_attrs={{{weight!r}: 1}}",
            )
        if self._unit is None:
            adjacency = self._weighted.adjacency
            ones = (np.ones(adjacency.nnz), adjacency.indices, adjacency.indptr)
            self._unit = Graph(sp.csr_array(ones, shape=adjacency.shape), directed=self._directed)
        return self._unit

    def is_directed(self) -> bool:
        """True if edges have a direction."""
        return self._directed

    def is_multigraph(self) -> bool:
        """False: parallel edges were added."""
        return False

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Any:
        return iter(self.nodes)

    def __repr__(self) -> str:
        return f"BackendGraph({len(self.nodes)} nodes, weight={self.weight!r}, {self._weighted!r})"


# -- conversion ------------------------------------------------------------------------------------


def convert_from_nx(
    graph: Any, *, edge_attrs: Mapping[Hashable, Any] | None = None, **others: Any
) -> BackendGraph:
    """A networkx graph of any kind as a `BackendGraph`, by one pass over its adjacency.

    `edge_attrs` maps one attribute, where the weights are read from, to its default; parallel edges
    are added. Without it every edge counts 1. The other arguments are those of networkx; attributes
    are not kept. NotImplementedError for weights that are negative or not finite, so that networkx
    computes with them itself.
    """
    weight, default = None, 1
    if edge_attrs:
        if len(edge_attrs) > 1:
            raise NotImplementedError(
                f"graphrf converts one attribute of the edges, not {list(edge_attrs)}"
            )
        [(weight, default)] = edge_attrs.items()
    nodes = list(graph)
    directed = graph.is_directed()
    if not nodes:
        return BackendGraph(nodes, directed, weight, None)
    # The views of `graph.adj` would take several times as long.
    rows = [graph._adj[node] for node in nodes]
    indptr = np.zeros(len(nodes) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, rows), dtype=np.int64, count=len(rows)), out=indptr[1:])
    entries = int(indptr[-1])
    heads: Iterable[Any] = itertools.chain.from_iterable(rows)
    if nodes != list(range(len(nodes))):
        heads = map(dict(zip(nodes, range(len(nodes)), strict=True)).__getitem__, heads)
    indices = np.fromiter(heads, dtype=np.int64, count=entries)
    edges = itertools.chain.from_iterable(row.values() for row in rows)

    def made(values: np.ndarray) -> Graph:
        matrix = sp.csr_array((values, indices, indptr), shape=(len(nodes), len(nodes)))
        try:
            return Graph(matrix, directed=directed)
        except ValueError as error:
            raise NotImplementedError(f"graphrf cannot convert this graph: {error}") from error

    counts, values = _edge_values(list(edges), weight, default, graph.is_multigraph())
    if values is None:
        return BackendGraph(nodes, directed, weight, made(counts))
    ones = bool((values > 0).all() and (counts == 1).all())
    return BackendGraph(nodes, directed, weight, made(values), None if ones else made(counts))


def _edge_values(
    edges: list[Any], weight: Hashable | None, default: Any, parallel: bool
) -> tuple[np.ndarray, np.ndarray | None]:
    """Numbers of parallel edges between neighbours, and total weights (None if unweighted)."""
    if parallel:
        counts = np.fromiter(map(len, edges), dtype=np.float64, count=len(edges))
        totals = (sum(data.get(weight, default) for data in keys.values()) for keys in edges)
    else:
        counts = np.ones(len(edges))
        totals = (data.get(weight, default) for data in edges)
    return counts, None if weight is None else np.array(list(totals), dtype=np.float64)


def convert_to_nx(obj: Any, *, name: str | None = None) -> Any:
    """A `BackendGraph` or `Graph` as a networkx graph with weights; all else as it is."""
    if isinstance(obj, Graph):
        return obj.to_networkx()
    if not isinstance(obj, BackendGraph):
        return obj
    made = nx.DiGraph() if obj.is_directed() else nx.Graph()
    made.add_nodes_from(obj.nodes)
    if len(obj):
        matrix = sp.coo_array(obj.graph(obj.weight).adjacency)
        rows, columns = (
            map(obj.nodes.__getitem__, ends.tolist()) for ends in (matrix.row, matrix.col)
        )
        if obj.weight is None:
            made.add_edges_from(zip(rows, columns, strict=True))
        else:
            made.add_weighted_edges_from(
                zip(rows, columns, matrix.data.tolist(), strict=True), weight=obj.weight
            )
    return made


# -- whether to run --------------------------------------------------------------------------------


def can_run(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool | str:
    """True, or why networkx should not call this backend with these arguments."""
    if name != "pagerank":
        return "only pagerank is implemented"
    alpha = args[1] if len(args) > 1 else kwargs.get("alpha", 0.85)
    return True if 0 < alpha < 1 else "alpha must be between 0 and 1, ends excluded"


def should_run(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool | str:
    """True, or why networkx should rather not choose this backend by itself.

    Never for estimates, which must be asked for with `backend="graphrf"`; not for small graphs,
    which networkx ranks before the compiled loops are loaded. Converting others takes less time
    than networkx's own reading.
    """
    if kwargs.get("method", "power") != "power":
        return "estimates are made only with backend='graphrf'"
    graph = args[0] if args else kwargs["G"]
    if not isinstance(graph, BackendGraph | Graph) and len(graph) < _FEWEST_NODES:
        return "the graph is too small to be worth it"
    return True


# -- the algorithm ---------------------------------------------------------------------------------


def pagerank(
    G: BackendGraph | Graph,
    alpha: float = 0.85,
    personalization: Mapping[Hashable, float] | None = None,
    max_iter: int = 100,
    tol: float = 1.0e-6,
    nstart: Mapping[Hashable, float] | None = None,
    weight: Hashable = "weight",
    dangling: Mapping[Hashable, float] | None = None,
    *,
    method: str = "power",
    **walk_options: Any,
) -> dict[Hashable, float]:
    r"""PageRank of a networkx graph, as `networkx.pagerank` returns it.

    .. math:: \rho \leftarrow (1 - \alpha) v + \alpha (P^T \rho + \delta u), \qquad
              \delta = \sum_{i\ \text{dangling}} \rho_i.

    Cost: O(nnz) per iteration, beside the conversion of the graph, which networkx keeps with the
    graph.

    Parameters
    ----------
    G : BackendGraph or Graph
        What `convert_from_nx` makes, or a `graphrf.Graph`, whose weights have the name "weight".
    alpha, personalization, max_iter, nstart, weight, dangling
        See networkx.
    tol : float
        Iteration stops when the L1 norm of the change is below `tol`. networkx stops at N `tol`,
        which on a large graph is no condition at all; after `max_iter` iterations what it would
        accept is accepted.
    method : {"power", "walks"}
        "walks" estimates the scores by `graphrf.pagerank.estimate`, without `tol`, `max_iter` and
        `nstart`.
    **walk_options
        With method="walks": n_walks, estimator, coupling, n_batches, seed, n_threads, progress of
        `graphrf.pagerank.estimate`.

    Returns
    -------
    dict of nodes to float, in the order of the nodes

    Raises
    ------
    networkx.PowerIterationFailedConvergence
        If the change is not below N `tol` after `max_iter` iterations.
    ZeroDivisionError
        If `personalization` has only zeros for the nodes of the graph.
    NotImplementedError
        For negative or infinite values, with which only networkx computes.

    Examples
    --------
    >>> import networkx as nx
    >>> path = nx.DiGraph(nx.path_graph(4))
    >>> {
    ...     node: round(score, 4)
    ...     for node, score in nx.pagerank(path, alpha=0.9, backend="graphrf").items()
    ... }
    {0: 0.1724, 1: 0.3276, 2: 0.3276, 3: 0.1724}
    """
    # Imported here, because they load the compiled loops, which other uses of networkx do without.
    from graphrf.pagerank.estimates import estimate
    from graphrf.pagerank.power import iterate
    from graphrf.pagerank.result import PageRankResult

    checks.choice("method", method, METHODS)
    if method == "power" and walk_options:
        raise TypeError(
            f"pagerank() got unexpected arguments for method='power': {sorted(walk_options)}"
        )
    if isinstance(G, Graph):
        G = BackendGraph(list(G.nodes), G.directed, "weight", G)
    n = len(G)
    if n == 0:
        return {}
    graph = G.graph(weight)
    start = _vector(G, nstart, "nstart")
    v = _vector(G, personalization, "personalization")
    u = _vector(G, dangling, "dangling")
    if method == "walks":
        if u is not None:
            raise checks.value_error(
                "dangling", "needs method='power': walks jump to the personalization"
            )
        return _by_node(
            G, estimate(graph, p_halt=1 - alpha, personalization=v, **walk_options).scores
        )
    if max_iter < 1 or tol <= 0:
        raise nx.PowerIterationFailedConvergence(max_iter)

    def iterated(plain: bool) -> PageRankResult:
        return iterate(
            graph,
            p_halt=1 - alpha,
            personalization=v,
            dangling=u,
            # networkx's own start, so that plain iterations are its own.
            start=np.ones(n) if start is None else start,
            tol=tol * alpha / (1 - alpha),
            max_iter=max_iter,
            plain=plain,
        )

    result = iterated(plain=False)
    if not result.residual < n * tol:
        # Where few iterations are allowed, plain ones may
        # be enough while longer steps have not paid yet.
        result = iterated(plain=True)
    if not result.residual < n * tol:
        raise nx.PowerIterationFailedConvergence(max_iter)
    return _by_node(G, result.scores)


def _by_node(G: BackendGraph, scores: np.ndarray) -> dict[Hashable, float]:
    return dict(zip(G.nodes, scores.tolist(), strict=True))


def _vector(
    G: BackendGraph, given: Mapping[Hashable, float] | None, name: str
) -> np.ndarray | None:
    """A mapping as networkx reads it: missing nodes have 0, other keys are passed over."""
    if given is None:
        return None
    values = np.array([given.get(node, 0) for node in G.nodes], dtype=np.float64)
    if name == "personalization" and values.sum() == 0:
        raise ZeroDivisionError("`personalization` has only zeros for the nodes of the graph")
    if not ((values >= 0).all() and np.isfinite(values).all() and values.any()):
        raise NotImplementedError(
            f"graphrf needs a finite `{name}` that is not negative and not all zero"
        )
    return values
