"""Traffic speeds between sensors: figure 11 of the paper, and Los Angeles.

San Jose (Reid et al. 2024, App. F.3): 1,016 nodes of a road graph, 325 of them with sensors, one
evening's speeds; 250 sensors observed, 75 held out; diffusion kernel, constant mean,
hyperparameters trained on 8 independent walks (p_halt .4) or, with `--train exact`, by the exact
likelihood, then frozen; {4, 8, 16} walks. Columns as in `mesh_normals.py`. Above, over several
splits: exact GPs of both Laplacians and Markov random fields.

Los Angeles (METR-LA, 207 sensors, one week at 5 minutes): for every quarter of the sensors in turn,
their speeds on the last two days are predicted from the others', every 15 minutes, with
hyperparameters shared by all times. A sensor has a past: its mean at that time of day over the
first five days but the weekend, and the standard deviation about it. The process is that of the
residuals in units of that standard deviation, with a constant for each time.

    python examples/traffic.py --out traffic.png
    python examples/traffic.py --quick
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import NamedTuple

import _gp_protocol as protocol
import numpy as np
from _exact_gp import ExactGP
from _options import add_figure_option

import graphrf as grf
from graphrf.gp import metrics
from graphrf.graph.graph import LAPLACIANS

WALKS = (4, 8, 16)
N_TEST = 75
SLICES_A_DAY = 288  # of 5 minutes; the week begins on a Thursday
PAST_DAYS = (0, 1, 4)
TEST_DAYS = (5, 6)
EVERY = 3
FOLDS = 4


# -- San Jose --------------------------------------------------------------------------------------


def san_jose(
    walks: tuple[int, ...], repeats: int, splits: int, training: str, seed: int
) -> tuple[dict[str, np.ndarray], float]:
    """Print the models over splits and the samplers of the first; scores, exact error."""
    data = grf.datasets.load("san-jose")
    graph, sensors, speeds = data.graph, data.target_nodes, data.targets
    print(
        f"San Jose: {graph.n_nodes} nodes, {sensors.size} sensors, {N_TEST} held out, {splits} "
        "splits"
    )
    print_models(graph, sensors, speeds, splits, seed)

    train, test = protocol.split(sensors.size, N_TEST, seed)
    if training == "walks":
        model = protocol.train_on_walks(graph, sensors[train], speeds[train], "constant", 0.4, seed)
    else:
        model = protocol.model_of(ExactGP(graph).fit(sensors[train], speeds[train]))
    task = protocol.task_from(
        graph, sensors[train], sensors[test], speeds[train], speeds[test], model
    )
    exact = metrics.rmse(task.y_test, task.mean)
    print(
        "\n"
        f"first split, trained by {training}: lengthscale "
        f"{model.kernel.hyperparameters['lengthscale']:.2f}, scale "
        f"{model.amplitude * np.diagonal(task.dense).mean():.3g}, noise {model.noise:.3g}; exact "
        f"GP: RMSE {exact:.4f}"
    )
    results, _ = protocol.compare(task, walks, (0.4, 0.1), repeats, seed)
    protocol.print_targets(results, exact, walks[-1], 0.1)
    return results, exact


def print_models(
    graph: grf.Graph, sensors: np.ndarray, speeds: np.ndarray, splits: int, seed: int
) -> None:
    """Models as a whole: means over splits."""
    diffusion = {name: ExactGP(graph, grf.Diffusion(laplacian=name)) for name in LAPLACIANS}

    def exact(name: str) -> Callable[..., tuple[np.ndarray, np.ndarray]]:
        def predict(
            train: np.ndarray, y: np.ndarray, test: np.ndarray
        ) -> tuple[np.ndarray, np.ndarray]:
            gp = diffusion[name].fit(train, y)
            mean, std = gp.predict(test, return_std=True)
            return mean, std**2 + gp.noise_

        return predict

    def field(name: str) -> Callable[..., tuple[np.ndarray, np.ndarray]]:
        def predict(
            train: np.ndarray, y: np.ndarray, test: np.ndarray
        ) -> tuple[np.ndarray, np.ndarray]:
            model = protocol.matern_field(graph, train, y, mean="constant", laplacian=name)
            mean, std = model.predict(test, return_std="observation")
            return mean, std**2

        return predict

    def overall(
        train: np.ndarray, y: np.ndarray, test: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        return np.full(test.size, y.mean()), np.full(test.size, y.var())

    models = {
        "mean of all sensors": overall,
        "exact GP, normalized": exact("normalized"),
        "exact GP, combinatorial": exact("combinatorial"),
        "Matern field, normalized": field("normalized"),
        "Matern field, combinatorial": field("combinatorial"),
    }
    print(f"{'model':<28}{'RMSE':<18}{'NLPD':<18}{'coverage .95':<14}{'seconds':>8}")
    for name, predict in models.items():
        rows = []
        for k in range(splits):
            train, test = protocol.split(sensors.size, N_TEST, seed + k)
            start = time.perf_counter()
            mean, variance = predict(sensors[train], speeds[train], sensors[test])
            seconds = time.perf_counter() - start
            rows.append((*quality(speeds[test], mean, np.sqrt(variance)), seconds))
        print_quality(name, np.array(rows))


def quality(y: np.ndarray, mean: np.ndarray, std: np.ndarray) -> tuple[float, float, float]:
    """RMSE, NLPD and coverage of the central 95 %."""
    return metrics.rmse(y, mean), metrics.nlpd(y, mean, std), metrics.coverage(y, mean, std)


def print_quality(name: str, rows: np.ndarray) -> None:
    """A line of means and standard errors; columns as `quality`, then seconds."""
    error, density = (protocol.mean_and_error(rows[:, k]) for k in (0, 1))
    cells = [f"{mean:.3f} +- {spread:.3f}".ljust(18) for mean, spread in (error, density)]
    print(
        f"{name:<28}{''.join(cells)}{rows[:, 2].mean():<14.3f}{rows[:, 3].mean():>8.2f}", flush=True
    )


# -- Los Angeles -----------------------------------------------------------------------------------


class Week(NamedTuple):
    """Residuals at test times in units of sensors' deviations, and what turns them back."""

    graph: grf.Graph
    residuals: np.ndarray  # (sensors, times)
    past: np.ndarray  # (sensors, times): the past mean
    deviations: np.ndarray  # (sensors,)


