"""Probabilities that a walk is back where it began: two independent halves that meet."""

from __future__ import annotations

import numpy as np

from graphrf._base.memory import require_memory
from graphrf._base.threads import ordered_map, thread_count
from graphrf.graph.graph import Graph
from graphrf.sampling.powers.powers import CompressedPowers

# Nodes that a thread takes at once.
_BLOCK = 16_384


def return_probabilities(
    graph: Graph,
    walk_length: int,
    sampler: CompressedPowers,
    seeds: tuple[int, int],
    block: int = _BLOCK,
) -> np.ndarray:
    """Estimates of P^k_ii, k = 1 .. walk_length, of every node, P = D^-1 A; 0 if isolated.

    See `AddReturnProbabilities`. The two factors are samples of the two seeds, so that the product
    is unbiased; the sampler must be of the normalized Laplacian and reach (walk_length + 1) / 2
    steps.
    """
    first, second = (sampler.prepare(graph, seed) for seed in seeds)
    n_threads = thread_count(None)
    require_memory(
        4.0 * graph.n_nodes * walk_length + n_threads * first.meeting_bytes(block),
        f"the return probabilities of {graph.n_nodes} nodes",
        "lower walk_length or budget",
    )
    returns = np.empty((graph.n_nodes, walk_length), np.float32)

    def fill(start: int) -> None:
        rows = returns[start : start + block]
        nodes = np.arange(start, start + rows.shape[0])
        rows[:] = first.meetings(second, nodes, graph.walk_degrees)[:, 1 : walk_length + 1]

    for _ in ordered_map(fill, range(0, graph.n_nodes, block), n_threads):
        pass
    returns[graph.degrees == 0] = 0.0  # the walk matrix has a loop there, P has none
    return returns
