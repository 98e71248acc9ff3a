"""The example on a cluster runs, keeps its features, and says what is missing."""

from __future__ import annotations

import numpy as np
import pytest

import graphrf as grf
from tests.examples.test_examples import run

pytest.importorskip("distributed", reason="a cluster needs the extra `distributed`")
from dask.distributed import Client


def test_the_example_predicts_and_keeps_the_features_of_one_process(example, tmp_path):
    pytest.importorskip("matplotlib", reason="figures need the extra `plot`")
    picture, kept = tmp_path / "cluster.png", tmp_path / "features"
    small = ("--nodes", "400", "--walks", "8", "--queries", "20", "--workers", "1")
    lines = run("cluster.py", *small, "--path", str(kept), "--out", str(picture))
    assert picture.read_bytes().startswith(b"\x89PNG")
    title = next(number for number, line in enumerate(lines) if line[:1] == ["worker"])
    rows = np.array([[float(word) for word in line[1:]] for line in lines[title + 1 :]])
    assert rows.shape == (1, 5)
    assert rows[:, 0].sum() == 7  # blocks of 64 rows
    (quality,) = (line for line in lines if "RMSE" in line)
    assert float(quality[quality.index("RMSE") + 1]) < 0.9

    module = example("cluster")
    task, sampler = module.made(400, 0), grf.RandomWalks(8)
    expected = grf.sample_features(task.graph, sampler, seed=0)
    with Client(n_workers=1, processes=False, dashboard_address=":0") as client:
        found = grf.distributed.load_features(kept, client=client)
        assert (found.matrix(module.KERNEL) != expected.matrix(module.KERNEL)).nnz == 0
