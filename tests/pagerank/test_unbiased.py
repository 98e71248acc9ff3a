"""Every estimator with every coupling has the exact mean, on telling projections.

The measure x of walks that are lost at dangling nodes is tested (scores are x / sum(x), and
sum(x) = 1 without dangling nodes): its estimates are linear in the counts, so their means are
exact. The smallest bias found here: p_halt off by 5 %, weights ignored, a dangling node given the
self-loop of the kernel convention; each is shown to fail.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

import graphrf as grf
from graphrf.pagerank.estimates import length_law
from graphrf.pagerank.problem import RankingProblem, make_problem
from graphrf.pagerank.walks.runs import Walks
from tests.pagerank.oracles import directed_graph, lopsided_graph, lossy_measure, transition_matrix
from tests.support.sequential import assert_unbiased

THREE = grf.sampling.Coupling(np.array([[4, 3, 2, 1, 0], [2, 4, 0, 1, 3]]))
SCHEMES = [
    ("endpoints", "iid"),
    ("endpoints", "antithetic"),
    ("endpoints", "sigma"),
    ("endpoints", "stratified"),
    ("visits", "iid"),
    ("visits", "antithetic"),
    ("visits", "sigma"),
    ("visits", "stratified"),
    ("visits", THREE),
    ("visits", "pooled"),
]
IDS = [
    f"{estimator}-{coupling if isinstance(coupling, str) else 'three'}"
    for estimator, coupling in SCHEMES
]
# Negative controls: one of each loop, and of both estimators.
CONTROLS = SCHEMES[::3]
P_HALT = 0.15
START = {"b": 1.0, "c": 0.5, "d": 0.25, "e": 3.0, "f": 2.0}


def projections(graph: grf.Graph) -> np.ndarray:
    """In-degrees, the hub, the slowest decaying mode of P, and the sum; shape (N, 4)."""
    indegrees = np.asarray(graph.adjacency.sum(axis=0)).ravel()
    values, vectors = np.linalg.eig(transition_matrix(graph))
    order = np.argsort(-np.abs(values))
    mode = vectors[:, order[1]].real
    hub = np.arange(graph.n_nodes) == indegrees.argmax()
    return np.column_stack([indegrees, hub, mode, np.ones(graph.n_nodes)])


def measures(
    problem: RankingProblem, estimator: str, coupling: str | grf.sampling.Coupling
) -> Callable[[int, int], np.ndarray]:
    """Draws of the projected estimate from 64 groups of coupled walks a source."""
    law = length_law(coupling, problem.p_halt, estimator)
    onto = projections(problem.graph)

    def draw(index: int, n: int) -> np.ndarray:
        parts = Walks(problem, law, estimator, index, 1).measures(64 * n, n)
        return np.array([measure / weight @ onto for measure, weight, _ in parts])

    return draw


def expected(problem: RankingProblem) -> np.ndarray:
    return lossy_measure(problem.graph, problem.p_halt, problem.start) @ projections(problem.graph)


@pytest.mark.parametrize(("estimator", "coupling"), SCHEMES, ids=IDS)
def test_undirected_weighted_graph(estimator: str, coupling: str | grf.sampling.Coupling) -> None:
    problem = make_problem(lopsided_graph(), P_HALT, None)
    assert_unbiased(measures(problem, estimator, coupling), expected(problem), n0=500)


@pytest.mark.parametrize(("estimator", "coupling"), SCHEMES, ids=IDS)
def test_directed_graph_with_dangling_nodes_and_personalisation(
    estimator: str, coupling: str | grf.sampling.Coupling
) -> None:
    problem = make_problem(directed_graph(), P_HALT, START)
    assert_unbiased(measures(problem, estimator, coupling), expected(problem), n0=500)


@pytest.mark.parametrize(("estimator", "coupling"), CONTROLS, ids=IDS[::3])
def test_unweighted_graph(
    estimator: str, coupling: str | grf.sampling.Coupling, plain_graph: grf.Graph
) -> None:
    problem = make_problem(plain_graph, 0.4, None)
    assert_unbiased(measures(problem, estimator, coupling), expected(problem), n0=500)


@pytest.mark.parametrize(("estimator", "coupling"), CONTROLS, ids=IDS[::3])
def test_a_halting_probability_five_percent_off_fails(
    estimator: str, coupling: str | grf.sampling.Coupling
) -> None:
    problem = make_problem(directed_graph(), P_HALT, START)
    wrong = dataclasses.replace(problem, p_halt=1.05 * P_HALT)
    with pytest.raises(AssertionError, match="biased"):
        assert_unbiased(measures(wrong, estimator, coupling), expected(problem), n0=500)


@pytest.mark.parametrize(("estimator", "coupling"), CONTROLS, ids=IDS[::3])
def test_ignored_weights_fail(estimator: str, coupling: str | grf.sampling.Coupling) -> None:
    problem = make_problem(lopsided_graph(), P_HALT, None)
    wrong = make_problem(grf.Graph(problem.graph.adjacency != 0), P_HALT, None)
    draw = measures(wrong, estimator, coupling)
    with pytest.raises(AssertionError, match="biased"):
        assert_unbiased(
            draw, lossy_measure(problem.graph, P_HALT) @ projections(wrong.graph), n0=500
        )


@pytest.mark.parametrize(("estimator", "coupling"), [("endpoints", "iid"), ("visits", "pooled")])
def test_after_exact_steps_too(estimator: str, coupling: str) -> None:
    problem = make_problem(directed_graph(), P_HALT, START)
    law = length_law(coupling, P_HALT, estimator)
    onto = projections(problem.graph)

    def draw(index: int, n: int, *, exact_steps: int = 3, p_halt: float = P_HALT) -> np.ndarray:
        asked = dataclasses.replace(problem, p_halt=p_halt)
        walks = Walks(asked, law, estimator, index, 1, exact_steps=exact_steps)
        return np.array(
            [measure / weight @ onto for measure, weight, _ in walks.measures(16 * n, n)]
        )

    assert_unbiased(draw, expected(problem), n0=500)
    with pytest.raises(AssertionError, match="biased"):
        assert_unbiased(
            lambda index, n: draw(index, n, p_halt=1.05 * P_HALT), expected(problem), n0=500
        )


@pytest.mark.parametrize("estimator", ["endpoints", "visits"])
def test_the_self_loop_of_the_kernel_convention_fails(estimator: str) -> None:
    problem = make_problem(directed_graph(), P_HALT, START)
    looped = problem.graph.adjacency.toarray()
    looped[3, 3] = looped[6, 6] = 1.0
    wrong = dataclasses.replace(problem, graph=grf.Graph(looped, directed=True))
    draw = measures(wrong, estimator, "iid")
    truth = lossy_measure(problem.graph, P_HALT, problem.start) @ projections(wrong.graph)
    with pytest.raises(AssertionError, match="biased"):
        assert_unbiased(draw, truth, n0=500)
