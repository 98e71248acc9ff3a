"""Graphs from graphs and matrices of other libraries: networkx, scipy.sparse, PyG and others."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from graphrf._base import checks
from graphrf._base.files.untrusted import short
from graphrf.graph import notices
from graphrf.graph.builders import _exponent, from_edges
from graphrf.graph.edges import Weights, checked_weights, host_array, merged_adjacency
from graphrf.graph.graph import Graph
from graphrf.graph.other_graphs import (
    Attributes,
    OtherGraph,
    lengths_in_degrees,
    numbered_streets,
    numbers_of_edges,
)

_LOST_DIRECTIONS = (
    "this MultiDiGraph is read as a road graph, without the directions of its edges: pass "
    "directed=True to keep them, or directed=False to drop them without this warning"
)


def from_networkx(graph: Any, weights: Weights, directed: bool | None) -> Graph:
    """The graph of a networkx graph."""
    weights.check()
    # OSMnx's graphs are multigraphs, but its GraphML
    # files without parallel roads are read as DiGraph.
    streets = "crs" in graph.graph
    roads = graph.is_multigraph() or streets
    keep = bool(directed) if directed is not None else graph.is_directed() and not roads
    if keep and not graph.is_directed():
        return with_directions(from_networkx(graph, weights, False))

    nodes, pairs = list(graph), list(graph.edges())
    if not nodes:
        raise checks.value_error(
            "source", "must have at least one node, got an empty networkx graph"
        )

    src, dst = _ends(graph, nodes, pairs)
    name = weights.name
    values = None if name is None else _values(graph, name, pairs, weights)
    distances, unused = notices.of_weights(name, Attributes(graph), weights)
    remarks = [distances, lengths_in_degrees(graph, name, values), unused]

    if graph.is_multigraph() and (keep or not streets):
        lengths = np.ones(len(pairs)) if values is None else values
        arcs = sp.csr_array((lengths, (src, dst)), (len(nodes),) * 2)
        remarks += _of_parallel_roads(
            arcs, len(pairs), weights, directed is None and graph.is_directed()
        )
    notices.warn_together(remarks)

    if graph.is_directed() and not keep:
        src, dst, values = _loops_once(graph, src, dst, values)
    adjacency = merged_adjacency(
        len(nodes), src, dst, values, weights.kind, keep, loops_twice=False
    )
    return Graph(adjacency, nodes=nodes, directed=keep)


def _values(graph: Any, name: str | int, pairs: list[Any], weights: Weights) -> np.ndarray:
    """The weights or distances of all edges."""
    numbers = numbers_of_edges(graph, name)
    return checked_weights(
        numbers, len(pairs), weights.kind, lambda edge: f"edge {short(pairs[edge])}"
    )


def _loops_once(
    graph: Any, src: np.ndarray, dst: np.ndarray, values: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Edges without the second direction of each loop, which counts if edges have values."""
    if values is None or not (src == dst).any():
        return src, dst, values
    first = (src != dst) | ~np.array(numbered_streets(graph, values.tolist())[1])
    return src[first], dst[first], values[first]


def _of_parallel_roads(
    arcs: sp.csr_array, n_edges: int, weights: Weights, loses_directions: bool
) -> list[str]:
    """Remarks on parallel edges that count once, and on directions that are dropped."""
    remarks = (
        [notices.of_parallel_edges(n_edges - arcs.nnz, n_edges)] if weights.given is None else []
    )
    return [*remarks, _LOST_DIRECTIONS] if loses_directions and (arcs != arcs.T).nnz else remarks


