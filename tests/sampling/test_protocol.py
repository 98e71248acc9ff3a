"""Samplers of one's own: `sample` and a survival table suffice, wherever a sampler is taken."""

import doctest
from dataclasses import dataclass

import numpy as np
import pytest

import graphrf as grf
from graphrf.sampling.block import Block
from graphrf.sampling.protocol import PreparedSampler
from tests.distributed.helpers import require_same

KERNEL = grf.Diffusion(1.0)
SURVIVAL = grf.sampling.Survival([1.0, 1.0, 0.8, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1])


def _example():
    """The sampler of the example in `PreparedSampler`."""
    namespace = {}
    for example in doctest.DocTestParser().get_examples(PreparedSampler.__doc__):
        exec(example.source, namespace)
    return namespace["PlainWalks"](n_walks=8, survival=SURVIVAL)


PLAIN_WALKS = _example()


@dataclass(frozen=True)
class DensePowers:
    """Powers of the transition matrix, as dense rows."""

    max_length: int = 8
    laplacian: str = "normalized"

    @property
    def survival(self):
        return grf.sampling.Survival(np.ones(self.max_length + 1))

    def prepare(self, graph, seed):
        return PreparedDensePowers(self, graph, seed)


class PreparedDensePowers(PreparedSampler):
    counts_dtype = np.dtype(np.float32)

    def __init__(self, sampler, graph, seed):
        super().__init__(sampler, graph, seed)
        transition = graph.adjacency.toarray() / graph.degrees[:, None]
        self.powers = np.stack(
            [np.linalg.matrix_power(transition, k) for k in range(sampler.max_length + 1)]
        )

    def sample(self, sources):
        steps, rows, nodes = np.nonzero(self.powers[:, sources])
        values = self.powers[:, sources][steps, rows, nodes]
        return Block.of_visits(rows, nodes, steps, n_rows=len(sources), values=values)


@pytest.fixture(params=[PLAIN_WALKS, DensePowers()], ids=["walks", "powers"])
def sampler(request):
    return request.param


def test_its_rows_depend_on_no_other_rows_blocks_threads_or_folders(grid, sampler, tmp_path):
    features = grf.sample_features(grid, sampler, seed=3)
    for nodes in ([5, 0, 5], np.arange(144)[::-1]):  # one block, and three of at most 64 rows
        some = grf.sample_features(grid, sampler, seed=3, nodes=nodes)
        require_same(some, features.take(nodes))
    require_same(grf.sample_features(grid, sampler, seed=3, n_threads=2), features)
    require_same(grf.sample_features(grid, sampler, seed=3, path=tmp_path / "folder"), features)
    require_same(grf.features.load_features(tmp_path / "folder"), features)
    features.save(tmp_path / "features.npz")
    require_same(grf.features.load_features(tmp_path / "features.npz"), features)


def test_its_kernel_is_unbiased(karate):
    plain = grf.Graph((karate.adjacency != 0).astype(float))
    grams = [grf.sample_features(plain, PLAIN_WALKS, seed=seed).gram(KERNEL) for seed in range(30)]
    error = np.mean(grams, axis=0) - KERNEL.dense(plain)
    np.fill_diagonal(error, 0.0)
    assert np.abs(error).max() < 4 * np.std(grams, axis=0).max() / 30**0.5
    exact = grf.sample_features(karate, DensePowers(20)).gram(KERNEL)
    np.testing.assert_allclose(exact, KERNEL.dense(karate), rtol=0, atol=1e-6)


def test_what_it_does_not_say_has_defaults(karate):
    features = grf.sample_features(karate, PLAIN_WALKS, seed=3)
    assert features.description == {
        "sampler": "PlainWalks",
        "n_walks": 8,
        "survival": repr(PLAIN_WALKS.survival),
        "laplacian": "normalized",
    }
    prepared = PLAIN_WALKS.prepare(karate, 3)
    entries, visits = prepared.merged_per_row
    assert (entries, visits) == pytest.approx(
        (features.nnz / 34, features.record.steps.size / 34), rel=0.3
    )
    with pytest.raises(
        MemoryError, match=r"need more than .*; use a sampler of smaller rows, pass fewer"
    ):
        grf.sample_features(karate, PLAIN_WALKS, memory_limit=1)
    with pytest.raises(ValueError, match="undirected"):
        grf.sample_features(grf.from_edges([0], [1], directed=True), PLAIN_WALKS)


def test_a_gaussian_process_draws_with_it(karate, sampler):
    pytest.importorskip("sklearn")
    known = {"output_scale": 1.0, "noise": 0.1, "mean": "zero", "optimize": False}
    model = grf.gp.GraphGPRegressor(
        karate,
        kernel=KERNEL,
        method="features",
        numerics=grf.gp.Numerics(sampler=sampler),
        seed=0,
        **known,
    )
    nodes = np.arange(0, 34, 2)
    y = np.cos(nodes)
    mean = model.fit(nodes, y).predict(np.arange(34))
    assert np.isfinite(mean).all()
    assert np.square(mean[nodes] - y).mean() < 0.5 * np.square(y).mean()


def test_powers_without_multiply_adds_are_refused(karate):
    class Silent(PreparedDensePowers):
        def sample(self, sources):
            return super().sample(sources)._replace(work=None)

    class Sampler(DensePowers):
        def prepare(self, graph, seed):
            return Silent(self, graph, seed)

    with pytest.raises(ValueError, match=r"blocks of powers \(float32\) must have `work`"):
        grf.sample_features(karate, Sampler())


def test_visits_in_any_order_make_one_block():
    rng = np.random.default_rng(0)
    rows, nodes, steps = rng.integers(0, [[3], [5], [4]], (3, 200))
    rows[rows == 1] = 2  # a row without visits
    block = Block.of_visits(rows, nodes, steps, n_rows=3)
    summed = Block.of_visits(rows, nodes, steps, n_rows=3, values=np.full(200, 0.5))
    for found, weight in ((block, 1), (summed, 0.5)):
        dense = np.zeros((3, 5, 4))
        row = np.repeat(np.arange(3), found.entries_per_row)
        at = (
            np.repeat(row, found.visits_per_entry),
            np.repeat(found.indices, found.visits_per_entry),
        )
        np.add.at(dense, (*at, found.steps), found.counts)
        expected = np.zeros((3, 5, 4))
        np.add.at(expected, (rows, nodes, steps), weight)
        np.testing.assert_array_equal(dense, expected)
        np.testing.assert_array_equal(found.visits_per_row, np.count_nonzero(expected, axis=(1, 2)))
    assert block.work is None
    assert summed.work.tolist() == np.bincount(rows, minlength=3).tolist()
    empty = Block.of_visits([], [], [], n_rows=2)
    assert (empty.entries_per_row.tolist(), empty.indices.size) == ([0, 0], 0)
