"""Dense PageRank, from its definition, and the graphs that the tests use."""

from __future__ import annotations

import numpy as np

import graphrf as grf


def transition_matrix(graph: grf.Graph) -> np.ndarray:
    """P, with zero rows at dangling nodes."""
    adjacency = graph.adjacency.toarray()
    degrees = adjacency.sum(axis=1, keepdims=True)
    return adjacency / np.where(degrees > 0, degrees, 1.0)


def lossy_measure(graph: grf.Graph, p_halt: float, start: np.ndarray | None = None) -> np.ndarray:
    """x = p v^T (I - (1 - p) P)^-1: end points of walks that are lost at dangling nodes."""
    n = graph.n_nodes
    start = np.full(n, 1 / n) if start is None else start
    return p_halt * np.linalg.solve(np.eye(n) - (1 - p_halt) * transition_matrix(graph).T, start)


def dense_pagerank(graph: grf.Graph, p_halt: float, start: np.ndarray | None = None) -> np.ndarray:
    """The stationary law of the chain that jumps to v from dangling nodes."""
    n = graph.n_nodes
    start = np.full(n, 1 / n) if start is None else start
    transitions = transition_matrix(graph)
    transitions[transitions.sum(axis=1) == 0] = start
    chain = (1 - p_halt) * transitions + p_halt * start
    system = np.vstack([chain.T - np.eye(n), np.ones(n)])
    return np.linalg.lstsq(system, np.r_[np.zeros(n), 1.0], rcond=None)[0]


def directed_graph() -> grf.Graph:
    """Seven nodes: weighted, directed, with a self-loop, a dangling node, a source."""
    adjacency = np.zeros((7, 7))
    adjacency[0, [1, 2]] = 2.0, 1.0
    adjacency[1, 2] = 1.0
    adjacency[2, [0, 2, 3]] = 3.0, 0.5, 1.0
    adjacency[4, [0, 3]] = 1.0, 5.0
    return grf.Graph(adjacency, nodes=list("abcdefg"), directed=True)


def lopsided_graph() -> grf.Graph:
    """Nine nodes: a weighted star with a tail and a self-loop; undirected, none isolated."""
    adjacency = np.zeros((9, 9))
    adjacency[0, 1:6] = 3.0, 1.0, 1.0, 0.5, 2.0
    adjacency[[5, 6, 7], [6, 7, 8]] = 1.0, 4.0, 1.0
    adjacency += adjacency.T
    adjacency[8, 8] = 2.0
    return grf.Graph(adjacency)
