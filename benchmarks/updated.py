"""How much quicker are features and PageRank that follow an edit than those that are sampled anew?

A random graph with 4 edges a node, of which `--edges` edges are moved; both ways in one run, least
of several repeats, with the CPU time of all threads. The results are compared bit for bit.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

import graphrf as grf
from graphrf.pagerank import estimate
from graphrf.sampling.updated import changed_rows, rows_that_met
from graphrf.sampling.walks.random_walks import walk_transitions


def least(call: Callable[[], Any], repeats: int) -> tuple[Any, float, float]:
    """The result, and the least wall and CPU seconds."""
    walls, cpus = [], []
    for _ in range(repeats):
        result = None  # what it holds is free while the next one is made
        wall, cpu = time.perf_counter(), time.process_time()
        result = call()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return result, min(walls), min(cpus)


def moved(
    src: np.ndarray, dst: np.ndarray, n_nodes: int, n_moved: int, rng: np.random.Generator
) -> grf.Graph:
    """The graph with other ends of so many edges."""
    dst = dst.copy()
    dst[rng.choice(dst.size, n_moved, replace=False)] = rng.integers(0, n_nodes, n_moved)
    return graph_of(src, dst, n_nodes)


def graph_of(src: np.ndarray, dst: np.ndarray, n_nodes: int) -> grf.Graph:
    """The unweighted graph of pairs of nodes."""
    keys = np.unique(np.minimum(src, dst) * n_nodes + np.maximum(src, dst))
    low, high = np.divmod(keys, n_nodes)
    ends = np.concatenate([low, high]), np.concatenate([high, low])
    ones = np.ones(ends[0].size)
    matrix = sp.coo_array((ones, ends), shape=(n_nodes, n_nodes)).tocsr()
    matrix.data[:] = 1.0  # loops came twice
    return grf.Graph(matrix)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--walks", type=int, default=16)
    parser.add_argument("--edges", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, args.nodes, (2, 4 * args.nodes))
    before = graph_of(src, dst, args.nodes)
    afters = {n: moved(src, dst, args.nodes, n, rng) for n in args.edges}
    warm = graph_of(src[:4000] % 1000, dst[:4000] % 1000, 1000)  # compiles
    sampler = grf.RandomWalks(args.walks)
    grf.sample_features(warm, sampler, seed=0).updated(
        moved(src[:4000] % 1000, dst[:4000] % 1000, 1000, 5, rng)
    )
    features: Any = grf.sample_features(before, sampler, seed=0)
    print(f"{before}, {features}")
    print(
        f"{'':9} {'edges':>6} {'rows drawn':>10} {'anew':>7} {'updated':>8} {'times':>6}"
        "   CPU: anew, updated, times"
    )
    for n, after in afters.items():
        changed = changed_rows(
            *(walk_transitions(graph, "normalized") for graph in (before, after))
        )
        share = rows_that_met(features.record, changed, 1).mean()
        anew, *fresh = least(
            lambda after=after: grf.sample_features(after, sampler, seed=0), args.repeats
        )
        updated, *quick = least(lambda after=after, old=features: old.updated(after), args.repeats)
        for name, array in anew.record.arrays().items():
            assert np.array_equal(array, updated.record.arrays()[name]), name
        show("features", n, share, fresh, quick)
        del anew, updated
    features = None
    for n_batches in (1, 16):
        options = {"coupling": "iid", "n_walks": args.walks, "n_batches": n_batches, "seed": 0}
        estimate(warm, keep_walks=True, **options).updated(warm)
        kept, *keeping = least(
            lambda options=options: estimate(before, keep_walks=True, **options), 1
        )
        print(
            f"PageRank in {n_batches} batches; with keep_walks {keeping[0]:.2f} s, CPU "
            f"{keeping[1]:.2f} s"
        )
        for n, after in afters.items():
            changed = changed_rows(
                *(walk_transitions(graph, "normalized") for graph in (before, after))
            )
            share = kept.follow.args[0].visitors.met(changed).mean()
            anew, *fresh = least(
                lambda after=after, options=options: estimate(after, **options), args.repeats
            )
            updated, *quick = least(
                lambda after=after, kept=kept: kept.updated(after), args.repeats
            )
            assert np.array_equal(anew.scores, updated.scores)
            show("PageRank", n, share, fresh, quick)


def show(what: str, n: int, share: float, fresh: list[float], quick: list[float]) -> None:
    """A line of the table."""
    print(
        f"{what:9} {n:6} {share:10.2%} {fresh[0]:6.2f}s {quick[0]:7.2f}s {fresh[0] / quick[0]:6.1f}"
        f"   {fresh[1]:.2f}s, {quick[1]:.2f}s, {fresh[1] / quick[1]:.1f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
