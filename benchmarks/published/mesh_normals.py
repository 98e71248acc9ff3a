"""Figure 4: do intervals from sigma-coupled walks hold the normals of faces?

    python benchmarks/published/mesh_normals.py [--meshes teapot fuze ...] [--splits 5]

The protocol of examples/mesh_normals.py (Reid et al. 2024, Sec. 4.2): 5 % of the faces held out,
zero mean, the hyperparameters of a diffusion kernel trained on 8 walks and frozen, 64 sigma-coupled
walks with p_halt .4; here a draw of the walks for each of 5 splits, 2 of the large meshes. `exact`
is the posterior that the walks estimate, `defaults` is `GraphGPRegressor` as it comes. The figure
prints no numbers, and no intervals were published; Gram errors and divergences are in
docs/gp_experiments.md.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np
from _table import Shares, Spent, covered, crps, loaded, row, start

import _gp_protocol as protocol  # isort: skip  # found by way of _table

import graphrf as grf
from graphrf.gp import metrics

MESHES = ("teapot", "fuze", "sphere", "idler-riser", "busted", "torus")
P_HALT, WALKS = 0.4, 64


class Split(NamedTuple):
    """A graph with its observed and held-out faces."""

    graph: grf.Graph
    signal: np.ndarray
    train: np.ndarray
    test: np.ndarray
    seed: int


def both(split: Split) -> dict[str, list[float]]:
    """Scores of the exact posterior and of that of walks, at the same hyperparameters."""
    graph, signal, train, test, seed = split
    model = protocol.train_on_walks(graph, train, signal[train], "zero", P_HALT, seed)
    task = protocol.task_from(graph, train, test, signal[train], signal[test], model)
    walks = protocol.coupled_walks(WALKS, P_HALT)[f"sigma, p {P_HALT:g}, {WALKS}"]
    phi = protocol.sampled(task, walks, seed)
    found = {
        "exact": (task.mean, task.covariance),
        "walks": protocol.posterior(task, (phi @ phi.T).toarray()),
    }
    return {
        name: scores(signal[test], mean, np.sqrt(np.diagonal(covariance) + model.noise))
        for name, (mean, covariance) in found.items()
    }


def defaults(split: Split) -> dict[str, list[float]]:
    """Scores of `GraphGPRegressor` as it comes."""
    gp = grf.GraphGPRegressor(split.graph, seed=split.seed).fit(
        split.train, split.signal[split.train]
    )
    return {
        "defaults": scores(
            split.signal[split.test], *gp.predict(split.test, return_std="observation")
        )
    }


def scores(y: np.ndarray, mean: np.ndarray, std: np.ndarray) -> list[float]:
    """RMSE, CRPS and coverage."""
    return [metrics.rmse(y, mean), crps(y, mean, std), *covered(y, mean, std)]


def averaged(runs: list[list[float]]) -> tuple[str, Shares]:
    """Means over the splits."""
    error, score, *held = np.mean(runs, axis=0)
    return f"RMSE {error:.4f}, CRPS {score:.4f}", tuple(held)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--meshes", nargs="+", default=MESHES[:5], choices=MESHES, metavar="NAME")
    parser.add_argument("--splits", type=int, default=5)
    options = parser.parse_args()
    start(f"z-components of face normals, at most {options.splits} splits")
    for mesh in options.meshes:
        data = loaded(f"mesh-{mesh}")
        n = data.graph.n_nodes
        seeds = range(min(options.splits, max(2, 8_000 // n)))
        splits = [
            Split(data.graph, data.targets, *protocol.split(n, n // 20, seed), seed)
            for seed in seeds
        ]
        for run in (both, defaults):
            with Spent() as spent, protocol.quiet():
                found = [run(split) for split in splits]
            for name in found[0]:
                here, held = averaged([own[name] for own in found])
                row(
                    f"{mesh}, {name}",
                    "" if name == "defaults" else "not printed",
                    here,
                    held,
                    spent,
                )


if __name__ == "__main__":
    main()
