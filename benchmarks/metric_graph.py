"""Does a field along the edges predict better than one on the junctions?

    GRAPHRF_DATA_DIR=... python benchmarks/metric_graph.py

As printed on two cores that other work shared (long titles are broken here):

    San Jose: MetricGraph(1016 nodes, 1173 edges, total length 470613), 250 of 325 sensors seen, 10
        splits; miles per hour
                                            rmse    nlpd  in 95 %    CPU s
    along the edges                       12.217   3.950    0.919     0.53
    along the edges, free ends            12.205   3.949    0.920     0.48
    along the edges, order 2              12.053   3.930    0.919     0.99
    order 2, free ends                    12.036   3.929    0.919     1.00
    nodes, Matern nu=1, combinatorial     12.382   3.974    0.925     0.45
    nodes, Matern nu=1, normalized        13.109   4.059    0.935     0.43
    nodes, all defaults                   12.227   3.951    0.917     1.14

    California: MetricGraph(21048 nodes, 21693 edges, total length 21693), 3,000 places seen, draws
    of
        lengthscale 2 and variance 1, noise of deviation 0.3
                                            rmse    nlpd  in 95 %    CPU s
    along the edges                        0.915   1.300    0.955     5.19
    nearest junctions, Matern nu=1         0.941   1.352    0.965     1.38
    places as nodes, Matern nu=1           0.924   1.339    0.970     1.88

    California: MetricGraph(21048 nodes, 21693 edges, total length 21693), 3,000 places seen, draws
    of
        lengthscale 10 and variance 1, noise of deviation 0.3
                                            rmse    nlpd  in 95 %    CPU s
    along the edges                        0.664   0.954    0.957     4.59
    nearest junctions, Matern nu=1         0.683   1.010    0.970     1.28
    places as nodes, Matern nu=1           0.676   0.983    0.961     2.02

In San Jose a field of order 1 along the edges is better than Matern kernels of nu = 1 on the nodes
and as good as the defaults, which compare several kernels; one of order 2 is better than all, by
1.3 % of the error and 0.02 in the density. Where the field is drawn along the edges, taking the
nearest junction costs 3 % of the error, noise included, and a kernel on a graph whose nodes are the
places 1 to 2 %, with intervals that are a little wide. No graph has to be made for the places, and
lengthscales are in metres and do not depend on where edges are cut. A fit takes two to four times
as long.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from _machine import header

import graphrf as grf
from graphrf.gp import FieldGPRegressor, GraphGPRegressor, MetricGraph, metrics

SPLITS = 10


def main() -> None:
    print(header("scipy"))
    # Hyperparameters at the ends of the search are part of the comparison.
    warnings.simplefilter("ignore")
    san_jose()
    for lengthscale in (2.0, 10.0):
        california(lengthscale)


def san_jose() -> None:
    """Speeds of 325 sensors on the highways of San Jose: 250 of them are seen, 75 predicted."""
    data = grf.datasets.load("san-jose")
    ends, lengths = data.extra["roads"], data.extra["lengths"]
    roads = MetricGraph(ends[:, 0], ends[:, 1], lengths)
    free = MetricGraph(ends[:, 0], ends[:, 1], lengths, ends="free")
    speeds, sensors = data.targets, data.target_nodes
    models: dict[str, Any] = {
        "along the edges": lambda seed: FieldGPRegressor(roads),
        "along the edges, free ends": lambda seed: FieldGPRegressor(free),
        "along the edges, order 2": lambda seed: FieldGPRegressor(roads, alpha=2),
        "order 2, free ends": lambda seed: FieldGPRegressor(free, alpha=2),
        "nodes, Matern nu=1, combinatorial": lambda seed: GraphGPRegressor(
            data.graph, kernel=grf.Matern(nu=1.0, laplacian="combinatorial"), seed=seed
        ),
        "nodes, Matern nu=1, normalized": lambda seed: GraphGPRegressor(
            data.graph, kernel=grf.Matern(nu=1.0), seed=seed
        ),
        "nodes, all defaults": lambda seed: GraphGPRegressor(data.graph, seed=seed),
    }
    print(f"\nSan Jose: {roads}, 250 of 325 sensors seen, {SPLITS} splits; miles per hour")
    print(f"{'':36}{'rmse':>8}{'nlpd':>8}{'in 95 %':>9}{'CPU s':>9}")
    for name, make in models.items():
        scores = []
        for seed in range(SPLITS):
            order = np.random.default_rng(seed).permutation(sensors.size)
            seen, left = order[:250], order[250:]
            scores.append(
                _scored(make(seed), sensors[seen], speeds[seen], sensors[left], speeds[left])
            )
        print_row(name, scores)


def california(lengthscale: float) -> None:
    """Draws along the roads of California, seen at 3,000 places and predicted at as many.

    The kernels on nodes have the nearest junction for each place, or the places for nodes: weights
    are one over the length of the pieces, up to a factor.
    """
    graph = grf.datasets.load("california-roads").graph
    upper = grf.Graph(graph.adjacency).adjacency.tocoo()
    src, dst = upper.coords
    once = src < dst
    src, dst = src[once].astype(np.int64), dst[once].astype(np.int64)
    length = 1 / upper.data[once]  # in mean lengths of an edge
    roads = MetricGraph(src, dst, length)
    matern = grf.Matern(nu=1.0, laplacian="combinatorial")
    results: dict[str, list[list[float]]] = {}
    for seed in range(2):
        rng = np.random.default_rng(seed)
        edges = rng.choice(src.size, 6_000, p=length / length.sum())
        places = np.column_stack([edges, rng.random(6_000) * length[edges]])
        f = roads.sample(places, range=2 * lengthscale, seed=seed)[0]
        y = f + 0.3 * rng.standard_normal(6_000)
        pieces = roads.subdivide(roads.places(places))
        cut = grf.from_edges(
            pieces.src, pieces.dst, pieces.length, n_nodes=pieces.n_nodes, weight_is="distance"
        )
        nearest = np.where(places[:, 1] < 0.5 * length[edges], src[edges], dst[edges])
        for name, model, at in (
            ("along the edges", FieldGPRegressor(roads), places),
            (
                "nearest junctions, Matern nu=1",
                GraphGPRegressor(graph, kernel=matern, seed=seed),
                nearest,
            ),
            (
                "places as nodes, Matern nu=1",
                GraphGPRegressor(cut, kernel=matern, seed=seed),
                pieces.where,
            ),
        ):
            results.setdefault(name, []).append(
                _scored(model, at[:3_000], y[:3_000], at[3_000:], y[3_000:])
            )
    print(
        "\n"
        f"California: {roads}, 3,000 places seen, draws of lengthscale {lengthscale:g} and "
        "variance 1, noise of deviation 0.3"
    )
    print(f"{'':36}{'rmse':>8}{'nlpd':>8}{'in 95 %':>9}{'CPU s':>9}")
    for name, scores in results.items():
        print_row(name, scores)


def _scored(model: Any, seen: Any, y: np.ndarray, left: Any, truth: np.ndarray) -> list[float]:
    """Of new observations: RMSE, NLPD, share within 95 % intervals; CPU seconds."""
    started = time.process_time()
    mean, std = model.fit(seen, y).predict(left, return_std="observation")
    seconds = time.process_time() - started
    inside = float(np.mean(np.abs(truth - mean) < 1.96 * std))
    return [metrics.rmse(truth, mean), metrics.nlpd(truth, mean, std), inside, seconds]


def print_row(name: str, scores: list[list[float]]) -> None:
    rmse, nlpd, inside, seconds = np.mean(scores, axis=0)
    print(f"{name:36}{rmse:8.3f}{nlpd:8.3f}{inside:9.3f}{seconds:9.2f}", flush=True)


if __name__ == "__main__":
    main()
