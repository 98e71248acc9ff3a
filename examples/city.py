"""Counts of vehicles on the streets of a simulated city: gaps, streets without a counter, a map.

Sixty of the streets have a counter, each hour of two weeks, with gaps. The rate of a street depends
on its class, on a smooth field, and on the hour and day; the truth is known. Printed are how well
lost counts are predicted, and rates at eight o'clock on all streets without a counter, by a model
that knows the class of the road and by one that does not. Drawn are the counts, the predicted rates
and their relative standard deviations; `--map` writes the rates as a map to zoom.

    pip install 'graphrf[terms,plot,interactive]'
    python examples/city.py --out city.png --map city.html
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import networkx as nx
import numpy as np
import pandas as pd
from _figures import figure
from _options import add_figure_option

import graphrf as grf
from graphrf.gp import Groups, LatentGaussianModel, Nodes, Steps, metrics
from graphrf.plot import interactive_map, plot_edges

RUSH = pd.Timestamp("2026-06-12 08:00")
VEHICLES = {"primary": 400.0, "secondary": 120.0, "residential": 20.0}  # per hour, at noon
KEYS = ["u", "v", "key"]


class City(NamedTuple):
    """Streets as OSMnx has them, the table of edges, all true rates, and the counts of counters."""

    streets: nx.MultiDiGraph
    edges: pd.DataFrame
    rates: pd.DataFrame
    counts: pd.DataFrame
    lost: pd.Series


def streets(rng: np.random.Generator) -> nx.MultiDiGraph:
    """A grid with gaps, of three classes of roads; a street is an edge in each direction."""
    grid = nx.grid_2d_graph(11, 11)
    grid.remove_edges_from([street for street in grid.edges if rng.random() < 0.15])
    town = nx.MultiDiGraph(crs="epsg:32632")
    for i, j in grid:
        x, y = 110 * np.array([i, j]) + rng.normal(0, 12, 2)
        town.add_node(11 * i + j + 65_000_000, x=x, y=y)
    for (i, j), (across, up) in grid.edges:
        u, v = 11 * i + j + 65_000_000, 11 * across + up + 65_000_000
        line = i if i == across else j
        road = "primary" if line == 5 else "secondary" if line % 4 == 0 else "residential"
        a, b = town.nodes[u], town.nodes[v]
        known = {
            "highway": road,
            "length": float(np.hypot(a["x"] - b["x"], a["y"] - b["y"])),
            "east": (a["x"] + b["x"]) / 2,
            "north": (a["y"] + b["y"]) / 2,
        }
        town.add_edge(u, v, **known)
        town.add_edge(v, u, **known)
    return town


def simulated(seed: int, counters: int = 60, days: int = 14) -> City:
    """A city; of `lost` counts, which are NaN in `counts`, the truth."""
    rng = np.random.default_rng(seed)
    town = streets(rng)
    edges = nx.to_pandas_edgelist(town, source="u", target="v", edge_key="key").set_index(KEYS)
    times = pd.date_range("2026-06-01", periods=24 * days, freq="h")
    hour = times.hour.to_numpy()
    peaks = np.exp(-((hour - 8) ** 2) / 8) + np.exp(-((hour - 17) ** 2) / 12)
    through_time = np.log(0.1 + peaks + 0.4 * np.exp(-((hour - 13) ** 2) / 20))
    through_time += np.repeat(rng.normal(0, 0.1, days), 24) - 0.4 * (times.day_of_week > 4)
    over_streets = np.log(edges["highway"].map(VEHICLES).to_numpy()) + rng.normal(
        0, 0.2, len(edges)
    )
    over_streets += 0.4 * np.sin(edges["east"] / 300) + 0.3 * np.cos(edges["north"] / 250)
    rates = np.exp(np.add.outer(np.asarray(through_time), over_streets.to_numpy()))
    rates = pd.DataFrame(rates, index=times.rename("time"), columns=edges.index)
    measured = rates.iloc[:, rng.choice(len(edges), counters, replace=False)]
    counts = rng.poisson(measured * rng.gamma(20, 1 / 20, measured.shape)).astype(float)
    counts = pd.DataFrame(counts, index=measured.index, columns=measured.columns)
    table = counts.unstack().rename("count").reset_index()
    gaps = rng.random(len(table)) < 0.07
    return City(
        town, edges, rates, table.assign(count=table["count"].mask(gaps)), table["count"][gaps]
    )


def prepared(frame: pd.DataFrame) -> pd.DataFrame:
    """A table of streets and times, with the columns that the model reads."""
    time = frame["time"].dt
    return frame.assign(
        edge=list(zip(frame["u"], frame["v"], frame["key"], strict=True)),
        hour=time.hour,
        day=time.normalize(),
        weekend=(time.day_of_week > 4).astype(float),
    )


def draw(city: City, seen: pd.Series, rates: pd.DataFrame, path: str) -> None:
    """Counts, predicted rates, and their relative standard deviations."""
    maps = {
        "counted": (seen, "log"),
        "predicted": (rates["mean"], "log"),
        "standard deviation / prediction": (rates["std"] / rates["mean"], "linear"),
    }
    with figure(path, height=2.9) as sheet:
        for ax, (name, (values, norm)) in zip(sheet.subplots(1, 3), maps.items(), strict=True):
            looks = {"limits": (5, 1000), "label": "vehicles per hour"} if norm == "log" else {}
            plot_edges(city.streets, values, ax=ax, norm=norm, **looks)
            ax.set_title(name)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--map", help="an .html file of the predicted rates")
    add_figure_option(parser)
    options = parser.parse_args()
    city = simulated(options.seed)
    graph = grf.load_graph(city.streets, on="edges", weight="length", weight_is="distance")
    frame = prepared(city.counts.join(city.edges["highway"], on=KEYS))
    gaps = frame["count"].isna()
    counted = set(frame["edge"])
    rush = prepared(city.edges.reset_index().assign(time=RUSH))
    others = ~rush["edge"].isin(counted).to_numpy()
    truth = city.rates.loc[RUSH].to_numpy()
    field = Nodes(graph, grf.Matern(nu=1), by="edge")
    terms = [field, Groups("edge"), Steps("hour", "rw2"), Steps("day", "rw1")]
    for name, formula in (
        ("without the class", "count ~ 1 + weekend"),
        ("with the class", "count ~ 1 + highway + weekend"),
    ):
        model = LatentGaussianModel(
            formula, terms, "negative_binomial", hyperparameters="mode", seed=options.seed
        ).fit(frame[~gaps])
        held = {"return_std": "observation", "quantiles": (0.025, 0.975)}
        low, high = model.predict(frame[gaps], **held).T
        least, most = model.predict(rush, quantiles=(0.025, 0.975)).T
        rates = model.predict(rush, return_std=True, as_frame=True)
        mean, inside = rates["mean"].to_numpy(), (least <= truth) & (truth <= most)
        print(
            f"{name}: lost counts RMSE {metrics.rmse(city.lost, model.predict(frame[gaps])):.0f} "
            f"of {city.lost.std():.0f}, {np.mean((low <= city.lost) & (city.lost <= high)):.2f} in "
            f"95 % intervals; other streets correlation "
            f"{np.corrcoef(truth[others], mean[others])[0, 1]:.2f}, {inside[others].mean():.2f} in"
        )
    rates = rates.set_index(city.edges.index)
    if options.out:
        draw(
            city,
            city.counts.loc[city.counts["time"] == RUSH].set_index(KEYS)["count"],
            rates,
            options.out,
        )
    if options.map:
        interactive_map(
            city.streets,
            rates["mean"],
            rates["std"],
            norm="log",
            label="vehicles per hour",
            path=options.map,
        )


if __name__ == "__main__":
    main()
