"""Lip cancer in 56 districts of Scotland, and its posterior by `LatentGaussianModel`."""

from __future__ import annotations

import functools
import json
import math
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import graphrf as grf

AREAL = Path(os.environ.get("GRAPHRF_DATA_DIR", "none")) / "areal"
needs_districts = pytest.mark.skipif(
    not AREAL.is_dir(), reason="needs the districts of GRAPHRF_DATA_DIR"
)
# Of the exponential prior of the standard deviation: above 2 with probability .05.
RATE = -math.log(0.05) / 2


class Districts(NamedTuple):
    """The graph, whose nodes have names, and columns in the order of its nodes."""

    graph: grf.Graph
    cases: np.ndarray
    expected: np.ndarray
    outdoors: np.ndarray


def districts() -> Districts:
    """The data; `outdoors` in tenths."""
    data = json.loads((AREAL / "scotland_lip.json").read_text())
    edges = np.array(json.loads((AREAL / "scotland_connected.json").read_text())["edges"])
    first, second = edges if edges.shape[0] == 2 else edges.T
    names = np.array([f"district {i:02}" for i in range(1, 57)])
    graph = grf.load_graph(list(zip(names[first - 1], names[second - 1], strict=True)))
    order = np.searchsorted(names, graph.nodes)
    return Districts(
        graph, *(np.asarray(data[name])[order] for name in "yE"), 10 * np.asarray(data["x"])[order]
    )


@functools.cache
def ours() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means and deviations of intercept, slope, mixing and deviation, and the field's means."""
    pandas = pytest.importorskip("pandas")
    graph, cases, expected, outdoors = districts()
    frame = pandas.DataFrame(
        {"y": cases, "e": expected, "x": outdoors, "district": list(graph.nodes)}
    )
    model = grf.gp.LatentGaussianModel(
        "y ~ 1 + x",
        grf.gp.Nodes(graph, grf.BYM2(), by="district"),
        "poisson",
        exposure="e",
        coefficient_deviation=5.0,
        seed=0,
    ).fit(frame)
    table = model.summary()
    return table["mean"].to_numpy(), table["sd"].to_numpy(), model.effects(0)["mean"].to_numpy()


def assert_agrees(draws: dict[str, np.ndarray], field: np.ndarray) -> None:
    """Draws of a, b, mixing, sd and the field, shapes (n,) and (n, 56), agree with ours."""
    means, deviations, effects = ours()
    found = [draws[name] for name in ("a", "b", "mixing", "sd")]
    # with 100 effective draws the error of a mean is a tenth of a deviation; that of the
    # approximation is less
    np.testing.assert_array_less(np.abs([own.mean() for own in found] - means) / deviations, 0.5)
    np.testing.assert_array_less(np.abs(np.log([own.std() for own in found] / deviations)), 0.4)
    np.testing.assert_array_less(np.abs(field.mean(axis=0) - effects) / field.std(axis=0), 0.5)
