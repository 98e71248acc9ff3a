"""How long do fit and prediction take on 10,000 to a million nodes, and how good are they?

    python benchmarks/gp.py [--case grid10k|few|million|field|growth|dense]

- `grid10k`: 6,000 of 10,000 nodes of a grid, a draw of exp(-10 L), scale 10, with noise of
  deviation 0.1: training, then means and deviations at all nodes, by the series and by sampled
  rows; beside them the exact Gaussian process with the true hyperparameters; with `--exact` a dense
  one that finds its own, and with `--rival` fast-graph-gp as its authors run it (16 walks, 100
  steps of AdamW; `pip install -r benchmarks/requirements.txt`).
- `few`: 1,000 nodes of a grid and of a random graph (mean degree 8) of a million: fit, means at all
  nodes, deviations at 10,000.
- `million`: 100,000 nodes of a grid of a million, sin(x / 40) cos(y / 40), noise of deviation 0.1:
  fit, means at all nodes, against the best Gaussian filter of the observations; then deviations at
  20,000 nodes from draws, against 256 exact ones (`--deviations`, some minutes more).
- `field`: 100,000 nodes of a million observed, a grid and one of which a quarter of the edges is
  gone, draws of a Matern kernel (l = 8, nu = 1 and 2), noise of a tenth of the variance:
  hyperparameters, means and exact deviations at all nodes by the sparse precision, and how many
  deviations hold.
- `growth`: seconds of fit and prediction with deviations against N, 10 % of a grid observed, and
  the fitted power.
- `dense`: against Cholesky with the dense kernel, all with the same fixed hyperparameters.

RMSE is of the mean against the noise-free function, NLPD of new noisy observations, at nodes not
observed. Compilation is done before, on small graphs. Wall seconds, processor seconds beside them.

Measured on 2 cores: `grid10k` series 7.7 s (three seeds, 7.4 to 8.5), rows 10.0 s (9.3 to 10.1),
both RMSE .0867 and NLPD -.620 to -.622, against .0865 and -.622 with the true hyperparameters,
deviations .9 % off in the median (series, seed 0); fast-graph-gp 224 s, .184, -.119. `few` (2.0
GiB): grid fit 5.2 s, deviations 4.3 s, means 0.2 s; random graph, whose values so few nodes do not
tell, fit 2.7 s, deviations 3.4 s, means 0.1 s. `million`: fit 143 s, means 0.8 s, RMSE .0163
against .0223 of the best filter; 3.7 GiB.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from _machine import header, peak_gib
from scipy.ndimage import gaussian_filter

import graphrf as grf
from graphrf.gp import metrics

NOISE = 0.1


def grid(side: int, missing: float = 0.0) -> grf.Graph:
    """A square grid, of which a share of the edges may be missing."""
    places = np.arange(side * side).reshape(side, side)
    ends = np.hstack(
        [(places[:, :-1].ravel(), places[:, 1:].ravel()), (places[:-1].ravel(), places[1:].ravel())]
    )
    if missing:
        ends = ends[:, np.random.default_rng(0).random(ends.shape[1]) >= missing]
    return grf.from_edges(*ends, n_nodes=side * side)


def random_graph(n: int, degree: int, rng: np.random.Generator) -> grf.Graph:
    """A random graph of a mean degree."""
    ends = rng.integers(0, n, (2, n * degree // 2))
    return grf.from_edges(*ends[:, ends[0] != ends[1]], n_nodes=n)


def clocked(
    function: Callable[..., Any], *arguments: Any, **options: Any
) -> tuple[Any, float, float]:
    """What a call returns, its wall and its processor seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = function(*arguments, **options)
    return result, time.perf_counter() - wall, time.process_time() - cpu


def warm() -> None:
    """Compile all loops."""
    small = grid(12)
    nodes = np.arange(0, 144, 3)
    field = grf.GraphGPRegressor(
        small,
        kernel=grf.Matern(2.0),
        method="precision",
        numerics=grf.gp.Numerics(max_train=20),
        seed=0,
    )
    field.fit(nodes, np.sin(nodes / 9)).predict(return_std=True)
    for method in ("series", "features"):
        for solver in ("cholesky", "cg"):
            gp = grf.GraphGPRegressor(
                small,
                kernel="diffusion",
                method=method,
                numerics=grf.gp.Numerics(solver=solver),
                noise=0.1,
                seed=0,
            )
            gp.fit(nodes, np.sin(nodes / 9)).predict(return_std=True)


