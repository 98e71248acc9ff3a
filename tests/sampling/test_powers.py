"""Samplers without walkers: exact rows, rows cut with a bound that holds, powers compressed without bias."""

import itertools
import pickle

import numpy as np
import pytest

import graphrf as grf
from graphrf.features import TruncationWarning
from graphrf.sampling import record
from graphrf.sampling.philox import Use, philox, unit
from graphrf.sampling.power_loops import keep_largest, pick, power_block
from graphrf.sampling.powers import PreparedPowers, relabelled
from tests.sampling.test_sample import _draws, _projections, _same, _truth
from tests.sequential import assert_unbiased

KERNEL = grf.RegularizedLaplacian(1.0, 2)
SIGNED = grf.PowerSeries(modulation=[1.0, -0.5, 0.3, -0.2])
SAMPLERS = [grf.ExactPowers(5), grf.CutPowers(4, 5), grf.CompressedPowers(3, 5)]
LAPLACIANS = ["normalized", "combinatorial"]


# -- an oracle in plain Python ---------------------------------------------------------------------------------


def _keep(y, m, recompute=True):
    """Entries that compression keeps, one at a time and the largest first; places left, and sum of the rest."""
    order = np.argsort(-y, kind="stable")
    kept, total = [], y.sum()
    threshold = total / m
    for i in order:
        left, rest = m - len(kept), total - y[kept].sum()
        if left == 0 or (y[i] * left < rest if recompute else y[i] < threshold):
            break
        kept.append(i)
        if not recompute:
            threshold = total / m
    return kept, m - len(kept), total - y[kept].sum()


def _compressed(y, m, u, recompute=True):
    """C(y) for a given uniform, dense; y in the order of the systematic sampling."""
    support = np.flatnonzero(y)
    if support.size <= m:
        return y.copy()
    kept, left, rest = _keep(y, m, recompute)
    result = np.zeros_like(y)
    result[kept] = y[kept]
    if left:
        others = [i for i in support if i not in kept]
        points = (u + np.arange(left)) * rest / left
        picked = np.searchsorted(np.cumsum(y[others]), points, side="right")
        result[np.array(others)[np.minimum(picked, len(others) - 1)]] = rest / left
    return result


def _outcomes(y, m, recompute=True):
    """Every (probability, C(y)) : uniforms between two break points give the same picks."""
    if np.count_nonzero(y) <= m:
        return [(1.0, y)]
    kept, left, rest = _keep(y, m, recompute)
    if not left:
        return [(1.0, _compressed(y, m, 0.5, recompute))]
    ends = np.cumsum(np.delete(y, kept)) * left / rest
    breaks = np.unique(np.concatenate([[0.0, 1.0], np.mod(ends, 1.0)]))
    return [(b - a, _compressed(y, m, (a + b) / 2, recompute)) for a, b in itertools.pairwise(breaks)]


def _expected_powers(walk, start, m, steps):
    """E[x_k] for k = 0 .. steps, by enumeration of all picks."""
    states = [(1.0, np.eye(walk.shape[0])[start])]
    means = [states[0][1]]
    for _ in range(steps):
        states = [(p * q, after) for p, x in states for q, after in _outcomes(walk @ x, m)]
        means.append(sum(p * x for p, x in states))
    return means


def _in_order(graph, laplacian="normalized"):
    """The dense walk matrix in the order of the loops, and that order."""
    order = relabelled(graph, laplacian).order.astype(int)
    return graph.walk_matrix(laplacian).toarray()[np.ix_(order, order)], order


@pytest.mark.parametrize("budget", [1, 2, 3, 4])
@pytest.mark.parametrize("laplacian", LAPLACIANS)
def test_compressed_powers_are_exactly_unbiased(weighted_graph, laplacian, budget):
    walk, _ = _in_order(weighted_graph, laplacian)
    for start in range(8):
        for k, mean in enumerate(_expected_powers(walk, start, budget, 4)):
            np.testing.assert_allclose(mean, np.linalg.matrix_power(walk, k)[start], rtol=0, atol=1e-12)


