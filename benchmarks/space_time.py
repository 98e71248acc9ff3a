"""Forecasts and gaps on real traffic: error and coverage beside simple models.

    python benchmarks/space_time.py [--rows random30 random70 days hours sensors forecast san-jose]
    [--sensors 207]

METR-LA, one week of 207 sensors every five minutes, 417,312 values. Of it are hidden: single values
at random (30 and 70 %), 30 % of the days of sensors, 30 % of all hours at every sensor, and 50
sensors. `forecast`: the first six days are fitted, and every two hours of the seventh the next 15,
30 and 60 minutes are predicted, `update` in between. `san-jose`: 26 Mondays of speeds, 20 % of the
values hidden.

Rivals: each sensor alone (the same time kernels and training without a graph: what neighbours share
is its own), its mean at that time of the day, and the last value before. RMSE in miles an hour,
mean absolute percentage error, and the share of hidden values within the 95 % interval of
observations. All settings are defaults.

Measured with seed 0 on 2 cores that others used too, hence in CPU seconds, fit and predictions with
deviations together; RMSE, MAPE %, share covered. `random30` 3.377, 4.69, 0.944, 54 s; `random70`
4.069, 5.66, 0.951, 129 s; `days` 5.624, 8.57, 0.951, 129 s; `hours` 6.055, 9.48, 0.942, 12 s;
`sensors` 8.042, 13.78, 0.950, 13 s; 0.7 GiB at most. `forecast` 15, 30 and 60 minutes ahead RMSE
5.365, 7.098, 8.134, covered 0.960, 0.965, 0.971 (last value 6.06, 8.09, 10.24). `san-jose`, whose
26 times are too few to learn a covariance of sensors, 6.266, 11.85, 0.943, 9 s (mean of the sensor
9.54). Low-rank tensor completion with the same masks: 3.65, 4.61, 6.00, 7.03 in the first four
rows.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
import scipy.sparse as sp
from _machine import header, peak_gib

import graphrf as grf

DAY = 288  # steps of five minutes


def hidden(kind: str, shape: tuple[int, int]) -> np.ndarray:
    """True where a value is hidden, (times, sensors); the rival's masks, numpy's seed 1."""
    n_times, n = shape
    rng = np.random.default_rng(2 if kind == "sensors" else 1)
    if kind in ("random30", "random70"):
        return (rng.random((n, n_times)) < int(kind[-2:]) / 100).T
    if kind == "days":
        return np.repeat(rng.random((n, n_times // DAY)) < 0.3, DAY, axis=1).T
    if kind == "hours":
        return np.repeat(rng.random(n_times // 12) < 0.3, 12)[:, None] & np.ones(n, bool)
    mask = np.zeros(shape, bool)
    mask[:, rng.choice(n, min(50, n // 4), replace=False)] = True
    return mask


def report(
    name: str, y: np.ndarray, mean: np.ndarray, std: np.ndarray | None, seconds: float
) -> None:
    """One line of scores, with seconds of all cores."""
    error = mean - y
    covered = "" if std is None else f"  covered {np.mean(np.abs(error) <= 1.96 * std):.3f}"
    rmse, share = np.sqrt(np.mean(error**2)), 100 * np.mean(np.abs(error) / np.maximum(y, 1e-9))
    print(
        f"    {name:28}RMSE {rmse:6.3f}  MAPE {share:6.2f}{covered}  {seconds:6.1f} CPU s",
        flush=True,
    )


def regressors(graph: grf.Graph, alone: bool) -> dict[str, grf.gp.GraphTimeGPRegressor]:
    """All defaults, and `alone`: a graph without edges, where sensors are independent."""
    result = {"graph and time": grf.gp.GraphTimeGPRegressor(graph, seed=0)}
    if alone:
        empty = grf.Graph(sp.csr_array(graph.adjacency.shape, dtype=float))
        result["each sensor alone"] = grf.gp.GraphTimeGPRegressor(empty, grf.Diffusion(1.0), seed=0)
    return result


def profile(y: np.ndarray, period: int) -> np.ndarray:
    """The mean of each sensor at the time of day, or its own, or that of all."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if y.shape[0] % period == 0:
            days = np.nanmean(y.reshape(-1, period, y.shape[1]), axis=0)
        else:
            days = np.nan
        usual = np.nanmean(y, axis=0)
    usual = np.where(np.isnan(usual), np.nanmean(y), usual)
    repeated = (
        np.tile(days, (y.shape[0] // period, 1)) if np.ndim(days) else np.full(y.shape, np.nan)
    )
    return np.where(np.isnan(repeated), usual, repeated)


def last_value(y: np.ndarray) -> np.ndarray:
    """The value before each gap, else the sensor's mean."""
    index = np.where(np.isnan(y), -1, np.arange(y.shape[0])[:, None])
    index = np.maximum.accumulate(index, axis=0)
    filled = np.take_along_axis(y, np.maximum(index, 0), axis=0)
    return np.where(index < 0, profile(y, y.shape[0] + 1), filled)


def gaps(
    kind: str, graph: grf.Graph, speeds: np.ndarray, times: np.ndarray, period: int, alone: bool
) -> None:
    """Hides values, fits the rest, and scores what was hidden."""
    mask = hidden(kind, speeds.shape)
    y = np.where(mask, np.nan, speeds)
    print(f"{kind}: {mask.sum()} of {mask.size} values hidden", flush=True)
    for name, gp in regressors(graph, alone).items():
        if gp.graph is not graph and kind == "sensors":
            continue
        start = time.process_time()
        gp.fit(y, times=times)
        fitted = time.process_time() - start
        mean, std = gp.predict(times=times, return_std="observation")
        report(name, speeds[mask], mean[mask], std[mask], time.process_time() - start)
        print(
            f"        fit {fitted:.1f} CPU s, {gp.kernel_}, noise {gp.noise_:.2f}, learned share "
            f"{gp.learned_}, converged {gp.converged_}, residual {gp.residual_:.0e}",
            flush=True,
        )
    report("mean of the time of day", speeds[mask], profile(y, period)[mask], None, 0.0)
    if kind != "sensors":
        report("last value", speeds[mask], last_value(y)[mask], None, 0.0)


# The hours of the seventh day at which forecasts
# start, and their steps ahead: 15, 30 and 60 minutes.
FIRST = 6 * DAY
STARTS = FIRST + np.arange(2, 24, 2) * 12
AHEAD = np.array([3, 6, 12])


def rolling(
    gp: grf.gp.GraphTimeGPRegressor, speeds: np.ndarray, times: np.ndarray
) -> tuple[np.ndarray, np.ndarray, list[float]]:
    """Means and deviations of new observations, (starts, steps, sensors), CPU seconds.

    The first six days are fitted, and what has come since is added by `update` before each start.
    """
    gp.fit(speeds[:FIRST], times=times[:FIRST])
    at, found, seconds = FIRST, [], []
    for now in STARTS:
        start = time.process_time()
        gp.update(speeds[at:now], times[at:now])
        found.append(gp.predict(times=times[now - 1 + AHEAD], return_std="observation"))
        seconds.append(time.process_time() - start)
        at = now
    return np.array([mean for mean, _ in found]), np.array([std for _, std in found]), seconds


def forecasts(graph: grf.Graph, speeds: np.ndarray, times: np.ndarray, alone: bool) -> None:
    """15, 30 and 60 minutes ahead on the seventh day."""
    found = {}
    for name, gp in regressors(graph, alone).items():
        start = time.process_time()
        found[name] = rolling(gp, speeds, times)
        spent = time.process_time() - start - sum(found[name][2])
        print(f"forecast: {name} fitted in {spent:.1f} CPU s", flush=True)
    usual = np.nanmean(speeds[:FIRST].reshape(6, DAY, -1), axis=0)
    for k, steps in enumerate(AHEAD):
        print(f"forecast, {5 * steps} minutes ahead, {STARTS.size} times:")
        truth = speeds[STARTS - 1 + steps]
        for name, (mean, std, seconds) in found.items():
            report(name, truth, mean[:, k], std[:, k], float(np.median(seconds)))
        report("mean of the time of day", truth, usual[(STARTS - 1 + steps) % DAY], None, 0.0)
        report("last value", truth, speeds[STARTS - 1], None, 0.0)


def main() -> None:
    rows = ("random30", "random70", "days", "hours", "sensors", "forecast", "san-jose")
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", nargs="+", default=rows, choices=rows)
    parser.add_argument(
        "--sensors", type=int, default=207, help="only the first sensors of METR-LA"
    )
    parser.add_argument(
        "--without-alone", action="store_true", help="leave out the model of each sensor alone"
    )
    options = parser.parse_args()
    alone = not options.without_alone
    print(header("scipy"))
    data = grf.datasets.load("metr-la")
    chosen = np.arange(min(options.sensors, data.graph.n_nodes))
    graph, speeds = (
        data.graph.subgraph(data.graph.positions(chosen)),
        data.extra["speeds"][:, chosen],
    )
    times = np.arange(len(speeds)) / 12
    for row in options.rows:
        if row == "san-jose":
            roads = grf.datasets.load("san-jose")
            sensors = roads.target_nodes
            mondays = roads.extra["speeds"]
            print(
                f"san-jose: {mondays.shape[0]} Mondays, {mondays.shape[1]} sensors, "
                f"{roads.graph.n_nodes} nodes"
            )
            san_jose(roads.graph, sensors, mondays, alone)
        elif row == "forecast":
            forecasts(graph, speeds, times, alone)
        else:
            gaps(row, graph, speeds, times, DAY, alone)
    print(f"peak {peak_gib():.1f} GiB")


def san_jose(graph: grf.Graph, sensors: np.ndarray, speeds: np.ndarray, alone: bool) -> None:
    """Values hidden at random, a week between times."""
    mask = np.random.default_rng(1).random(speeds.shape) < 0.2
    y = np.where(mask, np.nan, speeds)
    times = 168.0 * np.arange(len(speeds))
    places = graph.positions(sensors)
    for name, gp in regressors(graph, alone).items():
        start = time.process_time()
        gp.fit(y, times=times, nodes=places)
        mean, std = gp.predict(places, times, return_std="observation")
        report(name, speeds[mask], mean[mask], std[mask], time.process_time() - start)
    report("mean of the sensor", speeds[mask], profile(y, len(y) + 1)[mask], None, 0.0)
    report("last value", speeds[mask], last_value(y)[mask], None, 0.0)


if __name__ == "__main__":
    main()