def quality(
    truth: np.ndarray, mean: np.ndarray, std: np.ndarray, noise: float, nodes: np.ndarray
) -> str:
    """RMSE and NLPD at some nodes."""
    y = truth + NOISE * np.random.default_rng(99).standard_normal(truth.size)
    nlpd = metrics.nlpd(y[nodes], mean[nodes], np.sqrt(std[nodes] ** 2 + noise))
    return f"RMSE {metrics.rmse(truth[nodes], mean[nodes]):.4f}, NLPD {nlpd:.4f}"


def grid10k(rival: bool, exact: bool) -> None:
    """Fit and prediction on 10,000 nodes, and the exact answers."""
    graph, rng = grid(100), np.random.default_rng(0)
    truth = np.sqrt(10.0) * grf.apply_root(
        graph, grf.Diffusion(np.sqrt(20.0)), rng.standard_normal(10_000)
    )
    nodes = rng.choice(10_000, 6_000, replace=False)
    y = truth[nodes] + NOISE * rng.standard_normal(6_000)
    held_out = np.setdiff1d(np.arange(10_000), nodes)
    predicted = {}
    for method in ("series", "features"):
        seconds = []
        for repeat in range(3):
            gp = grf.GraphGPRegressor(graph, kernel="diffusion", method=method, seed=repeat)
            _, fit, fit_cpu = clocked(gp.fit, nodes, y)
            (mean, std), predict, predict_cpu = clocked(gp.predict, return_std=True)
            seconds.append(fit + predict)
            predicted[method] = mean, std
            print(
                f"{method}, seed {repeat}: fit {fit:.2f} s ({fit_cpu:.2f}), prediction "
                f"{predict:.2f} s ({predict_cpu:.2f}); "
                f"{quality(truth, mean, std, gp.noise_, held_out)}; {gp.kernel_}, noise "
                f"{gp.noise_:.5f}",
                flush=True,
            )
        print(f"{method}: {np.median(seconds):.2f} s [{min(seconds):.2f}, {max(seconds):.2f}]")
    if rival:
        _rival(graph, truth, nodes, y, held_out)
    known = {
        "kernel": grf.Diffusion(np.sqrt(20.0)),
        "numerics": grf.gp.Numerics(normalize=False),
        "output_scale": 10.0,
        "noise": NOISE**2,
    }
    best = grf.GraphGPRegressor(graph, method="series", optimize=False, mean="zero", **known).fit(
        nodes, y
    )
    mean, std = best.predict(return_std=True)
    print(
        f"exact, true hyperparameters: {quality(truth, mean, std, NOISE**2, held_out)}", flush=True
    )
    for method, (_, own) in predicted.items():
        off = np.abs(own / std - 1)
        print(
            f"{method}: deviations off by {np.median(off):.4f} in the median, {off.max():.4f} at "
            "most"
        )
    if exact:
        dense = exact_gp(graph)
        _, fit, _ = clocked(dense.fit, nodes, y)
        mean, std = dense.predict(return_std=True)
        print(
            f"exact, own hyperparameters: fit {fit:.0f} s; "
            f"{quality(truth, mean, std, dense.noise_, held_out)}; {dense.kernel_}, noise "
            f"{dense.noise_:.5f}"
        )


def exact_gp(graph: grf.Graph, **known: float) -> Any:
    """The dense Gaussian process of the examples."""
    sys.path.insert(1, str(Path(__file__).parent.parent / "examples"))
    from _exact_gp import ExactGP

    return ExactGP(graph, **known)


def _rival(
    graph: grf.Graph, truth: np.ndarray, nodes: np.ndarray, y: np.ndarray, held_out: np.ndarray
) -> None:
    """fast-graph-gp with its own defaults."""
    from _fast_graph_gp import fast_graph_gp

    (mean, std, noise), seconds, _ = clocked(
        fast_graph_gp, graph, nodes, y, np.arange(graph.n_nodes)
    )
    print(
        f"fast-graph-gp: {seconds:.0f} s; {quality(truth, mean, std, noise, held_out)}, noise "
        f"{noise:.4f}",
        flush=True,
    )


