"""The main job, end to end: what `graphrf demo` runs."""

from __future__ import annotations

import time

import networkx as nx
import numpy as np

from graphrf.graph import Graph
from graphrf.kernels import RegularizedLaplacian
from graphrf.lengths import IID, Antithetic, Stratified, Truncated
from graphrf.sampling.random_walks import RandomWalks
from graphrf.sampling.sample import sample_features


def run(*, n_walks: int = 16, seed: int = 0, repeats: int = 10) -> str:
    """The Gram error of every law and direction on the karate club, as a table."""
    graph = Graph(nx.to_scipy_sparse_array(nx.karate_club_graph(), weight=None))
    kernel = RegularizedLaplacian(1.0, 2)
    exact = kernel.dense(graph)
    lines = [
        f"{'lengths':<20} {'directions':<12} {'Gram error':>10} {'steps/node':>10} {'nnz/node':>9} {'seconds':>8}"
    ]
    for law in (IID(0.1), Antithetic(0.1), Stratified(0.1), Truncated(6)):
        for directions in ("independent", "stratified"):
            errors, started = [], time.perf_counter()
            for repeat in range(repeats):
                features = sample_features(graph, RandomWalks(n_walks, law, directions), seed=seed + repeat)
                errors.append(np.linalg.norm(features.gram(kernel) - exact) / np.linalg.norm(exact))
            seconds = (time.perf_counter() - started) / repeats
            lines.append(
                f"{law!r:<20} {directions:<12} {np.mean(errors):>10.4f} {features.n_steps / graph.n_nodes:>10.1f} "
                f"{features.nnz / graph.n_nodes:>9.1f} {seconds:>8.4f}"
            )
    return "\n".join(lines)