def test_a_threshold_that_is_not_recomputed_is_biased():
    y = np.array([10.0, 6.0, 1.0, 1.0, 1.0, 1.0])
    right, wrong = (sum(p * x for p, x in _outcomes(y, 3, recompute)) for recompute in (True, False))
    np.testing.assert_allclose(right, y, atol=1e-13)
    assert wrong[1] == pytest.approx(5.0)  # an inclusion probability of 1.2, of which one pick is had


@pytest.mark.parametrize("laplacian", LAPLACIANS)
@pytest.mark.parametrize("budget", [1, 2, 3])
def test_the_loops_do_what_the_oracle_does_with_the_same_uniforms(weighted_graph, grid, laplacian, budget):
    for graph in (weighted_graph, grid):
        walk, order = _in_order(graph, laplacian)
        sampler = grf.CompressedPowers(budget, 6, laplacian=laplacian)
        features = grf.sample_features(graph, sampler, seed=7, dtype="float64")
        powers = [features.matrix_from_modulation(np.eye(7)[k]).toarray() for k in range(7)]
        for source in range(0, graph.n_nodes, 5):
            x = (order == source).astype(float)
            for k in range(1, 7):
                words = _uniform(source, k, 7)
                x = _compressed(walk @ x, budget, words)
                expected = np.empty_like(x)
                expected[order] = x
                np.testing.assert_allclose(powers[k][source], expected, rtol=1e-6, atol=0)


def _uniform(source, step, seed):
    w0, w1, _, _ = philox(*(np.uint64(word) for word in (source, step, 0, int(Use.COMPRESS))), np.uint64(seed))
    return unit(np.uint64(w0), np.uint64(w1))


def test_batches_of_kept_entries_are_those_kept_one_at_a_time():
    rng = np.random.default_rng(0)
    for _ in range(200):
        y = rng.exponential(size=rng.integers(3, 30)) ** rng.integers(1, 6)
        m = int(rng.integers(1, y.size))
        nodes, values = np.arange(y.size, dtype=np.uint32), y.copy()
        kept, rest = keep_largest(nodes, values, 0, y.size, m)
        expected, _, total = _keep(y, m)
        assert sorted(nodes[:kept]) == sorted(expected)
        np.testing.assert_array_equal(values, y[nodes])
        assert sorted(nodes) == list(range(y.size))
        assert rest == pytest.approx(total, rel=1e-9, abs=1e-12 * y.sum())


@pytest.mark.parametrize("u", [0.0, 0.3, 1 - 2.0**-53])
def test_rounding_never_changes_the_number_of_picks(u):
    rng = np.random.default_rng(1)
    for _ in range(200):
        n = int(rng.integers(2, 40))
        y = rng.uniform(0.9, 1.0, n)
        m = int(rng.integers(1, n))
        nodes, values = np.arange(n, dtype=np.uint32), y.copy()
        pick(nodes, values, 0, n, float(y.sum()) * (1 + 1e-15), m, u)
        assert np.unique(nodes[:m]).size == m
        assert (values[:m] == values[0]).all()


# -- through the front -----------------------------------------------------------------------------------------


def _irregular(weighted):
    """A connected graph on which no projection is free of chance (float32 has no place for exact equality)."""
    rng = np.random.default_rng(5)
    edges = np.triu(rng.random((9, 9)) < 0.35)
    edges[np.arange(8), np.arange(1, 9)] = True
    adjacency = np.where(edges, rng.exponential(size=(9, 9)) if weighted else 1.0, 0.0)
    return grf.Graph(np.triu(adjacency) + np.triu(adjacency, 1).T)


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
        grf.ExactPowers(9, laplacian=laplacian),
        grf.CompressedPowers(graph.n_nodes, 9, laplacian=laplacian),
        grf.CutPowers(graph.n_nodes, 9, laplacian=laplacian),
    ):
        features = grf.sample_features(graph, sampler, seed=0, dtype="float64")
        f = kernel.modulation(10, scale=graph.laplacian_scale(laplacian))
        np.testing.assert_allclose(features.matrix_from_modulation(f).toarray(), expected, atol=1e-7)


