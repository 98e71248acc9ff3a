"""Which observed nodes training sees: all of them, or a few clusters of near ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from graphrf.graph.graph import Graph

# Training on more nodes than it can factor at once sees blocks of so many.
BLOCK = 250
# Kernels are compared on blocks of so many.
SCOUT = 100
# The exact likelihood of a part of a graph sees so many observed nodes at least, in two balls of so many nodes.
_FEWEST_OBSERVED = 1_000
_BALLS = (25_000, 50_000, 100_000)
# The widest block is drawn from a neighbourhood of at most so many nodes of the graph.
_WIDEST = 20_000
# Rings with more than one over this of all nodes are marked in a mask; smaller ones are sorted.
_SORTED = 200


def training_blocks(
    graph: Graph, observed: np.ndarray, n_train: int, rng: np.random.Generator, block: int = BLOCK
) -> list[np.ndarray]:
    """The observed nodes in blocks that training treats as independent of each other.

    Up to `n_train` nodes there is one block of all: the exact marginal likelihood. Beyond, blocks of about `block`
    nodes: around random centres the nearest observed nodes, which tell noise and lengthscale apart, and one drawn
    from a wide neighbourhood, which tells long lengthscales. As many nodes drawn at random from all are far apart
    and tell little (`benchmarks/training_blocks.py`).

    Parameters
    ----------
    graph : Graph, N nodes
    observed : ndarray of int, shape (m,), distinct
    n_train : int
        Nodes in all blocks together.
    rng : Generator

    Returns
    -------
    list of ndarray of int, each sorted
    """
    if observed.size <= n_train:
        return [observed]
    n_blocks = max(n_train // block, 2)
    size = max(n_train // n_blocks, 1)
    is_observed = np.zeros(graph.n_nodes, dtype=bool)
    is_observed[observed] = True
    blocks = [_nearest(graph, observed, size, is_observed, rng) for _ in range(n_blocks - 1)]
    wide = neighbourhood(graph, rng.choice(observed, 1), graph.n_nodes, _WIDEST)
    candidates = wide[is_observed[wide]]
    if candidates.size < size:
        candidates = observed
    blocks.append(np.sort(rng.choice(candidates, size, replace=False)))
    return blocks


def observed_part(
    graph: Graph, observed: np.ndarray, rng: np.random.Generator, fewest: int | None = None
) -> np.ndarray | None:
    """The nodes of two balls round observed nodes, sorted; None where large balls hold fewer observed nodes."""
    fewest = _FEWEST_OBSERVED if fewest is None else fewest
    centres = rng.choice(observed, 2)
    for size in _BALLS:
        part = np.unique(np.concatenate([neighbourhood(graph, c[None], graph.n_nodes, size) for c in centres]))
        if np.isin(observed, part).sum() >= fewest:
            return part
    return None


def neighbourhood(graph: Graph, centres: np.ndarray, n_steps: int, most: int) -> np.ndarray:
    """The nodes within `n_steps` of some nodes, by growing distance, until a whole ring holds `most` in all."""
    rings, total = [], 0
    for ring in _rings(graph, centres, n_steps):
        rings.append(ring)
        total += ring.size
        if total >= most:
            break
    return np.concatenate(rings)


def boundary_share(graph: Graph, most: int) -> float:
    """The last ring of a ball of at least `most` nodes, as a share of the ball: the largest of three balls.

    About 2 / radius on a plane, where separators are small; nearly 1 where distances are logarithms.
    """
    shares = []
    for centre in np.linspace(0, graph.n_nodes - 1, 5).astype(np.int64)[1:-1]:
        ball, ring = 0, np.zeros(0)
        for ring in _rings(graph, np.array([centre]), graph.n_nodes):
            ball += ring.size
            if ball >= most:
                break
        shares.append(ring.size / ball if ball >= most else 0.0)
    return max(shares)


def _nearest(
    graph: Graph, observed: np.ndarray, size: int, is_observed: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """The observed nodes that are nearest to a random one by hops, the last ring's drawn at random.

    Where its component holds too few, more are taken around other random nodes.
    """
    free = is_observed.copy()
    found: list[np.ndarray] = []
    missing = size
    for centre in rng.permutation(observed):
        if not free[centre]:
            continue
        for ring in _rings(graph, np.array([centre]), graph.n_nodes):
            here = ring[free[ring]]
            found.append(here if here.size <= missing else rng.choice(here, missing, replace=False))
            free[here] = False
            missing -= found[-1].size
            if not missing:
                return np.sort(np.concatenate(found))
    return np.sort(np.concatenate(found))


def _rings(graph: Graph, centres: np.ndarray, n_steps: int) -> Iterator[np.ndarray]:
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
