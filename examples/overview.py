"""The picture on the first page: the normals of a teapot from a fifth of its faces, and San Jose's traffic.

python examples/overview.py --out overview.png
"""

from __future__ import annotations

import argparse

import numpy as np
from _figures import figure
from _options import add_figure_option
from mean_and_deviation import filled, observed_places

import graphrf as grf
from graphrf.plot import plot_map_posterior, plot_mesh_posterior


def posterior(data: grf.datasets.Dataset, share: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What was observed (NaN elsewhere), the mean and the standard deviation at every node."""
    is_mesh = "faces" in data.extra
    places = np.arange(data.graph.n_nodes) if is_mesh else data.target_nodes
    seen = observed_places(places.size, is_mesh, share, seed=0)
    mean, std = (
        grf.GraphGPRegressor(data.graph, seed=0).fit(places[seen], data.targets[seen]).predict(return_std=True)
    )
    return filled(data.graph.n_nodes, places[seen], data.targets[seen]), mean, std


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_figure_option(parser)
    options = parser.parse_args()
    if not options.out:
        parser.error("--out FILE is needed: this script only draws")
    mesh, roads = grf.datasets.load("mesh-teapot"), grf.datasets.load("san-jose")
    with figure(options.out, height=5.6) as sheet:
        upper, lower = sheet.subfigures(2, 1, height_ratios=(1, 1.3))
        observed, mean, std = posterior(mesh, share=0.2)
        plot_mesh_posterior(
            mesh.extra["vertices"], mesh.extra["faces"], mean, std, observed=observed, figure=upper,
            label="z of the normal", view=(20.0, -60.0),
        )  # fmt: skip
        observed, mean, std = posterior(roads, share=1.0)
        links = roads.graph.adjacency.tocoo()
        plot_map_posterior(
            roads.coordinates, np.column_stack([links.row, links.col]), mean, std, observed=observed, figure=lower,
            label="speed (mph)", geographic=True,
        )  # fmt: skip


if __name__ == "__main__":
    main()
