"""What `graphrf compile` leaves in the cache is all that a first fit needs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

FIT = """
import numpy as np, graphrf as grf
from numba.core import event

class Heard(event.Listener):
    def on_start(self, event):
        print("compiles", event.data["dispatcher"].py_func.__name__)

    def on_end(self, event):
        pass

event.register("numba:compile", Heard())
graph = grf.datasets.load("generated-grid").graph
nodes = np.random.default_rng(0).choice(graph.n_nodes, 50, replace=False)
for method in ("auto", "precision", "series", "features"):
    gp = grf.GraphGPRegressor(graph, method=method, seed=0).fit(nodes, np.sin(nodes / 20))
    gp.predict(return_std=True)
"""


@pytest.mark.full
def test_first_fits_compile_nothing_after_it(tmp_path):
    pytest.importorskip("torch")

    def output(*words: str, cache: str) -> str:
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / cache)}
        return subprocess.run(
            [sys.executable, *words],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=1800,
        ).stdout

    assert "compiles" in output("-c", FIT, cache="empty")
    assert "processor" in output("-m", "graphrf", "compile", cache="full")
    assert "compiles" not in output("-c", FIT, cache="full")
