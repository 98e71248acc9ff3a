"""The longest waits of users with default settings, each beside a unit of work.

    python benchmarks/waits.py [--rows year traffic road random hubs series]

`year`: 36 sensors x 8,760 hours, a fifth of the values missing (a daily profile, two processes that
neighbours share, noise): fit, then gaps filled with deviations; the unit is a complete-grid filter
of all values. `traffic`: the week of METR-LA, 30 % of the values missing; there is no unit. `road`:
a road-like graph of 302,500 crossings, a tenth observed, `method="precision"`; the unit is a sparse
factor of its precision. `random`: 1,000 of a million nodes with eight random neighbours, deviations
at 10,000; the unit is a product with the adjacency. `hubs`: 2,000 of 200,000 nodes of a graph by
preferential attachment; the same unit. `series`: 100,000 of a million nodes of a grid,
`method="series"`; the same unit. Errors and coverage are of values without noise that were not
observed; of the random graphs next to nothing can be predicted.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import networkx as nx
import numpy as np
from _machine import header, peak_gib
from fit_costs import grid

import graphrf as grf
from graphrf.gp import GraphTimeGPRegressor, metrics
from graphrf.gp.time.covariance import GridCovariance, Part, Sensors, Separable
from graphrf.gp.time.kernels import MaternTime, TimeSteps
from graphrf.gp.time.posterior import process_draws

NOISE = 0.1


def clocked(function: Callable[[], Any]) -> tuple[float, float, Any]:
    """Seconds, seconds of all cores, and the result."""
    wall, cores = time.perf_counter(), time.process_time()
    result = function()
    return time.perf_counter() - wall, time.process_time() - cores, result


def report(what: str, took: tuple[float, float, Any], unit: float, name: str) -> None:
    """One line: seconds, and how many units of work they are."""
    print(
        f"    {what:44}{took[0]:8.2f} s {took[1]:8.2f} CPU s {took[1] / unit:10.1f} {name}",
        flush=True,
    )


def scores(truth: np.ndarray, mean: np.ndarray, std: np.ndarray) -> None:
    """Error and coverage of what was not observed."""
    own = metrics.rmse(truth, mean), metrics.coverage(truth, mean, std), peak_gib()
    print(
        f"    RMSE {own[0]:.4f}, 95 % intervals hold {own[1]:.3f}; peak memory {own[2]:.2f} GiB",
        flush=True,
    )


def year(hours: int = 8_760) -> None:
    """36 sensors on a grid of streets."""
    graph, rng = grid(6), np.random.default_rng(0)
    root = np.linalg.cholesky(
        grf.kernel_block(graph, grf.Diffusion(3.0), range(36), range(36)) + 1e-9 * np.eye(36)
    )
    times = np.arange(float(hours))
    steps = TimeSteps.of(times)
    signal = np.sin(2 * np.pi * (times[:, None] / 24 + rng.random(36) / 4)) * (0.5 + rng.random(36))
    signal += process_draws(MaternTime(48.0), steps, 36, rng) @ root.T
    signal += 0.5 * process_draws(MaternTime(6.0), steps, 36, rng) @ root.T
    y = signal + np.sqrt(NOISE) * rng.standard_normal(signal.shape)
    missing = rng.random(y.shape) < 0.2
    y[missing] = np.nan
    series = GridCovariance(
        Separable((Part(MaternTime(48.0), 1.0, 0.1), Part(MaternTime(6.0), 0.3, 0.1)), NOISE),
        Sensors.of(root @ root.T),
        times,
    ).series(np.full(times.size, NOISE))
    filled = np.where(missing, 0.0, y)[:, None]
    series.solve(filled)
    unit = clocked(lambda: series.solve(filled))[1]
    gp = GraphTimeGPRegressor(graph, seed=0)
    report("fit", clocked(lambda: gp.fit(y, times=times)), unit, "filters")
    found = clocked(lambda: gp.fill(y, times=times, return_std=True))
    report("gaps filled, with deviations", found, unit, "filters")
    mean, std = found[2]
    scores(signal[missing], mean[missing], std[missing])


def traffic() -> None:
    """METR-LA's week."""
    data = grf.datasets.load("metr-la")
    y, times = np.array(data.extra["speeds"], dtype=float), np.arange(2_016) / 12.0
    hidden = np.random.default_rng(1).random(y.shape) < 0.3
    shown = np.where(hidden, np.nan, y)
    gp = GraphTimeGPRegressor(data.graph, seed=0)
    report("fit", clocked(lambda: gp.fit(shown, times=times)), 1.0, "")
    found = clocked(lambda: gp.fill(shown, times=times, return_std="observation"))
    report("gaps filled, with deviations", found, 1.0, "")
    scores(y[hidden], found[2][0][hidden], found[2][1][hidden])


