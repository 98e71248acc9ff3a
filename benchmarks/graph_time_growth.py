"""How `GraphTimeGPRegressor` grows with times, sensors and nodes; and with 100,000 nodes.

    python benchmarks/graph_time_growth.py                  # growth, then the road network
    python benchmarks/graph_time_growth.py --side 60 --sensors 50 --times 500 --elsewhere 100

Growth: fits of complete grids and forecasts with known hyperparameters, process time (all threads),
least of three; the exponents are slopes of logarithms. Road network: a square grid of which a fifth
of the edges is gone; a signal drawn from two processes, one that lasts ten hours and is shared by
neighbours, one of two hours of which each node has its own half, plus noise; the fit sees the
sensors only and chooses kernel and hyperparameters by itself ("auto"); errors are of the noise-free
signal at other nodes, at evenly spread times.

Measured on 2 cores that others used too, process time. Fit and forecast 0.24 s for 64,000 times of
32 sensors and 0.42 s for 500 times of 512; exponents 0.65 in times (4,000 to 64,000: what every fit
costs still shows), 1.12 in sensors; means at all times 0.93 and 1.25. Road network (99,856 nodes,
500 sensors x 10,000 times): fit 23 s, predictions with deviations at 1,000 other nodes and 500
times 96 s, 3.0 GiB; RMSE 0.964 beside 1.102 of the mean of all readings (sensors are 14 roads
apart, which is as far as the kernel reaches), 95 % intervals hold 0.960. An hour more and a
forecast at the 1,000 nodes: 0.16 s, measured after 300 times.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from _machine import header, peak_gib

import graphrf as grf
from graphrf.gp import metrics
from graphrf.gp.time import ConstantTime, MaternTime, Part
from graphrf.gp.time.kernels import TimeSteps
from graphrf.gp.time.posterior import process_draws

PARTS = (
    Part(ConstantTime(), 1.0, 0.5),
    Part(MaternTime(10.0, nu=1.5), 1.0, 0.2),
    Part(MaternTime(1.0), 0.3, 0.3),
)
NOISE = 0.1
ASKED = 500  # times at which other nodes are predicted


def road(side: int, rng: np.random.Generator) -> grf.Graph:
    """A square grid of side x side nodes without a fifth of its edges."""
    at = np.arange(side * side).reshape(side, side)
    across = np.column_stack([at[:, :-1].ravel(), at[:, 1:].ravel()])
    down = np.column_stack([at[:-1].ravel(), at[1:].ravel()])
    edges = np.concatenate([across, down])
    edges = edges[rng.random(len(edges)) < 0.8]
    return grf.from_edges(edges[:, 0], edges[:, 1], nodes=range(side * side))


def growth() -> None:
    """Process time against T and n."""
    rng = np.random.default_rng(0)
    for what, sizes in (
        ("times, 32 sensors", [(4_000 * 2**i, 32) for i in range(5)]),
        ("sensors, 500 times", [(500, 64 * 2**i) for i in range(4)]),
    ):
        spent = []
        for n_times, n in sizes:
            graph = grf.from_edges(range(n - 1), range(1, n))
            y, least = 0.4 * rng.standard_normal((n_times, n)), [np.inf, np.inf]
            for _ in range(4):  # the first compiles
                gp = grf.gp.GraphTimeGPRegressor(
                    graph, grf.Diffusion(2.0), PARTS, noise=NOISE, optimize=False
                )
                start = time.process_time()
                gp.fit(y, times=np.arange(float(n_times)))
                gp.predict(times=[float(n_times)], return_std=True)
                middle = time.process_time()
                gp.predict([0])
                least = [min(least[0], middle - start), min(least[1], time.process_time() - middle)]
            spent.append(least)
            print(
                f"  {n_times:6d} times, {n:4d} sensors: fit and forecast {least[0]:.3f} s, means "
                f"{least[1]:.3f} s"
            )
        grown = np.array([n_times if "times," in what else n for n_times, n in sizes], dtype=float)
        first, second = (
            np.polyfit(np.log(grown), np.log(np.array(column)), 1)[0]
            for column in zip(*spent, strict=True)
        )
        print(f"growth with {what}: fit and forecast {first:.2f}, means {second:.2f}", flush=True)


def large(side: int, n_sensors: int, n_times: int, n_elsewhere: int) -> None:
    """A fit on a large graph, and predictions at nodes without a sensor."""
    rng = np.random.default_rng(1)
    graph = road(side, rng)
    chosen = np.sort(rng.choice(graph.n_nodes, n_sensors + n_elsewhere, replace=False))
    print(f"{graph!r}, {n_sensors} sensors x {n_times} times", flush=True)
    start = time.process_time()
    covariance = grf.kernel_block(graph, grf.Diffusion(16.0), chosen, chosen)
    covariance /= np.diag(covariance).mean()
    root = np.linalg.cholesky(covariance + 1e-9 * np.eye(chosen.size))
    steps = TimeSteps.of(np.arange(float(n_times)))
    signal = 10 + process_draws(MaternTime(10.0, nu=1.5), steps, chosen.size, rng) @ root.T
    quick = process_draws(MaternTime(2.0), steps, chosen.size, rng)
    signal += np.sqrt(0.15) * (quick @ root.T)
    signal += np.sqrt(0.15) * process_draws(MaternTime(2.0), steps, chosen.size, rng)
    print(f"drawn in {time.process_time() - start:.0f} s", flush=True)
    observed = np.sort(rng.permutation(chosen.size)[:n_sensors])
    rest = np.setdiff1d(np.arange(chosen.size), observed)
    y = signal[:, observed] + np.sqrt(NOISE) * rng.standard_normal((n_times, n_sensors))
    times = np.arange(float(n_times))
    gp = grf.gp.GraphTimeGPRegressor(graph, seed=0)
    start = time.process_time()
    gp.fit(y, times=times, nodes=chosen[observed])
    print(
        f"fit {time.process_time() - start:.0f} s: {gp.kernel_}, noise {gp.noise_:.3f}", flush=True
    )
    for part in gp.parts_:
        print(f"  {part.kernel!r}: shared {part.shared:.3f}, own {part.own:.3f}")
    start = time.process_time()
    asked = np.unique(np.linspace(0, n_times - 1, min(ASKED, n_times)).astype(int))
    mean, std = gp.predict(chosen[rest], times[asked], return_std=True)
    truth = signal[np.ix_(asked, rest)]
    print(
        f"predicted at {rest.size} other nodes, {asked.size} times, in "
        f"{time.process_time() - start:.0f} s"
    )
    constant = metrics.rmse(truth, np.full(truth.shape, y.mean()))
    print(
        f"RMSE {metrics.rmse(truth, mean):.3f} (mean of all readings {constant:.3f}), 95 % "
        f"intervals hold {metrics.coverage(truth, mean, std):.3f}"
    )
    start = time.process_time()
    gp.update(y[-1:], [float(n_times)])
    gp.predict(chosen[rest], [n_times + 1.0], return_std=True)
    print(f"an hour more and a forecast at the others: {time.process_time() - start:.2f} s")
    print(f"peak memory {peak_gib():.2f} GiB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--side", type=int, default=316)
    parser.add_argument("--sensors", type=int, default=500)
    parser.add_argument("--times", type=int, default=10_000)
    parser.add_argument("--elsewhere", type=int, default=1_000)
    parser.add_argument("--only", choices=["growth", "large"])
    options = parser.parse_args()
    print(header())
    if options.only != "large":
        growth()
    if options.only != "growth":
        large(options.side, options.sensors, options.times, options.elsewhere)


if __name__ == "__main__":
    main()
