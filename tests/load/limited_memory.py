"""Public calls of visible size, under limits below what they take, in a process.

    python -m tests.load.limited_memory "draws"

prints, as JSON, the memory that the call took without a limit, and how it ended at half and at a
quarter of that: "answer", or the message of the `MemoryError`.
"""

from __future__ import annotations

import ctypes
import gc
import json
import resource
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import graphrf as grf
from graphrf.gp import (
    Field,
    FieldGPRegressor,
    GraphTimeGPRegressor,
    LatentGaussianModel,
    MetricGraph,
    Nodes,
    TriangleMesh,
)

Call = Callable[[], Any]
SMALL = (30, 100)
KNOWN = {"output_scale": 1.0, "noise": 0.1, "optimize": False}


def grid(side: int) -> grf.Graph:
    """A square grid."""
    nodes = np.arange(side * side).reshape(side, side)
    return grf.from_edges(
        np.r_[nodes[:, :-1].ravel(), nodes[:-1].ravel()],
        np.r_[nodes[:, 1:].ravel(), nodes[1:].ravel()],
    )


def random_graph(n: int) -> grf.Graph:
    """Six neighbours of each node, at random: sparse factors fill up."""
    rng = np.random.default_rng(0)
    return grf.from_edges(np.repeat(np.arange(n), 3), rng.integers(0, n, 3 * n))


def _data(graph: grf.Graph, n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    nodes = np.sort(rng.choice(graph.n_nodes, n, replace=False))
    return nodes, np.sin(nodes / graph.n_nodes * 9) + 0.1 * rng.standard_normal(n)


def _fitted(graph: grf.Graph, n: int, **options: Any) -> grf.GraphGPRegressor:
    return grf.GraphGPRegressor(graph, seed=0, **options).fit(*_data(graph, n))


def _fit(graph: grf.Graph, n: int, **options: Any) -> Call:
    return lambda: _fitted(graph, n, **options)


def _counts(graph: grf.Graph, n: int) -> Call:
    nodes, values = _data(graph, n)
    counts = np.random.default_rng(2).poisson(np.exp(values))
    return lambda: grf.GraphGPRegressor(graph, likelihood="poisson", seed=0).fit(nodes, counts)


def _classes(graph: grf.Graph, n: int) -> Call:
    nodes, values = _data(graph, n)
    return lambda: grf.GraphGPClassifier(graph, seed=0).fit(nodes, values > 0).predict_proba()


def _along(side: int, n: int) -> tuple[MetricGraph, np.ndarray, np.ndarray, np.ndarray]:
    tails, heads = sp.triu(grid(side).adjacency).nonzero()
    streets, rng = MetricGraph(tails, heads, np.ones(tails.size)), np.random.default_rng(3)
    edges = rng.integers(0, streets.n_edges, n)
    return streets, edges, rng.random(n), rng.standard_normal(n)


def _through_time(n: int, times: int) -> tuple[grf.Graph, np.ndarray]:
    rng = np.random.default_rng(4)
    readings = np.sin(np.arange(times) / 20)[:, None] + 0.3 * rng.standard_normal((times, n))
    readings[rng.random(readings.shape) < 0.2] = np.nan
    return grid(round(n**0.5)), readings


def _terms(side: int, n: int) -> Call:
    import pandas as pd

    graph = grid(side)
    nodes, values = _data(graph, n)
    frame = pd.DataFrame({"node": nodes, "y": values})
    terms = [Nodes(graph, grf.Matern(1.0, 3.0), by="node")]
    return lambda: LatentGaussianModel("y ~ 1", terms=terms, seed=0).fit(frame)


# name -> (a small and a large size, the call)
CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], Callable[..., Call]]] = {
    "series": (
        SMALL,
        (150, 300),
        lambda side, n: _fit(
            grid(side), n, method="series", kernel="diffusion", hyperparameters="mode"
        ),
    ),
    "series, averaged": (SMALL, (100, 300), lambda side, n: _fit(grid(side), n, method="series")),
    "series, Cholesky": (
        SMALL,
        (60, 2_000),
        lambda side, n: _fit(
            grid(side), n, method="series", solver="cholesky", kernel=grf.Diffusion(3.0), **KNOWN
        ),
    ),
    "series, known": (
        SMALL,
        (300, 5_000),
        lambda side, n: _fit(grid(side), n, method="series", kernel=grf.Diffusion(3.0), **KNOWN),
    ),
    "precision": (SMALL, (100, 1_000), lambda side, n: _fit(grid(side), n, method="precision")),
    "automatic": (SMALL, (120, 1_000), lambda side, n: _fit(grid(side), n)),
    "random graph": (
        (900, 100),
        (8_000, 300),
        lambda size, n: _fit(random_graph(size), n, kernel="diffusion"),
    ),
    "features": (
        SMALL,
        (150, 8_000),
        lambda side, n: _fit(grid(side), n, method="features", kernel=grf.Diffusion(6.0), **KNOWN),
    ),
    "counts": (SMALL, (60, 1_500), lambda side, n: _counts(grid(side), n)),
    "classes": (SMALL, (70, 1_500), lambda side, n: _classes(grid(side), n)),
}


