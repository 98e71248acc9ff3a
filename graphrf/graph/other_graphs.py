"""Graphs of other libraries, recognised by their methods: none of the libraries is imported."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from graphrf._base import checks
from graphrf._base.files.foreign import listed, short
from graphrf.graph.edges import host_array


class OtherGraph(NamedTuple):
    """Edges of a graph of another library: ends as positions, and attributes by name with their values."""

    n_nodes: int
    src: np.ndarray
    dst: np.ndarray
    directed: bool
    nodes: Sequence[Hashable] | None
    attributes: Mapping[str, Sequence[Any]]


def other_graph(source: Any) -> OtherGraph | None:
    """The edges of a graph of igraph, rustworkx, networkit or DGL; None for anything else."""
    if _has(source, "get_edgelist", "vcount", "es", "vs"):
        attributes = {name: source.es[name] for name in source.es.attributes()}
        names = source.vs["name"] if "name" in source.vs.attributes() else None
        return _made(source.vcount(), source.get_edgelist(), source.is_directed(), names, attributes)
    if _has(source, "weighted_edge_list", "node_indices", "num_nodes"):
        places = {index: position for position, index in enumerate(source.node_indices())}
        edges = source.weighted_edge_list()
        pairs = [(places[src], places[dst]) for src, dst, _ in edges]
        held = [weight for _, _, weight in edges]
        if all(isinstance(weight, Mapping) for weight in held):
            titles = dict.fromkeys(title for weight in held for title in weight)
            attributes = {title: [weight.get(title) for weight in held] for title in titles}
        else:
            attributes = {"weight": held} if any(weight is not None for weight in held) else {}
        return _made(len(places), pairs, _has(source, "successors"), None, attributes)
    if _has(source, "iterEdgesWeights", "numberOfNodes", "isDirected"):
        places = {node: position for position, node in enumerate(source.iterNodes())}
        edges = list(source.iterEdgesWeights())
        pairs = [(places[src], places[dst]) for src, dst, _ in edges]
        attributes = {"weight": [weight for _, _, weight in edges]} if source.isWeighted() else {}
        return _made(len(places), pairs, source.isDirected(), None, attributes)
    if _has(source, "edges", "num_nodes", "edata"):
        ends = np.column_stack([host_array(end) for end in source.edges()])
        attributes = {name: host_array(values).tolist() for name, values in source.edata.items()}
        return _made(source.num_nodes(), ends, True, None, attributes)
    return None


def other_matrix(source: Any) -> tuple[Any, bool | None, Sequence[Hashable] | None] | None:
    """The adjacency matrix of a graph stored as one, whether it is directed (None if unknown), and its nodes.

    None for anything else. Recognised are tensors of torch, PyGSP (`W`), libpysal (`sparse`), scikit-network
    (`adjacency`) and torch_sparse.
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
        self._names = dict.fromkeys(name for _, _, data in graph.edges(data=True) for name in data)

    def __getitem__(self, name: str) -> Iterable[Any]:
        return (value for _, _, value in self._graph.edges(data=name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def as_numbers(values: list[Any], pairs: list[tuple[Any, Any]], weight: str | int, graph: Any) -> list[float]:
    """Attributes of edges as floats; OSMnx's GraphML files hold numbers as text."""
    numbers = []
    for value, pair in zip(values, pairs, strict=True):
        if value is None:
            raise checks.value_error(
                "weight",
                f"must be an attribute of every edge, but edge {short(pair)} has no {weight!r}; "
                f"the edges have {listed(Attributes(graph)) or 'no attributes'}",
            )
        try:
            numbers.append(float(value))
        except (TypeError, ValueError):
            raise checks.value_error(
                "weight",
                f"must be an attribute with numbers, but {weight!r} of edge {short(pair)} is "
                f"{checks.describe(value)}",
            ) from None
    return numbers
