"""How long do `import graphrf` and the first `sample_features` take, with and without compiled code in the cache?

python benchmarks/startup.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from _machine import header

CODE = """
import time
started = time.perf_counter()
import graphrf as grf
imported = time.perf_counter()
import numpy as np
graph = grf.Graph(np.ones((5, 5)))
ready = time.perf_counter()
features = grf.sample_features(graph, seed=0)
sampled = time.perf_counter()
features.matrix(grf.Diffusion(lengthscale=1.0))
print(imported - started, sampled - ready, time.perf_counter() - sampled)
"""


def run(cache: str) -> list[float]:
    answer = subprocess.run(
        [sys.executable, "-c", CODE], env={**os.environ, "NUMBA_CACHE_DIR": cache}, capture_output=True, check=True
    )
    return [float(word) for word in answer.stdout.split()]


if __name__ == "__main__":
    print(header())
    print(f"{'run':<6} {'import graphrf':>15} {'first sample_features':>22} {'first matrix':>13}   seconds")
    for _ in range(3):
        with tempfile.TemporaryDirectory() as cache:
            for name in ("cold", "warm"):
                imported, sampled, matrix = run(cache)
                print(f"{name:<6} {imported:>15.3f} {sampled:>22.2f} {matrix:>13.2f}")
