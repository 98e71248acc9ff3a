"""Samplers without walkers: exact rows, rows cut with a bound that holds, powers compressed without bias."""

import itertools
import pickle

import numpy as np
import pytest

import graphrf as grf
from graphrf.features import TruncationWarning
from graphrf.sampling import prepared_powers, record
from graphrf.sampling.philox import Use, philox, unit
from graphrf.sampling.power_loops import keep_largest, pick, power_block, product_within
from graphrf.sampling.powers import PICKS
from graphrf.sampling.prepared_powers import PreparedPowers, relabelled
from graphrf.sampling.transitions import load_degrees
from tests.sampling.test_sample import _draws, _projections, _same, _truth
from tests.sequential import assert_unbiased

KERNEL = grf.RegularizedLaplacian(1.0, 2)
SIGNED = grf.PowerSeries(modulation=[1.0, -0.5, 0.3, -0.2])
FALLING = grf.Survival([1.0, 1.0, 0.7, 0.4, 0.4, 0.1])
SAMPLERS = [
    grf.ExactPowers(5),
    grf.CutPowers(4, 5),
    grf.CompressedPowers(3, 5),
    grf.CompressedPowers(4, lengths=FALLING),
]
LAPLACIANS = ["normalized", "combinatorial"]


def _hub():
    """Two nodes with many neighbours, which share some, and a path between the others; weights of all sizes."""
    rng = np.random.default_rng(3)
    src, dst = [0] * 11 + [1] * 7 + list(range(2, 13)), [*range(1, 12), *range(6, 13), *range(3, 14)]
    return grf.from_edges(np.array(src), np.array(dst), rng.exponential(size=len(src)))


# -- an oracle in plain Python ---------------------------------------------------------------------------------
#
# States are pairs (nodes, values), in the order in which the loops hold them and with the loops' numbers of nodes.


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


def _systematic(masses, n, u):
    """Places of n points (u + j) total / n in the running sum of the masses."""
    points = (u + np.arange(n)) * masses.sum() / n
    return np.minimum(np.searchsorted(np.cumsum(masses), points, side="right"), masses.size - 1)


def _breaks(masses, n):
    """The uniforms, in [0, 1], at which systematic sampling of n changes its picks."""
    return np.unique(np.concatenate([[0.0, 1.0], np.mod(np.cumsum(masses) * n / masses.sum(), 1.0)]))


def _compressed(y, m, u, recompute=True):
    """C(y) for a given uniform, dense; y in the order of the systematic sampling."""
    support = np.flatnonzero(y)
    if support.size <= m:
        return y.copy()
    kept, left, rest = _keep(y, m, recompute)
    result = np.zeros_like(y)
    result[kept] = y[kept]
    if left:
        others = np.array([i for i in support if i not in kept])
        result[others[_systematic(y[others], left, u)]] = rest / left
    return result


def _sum(masses):
    """In turn, as the loops add: ties are decided by rounding."""
    return np.cumsum(masses)[-1] if len(masses) else 0.0


def _parted(matrix, nodes, values, n_picks):
    """The entries whose rows are read whole; the edges (from, to, mass) of all others in turn, and their picks."""
    row = [slice(*matrix.indptr[v : v + 2]) for v in nodes]
    masses = np.array([x * _sum(matrix.weights[edges]) for x, edges in zip(values, row, strict=True)])
    degrees = np.array([edges.stop - edges.start for edges in row])
    share = _sum(masses) / n_picks
    whole = degrees * share <= 2 * masses
    others = [
        (v, to, x * w)
        for v, x, edges, reads in zip(nodes, values, row, whole, strict=True)
        for to, w in zip(matrix.indices[edges], matrix.weights[edges], strict=True)
        if not reads
    ]
    return whole, others, int(np.ceil(_sum(masses[~whole]) / share))


