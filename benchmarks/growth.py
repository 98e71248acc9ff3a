"""How large may a graph be? Time and memory of a Gaussian process against nodes and observations.

Three kinds of graphs (road-like, random, with hubs) and three methods. Every line is a process of
its own, which draws a signal, observes it with noise, trains `Matern(nu=2)` with `method` and
predicts the mean at all nodes. Seconds are the processor's, of all threads, without graph and
signal: other work on the machine adds little. The signal has the same kernel, of lengthscale 3, but
on road-like graphs three times the mean distance between observed nodes, so that they say something
of the nodes between them however large the graph is. On the others no lengthscale does: nodes that
are a few steps from each other are a large part of the graph. `--graphs smooth` is a separate case,
a smooth signal drawn with `Diffusion(40)` on a grid. There `Diffusion` is trained, or with the
method `precision`, which has no factor for it, `Matern(nu=3)`.

    python benchmarks/growth.py --sizes 10000 100000 --observed 1000 0.1 --timeout 300
    python benchmarks/growth.py --graphs smooth --sizes 1000000 --observed 0.1
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import time
import warnings

import numpy as np
from _machine import header
from gp import grid, random_graph
from pagerank import preferential

import graphrf as grf
from graphrf.gp import GraphGPRegressor

GRAPHS = ("road-like", "random", "hubs")
SMOOTH = "smooth"
METHODS = ("precision", "series", "features")
NOISE = 0.1


def made(kind: str, n_nodes: int) -> grf.Graph:
    """The largest component of a grid less a tenth of its edges, or four edges per node.

    The nodes that this grid leaves alone have by far the largest variance where the lengthscale is
    long.
    """
    if kind == SMOOTH:
        return grid(math.isqrt(n_nodes))
    if kind == "road-like":
        return grid(math.isqrt(n_nodes), missing=0.1).largest_component()
    if kind == "random":
        return random_graph(n_nodes, 8, np.random.default_rng(0))
    return preferential(n_nodes, 4)


def run(kind: str, n_nodes: int, given: float, method: str) -> dict[str, float]:
    """Nodes, processor seconds of the fit and of the mean everywhere, peak memory and error.

    `given` are the observed nodes, or below 1 their share.
    """
    graph = made(kind, n_nodes)
    rng = np.random.default_rng(1)
    n_observed = int(given if given >= 1 else given * graph.n_nodes)
    lengthscale = 3.0 * (math.sqrt(graph.n_nodes / n_observed) if kind == "road-like" else 1.0)
    kernel: grf.Diffusion | grf.Matern = grf.Matern(lengthscale=lengthscale, nu=2.0)
    trained: grf.Diffusion | grf.Matern = grf.Matern(nu=2.0)
    if kind == SMOOTH:
        kernel, trained = (
            grf.Diffusion(40.0),
            grf.Matern(nu=3.0) if method == "precision" else grf.Diffusion(),
        )
    signal = grf.apply_root(graph, kernel, rng.standard_normal((graph.n_nodes, 1)))[:, 0]
    signal /= signal.std()
    observed = rng.choice(graph.n_nodes, n_observed, replace=False)
    y = signal[observed] + NOISE * rng.standard_normal(n_observed)
    started = time.process_time()
    model = GraphGPRegressor(graph, kernel=trained, method=method, hyperparameters="mode", seed=0)
    model.fit(graph.positions(observed), y)
    fitted = time.process_time()
    mean = model.predict(graph.positions(np.arange(graph.n_nodes)))
    ended = time.process_time()
    return {
        "nodes": graph.n_nodes,
        "edges": graph.n_edges,
        "observed": n_observed,
        "fit": fitted - started,
        "mean": ended - fitted,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10,
        "error": float(np.sqrt(np.mean((mean - signal) ** 2))),
    }


def measured(
    kind: str, n_nodes: int, given: float, method: str, timeout: float
) -> dict[str, float] | str:
    """A line in a process of its own; words where there is none."""
    arguments = [sys.executable, __file__, "--one", kind, str(n_nodes), str(given), method]
    try:
        done = subprocess.run(
            arguments, capture_output=True, text=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired:
        return f"not done in {timeout:.0f} s"
    if done.returncode:
        return "refused: " + done.stderr.strip().splitlines()[-1].partition(": ")[2][:60]
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Print the table, and how the seconds grow with the nodes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument(
        "--observed", type=float, nargs="+", default=[1_000, 0.1], help="nodes, or a share of them"
    )
    parser.add_argument("--graphs", nargs="+", choices=(*GRAPHS, SMOOTH), default=list(GRAPHS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--timeout", type=float, default=600.0)
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.one:
        kind, n_nodes, given, method = args.one
        run(kind, 2_000, 50, method)  # compiles
        print(json.dumps(run(kind, int(n_nodes), float(given), method)))
        return
    print(header("scipy"), "\n")
    print(
        "| graph | method | nodes | edges | observed | fit, s | mean everywhere, s | memory, MiB | "
        "error |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for kind in args.graphs:
        for method in args.methods:
            for given in args.observed:
                points = []
                for n_nodes in args.sizes:
                    found = measured(kind, n_nodes, given, method, args.timeout)
                    if isinstance(found, str):
                        print(
                            f"| {kind} | {method} | {n_nodes} | | {given:g} | {found} | | | |",
                            flush=True,
                        )
                        break
                    points.append((found["nodes"], found["fit"] + found["mean"]))
                    print(
                        f"| {kind} | {method} | {found['nodes']} | {found['edges']} | "
                        f"{found['observed']} | {found['fit']:.1f} | {found['mean']:.2f} | "
                        f"{found['peak']:.0f} | {found['error']:.3f} |",
                        flush=True,
                    )
                if len(points) > 1:
                    slope = np.polyfit(*np.log(np.array(points)).T, 1)[0]
                    print(
                        f"| {kind} | {method} | seconds ~ nodes^{slope:.2f} | | {given:g} | | | | "
                        "|",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
