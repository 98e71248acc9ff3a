"""The observed nodes from which hyperparameters are learned: all of them, or blocks whose cost does not grow."""

from __future__ import annotations

import numpy as np

from graphrf.gp.routes.rings import rings
from graphrf.graph.graph import Graph

# The most observed nodes of a block of normal observations; chosen by `benchmarks/calibration.py`.
BLOCK = 250


def observed_blocks(
    graph: Graph, observed: np.ndarray, rng: np.random.Generator, *, size: int, count: int
) -> list[np.ndarray]:
    """Blocks of observed nodes, between which correlations are ignored (a composite likelihood).

    Up to `size` nodes make one block. Of more, the first of `count` blocks is drawn from all observed nodes; each
    of the others is drawn from those nearest, by hops, to a random one: from the nearest `size`, the nearest
    4 `size` and so on, so that every lengthscale is seen by some block. Nodes that are near each other separate
    noise from lengthscale; distant nodes identify long lengthscales.

    Parameters
    ----------
    graph : Graph, N nodes
    observed : ndarray of int, shape (m,), distinct
    rng : Generator
    size, count : int

    Returns
    -------
    list of ndarray of int, each sorted
    """
    if observed.size <= size:
        return [observed]
    blocks = [np.sort(rng.choice(observed, size, replace=False))]
    reach = size
    for _ in range(count - 1):
        near = _nearest(graph, observed, min(reach, observed.size), rng)
        blocks.append(np.sort(rng.choice(near, size, replace=False)))
        reach = 4 * reach if 4 * reach < observed.size else size
    return blocks


def _nearest(graph: Graph, observed: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """The observed nodes that are nearest to a random one by hops; those of the last ring are drawn at random.

    Where its component holds too few, more are taken around other random nodes.
    """
    free = np.zeros(graph.n_nodes, dtype=bool)
    free[observed] = True
    found: list[np.ndarray] = []
    missing = size
    for centre in rng.permutation(observed):
        if not free[centre]:
            continue
        for ring in rings(graph, np.array([centre]), graph.n_nodes):
            here = ring[free[ring]]
            found.append(here if here.size <= missing else rng.choice(here, missing, replace=False))
            free[here] = False
            missing -= found[-1].size
            if not missing:
                return np.concatenate(found)
    return np.concatenate(found)
