"""Small graphs that several test files look at."""

from __future__ import annotations

import networkx as nx
import numpy as np

import graphrf as grf


def two_components(weighted: bool) -> grf.Graph:
    """Eight nodes: a triangle with a tail and a self-loop, a path, an isolated node."""
    edges = [
        (0, 1, 2.0),
        (0, 2, 0.5),
        (1, 2, 1.0),
        (2, 3, 3.0),
        (3, 3, 0.7),
        (4, 5, 1.5),
        (5, 6, 0.25),
    ]
    adjacency = np.zeros((8, 8))
    for u, v, weight in edges:
        adjacency[u, v] = adjacency[v, u] = weight if weighted else 1.0
    return grf.Graph(adjacency)


def grid_path_and_node() -> grf.Graph:
    """A 5 x 8 grid of unequal weights, a path of four nodes, and a node alone."""
    rng = np.random.default_rng(0)
    parts = nx.disjoint_union_all([nx.grid_2d_graph(5, 8), nx.path_graph(4), nx.empty_graph(1)])
    for _, _, edge in parts.edges(data=True):
        edge["weight"] = rng.uniform(0.5, 2.0)
    return grf.Graph(nx.to_scipy_sparse_array(parts))
