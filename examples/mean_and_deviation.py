"""A signal on a mesh or road network from part of it: the mean, and how sure it is.

On a mesh the faces are nodes and the z-component of their normals is the signal, seen at a tenth of
the faces. In San Jose (an evening's speeds on the highways) it is seen by 250 of the 325 sensors.
`GraphGPRegressor` learns its hyperparameters from the nodes observed and predicts all nodes.
Printed are the error and the share within two deviations at the nodes whose truth was held back.

    python examples/mean_and_deviation.py --out mesh.png python examples/mean_and_deviation.py
    --data mesh-teapot --share 0.2 --view 20 -60 --out teapot.png python
    examples/mean_and_deviation.py --data mesh-bunny --method precision --view 100 -90 --out
    bunny.png python examples/mean_and_deviation.py --data san-jose --out roads.png
"""

from __future__ import annotations

import argparse

import numpy as np
from _figures import figure
from _options import add_figure_option

import graphrf as grf
from graphrf.plot import plot_map_posterior, plot_mesh_posterior

SENSORS = 250


def observed_places(n: int, is_mesh: bool, share: float, seed: int) -> np.ndarray:
    """Positions among the n nodes with a truth that are observed."""
    order = np.random.default_rng(seed).permutation(n)
    return np.sort(order[: round(share * n) if is_mesh else SENSORS])


def filled(n: int, nodes: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Values at some of n nodes, NaN elsewhere."""
    everywhere = np.full(n, np.nan)
    everywhere[nodes] = values
    return everywhere


def draw(
    data: grf.datasets.Dataset,
    nodes: np.ndarray,
    values: np.ndarray,
    mean: np.ndarray,
    std: np.ndarray,
    view: tuple[float, float],
    path: str,
) -> None:
    """Four views of a mesh; three maps of roads, whose truth nobody knows."""
    seen = filled(data.graph.n_nodes, nodes, values)
    mesh = data.extra
    with figure(path, height=7.0 if "faces" in mesh else 3.35) as sheet:
        if "faces" in mesh:
            plot_mesh_posterior(
                mesh["vertices"],
                mesh["faces"],
                mean,
                std,
                truth=data.targets,
                observed=seen,
                figure=sheet,
                label="z of the normal",
                view=view,
            )
        else:
            plot_map_posterior(
                data.coordinates,
                mean,
                std,
                edges=data.graph,
                observed=seen,
                figure=sheet,
                label="speed (mph)",
                geographic=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--data", default="mesh-busted", help="a mesh of graphrf.datasets, or san-jose"
    )
    parser.add_argument(
        "--share", type=float, default=0.1, help="of the faces that are observed; default: .1"
    )
    parser.add_argument(
        "--view",
        type=float,
        nargs=2,
        default=(35.0, -60.0),
        metavar=("UP", "AROUND"),
        help="degrees",
    )
    parser.add_argument("--method", default="auto", help="of GraphGPRegressor")
    parser.add_argument("--seed", type=int, default=0)
    add_figure_option(parser)
    options = parser.parse_args()
    data = grf.datasets.load(options.data)
    is_mesh = "faces" in data.extra
    if not is_mesh and options.data != "san-jose":
        parser.error("--data must be a mesh or san-jose")

    nodes = np.arange(data.graph.n_nodes) if is_mesh else data.target_nodes
    seen = observed_places(nodes.size, is_mesh, options.share, options.seed)
    rest = np.setdiff1d(np.arange(nodes.size), seen)
    gp = grf.GraphGPRegressor(data.graph, method=options.method, seed=options.seed)
    gp.fit(nodes[seen], data.targets[seen])
    mean, std = gp.predict(return_std=True)
    error = mean[nodes[rest]] - data.targets[rest]
    noisy = np.sqrt(std[nodes[rest]] ** 2 + gp.noise_)
    print(f"{options.data}: {data.graph.n_nodes} nodes, {seen.size} observed; {gp.kernel_}")
    print(
        f"at {rest.size} others: RMSE {np.sqrt(np.mean(error**2)):.4g} (of a constant: "
        f"{np.std(data.targets[rest]):.4g}); within two deviations "
        f"{np.mean(np.abs(error) <= 2 * noisy):.3f}"
    )
    if options.out:
        draw(data, nodes[seen], data.targets[seen], mean, std, tuple(options.view), options.out)


if __name__ == "__main__":
    main()