def test_powers_of_nothing_but_loops_and_of_no_steps(weighted_graph):
    alone = grf.Graph(np.zeros((3, 3)))
    for sampler in (grf.ExactPowers(3), grf.CompressedPowers(1, 3), grf.CutPowers(1, 3)):
        matrix = grf.sample_features(alone, sampler, seed=0).matrix_from_modulation(np.ones(4))
        np.testing.assert_array_equal(matrix.toarray(), 4 * np.eye(3))
    for sampler in (grf.ExactPowers(0), grf.CompressedPowers(1, 0), grf.CutPowers(1, 0)):
        features = grf.sample_features(weighted_graph, sampler, seed=0)
        assert features.n_steps == 0
        np.testing.assert_array_equal(features.matrix_from_modulation(np.ones(1)).toarray(), np.eye(8))


@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_the_same_seed_gives_the_same_bits_on_any_threads_and_block_of_nodes(grid, sampler):
    features = grf.sample_features(grid, sampler, seed=11, n_threads=1)
    assert _same(features, grf.sample_features(grid, sampler, seed=11, n_threads=4))
    random = isinstance(sampler, grf.CompressedPowers)
    assert _same(features, grf.sample_features(grid, sampler, seed=12)) != random
    nodes = [100, 3, 50, 3]
    part = grf.sample_features(grid, sampler, nodes=nodes, seed=11)
    assert _same(part, features.take(nodes))
    assert part.n_steps == features.take(nodes).n_steps > 0
    np.testing.assert_array_equal(part.row_errors(KERNEL), features.take(nodes).row_errors(KERNEL))


@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_rows_are_ascending_by_node_and_step_and_keep_the_budget(grid, sampler):
    features = grf.sample_features(grid, sampler, seed=2)
    budget = getattr(sampler, "budget", grid.n_nodes)
    for row in range(0, 144, 7):
        values = slice(features._visit_ptr[row], features._visit_ptr[row + 1])
        entries = slice(features._indptr[row], features._indptr[row + 1])
        columns, steps = features._indices[entries], features._steps[values]
        assert (np.diff(columns) > 0).all()
        pairs = list(zip(np.repeat(columns, features._visits_per_entry[entries]), steps, strict=True))
        assert pairs == sorted(set(pairs))
        assert (np.bincount(steps) <= budget).all()
        if isinstance(sampler, grf.CutPowers):
            assert columns.size == budget
    assert features._counts.dtype == np.float32
    assert (features._counts > 0).all()


def test_work_counts_the_edges_read(grid):
    degrees = np.diff(grid.adjacency.indptr)
    features = grf.sample_features(grid, grf.ExactPowers(2), nodes=[0, 70], seed=0)
    neighbours = [grid.adjacency.indices[grid.adjacency.indptr[v] : grid.adjacency.indptr[v + 1]] for v in (0, 70)]
    assert features.n_steps == sum(degrees[v] + degrees[n].sum() for v, n in zip((0, 70), neighbours, strict=True))
    compressed = grf.sample_features(grid, grf.CompressedPowers(1, 10), nodes=[70], seed=0)
    assert compressed.n_steps <= 40


@pytest.mark.parametrize("budget", [1, 3])
@pytest.mark.parametrize("which", ["weighted", "plain", "combinatorial"])
@pytest.mark.filterwarnings("ignore::graphrf.features.TruncationWarning")
def test_features_and_gram_of_compressed_powers_are_unbiased(which, budget):
    graph = _irregular(weighted=which != "plain")
    laplacian = "combinatorial" if which == "combinatorial" else "normalized"
    kernel = grf.RegularizedLaplacian(0.5 if which == "combinatorial" else 1.0, 2, laplacian=laplacian)
    sampler = grf.CompressedPowers(budget, 5, laplacian=laplacian)
    left, right, root = _projections(graph, kernel, sampler.survival)
    draw = _draws(graph, sampler, kernel, left, right)
    assert_unbiased(draw, _truth(left, right, root), n0=400)


