"""Beyond 2^31 entries and 2^24 nodes: what leaves integer types or float32, made small.

Files with holes take no room: what is mapped from them and never read costs nothing.
"""

import numpy as np
import pytest
import scipy.sparse as sp

import graphrf as grf
from graphrf.features.loops import fill_values
from graphrf.operators.series.apply import kernel_block
from graphrf.pagerank import pagerank
from graphrf.sampling.walks.transitions import Transitions
from tests.support.same_features import changed

KERNEL = grf.Diffusion(1.0)
BEYOND = 2**31 + 10


@pytest.fixture(scope="module")
def hole(tmp_path_factory):
    """Makes arrays of zeros on disk that take no room there."""
    folder = tmp_path_factory.mktemp("holes")
    count = iter(range(100))

    def made(dtype, size):
        path = folder / str(next(count))
        with path.open("wb") as file:
            file.truncate(size * np.dtype(dtype).itemsize)
        if path.stat().st_blocks * 512 > 2**20:
            pytest.skip("this file system fills holes")
        return np.asarray(np.memmap(path, dtype, "r+", shape=(size,)))

    return made


@pytest.fixture(scope="module")
def path():
    return grf.from_edges(np.arange(99), np.arange(1, 100))


@pytest.fixture(scope="module")
def features(path):
    return grf.sample_features(path, grf.RandomWalks(32), nodes=np.arange(10), seed=0)


@pytest.fixture(scope="module")
def wide(features, hole):
    """The same rows behind one of more than 2^31 entries, all of them in a hole."""

    def behind(array, dtype):
        longer = hole(dtype, BEYOND + array.size)
        longer[BEYOND:] = array
        return longer

    names = {
        "indices": np.int64,
        "visits_per_entry": np.uint16,
        "steps": np.uint16,
        "counts": np.uint16,
    }
    arrays = {name: behind(getattr(features.record, name), dtype) for name, dtype in names.items()}
    pointers = {
        name: np.concatenate([[0], BEYOND + getattr(features.record, name).astype(np.int64)])
        for name in ("indptr", "visit_ptr")
    }
    return changed(features, nodes=np.concatenate([[50], features.nodes]), **arrays, **pointers)


def test_rows_behind_2_31_entries_are_taken_as_they_are(features, wide):
    assert wide.nnz == features.nnz + BEYOND
    assert wide.nbytes > 2**34
    taken = wide.take([3, 7, 3])
    assert (taken.matrix(KERNEL) != features.take([3, 7, 3]).matrix(KERNEL)).nnz == 0
    assert (
        wide.gram(KERNEL, rows=[3, 7], cols=[1]) == features.gram(KERNEL, rows=[3, 7], cols=[1])
    ).all()


def test_values_and_products_behind_2_31_entries_are_right(features, wide, hole):
    values = hole(np.float32, wide.nnz)
    load, root = wide.info.load(KERNEL.modulation(30)), wide.info.degree_roots
    fill_values(1, 11, *wide.record.arrays().values(), load, wide.nodes, root, values)
    expected = features.matrix_from_modulation(KERNEL.modulation(30))
    assert (values[BEYOND:] == expected.data).all()
    assert not values[BEYOND - 1000 : BEYOND].any()
    f, x = KERNEL.modulation(30), np.arange(100.0)
    rows = wide.factor(n_threads=1).take(np.arange(1, 11))
    assert (rows.apply(f, x) == features.factor(n_threads=1).apply(f, x)).all()


@pytest.mark.parametrize("directions", ["independent", "stratified"])
def test_walks_along_edges_behind_the_first_2_31_are_the_same(directions, path, hole):
    adjacency = path.adjacency
    shifted = grf.from_edges(np.arange(1, 100), np.arange(2, 101), n_nodes=101)
    prepared = grf.RandomWalks(16, directions=directions).prepare(shifted, 5)
    sources = np.arange(40, 60)
    expected = prepared.sample(sources)
    indices = hole(np.int64, BEYOND + adjacency.nnz)
    indices[BEYOND:] = adjacency.indices + 1
    indptr = np.concatenate([[0], BEYOND + adjacency.indptr.astype(np.int64)])
    prepared.transitions = _read_only(indptr, indices)
    found = prepared.sample(sources)
    assert all((new == old).all() for new, old in zip(found[:6], expected[:6], strict=True))


@pytest.mark.parametrize("directions", ["independent", "stratified"])
@pytest.mark.parametrize("n_walks", [1, 3, 2_048, 5_000])
def test_walks_of_the_last_nodes_that_32_bits_can_count_stay_among_them(n_walks, directions, hole):
    few = grf.from_edges([0, 1, 2, 3, 0], [1, 2, 3, 0, 2])
    n_nodes = 2**32 - 1
    indptr = hole(np.int64, n_nodes + 1)
    indptr[-5:] = few.adjacency.indptr
    first = n_nodes - 4
    prepared = grf.RandomWalks(n_walks, grf.sampling.Truncated(6), directions=directions).prepare(
        few, 0
    )
    prepared.transitions = _read_only(indptr, few.adjacency.indices.astype(np.int64) + first)
    block = prepared.sample(np.arange(first, n_nodes))
    nodes = block.indices.astype(np.int64) - first
    assert nodes.min() >= 0
    # Every walk stands somewhere at each of its 7 times, and only where its steps can lead.
    assert int(block.counts.astype(np.int64).sum()) == 4 * 7 * n_walks
    reached = np.stack([np.linalg.matrix_power(few.adjacency.toarray(), k) for k in range(7)]) > 0
    rows = np.repeat(np.repeat(np.arange(4), block.entries_per_row), block.visits_per_entry)
    assert reached[block.steps, rows, np.repeat(nodes, block.visits_per_entry)].all()


