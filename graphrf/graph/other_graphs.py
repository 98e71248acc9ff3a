"""Graphs of other libraries, recognised by their methods: none of the libraries is imported."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from graphrf._base import checks
from graphrf._base.cached import cached_property
from graphrf._base.files.untrusted import listed, short
from graphrf.graph.edges import SAME_LENGTH, host_array
from graphrf.graph.files.edge_tables import ends_among
from graphrf.graph.notices import look_like_degrees


class OtherGraph(NamedTuple):
    """Edges of a graph of another library: ends as positions, and attributes by name."""

    n_nodes: int
    src: np.ndarray
    dst: np.ndarray
    directed: bool
    nodes: Sequence[Hashable] | None
    attributes: Mapping[str, Sequence[Any]]

    def values(self, name: str | int | None) -> Sequence[Any] | None:
        """The values of an attribute; None without a name."""
        if name is not None and name not in self.attributes:
            have = listed(self.attributes) or "there is none"
            raise checks.value_error(
                "weight", f"must be an attribute of the edges ({have}), got {name!r}"
            )
        return None if name is None else self.attributes[str(name)]


def other_graph(source: Any) -> OtherGraph | None:
    """The edges of a graph of igraph, rustworkx, networkit or DGL; None for anything else."""
    if _has(source, "get_edgelist", "vcount", "es", "vs"):
        attributes = {name: source.es[name] for name in source.es.attributes()}
        names = source.vs["name"] if "name" in source.vs.attributes() else None
        return _made(
            source.vcount(), source.get_edgelist(), source.is_directed(), names, attributes
        )

    if _has(source, "weighted_edge_list", "node_indices", "num_nodes"):
        n_nodes, pairs, held = _weighted_edges(source.node_indices(), source.weighted_edge_list())
        return _made(n_nodes, pairs, _has(source, "successors"), None, _attributes(held))

    if _has(source, "iterEdgesWeights", "numberOfNodes", "isDirected"):
        n_nodes, pairs, held = _weighted_edges(source.iterNodes(), list(source.iterEdgesWeights()))
        return _made(
            n_nodes,
            pairs,
            source.isDirected(),
            None,
            {"weight": held} if source.isWeighted() else {},
        )

    if _has(source, "edges", "num_nodes", "edata"):
        ends = np.column_stack([host_array(end) for end in source.edges()])
        attributes = {name: host_array(values).tolist() for name, values in source.edata.items()}
        return _made(source.num_nodes(), ends, True, None, attributes)
    return None


def _weighted_edges(
    nodes: Iterable[Any], edges: Any
) -> tuple[int, list[tuple[int, int]], list[Any]]:
    """The number of nodes, pairs of positions, and weights of edges (source, target, weight)."""
    places = {node: position for position, node in enumerate(nodes)}
    pairs = [(places[src], places[dst]) for src, dst, _ in edges]
    return len(places), pairs, [weight for _, _, weight in edges]


def _attributes(held: list[Any]) -> dict[str, list[Any]]:
    """Attributes by name, from dictionaries of them or from weights."""
    if all(isinstance(weight, Mapping) for weight in held):
        titles = dict.fromkeys(title for weight in held for title in weight)
        return {title: [weight.get(title) for weight in held] for title in titles}
    return {"weight": held} if any(weight is not None for weight in held) else {}


def other_matrix(source: Any) -> tuple[Any, bool | None, Sequence[Hashable] | None] | None:
    """The matrix of a graph stored as one, whether directed (None: unknown), its nodes; or None.

    Recognised are tensors of torch, PyGSP (`W`), libpysal (`sparse`), scikit-network (`adjacency`)
    and torch_sparse.
    """
    if _has(source, "detach", "layout"):
        if "sparse" not in str(source.layout):
            return host_array(source), None, None
        tensor = source.detach().cpu().to_sparse_coo().coalesce()
        places, values = tensor.indices().numpy(), tensor.values().numpy()
        return sp.coo_array((values, tuple(places)), shape=tuple(tensor.shape)), None, None
    if _has(source, "W", "is_directed") and sp.issparse(source.W):
        return source.W, bool(source.is_directed()), None
    if _has(source, "sparse", "id_order") or _has(source, "sparse", "unique_ids"):
        names = source.id_order if hasattr(source, "id_order") else list(source.unique_ids)
        return source.sparse, None, names
    if sp.issparse(getattr(source, "adjacency", None)):
        return source.adjacency, None, getattr(source, "names", None)
    if _has(source, "to_scipy", "sparse_sizes"):
        return source.to_scipy(), None, None
    return None


def _has(source: Any, *names: str) -> bool:
    return not isinstance(source, type) and all(hasattr(source, name) for name in names)


def _made(
    n_nodes: int, pairs: Any, directed: bool, nodes: Any, attributes: Mapping[str, Sequence[Any]]
) -> OtherGraph:
    src, dst = np.asarray(pairs, dtype=np.int64).reshape(-1, 2).T
    if not directed:
        src, dst = np.minimum(src, dst), np.maximum(src, dst)
    return OtherGraph(n_nodes, src, dst, directed, nodes, attributes)


class Attributes(Mapping[str, Iterable[Any]]):
    """The attributes of the edges of a networkx graph, by name, with their values."""

    def __init__(self, graph: Any) -> None:
        self._graph = graph

    @cached_property
    def _names(self) -> dict[str, None]:
        return dict.fromkeys(name for _, _, data in self._graph.edges(data=True) for name in data)

    def __getitem__(self, name: str) -> Iterable[Any]:
        return (value for _, _, value in self._graph.edges(data=name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def numbers_of_edges(graph: Any, weight: str | int, argument: str = "weight") -> list[float]:
    """An edge attribute of a networkx graph as floats; GraphML files of OSMnx hold text."""
    numbers = []
    for *ends, value in graph.edges(data=weight, default=None):
        pair = tuple(ends)
        if value is None:
            raise checks.value_error(
                argument,
                f"must be an attribute of every edge, but edge {short(pair)} has no {weight!r}; "
                f"the edges have {listed(Attributes(graph)) or 'no attributes'}",
            )
        try:
            numbers.append(float(value))
        except (TypeError, ValueError):
            raise checks.value_error(
                argument,
                f"must be an attribute with numbers, but {weight!r} of edge {short(pair)} is "
                f"{checks.describe(value)}",
            ) from None
    return numbers


class Streets(NamedTuple):
    """The edges of a networkx graph as lines with lengths: E of them, some with several names."""

    nodes: list[Hashable]  # the ends of edges
    src: np.ndarray
    dst: np.ndarray
    length: np.ndarray
    # (position, position, key) -> edge, or ~edge for a loop backwards.
    names: dict[tuple[int, int, Hashable], int]
    remark: str


def streets_of(graph: Any, attribute: str) -> Streets:
    """The streets of a networkx graph, of which the two directions are one edge."""
    names = [(*name, 0)[:3] for name in graph.edges]
    numbers = numbers_of_edges(graph, attribute, "length")
    nodes = [node for node, degree in graph.degree() if degree]
    positions = {node: position for position, node in enumerate(nodes)}

    streets, again = numbered_streets(graph, numbers)
    ends = np.array([(positions[u], positions[v]) for u, v, _ in names], dtype=np.int64).reshape(
        -1, 2
    )

    found = {
        (u, v, key): ~street if u == v and second else street
        for (u, v), (_, _, key), street, second in zip(
            ends.tolist(), names, streets, again, strict=True
        )
    }

    first = ~np.array(again, dtype=bool)
    src, dst = ends[first].T
    return Streets(
        nodes,
        src,
        dst,
        np.array(numbers)[first],
        found,
        lengths_in_degrees(graph, attribute, numbers),
    )


def numbered_streets(graph: Any, numbers: Sequence[float]) -> tuple[list[int], list[bool]]:
    """The street of each edge of a networkx graph, and True for its second direction.

    In a directed graph an edge and the one of nearly its length the other way, which for a loop
    leads to the same node, are a street, unless the attributes of OSMnx say that they are two
    roads.
    """
    streets: list[int] = []
    again: list[bool] = []
    count = 0
    alone: dict[tuple[Hashable, Hashable], list[tuple[int, float, Mapping[str, Any]]]] = {}
    for (u, v, data), length in zip(graph.edges(data=True), numbers, strict=True):
        others = alone.get((v, u), []) if graph.is_directed() else []
        near = [
            place
            for place, (_, other, held) in enumerate(others)
            if math.isclose(other, length, rel_tol=SAME_LENGTH) and not _are_two_roads(held, data)
        ]
        if near:
            nearest = min(near, key=lambda place: abs(others[place][1] - length))
            streets.append(others.pop(nearest)[0])
        else:
            streets.append(count)
            count += 1
            alone.setdefault((u, v), []).append((streets[-1], length, data))
        again.append(bool(near))
    return streets, again


def _are_two_roads(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """True if edges there and back are both one-way, or parts of other ways of OpenStreetMap."""
    if all(str(data.get("oneway")).lower() in ("true", "yes", "1") for data in (one, other)):
        return True
    ways = [set(re.findall(r"\d+", str(data["osmid"]))) for data in (one, other) if "osmid" in data]
    return len(ways) == 2 and ways[0] != ways[1]


def lengths_in_degrees(graph: Any, attribute: str | int | None, values: Any) -> str:
    """Warning about lengths of a networkx graph's edges that seem to be in degrees, like lines."""
    known = in_degrees(graph.graph.get("crs"))
    if values is None or known is False:
        return ""

    places = {
        node: (data.get("x", np.nan), data.get("y", np.nan))
        for node, data in graph.nodes(data=True)
    }
    try:
        pairs = [(places[u], places[v]) for u, v in graph.edges()]
        ends = np.array(pairs, dtype=np.float64).reshape(-1, 2, 2)
    except (TypeError, ValueError):
        return ""
    if known is None and not look_like_degrees(ends.reshape(-1, 2)):
        return ""

    straight = np.hypot(*(ends[:, 0] - ends[:, 1]).T)
    far = straight > 0
    if not far.any():
        return ""
    few, half = np.quantile(np.asarray(values, dtype=np.float64)[far] / straight[far], (0.05, 0.5))
    if few < 0.99 or half > 3:
        return ""

    return (
        f"the lengths in {attribute!r} seem to be in degrees, like the coordinates of the nodes, "
        "so that streets to the east seem longer than those to the north: project the graph, or "
        "measure lengths in metres (osmnx.distance.add_edge_lengths)"
    )