def few() -> None:
    """A thousand observations on a million nodes."""
    n = 1_000_000
    for name in ("grid", "random graph"):
        rng = np.random.default_rng(0)
        graph = grid(1_000) if name == "grid" else random_graph(n, 8, rng)
        lengthscale = 20.0 if name == "grid" else 3.0
        truth = 3 * grf.apply_root(
            graph, grf.Diffusion(lengthscale), rng.standard_normal(n), tol=1e-6
        )
        nodes, asked = rng.choice(n, 1_000, replace=False), rng.choice(n, 10_000, replace=False)
        y = truth[nodes] + NOISE * truth.std() * rng.standard_normal(1_000)
        before = peak_gib()
        gp = grf.GraphGPRegressor(graph, kernel="diffusion", seed=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # so few nodes may not tell the lengthscale
            _, fit, fit_cpu = clocked(gp.fit, nodes, y)
        mean, everywhere, _ = clocked(gp.predict)
        (some, std), deviations, _ = clocked(gp.predict, asked, return_std=True)
        score = np.std((truth[asked] - some) / std)
        print(
            f"{name}, {gp.method_}: fit {fit:.1f} s ({fit_cpu:.1f}), means at all nodes "
            f"{everywhere:.1f} s, deviations at 10,000 {deviations:.1f} s; RMSE "
            f"{metrics.rmse(truth, mean):.3f} of deviation {truth.std():.3f}, spread of z "
            f"{score:.2f}; {peak_gib():.2f} GiB, {before:.2f} before; {gp.kernel_}",
            flush=True,
        )


def million(deviations: bool) -> None:
    """A tenth of a million nodes observed."""
    side, n = 1_000, 1_000_000
    graph, rng = grid(side), np.random.default_rng(0)
    x, across = np.divmod(np.arange(n), side)
    truth = np.sin(x / 40) * np.cos(across / 40)
    nodes = rng.choice(n, 100_000, replace=False)
    y = truth[nodes] + NOISE * rng.standard_normal(nodes.size)
    mask, values = np.zeros((side, side)), np.zeros((side, side))
    mask.flat[nodes], values.flat[nodes] = 1.0, y
    widths = (4.0, 5.0, 6.0, 7.0, 8.0)
    filtered = [
        gaussian_filter(values, w) / np.maximum(gaussian_filter(mask, w), 1e-9) for w in widths
    ]
    best = min(metrics.rmse(truth, image.ravel()) for image in filtered)
    gp = grf.GraphGPRegressor(graph, kernel="diffusion", seed=0)
    _, fit, fit_cpu = clocked(gp.fit, nodes, y)
    mean, predict, _ = clocked(gp.predict)
    print(
        f"{gp.method_}: fit {fit:.0f} s ({fit_cpu:.0f}), means {predict:.1f} s; "
        f"RMSE {metrics.rmse(truth, mean):.4f} (best Gaussian filter {best:.4f}); {peak_gib():.1f} "
        f"GiB; {gp.kernel_}, noise {gp.noise_:.5f}, {gp._posterior.solution.iterations} steps",
        flush=True,
    )
    if not deviations:
        return
    asked = rng.choice(n, 20_000, replace=False)
    (some, std), seconds, _ = clocked(gp.predict, asked, return_std=True)
    z = np.std((truth[asked] - some) / std)
    print(f"deviations at 20,000 nodes by draws: {seconds:.0f} s, spread of z {z:.2f}", flush=True)
    gp.set_params(numerics__std_method="exact")
    (_, exact), seconds, _ = clocked(gp.predict, asked[:256], return_std=True)
    off = std[:256] / exact - 1
    print(
        f"256 exact ones: {seconds:.0f} s; draws off by {np.median(np.abs(off)):.3f} in the "
        f"median, {np.abs(off).max():.3f} at most, mean {off.mean():+.3f}; {peak_gib():.1f} GiB"
    )


def field() -> None:
    """A tenth of a million nodes observed, by the sparse precision."""
    n = 1_000_000
    for missing, nu in ((0.25, 2.0), (0.25, 1.0), (0.0, 1.0), (0.0, 2.0)):
        graph, rng, kernel = grid(1_000, missing), np.random.default_rng(0), grf.Matern(nu, 8.0)
        truth = grf.apply_root(graph, kernel, rng.standard_normal(n), tol=1e-6)
        truth *= 1 / truth.std()
        nodes = rng.choice(n, 100_000, replace=False)
        y = truth[nodes] + NOISE**0.5 * rng.standard_normal(nodes.size)
        gp = grf.GraphGPRegressor(graph, kernel=grf.Matern(nu), method="precision", seed=0)
        _, fit, fit_cpu = clocked(gp.fit, nodes, y)
        mean, means, _ = clocked(gp.predict)
        (_, std), deviations, _ = clocked(gp.predict, return_std=True)
        covered = np.mean(np.abs(mean - truth) < 1.96 * std)
        print(
            f"{missing:.0%} of the edges missing, nu = {nu:g}: fit {fit:.1f} s ({fit_cpu:.1f}), "
            f"means {means:.2f} s, deviations {deviations:.1f} s; RMSE "
            f"{metrics.rmse(truth, mean):.4f}, 95 % intervals hold {covered:.4f}; {peak_gib():.1f} "
            f"GiB; {gp.kernel_}, noise {gp.noise_:.4f}",
            flush=True,
        )


def growth() -> None:
    """Seconds against the number of nodes."""
    for method in ("series", "features"):
        sizes, seconds = [], []
        for side in (50, 100, 200, 400):
            graph, rng = grid(side), np.random.default_rng(0)
            n = side * side
            truth = np.sqrt(10.0) * grf.apply_root(
                graph, grf.Diffusion(np.sqrt(20.0)), rng.standard_normal(n)
            )
            nodes = rng.choice(n, n // 10, replace=False)
            y = truth[nodes] + NOISE * rng.standard_normal(nodes.size)
            gp = grf.GraphGPRegressor(graph, kernel="diffusion", method=method, seed=0)
            _, fit, _ = clocked(gp.fit, nodes, y)
            _, predict, _ = clocked(gp.predict, return_std=True)
            print(
                f"{method}, N = {n:,}: fit {fit:.2f} s, deviations at all {predict:.2f} s",
                flush=True,
            )
            sizes.append(n)
            seconds.append(fit + predict)
        print(f"{method}: seconds grow as N^{np.polyfit(np.log(sizes), np.log(seconds), 1)[0]:.2f}")


def fit_and_predict(gp: Any, nodes: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means and deviations at all nodes."""
    return gp.fit(nodes, y).predict(return_std=True)


def dense() -> None:
    """Against dense kernels."""
    kernel = grf.Diffusion(np.sqrt(20.0))
    for side in (32, 45, 64):
        graph, rng = grid(side), np.random.default_rng(0)
        n = side * side
        nodes = rng.choice(n, 6 * n // 10, replace=False)
        signal = grf.apply_root(graph, kernel, rng.standard_normal(n))
        y = signal[nodes] + NOISE * rng.standard_normal(nodes.size)
        known = {"kernel": kernel, "optimize": False, "output_scale": 0.4, "noise": 0.01}
        series = grf.GraphGPRegressor(graph, method="series", seed=0, **known)
        exact = exact_gp(graph, lengthscale=kernel.lengthscale, output_scale=0.4, noise=0.01)
        own, ours, _ = clocked(fit_and_predict, series, nodes, y)
        theirs, seconds, _ = clocked(fit_and_predict, exact, nodes, y)
        off = max(float(np.abs(a - b).max()) for a, b in zip(own, theirs, strict=True))
        print(
            f"N = {n}: series {ours:.2f} s, dense {seconds:.2f} s, ratio {seconds / ours:.1f}; off "
            f"by {off:.1e}"
        )


def main() -> None:
    cases = ("grid10k", "few", "million", "field", "growth", "dense")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", choices=cases, help="default: all")
    parser.add_argument("--rival", action="store_true", help="run fast-graph-gp on grid10k")
    parser.add_argument(
        "--exact", action="store_true", help="train a dense GP on grid10k: many minutes"
    )
    parser.add_argument("--deviations", action="store_true", help="deviations of `million`")
    options = parser.parse_args()
    print(header("scipy", "scikit-learn"))
    _, seconds, _ = clocked(warm)
    print(f"imports, compilation or its cache: {seconds:.1f} s", flush=True)
    for case in (options.case,) if options.case else cases:
        print(f"-- {case}")
        if case == "grid10k":
            grid10k(options.rival, options.exact)
        elif case == "million":
            million(options.deviations)
        else:
            {"few": few, "field": field, "growth": growth, "dense": dense}[case]()


if __name__ == "__main__":
    main()
