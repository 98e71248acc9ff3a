"""Gaussian processes over rows on a cluster give what rows here give."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone

import graphrf as grf
from graphrf.distributed import on_cluster, sample_features
from tests.distributed.helpers import weighted

GRAPH = weighted()
NODES = np.random.default_rng(0).permutation(90)[:60]
Y = np.sin(NODES / 9) + 0.1 * np.random.default_rng(1).standard_normal(60)
WALKS = grf.RandomWalks(16, grf.sampling.Truncated(10))
SETTINGS = {
    "kernel": grf.Diffusion(1.5),
    "method": "features",
    "optimize": False,
    "noise": 0.05,
    "output_scale": 1.0,
    "seed": 4,
}


def _predictions(solver, draw):
    numerics = grf.gp.Numerics(sampler=WALKS, tol=1e-10, solver=solver, feature_sampler=draw)
    gp = grf.GraphGPRegressor(GRAPH, **SETTINGS, numerics=numerics)
    return gp.fit(NODES, Y).predict(np.arange(90), return_std=True)


@pytest.mark.parametrize("solver", ["cg", "cholesky"])
def test_predictions_are_those_of_rows_at_hand(cluster_client, solver):
    draw = on_cluster(cluster_client, block_size=7)
    for found, expected in zip(_predictions(solver, draw), _predictions(solver, None), strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=2e-5)


def test_a_copy_of_the_regressor_has_the_same_client(cluster_client):
    gp = grf.GraphGPRegressor(
        GRAPH, **SETTINGS, numerics=grf.gp.Numerics(feature_sampler=on_cluster(cluster_client))
    )
    copied = clone(gp)
    assert copied.numerics.feature_sampler.client is cluster_client
    assert not hasattr(copied, "kernel_")


@pytest.mark.usefixtures("one_torch_thread")
def test_a_kernel_of_gpytorch_gives_the_products_of_features_here(cluster_client):
    torch = pytest.importorskip("torch")
    pytest.importorskip("gpytorch")
    options = {"seed": 3, "dtype": "float64"}
    remote = sample_features(GRAPH, WALKS, client=cluster_client, block_size=20, **options)
    local = grf.sample_features(GRAPH, WALKS, **options)
    inputs = torch.as_tensor(NODES)[:, None]
    v = torch.as_tensor(np.random.default_rng(2).standard_normal((60, 2)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        kernels = [
            grf.gp.GRFKernel(features, grf.Diffusion(1.5)).double() for features in (remote, local)
        ]
        products = [kernel(inputs).matmul(v).detach().numpy() for kernel in kernels]
    np.testing.assert_allclose(*products, rtol=0, atol=1e-6)


def test_memory_of_workers_stays_below_what_blocks_and_panels_take(cluster_client):
    n, columns, n_blocks = 40_000, 8, 8
    ring = grf.from_edges(np.arange(n), (np.arange(n) + 1) % n)
    f, y = grf.Diffusion(2.0).modulation(20), np.ones((n, columns))

    def used(graph, panel):
        features = sample_features(
            graph, WALKS, client=cluster_client, seed=0, block_size=graph.n_nodes // n_blocks
        )
        for _ in range(3):
            features.factor().gram_apply(f, panel)
        return features.memory()

    base = used(grf.from_edges(np.arange(63), np.arange(1, 64)), np.ones((64, columns)))
    held = used(ring, y)
    assert sum(worker.n_blocks for worker in held.values()) >= n_blocks
    for address, worker in held.items():
        # Sums of F^T y, of which a tree of 8 blocks holds 4
        # and those under way; what one block's walks take.
        panels = 8 * n * columns * 8
        walks = WALKS.prepare(ring, 0).working_bytes(n // n_blocks)
        bound = (
            base[address].private
            + worker.blocks
            + panels
            + walks
            + 2 * worker.blocks // worker.n_blocks
        )
        print(
            f"{address}: {worker.private / 2**20:.0f} MiB private, at most {bound / 2**20:.0f}; "
            f"blocks {worker.blocks / 2**20:.1f} in {worker.n_blocks}; before "
            f"{base[address].private / 2**20:.0f}"
        )
        assert worker.private <= bound