def _product(matrix, nodes, values, n_picks, u):
    """The product with x = (nodes, values), its nodes in the order in which they are reached; edges read.

    With n_picks = 0 every row is read whole.
    """
    whole, others, n_sampled = np.ones(len(nodes), bool), [], 0
    if n_picks:
        whole, others, n_sampled = _parted(matrix, nodes, values, n_picks)
    y, work = {}, n_sampled
    for v, x in zip(nodes[whole], values[whole], strict=True):
        edges = slice(*matrix.indptr[v : v + 2])
        work += edges.stop - edges.start
        for to, w in zip(matrix.indices[edges], matrix.weights[edges], strict=True):
            y[to] = y.get(to, 0.0) + x * w
    if n_sampled:
        masses = np.array([mass for _, _, mass in others])
        for place in _systematic(masses, n_sampled, u):
            to = others[place][1]
            y[to] = y.get(to, 0.0) + masses.sum() / n_sampled
    return np.array(list(y), np.uint32), np.array(list(y.values())), work


def _is_whole(matrix, nodes, budget):
    return np.diff(matrix.indptr)[nodes].sum() <= 2 * PICKS * budget


def _step(matrix, nodes, values, budget, u_product, u_compress):
    """C(product), and the edges read."""
    n_picks = 0 if _is_whole(matrix, nodes, budget) else PICKS * budget
    nodes, values, work = _product(matrix, nodes, values, n_picks, u_product)
    if nodes.size <= budget:
        return nodes, values, work
    y = np.zeros(matrix.order.size)
    y[nodes] = values
    y = _compressed(y, budget, u_compress)
    # What is kept comes first, as `keep_largest` leaves it (which entries these are is tested below).
    kept, _ = keep_largest(nodes, values, 0, nodes.size, budget)
    after = np.concatenate([nodes[:kept], np.setdiff1d(np.flatnonzero(y), nodes[:kept])]).astype(np.uint32)
    return after, y[after], work


def _uniforms(source, step, seed):
    """Of compression, and of the product."""
    counter = (np.uint64(word) for word in (source, step, 0, int(Use.COMPRESS)))
    words = [np.uint64(word) for word in philox(*counter, np.uint64(seed))]
    return unit(*words[:2]), unit(*words[2:])


@pytest.mark.parametrize("laplacian", LAPLACIANS)
@pytest.mark.parametrize("budget", [1, 2, 3])
def test_the_loops_do_what_the_oracle_does_with_the_same_uniforms(weighted_graph, karate, laplacian, budget):
    seed, n_sampled = 7, 0
    for graph in (weighted_graph, karate, _hub()):
        matrix = relabelled(graph, laplacian)
        sampler = grf.CompressedPowers(budget, 6, laplacian=laplacian)
        features = grf.sample_features(graph, sampler, seed=seed, dtype="float64")
        of_step = [features.matrix_from_modulation(np.eye(7)[k]).toarray() for k in range(7)]
        for source in range(0, graph.n_nodes, 3):
            nodes, values, work = matrix.rank[[source]], np.ones(1), 0
            for k in range(1, 7):
                n_sampled += not _is_whole(matrix, nodes, budget)
                u_compress, u_product = _uniforms(source, k, seed)
                nodes, values, edges = _step(matrix, nodes, values, budget, u_product, u_compress)
                work += edges
                expected = np.zeros(graph.n_nodes)
                there = matrix.order[nodes]
                expected[there] = values * matrix.level[source] / matrix.level[there]
                np.testing.assert_allclose(of_step[k][source], expected, rtol=1e-6, atol=0)
            assert features.take([source]).n_steps == work
    assert n_sampled > 20


def _outcomes_of_product(matrix, nodes, values, budget):
    """Every (probability, nodes, values) that the loops' product of a state can have."""
    if _is_whole(matrix, nodes, budget):
        return [(1.0, *_product(matrix, nodes, values, 0, 0.0)[:2])]
    _, others, n_sampled = _parted(matrix, nodes, values, PICKS * budget)
    breaks = _breaks(np.array([mass for _, _, mass in others]), n_sampled) if n_sampled else [0.0, 1.0]
    outcomes = []
    for a, b in itertools.pairwise(breaks):
        outcomes.append((b - a, *_loop_product(matrix, nodes, values, PICKS * budget, (a + b) / 2)[:2]))
    return outcomes


