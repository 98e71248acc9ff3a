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


def observed_blocks(
    graph: Graph, observed: np.ndarray, rng: np.random.Generator, *, size: int, count: int
) -> list[np.ndarray]:
    """Sorted blocks of distinct observed nodes, for a composite likelihood of independent blocks.

    Up to `size` nodes are one block. Otherwise the first of `count` blocks is drawn from all nodes,
    and each other one from the `size`, 4 `size`, 16 `size`, ... nearest to a random node: near
    nodes separate noise from lengthscale, and distant ones identify long lengthscales.
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
    """The observed nodes nearest by hops to a random one, or to several where
    components are small.
    """
    free = np.zeros(graph.n_nodes, dtype=bool)
    free[observed] = True
    result: list[np.ndarray] = []
    missing = size

    for centre in rng.permutation(observed):
        if not free[centre]:
            continue
        for ring in rings(graph, np.array([centre]), graph.n_nodes):
            here = ring[free[ring]]
            result.append(
                here if here.size <= missing else rng.choice(here, missing, replace=False)
            )
            free[here] = False
            missing -= result[-1].size
            if not missing:
                return np.concatenate(result)
    return np.concatenate(result)
