"""Local queries from outside: scores against dense ones, guarantees, reproducibility."""

from __future__ import annotations

from collections.abc import Callable

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

import graphrf as grf
from graphrf.pagerank import local_pagerank, pagerank
from tests.pagerank.oracles import dense_pagerank, directed_graph, lopsided_graph, transition_matrix

GRAPHS = [directed_graph, lopsided_graph]


def exact(graph: grf.Graph, source: int, p_halt: float) -> np.ndarray:
    return dense_pagerank(graph, p_halt, (np.arange(graph.n_nodes) == source).astype(float))


def laws(graph: grf.Graph, p_halt: float) -> np.ndarray:
    """`exact` for every source, of a graph without dangling nodes."""
    return p_halt * np.linalg.inv(np.eye(graph.n_nodes) - (1 - p_halt) * transition_matrix(graph))


def cycle(n: int) -> grf.Graph:
    return grf.from_edges(np.arange(n), np.roll(np.arange(n), -1))


def same(one: sp.csr_array, other: sp.csr_array) -> bool:
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("data", "indices", "indptr")
    )


@pytest.fixture(scope="module")
def clubs() -> grf.Graph:
    """A connected graph of 300 nodes in five groups."""
    return grf.Graph(nx.to_scipy_sparse_array(nx.connected_caveman_graph(30, 10)))


# -- pushing only ----------------------------------------------------------------------------------


@pytest.mark.parametrize("make_graph", GRAPHS)
@pytest.mark.parametrize("p_halt", [0.001, 0.15, 0.95])
def test_pushing_far_is_exact(make_graph: Callable[[], grf.Graph], p_halt: float) -> None:
    graph = make_graph()
    result = local_pagerank(graph, np.arange(graph.n_nodes), p_halt=p_halt, max_residual=1e-14)
    for source in range(graph.n_nodes):
        assert result.scores[[source]].toarray()[0] == pytest.approx(
            exact(graph, source, p_halt), abs=1e-11
        )
    assert result.stderr is None
    assert result.seed is None


@pytest.mark.parametrize("make_graph", GRAPHS)
@pytest.mark.parametrize("max_residual", [10.0, 0.1, 1e-2, 1e-4])
def test_pushed_scores_are_lower_bounds_whose_error_is_the_residual(
    make_graph: Callable[[], grf.Graph], max_residual: float
) -> None:
    graph = make_graph()
    result = local_pagerank(graph, np.arange(graph.n_nodes), max_residual=max_residual)
    for source in range(graph.n_nodes):
        missing = exact(graph, source, 0.15) - result.scores[[source]].toarray()[0]
        assert missing.min() > -1e-14
        assert missing.sum() == pytest.approx(result.residual[source], abs=1e-13)


@pytest.mark.parametrize("max_residual", [0.1, 1e-2, 1e-3, 1e-4])
def test_on_undirected_graphs_a_node_misses_at_most_the_residual_of_its_edges(
    clubs: grf.Graph, max_residual: float
) -> None:
    result = local_pagerank(clubs, [0, 7, 123], max_residual=max_residual)
    truth = laws(clubs, 0.15)
    for row, source in enumerate(result.sources):
        missing = truth[source] - result.scores[[row]].toarray()[0]
        assert np.all(missing <= max_residual * clubs.degrees)
        assert missing.max() > 0.01 * max_residual  # the bound is not idle


def test_a_query_looks_at_its_neighbourhood_alone() -> None:
    small, large = (local_pagerank(cycle(n), 7, max_residual=1e-6) for n in (1_000, 100_000))
    assert np.array_equal(small.touched, large.touched)
    assert large.touched[0] < 200
    assert np.array_equal(small.scores.data, large.scores.data)


# -- walks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("make_graph", GRAPHS)
@pytest.mark.parametrize("p_halt", [0.02, 0.15, 0.95])
def test_walks_find_every_score_on_weighted_graphs_with_loops_and_dangling_nodes(
    make_graph: Callable[[], grf.Graph], p_halt: float
) -> None:
    graph = make_graph()
    result = local_pagerank(
        graph,
        np.arange(graph.n_nodes),
        p_halt=p_halt,
        epsilon=0.1,
        delta=0.01,
        failure=1e-8,
        seed=4,
    )
    for source in range(graph.n_nodes):
        truth = exact(graph, source, p_halt)
        scores = result.scores[[source]].toarray()[0]
        assert np.all(np.abs(scores - truth)[truth >= 0.01] <= 0.1 * truth[truth >= 0.01])
        assert np.all(scores[truth < 0.01] < 1.1 * 0.01)
    assert result.walks.sum() > 0


