"""Does the van der Corput order of stratified lengths lower the Gram error, against a random order?

    python benchmarks/stratified_order.py

Walks that stand together leave in the order of their numbers, so the order decides how the lengths
are spread over the neighbours. Relative Frobenius error of Phi Phi^T, stratified directions, mean
and standard error of 20 seeds.
"""

from __future__ import annotations

import networkx as nx
import numpy as np
from _machine import header

import graphrf as grf


class RandomOrder(grf.sampling.Stratified):
    """Stratified lengths whose strata are given to the walks in a random order."""

    def permutations(self, n_walks: int) -> np.ndarray:
        return np.random.default_rng(0).permutation(n_walks)[None, :]


def main(repeats: int = 20) -> None:
    kernel = grf.RegularizedLaplacian(1.0, 2)
    graphs = {
        "grid 30 x 30": nx.grid_2d_graph(30, 30),
        "karate": nx.karate_club_graph(),
        "Barabasi-Albert 600": nx.barabasi_albert_graph(600, 4, seed=0),
    }
    print(
        f"{'graph':<20} {'walks':>5} {'p_halt':>6} {'van der Corput':>18} {'random order':>18} "
        f"{'ratio':>14}"
    )
    for name, nx_graph in graphs.items():
        graph = grf.Graph(nx.to_scipy_sparse_array(nx_graph, weight=None))
        exact = kernel.dense(graph)
        for n_walks in (16, 64):
            for p_halt in (0.1, 0.3):
                errors = np.empty((2, repeats))
                for row, law in enumerate((grf.sampling.Stratified(p_halt), RandomOrder(p_halt))):
                    for seed in range(repeats):
                        gram = grf.sample_features(
                            graph, grf.RandomWalks(n_walks, law), seed=seed
                        ).gram(kernel)
                        errors[row, seed] = np.linalg.norm(gram - exact) / np.linalg.norm(exact)
                mean, error = errors.mean(axis=1), errors.std(axis=1, ddof=1) / repeats**0.5
                ratio = errors[0] / errors[1]
                print(
                    f"{name:<20} {n_walks:>5} {p_halt:>6} {mean[0]:>8.4f} +- {error[0]:.4f} "
                    f"{mean[1]:>8.4f} +- {error[1]:.4f} {ratio.mean():>5.3f} +- "
                    f"{ratio.std(ddof=1) / repeats**0.5:.3f}"
                )


if __name__ == "__main__":
    print(header("networkx"))
    main()
