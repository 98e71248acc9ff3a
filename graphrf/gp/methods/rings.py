"""Balls of nodes: those within some edges of others, ring by ring."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from graphrf.graph.graph import Graph

# Rings with more than one over this of all nodes are marked in a mask; smaller ones are sorted.
_SORTED = 200


def neighbourhood(graph: Graph, centres: np.ndarray, n_steps: int, most: int) -> np.ndarray:
    """The nodes within `n_steps` of some nodes, by growing distance, until a whole ring holds
    `most` in all.
    """
    result, total = [], 0
    for ring in rings(graph, centres, n_steps):
        result.append(ring)
        total += ring.size
        if total >= most:
            break
    return np.concatenate(result)


def boundary_share(graph: Graph, most: int) -> float:
    """The last ring of a ball of at least `most` nodes as a fraction of the ball: the largest of
    three balls.

    It is about 2 / radius on a plane, where separators are small, and nearly 1 where distances are
    logarithms.
    """
    fractions = []
    for centre in np.linspace(0, graph.n_nodes - 1, 5).astype(np.int64)[1:-1]:
        ball, ring = 0, np.zeros(0)
        for ring in rings(graph, np.array([centre]), graph.n_nodes):
            ball += ring.size
            if ball >= most:
                break
        fractions.append(ring.size / ball if ball >= most else 0.0)
    return max(fractions)


def rings(graph: Graph, centres: np.ndarray, n_steps: int) -> Iterator[np.ndarray]:
    """Nodes at distance 0, 1, ... of the centres."""
    seen, fresh = (np.zeros(graph.n_nodes, dtype=bool) for _ in range(2))
    ring = np.unique(centres)
    seen[ring] = True
    adjacency = graph.adjacency

    for _ in range(n_steps + 1):
        yield ring

        starts, stops = adjacency.indptr[ring], adjacency.indptr[ring + 1]
        lengths = stops - starts
        offsets = np.repeat(starts - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths)
        reached = adjacency.indices[offsets + np.arange(lengths.sum())]
        reached = reached[~seen[reached]]
        if not reached.size:
            return

        if reached.size < graph.n_nodes // _SORTED:
            ring = np.unique(reached)
        else:
            fresh[reached] = True
            ring = np.flatnonzero(fresh)
            fresh[ring] = False
        seen[ring] = True
