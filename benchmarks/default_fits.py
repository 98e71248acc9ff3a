"""How long does GraphGPRegressor take to fit with all defaults, on real roads, meshes and networks?

    python benchmarks/default_fits.py
    python benchmarks/default_fits.py --data luxembourg-roads --observed 300 1000

A draw of `Matern(nu=2, lengthscale=6)` of variance 1, observed at some nodes with noise of standard
deviation 0.3. Each line is the second of two fits, so that compiled code is ready, but on a graph
that was loaded anew, so that nothing else is: seconds on the clock and of the processor, and what
was found. To compare versions, run it with PYTHONPATH set to a checkout of each.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from _machine import header

import graphrf as grf

DATA = ("mesh-ball", "mesh-counter", "cora", "california-roads", "luxembourg-roads")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=DATA)
    parser.add_argument("--observed", nargs="+", type=int, default=[300, 1_000])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(header("scipy"))
    print(
        f"{'data set':<18} {'nodes':>7} {'n':>5} {'clock, s':>9} {'cpu, s':>7}  method     kernel"
    )
    for name in options.data:
        for n in options.observed:
            graph, rng = grf.datasets.load(name).graph, np.random.default_rng(0)
            f = grf.apply_root(
                graph, grf.Matern(nu=2.0, lengthscale=6.0), rng.standard_normal(graph.n_nodes)
            )
            observed = rng.choice(graph.n_nodes, n, replace=False)
            y = f[observed] / f.std() + 0.3 * rng.standard_normal(n)
            for _ in range(2):
                graph = grf.datasets.load(name).graph
                clock, cpu = time.perf_counter(), time.process_time()
                gp = grf.GraphGPRegressor(graph, seed=0).fit(graph.positions(observed), y)
                clock, cpu = time.perf_counter() - clock, time.process_time() - cpu
            took = f"{clock:>9.1f} {cpu:>7.1f}"
            print(
                f"{name:<18} {graph.n_nodes:>7,} {n:>5,} {took}  {gp.method_:<10} {gp.kernel_!r}",
                flush=True,
            )


if __name__ == "__main__":
    main()