@pytest.mark.filterwarnings("ignore::graphrf.features.TruncationWarning")
def test_the_unbiasedness_test_notices_lost_weight():
    # What the picks stand for, 3 % too little.
    sampler = grf.CompressedPowers(3, 5)
    graph = _irregular(weighted=True)
    left, right, root = _projections(graph, KERNEL, sampler.survival)

    def change(phi):
        return phi * np.where(np.eye(9, dtype=bool), 1.0, 0.97)

    with pytest.raises(AssertionError, match="biased"):
        assert_unbiased(_draws(graph, sampler, KERNEL, left, right, change), _truth(left, right, root), n0=1000)


@pytest.mark.parametrize("recompute", [True, False])
def test_the_unbiasedness_test_notices_a_threshold_that_is_not_recomputed(recompute):
    y = np.array([10.0, 6.0, 1.0, 1.0, 1.0, 1.0])

    def draw(round_index, n):
        rng = np.random.default_rng(round_index)
        if not recompute:
            return np.array([_compressed(y, 3, u, recompute=False) for u in rng.random(n)])
        rows = np.zeros((n, 6))
        for i, u in enumerate(rng.random(n)):
            nodes, values = np.arange(6, dtype=np.uint32), y.copy()
            kept, rest = keep_largest(nodes, values, 0, 6, 3)
            pick(nodes, values, kept, 6, rest, 3 - kept, u)
            rows[i, nodes[:3]] = values[:3]
        return rows

    if recompute:
        assert_unbiased(draw, y, n0=1000)
    else:
        with pytest.raises(AssertionError, match="projection 1 has mean 5"):
            assert_unbiased(draw, y, n0=1000)