def _predictions(
    small: tuple[int, int], large: tuple[int, int], call: Callable[..., Any], **options: Any
) -> Any:
    def made(side: int, n: int) -> Call:
        gp = _fitted(grid(side), n, **options)
        return lambda: call(gp)

    return small, large, made


def _deviations(gp: grf.GraphGPRegressor) -> Any:
    return gp.predict(return_std=True)


def _draws(gp: grf.GraphGPRegressor) -> Any:
    return gp.sample(n_samples=200)


def _quantiles(gp: grf.GraphGPRegressor) -> Any:
    return gp.predict(quantiles=np.linspace(0.05, 0.95, 40))


SERIES = {"method": "series", "kernel": grf.Diffusion(3.0), **KNOWN}
PRECISION = {"method": "precision", "kernel": grf.Matern(1.0, 3.0), **KNOWN}
FEATURES = {"method": "features", "kernel": grf.Diffusion(3.0), **KNOWN}
CASES |= {
    "means, series": _predictions(SMALL, (1_000, 1_000), lambda gp: gp.predict(), **SERIES),
    "deviations, series": _predictions(SMALL, (400, 1_000), _deviations, **SERIES),
    "deviations, precision": _predictions(SMALL, (300, 1_000), _deviations, **PRECISION),
    "deviations, features": _predictions(SMALL, (400, 1_000), _deviations, **FEATURES),
    "joint covariance": _predictions(
        SMALL, (65, 400), lambda gp: gp.predict(return_cov=True), **SERIES
    ),
    "quantiles": _predictions(SMALL, (300, 1_000), _quantiles, **PRECISION),
    "draws, series": _predictions(SMALL, (300, 1_000), _draws, **SERIES),
    "draws, precision": _predictions(SMALL, (300, 1_000), _draws, **PRECISION),
    "draws, features": _predictions(SMALL, (300, 1_000), _draws, **FEATURES),
    "draws at a few nodes": _predictions(
        SMALL, (300, 1_000), lambda gp: gp.sample([0, 1], n_samples=200), **SERIES
    ),
    "draws of the average": _predictions(
        SMALL, (200, 500), _draws, method="series", kernel="diffusion"
    ),
    "draws of the average, precision": _predictions(
        SMALL, (200, 500), _draws, method="precision", kernel=grf.Matern(2.0)
    ),
    "prior covariance": _predictions(SMALL, (50, 400), lambda gp: gp.prior_covariance(), **SERIES),
}


def _metric_fit(side: int, n: int) -> Call:
    streets, edges, distances, values = _along(side, n)
    return lambda: FieldGPRegressor(streets).fit(np.column_stack([edges, distances]), values)


def _metric_draws(side: int, n: int) -> Call:
    streets, edges, distances, values = _along(side, n)
    gp = FieldGPRegressor(streets).fit(np.column_stack([edges, distances]), values)
    return lambda: gp.sample(np.column_stack([edges, distances]), n_samples=40 * side)


def _on_mesh(side: int, n: int) -> tuple[TriangleMesh, np.ndarray, np.ndarray]:
    corner = np.arange(side * side).reshape(side, side)
    a, b, c, d = (
        part.ravel()
        for part in (corner[:-1, :-1], corner[1:, :-1], corner[1:, 1:], corner[:-1, 1:])
    )
    vertices = np.stack(np.divmod(np.arange(side * side), side), axis=1)
    mesh = TriangleMesh(vertices, np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)]))
    rng = np.random.default_rng(3)
    return mesh, (side - 1) * rng.random((n, 2)), rng.standard_normal(n)


def _mesh_fit(side: int, n: int) -> Call:
    mesh, points, values = _on_mesh(side, n)
    return lambda: FieldGPRegressor(mesh).fit(points, values)


def _mesh_draws(side: int, n: int) -> Call:
    mesh, points, values = _on_mesh(side, n)
    gp = FieldGPRegressor(mesh, range=side / 4, sd=1.0, noise=1.0).fit(points, values)
    return lambda: gp.sample(points, n_samples=40 * side)


