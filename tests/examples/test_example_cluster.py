"""The example on a cluster runs, and keeps the features of one process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import graphrf as grf

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
pytest.importorskip("distributed", reason="a cluster needs the extra `distributed`")


def test_the_example_predicts_and_keeps_the_features_of_one_process(example, tmp_path):
    pytest.importorskip("matplotlib", reason="figures need the extra `plot`")
    picture, kept = tmp_path / "cluster.png", tmp_path / "features"
    small = ("--nodes", "400", "--walks", "8", "--queries", "20", "--workers", "1")
    done = subprocess.run(  # a process, whose workers import its script
        [
            sys.executable,
            "-W",
            "error",
            EXAMPLES / "cluster.py",
            *small,
            "--path",
            kept,
            "--out",
            picture,
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert picture.read_bytes().startswith(b"\x89PNG")
    title = next(number for number, line in enumerate(lines) if line[:1] == ["worker"])
    rows = np.array([[float(word) for word in line[1:]] for line in lines[title + 1 :]])
    assert rows.shape == (1, 5)
    assert rows[:, 0].sum() == 7  # blocks of 64 rows
    (quality,) = (line for line in lines if "RMSE" in line)
    assert float(quality[quality.index("RMSE") + 1]) < 0.9
    module = example("cluster")
    expected = grf.sample_features(module.made(400, 0).graph, grf.RandomWalks(8), seed=0)
    assert (
        grf.features.load_features(kept).matrix(module.KERNEL) != expected.matrix(module.KERNEL)
    ).nnz == 0
