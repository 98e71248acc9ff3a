"""The example on a cluster runs, keeps its features, and says what is missing."""

from __future__ import annotations

import socket
import subprocess
import sys

import numpy as np
import pytest

from tests.test_examples import EXAMPLES, run

pytest.importorskip("distributed", reason="a cluster needs the extra `distributed`")

SMALL = ("--nodes", "900", "--walks", "8", "--queries", "20")


def test_a_second_run_reads_the_features_of_the_first_and_predicts_the_same(tmp_path):
    pytest.importorskip("matplotlib", reason="figures need the extra `plot`")
    picture, kept = tmp_path / "cluster.png", tmp_path / "features"
    first, second = (
        run("cluster.py", *SMALL, "--path", str(kept), *more)
        for more in (["--out", str(picture)], ["--workers", "1"])
    )
    assert picture.read_bytes().startswith(b"\x89PNG")
    found = []
    for lines, n_workers in ((first, 2), (second, 1)):
        title = next(number for number, line in enumerate(lines) if line[:1] == ["worker"])
        rows = np.array([[float(word) for word in line[1:]] for line in lines[title + 1 :]])
        assert rows.shape == (n_workers, 5)
        assert rows[:, 0].sum() == 15  # blocks of 64 rows
        (quality,) = (line for line in lines if "RMSE" in line)
        found.append(quality)
    assert found[0] == found[1]
    assert float(found[0][found[0].index("RMSE") + 1]) < 0.9


def test_a_scheduler_that_does_not_answer_is_said_to():
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))  # nobody else has this port, and nobody listens
        address = f"tcp://127.0.0.1:{unheard.getsockname()[1]}"
        script = "import cluster; cluster.PATIENCE = 0.5; cluster.main()"
        done = subprocess.run(
            [sys.executable, "-c", script, "--scheduler", address],
            cwd=EXAMPLES, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"no scheduler answers at {address}")


def test_a_scheduler_without_workers_is_said_to_have_none(example):
    from types import SimpleNamespace

    from dask.distributed import LocalCluster

    module = example("cluster")
    module.PATIENCE = 0.3
    with LocalCluster(n_workers=0, dashboard_address=":0", processes=False) as cluster:
        options = SimpleNamespace(scheduler=cluster.scheduler_address)
        with pytest.raises(SystemExit, match="has no worker"), module.connected(options):
            pass
