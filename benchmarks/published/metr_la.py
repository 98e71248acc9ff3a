"""METR-LA: how far are new places, gaps and forecasts from published errors?

    python benchmarks/published/metr_la.py [--tasks kriging folds forecast gaps]

One week of 207 sensors every five minutes, `GraphTimeGPRegressor` with all defaults. `kriging`: the
50 sensors that the demonstration of IGNNK hides (numpy's RandomState(0)) are predicted from the
other 157 at all 2,016 times; theirs are the last 30 % of four months, after training on the first
70 %. `folds`: the same with a quarter of all sensors hidden in turn, each sensor once.
`gaps`: 30 % of single values, and of all hours at every sensor, are hidden, by the masks of
benchmarks/space_time.py. `forecast`: 15, 30 and 60 minutes ahead on the seventh day, as there;
DCRNN's errors are those of the last 20 % of four months.
"""

from __future__ import annotations

import argparse

import numpy as np
from _table import Shares, Spent, covered, loaded, row, start
from space_time import AHEAD, STARTS, hidden, regressors, rolling

import graphrf as grf

TASKS = ("kriging", "folds", "forecast", "gaps")
FOLDS = 4
IGNNK = "IGNNK: RMSE 10.404, MAE 6.763"
DCRNN = {3: "RMSE 5.17, MAE 2.67", 6: "RMSE 6.3, MAE 3.08", 12: "RMSE 7.52, MAE 3.56"}


def errors(truth: np.ndarray, mean: np.ndarray) -> str:
    """Root mean square and mean absolute errors, in miles an hour."""
    error = mean - truth
    return f"RMSE {np.sqrt(np.mean(error**2)):.3f}, MAE {np.abs(error).mean():.3f}"


def interpolated(
    graph: grf.Graph, speeds: np.ndarray, times: np.ndarray, mask: np.ndarray
) -> tuple[str, Shares]:
    """Errors and coverage of what the mask hides."""
    gp = regressors(graph, alone=False)["graph and time"].fit(
        np.where(mask, np.nan, speeds), times=times
    )
    mean, std = gp.predict(times=times, return_std="observation")
    return errors(speeds[mask], mean[mask]), covered(speeds[mask], mean[mask], std[mask])


def masks(task: str, shape: tuple[int, int]) -> dict[str, np.ndarray]:
    """What is hidden, (times, sensors)."""
    if task == "kriging":
        sensors = np.random.RandomState(0).choice(shape[1], 50, replace=False)
        return {"50 sensors hidden": np.tile(np.isin(np.arange(shape[1]), sensors), (shape[0], 1))}
    kinds = {"hours": "hours", "values": "random30"} if task == "gaps" else {}
    return {f"30 % of {name} hidden": hidden(kind, shape) for name, kind in kinds.items()}


def folds(graph: grf.Graph, speeds: np.ndarray, times: np.ndarray) -> None:
    """A row of all sensors, each hidden with others in one of the fits."""
    n = speeds.shape[1]
    order = np.random.default_rng(0).permutation(n)
    mean, std = np.empty(speeds.shape), np.empty(speeds.shape)
    with Spent() as spent:
        for k in range(FOLDS):
            mask = np.tile(np.isin(np.arange(n), order[k::FOLDS]), (len(speeds), 1))
            gp = regressors(graph, alone=False)["graph and time"]
            gp.fit(np.where(mask, np.nan, speeds), times=times)
            found = gp.predict(times=times, return_std="observation")
            mean[mask], std[mask] = found[0][mask], found[1][mask]
    row(
        "each sensor hidden once",
        "none found",
        errors(speeds, mean),
        covered(speeds, mean, std),
        spent,
    )
    held = (np.abs(speeds - mean) <= 1.96 * std).mean(axis=0)
    print(f"standard error of 95 %, over sensors: {held.std(ddof=1) / np.sqrt(n):.3f}")


def forecasts(graph: grf.Graph, speeds: np.ndarray, times: np.ndarray) -> None:
    """Rows of three steps ahead, whose seconds are those of all together."""
    with Spent() as spent:
        mean, std, _ = rolling(regressors(graph, alone=False)["graph and time"], speeds, times)
    for k, steps in enumerate(AHEAD):
        truth = speeds[STARTS - 1 + steps]
        held = covered(truth.ravel(), mean[:, k].ravel(), std[:, k].ravel())
        row(
            f"{5 * steps} minutes ahead",
            f"DCRNN: {DCRNN[steps]}",
            errors(truth, mean[:, k]),
            held,
            spent,
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", nargs="+", default=TASKS, choices=TASKS)
    options = parser.parse_args()
    data = loaded("metr-la")
    graph, speeds = data.graph, data.extra["speeds"]
    times = np.arange(len(speeds)) / 12
    start("METR-LA, miles an hour")
    for task in options.tasks:
        if task == "forecast":
            forecasts(graph, speeds, times)
        if task == "folds":
            folds(graph, speeds, times)
        for name, mask in masks(task, speeds.shape).items():
            with Spent() as spent:
                here, held = interpolated(graph, speeds, times, mask)
            row(name, IGNNK if task == "kriging" else "none found", here, held, spent)


if __name__ == "__main__":
    main()
