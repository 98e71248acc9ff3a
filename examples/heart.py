"""Times of activation on a heart from 150 electrodes beside its vertices, in millimetres.

The surface and the times are simulated: a field of range 40 mm, with errors of 2 ms. Printed are
the error at 300 other points, the share in their 95 % intervals, the range and the deviation of the
noise with intervals, and the mean time along a path. Drawn are the mean and its standard deviation,
and the times along the path, with the truth. It takes some seconds. For your heart, replace
`surface`, by `TriangleMesh.from_mesh("heart.stl")`, and `simulated`.

    pip install 'graphrf[gp,plot]'
    python examples/heart.py --out heart.png --export heart.vtk
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np
import pandas as pd
from _figures import figure
from _options import add_figure_option

from graphrf.gp import FieldGPRegressor, TriangleMesh
from graphrf.plot import COLOURS, plot_forecast, plot_mesh_posterior, write_mesh

RANGE, NOISE = 40.0, 2.0  # mm, ms
SEEN, NEW = 150, 300
LEVELS = (0.025, 0.5, 0.975)


class Simulated(NamedTuple):
    """Places beside the surface, and the true times there and at all vertices."""

    points: pd.DataFrame
    truth: np.ndarray
    at_vertices: np.ndarray


def on_heart(directions: np.ndarray) -> np.ndarray:
    """Points of the heart in some directions from its centre, in millimetres."""
    x, y, z = directions.T
    radius = 40 + 8 * z + 6 * x * y + 4 * np.sin(3 * x)
    return radius[:, None] * directions


def surface() -> TriangleMesh:
    """A sphere with moved vertices."""
    ball = TriangleMesh.sphere(4)
    return TriangleMesh(on_heart(ball.vertices), ball.triangles)


def simulated(mesh: TriangleMesh, rng: np.random.Generator) -> Simulated:
    """Points half a millimetre off the surface."""
    n, times = SEEN + NEW, 60 + mesh.sample(range=RANGE, sd=15.0, seed=0)[0]
    shares = rng.dirichlet(np.ones(3), n)
    corners = mesh.triangles[rng.integers(mesh.n_triangles, size=n)]
    on = np.einsum("nk,nkd->nd", shares, mesh.vertices[corners])
    points = pd.DataFrame(on + rng.normal(0, 0.5, (n, 3)), columns=["x", "y", "z"])
    return Simulated(points, (shares * times[corners]).sum(axis=1), times)


def meridian() -> tuple[pd.DataFrame, np.ndarray]:
    """A path from the top to the bottom of the heart, and the distance along it."""
    angle = np.linspace(0, np.pi, 100)
    path = on_heart(np.column_stack([np.sin(angle), 0 * angle, np.cos(angle)]))
    steps = np.linalg.norm(np.diff(path, axis=0), axis=1)
    return pd.DataFrame(path, columns=["x", "y", "z"]), np.concatenate([[0.0], np.cumsum(steps)])


def draw(
    gp: FieldGPRegressor, mesh: TriangleMesh, seen: tuple, true: np.ndarray, path: str
) -> None:
    """The surface twice, with the electrodes, above the path."""
    places, along = meridian()
    bands = gp.predict(places, quantiles=LEVELS, as_frame=True)
    label = "activation (ms)"
    with figure(path, height=6.4) as sheet:
        above, below = sheet.subfigures(2, 1, height_ratios=(1.6, 1.0))
        mean, sd = gp.predict(return_std=True)
        corners = mesh.vertices, mesh.triangles
        plot_mesh_posterior(*corners, mean, sd, observed=seen, figure=above, label=label, unit="mm")
        ax = below.subplots()
        plot_forecast(along, bands, ax=ax, label=label, xlabel="along a path (mm)")
        ax.plot(along, mesh.weights(places) @ true, color=COLOURS[1], label="truth")
        ax.legend(frameon=False, ncols=3, loc="lower left", bbox_to_anchor=(0, 1))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_figure_option(parser)
    parser.add_argument("--export", metavar="FILE", help="the surface, as .vtk or .ply")
    options = parser.parse_args()
    rng, mesh = np.random.default_rng(0), surface()
    points, truth, at_vertices = simulated(mesh, rng)
    measured = truth[:SEEN] + NOISE * rng.standard_normal(SEEN)
    gp = FieldGPRegressor(mesh).fit(points[:SEEN], measured)

    mean, sd = gp.predict(points[SEEN:], return_std=True)
    error = mean - truth[SEEN:]
    inside = np.mean(np.abs(error) < 1.96 * sd)
    print(f"error {np.sqrt(np.mean(error**2)):.1f} ms, in the 95 % intervals {inside:.2f}")
    print(gp.summary().loc[["range", "noise sd"], ["0.025", "0.5", "0.975"]].round(1))

    path, _ = meridian()
    low, high = np.quantile(gp.sample(path, 1000, seed=0).mean(axis=1), (0.025, 0.975))
    true = float((mesh.weights(path) @ at_vertices).mean())
    print(f"mean along the path {low:.1f} to {high:.1f} ms, truth {true:.1f}")

    if options.export:
        mean, sd = gp.predict(return_std=True)
        write_mesh(options.export, mesh.vertices, mesh.triangles, {"mean": mean, "sd": sd})
    if options.out:
        draw(gp, mesh, (points[:SEEN], measured), at_vertices, options.out)


if __name__ == "__main__":
    main()