def los_angeles_week(every: int = EVERY) -> Week:
    """METR-LA, prepared: one in `every` of the test days' times."""
    data = grf.datasets.load("metr-la")
    days = data.extra["speeds"].T.reshape(data.graph.n_nodes, -1, SLICES_A_DAY)
    mean = days[:, PAST_DAYS].mean(axis=1)
    # The mean of so few days follows each of them: a factor of n / (n - 1).
    n = len(PAST_DAYS)
    spread = (days[:, PAST_DAYS] - mean[:, None]).reshape(days.shape[0], -1)
    deviations = np.sqrt(np.square(spread).mean(axis=1) * n / (n - 1))
    past = np.repeat(mean[:, None], len(TEST_DAYS), axis=1)[..., ::every].reshape(days.shape[0], -1)
    speeds = days[:, TEST_DAYS, ::every].reshape(days.shape[0], -1)
    return Week(data.graph, (speeds - past) / deviations[:, None], past, deviations)


def neighbour_mean(
    graph: grf.Graph, seen: np.ndarray, y: np.ndarray, nodes: np.ndarray
) -> np.ndarray:
    """The weighted mean of a node's observed neighbours; of all where it has none."""
    weights = graph.adjacency[nodes][:, seen].toarray()
    weights[nodes[:, None] == seen] = 0.0
    total = weights.sum(axis=1, keepdims=True)
    return np.where(total > 0, weights @ y / np.where(total > 0, total, 1.0), y.mean(axis=0))


