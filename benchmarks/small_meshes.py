"""Do intervals hold on small meshes, whose parts differ?

    python benchmarks/small_meshes.py                          # two meshes, some ten minutes
    python benchmarks/small_meshes.py --meshes idler-riser --models default
    python benchmarks/small_meshes.py --near 250               # the near block around one centre

Two signals: the z-component of the normals of faces, as it is (`normal`), and heights of vertices
with noise of a hundredth of their variance (`height`). Cross-validation with 20 folds, so that each
value is predicted once from 95 % of the others; the standard error of a coverage is that of the
mean over the folds. Models: `GraphGPRegressor` with all defaults on the graph of faces or vertices;
the same on a graph weighted by lengths, and on vertices by cotangents; and `FieldGPRegressor` on
the triangle mesh, with values at the faces' centres or at the vertices, at each order. z is the
error of a held-out observation over its predicted deviation. `creases` are the tenth of the places
with the largest change of the signal along an edge.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from _machine import header

import graphrf as grf
from graphrf.gp import FieldGPRegressor, TriangleMesh, metrics
from graphrf.gp.hyperparameters import blocks

FOLDS = 20
MODELS = ("default", "lengths", "cotangents", "field 1", "field 2", "field 3")


class Case(NamedTuple):
    """Values at places of a mesh, faces or vertices."""

    vertices: np.ndarray
    faces: np.ndarray
    on: str
    places: np.ndarray
    y: np.ndarray


def cases(mesh: str) -> Iterator[tuple[str, Case]]:
    """The signals of a mesh, by name."""
    data = grf.datasets.load(f"mesh-{mesh}")
    vertices, faces = data.extra["vertices"], data.extra["faces"]
    yield "normal", Case(vertices, faces, "faces", data.coordinates, data.targets)
    height = vertices[:, 2]
    noise = 0.1 * height.std() * np.random.default_rng(0).standard_normal(height.size)
    yield "height", Case(vertices, faces, "vertices", vertices, height + noise)


def predictor(case: Case, model: str) -> Callable | None:
    """A function of training and test rows and a seed: mean and deviation of observations."""
    if model.startswith("field"):
        mesh = TriangleMesh(case.vertices, case.faces)

        def field(train: np.ndarray, test: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
            gp = FieldGPRegressor(mesh, alpha=int(model[-1])).fit(case.places[train], case.y[train])
            return gp.predict(case.places[test], return_std="observation")

        return field
    if model == "cotangents" and case.on == "faces":
        return None
    weights = {"default": "unit", "lengths": "inverse_length", "cotangents": "cotangent"}[model]
    graph = grf.from_mesh((case.vertices, case.faces), on=case.on, weights=weights)

    def nodes(train: np.ndarray, test: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
        gp = grf.GraphGPRegressor(graph, seed=seed).fit(train, case.y[train])
        return gp.predict(test, return_std="observation")

    return nodes


def creases(case: Case) -> np.ndarray:
    """Where the signal changes most along an edge."""
    edges = grf.from_mesh((case.vertices, case.faces), on=case.on).adjacency.tocoo()
    change = np.zeros(case.y.size)
    np.maximum.at(change, edges.row, np.abs(case.y[edges.row] - case.y[edges.col]))
    return change >= np.quantile(change, 0.9)


def row(name: str, case: Case, predict: Callable) -> str:
    """The scores of a model, over all held-out values."""
    n = case.y.size
    folds = np.array_split(np.random.default_rng(0).permutation(n), FOLDS)
    mean, std, started = np.zeros(n), np.zeros(n), time.process_time()
    for seed, test in enumerate(folds):
        train = np.setdiff1d(np.arange(n), test)
        mean[test], std[test] = predict(train, test, seed)
    spent = time.process_time() - started
    z, sharp = (case.y - mean) / std, creases(case)
    held = [metrics.coverage(case.y, mean, std, level=level) for level in (0.5, 0.8, 0.95)]
    error = np.std([np.mean(np.abs(z[test]) < 1.96) for test in folds], ddof=1) / FOLDS**0.5
    by_place = [np.mean(np.abs(z[where]) < 1.96) for where in (sharp, ~sharp)]
    return (
        f"| {name} | {metrics.rmse(case.y, mean):.4g} | {metrics.nlpd(case.y, mean, std):.3f} "
        f"| {held[0]:.3f}, {held[1]:.3f}, {held[2]:.3f} | {error:.3f} "
        f"| {by_place[0]:.2f}, {by_place[1]:.2f} | {np.sqrt(np.mean(z**2)):.2f}, "
        f"{np.mean(z**4) / np.mean(z**2) ** 2:.1f} | {spent:.0f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--meshes", nargs="+", default=["teapot", "fuze"], metavar="NAME")
    parser.add_argument("--signals", nargs="+", default=["normal", "height"])
    parser.add_argument("--models", nargs="+", default=MODELS, choices=MODELS, metavar="NAME")
    parser.add_argument("--near", type=int, default=blocks.NEAR, help="nodes around a centre")
    options = parser.parse_args()
    blocks.NEAR = options.near
    print(header("scipy"))
    print(
        "\n| mesh, signal, model | RMSE | NLPD | coverage of 50, 80, 95 % | standard error "
        "| of 95 %, creases and elsewhere | root mean square and kurtosis of z | CPU s |\n"
        + "|---" * 8
        + "|"
    )
    for mesh in options.meshes:
        for signal, case in cases(mesh):
            for model in options.models if signal in options.signals else ():
                predict = predictor(case, model)
                if predict is not None:
                    print(row(f"{mesh}, {signal}, {model}", case, predict), flush=True)


if __name__ == "__main__":
    main()
