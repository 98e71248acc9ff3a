"""The loops of local PageRank: what pushing keeps, what walks keep on average, errors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import graphrf as grf
from graphrf.pagerank import node_table, push, row_scores
from graphrf.pagerank.local import visit_variance_bound
from graphrf.sampling.walks.transitions import transitions
from tests.pagerank.oracles import directed_graph, lopsided_graph, transition_matrix
from tests.support.sequential import assert_unbiased

KEY = np.uint64(7)


def plain_star() -> grf.Graph:
    """A star with a tail and a triangle, unweighted, beside an isolated node."""
    edges = [(0, 1), (0, 2), (0, 3), (0, 4), (4, 5), (5, 6), (4, 6)]
    adjacency = np.zeros((8, 8))
    for u, v in edges:
        adjacency[u, v] = adjacency[v, u] = 1.0
    return grf.Graph(adjacency)


GRAPHS = [directed_graph, lopsided_graph, plain_star]


def halting_laws(graph: grf.Graph, source: int, p_halt: float) -> np.ndarray:
    """Row u: where the chain from u halts, if it jumps to `source` from dangling nodes."""
    chain = transition_matrix(graph)
    chain[chain.sum(axis=1) == 0, source] = 1.0
    return p_halt * np.linalg.inv(np.eye(graph.n_nodes) - (1 - p_halt) * chain)


def pushed(graph: grf.Graph, source: int, p_halt: float, limit: float) -> tuple:
    walk_arrays = transitions(graph.adjacency)
    table, used = node_table.begin(node_table.new_table(1024), source, walk_arrays.indptr)
    return push._push(table, used, *walk_arrays, p_halt, limit)


def dense(table: node_table.Table, used: int, column: int, n_nodes: int) -> np.ndarray:
    vector = np.zeros(n_nodes)
    vector[table.nodes[:used]] = table.mass[:used, column]
    return vector


@pytest.mark.parametrize("make_graph", GRAPHS)
@pytest.mark.parametrize("p_halt", [0.01, 0.9])
@pytest.mark.parametrize("limit", [0.2, 1e-5])
def test_pushing_keeps_reserve_plus_what_the_residual_leads_to(
    make_graph: Callable[[], grf.Graph], p_halt: float, limit: float
) -> None:
    graph = make_graph()
    degrees = np.maximum(1, np.diff(graph.adjacency.indptr))
    for source in range(graph.n_nodes):
        table, used, pushes, edges = pushed(graph, source, p_halt, limit)
        residual = dense(table, used, 0, graph.n_nodes)
        reserve = dense(table, used, 1, graph.n_nodes)
        laws = halting_laws(graph, source, p_halt)
        assert reserve + residual @ laws == pytest.approx(laws[source], abs=1e-12)
        assert np.all(residual <= limit * degrees)
        assert pushes <= edges <= 1 / (p_halt * limit)


def test_the_table_of_touched_nodes_grows_and_keeps_every_node() -> None:
    rng = np.random.default_rng(3)
    adjacency = np.triu(rng.random((3000, 3000)) < 0.004, 1)
    graph = grf.Graph((adjacency | adjacency.T).astype(float))
    table, used, _, _ = pushed(graph, 5, 0.15, 1e-6)
    assert used > 1024
    assert np.unique(table.nodes[:used]).size == used
    residual, reserve = (dense(table, used, column, graph.n_nodes) for column in (0, 1))
    assert residual.sum() + reserve.sum() == pytest.approx(1.0, abs=1e-12)
    # Pushing obeys p r = p e_s - (I - (1 - p) P^T) reserve.
    chain = transition_matrix(graph)
    start = np.arange(graph.n_nodes) == 5
    assert 0.15 * residual == pytest.approx(
        0.15 * start - reserve + 0.85 * chain.T @ reserve, abs=1e-13
    )
    for row in range(used):
        word = table.slots[node_table.place_of(table.slots, np.uint64(table.nodes[row]))]
        assert word == (np.uint64(table.nodes[row]) << np.uint64(32)) | np.uint64(row + 1)
    node_table.clear(table, used)
    assert not table.slots.any()


# -- walks -----------------------------------------------------------------------------------------


def scores_by_walks(
    graph: grf.Graph, source: int, p_halt: float, limit: float, density: float, key: int
) -> np.ndarray:
    """Dense scores after pushing until `limit` and walking."""
    walk_arrays = transitions(graph.adjacency)
    table, used, _, _ = pushed(graph, source, p_halt, limit)
    table, used, _, _ = push._walk(table, used, *walk_arrays, p_halt, density, np.uint64(key))
    scores = np.zeros(graph.n_nodes)
    for row in range(used):
        scores[table.nodes[row]] = row_scores.row_score(table, row, p_halt / density, p_halt)
    return scores


def draws(graph: grf.Graph, p_halt: float, onto: np.ndarray) -> Callable[[int, int], np.ndarray]:
    def draw(index: int, n: int) -> np.ndarray:
        return np.array(
            [
                scores_by_walks(graph, 0, p_halt, 0.1, 100.0, index * 2**32 + i) @ onto
                for i in range(n)
            ]
        )

    return draw


def projections(graph: grf.Graph) -> np.ndarray:
    """The source, the in-degrees, the nodes without edges to follow, and the sum; shape (N, 4)."""
    indegrees = np.asarray(graph.adjacency.sum(axis=0)).ravel()
    ends = np.diff(graph.adjacency.indptr) <= 1
    return np.column_stack([np.arange(graph.n_nodes) == 0, indegrees, ends, np.ones(graph.n_nodes)])


@pytest.mark.parametrize("make_graph", [directed_graph, plain_star])
def test_walks_are_unbiased(make_graph: Callable[[], grf.Graph]) -> None:
    graph = make_graph()
    onto = projections(graph)
    truth = halting_laws(graph, 0, 0.15)[0] @ onto
    assert_unbiased(draws(graph, 0.15, onto), truth, n0=1000)


@pytest.mark.parametrize("make_graph", [directed_graph, plain_star])
def test_a_halting_probability_five_percent_off_fails(make_graph: Callable[[], grf.Graph]) -> None:
    graph = make_graph()
    onto = projections(graph)
    truth = halting_laws(graph, 0, 0.15)[0] @ onto
    with pytest.raises(AssertionError, match="biased"):
        assert_unbiased(draws(graph, 1.05 * 0.15, onto), truth, n0=1000)


# -- the bound on the error of walks ---------------------------------------------------------------


def transform(a: np.ndarray, p_halt: float, back: float) -> np.ndarray:
    """(E exp(a X) - 1) / E X for X = p V, V 0 or geometric with probability `back`."""
    mean = p_halt / (1 - back)
    return (np.exp(a * p_halt) * (1 - back) / (1 - back * np.exp(a * p_halt)) - 1) / mean


@pytest.mark.parametrize("p_halt", [1e-3, 0.05, 0.3, 0.9, 0.999])
@pytest.mark.parametrize("loop", [0.0, 0.1, 1.0])
def test_visits_have_the_bounded_transform_behind_the_guarantee(p_halt: float, loop: float) -> None:
    spread = visit_variance_bound(p_halt, loop)
    most = (1 - p_halt) * (loop + (1 - loop) * (1 - p_halt))
    a = 2 / spread * np.linspace(1e-4, 1 - 1e-9, 20_001)
    for back in most * np.array([0.0, 0.5, 0.9, 0.99, 1.0]):
        bound = a / (1 - spread * a / 2)
        assert np.all(back * np.exp(a * p_halt) < 1)
        assert np.all(transform(a, p_halt, back) <= bound * (1 + 1e-9))
        assert np.all(transform(-a, p_halt, back) <= (-a + spread * a**2 / 2) + 1e-9 * a)
    # The bound has no room for a smaller spread.
    small = 1e-2 / spread
    bound = small / (1 - 0.98 * spread * small / 2)
    assert transform(np.array(small), p_halt, most) > bound


@pytest.mark.parametrize("make_graph", GRAPHS)
@pytest.mark.parametrize("p_halt", [0.05, 0.15, 0.5])
def test_no_node_is_returned_to_more_often_than_the_spread_assumes(
    make_graph: Callable[[], grf.Graph], p_halt: float
) -> None:
    graph = make_graph()
    loop = float(np.diag(transition_matrix(graph)).max())
    spread = visit_variance_bound(p_halt, loop)
    for source in np.flatnonzero(np.diff(graph.adjacency.indptr)):
        visits = np.diag(halting_laws(graph, source, p_halt)) / p_halt
        back = 1 - 1 / visits
        assert np.all(p_halt * (1 + back) / (1 - back) <= spread * (1 + 1e-12))


def pairs_graph(n_pairs: int) -> grf.Graph:
    """A source and closed pairs of nodes 1 .. n_pairs, returned to as often as can be."""
    adjacency = np.zeros((2 * n_pairs + 1, 2 * n_pairs + 1))
    first = np.arange(1, n_pairs + 1)
    adjacency[0, first] = 1.0
    adjacency[first, first + n_pairs] = adjacency[first + n_pairs, first] = 1.0
    return grf.Graph(adjacency, directed=True)


@pytest.mark.parametrize("p_halt", [0.05, 0.15, 0.5])
@pytest.mark.parametrize("fewer", [1, 4])
def test_walks_miss_a_score_as_rarely_as_stated_and_a_quarter_of_them_more_often(
    p_halt: float, fewer: int
) -> None:
    graph = pairs_graph(20)
    truth = halting_laws(graph, 0, p_halt)[0, 1:21]
    epsilon, failure = 0.5, 0.1
    density = (
        push.walk_density(epsilon, truth[0], failure, visit_variance_bound(p_halt, 0.0)) / fewer
    )
    scores = np.array(
        [scores_by_walks(graph, 0, p_halt, 1.0, density, key)[1:21] for key in range(200)]
    )
    missed = np.abs(scores - truth) > epsilon * truth
    # One pair's walks hardly depend on another's, so
    # rates over keys have this standard error at most.
    error = missed.mean(axis=1).std(ddof=1) / np.sqrt(200)
    if fewer == 1:
        assert missed.mean() + 5 * error < failure
    else:
        assert missed.mean() - 5 * error > failure


# -- the best --------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 50, 500])
def test_the_best_are_in_order_and_ties_go_to_the_first_node(k: int) -> None:
    rng = np.random.default_rng(k)
    used = 400
    table = node_table.new_table(1024)
    table.nodes[:used] = rng.permutation(10_000)[:used]
    table.mass[:used] = 0.0
    table.visits[:used] = 0.0
    table.mass[:used, 1] = rng.integers(0, 30, used)
    query = push.Query(0.15, k, 0.0, 0.5, 0.1, 0.1, 1.0)
    rows = np.empty(k, np.int64)
    n = row_scores.rank(table, used, 0.0, query, np.empty(k), rows)
    expected = np.lexsort((table.nodes[:used], -table.mass[:used, 1]))[:k]
    assert n == expected.size
    assert np.array_equal(rows[:n], expected)
