"""Defaults that just work: a mesh, a road network and a citation graph, with nothing set but the seed."""

from __future__ import annotations

import numpy as np
import pytest

import graphrf as grf
from tests.support.real_data import needs_data

pytestmark = needs_data


def _load(name):
    if name.startswith("mesh-"):
        pytest.importorskip("trimesh", reason="meshes are read with trimesh")
    try:
        data = grf.datasets.load(name)
    except FileNotFoundError as error:
        pytest.skip(f"{name} is not in the data folder: {error}")
    nodes = np.arange(data.graph.n_nodes) if data.target_nodes is None else data.target_nodes
    y = data.targets
    if y.dtype.kind != "f":  # topics: whether a paper has the commonest one
        y = (y == np.bincount(y).argmax()).astype(np.float64)
    return data.graph, nodes, y


@pytest.mark.parametrize(
    ("name", "n_train", "share"),
    [("mesh-idler-riser", 300, 0.65), ("san-jose", 200, 0.9), ("cora", 300, 0.8)],
)
def test_held_out_nodes_are_predicted_better_than_by_the_mean_and_covered(name, n_train, share):
    graph, nodes, y = _load(name)
    order = np.random.default_rng(0).permutation(nodes.size)
    train, test = order[:n_train], order[n_train:]
    gp = grf.GraphGPRegressor(graph, seed=0).fit(nodes[train], y[train])
    mean, std = gp.predict(nodes[test], return_std="observation")
    error = np.sqrt(np.mean(np.square(mean - y[test])))
    assert error < share * np.sqrt(np.mean(np.square(y[train].mean() - y[test])))
    assert 0.85 <= np.mean(np.abs(mean - y[test]) < 1.96 * std) <= 0.99
