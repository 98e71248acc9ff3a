"""Is the sparse precision of half-integer smoothness right, and is it quicker than the series?

    python benchmarks/half_smoothness.py                       # grids of 2,500 and 16,900 nodes
    python benchmarks/half_smoothness.py --sides 200

Draws of Matern kernels with lengthscale 20 on square grids, 2,000 nodes observed with noise of
deviation 0.3, hyperparameters known. Printed: layers and entries of the factor; CPU seconds of the
fit and of the deviations of all nodes by both methods (sampled by the series above 2,500 nodes);
and the largest errors of the mean and deviation at 60 nodes in deviations of the prior, beside the
series with a tolerance of 1e-12 and exact deviations.

As printed on two cores that other work shared:

      nodes   nu  layers   entries       precision          series              errors
      2,500  0.5       5   1.2e+06     0.3     0.1     1.9     0.7   1.4e-04   1.1e-05
      2,500  1.5       5   3.6e+06     0.4     0.2     2.1     0.8   1.9e-05   1.2e-06
      2,500  2.5       5   1.9e+06     0.3     0.1     1.9     0.5   1.3e-06   4.5e-08
     16,900  0.5       5   1.1e+07     0.9     0.6    15.6     1.8   8.3e-05   1.3e-05
     16,900  1.5       5   3.4e+07     3.6     3.1     8.6     1.5   1.6e-05   1.1e-06
     16,900  2.5       5   1.8e+07     2.3     1.1     7.6     0.9   3.0e-06   1.7e-07
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import networkx as nx
import numpy as np
from _machine import header

import graphrf as grf
from graphrf.operators.precision.markov import SparsePrecision

LENGTHSCALE, NOISE, OBSERVED, LOOKED_AT = 20.0, 0.09, 2_000, 60


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """A result, and CPU seconds."""
    started = time.process_time()
    result = work()
    return result, time.process_time() - started


def compared(side: int, nu: float) -> str:
    """A line of the table."""
    graph, rng = grf.load_graph(nx.grid_2d_graph(side, side)), np.random.default_rng(0)
    kernel, n = grf.Matern(nu=nu, lengthscale=LENGTHSCALE), side * side
    field = grf.apply_root(graph, kernel, rng.standard_normal(n))
    variance = float(field.var())
    nodes = rng.choice(n, min(OBSERVED, n), replace=False)
    y = field[nodes] / variance**0.5 + NOISE**0.5 * rng.standard_normal(nodes.size)
    some = rng.choice(n, LOOKED_AT, replace=False)

    def made(method: str, **numerics: Any) -> grf.GraphGPRegressor:
        return grf.GraphGPRegressor(
            graph,
            kernel=kernel,
            method=method,
            optimize=False,
            noise=NOISE,
            output_scale=1 / variance,
            mean="zero",
            numerics=grf.gp.Numerics(normalize=False, n_threads=1, **numerics),
            seed=0,
        )

    seconds, found = [], {}
    for method in ("precision", "series"):
        gp = made(method, std_method="sampled" if method == "series" and n > 2_500 else "auto")
        seconds += [
            timed(partial(gp.fit, nodes, y))[1],
            timed(partial(gp.predict, return_std=True))[1],
        ]
        found[method] = gp.predict(some, return_std=True)
    right = (
        made("series", std_method="exact", tol=1e-12).fit(nodes, y).predict(some, return_std=True)
    )
    errors = [
        np.abs(own - other).max() for own, other in zip(found["precision"], right, strict=True)
    ]
    precision = SparsePrecision(graph, kernel)
    layers, entries = precision.n_nodes // n, precision.own_elimination.n_entries
    return (
        f"{n:>7,}{nu:>5}{layers:>8}{entries:>10.1e}"
        + "".join(f"{own:>8.1f}" for own in seconds)
        + "".join(f"{own:>10.1e}" for own in errors)
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sides", type=int, nargs="+", default=[50, 130])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(header("scipy"))
    print(
        f"{'nodes':>7}{'nu':>5}{'layers':>8}{'entries':>10}{'precision':>16}{'series':>16}{'errors':>20}"
    )
    for side in options.sides:
        for nu in (0.5, 1.5, 2.5):
            print(compared(side, nu), flush=True)


if __name__ == "__main__":
    main()
