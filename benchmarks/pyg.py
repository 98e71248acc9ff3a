"""How long do the transforms for PyTorch Geometric take on a large graph?

    python benchmarks/pyg.py                    # a million nodes, four million edges
    python benchmarks/pyg.py --nodes 100000
    python benchmarks/pyg.py --only PageRank

A random graph with 4 edges per node. Each transform runs once, after a small graph has compiled its
loops; seconds are those of the clock and of the processors. PyTorch Geometric's own `GDC` needs
dense matrices here, and its `AddRandomWalkPE` multiplies sparse powers that fill in: `--rival` runs
the second on the same graph.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from _machine import header, peak_gib
from gp import random_graph
from torch_geometric.data import Data
from torch_geometric.transforms import AddRandomWalkPE, BaseTransform

import graphrf as grf
from graphrf.pyg import AddReturnProbabilities, GRFDiffusion, PersonalizedPageRank

TRANSFORMS: dict[str, BaseTransform] = {
    "GRFDiffusion(Diffusion(1.0))": GRFDiffusion(grf.Diffusion(1.0), seed=0),
    "GRFDiffusion(Diffusion(2.0))": GRFDiffusion(grf.Diffusion(2.0), seed=0),
    "AddReturnProbabilities(16)": AddReturnProbabilities(16, seed=0),
    "PersonalizedPageRank(1e-4)": PersonalizedPageRank(max_residual=1e-4),
}


def data_of(n_nodes: int) -> Data:
    """The graph as PyTorch Geometric has it."""
    edges = random_graph(n_nodes, 8, np.random.default_rng(0)).adjacency.tocoo()
    return Data(
        edge_index=torch.from_numpy(np.vstack([edges.row, edges.col]).astype(np.int64)),
        num_nodes=n_nodes,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument(
        "--rival", action="store_true", help="also AddRandomWalkPE(16), up to some 10,000 nodes"
    )
    parser.add_argument("--only", default="", help="transforms whose names contain this")
    options = parser.parse_args()
    print(header("scipy", "torch", "torch_geometric"))
    transforms = dict(TRANSFORMS)
    if options.rival:
        transforms["AddRandomWalkPE(16) of PyTorch Geometric"] = AddRandomWalkPE(16, "walk")
    small, large = data_of(1_000), data_of(options.nodes)
    print(f"{options.nodes} nodes, {large.num_edges // 2} edges")
    print(f"{'transform':42} {'seconds':>8} {'CPU, s':>8} {'peak, GiB':>10}")
    for name, transform in transforms.items():
        if options.only not in name:
            continue
        transform(small.clone())
        wall, cpu = time.perf_counter(), time.process_time()
        transform(large.clone())
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        print(f"{name:42} {wall:8.1f} {cpu:8.1f} {peak_gib():10.1f}", flush=True)


if __name__ == "__main__":
    main()
