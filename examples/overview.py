"""The picture on the first page: speeds at held-out sensors with intervals, and a map.

Mean speeds of 26 Monday afternoons at 325 sensors on the highways of San Jose. In ten-fold
cross-validation each sensor is predicted from nine tenths of the others; the map shows predictions
from all of them. Directions of a highway are roads of their own, so that one may be congested
beside the other, on which it is drawn.

    python examples/overview.py --out overview.png
"""

from __future__ import annotations

import argparse

import numpy as np
from _figures import figure
from _options import add_figure_option

import graphrf as grf
from graphrf.gp.metrics import coverage, rmse
from graphrf.plot import COLOURS, plot_graph_signal

FOLDS = 10


def cross_validated(
    graph: grf.Graph, nodes: np.ndarray, y: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The mean and deviation of a measurement at each node, from the other folds."""
    mean, std = np.empty(y.size), np.empty(y.size)
    for fold in np.array_split(np.random.default_rng(0).permutation(y.size), FOLDS):
        seen = np.setdiff1d(np.arange(y.size), fold)
        gp = grf.GraphGPRegressor(graph, seed=0).fit(nodes[seen], y[seen])
        mean[fold], std[fold] = gp.predict(nodes[fold], return_std="observation")
    return mean, std


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_figure_option(parser)
    options = parser.parse_args()
    data = grf.datasets.load("san-jose")
    y = data.extra["speeds"].mean(axis=0)
    mean, std = cross_validated(data.graph, data.target_nodes, y)
    inside = np.abs(y - mean) < 1.96 * std
    print(
        f"{y.size} sensors whose speeds have standard deviation {y.std():.1f} mph: RMSE "
        f"{rmse(y, mean):.1f} mph, coverage of 95 % intervals {coverage(y, mean, std):.3f}"
    )
    if not options.out:
        return
    everywhere = grf.GraphGPRegressor(data.graph, seed=0).fit(data.target_nodes, y).predict()
    with figure(options.out, height=4.2) as sheet:
        left, right = sheet.subplots(1, 2, width_ratios=(1.1, 1))
        plot_graph_signal(
            data.coordinates,
            data.graph,
            everywhere,
            ax=left,
            geographic=True,
            label="predicted speed (mph)",
        )
        left.set_title("San Jose, Mondays at 17:30")
        for some, colour, words in (
            (inside, COLOURS[0], "in their 95 % interval"),
            (~inside, COLOURS[1], "outside"),
        ):
            right.errorbar(
                y[some],
                mean[some],
                yerr=1.96 * std[some],
                fmt="o",
                color=colour,
                ecolor=(colour, 0.3),
                markersize=3,
                elinewidth=0.8,
                capsize=0,
                label=f"{some.sum()} {words}",
            )
        right.plot([15, 75], [15, 75], color="black", linewidth=1, zorder=3)
        right.set(
            xlabel="measured speed (mph)",
            ylabel="predicted from other sensors (mph)",
            ylim=(0, 100),
        )
        right.set_title(
            f"{y.size} sensors, each held out: RMSE {rmse(y, mean):.1f} mph,\n"
            f"coverage of 95 % intervals {100 * coverage(y, mean, std):.0f} %"
        )
        right.legend(loc="upper left")


if __name__ == "__main__":
    main()
