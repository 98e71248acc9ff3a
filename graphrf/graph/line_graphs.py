"""Line graphs: the edges of a source become nodes, which are joined where they share an end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from graphrf._base import checks
from graphrf._base.files.untrusted import listed, short
from graphrf._base.memory import require_memory
from graphrf.graph import notices, tables
from graphrf.graph.edges import Weights, checked_weights
from graphrf.graph.files.text_files import EdgeList
from graphrf.graph.geometry import maps
from graphrf.graph.graph import Graph
from graphrf.graph.other_graphs import Attributes, lengths_in_degrees, numbers_of_edges, other_graph


class _Ends(NamedTuple):
    """E edges by their ends: pairs for the ends of an edge, of which parts may have several."""

    edge: np.ndarray
    junction: np.ndarray
    names: Sequence[Hashable]  # of all edges
    values: Any  # of the attribute of the weights, (E,); None without
    attributes: Mapping[str, Iterable[Any]]
    remark: str = ""

    @classmethod
    def of(cls, src: np.ndarray, dst: np.ndarray, *of_edges: Any) -> _Ends:
        """Edges of two ends each, with what follows in the fields."""
        return cls(np.tile(np.arange(len(src)), 2), np.concatenate([src, dst]), *of_edges)


def line_graph(
    source: Any, weights: Weights, columns: tuple[str | int, str | int] | None, tolerance: Any
) -> Graph:
    """The graph of the edges of a data frame, a map of lines, or a graph of another library."""
    as_table = tables.is_table(source)
    if columns is not None and not as_table:
        raise checks.value_error(
            "columns", f"belong to tables and files of edges, got a {type(source).__name__}"
        )

    if columns is None and maps.is_map(source) and not tables.names_ends(source):
        lines = maps.lines_of_map(source, tolerance)
        values, attributes, remark = maps.weights_of_lines(source, weights.name)
        remarks = ". ".join(filter(None, [remark, *lines.remarks]))
        of_lines = _Ends(
            np.tile(lines.row, 2), lines.ends.T.ravel(), _rows(source), values, attributes, remarks
        )
        return _joined(of_lines, weights, lambda edge: f"row {edge}")

    if tolerance is not None:
        raise checks.value_error("tolerance", f"belongs to maps and meshes, got {tolerance!r}")
    if as_table:
        _require_ends(source, columns)
        return of_edge_list(
            "row", tables.edges_of_table(source, columns, weights.name), weights, _rows(source)
        )

    networkx = sys.modules.get("networkx")
    if networkx is not None and isinstance(source, networkx.Graph):
        return _of_networkx(source, weights)
    other = other_graph(source)
    if other is None:
        raise checks.type_error(
            "source",
            "must list its edges for on='edges': a data frame, a map of lines, a file of edges, or "
            "a graph of networkx, igraph, rustworkx, networkit or DGL, got "
            f"{checks.describe(source)}; graph.to_networkx() makes one of a Graph",
        )

    of_edges = range(len(other.src)), other.values(weights.name), other.attributes
    return _joined(_Ends.of(other.src, other.dst, *of_edges), weights, lambda edge: f"edge {edge}")


def _require_ends(table: Any, columns: Any) -> None:
    """Refuse a table of an index of several levels that does not name the ends of edges."""
    levels = getattr(getattr(table, "index", None), "names", ())
    if columns is None and len(levels) > 1 and not tables.names_ends(table):
        raise checks.value_error(
            "source",
            "must say which columns or levels hold the ends of edges, got columns "
            f"{listed(table.columns)} and an index of levels {listed(map(str, levels))}: name "
            "levels u and v (frame.rename_axis), or pass columns=",
        )


def of_edge_list(
    place: str, edges: EdgeList, weights: Weights, names: Sequence[Hashable] | None
) -> Graph:
    """The graph of the edges of a list, named by their positions if not by `names`."""
    named = range(len(edges.src)) if names is None else names
    ends = _Ends.of(edges.src, edges.dst, named, edges.weight, edges.others)
    return _joined(ends, weights, lambda edge: f"{place} {edges.lines[edge]}")


def _of_networkx(graph: Any, weights: Weights) -> Graph:
    names = list(graph.edges)  # (u, v), or (u, v, key) in a multigraph
    if not names:
        raise checks.value_error(
            "source", "must have at least one edge, got a networkx graph without one"
        )
    positions = {node: position for position, node in enumerate(graph)}
    values = None if weights.name is None else numbers_of_edges(graph, weights.name)
    src, dst = (np.array([positions[name[end]] for name in names]) for end in (0, 1))
    remark = lengths_in_degrees(graph, weights.name, values)
    ends = _Ends.of(src, dst, names, values, Attributes(graph), remark)
    return _joined(ends, weights, lambda edge: f"edge {short(names[edge])}")


def _rows(frame: Any) -> Sequence[Hashable]:
    """The names of the rows of a data frame: its index, or positions where it has none."""
    index: Any = getattr(frame, "index", None)
    if not hasattr(index, "is_unique"):
        return range(len(frame))
    if not index.is_unique:
        again = index[index.duplicated()][0]
        raise checks.value_error(
            "source",
            f"must have an index without repetitions, which names the edges, got {again!r} more "
            "than once; frame.reset_index(drop=True) numbers the rows",
        )
    return list(index)


def _joined(ends: _Ends, weights: Weights, place: Callable[[int], str]) -> Graph:
    """The graph of edges that are joined where they share an end."""
    n = len(ends.names)
    values = None
    if ends.values is not None:
        values = checked_weights(ends.values, n, weights.kind, place)

    distances, unused = notices.of_weights(weights.name, ends.attributes, weights)
    remarks = [distances, ends.remark, unused]
    incidence = sp.csr_array((np.ones(ends.edge.size), (ends.edge, ends.junction)))
    incidence.sum_duplicates()
    degrees = np.bincount(incidence.indices).astype(np.float64)
    require_memory(
        95.0 * float(degrees @ degrees),
        f"the graph of {n} edges, of which {int(degrees.max())} meet at one node,",
        "such a node joins all pairs of its edges: leave it out, or model values at nodes",
    )

    pairs = sp.coo_array(incidence @ incidence.T)
    apart = pairs.row != pairs.col
    one, two = pairs.row[apart], pairs.col[apart]
    adjacency = sp.csr_array((_of_pairs(values, weights.kind, one, two), (one, two)), shape=(n, n))
    alone = n - np.unique(one).size

    if n > 1 and 2 * alone > n:
        remarks.append(
            f"{alone} of the {n} edges share an end with no other, so nothing is learned about "
            "them from the others: edges meet where their ends have the same name, and lines of a "
            "map where they end within the tolerance of each other"
        )
    notices.warn_together(remarks)
    return Graph(adjacency, nodes=ends.names)


def _of_pairs(values: np.ndarray | None, kind: str, one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """Weights of joined pairs: from distances of midpoints, or harmonic means of similarities."""
    if values is None or not one.size:
        return np.ones(one.size)
    relative = values / (values.max() or 1.0)
    with np.errstate(divide="ignore", over="ignore"):  # what is infinite is refused by Graph
        if kind == "distance":
            between = relative[one] / 2 + relative[two] / 2
            return np.asarray(between.mean() / between)
        return np.asarray(values.max() * 2 / (1 / relative[one] + 1 / relative[two]))
