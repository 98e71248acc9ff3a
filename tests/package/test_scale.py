"""What takes long: `make test-full` only."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.full

MILLION = """
import resource
import numpy as np, graphrf as grf
ends = np.random.default_rng(0).integers(0, 1_000_000, (2, 4_000_000))
graph = grf.from_edges(*ends[:, ends[0] != ends[1]], n_nodes=1_000_000)
walks = grf.RandomWalks(16, grf.sampling.IID(0.1), directions="independent")
features = grf.sample_features(graph, walks, seed=0)
print(features.n_steps, features.nbytes, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def test_a_million_nodes_with_16_walks_stay_within_8_gib():
    answer = subprocess.run(
        [sys.executable, "-c", MILLION], capture_output=True, check=True, text=True
    )
    n_steps, nbytes, peak = map(int, answer.stdout.split())
    # 16 walks of mean length 9; the standard deviation of the sum is 4e4.
    assert abs(n_steps - 16 * 9 * 1_000_000) < 1e6
    assert nbytes < 1.5 * 2**30
    assert peak < 8 * 2**30