@pytest.mark.parametrize("epsilon", [0.5, 0.2])
@pytest.mark.parametrize("k", [None, 1, 10])
def test_the_guarantee_holds_for_all_nodes_at_once(
    clubs: grf.Graph, epsilon: float, k: int | None
) -> None:
    sources = np.arange(0, 300, 7)
    result = local_pagerank(clubs, sources, k=k, epsilon=epsilon, delta=0.02, failure=0.25, seed=5)
    assert result.walks.min() > 0
    failures = 0
    for row, truth in enumerate(laws(clubs, 0.15)[sources]):
        best, scores = (values[row] for values in result.best(k or clubs.n_nodes))
        delta = result.delta[row]
        got = np.full(clubs.n_nodes, np.nan if k else 0.0)
        got[best[best >= 0]] = scores[best >= 0]
        covered = (truth >= delta) & ~np.isnan(got)
        failed = bool((np.abs(got - truth) > epsilon * truth)[covered].any())
        failed |= bool((got[~covered & ~np.isnan(got)] >= (1 + epsilon) * delta).any())
        if k:
            order = np.sort(truth)[::-1][:k]
            assert order[-1] >= delta or delta == 0.02
            reached = order >= delta
            failed |= bool((scores < (1 - epsilon) * order)[reached].any())
            share = ((1 - epsilon) / (1 + epsilon)) ** 2
            failed |= bool((truth[best] < share * order)[reached].any())
        failures += failed
    # Far fewer than stated, since Chernoff's bound is cautious.
    assert failures <= stats.binom.isf(1e-6, sources.size, 0.25)


def test_standard_errors_cover_at_the_stated_rate(clubs: grf.Graph) -> None:
    n = 400
    truth = laws(clubs, 0.15)[0]
    watched = np.argsort(-truth)[:12]
    scores, errors = np.empty((n, 12)), np.empty((n, 12))
    for key in range(n):
        result = local_pagerank(clubs, 0, delta=0.05, seed=key, n_threads=1)
        scores[key] = result.scores.toarray()[0, watched]
        errors[key] = result.stderr.toarray()[0, watched]
    assert (errors > 0).all()
    ratio = (errors**2).mean(axis=0) / scores.var(axis=0, ddof=1)
    # A variance from 400 draws has a relative deviation
    # of sqrt(2 / 399), and a little more for its tails.
    assert np.all(np.abs(ratio - 1) < 5 * 0.09)
    covered = np.abs(scores - truth[watched]) <= stats.t.ppf(0.975, 15) * errors
    rate = covered.mean(axis=1)
    assert rate.mean() == pytest.approx(0.95, abs=0.01 + 5 * rate.std(ddof=1) / np.sqrt(n))


def test_a_batch_is_its_single_queries_bit_for_bit_on_any_number_of_threads(
    clubs: grf.Graph,
) -> None:
    sources = np.r_[np.arange(150), 3, 3]
    for options in ({"seed": 9, "k": 5}, {"seed": 9, "delta": 0.05}, {"max_residual": 1e-3}):
        batch = local_pagerank(clubs, sources, n_threads=1, **options)
        threaded = local_pagerank(clubs, sources, n_threads=3, **options)
        assert same(batch.scores, threaded.scores)
        assert np.array_equal(batch.steps, threaded.steps)
        for row in (0, 3, 77, 151):
            single = local_pagerank(clubs, sources[row], **options)
            assert same(single.scores, batch.scores[[row]])
            if batch.stderr is not None:
                assert same(single.stderr, batch.stderr[[row]])


def test_another_seed_gives_other_bits_and_none_draws_one(clubs: grf.Graph) -> None:
    one, other = (local_pagerank(clubs, 0, delta=0.05, seed=seed) for seed in (1, 2))
    assert not np.array_equal(one.scores.toarray(), other.scores.toarray())
    drawn = local_pagerank(clubs, 0, delta=0.05)
    assert same(drawn.scores, local_pagerank(clubs, 0, delta=0.05, seed=drawn.seed).scores)


