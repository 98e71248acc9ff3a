"""`graphrf compile`: the loops of fits, features and PageRank, compiled before they are wanted."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphrf import Graph

EXAMPLES = ("graphrf compile",)


def _features() -> None:
    import numpy as np

    import graphrf as grf

    graph, kernel = _ring(), grf.Diffusion(2.0)
    for sampler in (None, grf.RandomWalks(16), grf.sampling.CutPowers(8, 4)):
        features = grf.sample_features(graph, sampler, seed=0)
        features.gram(kernel)
        features.factor().apply(kernel.modulation(9), np.ones((graph.n_nodes, 3), np.float32))
    for columns in (1, 3):
        grf.apply_kernel(graph, kernel, np.ones((graph.n_nodes, columns), np.float32))


def _pagerank() -> None:
    from graphrf.pagerank import estimate, local_pagerank, pagerank

    graph = _ring()
    pagerank(graph)
    estimate(graph, seed=0)
    estimate(graph, tol=0.02, seed=0)
    estimate(graph, estimator="endpoints", coupling="iid", seed=0)
    local_pagerank(graph, [0, 7], k=5, seed=0)
    local_pagerank(graph, [0, 7], max_residual=1e-3)


def _graph_gps() -> None:
    import numpy as np

    from graphrf.gp import GraphGPRegressor

    nodes = np.arange(0, 1000, 50)  # so far apart that rows of features have few nodes in common
    kernels = {"precision": "matern", "series": "diffusion", "features": "diffusion"}
    for method, kernel in kernels.items():
        gp = GraphGPRegressor(_ring(1000), kernel=kernel, method=method, seed=0)
        gp.fit(nodes, np.sin(nodes / 99)).predict(return_std=True)
        gp.predict([0, 1], return_cov=True)
        gp.sample([0, 1], seed=0)
    _terms()  # has loops in common with these


def _fields() -> None:
    import numpy as np

    from graphrf.gp import FieldGPRegressor, TriangleMesh

    points = np.random.default_rng(0).random((40, 2))
    gp = FieldGPRegressor(TriangleMesh.from_points(points, max_edge=0.2))
    gp.fit(points, np.sin(9 * points[:, 0])).predict([[0.5, 0.5]], return_std=True)
    gp.sample([[0.5, 0.5]], seed=0)


def _graph_time_gps() -> None:
    import numpy as np

    from graphrf.gp import GraphTimeGPRegressor

    nodes, times = np.arange(12), np.arange(30.0)
    y = np.sin(times[:, None] / 4 + nodes)
    for gap in (0, 40):
        y.ravel()[:gap] = np.nan
        gp = GraphTimeGPRegressor(_ring(), "diffusion", max_train=100, n_draws=4, seed=0)
        gp.fit(y, times=times, nodes=nodes)
        gp.predict([0, 20], times[:2], return_std=True)
        gp.sample([0, 20], times[:2], seed=0)


def _terms() -> None:
    import numpy as np
    import pandas as pd

    from graphrf import BYM2
    from graphrf.gp import LatentGaussianModel, Nodes, Steps

    frame = pd.DataFrame({"node": np.arange(60), "time": np.arange(60) % 6})
    frame["y"] = np.sin(frame["node"] / 9) + frame["time"] % 2
    terms = [Nodes(_ring(), BYM2(), by="node"), Steps("time", "rw1")]
    LatentGaussianModel("y ~ 1", terms, seed=0).fit(frame).summary()


def _euclidean() -> None:
    import numpy as np

    from graphrf.euclidean import FourierFeatures

    points = np.random.default_rng(0).standard_normal((60, 4))
    for directions in ("iid", "orthogonal-hd"):
        features = FourierFeatures(24, directions=directions).fit(points)
        for each in (points, points.astype(np.float32)):
            features.transform(each)


def _ring(n_nodes: int = 60) -> Graph:
    """Nodes in a circle, each with four neighbours."""
    import numpy as np

    from graphrf import from_edges

    nodes = np.arange(n_nodes)
    return from_edges(np.tile(nodes, 2), np.r_[nodes + 1, nodes + 2] % n_nodes)


_PARTS: dict[str, Callable[[], None]] = {
    "Gaussian processes on graphs": _graph_gps,
    "fields over space": _fields,
    "graphs and time": _graph_time_gps,
    "features": _features,
    "PageRank": _pagerank,
    "Euclidean features": _euclidean,
}


def _compiled(part: str) -> tuple[float, str]:
    """Seconds of the processor that a part takes here, and the extra that it lacks."""
    from graphrf._base.progress import silence

    silence()
    warnings.simplefilter("ignore")
    warnings.filterwarnings("default", message="compiled loops cannot be cached")
    started, missing = time.process_time(), ""
    try:
        _PARTS[part]()
    except ImportError as error:
        missing = str(error)
    return time.process_time() - started, missing


def compile() -> None:
    """Compile the loops of fits, features and PageRank, so that first calls need not."""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    from graphrf._base.threads import thread_count
    from graphrf.cli.options.output import echo

    workers = min(thread_count(None), len(_PARTS))
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for part, (seconds, missing) in zip(_PARTS, pool.map(_compiled, _PARTS), strict=True):
            echo(f"{part}: {missing or f'{seconds:.0f} s of the processor'}\n")