def _loop_product(matrix, nodes, values, n_picks, u):
    """`product_within`, with the number of edges that it reads."""
    n, size = nodes.size, matrix.order.size
    buffer, dense = np.zeros(n + 2 * n_picks + 2, np.uint32), np.zeros(size)
    buffer[:n] = nodes
    loop = (*matrix[:4], buffer, np.ascontiguousarray(values), 0, n, n_picks, u, dense)
    end, work = product_within(*loop)
    assert np.count_nonzero(dense) == np.unique(buffer[n:end]).size == end - n
    return buffer[n:end], dense[buffer[n:end]], work


def _outcomes_of_compression(y, budget):
    """Every (probability, C(y)) that the loops can make of a dense y."""
    support = np.flatnonzero(y).astype(np.uint32)
    if support.size <= budget:
        return [(1.0, y)]
    nodes, values = support.copy(), y[support]
    kept, total = keep_largest(nodes, values, 0, nodes.size, budget)
    rest = np.sort(nodes[kept:])
    breaks = _breaks(y[rest], budget - kept) if kept < budget else [0.0, 1.0]
    outcomes = []
    for a, b in itertools.pairwise(breaks):
        nodes[kept:] = rest
        values[kept:] = y[rest]
        pick(nodes, values, kept, nodes.size, total, budget - kept, (a + b) / 2)
        after = np.zeros_like(y)
        after[nodes[:budget]] = values[:budget]
        outcomes.append((b - a, after))
    return outcomes


def _dense(matrix):
    """The matrix of the loops: x_k = x_{k-1} M."""
    rows = np.repeat(np.arange(matrix.order.size), np.diff(matrix.indptr))
    dense = np.zeros((matrix.order.size,) * 2)
    dense[rows, matrix.indices] = matrix.weights
    return dense


@pytest.mark.parametrize("budget", [1, 2, 3, 4])
@pytest.mark.parametrize("laplacian", LAPLACIANS)
@pytest.mark.parametrize("which", ["weighted", "hub"])
def test_a_step_is_exactly_unbiased_from_any_state(weighted_graph, which, laplacian, budget):
    # By induction, E[x_k] = W^k e_i. Uniforms between two break points give the same picks.
    graph = weighted_graph if which == "weighted" else _hub()
    matrix = relabelled(graph, laplacian)
    walk = _dense(matrix)
    rng = np.random.default_rng(0)
    n_sampled = n_mixed = 0
    for start in range(graph.n_nodes):
        nodes, values = matrix.rank[[start]], np.ones(1)
        for _ in range(4):
            x = np.zeros(graph.n_nodes)
            x[nodes] = values
            mean = np.zeros_like(x)
            products = _outcomes_of_product(matrix, nodes, values, budget)
            for p, reached, masses in products:
                y = np.zeros_like(x)
                y[reached] = masses
                mean += sum(p * q * after for q, after in _outcomes_of_compression(y, budget))
            np.testing.assert_allclose(mean, x @ walk, rtol=0, atol=1e-12)
            if len(products) > 1:
                n_sampled += 1
                n_mixed += _parted(matrix, nodes, values, PICKS * budget)[0].any()
            nodes, values, _ = _step(matrix, nodes, values, budget, *rng.random(2))
    if which == "hub":
        assert n_sampled > 5
        assert n_mixed or budget < 3


@pytest.mark.parametrize("laplacian", LAPLACIANS)
def test_values_of_the_loops_are_powers_of_w_at_another_level(weighted_graph, laplacian):
    matrix = relabelled(weighted_graph, laplacian)
    order = matrix.order.astype(int)
    level = load_degrees(weighted_graph) ** 0.25 if laplacian == "normalized" else np.ones(8)
    walk = weighted_graph.walk_matrix(laplacian).toarray() * level / level[:, None]
    np.testing.assert_allclose(_dense(matrix), walk[np.ix_(order, order)], rtol=1e-15)
    np.testing.assert_array_equal(matrix.rank[order], np.arange(8))


