"""Files that version 0.1.0 saved still load, and mean the same.

`files-0.1.0` was written by that version: features of three samplers, a folder of features, a
coupling and a graph, all of a ring of twelve nodes with chords; `expected.json` holds what it read
from them.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import graphrf as grf

FILES = Path(__file__).parent / "files-0.1.0"
EXPECTED = json.loads((FILES / "expected.json").read_text(encoding="utf-8"))


def same(values, name):
    np.testing.assert_allclose(
        np.ravel(values)[: len(EXPECTED[name])], EXPECTED[name], rtol=1e-6, atol=1e-9
    )


@pytest.mark.filterwarnings("ignore::graphrf.features.TruncationWarning")
@pytest.mark.parametrize("name", ["features-walks", "features-compressed", "features-cut"])
def test_features(name):
    features = grf.features.load_features(FILES / f"{name}.npz")
    same(features.gram(grf.Diffusion(1.0)), name)
    assert features.nodes.tolist() == [0, 1, 2, 3, 4]


def test_a_folder_of_features(tmp_path):
    shutil.copytree(FILES / "folder", tmp_path / "folder")
    same(grf.features.load_features(tmp_path / "folder").gram(grf.Diffusion(1.0)), "folder")


def test_a_folder_of_features_is_gone_on_with(tmp_path):
    shutil.copytree(FILES / "folder", tmp_path / "folder")
    graph = grf.open_graph(FILES / "graph")
    features = grf.sample_features(graph, grf.RandomWalks(4), seed=3, path=tmp_path / "folder")
    same(features.gram(grf.Diffusion(1.0)), "folder")


def test_a_coupling():
    same(grf.sampling.Coupling.load(FILES / "coupling.json").permutations, "coupling")


def test_a_graph():
    same(grf.open_graph(FILES / "graph").adjacency.toarray(), "graph")