def _mesh_term(side: int, n: int) -> Call:
    import pandas as pd

    mesh, points, values = _on_mesh(side, n)
    frame = pd.DataFrame(points, columns=["x", "y"]).assign(value=values)
    return lambda: LatentGaussianModel("value ~ 1", terms=[Field(mesh)], seed=0).fit(frame)


def _time_fit(n: int, times: int) -> Call:
    graph, readings = _through_time(n, times)
    return lambda: GraphTimeGPRegressor(graph, max_train=2_000, seed=0).fit(
        readings, times=range(times)
    )


def _time_fill(n: int, times: int) -> Call:
    graph, readings = _through_time(n, times)
    gp = GraphTimeGPRegressor(graph, max_train=2_000, seed=0).fit(readings, times=range(times))
    return lambda: gp.fill(readings, times=range(times), return_std=True)


def _time_draws(n: int, times: int) -> Call:
    graph, readings = _through_time(n, times)
    gp = GraphTimeGPRegressor(graph, max_train=2_000, seed=0).fit(readings, times=range(times))
    return lambda: gp.sample(n_samples=100)


def _terms_draws(side: int, n: int) -> Call:
    model = _terms(side, n)()
    return lambda: model.sample(n_samples=500)


def _of_features(side: int, n_walks: int, call: Callable[[grf.features.Features], Any]) -> Call:
    features = grf.sample_features(grid(side), grf.RandomWalks(n_walks), seed=0)
    return lambda: call(features)


def _on_grid(side: int, call: Callable[[grf.Graph], Any]) -> Call:
    graph = grid(side)
    return lambda: call(graph)


CASES |= {
    "along roads": ((10, 50), (60, 1_000), _metric_fit),
    "draws along roads": ((10, 50), (40, 500), _metric_draws),
    "on a mesh": ((10, 50), (60, 1_000), _mesh_fit),
    "draws on a mesh": ((10, 50), (60, 500), _mesh_draws),
    "a field as a term": ((10, 50), (60, 1_000), _mesh_term),
    "through time": ((16, 60), (100, 600), _time_fit),
    "gaps through time": ((16, 60), (100, 1_000), _time_fill),
    "draws through time": ((16, 60), (100, 400), _time_draws),
    "terms": ((10, 50), (170, 3_000), _terms),
    "draws of terms": ((10, 50), (100, 3_000), _terms_draws),
    "kernel matrix": ((30,), (50,), lambda side: _on_grid(side, grf.Diffusion(2.0).dense)),
    "products": (
        (30,),
        (400,),
        lambda side: _on_grid(
            side,
            lambda graph: grf.apply_kernel(
                graph, grf.Diffusion(3.0), np.ones((graph.n_nodes, 100))
            ),
        ),
    ),
    "walks": (
        (30,),
        (200,),
        lambda side: _on_grid(
            side, lambda graph: grf.sample_features(graph, grf.RandomWalks(64), seed=0)
        ),
    ),
    "powers": (
        (30,),
        (200,),
        lambda side: _on_grid(
            side, lambda graph: grf.sample_features(graph, grf.CompressedPowers(64), seed=0)
        ),
    ),
    "feature matrix": (
        (30,),
        (200,),
        lambda side: _of_features(side, 64, lambda features: features.matrix(grf.Diffusion(2.0))),
    ),
    "gram": (
        (30,),
        (80,),
        lambda side: _of_features(side, 16, lambda features: features.gram(grf.Diffusion(2.0))),
    ),
    "pagerank": (
        (30,),
        (300,),
        lambda side: _on_grid(
            side, lambda graph: grf.pagerank(graph, personalization=np.ones((100, graph.n_nodes)))
        ),
    ),
}


def _mapped() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def _tidy() -> None:
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)


def _peak() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmPeak:"))


def measured(name: str, shares: tuple[float, ...] = (0.5, 0.25)) -> dict[str, Any]:
    """What a call takes, and how it ends at shares of that."""
    small, large, made = CASES[name]
    made(*small)()
    call = made(*large)
    _tidy()
    before = _mapped()
    call()
    needed = max(_peak() - before, 0)
    found: dict[str, Any] = {"needed": needed}
    for share in shares:
        call = made(*large)  # fitted objects keep what predictions make
        _tidy()
        limit = _mapped() + int(share * needed)
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))
        try:
            call()
            ended = "answer"
        except MemoryError as error:
            ended = str(error) or "MemoryError without a message"
            if "--trace" in sys.argv:
                traceback.print_exc()
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
        found[str(share)] = ended
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(measured(sys.argv[1])))