def test_a_threshold_that_is_not_recomputed_is_biased():
    y = np.array([10.0, 6.0, 1.0, 1.0, 1.0, 1.0])
    for recompute, second in ((True, 6.0), (False, 5.0)):
        kept, left, _ = _keep(y, 3, recompute)
        breaks = _breaks(np.delete(y, kept), left)
        mean = sum((b - a) * _compressed(y, 3, (a + b) / 2, recompute) for a, b in itertools.pairwise(breaks))
        # Else: an inclusion probability of 1.2, of which one pick is had.
        assert mean[1] == pytest.approx(second)


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


@pytest.mark.parametrize("u", [0.0, 0.3, 1 - 2.0**-53])
def test_rounding_never_changes_the_number_of_picks_of_a_product(u):
    # A pick more or less would change the sum by its mass.
    matrix = relabelled(_hub(), "normalized")
    rng = np.random.default_rng(2)
    rows = np.add.reduceat(matrix.weights, matrix.indptr[:-1])
    n_sampled = 0
    for _ in range(200):
        nodes = rng.permutation(14)[: rng.integers(1, 14)].astype(np.uint32)
        values = rng.exponential(size=nodes.size) ** rng.integers(1, 6)
        n_picks = int(rng.integers(1, 12))
        reached, masses, work = _loop_product(matrix, nodes, values, n_picks, u)
        expected = _product(matrix, nodes, values, n_picks, u)
        np.testing.assert_array_equal(reached, expected[0])
        np.testing.assert_allclose(masses, expected[1], rtol=1e-12)
        assert work == expected[2] <= 2 * n_picks + 1
        assert masses.sum() == pytest.approx(values @ rows[nodes], rel=1e-13)
        n_sampled += not _parted(matrix, nodes, values, n_picks)[0].all()
    assert n_sampled > 100


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
        grf.CompressedPowers(graph.walk_matrix(laplacian).nnz // 2 + 1, 9, laplacian=laplacian),
        grf.CutPowers(graph.n_nodes, 9, laplacian=laplacian),
    ):
        features = grf.sample_features(graph, sampler, seed=0, dtype="float64")
        f = kernel.modulation(10, scale=graph.laplacian_scale(laplacian))
        np.testing.assert_allclose(features.matrix_from_modulation(f).toarray(), expected, atol=1e-7)


