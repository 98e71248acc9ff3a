"""How long does a fit take beside the linear algebra that no method can do without?

    python benchmarks/fit_costs.py
    python benchmarks/fit_costs.py --rows default known

`default`: a fit with all defaults and standard deviations at all nodes, over scipy's LU factor of
(L + 0.1 I)^2, on the 16,301 faces of a mesh and a grid of 40,000 nodes. `named`: the same with
kernel="matern", and the covariance of 5,000 nodes. `known`: a fit by the series with all
hyperparameters given, over K among the 1,000 observed nodes and its Cholesky factor. Each is the
second of two runs, so that compiled code is ready, on a graph made anew; factors are medians of
three. y is a draw of `Matern(nu=2, lengthscale=6)` of variance 1 with noise of standard deviation
0.3.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from _machine import header
from scipy.linalg import cho_factor
from scipy.sparse.linalg import splu

import graphrf as grf

ROWS = ("default", "named", "known")


def grid(side: int) -> grf.Graph:
    """A square grid."""
    nodes = np.arange(side * side).reshape(side, side)
    return grf.from_edges(
        np.r_[nodes[:, :-1].ravel(), nodes[:-1].ravel()],
        np.r_[nodes[:, 1:].ravel(), nodes[1:].ravel()],
    )


def clocked(function: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds, and the result."""
    started = time.perf_counter()
    result = function()
    return time.perf_counter() - started, result


def factor_seconds(graph: grf.Graph) -> float:
    """Of scipy's LU factor of the squared Laplacian."""
    base = sp.csc_array(graph.laplacian(normalized=False) + 0.1 * sp.eye_array(graph.n_nodes))
    square = sp.csc_array(base @ base)
    return float(np.median([clocked(lambda: splu(square))[0] for _ in range(3)]))


def observations(graph: grf.Graph, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nodes, noisy values there, and the values at all nodes."""
    rng = np.random.default_rng(0)
    f = grf.apply_root(
        graph, grf.Matern(nu=2.0, lengthscale=6.0), rng.standard_normal(graph.n_nodes)
    )
    f /= f.std()
    nodes = rng.choice(graph.n_nodes, n, replace=False)
    return nodes, f[nodes] + 0.3 * rng.standard_normal(n), f


def fits(name: str, make: Callable[[], grf.Graph], n: int, factor: float, **settings: Any) -> None:
    """A fit, and deviations at all nodes."""
    nodes, y, f = observations(make(), n)
    for _ in range(2):
        graph = make()
        fit, gp = clocked(
            lambda graph=graph: grf.GraphGPRegressor(graph, seed=0, **settings).fit(nodes, y)
        )
        deviations, (mean, std) = clocked(lambda gp=gp: gp.predict(return_std=True))
    held = np.mean(np.abs(mean - f) < 1.96 * std)
    print(
        f"{name:<22} {n:>5} {fit:>7.2f} s, deviations {deviations:>5.2f} s, factor {factor:.2f} s, "
        f"ratio {(fit + deviations) / factor:>5.1f}; {gp.method_}, {gp.n_points_} points, coverage "
        f"{held:.3f}",
        flush=True,
    )
    if "kernel" in settings:
        asked = np.arange(5_000)
        seconds, _ = clocked(lambda: gp.predict(asked, return_cov=True))
        print(f"{'':<22} covariance of 5,000 nodes {seconds:.2f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=ROWS)
    options = parser.parse_args()
    print(header("scipy"))
    if "default" in options.rows:
        factor = factor_seconds(grf.datasets.load("mesh-bunny").graph)
        for n in (50, 200, 500, 2_000):
            fits("mesh, 16,301 faces", lambda: grf.datasets.load("mesh-bunny").graph, n, factor)
    if {"default", "named"} & set(options.rows):
        factor = factor_seconds(grid(200))
    if "default" in options.rows:
        for n in (50, 3_000):
            fits("grid, 40,000 nodes", lambda: grid(200), n, factor)
    if "named" in options.rows:
        fits('grid, "matern"', lambda: grid(200), 3_000, factor, kernel="matern")
    if "known" in options.rows:
        nodes, y, _ = observations(grid(100), 1_000)
        kernel = grf.Diffusion(3.0)
        known = {
            "kernel": kernel,
            "optimize": False,
            "output_scale": 1.0,
            "noise": 0.1,
            "method": "series",
        }

        def dense(graph: grf.Graph) -> Any:
            return cho_factor(grf.kernel_block(graph, kernel, nodes, nodes) + 0.1 * np.eye(1_000))

        for _ in range(3):
            graphs = grid(100), grid(100)
            fit, _ = clocked(
                lambda graph=graphs[0]: grf.GraphGPRegressor(graph, seed=0, **known).fit(nodes, y)
            )
            least, _ = clocked(lambda graph=graphs[1]: dense(graph))
        print(
            f"known hyperparameters  1,000 {fit:>7.2f} s, K and its factor {least:.2f} s, ratio "
            f"{fit / least:.1f}"
        )


if __name__ == "__main__":
    main()
