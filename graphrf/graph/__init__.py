"""Graphs: what walks go along, and every way to make one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphrf._base import lazy

if TYPE_CHECKING:
    from graphrf.graph.builders import from_edges as from_edges
    from graphrf.graph.builders import from_mesh as from_mesh
    from graphrf.graph.builders import from_points as from_points
    from graphrf.graph.disk.mapped import open_graph as open_graph
    from graphrf.graph.graph import Graph as Graph
    from graphrf.graph.loaders import load_graph as load_graph

__getattr__, __dir__, __all__ = lazy.attach(
    __name__,
    {
        "graph": "Graph",
        "builders": "from_edges from_mesh from_points",
        "loaders": "load_graph",
        "disk.mapped": "open_graph",
    },
)