def test_equal_weights_are_no_weights_and_the_unit_does_not_matter(clubs: grf.Graph) -> None:
    heavy = grf.Graph(7.0 * clubs.adjacency)
    assert same(
        local_pagerank(clubs, 4, k=8, seed=1).scores, local_pagerank(heavy, 4, k=8, seed=1).scores
    )


# -- shapes, names and edge cases ------------------------------------------------------------------


def test_one_source_gives_a_list_of_names_and_several_give_lists() -> None:
    graph = directed_graph()
    one = local_pagerank(graph, "a", k=3, max_residual=1e-12)
    several = local_pagerank(graph, ["a", "c", "a"], k=3, max_residual=1e-12)
    truth = exact(graph, 0, 0.15)
    assert [name for name, _ in one.top()] == ["abcdefg"[i] for i in np.argsort(-truth)[:3]]
    assert [score for _, score in one.top()] == pytest.approx(np.sort(truth)[::-1][:3], abs=1e-10)
    assert several.top()[0] == several.top()[2] == one.top()
    assert one.top(1) == one.top()[:1]
    positions, scores = several.best(5)
    assert positions.shape == scores.shape == (3, 5)
    assert positions[0, 3:].tolist() == [-1, -1]
    assert scores[0, 3:].tolist() == [0.0, 0.0]
    assert several.scores.shape == (3, 7)
    assert "3 sources" in repr(several)
    assert "walks" in repr(local_pagerank(graph, "a", seed=1))


@pytest.mark.parametrize("options", [{"seed": 1}, {"max_residual": 1e-9}, {"seed": 1, "k": 4}])
def test_a_source_without_edges_keeps_everything(options: dict) -> None:
    for graph, source in ((directed_graph(), 6), (directed_graph(), 3), (grf.Graph([[0.0]]), 0)):
        result = local_pagerank(graph, source, **options)
        assert result.scores.toarray()[0].tolist() == [
            float(i == source) for i in range(graph.n_nodes)
        ]
        assert result.residual[0] == 0


def test_a_failure_beyond_floating_point_is_as_good_as_none(clubs: grf.Graph) -> None:
    truth = laws(clubs, 0.15)[11]
    scores = local_pagerank(clubs, 11, delta=1e-20, failure=1e-305, seed=0).scores.toarray()[0]
    assert np.all(np.abs(scores - truth) <= 0.5 * truth)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"sources": []}, ValueError, "`sources` must hold at least one"),
        ({"sources": 300}, ValueError, "`sources` must be positions"),
        ({"p_halt": 1.0}, ValueError, "`p_halt`"),
        ({"epsilon": 0.6}, ValueError, "`epsilon`"),
        (
            {"max_residual": 1e-3, "epsilon": 0.1},
            ValueError,
            "`epsilon` must be None with `max_residual`",
        ),
        ({"max_residual": 1e-3, "seed": 1}, ValueError, "`seed` must be None with `max_residual`"),
    ],
)
def test_bad_arguments_are_named(
    clubs: grf.Graph, options: dict, error: type[Exception], message: str
) -> None:
    options = {"sources": 0} | options
    with pytest.raises(error, match=message):
        local_pagerank(clubs, options.pop("sources"), **options)


def test_integer_sources_are_positions_where_integer_keys_are_names() -> None:
    graph = grf.load_graph(nx.Graph([(10, 3), (3, 2), (2, 1), (1, 0), (0, 4), (4, 5)]))
    assert graph.nodes == (10, 3, 2, 1, 0, 4, 5)
    named = pagerank(graph, personalization={3: 1.0}).scores
    with pytest.raises(
        ValueError, match="`sources` must say whether integers are names or positions"
    ):
        local_pagerank(graph, sources=[3])
    placed = local_pagerank(graph, sources=graph.positions([3]), max_residual=1e-9)
    assert placed.sources.tolist() == [3]
    for sources in (graph.index(3), graph.index([3])):
        found = local_pagerank(graph, sources=sources, max_residual=1e-9).scores.toarray().ravel()
        np.testing.assert_allclose(found, named, atol=1e-6)
    assert np.abs(placed.scores.toarray().ravel() - named).sum() > 0.5
