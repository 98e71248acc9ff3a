"""The data of the demo, by the names of `graphrf.datasets`."""

from __future__ import annotations

from graphrf import datasets
from graphrf._base import checks
from graphrf.cli.demo.parts import Source
from graphrf.datasets.sets import Dataset
from graphrf.graph.graph import Graph


def graph_data(name: str) -> Dataset:
    """The data set of a name, which must have an undirected graph."""
    if name in datasets.names("table"):
        raise checks.value_error("dataset", f"must have a graph, got {name!r}, which is a table")
    data = datasets.load(name)
    assert data.graph is not None
    if data.graph.directed:
        raise checks.value_error(
            "dataset", f"must be undirected for the kernel, got {name!r}, whose edges have directions"
        )
    return data


def mesh_data(name: str) -> Dataset:
    """The triangle mesh of a name, with a signal on its faces."""
    known = datasets.names()
    data = datasets.load(f"mesh-{name}" if name not in known and f"mesh-{name}" in known else name)
    if "faces" not in data.extra:
        raise checks.value_error("mesh", f"must be a triangle mesh, got {name!r}; see graphrf datasets")
    return data


def source_of(data: Dataset) -> Source:
    """Description of a data set for the report: name, text, licence, and size of the graph."""
    graph = graph_of(data)
    return Source(data.name, data.description, data.licence, graph.n_nodes, graph.n_edges)


def graph_of(data: Dataset) -> Graph:
    """The graph of a data set that has one."""
    assert data.graph is not None
    return data.graph
