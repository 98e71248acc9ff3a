"""Probabilities that a random walk is back where it began, for every node: two independent halves that meet."""

from __future__ import annotations

import numpy as np

from graphrf._base.memory import require_memory
from graphrf._base.threads import ordered_map, thread_count
from graphrf.graph.graph import Graph
from graphrf.sampling.powers.powers import CompressedPowers

# Nodes that a thread takes at once.
_BLOCK = 16_384


def return_probabilities(
    graph: Graph, walk_length: int, sampler: CompressedPowers, seeds: tuple[int, int]
) -> np.ndarray:
    r"""Estimates of P^k_ii, k = 1 .. walk_length, for every node, with P = D^-1 A; 0 for isolated nodes.

    A walk of k = a + b steps that is back stood somewhere after a of them, and P is reversible:

    .. math:: P^{a+b}_{ii} = \sum_v P^a_{iv} P^b_{vi} = \sum_v P^a_{iv} P^b_{iv} \frac{d_i}{d_v}.

    The two factors are two independent samples, drawn with the two seeds, so that the product is unbiased; a and b
    are k / 2, or the integers around it, both ways about. The sampler must be of the normalized Laplacian and
    reach (walk_length + 1) / 2 steps. No record of the samples is made.

    Returns
    -------
    ndarray, shape (N, walk_length), float32
    """
    first, second = (sampler.prepare(graph, seed) for seed in seeds)
    n_threads = thread_count(None)
    require_memory(
        4.0 * graph.n_nodes * walk_length + n_threads * first.meeting_bytes(_BLOCK),
        f"the return probabilities of {graph.n_nodes} nodes",
        "lower walk_length or budget",
    )
    returns = np.empty((graph.n_nodes, walk_length), np.float32)

    def fill(start: int) -> None:
        rows = returns[start : start + _BLOCK]
        nodes = np.arange(start, start + rows.shape[0])
        rows[:] = first.meetings(second, nodes, graph.walk_degrees)[:, 1 : walk_length + 1]

    for _ in ordered_map(fill, range(0, graph.n_nodes, _BLOCK), n_threads):
        pass
    returns[graph.degrees == 0] = 0.0  # the walk matrix has a loop there, P has none
    return returns
