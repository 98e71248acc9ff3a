"""What cannot fit is refused before it is taken: multiples of the graph, or N^2."""

import sys
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import graphrf as grf
from graphrf._base import memory
from graphrf.operators.series.apply import kernel_block
from graphrf.pagerank import pagerank
from tests.support.bounds import within

MILLION = 10**6
KERNEL = grf.Diffusion(1.0)
F = KERNEL.modulation(9)


def _path(n):
    return grf.from_edges(np.arange(n - 1), np.arange(1, n))


@pytest.fixture(scope="module")
def path():
    return _path(3_000)


@pytest.fixture(scope="module")
def features(path):
    return grf.sample_features(path, grf.RandomWalks(256), seed=0)


def _regressor(path, every=100, **options):
    seen = np.arange(0, path.n_nodes, every)
    options = {
        "method": "series",
        "optimize": False,
        "kernel": KERNEL,
        "output_scale": 1.0,
        "noise": 0.1,
    } | options
    return grf.GraphGPRegressor(path, **options).fit(seen, np.sin(seen))


def _product(features):
    """Features multiplied by some of other nodes' rows of their graph."""
    other = grf.sample_features(_path(3_000), grf.RandomWalks(2), seed=1)
    return grf.sampling.ProductFeatures([features, other])


# Each makes or needs more than 16 MiB; what needs less is not looked at.
DOORS = {
    "dense kernel": lambda path, features: KERNEL.dense(path),
    "dense root": lambda path, features: KERNEL.dense_root(path),
    "gram": lambda path, features: features.gram(KERNEL),
    "block of a kernel": lambda path, features: kernel_block(
        path, KERNEL, range(3_000), range(3_000)
    ),
    "product": lambda path, features: grf.apply_kernel(path, KERNEL, np.ones((3_000, 1_000))),
    "prior covariance": lambda path, features: _regressor(path).prior_covariance(),
    "covariance of observations": lambda path, features: _regressor(path, every=2),
    "posterior covariance": lambda path, features: _regressor(path).predict(return_cov=True),
    "covariance of repeated nodes": lambda path, features: _regressor(path).predict(
        [0] * 9_000, return_cov=True
    ),
    "product of features": lambda path, features: features.factor().apply(
        F, np.ones((3_000, 1_000))
    ),
    "transposed product": lambda path, features: features.factor().apply_t(
        F, np.ones((3_000, 1_000))
    ),
    "gram of a product": lambda path, features: _product(features).gram(KERNEL),
    "transposed product of a product": lambda path, features: _product(features).apply_t(
        KERNEL, np.ones((3_000, 1_000))
    ),
    "draws": lambda path, features: _regressor(path).sample(n_samples=10_000),
    "points": lambda path, features: grf.from_points(np.arange(3_000.0), n_neighbors=500),
    "edges": lambda path, features: grf.from_edges([0], [MILLION]),
    "several vectors of pagerank": lambda path, features: pagerank(
        path, personalization=np.ones((1_000, 3_000))
    ),
    "adjacency": lambda path, features: grf.Graph(sp.coo_array((2 * MILLION, 2 * MILLION))),
}


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_what_does_not_fit_is_refused_with_what_it_needs_and_a_way_out(
    path, features, door, monkeypatch
):
    monkeypatch.setattr(memory, "available_memory", lambda: 2**20)
    with pytest.raises(MemoryError, match=r"GiB of memory, and .* GiB are left; \w+"):
        door(path, features)


def test_the_walk_matrix_of_powers_that_does_not_fit_is_refused(monkeypatch):
    graph = _path(300_000)
    monkeypatch.setattr(memory, "available_memory", lambda: 2**20)
    with pytest.raises(MemoryError, match="use RandomWalks"):
        grf.sample_features(graph, grf.CompressedPowers(2))


def test_a_feature_matrix_that_does_not_fit_is_refused(features, monkeypatch):
    # a record of a million times a million entries, which are one in memory
    record = replace(features.record, indices=np.broadcast_to(np.int32(0), MILLION**2))
    large = grf.features.Features(features.info, features.nodes, record)
    monkeypatch.setattr(memory, "available_memory", lambda: 2 * MILLION**2)
    with pytest.raises(MemoryError, match=r"Features\.take"):
        large.matrix(KERNEL)