def in_degrees(crs: Any) -> bool | None:
    """True if a coordinate system is in degrees, None if missing or text that is unusual."""
    if isinstance(crs, str):
        return True if crs.upper() in ("EPSG:4326", "OGC:CRS84", "WGS84") else None
    geographic = getattr(crs, "is_geographic", None)
    return None if geographic is None else bool(geographic)


def networkx_graph(adjacency: sp.csr_array, nodes: Sequence[Hashable], directed: bool) -> Any:
    """The networkx graph of an adjacency matrix, with `weight` unless all weights are 1."""
    import networkx as nx

    made = nx.DiGraph() if directed else nx.Graph()
    made.add_nodes_from(nodes)
    entries = sp.coo_array(adjacency if directed else sp.triu(adjacency))
    src, dst = (map(nodes.__getitem__, ends.tolist()) for ends in (entries.row, entries.col))
    if (entries.data == 1.0).all():
        made.add_edges_from(zip(src, dst, strict=True))
    else:
        made.add_weighted_edges_from(zip(src, dst, entries.data.tolist(), strict=True))
    return made


# -- objects that are given in the place of a graph ------------------------------------------------


def way_to_graph(source: Any) -> str:
    """The call that makes a graph of an object, for the message that refuses it."""
    if isinstance(source, str | os.PathLike):
        return f"graphrf.load_graph({short(os.fspath(source))}) reads one from a file"
    if _has(source, "field_dimension"):
        return "FieldGPRegressor, and the term Field, take fields on a mesh or along streets"
    if _has(source, "vertices", "faces"):
        return "graphrf.load_graph(mesh) makes one of a mesh, whose nodes are the vertices"
    if _has(source, "geometry", "geom_type"):
        if set(source.geom_type) <= {"Point"}:
            return _of_points("numpy.c_[frame.geometry.x, frame.geometry.y]")
        return (
            "graphrf.load_graph(frame.set_index('name')) makes one of a map, and names its nodes "
            "by a column"
        )
    columns = list(getattr(source, "columns", ()))
    if ends_among(list(map(str, columns))):
        return "graphrf.load_graph(frame) makes one of a table of edges"
    if columns and len(columns) in (2, 3):
        return (
            f"{_of_points(f'frame[{columns}].to_numpy()')}; graphrf.load_graph(frame) reads edges"
        )
    if isinstance(source, np.ndarray) and source.shape[1:] in ((2,), (3,)):
        return f"{_of_points('points')}; graphrf.load_graph(...) reads edges or a matrix"
    return "graphrf.load_graph(...) makes one"


def _of_points(points: str) -> str:
    return f"graphrf.from_points({points}) joins points that are near to each other"
