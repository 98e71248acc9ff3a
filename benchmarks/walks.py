"""How many steps a second go into merged, step-resolved features, and what do a million nodes take?

    python benchmarks/walks.py            # speed, with fast-graph-gp beside it if it is installed
    python benchmarks/walks.py --memory   # peak memory of 1M nodes x 16 walks, p_halt 0.1, in a fresh process

The features that are timed are complete: visits merged by (source, node, step), joined and ready for any
kernel. Steps are edges walked. The rival makes features of walks with at most 10 deposits.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import time

import numpy as np
import scipy.sparse as sp
from _machine import header, peak_gib, timed

import graphrf as grf


def grid(side: int) -> grf.Graph:
    line = sp.diags_array([np.ones(side - 1)] * 2, offsets=[-1, 1], shape=(side, side))
    eye = sp.eye_array(side)
    return grf.Graph(sp.kron(line, eye) + sp.kron(eye, line))


def random_graph(n_nodes: int, mean_degree: int, seed: int = 0) -> grf.Graph:
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, n_nodes, (2, n_nodes * mean_degree // 2))
    return grf.from_edges(*ends[:, ends[0] != ends[1]], n_nodes=n_nodes)


def weighted(graph: grf.Graph) -> grf.Graph:
    """The same edges with weights that differ."""
    upper = sp.triu(graph.adjacency, 1).tocsr()
    upper.data = np.random.default_rng(0).random(upper.nnz) + 0.5
    return grf.Graph(upper + upper.T)


def speed() -> None:
    grf.sample_features(grid(4), seed=0)
    started = time.perf_counter()
    graphs = {
        "grid, 10k nodes": grid(100),
        "grid, 1M nodes": grid(1000),
        "random, degree 8, 1M nodes": random_graph(1_000_000, 8),
        "the same, weighted": weighted(random_graph(1_000_000, 8)),
    }
    print(f"graphs made in {time.perf_counter() - started:.1f} s\n")
    print(f"{'graph':<28} {'walks':>5} {'directions':<12} {'seconds':>8} {'[min, max]':>16} {'M steps/s':>9}")
    for name, graph in graphs.items():
        # A tenth of the sources of a large graph: the same reads all over it in a tenth of the time.
        nodes = np.random.default_rng(1).permutation(graph.n_nodes)[: min(graph.n_nodes, 100_000)]
        for n_walks in (16, 32):
            for directions in ("independent", "stratified"):
                sampler = grf.RandomWalks(n_walks, grf.Stratified(0.1), directions=directions)
                made: list[grf.Features] = []

                def run(graph=graph, sampler=sampler, nodes=nodes, made=made) -> None:
                    made[:] = [grf.sample_features(graph, sampler, nodes=nodes, seed=0)]

                run()
                middle, low, high = timed(run)
                rate = made[0].n_steps / middle / 1e6
                spread = f"[{low:.2f}, {high:.2f}]"
                print(f"{name:<28} {n_walks:>5} {directions:<12} {middle:>8.2f} {spread:>16} {rate:>9.1f}")


def rival() -> None:
    """fast-graph-gp's GRFSampler on a 10k-node grid: 16 walks, p_halt 0.1, at most 10 deposits, all cores."""
    if importlib.util.find_spec("grf_gp") is None:
        print("\nfast-graph-gp is not installed: pip install -r benchmarks/requirements.txt")
        return
    import torch
    from grf_gp.sampler import GRFSampler

    graph = grid(100)
    walk = graph.walk_matrix()
    tensor = torch.sparse_csr_tensor(
        torch.from_numpy(np.array(walk.indptr)),
        torch.from_numpy(walk.indices),
        torch.from_numpy(walk.data),
        walk.shape,
    )
    # The same law: geometric with p_halt 0.1, cut after 9 steps. Both end with one sparse matrix a step's worth of
    # loads or counts for each step, before any kernel.
    sampler = grf.RandomWalks(16, grf.IID(grf.Survival(0.9 ** np.arange(10))), directions="independent")
    theirs, ours = [], []
    for _ in range(5):
        theirs.append(timed(lambda: GRFSampler(
            tensor, walks_per_node=16, p_halt=0.1, max_walk_length=10, seed=1, use_tqdm=False,
            n_processes=torch.get_num_threads(),
        )(), 1)[0])  # fmt: skip
        ours.append(timed(lambda: grf.sample_features(graph, sampler, seed=1), 1)[0])
    ratios = [a / b for a, b in zip(theirs, ours, strict=True)]
    print("\n10k-node grid, 16 walks, p_halt 0.1, at most 10 deposits, 5 runs of each in turn")
    for name, values in (("fast-graph-gp", theirs), ("graphrf", ours)):
        print(f"{name:<14} {statistics.median(values):.3f} s [{min(values):.3f}, {max(values):.3f}]")
    print(f"ratio          {statistics.median(ratios):.0f} [{min(ratios):.0f}, {max(ratios):.0f}]")


def memory() -> None:
    graph = random_graph(1_000_000, 8)
    before = peak_gib()
    sampler = grf.RandomWalks(16, grf.IID(0.1), directions="independent")
    started = time.perf_counter()
    features = grf.sample_features(graph, sampler, seed=0)
    seconds = time.perf_counter() - started
    print(f"1M nodes x 16 walks, p_halt 0.1: {features!r}")
    print(
        f"{features.n_steps / 1e6:.0f}M steps in {seconds:.1f} s, {features.n_steps / seconds / 1e6:.1f}M steps/s"
    )
    print(f"peak memory {peak_gib():.2f} GiB, of which the graph {before:.2f} and the features "
          f"{features.nbytes / 2**30:.2f}")  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memory", action="store_true")
    print(header("scipy"))
    if parser.parse_args().memory:
        memory()
    else:
        speed()
        rival()