def test_a_torch_matrix_that_does_not_fit_is_refused(features, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr(memory, "_SMALL", 1)
    # Room for the values, but not for indices that can be written to.
    monkeypatch.setattr(memory, "available_memory", lambda: 5 * features.nnz)
    features.matrix(KERNEL)
    with pytest.raises(MemoryError, match=r"Features\.take"):
        features.torch(KERNEL)


@pytest.mark.parametrize("laplacian", ["normalized", "combinatorial"])
def test_a_copy_of_the_adjacency_that_walks_need_and_does_not_fit_is_refused(
    laplacian, monkeypatch
):
    # One node is isolated.
    graph = grf.from_edges(np.arange(599_999), np.arange(1, 600_000), n_nodes=600_001)
    monkeypatch.setattr(memory, "available_memory", lambda: 2**20)
    with pytest.raises(MemoryError, match="copy of the adjacency"):
        grf.sample_features(graph, grf.RandomWalks(2, laplacian=laplacian), nodes=[0])


def test_a_refusal_says_whether_the_caller_or_the_machine_sets_the_bound(
    path, tmp_path, monkeypatch
):
    (tmp_path / "edges.txt").write_text("0 1\n")
    monkeypatch.setattr("graphrf.sampling.task.available_memory", lambda: 10)
    monkeypatch.setattr("graphrf._base.files.untrusted.available_memory", lambda: 10)
    calls = [
        lambda **bound: grf.sample_features(path, grf.RandomWalks(2), **bound),
        lambda **bound: grf.load_graph(tmp_path / "edges.txt", **bound),
    ]
    for call in calls:
        with pytest.raises(MemoryError, match=r"but 9\.31e-09 GiB are left; "):
            call()
        with pytest.raises(MemoryError, match=r"but `memory_limit` is 1\.02e-08 GiB; "):
            call(memory_limit=11)


def test_rows_of_a_product_that_are_dense_but_do_not_fit_are_multiplied_as_sparse_ones(
    path, monkeypatch
):
    product = grf.sampling.sample_product(
        grf.from_edges(*np.triu_indices(60, 1)), grf.RandomWalks(64), seed=0
    )
    gram = product.gram(KERNEL)
    monkeypatch.setattr("graphrf.sampling.products.available_memory", lambda: 1)
    assert np.allclose(product.gram(KERNEL), gram, rtol=1e-5)


@pytest.mark.skipif(sys.platform != "linux", reason="bounds on address space are Linux's")
def test_dense_matrices_of_a_million_nodes_are_refused_at_once():
    graph = _path(MILLION)
    everything = np.arange(MILLION)
    features = grf.sample_features(_path(50), grf.RandomWalks(1), seed=0)
    wide = features.take(np.zeros(MILLION, dtype=int))
    far = np.broadcast_to(1.0, (MILLION, MILLION))
    with within(5, 1_000):
        with pytest.raises(ValueError, match="at most 20000 nodes"):
            KERNEL.dense(graph)
        with pytest.raises(MemoryError, match="dense Gram matrix"):
            wide.gram(KERNEL)
        with pytest.raises(MemoryError, match="block of a kernel matrix"):
            kernel_block(graph, KERNEL, everything, everything)
        with pytest.raises(MemoryError, match="fewer columns"):
            grf.apply_kernel(graph, KERNEL, far)
        with pytest.raises(MemoryError, match="as strings"):
            grf.from_edges([0], [2**32 - 2])
        with pytest.raises(MemoryError, match="lower n_neighbors"):
            grf.from_points(np.zeros((MILLION, 2)), n_neighbors=MILLION - 1)
        with pytest.raises(MemoryError, match="fewer nodes"):
            grf.Graph(sp.coo_array((2**32 - 1, 2**32 - 1)))


def test_a_dense_gram_is_the_same_in_blocks_of_rows(features):
    whole = features.matrix(KERNEL)
    expected = (whole @ whole.T).toarray()
    gram = features.gram(KERNEL)  # of 3,000 rows, in blocks of 1,333
    assert (gram == expected).all()
    assert (gram == gram.T).all()
    assert (features.gram(KERNEL, cols=[5, 0]) == expected[:, [5, 0]]).all()
