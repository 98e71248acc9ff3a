"""Power iteration against the dense solution and networkx."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import graphrf as grf
from graphrf.pagerank import power_iteration
from tests.pagerank.oracles import dense_pagerank, directed_graph, lopsided_graph

START = np.array([0.0, 0.2, 0.0, 0.1, 0.0, 0.3, 0.4])


@pytest.mark.parametrize("p_halt", [0.01, 0.15, 0.9])
@pytest.mark.parametrize("start", [None, START])
def test_scores_are_the_stationary_law(p_halt: float, start: np.ndarray | None) -> None:
    graph = directed_graph()
    result = power_iteration(graph, p_halt=p_halt, personalization=start)
    assert result.converged
    assert np.abs(result.scores - dense_pagerank(graph, p_halt, start)).sum() < 2e-12
    assert result.scores.sum() == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize("personalization", [None, {0: 1.0, 3: 2.0}])
def test_networkx_agrees_with_dangling_nodes_weights_and_loops(personalization: dict | None) -> None:
    graph = directed_graph()
    theirs = nx.from_scipy_sparse_array(graph.adjacency, create_using=nx.DiGraph)
    expected = nx.pagerank(theirs, alpha=0.85, personalization=personalization, tol=1e-15, max_iter=1000)
    result = power_iteration(graph, personalization=personalization)
    assert result.scores == pytest.approx([expected[i] for i in range(7)], abs=1e-12)


def test_networkx_agrees_on_an_undirected_graph_with_a_self_loop() -> None:
    graph = lopsided_graph()
    theirs = nx.from_scipy_sparse_array(graph.adjacency)
    expected = nx.pagerank(theirs, alpha=0.7, tol=1e-15, max_iter=1000)
    assert power_iteration(graph, p_halt=0.3).scores == pytest.approx([expected[i] for i in range(9)], abs=1e-12)


@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-6, 1e-10])
def test_the_error_is_below_its_bound_and_the_bound_below_the_tolerance(tol: float) -> None:
    graph = directed_graph()
    result = power_iteration(graph, tol=tol)
    error = np.abs(result.scores - dense_pagerank(graph, 0.15)).sum()
    assert error <= result.error_bound <= tol


def test_the_default_number_of_iterations_suffices_on_a_bipartite_graph() -> None:
    # On a star the second eigenvalue of P is -1: the contraction is as slow as the bound allows.
    star = grf.Graph(nx.to_scipy_sparse_array(nx.star_graph(50)))
    for p_halt in (0.05, 0.15, 0.5):
        assert power_iteration(star, p_halt=p_halt).converged


def test_two_thousand_nodes_do_not_stop_at_the_uniform_vector() -> None:
    # Tolerances for each node stop at once on a large graph (networkx issue 8651).
    star = grf.Graph(nx.to_scipy_sparse_array(nx.star_graph(2000)))
    assert power_iteration(star, tol=1e-3).scores[0] > 0.4


def test_a_graph_without_edges_returns_the_personalisation() -> None:
    graph = grf.Graph(np.zeros((3, 3)))
    assert power_iteration(graph, personalization=[1, 0, 3]).scores == pytest.approx([0.25, 0, 0.75], abs=1e-15)


def test_missing_the_tolerance_warns_and_is_recorded() -> None:
    with pytest.warns(UserWarning, match=r"after 3 iterations, not tol=1e-12; raise `max_iter`"):
        result = power_iteration(lopsided_graph(), max_iter=3)
    assert not result.converged
    assert result.iterations == 3
    assert "NOT converged" in repr(result)


def test_bad_arguments_are_named() -> None:
    graph = lopsided_graph()
    with pytest.raises(ValueError, match="`tol` must be greater than 0"):
        power_iteration(graph, tol=0.0)
    with pytest.raises(ValueError, match="`max_iter` must be at least 1"):
        power_iteration(graph, max_iter=0)
    with pytest.raises(ValueError, match="`p_halt`"):
        power_iteration(graph, p_halt=0.0)