def _ends(graph: Any, nodes: list[Any], pairs: list[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Positions of the ends of edges, the smaller one first in an undirected graph."""
    positions = {node: position for position, node in enumerate(nodes)}
    ends = (positions[node] for pair in pairs for node in pair)
    src, dst = np.fromiter(ends, dtype=np.int64, count=2 * len(pairs)).reshape(-1, 2).T
    return (src, dst) if graph.is_directed() else (np.minimum(src, dst), np.maximum(src, dst))


def from_other(graph: OtherGraph, weights: Weights, directed: bool | None) -> Graph:
    """The graph of igraph, rustworkx, networkit or DGL."""
    weights.check()
    keep = graph.directed if directed is None else directed
    values: Any = graph.values(weights.name)
    if values is not None:
        values = checked_weights(values, len(graph.src), weights.kind, lambda edge: f"edge {edge}")
    adjacency = merged_adjacency(
        graph.n_nodes,
        graph.src,
        graph.dst,
        values,
        weights.kind,
        keep and graph.directed,
        graph.directed,
    )
    remarks = notices.of_weights(weights.name, graph.attributes, weights)
    if weights.given is None:
        repeated = len(graph.src) - adjacency.nnz if keep and graph.directed else 0
        remarks.append(notices.of_parallel_edges(repeated, len(graph.src)))
    notices.warn_together(remarks)
    return Graph(adjacency, nodes=graph.nodes, directed=keep)


def from_matrix(matrix: Any, weights: Weights, directed: bool | None) -> Graph:
    """The graph of an adjacency matrix, or of a matrix of distances."""
    if weights.given is not None:
        refuse_weights(weights, "a matrix, whose entries are the weights")
    if (
        weights.kind == "similarity"
        or getattr(matrix, "dtype", np.dtype(object)).kind not in "biuf"
    ):
        return Graph(matrix, directed=bool(directed))

    lengths = sp.coo_array(matrix)
    lengths.sum_duplicates()

    def place(entry: int) -> str:
        return f"entry [{lengths.row[entry]}, {lengths.col[entry]}]"

    values = checked_weights(lengths.data, lengths.nnz, "distance", place)
    # An undirected matrix lists every edge but the self-loops twice; each counts once in the mean.
    share = np.where((lengths.row == lengths.col) | bool(directed), 1.0, 0.5)
    # This is exact; the mean of large distances would overflow.
    relative = np.ldexp(values, -_exponent(values))
    mean = float(np.average(relative, weights=share)) if values.size else 1.0
    with np.errstate(over="ignore", divide="ignore"):  # what is infinite is refused by Graph
        adjacency = sp.coo_array((mean / relative, (lengths.row, lengths.col)), shape=lengths.shape)
    return Graph(adjacency, directed=bool(directed))


def from_pyg(data: Any, weights: Weights, directed: bool | None) -> Graph:
    """The graph of the `edge_index` of a PyG `Data`."""
    edge_index = host_array(data.edge_index)
    if edge_index.ndim != 2 or edge_index.shape[0] != 2 or edge_index.dtype.kind not in "iu":
        raise checks.value_error(
            "edge_index", f"must be integers of shape (2, E), got {checks.describe(edge_index)}"
        )

    values = _pyg_weights(data, weights.name)
    weights.check()
    src, dst = edge_index
    n_nodes = getattr(data, "num_nodes", None)
    held = getattr(data, "edge_weight", None)
    attributes = {} if held is None else {"edge_weight": host_array(held).ravel()}
    notices.warn_together(notices.of_weights(weights.name, attributes, weights))

    if directed is None:
        both = from_edges(
            src,
            dst,
            False if values is None else values,
            n_nodes=n_nodes,
            directed=True,
            weight_is=weights.kind,
        ).adjacency
        # Weights computed in float32 for each direction may differ by rounding.
        if both.nnz and abs(both - both.T).max() > 1e-6 * both.max():
            raise checks.value_error(
                "edge_index",
                "must list every edge in both directions with one weight, but some are not; "
                "pass directed=True to keep directions, directed=False to drop them",
            )

    if weights.given is False:
        values = False
    return from_edges(
        src, dst, values, n_nodes=n_nodes, directed=bool(directed), weight_is=weights.kind
    )


def _pyg_weights(data: Any, name: str | int | None) -> Any:
    """The attribute of a PyG `Data` that has the weights; None without a name."""
    if name is None:
        return None
    attribute = getattr(data, str(name), None)
    if attribute is None:
        raise checks.value_error(
            "weight", f"must be an attribute of the Data, which has no {name!r}"
        )
    values = host_array(attribute)
    return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values


def refuse_weights(weights: Weights, what: str) -> None:
    """Options of weights are refused, not ignored, where they mean nothing."""
    if weights.given is not None or weights.kind != "similarity":
        given = (
            f"weight_is={weights.kind!r}" if weights.given is None else f"weight={weights.given!r}"
        )
        raise checks.value_error(
            "weight", f"and `weight_is` belong to edges with attributes, got {given} for {what}"
        )


def with_directions(graph: Graph) -> Graph:
    """The directed graph that has every edge in both directions."""
    names = graph.nodes if graph.has_names else None
    return Graph(graph.adjacency, nodes=names, directed=True)