@pytest.mark.parametrize("laplacian", LAPLACIANS)
@pytest.mark.parametrize("kernel", [grf.Diffusion(1.0), KERNEL, SIGNED])
@pytest.mark.filterwarnings("ignore::graphrf.features.TruncationWarning")
def test_the_bound_of_cut_powers_holds_and_says_something(grid, karate, weighted_graph, kernel, laplacian):
    if laplacian == "combinatorial":
        if isinstance(kernel, grf.PowerSeries):
            kernel = grf.PowerSeries(modulation=SIGNED.modulation(4), laplacian=laplacian)
        else:
            kernel = type(kernel)(0.3, laplacian=laplacian)
    for graph, budget in ((grid, 20), (karate, 16), (weighted_graph, 3)):
        exact = _series(graph, kernel, 400)
        size = kernel.modulation_tail(-1, scale=graph.laplacian_scale(laplacian)) ** 2
        for length in (3, 12):
            features = grf.sample_features(
                graph, grf.CutPowers(budget, length, laplacian=laplacian), dtype="float64"
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


def test_cut_powers_keep_the_largest_sums(grid):
    exact = grf.sample_features(grid, grf.ExactPowers(6)).matrix_from_modulation(np.ones(7)).toarray()
    cut = grf.sample_features(grid, grf.CutPowers(9, 6)).matrix_from_modulation(np.ones(7)).toarray()
    for row in range(144):
        kept = cut[row] > 0
        assert kept.sum() == 9
        np.testing.assert_array_equal(cut[row, kept], exact[row, kept])
        assert exact[row, kept].min() >= exact[row, ~kept].max() - 1e-6


def test_cut_powers_with_a_kernel_keep_the_largest_entries_of_its_root(grid, tmp_path):
    kernel = grf.Diffusion(1.0)
    exact = grf.sample_features(grid, grf.ExactPowers(16)).matrix(kernel).toarray()
    features = grf.sample_features(grid, grf.CutPowers(9, 16, kernel=kernel))
    cut = features.matrix_from_modulation(kernel.modulation(17)).toarray()
    for row in range(144):
        kept = cut[row] > 0
        assert kept.sum() == 9
        assert exact[row, kept].min() >= exact[row, ~kept].max() - 1e-6
    features.save(tmp_path / "cut.npz")
    assert grf.load_features(tmp_path / "cut.npz").description == features.description
    without = grf.sample_features(grid, grf.CutPowers(9, 16))
    assert np.linalg.norm(features.row_errors(kernel)) < np.linalg.norm(without.row_errors(kernel))


def test_cut_powers_warn_when_the_cut_matters(grid, recwarn):
    grf.sample_features(grid, grf.CutPowers(60, 8)).matrix(grf.Diffusion(0.5))
    assert not recwarn.list
    with pytest.warns(TruncationWarning, match="rows cut to a budget"):
        grf.sample_features(grid, grf.CutPowers(2, 30)).matrix(grf.Diffusion(3.0))
    with pytest.warns(TruncationWarning, match="powers up to 2 cut the series"):
        grf.sample_features(grid, grf.ExactPowers(2)).matrix(grf.Diffusion(4.0))


@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_powers_are_saved_taken_pickled_and_multiplied_as_walks_are(tmp_path, weighted_graph, sampler):
    features = grf.sample_features(weighted_graph, sampler, seed=3, dtype="float64")
    features.save(tmp_path / "powers.npz")
    f = np.array([0.5, 0.3, 0.2, 0.1])
    dense = features.matrix_from_modulation(f).toarray()
    for again in (grf.load_features(tmp_path / "powers.npz"), pickle.loads(pickle.dumps(features))):
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
        with pytest.raises(ValueError, match="contradict"):
            grf.load_features(tmp_path / "broken.npz")


def test_powers_go_to_torch(weighted_graph):
    pytest.importorskip("torch", reason="the extra `gp` is not installed")
    features = grf.sample_features(weighted_graph, grf.ExactPowers(20), seed=0)
    np.testing.assert_array_equal(features.torch(KERNEL).to_dense().numpy(), features.matrix(KERNEL).toarray())


def test_the_memory_of_a_record_is_what_is_foreseen(grid):
    for sampler, more in ((grf.CompressedPowers(4, 6), 8), (grf.CutPowers(4, 6), 8 + 4 * 7)):
        features = grf.sample_features(grid, sampler, nodes=[0, 3, 3], seed=0)
        values = features._steps.size
        assert features.nbytes == record.record_bytes(3, features.nnz, values, 4) + more * 3
        assert features.nbytes == 6 * values + 6 * features.nnz + (20 + more) * 3 + 12


def test_sizes_of_exact_rows_are_foreseen(grid):
    features = grf.sample_features(grid, grf.ExactPowers(5))
    entries, values = grf.ExactPowers(5).prepare(grid, 0).merged_per_row
    assert entries == pytest.approx(features.nnz / 144, rel=0.2)
    assert values == pytest.approx(features._steps.size / 144, rel=0.2)


@pytest.mark.parametrize(
    ("sampler", "way_out"),
    [
        (grf.ExactPowers(20), "lower max_length, take CompressedPowers or CutPowers"),
        (grf.CutPowers(200, 20), "lower budget or max_length"),
        (grf.CompressedPowers(200, 20), "lower budget or max_length"),
    ],
    ids=repr,
)
def test_more_memory_than_the_limit_is_refused_before_it_is_taken(sampler, way_out):
    n = 900
    ring = grf.from_edges(np.repeat(np.arange(n), 4), (np.repeat(np.arange(n), 4) + np.tile([1, 2, 5, 9], n)) % n)
    with pytest.raises(MemoryError, match=way_out):
        grf.sample_features(ring, sampler, memory_limit=1_000_000)


@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_buffers_that_are_too_small_grow_and_change_nothing(grid, sampler, monkeypatch):
    expected = grf.sample_features(grid, sampler, seed=3)
    monkeypatch.setattr(record, "_SPARE", 0.0)
    monkeypatch.setattr(record, "_SLACK", 1)
    monkeypatch.setattr(PreparedPowers, "_capacity", lambda self, n_rows: 1)
    assert _same(expected, grf.sample_features(grid, sampler, seed=3))


@pytest.mark.skipif(not hasattr(power_block, "signatures"), reason="compilation is switched off")
def test_the_loop_is_compiled_once_for_all_graphs_and_samplers(weighted_graph, plain_graph, grid):
    for graph in (weighted_graph, plain_graph, grid):
        for sampler in SAMPLERS:
            grf.sample_features(graph, sampler, nodes=[0], seed=0)
    assert len(power_block.signatures) == 1


def test_nodes_far_apart_are_kept_in_order():
    # More nodes than one word of the set's first and second summaries holds.
    n = 300_000
    rng = np.random.default_rng(0)
    graph = grf.from_edges(np.arange(n - 1), np.arange(1, n), n_nodes=n)
    hub = grf.from_edges(np.zeros(2_000, int), rng.choice(np.arange(1, n), 2_000, replace=False), n_nodes=n)
    both = grf.Graph(graph.adjacency + hub.adjacency)
    exact, compressed = (
        grf.sample_features(both, sampler, nodes=[0], seed=0)
        for sampler in (grf.ExactPowers(2), grf.CompressedPowers(700, 2))
    )
    assert (np.diff(exact._indices) > 0).all()
    assert (np.diff(compressed._indices) > 0).all()
    assert exact.nnz > 2_000
    assert 700 <= compressed.nnz <= 1_401
    walk = both.walk_matrix()
    reached = np.concatenate([[0], walk[[0]].indices, (walk[[0]] @ walk).indices])
    np.testing.assert_array_equal(exact._indices, np.unique(reached))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: grf.CompressedPowers(0, 8), ValueError, "`budget`"),
        (lambda: grf.CompressedPowers(2.5, 8), TypeError, "`budget`"),
        (lambda: grf.CutPowers(-1, 8), ValueError, "`budget`"),
        (lambda: grf.CutPowers(4, -1), ValueError, "`max_length`"),
        (lambda: grf.CutPowers(4, 2, kernel="diffusion"), TypeError, "graphrf kernel"),
        (lambda: grf.CutPowers(4, 2, kernel=KERNEL, laplacian="combinatorial"), ValueError, "as the powers"),
        (lambda: grf.ExactPowers(2**16), ValueError, "`max_length`"),
        (lambda: grf.ExactPowers(4, laplacian="random"), ValueError, "'normalized', 'combinatorial'"),
    ],
)
def test_bad_samplers_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_directed_graphs_are_refused():
    graph = grf.Graph(np.array([[0, 1], [0, 0]]), directed=True)
    with pytest.raises(ValueError, match="undirected"):
        grf.sample_features(graph, grf.ExactPowers(2))