def test_a_budget_of_half_the_edges_leaves_nothing_to_chance(karate):
    edges = karate.walk_matrix().nnz
    exact = grf.sample_features(karate, grf.ExactPowers(4))
    for seed in (0, 1):
        assert _same(exact, grf.sample_features(karate, grf.CompressedPowers(edges // 2, 4), seed=seed))
    assert not _same(exact, grf.sample_features(karate, grf.CompressedPowers(edges // 2 - 8, 4), seed=0))


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
    budgets = getattr(sampler, "budgets", np.full(6, grid.n_nodes))
    for row in range(0, 144, 7):
        values = slice(features._visit_ptr[row], features._visit_ptr[row + 1])
        entries = slice(features._indptr[row], features._indptr[row + 1])
        columns, steps = features._indices[entries], features._steps[values]
        assert (np.diff(columns) > 0).all()
        pairs = list(zip(np.repeat(columns, features._visits_per_entry[entries]), steps, strict=True))
        assert pairs == sorted(set(pairs))
        assert (np.bincount(steps, minlength=6) <= budgets).all()
        if isinstance(sampler, grf.CutPowers):
            assert columns.size == sampler.budget
    assert features._counts.dtype == np.float32
    assert (features._counts > 0).all()


def test_work_counts_the_edges_read(grid):
    degrees = np.diff(grid.adjacency.indptr)
    features = grf.sample_features(grid, grf.ExactPowers(2), nodes=[0, 70], seed=0)
    neighbours = [grid.adjacency.indices[grid.adjacency.indptr[v] : grid.adjacency.indptr[v + 1]] for v in (0, 70)]
    assert features.n_steps == sum(degrees[v] + degrees[n].sum() for v, n in zip((0, 70), neighbours, strict=True))
    for budget in (1, 3):
        compressed = grf.sample_features(grid, grf.CompressedPowers(budget, 10), nodes=[70], seed=0)
        assert compressed.n_steps <= 10 * (2 * budget + 1)


def test_a_node_with_many_neighbours_costs_no_more_than_the_budget():
    n = 10_001
    star = grf.from_edges(np.zeros(n - 1, int), np.arange(1, n))
    exact = grf.sample_features(star, grf.ExactPowers(8), nodes=[0, 5])
    assert exact.n_steps == 15 * (n - 1) + 1
    for source in (0, 5):
        features = grf.sample_features(star, grf.CompressedPowers(16, 8), nodes=[source], seed=0)
        assert features.n_steps <= 8 * (2 * 16 + 1)
        # Every second step all is at the centre; what is sampled of its neighbours sums to what it should.
        for k in range(9):
            row = features.matrix_from_modulation(np.eye(9)[k]) @ np.sqrt(star.degrees)
            assert row[0] == pytest.approx(np.sqrt(star.degrees[source]), rel=1e-5)


def test_budgets_follow_the_table():
    sampler = grf.CompressedPowers(10, lengths=grf.Survival([1.0, 0.7, 0.3, 0.3, 0.01]))
    np.testing.assert_array_equal(sampler.budgets, [10, 7, 3, 3, 1])
    np.testing.assert_array_equal(grf.CompressedPowers(10, 3).budgets, [10] * 4)
    table = np.ceil(10 * 0.9 ** np.arange(49) - 1e-9)
    np.testing.assert_array_equal(grf.CompressedPowers(10).budgets, table)
    np.testing.assert_array_equal(sampler.survival.table, np.ones(5))


def test_a_choice_of_lengths_becomes_a_table_for_each_graph(grid, karate):
    sampler = grf.CompressedPowers(16, lengths=grf.AutoLengths(KERNEL))
    with pytest.raises(ValueError, match="resolved"):
        _ = sampler.budgets
    for graph in (grid, karate):
        resolved = sampler.resolved(graph)
        walks = grf.RandomWalks(16, grf.AutoLengths(KERNEL)).resolved(graph)
        assert resolved.lengths == walks.survival
        assert resolved.budgets[1] > resolved.budgets[-1]
        assert resolved.resolved(graph) is resolved
        assert _same(grf.sample_features(graph, sampler, seed=1), grf.sample_features(graph, resolved, seed=1))
    assert "Survival" in grf.sample_features(grid, sampler, nodes=[0], seed=1).description["lengths"]
    flat = grf.RegularizedLaplacian(0.3, 2, laplacian="combinatorial")
    combinatorial = grf.CompressedPowers(4, lengths=grf.AutoLengths(flat), laplacian="combinatorial")
    assert grf.sample_features(grid, combinatorial, seed=0).laplacian == "combinatorial"
    assert grf.ExactPowers(3).resolved(grid) == grf.ExactPowers(3)
    assert grf.CutPowers(2, 3).resolved(grid) == grf.CutPowers(2, 3)


@pytest.mark.parametrize("budgets", [{"budget": 1, "max_length": 5}, {"budget": 4, "lengths": FALLING}], ids=str)
@pytest.mark.parametrize("which", ["weighted", "plain", "hub", "combinatorial"])
@pytest.mark.filterwarnings("ignore::graphrf.features.TruncationWarning")
def test_features_and_gram_of_compressed_powers_are_unbiased(which, budgets):
    graph = _hub() if which == "hub" else _irregular(weighted=which != "plain")
    laplacian = "combinatorial" if which == "combinatorial" else "normalized"
    kernel = grf.RegularizedLaplacian(0.5 if which == "combinatorial" else 1.0, 2, laplacian=laplacian)
    sampler = grf.CompressedPowers(**budgets, laplacian=laplacian)
    left, right, root = _projections(graph, kernel, sampler.survival)
    draw = _draws(graph, sampler, kernel, left, right)
    assert_unbiased(draw, _truth(left, right, root), n0=400)


@pytest.mark.filterwarnings("ignore::graphrf.features.TruncationWarning")
def test_the_unbiasedness_test_notices_lost_weight():
    # 3 % of all entries but the diagonal.
    sampler = grf.CompressedPowers(3, 5)
    graph = _irregular(weighted=True)
    left, right, root = _projections(graph, KERNEL, sampler.survival)

    def change(phi):
        return phi * np.where(np.eye(9, dtype=bool), 1.0, 0.97)

    with pytest.raises(AssertionError, match="biased"):
        assert_unbiased(_draws(graph, sampler, KERNEL, left, right, change), _truth(left, right, root), n0=1000)


@pytest.mark.filterwarnings("ignore::graphrf.features.TruncationWarning")
def test_the_unbiasedness_test_notices_picks_that_stand_for_too_little(monkeypatch):
    # Running sums of which 2 % are missing change nothing but the mass of a pick: which rows are read whole, and
    # which edges are picked of the others, follows from their ratios.
    def light(graph, laplacian):
        matrix = relabelled(graph, laplacian)
        cumulative = 0.98 * matrix.cumulative
        cumulative.setflags(write=False)
        return matrix._replace(cumulative=cumulative)

    monkeypatch.setattr(prepared_powers, "relabelled", light)
    graph = _hub()
    exact = grf.sample_features(graph, grf.CompressedPowers(graph.n_edges, 5), seed=0)
    assert _same(exact, grf.sample_features(graph, grf.ExactPowers(5)))
    sampler = grf.CompressedPowers(4, lengths=FALLING)
    left, right, root = _projections(graph, KERNEL, sampler.survival)
    with pytest.raises(AssertionError, match="biased"):
        assert_unbiased(_draws(graph, sampler, KERNEL, left, right), _truth(left, right, root), n0=1000)


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


def test_cut_powers_keep_the_largest_sums(grid, karate):
    for graph in (grid, karate):
        exact = grf.sample_features(graph, grf.ExactPowers(6)).matrix_from_modulation(np.ones(7)).toarray()
        cut = grf.sample_features(graph, grf.CutPowers(9, 6)).matrix_from_modulation(np.ones(7)).toarray()
        for row in range(graph.n_nodes):
            kept = cut[row] > 0
            assert kept.sum() == 9
            np.testing.assert_array_equal(cut[row, kept], exact[row, kept])
            assert exact[row, kept].min() >= exact[row, ~kept].max() - 1e-6


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
        (
            grf.CompressedPowers(200, lengths=grf.Survival(np.linspace(1, 0.5, 30))),
            "lower budget(?! or max_length)",
        ),
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
        (lambda: grf.CompressedPowers(4, 8, lengths=FALLING), ValueError, "`max_length` and `lengths`"),
        (lambda: grf.CompressedPowers(4, 8, lengths=0.1), ValueError, "`max_length` and `lengths`"),
        (lambda: grf.CompressedPowers(4, 2.5), TypeError, "`max_length`"),
        (lambda: grf.CompressedPowers(4, lengths=grf.Stratified(0.1)), TypeError, "a Survival table"),
        (lambda: grf.CompressedPowers(4, lengths=0.1), TypeError, "a Survival table"),
        (
            lambda: grf.CompressedPowers(4, lengths=grf.AutoLengths(KERNEL), laplacian="combinatorial"),
            ValueError,
            "pass laplacian='normalized'",
        ),
        (lambda: grf.CompressedPowers(4, 8, laplacian="random"), ValueError, "'normalized', 'combinatorial'"),
        (lambda: grf.CompressedPowers(4, lengths=grf.AutoLengths(KERNEL)).survival, ValueError, "resolved"),
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
    lengths = grf.AutoLengths(grf.Diffusion(4.0))
    chosen = grf.GraphGPRegressor(grid, sampler=grf.CompressedPowers(64, lengths=lengths), seed=0)
    chosen.fit(nodes, y)
    assert isinstance(chosen.sampler_.lengths, grf.Survival)
    assert chosen.kernel_.truncation_length(1e-2) <= chosen.sampler_.budgets.size
    mean = trained.predict()
    truth = np.sin(np.arange(144) // 12 / 3.0) + np.cos(np.arange(144) % 12 / 3.0)
    assert np.sqrt(np.mean((mean - truth) ** 2)) < 0.3
    assert np.sqrt(np.mean((chosen.predict() - truth) ** 2)) < 0.3
