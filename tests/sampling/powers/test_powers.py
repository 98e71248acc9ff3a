"""Samplers without walkers: exact rows, cut rows with a bound, unbiased compressed powers."""

import pickle

import numpy as np
import pytest

import graphrf as grf
from graphrf.features.bounds import TruncationWarning
from graphrf.sampling.powers.loops import power_block
from tests.sampling.test_sample import FALLING, POWERS, _same

KERNEL = grf.RegularizedLaplacian(1.0, 2)
SIGNED = grf.kernels.PowerSeries(modulation=[1.0, -0.5, 0.3, -0.2])
LAPLACIANS = ["normalized", "combinatorial"]


def _series(graph, kernel, length):
    eigenvalues, vectors = np.linalg.eigh(graph.walk_matrix(kernel.laplacian).toarray())
    f = kernel.modulation(length + 1, scale=graph.laplacian_scale(kernel.laplacian))
    return vectors * np.polynomial.polynomial.polyval(eigenvalues, f) @ vectors.T


@pytest.mark.parametrize("laplacian", LAPLACIANS)
@pytest.mark.parametrize("which", ["weighted", "plain", "karate"])
def test_exact_powers_are_the_series(weighted_graph, plain_graph, karate, which, laplacian):
    graph = {"weighted": weighted_graph, "plain": plain_graph, "karate": karate}[which]
    kernel = grf.RegularizedLaplacian(0.3, 2, laplacian=laplacian)
    expected = _series(graph, kernel, 9)
    for sampler in (
        grf.sampling.ExactPowers(9, laplacian=laplacian),
        grf.CompressedPowers(graph.walk_matrix(laplacian).nnz // 2 + 1, 9, laplacian=laplacian),
        grf.sampling.CutPowers(graph.n_nodes, 9, laplacian=laplacian),
    ):
        features = grf.sample_features(graph, sampler, seed=0, dtype="float64")
        f = kernel.modulation(10, scale=graph.laplacian_scale(laplacian))
        np.testing.assert_allclose(
            features.matrix_from_modulation(f).toarray(), expected, atol=1e-7
        )


def test_a_budget_of_half_the_edges_leaves_nothing_to_chance(karate):
    edges = karate.walk_matrix().nnz
    exact = grf.sample_features(karate, grf.sampling.ExactPowers(4))
    for seed in (0, 1):
        assert _same(
            exact, grf.sample_features(karate, grf.CompressedPowers(edges // 2, 4), seed=seed)
        )
    assert not _same(
        exact, grf.sample_features(karate, grf.CompressedPowers(edges // 2 - 8, 4), seed=0)
    )


def test_powers_of_nothing_but_loops_and_of_no_steps(weighted_graph):
    alone = grf.Graph(np.zeros((3, 3)))
    for sampler in (
        grf.sampling.ExactPowers(3),
        grf.CompressedPowers(1, 3),
        grf.sampling.CutPowers(1, 3),
    ):
        matrix = grf.sample_features(alone, sampler, seed=0).matrix_from_modulation(np.ones(4))
        np.testing.assert_array_equal(matrix.toarray(), 4 * np.eye(3))
    for sampler in (
        grf.sampling.ExactPowers(0),
        grf.CompressedPowers(1, 0),
        grf.sampling.CutPowers(1, 0),
    ):
        features = grf.sample_features(weighted_graph, sampler, seed=0)
        assert features.n_steps == 0
        np.testing.assert_array_equal(
            features.matrix_from_modulation(np.ones(1)).toarray(), np.eye(8)
        )


@pytest.mark.parametrize("sampler", POWERS, ids=repr)
def test_rows_are_ascending_by_node_and_step_and_keep_the_budget(grid, sampler):
    features = grf.sample_features(grid, sampler, seed=2)
    budgets = getattr(sampler, "budgets", np.full(6, grid.n_nodes))
    for row in range(0, 144, 7):
        values = slice(features.record.visit_ptr[row], features.record.visit_ptr[row + 1])
        entries = slice(features.record.indptr[row], features.record.indptr[row + 1])
        columns, steps = features.record.indices[entries], features.record.steps[values]
        assert (np.diff(columns) > 0).all()
        pairs = list(
            zip(np.repeat(columns, features.record.visits_per_entry[entries]), steps, strict=True)
        )
        assert pairs == sorted(set(pairs))
        assert (np.bincount(steps, minlength=6) <= budgets).all()
        if isinstance(sampler, grf.sampling.CutPowers):
            assert columns.size == sampler.budget
    assert features.record.counts.dtype == np.float32
    assert (features.record.counts > 0).all()


def test_work_counts_the_edges_read(grid):
    degrees = np.diff(grid.adjacency.indptr)
    features = grf.sample_features(grid, grf.sampling.ExactPowers(2), nodes=[0, 70], seed=0)
    neighbours = [
        grid.adjacency.indices[grid.adjacency.indptr[v] : grid.adjacency.indptr[v + 1]]
        for v in (0, 70)
    ]
    assert features.n_steps == sum(
        degrees[v] + degrees[n].sum() for v, n in zip((0, 70), neighbours, strict=True)
    )
    for budget in (1, 3):
        compressed = grf.sample_features(grid, grf.CompressedPowers(budget, 10), nodes=[70], seed=0)
        assert compressed.n_steps <= 10 * (2 * budget + 1)


def test_a_node_with_many_neighbours_costs_no_more_than_the_budget():
    n = 10_001
    star = grf.from_edges(np.zeros(n - 1, int), np.arange(1, n))
    exact = grf.sample_features(star, grf.sampling.ExactPowers(8), nodes=[0, 5])
    assert exact.n_steps == 15 * (n - 1) + 1
    for source in (0, 5):
        features = grf.sample_features(star, grf.CompressedPowers(16, 8), nodes=[source], seed=0)
        assert features.n_steps <= 8 * (2 * 16 + 1)
        # Every second step all is at the centre; what is
        # sampled of its neighbours sums to what it should.
        for k in range(9):
            row = features.matrix_from_modulation(np.eye(9)[k]) @ np.sqrt(star.degrees)
            assert row[0] == pytest.approx(np.sqrt(star.degrees[source]), rel=1e-5)


def test_budgets_follow_the_table():
    sampler = grf.CompressedPowers(10, lengths=grf.sampling.Survival([1.0, 0.7, 0.3, 0.3, 0.01]))
    np.testing.assert_array_equal(sampler.budgets, [10, 7, 3, 3, 1])
    np.testing.assert_array_equal(grf.CompressedPowers(10, 3).budgets, [10] * 4)
    table = np.ceil(10 * 0.9 ** np.arange(49) - 1e-9)
    np.testing.assert_array_equal(grf.CompressedPowers(10).budgets, table)
    np.testing.assert_array_equal(sampler.survival.table, np.ones(5))


def test_a_choice_of_lengths_becomes_a_table_for_each_graph(grid, karate):
    sampler = grf.CompressedPowers(16, lengths=grf.sampling.AutoLengths(KERNEL))
    with pytest.raises(ValueError, match="resolved"):
        _ = sampler.budgets
    for graph in (grid, karate):
        resolved = sampler.resolved(graph)
        walks = grf.RandomWalks(16, grf.sampling.AutoLengths(KERNEL)).resolved(graph)
        assert resolved.lengths == walks.survival
        assert resolved.budgets[1] > resolved.budgets[-1]
        assert resolved.resolved(graph) is resolved
        assert _same(
            grf.sample_features(graph, sampler, seed=1),
            grf.sample_features(graph, resolved, seed=1),
        )
    assert (
        "Survival" in grf.sample_features(grid, sampler, nodes=[0], seed=1).description["lengths"]
    )
    flat = grf.RegularizedLaplacian(0.3, 2, laplacian="combinatorial")
    combinatorial = grf.CompressedPowers(
        4, lengths=grf.sampling.AutoLengths(flat), laplacian="combinatorial"
    )
    assert grf.sample_features(grid, combinatorial, seed=0).laplacian == "combinatorial"
    assert grf.sampling.ExactPowers(3).resolved(grid) == grf.sampling.ExactPowers(3)
    assert grf.sampling.CutPowers(2, 3).resolved(grid) == grf.sampling.CutPowers(2, 3)


@pytest.mark.parametrize("laplacian", LAPLACIANS)
@pytest.mark.parametrize("kernel", [grf.Diffusion(1.0), KERNEL, SIGNED])
@pytest.mark.filterwarnings("ignore::graphrf.features.TruncationWarning")
def test_the_bound_of_cut_powers_holds_and_says_something(
    grid, karate, weighted_graph, kernel, laplacian
):
    if laplacian == "combinatorial":
        if isinstance(kernel, grf.kernels.PowerSeries):
            kernel = grf.kernels.PowerSeries(modulation=SIGNED.modulation(4), laplacian=laplacian)
        else:
            kernel = type(kernel)(0.3, laplacian=laplacian)
    for graph, budget in ((grid, 20), (karate, 16), (weighted_graph, 3)):
        exact = _series(graph, kernel, 400)
        size = kernel.modulation_tail(-1, scale=graph.laplacian_scale(laplacian)) ** 2
        for length in (3, 12):
            features = grf.sample_features(
                graph, grf.sampling.CutPowers(budget, length, laplacian=laplacian), dtype="float64"
            )
            rows = np.linalg.norm(features.matrix(kernel).toarray() - exact, axis=1)
            bounds = features.row_errors(kernel)
            assert (rows <= bounds + 1e-7 * np.sqrt(size)).all()
            error = np.linalg.norm(features.gram(kernel) - exact @ exact.T, 2)
            bound = features.truncation_error(kernel)
            assert error <= bound + 1e-7 * size
            some = features.take([1, 5])
            part = np.linalg.norm(some.gram(kernel) - (exact @ exact.T)[np.ix_([1, 5], [1, 5])], 2)
            assert part <= some.truncation_error(kernel) + 1e-7 * size
            if graph is grid and length == 12:
                assert bound < 0.6 * size


def test_cut_powers_keep_the_largest_sums(grid, karate):
    for graph in (grid, karate):
        exact = (
            grf.sample_features(graph, grf.sampling.ExactPowers(6))
            .matrix_from_modulation(np.ones(7))
            .toarray()
        )
        cut = (
            grf.sample_features(graph, grf.sampling.CutPowers(9, 6))
            .matrix_from_modulation(np.ones(7))
            .toarray()
        )
        for row in range(graph.n_nodes):
            kept = cut[row] > 0
            assert kept.sum() == 9
            np.testing.assert_array_equal(cut[row, kept], exact[row, kept])
            assert exact[row, kept].min() >= exact[row, ~kept].max() - 1e-6


def test_cut_powers_warn_when_the_cut_matters(grid, recwarn):
    grf.sample_features(grid, grf.sampling.CutPowers(60, 8)).matrix(grf.Diffusion(0.5))
    assert not recwarn.list
    with pytest.warns(
        TruncationWarning, match=r"^a guaranteed bound, .* rows cut to a budget .* to measure it"
    ):
        grf.sample_features(grid, grf.sampling.CutPowers(2, 30)).matrix(grf.Diffusion(3.0))
    with pytest.warns(TruncationWarning, match="powers up to 2 cut the series"):
        grf.sample_features(grid, grf.sampling.ExactPowers(2)).matrix(grf.Diffusion(4.0))


@pytest.mark.parametrize("sampler", POWERS, ids=repr)
def test_powers_are_saved_taken_pickled_and_multiplied_as_walks_are(
    tmp_path, weighted_graph, sampler
):
    features = grf.sample_features(weighted_graph, sampler, seed=3, dtype="float64")
    features.save(tmp_path / "powers.npz")
    f = np.array([0.5, 0.3, 0.2, 0.1])
    dense = features.matrix_from_modulation(f).toarray()
    for again in (
        grf.features.load_features(tmp_path / "powers.npz"),
        pickle.loads(pickle.dumps(features)),
    ):
        assert _same(features, again)
        assert again.n_steps == features.n_steps
        assert again.nbytes == features.nbytes
        assert repr(again) == repr(features)
        np.testing.assert_array_equal(again.row_errors(KERNEL), features.row_errors(KERNEL))
        np.testing.assert_array_equal(again.matrix_from_modulation(f).toarray(), dense)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(8, 3)), rng.normal(size=(8, 3))
    gradient = features.factor().grad_f(x, y)
    for k in range(6):
        step = features.matrix_from_modulation(np.eye(6)[k]).toarray()
        assert gradient[k] == pytest.approx(np.sum(y * (step @ x)), abs=1e-10)
    with np.load(tmp_path / "powers.npz") as archive:
        arrays = dict(archive)
    for broken in ({"counts": arrays["counts"].astype(np.float64)}, {"work": arrays["work"][:-1]}):
        np.savez(tmp_path / "broken.npz", **{**arrays, **broken})
        with pytest.raises(ValueError, match="inconsistent"):
            grf.features.load_features(tmp_path / "broken.npz")


@pytest.mark.parametrize(
    ("sampler", "way_out"),
    [
        (grf.sampling.ExactPowers(20), "lower max_length, take CompressedPowers or CutPowers"),
        (grf.sampling.CutPowers(200, 20), "lower budget or max_length"),
        (grf.CompressedPowers(200, 20), "lower budget or max_length"),
        (
            grf.CompressedPowers(200, lengths=grf.sampling.Survival(np.linspace(1, 0.5, 30))),
            "lower budget(?! or max_length)",
        ),
    ],
    ids=repr,
)
def test_more_memory_than_the_limit_is_refused_before_it_is_taken(sampler, way_out):
    n = 900
    ring = grf.from_edges(
        np.repeat(np.arange(n), 4), (np.repeat(np.arange(n), 4) + np.tile([1, 2, 5, 9], n)) % n
    )
    with pytest.raises(MemoryError, match=way_out):
        grf.sample_features(ring, sampler, memory_limit=1_000_000)


@pytest.mark.skipif(not hasattr(power_block, "signatures"), reason="compilation is switched off")
def test_the_loop_is_compiled_once_for_all_graphs_and_samplers(weighted_graph, plain_graph, grid):
    for graph in (weighted_graph, plain_graph, grid):
        for sampler in POWERS:
            for nodes in ([0], np.arange(6)[::3]):
                grf.sample_features(graph, sampler, nodes=graph.positions(nodes), seed=0)
    assert len(power_block.signatures) == 1


def test_nodes_far_apart_are_kept_in_order():
    # More nodes than one word of the set's first and second summaries holds.
    n = 300_000
    rng = np.random.default_rng(0)
    graph = grf.from_edges(np.arange(n - 1), np.arange(1, n), n_nodes=n)
    hub = grf.from_edges(
        np.zeros(2_000, int), rng.choice(np.arange(1, n), 2_000, replace=False), n_nodes=n
    )
    both = grf.Graph(graph.adjacency + hub.adjacency)
    exact, compressed = (
        grf.sample_features(both, sampler, nodes=[0], seed=0)
        for sampler in (grf.sampling.ExactPowers(2), grf.CompressedPowers(700, 2))
    )
    assert (np.diff(exact.record.indices) > 0).all()
    assert (np.diff(compressed.record.indices) > 0).all()
    assert exact.nnz > 2_000
    assert 700 <= compressed.nnz <= 1_401
    walk = both.walk_matrix()
    reached = np.concatenate([[0], walk[[0]].indices, (walk[[0]] @ walk).indices])
    np.testing.assert_array_equal(exact.record.indices, np.unique(reached))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: grf.CompressedPowers(0, 8), ValueError, "`budget`"),
        (lambda: grf.CompressedPowers(2**31, 8), ValueError, "`budget`"),
        (
            lambda: grf.CompressedPowers(4, 8, lengths=FALLING),
            ValueError,
            "`max_length` and `lengths`",
        ),
        (
            lambda: grf.CompressedPowers(4, lengths=grf.sampling.Stratified(0.1)),
            TypeError,
            "law.survival",
        ),
        (lambda: grf.CompressedPowers(4, lengths=0.1), TypeError, "a Survival table"),
        (
            lambda: grf.CompressedPowers(
                4, lengths=grf.sampling.AutoLengths(KERNEL), laplacian="combinatorial"
            ),
            ValueError,
            "pass laplacian='normalized'",
        ),
        (
            lambda: grf.CompressedPowers(4, 8, laplacian="random"),
            ValueError,
            "'normalized', 'combinatorial'",
        ),
        (
            lambda: grf.CompressedPowers(4, lengths=grf.sampling.AutoLengths(KERNEL)).survival,
            ValueError,
            "resolved",
        ),
        (lambda: grf.sampling.ExactPowers(2**16), ValueError, "`max_length`"),
    ],
)
def test_bad_samplers_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(
    "sampler",
    [
        grf.CompressedPowers(np.int64(8), np.int32(3)),
        grf.sampling.CutPowers(np.int64(8), np.int64(3)),
        grf.sampling.ExactPowers(np.uint8(3)),
        grf.RandomWalks(np.int64(8)),
    ],
    ids=lambda sampler: type(sampler).__name__,
)
def test_settings_given_as_numpy_integers_can_be_saved(karate, tmp_path, sampler):
    features = grf.sample_features(karate, sampler, seed=np.int64(0))
    features.save(tmp_path / "features.npz")
    assert grf.features.load_features(tmp_path / "features.npz").description == features.description
    assert "np." not in repr(sampler)