@pytest.mark.filterwarnings("ignore::graphrf.features.TruncationWarning")
def test_a_gaussian_process_takes_powers(grid):
    kernel = grf.Diffusion(1.5)
    rng = np.random.default_rng(0)
    nodes = rng.choice(144, 60, replace=False)
    y = np.sin(nodes // 12 / 3.0) + np.cos(nodes % 12 / 3.0)
    fixed = {"kernel": kernel, "optimize": False, "noise": 0.01, "output_scale": 1.0, "seed": 0}
    series = grf.GraphGPRegressor(grid, method="series", **fixed).fit(nodes, y)
    powers = grf.GraphGPRegressor(grid, sampler=grf.ExactPowers(16), **fixed).fit(nodes, y)
    for one, other in zip(series.predict(return_std=True), powers.predict(return_std=True), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-3)
    trained = grf.GraphGPRegressor(grid, sampler=grf.CompressedPowers(64, 16), seed=0).fit(nodes, y)
    assert trained.method_ == "walks"
    assert trained.kernel_.truncation_length(1e-2) <= 16
    mean = trained.predict()
    truth = np.sin(np.arange(144) // 12 / 3.0) + np.cos(np.arange(144) % 12 / 3.0)
    assert np.sqrt(np.mean((mean - truth) ** 2)) < 0.3
