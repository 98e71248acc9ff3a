"""The front of sampling: equal bits, bad input, unbiasedness of all laws and directions."""

import itertools
import pickle

import numpy as np
import pytest

import graphrf as grf
from graphrf.sampling import record_builder
from graphrf.sampling.powers.prepared import PreparedPowers
from graphrf.sampling.walks.lengths import LONGEST_WALK
from graphrf.sampling.walks.loops import draw_lengths, walk_block
from graphrf.sampling.walks.random_walks import PreparedWalks
from tests.statistics.grid import copies
from tests.support.sequential import assert_unbiased

KERNEL = grf.RegularizedLaplacian(1.0, 2)
REVERSED = grf.sampling.Coupling(np.arange(10)[::-1])
PLATEAUS = grf.sampling.Survival([1.0, 1.0, 0.5, 0.25, 0.25])
LAWS = [
    grf.sampling.IID(0.2),
    grf.sampling.Antithetic(0.2),
    grf.sampling.SigmaCoupled(0.2, REVERSED),
    grf.sampling.Stratified(0.2),
    grf.sampling.Stratified(PLATEAUS),
    grf.sampling.Truncated(4),
]
DIRECTIONS = ["independent", "stratified"]
FALLING = grf.sampling.Survival([1.0, 1.0, 0.7, 0.4, 0.4, 0.1])
POWERS = [
    grf.sampling.ExactPowers(5),
    grf.sampling.CutPowers(4, 5),
    grf.CompressedPowers(3, 5),
    grf.CompressedPowers(4, lengths=FALLING),
]
WALKS = [
    grf.RandomWalks(6, law, directions=directions)
    for law, directions in itertools.product(LAWS, DIRECTIONS)
]


def _same(one, other):
    return all(
        np.array_equal(getattr(one.record, name), getattr(other.record, name))
        for name in ("indptr", "indices", "visit_ptr", "visits_per_entry", "steps", "counts")
    )


@pytest.mark.parametrize("sampler", [*WALKS, *POWERS], ids=repr)
def test_the_same_seed_gives_the_same_bits_on_any_threads_and_block_of_nodes(grid, sampler):
    features = grf.sample_features(grid, sampler, seed=11, n_threads=1)
    assert _same(features, grf.sample_features(grid, sampler, seed=11, n_threads=4))
    random = not isinstance(sampler, grf.sampling.ExactPowers | grf.sampling.CutPowers)
    assert _same(features, grf.sample_features(grid, sampler, seed=12)) != random
    nodes = [100, 3, 50, 3]
    part = grf.sample_features(grid, sampler, nodes=nodes, seed=11)
    assert _same(part, features.take(nodes))
    assert part.n_steps == features.take(nodes).n_steps > 0
    np.testing.assert_array_equal(part.row_errors(KERNEL), features.take(nodes).row_errors(KERNEL))


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_every_walk_leaves_one_visit_a_step_and_visits_are_merged(weighted_graph, law):
    features = grf.sample_features(weighted_graph, grf.RandomWalks(10, law), seed=2)
    counts, steps = features.record.counts.astype(int), features.record.steps
    assert counts[steps == 0].sum() == 10 * 8
    drawn = np.empty(10, np.int64)
    for source in range(8):
        table, permutations = law.survival.table, law.permutations(10)
        draw_lengths(np.uint64(source), int(law.rule), table, permutations, np.uint64(2), drawn)
        assert features.take([source]).n_steps == drawn.sum()
    for row in range(8):
        visits = slice(features.record.visit_ptr[row], features.record.visit_ptr[row + 1])
        entries = slice(features.record.indptr[row], features.record.indptr[row + 1])
        columns = features.record.indices[entries]
        assert (np.diff(columns) > 0).all()
        pairs = list(
            zip(
                np.repeat(columns, features.record.visits_per_entry[entries]),
                steps[visits],
                strict=True,
            )
        )
        assert len(set(pairs)) == len(pairs)
        assert pairs == sorted(pairs)


def _projections(graph, kernel, survival):
    """Vectors aligned with likely biases, and the exact products with F cut at the longest walk."""
    walk = graph.walk_matrix(kernel.laplacian).toarray()
    is_normalized = kernel.laplacian == "normalized"
    scale = None if is_normalized else graph.laplacian_scale("combinatorial")
    f = kernel.modulation(survival.table.size, scale=scale)
    root = sum(f[k] * np.linalg.matrix_power(walk, k) for k in range(f.size))
    degree = np.sqrt(np.where(graph.degrees > 0, graph.degrees, 1.0))
    eigen = np.linalg.eigh(walk)[1]
    left = np.stack([1 / degree, degree, degree, eigen[:, -2], eigen[:, 0], eigen[:, -1]])
    right = np.stack([degree, degree, 1 / degree, eigen[:, -2], eigen[:, 0], eigen[:, -3]])
    return left, right, root


