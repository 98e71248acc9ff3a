"""The observed nodes from which hyperparameters are learned: all of them, or blocks whose cost does
not grow.
"""

from __future__ import annotations

import numpy as np

from graphrf.gp.methods.rings import rings
from graphrf.graph.graph import Graph

# The most observed nodes of a block of normal observations. By `benchmarks/calibration.py` two
# blocks of 250 have the coverage and the error of three, at three quarters of their cost; three of
# 100 have less coverage with 1,000 observations.
BLOCK = 250
# Observed nodes around one centre of a block of near nodes. As parts of a graph differ, with one
# centre for all the noise depended on where that was (`benchmarks/small_meshes.py`).
NEAR = 25


def observed_blocks(
    graph: Graph, observed: np.ndarray, rng: np.random.Generator, *, size: int, count: int
) -> list[np.ndarray]:
    """Sorted blocks of distinct observed nodes, for a composite likelihood of independent blocks.

    Up to `size` nodes are one block. Otherwise the first of `count` blocks is drawn from all nodes,
    and each other one from the nodes near several random ones, `NEAR`, 4 `NEAR`, 16 `NEAR`, ... for
    each: near nodes separate noise from lengthscale, and distant ones identify long lengthscales.
    """
    if observed.size <= size:
        return [observed]
    blocks = [np.sort(rng.choice(observed, size, replace=False))]
    wider = 1
    for _ in range(count - 1):
        near = _nearest(graph, observed, min(wider * size, observed.size), wider * NEAR, rng)
        blocks.append(np.sort(rng.choice(near, size, replace=False)))
        wider = 4 * wider if 4 * wider * size < observed.size else 1
    return blocks


def _nearest(
    graph: Graph, observed: np.ndarray, size: int, near: int, rng: np.random.Generator
) -> np.ndarray:
    """The `near` observed nodes nearest to each of several random ones, `size` in all."""
    free = np.zeros(graph.n_nodes, dtype=bool)
    free[observed] = True
    result: list[np.ndarray] = []
    missing = size
    for centre in rng.permutation(observed):
        if not free[centre]:
            continue
        wanted = min(near, missing)
        for ring in rings(graph, np.array([centre]), graph.n_nodes):
            here = ring[free[ring]]
            here = here if here.size <= wanted else rng.choice(here, wanted, replace=False)
            result.append(here)
            free[here] = False
            wanted, missing = wanted - here.size, missing - here.size
            if not wanted:
                break
        if not missing:
            break
    return np.concatenate(result)
