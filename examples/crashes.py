"""Rates of crashes along streets of a generated town, from counts on 80-metre stretches.

The town, its traffic and the crashes are simulated: no data come with it, and the truth is known.
The exposure of a stretch is the distance that vehicles travel on it in ten years. The model is a
field of order 1 along the streets and the effect of the class of the road. Printed are the share of
95 % intervals that contain the true rate in each of several towns and in their mean, and the root
mean squared errors of predicted rates and of the ratios of crashes to travel. Drawn is the first
town.

    pip install 'graphrf[terms,plot]'
    python examples/crashes.py --out crashes.png
"""

from __future__ import annotations

import argparse
from itertools import pairwise
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import pandas as pd
from _figures import figure
from _options import add_figure_option
from matplotlib.collections import LineCollection
from matplotlib.colors import LogNorm

import graphrf as grf
from graphrf.gp import Field, LatentGaussianModel

SIDE, BLOCK, STRETCH = 8, 250.0, 80.0  # streets on a side; metres
DAYS = 3652.5
RANGE, DEVIATION = 800.0, 0.6
# Of a stretch, at which the true field is evaluated.
WITHIN = (0.1, 0.3, 0.5, 0.7, 0.9)
LIMITS = (0.5, 5.0)


class Town(NamedTuple):
    """The streets with x, y and length, the same as a metric graph, and a row for each stretch."""

    network: nx.Graph
    streets: grf.gp.MetricGraph
    frame: pd.DataFrame


def network(rng: np.random.Generator) -> nx.Graph:
    """A grid of streets with gaps; main roads have more traffic."""
    town = nx.grid_2d_graph(SIDE, SIDE)
    town.remove_edges_from([street for street in town.edges if rng.random() < 0.1])
    for (i, j), place in town.nodes.items():
        place.update(x=BLOCK * i + rng.normal(0, 30), y=BLOCK * j + rng.normal(0, 30))
    for (u, v), street in town.edges.items():
        a, b = town.nodes[u], town.nodes[v]
        main = {u[0], v[0]} in ({2}, {6}) or {u[1], v[1]} == {3}
        vehicles = rng.lognormal(9.2, 0.3) if main else rng.lognormal(7.8, 0.4)
        street.update(
            length=float(np.hypot(a["x"] - b["x"], a["y"] - b["y"])),
            road="main" if main else "side",
            vehicles=round(vehicles, -2),
        )
    return town


def simulated(seed: int) -> Town:
    """A town with the true rates of all stretches and counts of crashes."""
    rng = np.random.default_rng(seed)
    town = network(rng)
    streets = grf.gp.MetricGraph.from_networkx(town)
    rows = []
    for (u, v), street in town.edges.items():
        ends = np.linspace(0, street["length"], round(street["length"] / STRETCH) + 1).tolist()
        for near, far in pairwise(ends):
            travel = (far - near) / 1000 * street["vehicles"] * DAYS / 1e6
            rows.append(((u, v), (near, far), street["road"], travel))
    frame = pd.DataFrame(rows, columns=["edge", "distance", "road", "travel"])
    within = [
        (*edge, near + share * (far - near))
        for edge, (near, far) in zip(frame["edge"], frame["distance"], strict=True)
        for share in WITHIN
    ]
    field = streets.sample(within, range=RANGE, sd=DEVIATION, seed=seed)[0]
    mean = np.exp(field).reshape(-1, len(WITHIN)).mean(axis=1)
    frame["rate"] = np.exp(0.5 - 0.5 * (frame["road"] == "main")) * mean
    frame["crashes"] = rng.poisson(frame["travel"] * frame["rate"])
    return Town(town, streets, frame)


def fitted(town: Town) -> LatentGaussianModel:
    """A field along the streets, and the class of the road."""
    field = Field(town.streets)
    return LatentGaussianModel(
        "crashes ~ 1 + C(road)", field, "poisson", exposure="travel", seed=0
    ).fit(town.frame)


def lines(town: Town) -> list[np.ndarray]:
    """Both ends of each stretch as coordinates."""
    found = []
    for (u, v), ends in zip(town.frame["edge"], town.frame["distance"], strict=True):
        a, b = (
            np.array([town.network.nodes[node][name] for name in ("x", "y")]) for node in (u, v)
        )
        share = np.array(ends)[:, None] / town.network.edges[u, v]["length"]
        found.append(a + share * (b - a))
    return found


def draw(town: Town, maps: dict[str, Any], path: str) -> None:
    """The same streets coloured by several rates."""
    with figure(path, height=3.9) as sheet:
        axes = sheet.subplots(1, len(maps))
        for ax, (title, values) in zip(axes, maps.items(), strict=True):
            # A logarithm has no colour for 0; the arrow of
            # the colour bar stands for all that is below.
            shown = LineCollection(
                lines(town),
                array=np.maximum(np.asarray(values), 0.01),
                norm=LogNorm(*LIMITS),
                linewidths=2.5,
                capstyle="butt",
            )
            ax.add_collection(shown)
            ax.set(xlim=(-100, BLOCK * SIDE - 150), ylim=(-300, BLOCK * SIDE - 150))
            ax.set_aspect("equal")
            ax.set_title(title)
            ax.set_axis_off()
        # A scale of 500 metres below the first map.
        axes[0].plot([0, 500], [-180, -180], color="black", linewidth=1.5)
        axes[0].text(250, -205, "500 m", ha="center", va="top", fontsize="small")
        bar = sheet.colorbar(
            shown,
            ax=axes,
            orientation="horizontal",
            shrink=0.5,
            pad=0.03,
            aspect=40,
            extend="both",
            ticks=(0.5, 1, 2, 5),
            format="{x:g}",
            label="crashes per million vehicle kilometres",
        )
        bar.ax.minorticks_off()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--towns", type=int, default=10, help="simulations (default: %(default)s)")
    add_figure_option(parser)
    options = parser.parse_args()
    shares = []
    for seed in range(options.towns):
        town = simulated(seed)
        model, rate = fitted(town), town.frame["rate"]
        low, high = model.predict(quantiles=(0.025, 0.975)).T
        shares.append(np.mean((low < rate) & (rate < high)))
        ratio = town.frame["crashes"] / town.frame["travel"]
        errors = [np.sqrt(np.mean((own - rate) ** 2)) for own in (model.predict(), ratio)]
        print(
            f"town {seed}: {town.frame['crashes'].sum()} crashes on {len(rate)} stretches; "
            f"within the 95 % intervals {shares[-1]:.2f}; "
            f"errors of predictions {errors[0]:.2f}, of ratios {errors[1]:.2f}"
        )
        if options.out and not seed:
            draw(
                town,
                {"true rate": rate, "crashes per travel": ratio, "predicted rate": model.predict()},
                options.out,
            )
    if len(shares) > 1:
        error = np.std(shares, ddof=1) / len(shares) ** 0.5
        print(f"within the 95 % intervals, in the mean: {np.mean(shares):.3f} +- {error:.3f}")


if __name__ == "__main__":
    main()