def test_two_sets_are_unbiased_on_the_diagonal_too(weighted_graph):
    sampler = grf.RandomWalks(4, grf.sampling.Stratified(0.2))
    root = _projections(weighted_graph, KERNEL, sampler.lengths.survival)[2]

    # Walks of different nodes are independent, so copies
    # of the graph side by side are independent draws.
    def draw(round_index, n):
        traces = []
        for i in range(n // 20):
            one, two = (
                grf.sample_features(
                    copies(weighted_graph, 20),
                    sampler,
                    seed=round_index * 10**6 + i + part,
                    dtype="float64",
                )
                for part in (0, 2**40)
            )
            traces.append(np.diagonal(one.gram(KERNEL, other=two)).reshape(20, 8).sum(axis=1))
        return np.concatenate(traces)[:, None]

    assert_unbiased(draw, np.array([np.trace(root @ root.T)]), n0=400)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"graph": np.eye(3)}, TypeError, "graphrf.Graph"),
        ({"graph": grf.from_edges([0], [1], directed=True)}, ValueError, "undirected"),
        ({"sampler": grf.RandomWalks}, TypeError, "`sampler` must be a sampler"),
        ({"nodes": [99]}, ValueError, "positions in"),
        ({"nodes": []}, ValueError, "at least one node"),
        ({"engine": "cuda"}, ValueError, "'numba'"),
        ({"device": "tpu"}, ValueError, "'cpu'"),
        ({"dtype": "int32"}, ValueError, "'float32', 'float64'"),
        ({"dtype": "single float"}, TypeError, "`dtype` must be 'float32' or 'float64'"),
        ({"memory_limit": 0}, ValueError, "memory_limit"),
    ],
)
def test_bad_arguments_are_refused(weighted_graph, arguments, error, message):
    if "device" in arguments:
        pytest.importorskip("torch", reason="devices need the extra `gp`")
    with pytest.raises(error, match=message):
        grf.sample_features(**{"graph": weighted_graph, **arguments})


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"n_walks": 0}, ValueError, "n_walks"),
        ({"n_walks": 2**16}, ValueError, "n_walks"),
        ({"n_walks": 2.0}, TypeError, "n_walks"),
        ({"lengths": 0.1}, TypeError, "IID"),
        ({"lengths": grf.sampling.Survival([1.0, 0.5])}, TypeError, r"pass Stratified\(table\)"),
        ({"directions": "both"}, ValueError, "'independent', 'stratified'"),
        ({"laplacian": "random"}, ValueError, "'normalized', 'combinatorial'"),
    ],
)
def test_bad_samplers_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        grf.RandomWalks(**arguments)


def test_more_memory_than_the_limit_is_refused_before_it_is_taken(grid):
    with pytest.raises(MemoryError, match="lower n_walks"):
        grf.sample_features(grid, grf.RandomWalks(1000), memory_limit=100_000)
    features = grf.sample_features(grid, grf.RandomWalks(8), memory_limit=10_000_000)
    assert features.nbytes < 10_000_000


def test_the_limit_holds_while_blocks_are_drawn(grid, monkeypatch):
    from graphrf.sampling import task

    monkeypatch.setattr(task, "expected_size", lambda *given: (10, 10))
    with pytest.raises(
        MemoryError, match=r"need more than .* GiB, but `memory_limit` is .*lower n_walks"
    ):
        grf.sample_features(grid, grf.RandomWalks(64), seed=0, n_threads=1, memory_limit=700_000)
    full = grf.sample_features(grid, grf.RandomWalks(64), seed=0, n_threads=1)
    assert full.nbytes > 100_000


def test_the_memory_asked_for_is_that_of_merged_visits():
    # 65,535 walks of 200 steps are 13 million visits a node, but only 20 x 201 different ones.
    graph = grf.Graph(np.ones((20, 20)))
    sampler = grf.RandomWalks(65_535, grf.sampling.Truncated(200))
    # Independent directions sort all of them.
    with pytest.raises(MemoryError, match="lower n_walks"):
        grf.sample_features(
            graph,
            grf.RandomWalks(65_535, grf.sampling.Truncated(1_000), directions="independent"),
            memory_limit=10**9,
        )
    features = grf.sample_features(graph, sampler, nodes=[0], seed=0, memory_limit=10_000_000)
    assert features.record.steps.size > 4_000 - 20
    assert features.record.counts.astype(int).sum() == 65_535 * 201


@pytest.mark.parametrize(
    ("sampler", "visit_bytes", "row_bytes"),
    [
        (grf.RandomWalks(), 4, 0),
        (grf.CompressedPowers(4, 6), 6, 8),
        (grf.sampling.CutPowers(4, 6), 6, 8 + 4 * 7),
    ],
    ids=repr,
)
def test_the_memory_of_a_record_is_what_is_foreseen(grid, sampler, visit_bytes, row_bytes):
    features = grf.sample_features(grid, sampler, nodes=[0, 3, 3], seed=0)
    visits = features.record.steps.size
    foreseen = record_builder.record_bytes(3, features.nnz, visits, visit_bytes - 2) + 3 * row_bytes
    assert features.nbytes == foreseen
    assert features.nbytes == visit_bytes * visits + 6 * features.nnz + (20 + row_bytes) * 3 + 12


