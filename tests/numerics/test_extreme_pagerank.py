"""PageRank at the extremes of p_halt and weights, against linear systems solved in 60 digits."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import graphrf as grf
from graphrf.pagerank import local_pagerank, pagerank, refine
from tests.numerics.extremes import mpmath
from tests.numerics.test_extreme_graphs import BEYOND

GRAPHS = {
    **{name: (a, False) for name, a in BEYOND.items() if name != "overflow"},
    "only dangling nodes": (np.zeros((4, 4)), False),
    "one node": (np.zeros((1, 1)), False),
    "periodic": (np.roll(np.eye(5), 1, axis=1), True),
    "directed, 1e12 beside 1e-12": (np.array([[0, 1e12, 1e-12], [0, 0, 0], [0, 0, 0.0]]), True),
    "directed subnormal": (np.triu(np.full((4, 4), 5e-324)), True),
}


def solved(a, p, v):
    with mpmath.workdps(60):
        n = len(a)
        system = mpmath.eye(n)
        right = mpmath.matrix([mpmath.mpf(p) * x for x in v.tolist()])
        for i, row in enumerate(a.tolist()):
            degree = mpmath.fsum(row)
            for j, weight in enumerate(row):
                if weight:
                    system[j, i] -= (1 - mpmath.mpf(p)) * weight / degree
        x = mpmath.lu_solve(system, right)
        return np.array([float(value / mpmath.fsum(x)) for value in x])


@pytest.mark.parametrize("p_halt", [1e-6, 1e-3, 0.15, 0.85, 1 - 1e-6])
@pytest.mark.parametrize("name", GRAPHS)
def test_the_bound_of_power_iteration_holds(name, p_halt):
    a, directed = GRAPHS[name]
    graph = grf.Graph(a, directed=directed)
    uniform = np.ones(len(a))
    tiny = uniform.copy()
    tiny[0] = 1e-300
    for v in (uniform, tiny):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            result = pagerank(graph, p_halt=p_halt, personalization=v, max_iter=300)
        assert result.converged or "power iteration reached an error below" in str(said[0].message)
        assert (result.scores >= 0).all()
        assert abs(result.scores.sum() - 1) < 1e-14
        assert np.abs(result.scores - solved(a, p_halt, v)).sum() <= result.error_bound


def test_iteration_ends_when_changes_are_rounding():
    graph = grf.Graph(GRAPHS["scaled by 1"][0])
    with pytest.warns(UserWarning, match="power iteration reached an error below"):
        result = pagerank(graph, p_halt=1e-5, personalization=[1.0, 0, 0, 2.0, 0, 0])
    assert result.error_bound < 1e-9
    assert result.iterations < 10_000  # the contraction alone might need millions


def test_iteration_that_might_need_millions_says_what_it_reached():
    ring = grf.Graph(np.roll(np.eye(7), 1, axis=1), directed=True)
    with pytest.warns(
        UserWarning, match=r"reached an error below .* after 100000 iterations, not tol"
    ):
        result = pagerank(ring, p_halt=1e-6, personalization=np.eye(7)[0])
    assert np.abs(result.scores - 1 / 7).max() <= result.error_bound


@pytest.mark.parametrize("coupling", ["pooled", "iid", "stratified"])
@pytest.mark.parametrize("p_halt", [1e-3, 0.15, 1 - 1e-6])
@pytest.mark.parametrize("name", GRAPHS)
def test_walks_on_extreme_weights_end_where_they_should(name, p_halt, coupling):
    a, directed = GRAPHS[name]
    graph = grf.Graph(a, directed=directed)
    result = grf.pagerank.estimate(
        graph, p_halt=p_halt, coupling=coupling, n_walks=256, seed=0, n_threads=1
    )
    # Scores are unbiased and sum to 1: some may be below 0.
    assert (result.scores >= (-0.01 if p_halt < 0.01 else 0.0)).all()
    assert abs(result.scores.sum() - 1) < 1e-12
    assert np.abs(result.scores - solved(a, p_halt, np.ones(len(a)))).sum() < 0.25


@pytest.mark.parametrize("directed", [False, True])
def test_weights_whose_sums_overflow_are_refused(directed):
    graph = grf.Graph(BEYOND["overflow"], directed=directed)
    for call in (grf.pagerank, grf.pagerank.estimate):
        with pytest.raises(ValueError, match="overflow float64; divide its weights by a constant"):
            call(graph)


def test_lost_walks_do_not_drown_small_scores_at_small_p_halt():
    # From two of three nodes every walk is lost; the control
    # vector put 1 / p_halt times that onto the third.
    a, directed = GRAPHS["directed, 1e12 beside 1e-12"]
    for p_halt in (1e-3, 0.01):
        want = solved(a, p_halt, np.ones(3))
        for coupling in ("pooled", "iid", "stratified"):
            settings = {"p_halt": p_halt, "coupling": coupling, "n_walks": 64, "n_threads": 1}
            for seed in range(4):
                found = grf.pagerank.estimate(
                    grf.Graph(a, directed=directed), seed=seed, **settings
                ).scores
                assert np.abs(found - want).sum() < 0.02


@pytest.mark.parametrize(
    ("p_halt", "tol"), [(1e-300, 1e-12), (5e-324, 1e-12), (0.1, 5e-324), (1 - 1e-16, 5e-324)]
)
def test_iteration_ends_for_every_p_halt_and_tol(p_halt, tol):
    graph = grf.Graph(np.eye(3))
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        result = pagerank(graph, p_halt=p_halt, tol=tol)
    np.testing.assert_allclose(result.scores, 1 / 3)
    assert result.error_bound <= 2


def test_walks_and_pushes_that_would_never_end_are_refused():
    graph = grf.Graph(np.eye(3))
    for call in (
        lambda: grf.pagerank.estimate(graph, p_halt=1e-7),
        lambda: next(refine(graph, p_halt=1e-17)),
        lambda: local_pagerank(graph, [0], p_halt=1e-9),
        lambda: local_pagerank(graph, [0], p_halt=1e-300, max_residual=1e-4),
    ):
        with pytest.raises(
            ValueError, match=r"`p_halt` must be at least 1e-06.*pagerank\(graph\) takes any"
        ):
            call()


@pytest.mark.parametrize("p_halt", [1e-3, 0.15, 0.85, 1 - 1e-6])
@pytest.mark.parametrize("name", GRAPHS)
def test_local_queries_keep_their_promises(name, p_halt):
    a, directed = GRAPHS[name]
    graph = grf.Graph(a, directed=directed)
    want = solved(a, p_halt, np.eye(len(a))[0])
    pushed = local_pagerank(graph, [0], p_halt=p_halt, max_residual=1e-4, n_threads=1)
    found = pushed.scores.toarray()[0]
    assert (found >= 0).all()
    assert np.abs(found - want).sum() <= pushed.residual[0] * (1 + 1e-9) + 1e-12
    walked = local_pagerank(graph, [0], p_halt=p_halt, delta=0.05, seed=0, n_threads=1)
    found, large = walked.scores.toarray()[0], want >= walked.delta[0]
    assert (np.abs(found - want)[large] <= 0.5 * want[large]).all()
    assert (found[~large] < 1.5 * walked.delta[0]).all()
