"""Ten million nodes and forty million edges on two cores: features, a GP, PageRank.

A random graph is saved to disk, and opened without reading it. Then

- 32 walks from each of 1,000 nodes make their features for every kernel;
- a Gaussian process is trained on noisy values at these nodes, by sampled rows, and predicts values
  and standard deviations at others. The value of a node is made of random numbers at itself and its
  neighbours; all nodes are taken from the few steps around one of them, as scattered ones would say
  nothing of each other on such a graph;
- personalised PageRank of one node is found by pushes, which end where too little of it is left to
  pass on.

    python examples/ten_million_nodes.py                        # five minutes, 18 GiB of memory
    python examples/ten_million_nodes.py --nodes 100000
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import graphrf as grf
from graphrf.pagerank import local_pagerank

OBSERVED, PREDICTED, WITH_DEVIATIONS = 1_000, 10_000, 100


def random_graph(n_nodes: int, n_edges: int) -> grf.Graph:
    """A graph of pairs of nodes drawn at random."""
    ends = np.random.default_rng(0).integers(0, n_nodes, (2, n_edges), dtype=np.uint32)
    return grf.from_edges(*ends[:, ends[0] != ends[1]], n_nodes=n_nodes)


def neighbourhood(graph: grf.Graph, centre: int, size: int) -> np.ndarray:
    """The `size` nodes nearest to `centre`; only their rows are read."""
    found = ring = np.array([centre])
    while ring.size and found.size < size:
        ring = np.setdiff1d(graph.adjacency[ring].indices, found)
        found = np.concatenate([found, ring])
    return found[:size]


@contextmanager
def told(what: str) -> Iterator[None]:
    """Print the seconds that something took, and the process's most memory so far."""
    started = time.perf_counter()
    yield
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{what:58} {time.perf_counter() - started:8.1f} s {peak:6.1f} GiB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=10_000_000)
    parser.add_argument(
        "--folder", type=Path, default=None, help="keeps the graph (default: a temporary one)"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        run(options.nodes, options.folder or Path(temporary))


def run(n_nodes: int, folder: Path) -> None:
    """All steps on a graph of so many nodes and four times the edges, in `folder`."""
    n_edges = 4 * n_nodes
    with told(f"make and save {n_nodes:,} nodes and about {n_edges:,} edges"):
        random_graph(n_nodes, n_edges).save(folder)
    with told("open them"):
        graph = grf.open_graph(folder, verify=False)
    rng = np.random.default_rng(1)
    near = neighbourhood(graph, 0, OBSERVED + PREDICTED)
    chosen = rng.permutation(near)
    observed, others = chosen[:OBSERVED], chosen[OBSERVED:]
    numbers = rng.standard_normal(n_nodes)
    truth = 0.5 * (numbers[chosen] + graph.adjacency[chosen] @ numbers)

    with told(f"features of {OBSERVED:,} nodes by 32 walks each"):
        features = grf.sample_features(graph, grf.RandomWalks(32), nodes=observed, seed=0)
    print(f"  {features}")
    with told(f"their Gram matrix of {grf.Diffusion(1.0)}"):
        features.gram(grf.Diffusion(1.0))

    y = truth[:OBSERVED] + 0.1 * rng.standard_normal(OBSERVED)
    with told(f"a Gaussian process of {OBSERVED:,} observations"):
        model = grf.GraphGPRegressor(graph, method="features", seed=0)
        model.fit(graph.positions(observed), y)
    print(f"  {model.kernel_}, noise {model.noise_:.3f}")
    with told(f"its mean at {PREDICTED:,} nodes"):
        mean = model.predict(graph.positions(others))
    with told(f"standard deviations at {WITH_DEVIATIONS} of them"):
        _, deviation = model.predict(graph.positions(others[:WITH_DEVIATIONS]), return_std=True)
    error = np.abs(mean - truth[OBSERVED:])
    inside = np.mean(error[:WITH_DEVIATIONS] < 1.96 * deviation)
    print(
        f"  root mean square error {np.sqrt(np.mean(error**2)):.3f}, of values that vary by "
        f"{truth[OBSERVED:].std():.3f}; 95 % intervals contain {inside:.2f}"
    )

    with told("PageRank that starts from one node, by pushes"):
        rank = local_pagerank(graph, graph.positions(observed[:1]), max_residual=1e-6)
    print(f"  {rank.touched[0]:,} nodes touched; scores lack {rank.residual[0]:.3f} of 1 in all")


if __name__ == "__main__":
    main()
