"""Power iteration against the dense solution and networkx."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

import graphrf as grf
from graphrf.pagerank import pagerank
from graphrf.pagerank.power import iterate
from tests.pagerank.oracles import dense_pagerank, directed_graph, lopsided_graph

START = np.array([0.0, 0.2, 0.0, 0.1, 0.0, 0.3, 0.4])


@pytest.mark.parametrize("p_halt", [0.01, 0.15, 0.9])
@pytest.mark.parametrize("start", [None, START])
def test_scores_are_the_stationary_law(p_halt: float, start: np.ndarray | None) -> None:
    graph = directed_graph()
    result = pagerank(graph, p_halt=p_halt, personalization=start)
    assert result.converged
    assert np.abs(result.scores - dense_pagerank(graph, p_halt, start)).sum() < 2e-12
    assert result.scores.sum() == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize("tol", [1e-1, 1e-3, 1e-6, 1e-10])
def test_the_error_is_below_its_bound_and_the_bound_below_the_tolerance(tol: float) -> None:
    graph = directed_graph()
    result = pagerank(graph, tol=tol)
    error = np.abs(result.scores - dense_pagerank(graph, 0.15)).sum()
    assert error <= result.error_bound <= tol


def test_two_thousand_nodes_do_not_stop_at_the_uniform_vector() -> None:
    # Tolerances for each node stop at once on a large graph (networkx issue 8651).
    star = grf.Graph(nx.to_scipy_sparse_array(nx.star_graph(2000)))
    assert pagerank(star, tol=1e-3).scores[0] > 0.4


def test_missing_the_tolerance_warns_and_is_recorded() -> None:
    with pytest.warns(UserWarning, match=r"after 3 iterations, not tol=1e-12; raise `max_iter`"):
        result = pagerank(lopsided_graph(), max_iter=3)
    assert not result.converged
    assert result.iterations == 3
    assert "NOT converged" in repr(result)


def test_bad_arguments_are_named() -> None:
    graph = lopsided_graph()
    with pytest.raises(ValueError, match="`tol` must be greater than 0"):
        pagerank(graph, tol=0.0)
    with pytest.raises(ValueError, match="`max_iter` must be at least 1"):
        pagerank(graph, max_iter=0)
    with pytest.raises(ValueError, match="`p_halt`"):
        pagerank(graph, p_halt=0.0)


# -- several vectors -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "graph", [directed_graph(), directed_graph().to_undirected()], ids=["directed", "undirected"]
)
def test_several_vectors_are_as_they_would_be_alone(graph: grf.Graph) -> None:
    # Nineteen vectors make three panels; single nodes and flat vectors converge at different times.
    rows = np.random.default_rng(0).random((19, 7)) ** 8
    rows[:7] = np.eye(7)
    together = pagerank(graph, personalization=rows, tol=1e-9)
    alone = [pagerank(graph, personalization=row, tol=1e-9) for row in rows]
    assert np.array_equal(together.scores, [result.scores for result in alone])
    assert len({result.iterations for result in alone}) > 1
    assert together.iterations == max(result.iterations for result in alone)
    assert together.residual == max(result.residual for result in alone)
    assert together.converged


def test_vectors_that_miss_the_tolerance_are_counted_with_those_that_reach_it() -> None:
    # The undirected star: uniform on the hub's side is
    # slow, the stationary law itself is there at once.
    graph = lopsided_graph()
    fixed = graph.degrees / graph.degrees.sum()
    with pytest.warns(UserWarning, match="after 5 iterations"):
        result = pagerank(graph, personalization=[fixed, np.eye(9)[8]], max_iter=5)
    assert not result.converged
    assert result.iterations == 5
    assert result.error_bound > 1e-12
    assert result.scores[0] == pytest.approx(fixed, abs=1e-15)


# -- dangling nodes, first guesses -----------------------------------------------------------------


@pytest.mark.parametrize("personalization", [None, {"b": 1.0, "d": 2.0}])
def test_dangling_nodes_jump_where_they_are_told(personalization: dict | None) -> None:
    graph = directed_graph()
    theirs = nx.relabel_nodes(
        nx.from_scipy_sparse_array(graph.adjacency, create_using=nx.DiGraph),
        dict(enumerate("abcdefg")),
    )
    dangling = {"e": 3.0, "g": 1.0}
    expected = nx.pagerank(
        theirs, personalization=personalization, dangling=dangling, tol=1e-16, max_iter=1000
    )
    result = pagerank(graph, personalization=personalization, dangling=dangling)
    assert result.scores == pytest.approx([expected[node] for node in "abcdefg"], abs=1e-12)
    elsewhere = pagerank(graph, personalization=personalization)
    assert np.abs(result.scores - elsewhere.scores).sum() > 1e-2


def test_a_first_guess_changes_the_iterations_only() -> None:
    graph = directed_graph()
    cold = pagerank(graph, personalization=START)
    warm = pagerank(graph, personalization=START, start=cold.scores)
    assert warm.iterations <= 2 < cold.iterations
    assert np.abs(warm.scores - cold.scores).sum() < 2e-12
    far = pagerank(graph, personalization=START, start={"f": 1.0})
    assert np.abs(far.scores - cold.scores).sum() < 2e-12


def test_every_vector_may_have_its_first_guess() -> None:
    graph = directed_graph()
    rows = np.vstack([START, np.eye(7)[2]])
    cold = pagerank(graph, personalization=rows)
    assert pagerank(graph, personalization=rows, start=cold.scores).iterations <= 2
    assert pagerank(graph, personalization=rows, start=cold.scores[::-1]).iterations > 2
    with pytest.raises(ValueError, match="`start` must hold one vector, or 2 as"):
        pagerank(graph, personalization=rows, start=np.eye(7))
    with pytest.raises(ValueError, match=r"`start\[1\]` must have a positive value"):
        pagerank(graph, personalization=rows, start=[START, np.zeros(7)])


# -- steps beyond the image of the last vector -----------------------------------------------------


UNDIRECTED = {
    "star": nx.star_graph(40),
    "grid": nx.grid_2d_graph(20, 20),
    "dense": nx.gnp_random_graph(80, 0.5, seed=0),
    "complete": nx.complete_graph(40),
    "pieces": nx.disjoint_union_all(
        [nx.cycle_graph(7), nx.path_graph(30), nx.empty_graph(3), nx.complete_graph(9)]
    ),
    "clusters": nx.relaxed_caveman_graph(8, 8, 0.1, seed=0),
}


def counts(graph: grf.Graph, p_halt: float, tol: float, personalization: Any) -> tuple[int, int]:
    """Iterations as they are, and plain ones."""
    arguments: Any = {
        "p_halt": p_halt,
        "personalization": personalization,
        "tol": tol,
        "dangling": None,
        "start": None,
    }
    results = [iterate(graph, **arguments, max_iter=None, plain=plain) for plain in (False, True)]
    assert all(result.converged for result in results)
    assert np.abs(results[0].scores - results[1].scores).sum() <= 2 * tol
    return results[0].iterations, results[1].iterations


@pytest.mark.parametrize("kind", UNDIRECTED)
def test_undirected_graphs_take_fewer_iterations_and_the_bound_holds(kind: str) -> None:
    graph = grf.Graph(nx.to_scipy_sparse_array(UNDIRECTED[kind], dtype=float))
    seed = np.eye(graph.n_nodes)[5]
    for p_halt in (0.02, 0.15, 0.7):
        for start in (None, seed):
            exact = dense_pagerank(graph, p_halt, start)
            for tol in (1e-2, 1e-5, 1e-11):
                result = pagerank(graph, p_halt=p_halt, personalization=start, tol=tol)
                assert np.abs(result.scores - exact).sum() <= result.error_bound + 1e-13
                assert result.error_bound <= tol
                assert result.scores.min() >= 0
                fast, plain = counts(graph, p_halt, tol, start)
                assert fast <= plain + 3
    slow = {"star", "grid", "pieces", "clusters"}
    fast, plain = counts(graph, 0.02, 1e-11, seed)
    assert fast <= (0.4 if kind in slow else 1.0) * plain


def test_few_iterations_have_a_true_bound_too() -> None:
    graph = grf.Graph(nx.to_scipy_sparse_array(UNDIRECTED["grid"], dtype=float))
    exact = dense_pagerank(graph, 0.05, np.eye(400)[7])
    for limit in (1, 2, 5, 9, 20, 50):
        with pytest.warns(UserWarning, match="raise `max_iter`"):
            result = pagerank(graph, p_halt=0.05, personalization={7: 1}, max_iter=limit)
        assert np.abs(result.scores - exact).sum() <= result.error_bound
        assert result.iterations == limit


# -- large graphs, threads, extreme weights --------------------------------------------------------


def test_threads_do_not_change_a_bit() -> None:
    rng = np.random.default_rng(1)
    n = 60_000
    matrix = sp.csr_array((rng.random(4 * n), rng.integers(n, size=(2, 4 * n))), shape=(n, n))
    weighted = grf.Graph(matrix, directed=True)
    unit = grf.Graph(matrix + matrix.T > 0)
    starts = np.ones((3, n))
    starts[0, : n // 2] = 0
    starts[1, 5] = 100 * n
    for graph in (weighted, unit):
        for personalization in (None, starts):
            one, three = (
                pagerank(graph, personalization=personalization, tol=1e-4, n_threads=k)
                for k in (1, 3)
            )
            assert np.array_equal(one.scores, three.scores)
            assert one.residual == three.residual


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e300])
@pytest.mark.parametrize(
    "graph", [directed_graph(), lopsided_graph()], ids=["directed", "undirected"]
)
def test_weights_of_any_size_give_the_same_scores(graph: grf.Graph, scale: float) -> None:
    scaled = grf.Graph(graph.adjacency * scale, directed=graph.directed)
    assert np.abs(pagerank(scaled).scores - pagerank(graph).scores).sum() < 1e-13


def test_the_least_p_halt_has_the_bound_2_and_no_warning_of_overflow():
    from graphrf.pagerank.result import iteration_bound

    assert iteration_bound(0.5, 5e-324) == 2.0  # warnings are errors
    assert iteration_bound(np.float64(0.0), 5e-324) == 2.0
