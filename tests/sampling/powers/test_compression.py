"""One step of compressed powers: unbiased by enumeration, and as an oracle in Python."""

import itertools

import numpy as np
import pytest

import graphrf as grf
from graphrf.sampling.powers.compression import keep_largest, pick, product_within
from graphrf.sampling.powers.compression import product as _product_loop
from graphrf.sampling.powers.powers import PICKS
from graphrf.sampling.powers.prepared import relabelled
from graphrf.sampling.walks.philox import Use, philox, unit

LAPLACIANS = ["normalized", "combinatorial"]


def hub_graph():
    """Two nodes with many neighbours, some shared, a path between the others; weighted."""
    rng = np.random.default_rng(3)
    src, dst = (
        [0] * 11 + [1] * 7 + list(range(2, 13)),
        [*range(1, 12), *range(6, 13), *range(3, 14)],
    )
    return grf.from_edges(np.array(src), np.array(dst), rng.exponential(size=len(src)))


# -- an oracle in plain Python ---------------------------------------------------------------------
#
# States are pairs (nodes, values), in the order in which the loops hold them and with the loops'
# numbers of nodes.


def _keep(y, m):
    """Entries that compression keeps, the largest first; places left, sum of the rest."""
    order = np.argsort(-y, kind="stable")
    kept, total = [], y.sum()
    for i in order:
        left, rest = m - len(kept), total - y[kept].sum()
        if left == 0 or y[i] * left < rest:
            break
        kept.append(i)
    return kept, m - len(kept), total - y[kept].sum()


def _systematic(masses, n, u):
    """Places of n points (u + j) total / n in the running sum of the masses."""
    points = (u + np.arange(n)) * masses.sum() / n
    return np.minimum(np.searchsorted(np.cumsum(masses), points, side="right"), masses.size - 1)


def _breaks(masses, n):
    """The uniforms, in [0, 1], at which systematic sampling of n changes its picks."""
    return np.unique(
        np.concatenate([[0.0, 1.0], np.mod(np.cumsum(masses) * n / masses.sum(), 1.0)])
    )


def _compressed(y, m, u):
    """C(y) for a given uniform, dense; y in the order of the systematic sampling."""
    support = np.flatnonzero(y)
    if support.size <= m:
        return y.copy()
    kept, left, rest = _keep(y, m)
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
    """Entries whose rows are read whole; edges (from, to, mass) of others, and picks."""
    row = [slice(*matrix.indptr[v : v + 2]) for v in nodes]
    masses = np.array(
        [x * _sum(matrix.weights[edges]) for x, edges in zip(values, row, strict=True)]
    )
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
    """The product with x = (nodes, values), nodes in the order reached; edges read.

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
    # What is kept comes first, as `keep_largest` leaves
    # it (which entries these are is tested below).
    kept, _ = keep_largest(nodes, values, 0, nodes.size, budget)
    after = np.concatenate([nodes[:kept], np.setdiff1d(np.flatnonzero(y), nodes[:kept])]).astype(
        np.uint32
    )
    return after, y[after], work


def _uniforms(source, step, seed):
    """Of compression, and of the product."""
    counter = (np.uint64(word) for word in (source, step, 0, int(Use.COMPRESS)))
    words = [np.uint64(word) for word in philox(*counter, np.uint64(seed))]
    return unit(*words[:2]), unit(*words[2:])


@pytest.mark.parametrize("laplacian", LAPLACIANS)
@pytest.mark.parametrize("budget", [1, 2, 3])
def test_the_loops_do_what_the_oracle_does_with_the_same_uniforms(
    weighted_graph, karate, laplacian, budget
):
    seed, n_sampled = 7, 0
    for graph in (weighted_graph, karate, hub_graph()):
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
    breaks = (
        _breaks(np.array([mass for _, _, mass in others]), n_sampled) if n_sampled else [0.0, 1.0]
    )
    outcomes = []
    for a, b in itertools.pairwise(breaks):
        outcomes.append(
            (b - a, *_loop_product(matrix, nodes, values, PICKS * budget, (a + b) / 2)[:2])
        )
    return outcomes


def _loop_product(matrix, nodes, values, n_picks, u):
    """`product_within`, with the number of edges that it reads."""
    n, size = nodes.size, matrix.order.size
    buffer, dense = np.zeros(n + 2 * n_picks + 2, np.uint32), np.zeros(size)
    buffer[:n] = nodes
    end, work = product_within(
        matrix, buffer, np.ascontiguousarray(values), 0, n, n_picks, u, dense
    )
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
    graph = weighted_graph if which == "weighted" else hub_graph()
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


def test_shares_that_underflow_list_no_node_and_no_node_twice():
    indptr, indices = np.array([0, 2, 3, 3]), np.array([2, 1, 2], np.uint32)
    nodes, dense = np.array([0, 1, 9, 9, 9, 9], np.uint32), np.zeros(3)
    for weights, reached in (([1e-200, 1.0, 1e-200], [1]), ([1e-200, 1.0, 1.0], [1, 2])):
        end = _product_loop(
            indptr, indices, np.array(weights), nodes, np.full(2, 1e-150), 0, 2, dense
        )
        np.testing.assert_array_equal(nodes[2:end], reached)
        np.testing.assert_array_equal(np.flatnonzero(dense), reached)
        dense[:] = 0.0


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
    matrix = relabelled(hub_graph(), "normalized")
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
