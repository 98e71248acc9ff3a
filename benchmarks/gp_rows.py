"""With sampled rows at the observed nodes, what do exact rows at the queried nodes gain a Gaussian
process?

    python benchmarks/gp_rows.py

A draw of exp(-10 L) on a 50 x 50 grid, 60 % of the nodes observed with noise of deviation 0.1, and
the normals of the mesh `mesh-idler-riser`, 90 % observed. Hyperparameters are those that training
by the series finds. Each row: root mean square difference of the posterior mean from the exact one
at held-out nodes, over 5 seeds, with sampled rows and with exact rows at the queried nodes; their
ratio with its standard error.
"""

from __future__ import annotations

import networkx as nx
import numpy as np
from _machine import header

import graphrf as grf


def problem(name: str) -> tuple[grf.Graph, np.ndarray, float]:
    """A graph, values at all nodes and the share that is observed."""
    if name == "grid":
        graph = grf.Graph(nx.to_scipy_sparse_array(nx.grid_2d_graph(50, 50)))
        rng = np.random.default_rng(1)
        truth = np.sqrt(10.0) * grf.apply_root(
            graph, grf.Diffusion(np.sqrt(20.0)), rng.standard_normal(2_500)
        )
        return graph, truth + 0.1 * rng.standard_normal(2_500), 0.6
    data = grf.datasets.load(name)
    return data.graph, np.asarray(data.targets, dtype=float), 0.9


def main() -> None:
    print(header("scipy"))
    for name in ("grid", "mesh-idler-riser"):
        graph, y, share = problem(name)
        rng = np.random.default_rng(0)
        nodes = np.sort(rng.choice(graph.n_nodes, int(share * graph.n_nodes), replace=False))
        asked = np.setdiff1d(np.arange(graph.n_nodes), nodes)
        exact = grf.GraphGPRegressor(graph, kernel="diffusion", method="series", seed=0).fit(
            nodes, y[nodes]
        )
        kernel, mean = exact.kernel_, exact.predict(asked)
        length = kernel.truncation_length(1e-3)
        known = {
            "optimize": False,
            "output_scale": exact.output_scale_,
            "noise": exact.noise_,
            "mean": "zero",
        }
        f = kernel.modulation(length + 1) * np.sqrt(exact.output_scale_ / exact.mean_variance_)
        samplers = (
            grf.RandomWalks(16, lengths=grf.sampling.Truncated(length)),
            grf.RandomWalks(64, lengths=grf.sampling.Truncated(length)),
            grf.CompressedPowers(64, max_length=length),
        )
        for sampler in samplers:
            off: list[tuple[float, float]] = []
            for seed in range(5):
                gp = grf.GraphGPRegressor(
                    graph,
                    kernel=kernel,
                    numerics=grf.gp.Numerics(sampler=sampler),
                    seed=seed,
                    **known,
                )
                gp.fit(nodes, y[nodes] - exact.mean_)
                rows = grf.sample_features(
                    graph, sampler, nodes=asked, seed=seed, dtype="float64"
                ).factor()
                seen = grf.sample_features(
                    graph, sampler, nodes=nodes, seed=seed, dtype="float64"
                ).factor()
                phi = seen.matrix(f)
                matrix = (phi @ phi.T).toarray() + gp.noise_ * np.eye(nodes.size)
                weights = np.linalg.solve(matrix, y[nodes] - exact.mean_)
                sampled = rows.apply(f, seen.apply_t(f, weights)) + exact.mean_
                off.append(
                    (
                        float(np.sqrt(np.mean((sampled - mean) ** 2))),
                        float(np.sqrt(np.mean((gp.predict(asked) + exact.mean_ - mean) ** 2))),
                    )
                )
            both = np.array(off)
            ratio = both[:, 1] / both[:, 0]
            print(
                f"{name}, {sampler!r}: sampled {both[:, 0].mean():.4f}, exact "
                f"{both[:, 1].mean():.4f}, ratio {ratio.mean():.2f} +- "
                f"{ratio.std(ddof=1) / np.sqrt(ratio.size):.2f}"
            )


if __name__ == "__main__":
    main()
