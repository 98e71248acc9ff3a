"""Lengthscales: their unit on a graph, and where they are sought."""

from __future__ import annotations

from graphrf.graph.graph import Graph

# Lengthscales, in the graph's unit of them.
LENGTHSCALES = (0.1, 100.0)


def lengthscale_unit(graph: Graph, laplacian: str) -> float:
    """Unit of lengthscales: 1, or for the combinatorial Laplacian, which has the weights' units, one over the root
    of their geometric mean.
    """
    return 1.0 if laplacian == "normalized" else graph.geometric_mean_weight**-0.5
