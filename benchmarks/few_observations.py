"""How well are few observations on a large grid used, by default and by the precision?

    python benchmarks/few_observations.py                       # a million nodes; some minutes
    python benchmarks/few_observations.py --side 500 --observed 400

A draw of `Matern(nu=2)` on a square grid, whose lengthscale is three times the mean distance
between observed nodes, with noise of a tenth of its standard deviation. For each method, beside the
posterior that knows kernel, scale and noise: root mean square error of the mean over the standard
deviation of the draw, and coverage of 95 % intervals of f, both at 2,000 nodes; seconds of the
processor for the fit; and the first words of its warnings.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
import scipy.sparse as sp
from _machine import header

import graphrf as grf


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--side", type=int, default=1_000)
    parser.add_argument("--observed", type=int, default=1_000)
    parser.add_argument("--methods", nargs="+", default=["auto", "features", "precision"])
    options = parser.parse_args()
    print(header("scipy"))
    path = sp.diags_array([np.ones(options.side - 1)] * 2, offsets=[-1, 1])
    eye = sp.eye_array(options.side)
    adjacency = sp.csr_array(sp.kron(path, eye) + sp.kron(eye, path))
    graph = grf.Graph(adjacency)
    kernel = grf.Matern(nu=2.0, lengthscale=3 * options.side / options.observed**0.5)
    rng = np.random.default_rng(1)
    f = grf.apply_root(graph, kernel, rng.standard_normal(graph.n_nodes))
    f /= f.std()
    observed = rng.choice(graph.n_nodes, options.observed, replace=False)
    y = f[observed] + 0.1 * rng.standard_normal(observed.size)
    asked = rng.choice(graph.n_nodes, 2_000, replace=False)
    known = {
        "kernel": kernel,
        "method": "precision",
        "optimize": False,
        "output_scale": 1.0,
        "noise": 0.01,
    }
    print(f"{graph.n_nodes:,} nodes, {observed.size:,} observed, {kernel!r}")
    fits = [("known", known), *((method, {"method": method}) for method in options.methods)]
    for name, settings in fits:
        graph = grf.Graph(adjacency)  # anew: orders of elimination are kept with a graph
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            started = time.process_time()
            gp = grf.GraphGPRegressor(graph, seed=0, **settings).fit(observed, y)
            seconds = time.process_time() - started
            mean, std = gp.predict(asked, return_std=True)
        error = np.sqrt(np.mean((mean - f[asked]) ** 2))
        covered = np.mean(np.abs(mean - f[asked]) < 1.96 * std)
        words = [str(warning.message)[:40] for warning in said]
        print(
            f"{name:<10} error {error:.3f} coverage {covered:.3f} {seconds:6.1f} s  {gp.kernel_!r} "
            f"{words}",
            flush=True,
        )


if __name__ == "__main__":
    main()