def nodes_of(graph: grf.Graph, kernel: grf.kernels.Kernel, n: int, **options: Any) -> None:
    """A fit of n nodes of a graph, with means and deviations elsewhere."""
    rng = np.random.default_rng(0)
    signal = grf.apply_root(graph, kernel, rng.standard_normal(graph.n_nodes))
    signal /= signal.std()
    nodes = np.sort(rng.choice(graph.n_nodes, n, replace=False))
    y = signal[nodes] + np.sqrt(NOISE) * rng.standard_normal(n)
    asked = np.setdiff1d(np.arange(graph.n_nodes), nodes)
    asked = np.sort(rng.choice(asked, min(10_000, asked.size), replace=False))
    if options.get("method") == "precision":
        from graphrf.operators.precision.markov import SparsePrecision

        precision = SparsePrecision(graph, grf.Matern(2.0, 3.0))
        precision.factor()
        unit, name = clocked(precision.factor)[1], "factors"
    else:
        column = rng.standard_normal((graph.n_nodes, 1))
        unit, name = (
            clocked(lambda: [graph.adjacency @ column for _ in range(5)])[1] / 5,
            "products",
        )
    gp = grf.GraphGPRegressor(graph, seed=0, **options)
    report("fit", clocked(lambda: gp.fit(nodes, y)), unit, name)
    report("means everywhere", clocked(gp.predict), unit, name)
    found = clocked(lambda: gp.predict(asked, return_std=True))
    report(f"deviations at {asked.size} nodes", found, unit, name)
    if options.get("method") == "precision":
        report("deviations everywhere", clocked(lambda: gp.predict(return_std=True)), unit, name)
    print(f"    {gp.method_}, {gp.kernel_!r}, {gp.n_points_} points")
    scores(signal[asked], *found[2])


def road() -> None:
    """A square grid of which a tenth of the edges is missing."""
    graph = grid(550)
    edges = np.column_stack(graph.adjacency.nonzero())
    edges = edges[edges[:, 0] < edges[:, 1]]
    edges = edges[np.random.default_rng(0).random(len(edges)) > 0.1]
    graph = grf.from_edges(edges[:, 0], edges[:, 1], nodes=range(graph.n_nodes))
    nodes_of(graph, grf.Matern(2.0, 9.0), graph.n_nodes // 10, method="precision")


def random() -> None:
    """Eight neighbours of each node, at random."""
    n, rng = 1_000_000, np.random.default_rng(0)
    graph = grf.from_edges(np.repeat(np.arange(n), 4), rng.integers(0, n, 4 * n))
    nodes_of(graph, grf.Matern(2.0, 3.0), 1_000)


def hubs() -> None:
    """Preferential attachment."""
    edges = np.array(nx.barabasi_albert_graph(200_000, 4, seed=0).edges)
    nodes_of(grf.from_edges(edges[:, 0], edges[:, 1]), grf.Matern(2.0, 3.0), 2_000)


def series() -> None:
    """A grid of a million nodes."""
    nodes_of(grid(1_000), grf.Diffusion(40.0), 100_000, method="series")


ROWS = {row.__name__: row for row in (year, traffic, road, random, hubs, series)}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", nargs="+", default=list(ROWS), choices=list(ROWS))
    warnings.simplefilter("ignore")
    print(header())
    for row in parser.parse_args().rows:
        print(row, flush=True)
        ROWS[row]()