@pytest.mark.parametrize("directions", DIRECTIONS)
@pytest.mark.parametrize(
    "law",
    [grf.sampling.Truncated(40), grf.sampling.IID(0.05), grf.sampling.Stratified(0.1)],
    ids=repr,
)
@pytest.mark.parametrize("n_walks", [1, 16])
def test_a_block_takes_no_more_than_the_memory_that_is_foreseen_for_it(
    grid, directions, law, n_walks
):
    prepared = grf.RandomWalks(n_walks, law, directions=directions).prepare(grid, 0)
    sources = np.arange(grid.n_nodes)
    block = prepared.sample(sources)
    size = sum(array.nbytes for array in block if array is not None) - 16 * sources.size
    assert size <= 1.02 * prepared.working_bytes(sources.size)  # lengths vary


@pytest.mark.parametrize("sampler", [*WALKS[:2], *POWERS], ids=repr)
def test_buffers_that_are_too_small_grow_and_change_nothing(grid, sampler, monkeypatch):
    expected = grf.sample_features(grid, sampler, seed=3)
    monkeypatch.setattr(record_builder, "SPARE", 0.0)
    monkeypatch.setattr(record_builder, "SLACK", 1)
    for prepared in (PreparedWalks, PreparedPowers):
        monkeypatch.setattr(prepared, "_capacity", lambda self, n_rows: 1)
    assert _same(expected, grf.sample_features(grid, sampler, seed=3))


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_samplers_and_features_go_through_pickle(weighted_graph, law):
    sampler = grf.RandomWalks(2, law)
    again = pickle.loads(pickle.dumps(sampler))
    assert again == sampler
    features = grf.sample_features(weighted_graph, sampler, seed=5, dtype="float64")
    for copied in (
        grf.sample_features(weighted_graph, again, seed=5),
        pickle.loads(pickle.dumps(features)),
    ):
        assert _same(features, copied)
        assert not any(
            array.flags.writeable
            for array in (copied.nodes, copied.record.indices, copied.record.counts)
        )
    table, permutations = again.lengths.survival.table, again.lengths.permutations(2)
    assert not table.flags.writeable
    assert not permutations.flags.writeable
    gram = pickle.loads(pickle.dumps(features)).gram(grf.kernels.PowerSeries(modulation=[1.0, 0.5]))
    np.testing.assert_array_equal(
        gram, features.gram(grf.kernels.PowerSeries(modulation=[1.0, 0.5]))
    )


def test_arrays_of_the_caller_stay_writable(weighted_graph):
    nodes, table, permutation = np.array([1, 0]), np.array([1.0, 0.5]), np.array([1, 0])
    law = grf.sampling.SigmaCoupled(
        grf.sampling.Survival(table), grf.sampling.Coupling(permutation)
    )
    features = grf.sample_features(weighted_graph, grf.RandomWalks(2, law), nodes=nodes, seed=0)
    for array in (nodes, table, permutation):
        array[0] = 0
    assert features.nodes.tolist() == [1, 0]
    assert law.survival.table.tolist() == [1.0, 0.5]


def test_the_longest_walks_that_never_leave_their_node_are_counted_whole():
    # One visit more than steps, all on one node: the count of visits just fits 16 bits.
    longest = grf.sampling.Truncated(LONGEST_WALK)
    alone = grf.Graph(np.zeros((1, 1)))
    for directions in DIRECTIONS:
        sampler = grf.RandomWalks(2, longest, directions=directions)
        features = grf.sample_features(alone, sampler, seed=0, dtype="float64")
        assert features.record.steps.size == LONGEST_WALK + 1
        assert features.matrix_from_modulation(np.ones(LONGEST_WALK + 1))[0, 0] == LONGEST_WALK + 1


@pytest.mark.skipif(not hasattr(walk_block, "signatures"), reason="compilation is switched off")
def test_the_loop_is_compiled_once_for_all_graphs_and_laws(weighted_graph, plain_graph, karate):
    for graph in (weighted_graph, plain_graph, karate):
        for law in LAWS:
            for laplacian in ("normalized", "combinatorial"):
                grf.sample_features(
                    graph, grf.RandomWalks(2, law, laplacian=laplacian), nodes=[0], seed=0
                )
    fixed = np.array([0, 1])
    fixed.setflags(write=False)
    grf.sample_features(karate, grf.RandomWalks(2), nodes=fixed, seed=0)
    turned = grf.sampling.Coupling(np.asfortranarray([[1, 0], [0, 1]]))
    grf.sample_features(
        karate, grf.RandomWalks(3, grf.sampling.SigmaCoupled(0.2, turned)), nodes=[0], seed=0
    )
    # Another test walks on indices of 64 bits, perhaps in this process: one more, and meant.
    assert sum(str(signature[1].dtype) == "int32" for signature in walk_block.signatures) == 1
