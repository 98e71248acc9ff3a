"""Abundance from a survey of counts: a map, an index by year with intervals, the effect of depth.

Counts of 240 trawls in four years are simulated: of a density that falls with depth, with a field
of all years and one of each, on swept areas that differ. Printed are the model, the effect of a
hundred metres, the index beside the truth, and the shares of true densities and of new counts in
their 95 % intervals. Drawn are the map of the last year and its standard deviation, the index, and
the effect of depth. It takes about half a minute. For a survey of your own, replace `simulated`.

    pip install 'graphrf[terms,mesh,plot]'
    python examples/survey.py --out survey.png
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd
from _figures import figure
from _options import add_figure_option
from sklearn.gaussian_process.kernels import Matern

from graphrf.gp import Field, Groups, LatentGaussianModel, TriangleMesh
from graphrf.plot import plot_effects, plot_fields, plot_forecast

YEARS = np.arange(2019, 2023)
LEVELS = (0.025, 0.5, 0.975)
CELL = 4.0  # km
STATIONS = 60  # in each year


def simulated() -> tuple[pd.DataFrame, pd.DataFrame]:
    """A grid in all years, and stations; both have the true density, and a count of it."""
    rng = np.random.default_rng(0)
    x, y = np.meshgrid(np.arange(CELL / 2, 100, CELL), np.arange(CELL / 2, 60, CELL))
    cells, n_stations = np.column_stack([x.ravel(), y.ravel()]), STATIONS * YEARS.size
    n, n_all = len(cells), len(cells) + n_stations
    places = np.vstack([cells, rng.uniform(0, (100, 60), (n_stations, 2))])
    root = np.linalg.cholesky(Matern(15.0, nu=1.0)(places) + 1e-8 * np.eye(n_all))
    fields = root @ rng.standard_normal((n_all, 1 + YEARS.size))
    place = np.concatenate([np.tile(np.arange(n), YEARS.size), np.arange(n, n_all)])
    frame = pd.DataFrame(places[place], columns=["x", "y"])
    frame["year"] = np.concatenate([np.repeat(YEARS, n), np.repeat(YEARS, STATIONS)])
    frame["depth"] = 100 + 2 * frame["x"] + 50 * np.sin(frame["y"] / 8)
    levels = dict(zip(YEARS, (4.0, 3.5, 3.0, 3.4), strict=True))
    level = frame["year"].map(levels) - 0.008 * frame["depth"]
    varying = 0.7 * fields[place, 0] + 0.4 * fields[place, 1 + frame["year"] - YEARS[0]]
    frame["density"] = np.exp(level + varying)
    frame["swept"] = rng.uniform(0.5, 1.5, len(frame))
    frame["count"] = rng.negative_binomial(2, 1 / (1 + frame["density"] * frame["swept"] / 2))
    return frame[: n * YEARS.size], frame[n * YEARS.size :]


def fitted(stations: pd.DataFrame) -> LatentGaussianModel:
    """Depth, a level of each year, a field of all years and one of each, of one range."""
    mesh = TriangleMesh.from_points(stations[["x", "y"]], max_edge=5.0)
    space = Field(mesh, at=("x", "y"))
    terms = [space, space * Groups("year")]
    return LatentGaussianModel(
        "count ~ 0 + C(year) + depth", terms, "negative_binomial", exposure="swept", seed=0
    ).fit(stations)


def index_of(model: LatentGaussianModel, grid: pd.DataFrame) -> pd.DataFrame:
    """Quantiles of the abundance of each year, from joint draws of the density of all cells."""
    draws = pd.DataFrame(CELL**2 * model.sample(grid, 1000, seed=0).T)
    # Not `grid["year"]`, which pandas would align by labels that a grid may hold twice.
    return draws.groupby(grid["year"].to_numpy()).sum().quantile(LEVELS, axis=1).T


def draw(
    model: LatentGaussianModel,
    grid: pd.DataFrame,
    stations: pd.DataFrame,
    index: pd.DataFrame,
    path: str,
) -> None:
    """The map above the index and the effect of depth."""
    last, trawls = grid[grid["year"] == YEARS[-1]], stations[stations["year"] == YEARS[-1]]
    mean, sd = model.predict(last, return_std=True)
    with figure(path, height=6.6) as sheet:
        above, below = sheet.subfigures(2, 1, height_ratios=(1.25, 1.0))
        plot_fields(
            last[["x", "y"]],
            mean,
            sd,
            points=trawls[["x", "y"]],
            figure=above,
            label="density (per km²)",
            unit="km",
        )
        left, right = below.subfigures(1, 2)
        ax = left.subplots()
        plot_forecast(index.index, index / 1e3, ax=ax, label="index, thousands")
        ax.set_xticks(YEARS)
        plot_effects(model, along="depth", transform="exp", figure=right, label="density, times")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_figure_option(parser)
    options = parser.parse_args()
    grid, stations = simulated()
    model = fitted(stations)
    print(model)
    low, middle, high = np.exp(100 * model.summary().loc["depth", ["0.025", "0.5", "0.975"]])
    print(f"in 100 m of depth {middle:.2f} times, from {low:.2f} to {high:.2f}; truth 0.45")

    index = index_of(model, grid)
    truth = CELL**2 * grid.groupby("year")["density"].sum()
    print((index.assign(truth=truth) / 1e3).round(1))

    for name, kind in {"density": True, "count": "observation"}.items():
        table = model.predict(grid, return_std=kind, quantiles=LEVELS, as_frame=True)
        inside = grid[name].between(table["0.025"], table["0.975"])
        print(f"{name}: {inside.mean():.2f} in the 95 % intervals")
    if options.out:
        draw(model, grid, stations, index, options.out)


if __name__ == "__main__":
    main()
