"""Files that version 0.1.0 saved still load, and mean the same.

`files-0.1.0` was written by that version: features of three samplers, a folder of features, two regressors, a
coupling and a graph, all of a ring of twelve nodes with chords; `expected.json` holds what it read from them.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import graphrf as grf
from tests.support.dense_gp import dense_posterior

FILES = Path(__file__).parent / "files-0.1.0"
EXPECTED = json.loads((FILES / "expected.json").read_text(encoding="utf-8"))


def same(values, name):
    np.testing.assert_allclose(np.ravel(values)[: len(EXPECTED[name])], EXPECTED[name], rtol=1e-6, atol=1e-9)


@pytest.mark.filterwarnings("ignore::graphrf.TruncationWarning")
@pytest.mark.parametrize("name", ["features-walks", "features-compressed", "features-cut"])
def test_features(name):
    features = grf.load_features(FILES / f"{name}.npz")
    same(features.gram(grf.Diffusion(1.0)), name)
    assert features.nodes.tolist() == [0, 1, 2, 3, 4]


def test_a_folder_of_features(tmp_path):
    shutil.copytree(FILES / "folder", tmp_path / "folder")
    same(grf.load_features(tmp_path / "folder").gram(grf.Diffusion(1.0)), "folder")


def test_a_folder_of_features_is_gone_on_with(tmp_path):
    shutil.copytree(FILES / "folder", tmp_path / "folder")
    graph = grf.open_graph(FILES / "graph")
    features = grf.sample_features(graph, grf.RandomWalks(4), seed=3, path=tmp_path / "folder")
    same(features.gram(grf.Diffusion(1.0)), "folder")


@pytest.mark.parametrize("method", ["walks", "series"])
def test_a_regressor(method):
    pytest.importorskip("sklearn", reason="regressors need the extra `gp`")
    model = grf.GraphGPRegressor.load(FILES / f"regressor-{method}.npz")
    mean, std = model.predict(np.arange(12), return_std=True)
    expected = np.array(EXPECTED[f"regressor-{method}"])
    np.testing.assert_allclose(mean, expected[:12], rtol=1e-6, atol=1e-9)
    # That version took the constant for known, and the rows that it sampled for exact.
    with np.load(FILES / f"regressor-{method}.npz") as content:
        nodes, y = content["nodes"], content["means"][:, 0] + content["offset"][0]
    scale = np.sqrt(model.output_scale_ / model.mean_variance_)
    root = scale * model.kernel_.dense_root(model.graph)
    seen = None
    if method == "walks":
        options = {"seed": model.seed_, "dtype": "float64"}
        features = grf.sample_features(model.graph, model.sampler_, **options)
        seen = scale * features.matrix(model.kernel_).toarray()
    else:
        _, former = dense_posterior(root, nodes, y, model.noise_, basis=np.zeros((12, 0)))
        np.testing.assert_allclose(np.sqrt(np.diagonal(former)), expected[12:], rtol=1e-6)
    now, covariance = dense_posterior(root, nodes, y, model.noise_, seen=seen)
    np.testing.assert_allclose(mean, now, atol=1e-6)
    np.testing.assert_allclose(std, np.sqrt(np.diagonal(covariance)), rtol=1e-6)


def test_a_coupling():
    same(grf.Coupling.load(FILES / "coupling.json").permutations, "coupling")


def test_a_graph():
    same(grf.open_graph(FILES / "graph").adjacency.toarray(), "graph")
