"""How many steps a second go into merged, step-resolved features, and what do a million nodes take?

    python benchmarks/walks.py                     # speed, beside fast-graph-gp if installed
    python benchmarks/walks.py --against FOLDER    # another checkout of graphrf in turn with this
    python benchmarks/walks.py --choices           # how many sources should advance together?
    python benchmarks/walks.py --threads           # 1M nodes with one thread and with all
    python benchmarks/walks.py --memory            # peak memory of 1M nodes x 32 walks

The features that are timed are complete: visits merged by (source, node, step), joined and ready
for any kernel. Steps are edges walked. The rival makes features of walks with at most 10 deposits.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from _machine import header, peak_gib, timed
from numba import njit

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


def graphs() -> dict[str, grf.Graph]:
    sparse = random_graph(1_000_000, 8)
    return {
        "grid, 10k nodes": grid(100),
        "grid, 1M nodes": grid(1000),
        "random, degree 8, 1M nodes": sparse,
        "the same, weighted": weighted(sparse),
    }


def some_nodes(graph: grf.Graph) -> np.ndarray:
    """A tenth of the sources of a large graph: the same reads in a tenth of the time."""
    return np.random.default_rng(1).permutation(graph.n_nodes)[: min(graph.n_nodes, 100_000)]


def walks(n_walks: int, directions: str) -> grf.RandomWalks:
    return grf.RandomWalks(n_walks, grf.sampling.Stratified(0.1), directions=directions)


CASES = [
    (n_walks, directions) for n_walks in (16, 32) for directions in ("independent", "stratified")
]
TITLE = f"{'graph':<28} {'walks':>5} {'directions':<12}"


def speed() -> None:
    print(f"{TITLE} {'seconds':>8} {'[min, max]':>16} {'M steps/s':>9}")
    for name, graph in graphs().items():
        nodes = some_nodes(graph)
        for n_walks, directions in CASES:
            made: list[grf.features.Features] = []

            sampler = walks(n_walks, directions)

            def run(graph=graph, sampler=sampler, nodes=nodes, made=made) -> None:
                made[:] = [grf.sample_features(graph, sampler, nodes=nodes, seed=0)]

            run()
            middle, low, high = timed(run)
            rate = made[0].n_steps / middle / 1e6
            spread = f"[{low:.2f}, {high:.2f}]"
            print(
                f"{name:<28} {n_walks:>5} {directions:<12} {middle:>8.2f} {spread:>16} {rate:>9.1f}"
            )


def serve() -> None:
    """Answer every case of standard input by seconds, steps and a sum over the record."""
    made = graphs()
    for line in sys.stdin:
        name, n_walks, directions = json.loads(line)
        nodes = some_nodes(made[name])
        started = time.perf_counter()
        features = grf.sample_features(made[name], walks(n_walks, directions), nodes=nodes, seed=0)
        seconds = time.perf_counter() - started
        check = features.matrix(grf.Diffusion(1.0)).sum()
        print(json.dumps([seconds, features.n_steps, float(check)]), flush=True)


def against(folder: str) -> None:
    """This checkout and another one, each in a process of its own, case by case in turn."""
    here = Path(__file__).resolve()
    both = []
    for place in (folder, str(here.parents[1])):
        path = os.pathsep.join([place, str(here.parent)])
        both.append(
            subprocess.Popen(
                [sys.executable, str(here), "--serve"],
                env={**os.environ, "PYTHONPATH": path},
                text=True,
                cwd=place,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        )
    print(
        f"{TITLE} {'before':>7} {'[min, max]':>14} {'after':>7} {'[min, max]':>14} {'ratio':>6} "
        f"{'[min, max]':>14}"
    )
    for name in graphs():
        for case in CASES:
            seconds: list[list[float]] = [[], []]
            for turn in range(6):
                answers = []
                for process, own in zip(both, seconds, strict=True):
                    assert process.stdin is not None
                    assert process.stdout is not None
                    print(json.dumps([name, *case]), file=process.stdin, flush=True)
                    answers.append(json.loads(process.stdout.readline()))
                    if turn:  # the first one compiles
                        own.append(answers[-1][0])
            steps = answers[1][1]
            ratios = [one / other for one, other in zip(*seconds, strict=True)]
            cells = [three([steps / one / 1e6 for one in own], 1) for own in seconds]
            same = "" if answers[0][1:] == answers[1][1:] else "  OTHER WALKS"
            print(
                f"{name:<28} {case[0]:>5} {case[1]:<12} {cells[0]} {cells[1]} "
                f"{three(ratios, 2)}{same}"
            )
    for process in both:
        process.terminate()


def three(values: list[float], digits: int) -> str:
    """Median and range in columns."""
    spread = f"[{min(values):.{digits}f}, {max(values):.{digits}f}]"
    return f"{statistics.median(values):>7.{digits}f} {spread:>14}"


def choices() -> None:
    """Nanoseconds a step of the loops, on one thread, by sources that advance together."""
    import graphrf.sampling.walks.random_walks as module

    together = (1, 4, 16, 64, 256)
    print(f"{TITLE} {'sources that advance together: ns a step (median of 5, in turn)':>8}")
    print(f"{'':<47} " + " ".join(f"{size:>7}" for size in together))
    for name, graph in graphs().items():
        for n_walks, directions in CASES:
            prepared = walks(n_walks, directions).prepare(graph, 0)
            sources = some_nodes(graph)[:10_000]
            seconds: dict[int, list[float]] = {size: [] for size in together}
            for turn in range(6):
                for size in together:
                    module.MOST_TOGETHER, module._VISITS_TOGETHER = size * n_walks, 2**40
                    started = time.process_time()
                    block = prepared.sample(sources)
                    if turn:
                        seconds[size].append(time.process_time() - started)
            steps = int(block.counts.sum(dtype=np.int64)) - n_walks * sources.size
            cells = " ".join(
                f"{statistics.median(own) / steps * 1e9:>7.1f}" for own in seconds.values()
            )
            print(f"{name:<28} {n_walks:>5} {directions:<12} {cells}", flush=True)


def threads() -> None:
    """All of 1M nodes x 32 walks with one thread and all cores; what single reads take."""
    graph = random_graph(1_000_000, 8)
    n_cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    print("M steps/s")
    print(f"{'directions':<12} {'1 thread':>22} {f'{n_cores} threads':>22} {'ratio':>22}")
    for directions in ("independent", "stratified"):
        rates: list[list[float]] = [[], []]
        for turn in range(4):
            for n, own in zip((1, n_cores), rates, strict=True):
                started = time.perf_counter()
                features = grf.sample_features(graph, walks(32, directions), seed=0, n_threads=n)
                taken = time.perf_counter() - started
                if turn:
                    own.append(features.n_steps / taken / 1e6)
                del features
        ratios = [many / one for one, many in zip(*rates, strict=True)]
        print(
            f"{directions:<12} {three(rates[0], 1)} {three(rates[1], 1)} {three(ratios, 2)}",
            flush=True,
        )
    table = graph.adjacency.indices
    places = np.random.default_rng(0).integers(0, table.size, 2_000_000)
    read(table, places[:10])
    each = [seconds / places.size * 1e9 for seconds in timed(lambda: read(table, places))]
    print(
        f"\nindependent reads at random of the {table.nbytes / 1e6:.0f} MB of neighbours, "
        f"one thread: {each[0]:.1f} ns [{each[1]:.1f}, {each[2]:.1f}]"
    )


@njit
def read(table, places):  # type: ignore[no-untyped-def]
    total = 0
    for place in places:
        total += table[place]
    return total


def rival() -> None:
    """fast-graph-gp's GRFSampler on a 10k-node grid: 16 walks, p_halt 0.1, all cores."""
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
    # The same law: geometric with p_halt 0.1, cut after 9 steps. Both end with one sparse matrix a
    # step's worth of loads or counts for each step, before any kernel.
    sampler = grf.RandomWalks(
        16, grf.sampling.IID(grf.sampling.Survival(0.9 ** np.arange(10))), directions="independent"
    )
    theirs, ours = [], []
    for _ in range(5):
        theirs.append(
            timed(
                lambda: GRFSampler(
                    tensor,
                    walks_per_node=16,
                    p_halt=0.1,
                    max_walk_length=10,
                    seed=1,
                    use_tqdm=False,
                    n_processes=torch.get_num_threads(),
                )(),
                1,
            )[0]
        )
        ours.append(timed(lambda: grf.sample_features(graph, sampler, seed=1), 1)[0])
    ratios = [a / b for a, b in zip(theirs, ours, strict=True)]
    print("\n10k-node grid, 16 walks, p_halt 0.1, at most 10 deposits, 5 runs of each in turn")
    for name, values in (("fast-graph-gp", theirs), ("graphrf", ours)):
        print(
            f"{name:<14} {statistics.median(values):.3f} s [{min(values):.3f}, {max(values):.3f}]"
        )
    print(f"ratio          {statistics.median(ratios):.0f} [{min(ratios):.0f}, {max(ratios):.0f}]")


def memory() -> None:
    graph = random_graph(1_000_000, 8)
    before = resident_gib()
    started = time.perf_counter()
    features = grf.sample_features(graph, walks(32, "stratified"), seed=0)
    seconds = time.perf_counter() - started
    print(f"1M nodes x 32 walks, p_halt 0.1: {features!r}")
    print(
        f"{features.n_steps / 1e6:.0f}M steps in {seconds:.1f} s, "
        f"{features.n_steps / seconds / 1e6:.1f}M steps/s"
    )
    size = features.nbytes / 2**30
    print(
        f"peak memory {peak_gib():.2f} GiB, of which {before:.2f} were there before and the "
        f"features take {size:.2f}: {(peak_gib() - before) / size:.2f} times the features"
    )


def resident_gib() -> float:
    """Memory of this process now, in GiB (Linux)."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**30


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", metavar="FOLDER", help="another checkout of graphrf")
    for name in ("choices", "threads", "memory"):
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.serve:
        print(header("scipy"))
    if options.serve:
        serve()
    elif options.against:
        against(options.against)
    elif options.choices:
        choices()
    elif options.threads:
        threads()
    elif options.memory:
        memory()
    else:
        speed()
        rival()