def los_angeles(folds: int, every: int, seed: int) -> None:
    """Print how each model predicts a quarter of the sensors from the others."""
    week = los_angeles_week(every)
    order = np.random.default_rng(seed).permutation(week.graph.n_nodes)
    print(
        "\n"
        f"Los Angeles: {week.graph.n_nodes} sensors, {week.residuals.shape[1]} times, every "
        f"{FOLDS}th hidden, {folds} folds"
    )

    def regressor(**settings: object) -> Callable[..., tuple[np.ndarray, np.ndarray]]:
        def predict(
            seen: np.ndarray, y: np.ndarray, hidden: np.ndarray
        ) -> tuple[np.ndarray, np.ndarray]:
            gp = grf.GraphGPRegressor(week.graph, seed=seed, **settings).fit(seen, y)
            return gp.predict(hidden, return_std="observation")

        return predict

    def exact(seen: np.ndarray, y: np.ndarray, hidden: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        gp = ExactGP(week.graph).fit(seen, y)
        mean, std = gp.predict(hidden, return_std=True)
        return mean, np.sqrt(std**2 + gp.noise_)

    def field(seen: np.ndarray, y: np.ndarray, hidden: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return protocol.matern_field(week.graph, seen, y, mean="constant").predict(
            hidden, return_std="observation"
        )

    def history(
        seen: np.ndarray, y: np.ndarray, hidden: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        return constant_deviation(np.zeros((hidden.size, y.shape[1])), y)

    def city(seen: np.ndarray, y: np.ndarray, hidden: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return constant_deviation(
            np.repeat(y.mean(axis=0)[None], hidden.size, axis=0), y - y.mean(axis=0)
        )

    def neighbours(
        seen: np.ndarray, y: np.ndarray, hidden: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        errors = y - neighbour_mean(week.graph, seen, y, seen)
        return constant_deviation(neighbour_mean(week.graph, seen, y, hidden), errors)

    walks = grf.RandomWalks(16, grf.sampling.Truncated(8), directions="stratified")
    models: dict[str, Callable[..., tuple[np.ndarray, np.ndarray]]] = {
        "past mean": history,
        "and the city's mean": city,
        "and the neighbours' mean": neighbours,
        "exact GP, diffusion": exact,
        "GraphGPRegressor": regressor(),
        "the same, Matern": regressor(kernel="matern"),
        "the same, 16 walks": regressor(method="features", numerics=grf.gp.Numerics(sampler=walks)),
        "Matern field": field,
    }
    print(
        f"{'model of the residuals':<28}{'RMSE, mph':<18}{'NLPD':<18}"
        f"{'coverage .95':<14}{'seconds':>8}"
    )
    for name, predict in models.items():
        rows = []
        for k in range(folds):
            hidden = np.sort(order[k::FOLDS])
            seen = np.setdiff1d(order, hidden)
            start = time.perf_counter()
            with protocol.quiet():
                mean, std = predict(seen, week.residuals[seen], hidden)
            seconds = time.perf_counter() - start
            unit = week.deviations[hidden, None]
            truth = week.past[hidden] + unit * week.residuals[hidden]
            rows.append((*quality(truth, week.past[hidden] + unit * mean, unit * std), seconds))
        print_quality(name, np.array(rows))


def constant_deviation(mean: np.ndarray, errors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One deviation for all, that of the errors at observed sensors."""
    return mean, np.full(mean.shape, np.sqrt(np.square(errors).mean()))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--train", choices=("walks", "exact"), default="walks")
    parser.add_argument("--repeats", type=int, default=20, help="draws of the walks, at least 2")
    parser.add_argument(
        "--splits", type=int, default=5, help="splits of the sensors of San Jose for the models"
    )
    parser.add_argument(
        "--quick", action="store_true", help="4 walks, 2 repeats, 1 split, 1 fold, fewer times"
    )
    parser.add_argument("--seed", type=int, default=0)
    add_figure_option(parser)
    options = parser.parse_args()
    if options.repeats < 2 or options.splits < 1:
        parser.error("--repeats must be at least 2 and --splits at least 1")
    walks, repeats, splits, folds, every = WALKS, options.repeats, options.splits, FOLDS, EVERY
    if options.quick:
        walks, repeats, splits, folds, every = WALKS[:1], 2, 1, 1, 12 * EVERY
    print("mean +- standard error; KL(approximate || exact) of f at the held-out sensors")
    results = san_jose(walks, repeats, splits, options.train, options.seed)
    los_angeles(folds, every, options.seed)
    if options.out:
        protocol.draw({"San Jose": results}, "held-out sensors", options.out)


if __name__ == "__main__":
    main()
