"""What takes long: `make test-full` only."""

import subprocess
import sys

import numpy as np
import pytest

import graphrf as grf
from tests.sequential import assert_unbiased

pytestmark = pytest.mark.full

MILLION = """
import resource
import numpy as np, graphrf as grf
ends = np.random.default_rng(0).integers(0, 1_000_000, (2, 4_000_000))
graph = grf.from_edges(*ends[:, ends[0] != ends[1]], n_nodes=1_000_000)
features = grf.sample_features(graph, grf.RandomWalks(16, grf.IID(0.1), directions="independent"), seed=0)
print(features.n_steps, features.nbytes, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


def test_a_million_nodes_with_16_walks_stay_within_8_gib():
    answer = subprocess.run([sys.executable, "-c", MILLION], capture_output=True, check=True, text=True)
    n_steps, nbytes, peak = map(int, answer.stdout.split())
    # 16 walks of mean length 9; the standard deviation of the sum is 4e4.
    assert abs(n_steps - 16 * 9 * 1_000_000) < 1e6
    assert nbytes < 1.5 * 2**30
    assert peak < 8 * 2**30


KERNELS = [
    grf.Diffusion(1.0),
    grf.Diffusion(3.0),
    grf.RegularizedLaplacian(1.0, 1),
    grf.Matern(1.5, 2.0),
    grf.PStepRandomWalk(2.5, 3),
    grf.PowerSeries(modulation=[1.0, -0.5, 0.25, 0.1]),
]


@pytest.mark.parametrize("directions", ["independent", "stratified"])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_every_kernel_is_unbiased_on_karate(karate, kernel, directions):
    law = grf.Stratified(0.1)
    walk = karate.walk_matrix().toarray()
    f = kernel.modulation(law.survival.table.size)
    root = np.zeros_like(walk)
    for value in f[::-1]:
        root = walk @ root + value * np.eye(34)
    gram = root @ root.T
    np.fill_diagonal(gram, 0.0)
    degree = np.sqrt(karate.degrees)
    eigen = np.linalg.eigh(walk)[1]
    left, right = np.stack([1 / degree, degree, eigen[:, -2]]), np.stack([degree, degree, eigen[:, -2]])

    def projections(phi, own):
        return np.concatenate(
            [np.einsum("pi,ij,pj->p", left, phi, right), np.einsum("pi,ij,pj->p", left, own, right)]
        )

    def draw(round_index, n):
        rows = []
        for i in range(n):
            sampler = grf.RandomWalks(4, law, directions=directions)
            features = grf.sample_features(
                karate, sampler, seed=round_index * 10**6 + i, n_threads=1, dtype="float64"
            )
            phi = features.matrix(kernel).toarray()
            own = phi @ phi.T
            np.fill_diagonal(own, 0.0)
            rows.append(projections(phi, own))
        return np.array(rows)

    assert_unbiased(draw, projections(root, gram), n0=4000)
