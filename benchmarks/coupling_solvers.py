r"""How much do better solutions of the matching problem gain, in the true error of the Gram matrix?

    GRAPHRF_DATA_DIR=... python benchmarks/coupling_solvers.py

For two walks with independent directions nothing needs to be sampled. Let A = sum_i E[phi(i)
phi(i)^T]. With features that are independent between nodes, and a second set for the columns, E|K^
- K|_F^2 = tr A^2 - tr K^2 and

    A = S + (1 / 2n) sum_q h_q(W) h_sigma(q)(W),  S = (1/2) sum_i E[psi(i) psi(i)^T]  of one walk,

with S known exactly. So the true error is a quadratic form of the permutation, too (Eq. 55 of the
paper has the square of every tile average in place of S), and its own minimum by the same search
("true") is what no other permutation is known to beat. "iid" is the relative error |K^ - K|_F /
|K|_F in root mean square, the other columns are ratios to it; "reversal" is sigma(q) = n + 1 - q,
"JL 100" the search with 100 random projections.
"""

from __future__ import annotations

import sys

import networkx as nx
import numpy as np
from _machine import header

import graphrf as grf
from graphrf.couplings.learn import erdos_renyi
from graphrf.couplings.quadratic import QuadraticCost, local_search
from graphrf.couplings.quantiles import tile_modulations, tile_spectra
from graphrf.sampling.walks.lengths import Survival

GRAPHS = ("karate", "dolphins", "football")
KERNELS = (
    grf.RegularizedLaplacian(1.0, 2),
    grf.Diffusion(1.0),
    grf.Diffusion(2.0),
    grf.Matern(1.5, 2.0),
    grf.kernels.PowerSeries(modulation=[1.0, -0.8, 0.5, -0.3, 0.1]),
    grf.kernels.PowerSeries(modulation=[0.2, 1.0, -1.0, 0.5]),
)


def one_walk_moments(graph: grf.Graph, modulation: np.ndarray, survival: Survival) -> np.ndarray:
    """sum_i E[psi(i) psi(i)^T] of one walk from every node, shape (N, N), exact."""
    walk = graph.walk_matrix().toarray()
    degrees = np.where(graph.degrees > 0, graph.degrees, 1.0)
    squared = walk * np.sqrt(
        degrees[:, None] / degrees[None, :]
    )  # W_uv^2 over the probability of the step
    powers = [np.eye(graph.n_nodes)]
    for _ in range(modulation.size - 1):
        powers.append(powers[-1] @ walk)
    reached = np.ones(graph.n_nodes)
    total = np.zeros_like(walk)
    for j in range(modulation.size):
        later = sum(
            (modulation[k] * powers[k - j] for k in range(j + 1, modulation.size)),
            np.zeros_like(walk),
        )
        half = reached[:, None] * later
        total += (
            modulation[j] / survival.table[j] * (modulation[j] * np.diag(reached) + half + half.T)
        )
        reached = reached @ squared
    return total


def true_error(
    graph: grf.Graph, kernel: grf.kernels.Kernel, survival: Survival, order: int
) -> tuple[QuadraticCost, float, float]:
    """The error as a quadratic cost and a constant to add, and tr K^2."""
    modulation = kernel.modulation(survival.table.size)
    coefficients = tile_modulations(modulation, survival, order)
    length = coefficients.shape[1]
    one_walk = one_walk_moments(graph, modulation[:length], survival) / 2
    eigenvalues, vectors = np.linalg.eigh(graph.walk_matrix().toarray())
    spectra = tile_spectra(coefficients, eigenvalues)
    diagonal = np.einsum("up,uv,vp->p", vectors, one_walk, vectors, optimize=True)
    terms = diagonal / order + spectra[:, None] * spectra[None, :] / (2 * order)
    square = float((spectra.mean(axis=0) ** 4).sum())
    return (
        QuadraticCost(terms, np.ones(eigenvalues.size)),
        float((one_walk**2).sum() - diagonal @ diagonal),
        square,
    )


def main(names: tuple[str, ...]) -> None:
    graphs = {name: grf.datasets.load(name).graph.largest_component() for name in names}
    graphs["Erdos-Renyi 100"] = erdos_renyi(100, 0.1)
    graphs["grid 12 x 12"] = grf.Graph(nx.to_scipy_sparse_array(nx.grid_2d_graph(12, 12)))
    worst = 0.0
    columns = (
        "order",
        "iid",
        "linear",
        "reversal",
        "quadratic",
        "projection",
        "JL 100",
        "exhaustive",
        "true",
    )
    print(
        f"{'graph':<16} {'kernel':<34} {'p':>4} " + " ".join(f"{column:>10}" for column in columns)
    )
    for name, graph in graphs.items():
        for kernel in KERNELS:
            for p_halt in (0.1, 0.3, 0.5):
                for order in (8, 30):
                    error, rest, square = true_error(
                        graph, kernel, Survival.geometric(p_halt), order
                    )
                    iid = error.independent + rest - square

                    settings = {"p_halt": p_halt, "order": order}
                    couplings = [
                        grf.couplings.learn_coupling(graph, kernel, **settings),
                        grf.sampling.Coupling(np.arange(order)[::-1]),
                        grf.couplings.learn_coupling(graph, kernel, **settings, solver="quadratic"),
                        grf.couplings.learn_coupling(
                            graph, kernel, **settings, solver="projection"
                        ),
                        grf.couplings.learn_coupling(
                            graph, kernel, **settings, solver="quadratic", projections=100
                        ),
                    ]
                    if order <= 8:
                        couplings.append(
                            grf.couplings.learn_coupling(
                                graph, kernel, **settings, solver="exhaustive"
                            )
                        )
                    found = [coupling.permutation for coupling in couplings]
                    rng = np.random.default_rng(0)
                    best = local_search(
                        error, [*found, *(rng.permutation(order) for _ in range(4))]
                    )
                    ratios = [np.sqrt((error(s) + rest - square) / iid) for s in found]
                    ratios += [np.nan] * (6 - len(ratios)) + [
                        np.sqrt((error(best) + rest - square) / iid)
                    ]
                    worst = max(worst, ratios[0] / ratios[-1] - 1)
                    print(
                        f"{name:<16} {kernel!r:<34.34} {p_halt:>4} {order:>10} "
                        f"{np.sqrt(iid / square):>10.4f} "
                        + " ".join(f"{ratio:>10.5f}" for ratio in ratios)
                    )
    print(f"linear is above the best by at most {worst:.1e} of the error")


if __name__ == "__main__":
    print(header())
    main(tuple(sys.argv[1:]) or GRAPHS)
