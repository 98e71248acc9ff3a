"""The files of metric graphs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from graphrf._base import checks
from graphrf.gp.files.graphs import WAY_OUT, GraphFile, decoded_names
from graphrf.gp.metric.graph import MetricGraph, require_metric_graph
from graphrf.graph.disk.folder import decoded_name, encoded_name
from graphrf.graph.graph import Graph


class StreetFile(GraphFile):
    """The file of a `MetricGraph`, with the names of its nodes and edges."""

    fields: ClassVar[tuple[str, ...]] = ("src", "dst", "length")

    @classmethod
    def holds(cls, graph: Any) -> bool:
        return isinstance(graph, MetricGraph)

    @classmethod
    def require(cls, graph: Any) -> None:
        require_metric_graph(graph)

    @classmethod
    def named(cls, graph: Any) -> Graph:
        own: Graph = graph.graph
        return own

    @classmethod
    def digest(cls, graph: Any) -> str:
        result = hashlib.sha256(super().digest(graph).encode())
        for array in cls.arrays(graph).values():
            result.update(np.ascontiguousarray(array).tobytes())
        result.update(graph.ends.encode())
        return result.hexdigest()

    @classmethod
    def arrays(cls, graph: Any) -> dict[str, np.ndarray]:
        return {name: getattr(graph, name) for name in cls.fields}

    @classmethod
    def names(cls, graph: Any) -> Any:
        edges = [
            [u, v, encoded_name(key, WAY_OUT), edge]
            for (u, v, key), edge in graph.edge_names.items()
        ]
        return {"nodes": super().names(graph), "edges": edges, "ends": graph.ends}

    @classmethod
    def of(cls, arrays: Mapping[str, np.ndarray], names: Any) -> Any:
        src, dst, length = (arrays[name] for name in cls.fields)
        if (src.dtype, dst.dtype, length.dtype) != (np.int64, np.int64, np.float64):
            raise ValueError("its graph has arrays of other types than are written")
        graph = MetricGraph(src, dst, length, ends=names["ends"])
        named = decoded_names(names["nodes"])
        if named is not None:
            graph.graph = Graph(graph.graph.adjacency, nodes=named)
        graph.edge_names = {
            (u, v, decoded_name(key)): _edge(graph, u, v, edge)
            for u, v, key, edge in names["edges"]
        }
        return graph


def _edge(graph: MetricGraph, u: Any, v: Any, edge: Any) -> int:
    """The number of an edge of a file (~number for a loop backwards), once it joins its ends."""
    given = checks.integer(
        "edge", edge, low=-graph.n_edges if u == v else 0, high=graph.n_edges - 1
    )
    number = max(given, ~given)
    if {u, v} != {int(graph.src[number]), int(graph.dst[number])}:
        raise ValueError("its edges have names of other ends")
    return given
