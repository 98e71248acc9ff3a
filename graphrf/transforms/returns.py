"""Probabilities that a random walk is back where it began, for every node: two independent halves that meet."""

from __future__ import annotations

import numpy as np

from graphrf._base.threads import ordered_map, thread_count
from graphrf.features.features import Features
from graphrf.graph.graph import Graph
from graphrf.sampling.contract import Sampler
from graphrf.sampling.sample import sample_features
from graphrf.transforms.loops import Visits, meeting_products

# Nodes whose records are held at once by a thread: some hundred MB at most.
_BLOCK = 16_384


def return_probabilities(graph: Graph, walk_length: int, sampler: Sampler, seeds: tuple[int, int]) -> np.ndarray:
    r"""Estimates of P^k_ii, k = 1 .. walk_length, for every node, with P = D^-1 A; 0 for isolated nodes.

    A walk of k = a + b steps that is back stood somewhere after a of them, and P is reversible:

    .. math:: P^{a+b}_{ii} = \sum_v P^a_{iv} P^b_{vi} = \sum_v P^a_{iv} P^b_{iv} \frac{d_i}{d_v}.

    The two factors come from two independent records of `sampler`, drawn with the two seeds, so that the product
    is unbiased; a and b are k / 2, or the integers around it, both ways about. The sampler's records must be
    exact up to rounding or unbiased, of the normalized Laplacian, and reach (walk_length + 1) / 2 steps.

    Returns
    -------
    ndarray, shape (N, walk_length), float32
    """
    blocks = [np.arange(start, min(start + _BLOCK, graph.n_nodes)) for start in range(0, graph.n_nodes, _BLOCK)]

    def of_block(nodes: np.ndarray) -> np.ndarray:
        # Threads take blocks of nodes here, not inside.
        first, second = (sample_features(graph, sampler, nodes=nodes, seed=seed, n_threads=1) for seed in seeds)
        return meetings(first, second, graph.walk_degrees)[:, 1 : walk_length + 1].astype(np.float32)

    returns = np.concatenate(list(ordered_map(of_block, blocks, thread_count(None))))
    returns[graph.degrees == 0] = 0.0  # the walk matrix has a loop there, P has none
    return returns


def meetings(first: Features, second: Features, degrees: np.ndarray) -> np.ndarray:
    """Products of two records of the same rows: estimates of P^k_ii, k = 0 .. 2 max_length, float64."""
    products = np.zeros((first.nodes.size, 2 * first.max_length + 1))
    meeting_products(_visits(first), _visits(second), first.nodes, degrees, products)
    return products


def _visits(features: Features) -> Visits:
    record = features.record
    return Visits(
        record.indptr, record.indices, record.visit_ptr, record.visits_per_entry, record.steps, record.counts,
        load=1.0 / features.frame.walkers,
    )  # fmt: skip
