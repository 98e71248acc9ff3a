"""Gaussian processes on six meshes: figure 4 of the paper, with exact rivals.

As there (Reid et al. 2024, Sec. 4.2 and App. F.2): the faces of a mesh are nodes, the z-component
of a face's normal is the signal, 5 % of the faces are held out; diffusion kernel, zero mean,
hyperparameters trained on 8 independent walks (p_halt .4), then frozen; {16, 32, 64} walks,
independent, antithetic or sigma-coupled (order 50), p_halt .4 and, besides, .1. Reported are the
relative Frobenius error of the Gram matrix, the root mean square error at the held-out faces, and
KL(approximate || exact) of the posteriors of the noise-free signal there, not divided by their
number. Repeats draw the walks anew.

Walks so noisy ask for lengthscales of about 2 whatever the mesh. `--train exact` takes the
hyperparameters of the exact likelihood instead, with lengthscales of 3.6 to 98, for which rows of
features grow long. The first lines of every mesh are those of both exact GPs and of the Markov
random field.

    python examples/mesh_normals.py --out mesh_normals.png
    python examples/mesh_normals.py --train exact
    python examples/mesh_normals.py --quick
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import _gp_protocol as protocol
import numpy as np
from _exact_gp import ExactGP
from _options import add_figure_option

import graphrf as grf
from graphrf.gp import metrics
from graphrf.operators.series.apply import kernel_block, mean_variance

MESHES = ("teapot", "fuze", "sphere", "idler-riser", "busted", "torus")
WALKS = (16, 32, 64)
P_HALTS = (0.4, 0.1)
# Features of longer kernels are not tried.
LONGEST = 200


def repeats_for(n_nodes: int) -> int:
    """Errors on large meshes average over their nodes, so fewer repeats do."""
    return int(np.clip(16_000 // n_nodes, 2, 10))


def run(
    name: str, walks: tuple[int, ...], repeats: int | None, training: str, seed: int
) -> tuple[dict[str, np.ndarray], float]:
    """Print the tables of one mesh; scores of every sampler, and the error of the exact GP."""
    data = grf.datasets.load(f"mesh-{name}")
    graph, signal = data.graph, data.targets
    train, test = protocol.split(graph.n_nodes, graph.n_nodes // 20, seed)
    print(f"\n{name}: {graph.n_nodes} faces, {test.size} held out")
    start = time.perf_counter()
    known = None
    if training == "walks":
        model = protocol.train_on_walks(graph, train, signal[train], "zero", P_HALTS[0], seed)
    else:
        gp = ExactGP(graph, mean="zero").fit(train, signal[train])
        model, known = protocol.model_of(gp), gp.predict(test, return_cov=True)
        del gp
    length = model.kernel.truncation_length(protocol.WALK_TAIL)
    task = None
    if length <= LONGEST:
        task = protocol.task_from(graph, train, test, signal[train], signal[test], model, known)
        known = task.mean, task.covariance
    assert known is not None  # training on walks bounds the lengthscale
    exact = metrics.rmse(signal[test], known[0])
    print_model(
        f"exact GP trained by {training}: lengthscale "
        f"{model.kernel.hyperparameters['lengthscale']:.2f}, scale "
        f"{model.amplitude * mean_variance(graph, model.kernel, seed=0).value:.2g}, noise "
        f"{model.noise:.2g}",
        signal[test],
        known[0],
        np.diagonal(known[1]) + model.noise,
        time.perf_counter() - start,
    )
    start = time.perf_counter()
    field = protocol.matern_field(graph, train, signal[train])
    mean, std = field.predict(test, return_std="observation")
    print_model(
        f"Markov random field: {field.kernel_}, noise {field.noise_:.2g}",
        signal[test],
        mean,
        std**2,
        time.perf_counter() - start,
    )
    if task is None:
        print(f"rows of {length} steps reach every face: the series only")
        return {}, exact
    results, ours = protocol.compare(
        task, walks, P_HALTS, repeats or repeats_for(graph.n_nodes), seed
    )
    protocol.print_targets(results, exact, walks[-1], P_HALTS[-1])
    print_seconds(task, ours)
    return results, exact


def print_model(
    name: str, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, seconds: float
) -> None:
    """A line on a model as a whole."""
    error, density = metrics.rmse(y, mean), metrics.nlpd(y, mean, np.sqrt(variance))
    print(
        f"{name}: RMSE {error:.4f}, NLPD {density:.3f}, {seconds:.1f} s with training", flush=True
    )


def print_seconds(task: protocol.Task, samplers: dict[str, Any]) -> None:
    """Seconds from frozen hyperparameters to predictions at held-out nodes, from scratch."""

    def regressor(method: str, sampler: Any = None) -> None:
        gp = grf.GraphGPRegressor(
            task.graph,
            kernel=task.kernel,
            method=method,
            mean="zero",
            output_scale=task.amplitude,
            noise=task.noise,
            optimize=False,
            numerics=grf.gp.Numerics(sampler=sampler, normalize=False, max_train=1),
            seed=0,
        )
        gp.fit(task.train, task.y_train).predict(task.test, return_std=True)

    def dense() -> None:
        protocol.posterior(task, kernel_block(task.graph, task.kernel))

    shown = [
        name for name in samplers if name.startswith(("sigma", "compressed, auto", "cut", "exact"))
    ]
    ways: dict[str, Callable[[], None]] = {
        name: partial(regressor, "features", samplers[name]) for name in shown
    }
    ways |= {"series": partial(regressor, "series"), "dense matrices": dense}
    cells = []
    for name, predict in ways.items():
        start = time.perf_counter()
        with protocol.quiet():
            predict()
        cells.append(f"{name} {time.perf_counter() - start:.2f}")
    print("seconds to predictions: " + "; ".join(cells), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--meshes", nargs="+", default=MESHES, choices=MESHES, metavar="NAME")
    parser.add_argument("--train", choices=("walks", "exact"), default="walks")
    parser.add_argument(
        "--repeats", type=int, help="at least 2; default: 2 to 10 by the mesh's size"
    )
    parser.add_argument(
        "--quick", action="store_true", help="the smallest mesh, 16 walks, 2 repeats"
    )
    parser.add_argument("--seed", type=int, default=0)
    add_figure_option(parser)
    options = parser.parse_args()
    if options.quick:
        options.meshes, options.repeats = MESHES[:1], 2
    if options.repeats is not None and options.repeats < 2:
        parser.error("--repeats must be at least 2")
    walks = WALKS[:1] if options.quick else WALKS
    print(
        "mean +- standard error over draws of the walks; KL(approximate || exact) of f at the "
        "held-out faces"
    )
    results = {
        name: run(name, walks, options.repeats, options.train, options.seed)
        for name in options.meshes
    }
    if options.out:
        protocol.draw(
            {name: result for name, result in results.items() if result[0]},
            "held-out faces",
            options.out,
        )


if __name__ == "__main__":
    main()