def _read_only(indptr, indices):
    for array in (indptr, indices, none := np.zeros(0)):
        array.setflags(write=False)
    return Transitions(indptr, indices, none)


@pytest.mark.parametrize(
    "sampler",
    [
        grf.RandomWalks(1, grf.sampling.Truncated(65_534)),
        grf.RandomWalks(1, grf.sampling.Truncated(65_534), directions="independent"),
        grf.CompressedPowers(3, 65_534),
        grf.sampling.ExactPowers(65_534),
    ],
    ids=repr,
)
def test_the_longest_walks_on_one_node_fill_16_bits_and_no_more(sampler):
    features = grf.sample_features(grf.from_edges([0], [1], n_nodes=3), sampler, nodes=[2], seed=0)
    assert features.record.visits_per_entry.tolist() == [65_535]
    assert (features.record.steps == np.arange(65_535)).all()
    assert (features.record.counts == 1).all()
    matrix = features.matrix_from_modulation(np.ones(65_535))
    assert matrix[0, 2] == 65_535


@pytest.mark.parametrize("directions", ["independent", "stratified"])
def test_the_most_walks_on_one_node_fill_16_bits_and_no_more(directions):
    sampler = grf.RandomWalks(65_535, grf.sampling.Truncated(3), directions=directions)
    features = grf.sample_features(
        grf.from_edges([0], [1], n_nodes=3), sampler, nodes=[2, 0], seed=0
    )
    assert (features.record.counts == 65_535).all()
    assert features.n_steps == 2 * 3 * 65_535


def test_index_arrays_are_as_wide_as_they_must_be(path):
    narrow = path.adjacency
    wide = sp.csr_array(
        (narrow.data, narrow.indices.astype(np.int64), narrow.indptr.astype(np.int64)),
        shape=narrow.shape,
    )
    adjacency = grf.Graph(wide).adjacency
    assert adjacency.indices.dtype == adjacency.indptr.dtype == np.int32


# -- more nodes than float32 counts ----------------------------------------------------------------

EDGES = np.array([(0, 1), (1, 2), (2, 3), (3, 0), (0, 2), (3, 4), (4, 5), (5, 6)]).T
MANY = 2**24 + 100
FAR = np.arange(MANY - 8, MANY)


@pytest.fixture(scope="module")
def small():
    return grf.from_edges(*EDGES, n_nodes=8)


@pytest.fixture(scope="module")
def many():
    return grf.from_edges(*(EDGES + FAR[0]), n_nodes=MANY)


@pytest.mark.full
def test_nodes_beyond_2_24_have_the_features_of_the_same_small_graph(small, many):
    exact = grf.sample_features(small, grf.sampling.ExactPowers(12)).gram(KERNEL)
    found = grf.sample_features(many, grf.sampling.ExactPowers(12), nodes=FAR)
    assert (found.gram(KERNEL) == exact).all()
    assert (found.matrix(KERNEL).indices >= FAR[0]).all()
    walks = grf.sample_features(many, grf.RandomWalks(4096), nodes=FAR, seed=0)
    assert (walks.matrix(KERNEL).indices >= FAR[0]).all()
    off = walks.gram(KERNEL) - exact
    assert np.abs(off - np.diag(np.diag(off))).max() < 0.05


@pytest.mark.full
def test_nodes_beyond_2_24_have_the_kernel_and_pagerank_of_the_same_small_graph(small, many):
    dense = KERNEL.dense(small)
    np.testing.assert_allclose(kernel_block(many, KERNEL, FAR, FAR), dense, atol=1e-9)
    v = np.zeros(MANY)
    v[FAR] = np.arange(8)
    product = grf.apply_kernel(many, KERNEL, v)
    np.testing.assert_allclose(product[FAR], dense @ np.arange(8), atol=1e-8)
    assert not product[: FAR[0]].any()
    start, own = np.zeros(MANY), np.zeros(8)
    start[FAR[:2]] = own[:2] = 0.5
    scores = pagerank(many, personalization=start).scores
    np.testing.assert_allclose(scores[FAR], pagerank(small, personalization=own).scores, atol=1e-9)
    # All nodes but eight are dangling, and alike.
    uniform = grf.pagerank.estimate(many, n_walks=1, seed=0).scores
    assert abs(uniform.sum() - 1) < 1e-9


@pytest.mark.full
def test_positions_beyond_2_24_are_not_taken_from_floats(many):
    assert many.positions([FAR[-1]]).tolist() == [MANY - 1]
    for dtype in (np.float32, np.float64):
        with pytest.raises(TypeError, match=r"below 2\^24"):
            many.positions(FAR.astype(dtype))
    # 2^24 + 1 is 2^24 in float32.
    with pytest.raises(TypeError, match=r"below 2\^24"):
        many.positions(np.float32([2**24 + 1]))
    assert many.positions(np.float32([2**24 - 1])).tolist() == [2**24 - 1]


@pytest.mark.full
def test_a_gaussian_process_beyond_2_24_nodes_is_that_of_the_same_small_graph(small, many):
    pytest.importorskip("torch")
    settings = {
        "kernel": KERNEL,
        "optimize": False,
        "method": "series",
        "numerics": grf.gp.Numerics(normalize=False),
        "noise": 0.1,
    }
    y = np.sin(np.arange(8.0))
    expected = (
        grf.GraphGPRegressor(small, **settings)
        .fit(np.arange(8), y)
        .predict(np.arange(8), return_std=True)
    )
    found = grf.GraphGPRegressor(many, **settings).fit(FAR, y).predict(FAR, return_std=True)
    for new, old in zip(found, expected, strict=True):
        np.testing.assert_allclose(new, old, rtol=1e-6)
