"""Invariants of PageRank, by every method, over generated graphs."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import graphrf as grf
from graphrf.pagerank import local_pagerank, pagerank
from tests.support.graph_strategies import graphs, permutations, relabelled, seeds, slower

either = st.booleans().flatmap(lambda directed: graphs(directed=directed))
ESTIMATORS = [
    ("visits", "pooled"),
    ("visits", "iid"),
    ("visits", "stratified"),
    ("endpoints", "antithetic"),
]


def vectors(n, seed):
    """Two personalisations, with zeros in the first."""
    rng = np.random.default_rng(seed)
    first = rng.random(n) * (rng.random(n) < 0.5)
    return first if first.any() else np.ones(n), 10 ** rng.uniform(-6, 6, n)


@slower
@given(either, seeds, st.floats(0.01, 0.99))
def test_exact_scores_are_a_distribution_that_the_map_keeps(graph, seed, p_halt):
    for vector in vectors(graph.n_nodes, seed):
        scores = pagerank(graph, p_halt=p_halt, personalization=vector, tol=1e-11).scores
        assert scores.min() >= 0
        assert abs(scores.sum() - 1) < 1e-12
        v = vector / vector.sum()
        d = graph.degrees
        rows = graph.adjacency.toarray() / np.where(d > 0, d, 1.0)[:, None]
        image = p_halt * v + (1 - p_halt) * (rows.T @ scores + scores[d == 0].sum() * v)
        assert np.abs(image - scores).sum() < 1e-10


@slower
@given(either, st.sampled_from(ESTIMATORS), seeds)
def test_estimates_are_distributions_and_the_same_for_named_nodes(graph, how, seed):
    estimator, coupling = how
    vector = vectors(graph.n_nodes, seed)[1]
    options = {"n_walks": 4, "estimator": estimator, "coupling": coupling, "seed": seed}
    if not scores_or_refusal(graph, {**options, "personalization": vector}).size:
        return
    result = grf.pagerank.estimate(graph, personalization=vector, **options)
    # The sum of pooled visits is corrected: with few walks, scores may be below 0.
    if coupling != "pooled" or estimator != "visits":
        assert result.scores.min() >= 0
    assert abs(result.scores.sum() - 1) < 1e-9
    assert result.stderr is None or (result.stderr >= 0).all()
    names = [f"node {i}" for i in range(graph.n_nodes)]
    named = grf.Graph(graph.adjacency, nodes=names, directed=graph.directed)
    again = grf.pagerank.estimate(
        named, personalization=dict(zip(names, vector, strict=True)), **options
    )
    assert np.array_equal(again.scores, result.scores)


@slower
@given(either, seeds)
def test_scores_of_relabelled_nodes_are_permuted(graph, seed):
    order = permutations(graph.n_nodes, seed)
    vector = vectors(graph.n_nodes, seed)[0]
    scores = pagerank(graph, personalization=vector).scores
    other = relabelled(graph, order)
    assert np.allclose(
        pagerank(other, personalization=vector[order]).scores, scores[order], atol=1e-11
    )
    node = int(order[0])
    rows = [
        local_pagerank(each, place, max_residual=1e-9).scores.toarray()
        for each, place in ((graph, node), (other, 0))
    ]
    assert np.abs(rows[1] - rows[0][:, order]).sum() < 4e-9


@slower
@given(either, seeds, st.integers(1, 4))
def test_local_scores_are_what_power_iteration_from_one_node_gives(graph, seed, k):
    node = int(np.random.default_rng(seed).integers(graph.n_nodes))
    result = local_pagerank(graph, node, max_residual=1e-9)
    exact = pagerank(graph, personalization=np.eye(graph.n_nodes)[node]).scores
    scores = result.scores.toarray()[0]
    assert scores.min() >= 0
    assert scores.sum() <= 1 + 1e-12
    # what is left is the error, to the rounding of adding up
    assert (
        abs(np.abs(scores - exact).sum() - result.residual[0]) <= 1e-2 * result.residual[0] + 1e-11
    )
    best = local_pagerank(graph, node, k=k, max_residual=1e-9).scores
    assert best.nnz <= k
    assert best.data.sum() <= 1 + 1e-12
    assert np.allclose(np.sort(best.data), np.sort(exact)[-best.nnz :], atol=2e-9)


def scores_or_refusal(graph, options):
    """The scores; none where few walks on a graph with hardly an edge have no end point at all."""
    try:
        return grf.pagerank.estimate(graph, **options).scores
    except ValueError as error:
        assert options["estimator"] == "endpoints"
        assert "every walk was lost" in str(error)  # noqa: PT017
        return np.zeros(0)


@slower
@given(either, st.sampled_from(ESTIMATORS), st.integers(-100, 100), seeds)
def test_the_scale_of_weights_leaves_pagerank_alone(graph, how, power, seed):
    scaled = grf.Graph(graph.adjacency * 2.0**power, directed=graph.directed)
    estimator, coupling = how
    options = {"n_walks": 4, "estimator": estimator, "coupling": coupling, "seed": seed}
    assert np.array_equal(scores_or_refusal(scaled, options), scores_or_refusal(graph, options))
    assert np.array_equal(pagerank(scaled).scores, pagerank(graph).scores)
    other = grf.Graph(graph.adjacency * 3.7, directed=graph.directed)
    assert np.allclose(pagerank(other).scores, pagerank(graph).scores, atol=1e-11)


def test_several_vectors_of_a_graph_without_edges_are_each_as_alone():
    # a graph without entries was once read as one whose entries are all 1, by a loop for one
    # vector: scores grew
    graph = grf.from_edges([], [], n_nodes=2)
    vectors_ = np.array([[0.7, 0.3], [0.1, 0.9]])
    for dangling in (None, np.ones(2)):
        found = pagerank(graph, personalization=vectors_, dangling=dangling).scores
        for vector, scores in zip(vectors_, found, strict=True):
            alone = pagerank(graph, personalization=vector, dangling=dangling).scores
            assert np.array_equal(scores, alone)
            assert np.allclose(
                alone, vector if dangling is None else 0.15 * vector + 0.425, atol=1e-12
            )


@slower
@given(either, st.sampled_from([1e-323, 1e-310, 1e300]))
def test_a_coupling_for_pagerank_is_learned_whatever_the_size_of_weights(graph, weight):
    unit = graph.adjacency.copy()
    unit.data = np.ones(unit.nnz)
    tiny, plain = (
        grf.couplings.learn_coupling(
            grf.Graph(each, directed=graph.directed), objective="pagerank", order=4
        )
        for each in (unit * weight, unit)
    )
    assert np.isclose(tiny.cost_after, plain.cost_after, rtol=1e-9)


def test_degrees_whose_sum_overflows_have_a_pagerank():
    huge = grf.Graph(np.array([[0.0, 1e308], [1e308, 0.0]]))
    plain = grf.Graph(np.array([[0.0, 1.0], [1.0, 0.0]]))
    assert np.array_equal(
        grf.pagerank.estimate(huge, seed=0).scores, grf.pagerank.estimate(plain, seed=0).scores
    )
