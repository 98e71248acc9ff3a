"""The errors that PageRank states are those that it makes: intervals, guarantees."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest
from scipy import stats

import graphrf as grf
from graphrf.pagerank import estimate, local_pagerank
from graphrf.pagerank.result import expected_l1_error
from tests.pagerank.oracles import dense_pagerank, directed_graph, lopsided_graph
from tests.pagerank.test_unbiased import IDS, SCHEMES
from tests.support.sequential import assert_rates, assert_unbiased

P_HALT = 0.15
GRAPHS = {"weighted": lopsided_graph, "dangling": directed_graph}
# Intervals that are to hold the truth so often; by how much the rate of a score may differ, because
# scores are ratios of sums of few walks, not normal variables.
LEVELS = np.array([0.5, 0.9])
SLACK = 0.03
N_BATCHES = 8


def start_of(graph: grf.Graph, even: bool) -> np.ndarray:
    start = np.ones(graph.n_nodes) if even else 1.0 + np.arange(graph.n_nodes)
    return start / start.sum()


class Errors:
    """Runs of PageRank on one graph: equal personalisation vectors have independent errors."""

    def __init__(self, make_graph, even=True, **options):
        self.graph, self.options = make_graph(), options
        self.start = start_of(self.graph, even)
        self.truth = dense_pagerank(self.graph, P_HALT, self.start)

    def run(self, round_, n):
        return estimate(
            self.graph,
            p_halt=P_HALT,
            personalization=np.tile(self.start, (n, 1)),
            seed=round_,
            n_threads=1,
            **self.options,
        )

    def covered(self, round_, n, stated=1.0):
        """Whether intervals hold each truth, shape (n, 2 N); standard errors times `stated`."""
        result = self.run(round_, n)
        width = stats.t.ppf((1 + LEVELS) / 2, result.n_batches - 1)[:, None, None]
        inside = np.abs(result.scores - self.truth) <= width * stated * result.stderr
        return inside.transpose(1, 0, 2).reshape(n, -1)

    def check(self, n0, stated=1.0):
        rates = np.repeat(LEVELS, self.graph.n_nodes)
        assert_rates(
            lambda round_, n: self.covered(round_, n, stated), rates - SLACK, rates + SLACK, n0=n0
        )


def _cases():
    """Every scheme on every graph with every start; half of even ones in `make test`."""
    schemes = list(zip(SCHEMES, IDS, strict=True))
    for (number, (scheme, name)), (place, graph), even in itertools.product(
        enumerate(schemes), enumerate(GRAPHS), (True, False)
    ):
        few = even and (number + place) % 2 == 0
        start = "even" if even else "uneven"
        yield pytest.param(
            GRAPHS[graph],
            even,
            *scheme,
            id=f"{graph}-{start}-{name}",
            marks=() if few else pytest.mark.full,
        )


@pytest.mark.parametrize(("make_graph", "even", "estimator", "coupling"), list(_cases()))
def test_intervals_hold_the_truth_as_often_as_students_law_says(
    make_graph, even, estimator, coupling
):
    options = {"estimator": estimator, "coupling": coupling, "n_walks": 240, "n_batches": N_BATCHES}
    Errors(make_graph, even, **options).check(n0=400)


@pytest.mark.parametrize("stated", [0.5, 2.0])
@pytest.mark.parametrize(
    ("estimator", "coupling"),
    [
        pytest.param(
            *scheme,
            id=name,
            marks=() if name in ("endpoints-iid", "visits-pooled") else pytest.mark.full,
        )
        for scheme, name in zip(SCHEMES, IDS, strict=True)
    ],
)
def test_standard_errors_that_are_half_or_double_fail(estimator, coupling, stated):
    errors = Errors(
        lopsided_graph, estimator=estimator, coupling=coupling, n_walks=240, n_batches=N_BATCHES
    )
    with pytest.raises(AssertionError, match="wrong rate"):
        errors.check(n0=400, stated=stated)


# -- the stated L1 error ---------------------------------------------------------------------------


def l1_errors(errors):
    """The stated L1 error of each run less the true one, as a share of the mean of the latter."""

    def draw(round_, n):
        result = errors.run(round_, n)
        true = np.abs(result.scores - errors.truth).sum(axis=1)
        return ((true - result.l1_error) / np.mean(true))[:, None]

    return draw


@pytest.mark.parametrize(
    ("estimator", "coupling"), [("visits", "pooled"), ("visits", "iid"), ("endpoints", "sigma")]
)
@pytest.mark.parametrize("n_batches", [2, 8])
def test_the_stated_l1_error_is_the_mean_of_the_true_one(estimator, coupling, n_batches):
    errors = Errors(
        lopsided_graph, estimator=estimator, coupling=coupling, n_walks=240, n_batches=n_batches
    )
    assert_unbiased(l1_errors(errors), 0.0, n0=400, slack=0.03)


def test_an_l1_error_without_the_correction_for_few_batches_fails(monkeypatch):
    def uncorrected(stderr, n_batches, estimated):
        return np.sqrt(2 / np.pi) * float(stderr.sum())

    monkeypatch.setattr("graphrf.pagerank.walks.runs.expected_l1_error", uncorrected)
    errors = Errors(lopsided_graph, estimator="visits", coupling="iid", n_walks=240, n_batches=2)
    with pytest.raises(AssertionError, match="biased"):
        assert_unbiased(l1_errors(errors), 0.0, n0=400, slack=0.03)


class FarErrors(Errors):
    """Runs from one node of a graph with so many others that walks leave most of them out."""

    def __init__(self, **options):
        self.graph, self.options = grf.load_graph(nx.barabasi_albert_graph(400, 2, seed=0)), options
        self.start = np.eye(400)[17]
        self.truth = dense_pagerank(self.graph, P_HALT, self.start)


RARE = [
    ("endpoints", "iid", 1024, None),
    ("endpoints", "sigma", 1024, None),
    ("visits", "stratified", 256, 16),
    ("visits", "pooled", 256, 8),
    ("visits", "pooled", 32, 4),
]


@pytest.mark.parametrize(("estimator", "coupling", "n_walks", "n_batches"), RARE)
def test_the_l1_error_of_rare_nodes_is_stated_at_most_half_too_large_and_not_too_small(
    estimator, coupling, n_walks, n_batches
):
    errors = FarErrors(estimator=estimator, coupling=coupling, n_walks=n_walks, n_batches=n_batches)
    # stated between 0.98 and 1.5 times the true one
    assert_unbiased(l1_errors(errors), -0.24, n0=100, slack=0.26)


def test_an_l1_error_that_leaves_out_nodes_no_walk_met_fails(monkeypatch):
    monkeypatch.setattr(
        "graphrf.pagerank.walks.runs.expected_l1_error",
        lambda stderr, n_batches, estimated: expected_l1_error(stderr, n_batches),
    )
    for estimator, coupling, n_walks, n_batches in RARE:
        errors = FarErrors(
            estimator=estimator, coupling=coupling, n_walks=n_walks, n_batches=n_batches
        )
        with pytest.raises(AssertionError, match="biased"):
            assert_unbiased(l1_errors(errors), -0.24, n0=100, slack=0.26)


@pytest.mark.parametrize("p_halt", [1 - 1e-6, 0.9999])
def test_walks_that_take_no_step_state_the_error_that_one_exact_step_shows(p_halt):
    silent = 0
    for seed, make_graph in itertools.product(range(4), GRAPHS.values()):
        graph = make_graph()
        for even in (True, False):
            start = start_of(graph, even)
            result = estimate(
                graph, p_halt=p_halt, personalization=start, n_walks=16, n_batches=8, seed=seed
            )
            if result.steps:
                continue
            silent += 1
            error = np.abs(result.scores - dense_pagerank(graph, p_halt, start)).sum()
            assert error <= result.l1_error <= error + 4 * (1 - p_halt) ** 2 + 1e-15
    assert silent > 8


@pytest.mark.parametrize(
    ("coupling", "n_walks", "tol"),
    [
        ("pooled", 4, 0.02),
        ("iid", 16, 0.1),
        pytest.param("pooled", 2, 0.001, marks=pytest.mark.full),
    ],
)
def test_an_error_that_is_asked_for_is_reached_on_average(coupling, n_walks, tol):
    # Stopping favours runs that state too small an error: that is within a tenth.
    errors = Errors(directed_graph, coupling=coupling, n_walks=n_walks, tol=tol, exact_steps=0)

    def draw(round_, n):
        result = errors.run(round_, n)
        assert (result.l1_error <= tol).all()
        return np.abs(result.scores - errors.truth).sum(axis=1, keepdims=True) / tol

    assert_unbiased(draw, 0.55, n0=200, slack=0.55)


@pytest.mark.parametrize("make_graph", GRAPHS.values(), ids=GRAPHS)
@pytest.mark.parametrize(("coupling", "n_walks", "tol"), [("pooled", 4, 0.02), ("iid", 4, 0.05)])
def test_intervals_of_an_error_that_is_asked_for_hold_nearly_as_often(
    make_graph, coupling, n_walks, tol
):
    # The same favour: .84 to .92 where .9 is stated.
    errors = Errors(make_graph)

    def draw(round_, n):
        # One by one: several vectors state the fewest batches of all.
        options = {
            "coupling": coupling,
            "n_walks": n_walks,
            "tol": tol,
            "exact_steps": 0,
            "n_threads": 1,
        }
        held = np.empty((n, errors.graph.n_nodes), dtype=bool)
        for i in range(n):
            result = estimate(errors.graph, seed=round_ * 10**6 + i, **options)
            width = stats.t.ppf(0.95, result.n_batches - 1)
            held[i] = np.abs(result.scores - errors.truth) <= width * result.stderr
        return held

    size = errors.graph.n_nodes
    assert_rates(draw, np.full(size, 0.8), np.full(size, 0.93), n0=200)


# -- the guarantee of local queries ----------------------------------------------------------------


def missed(make_graph, judged_by, **options):
    """Whether the guarantee fails by seed, (n, N), for the relative error `judged_by`."""
    graph = make_graph()
    truth = np.array([dense_pagerank(graph, P_HALT, start) for start in np.eye(graph.n_nodes)])

    def draw(round_, n):
        failed = np.empty((n, graph.n_nodes), dtype=bool)
        for i in range(n):
            result = local_pagerank(
                graph, np.arange(graph.n_nodes), seed=round_ * 10**6 + i, n_threads=1, **options
            )
            scores, delta = result.scores.toarray(), result.delta[:, None]
            large = truth >= delta
            failed[i] = ((np.abs(scores - truth) > judged_by * truth) & large).any(axis=1)
            failed[i] |= ((scores >= (1 + judged_by) * delta) & ~large).any(axis=1)
        return failed

    return draw, graph.n_nodes


@pytest.mark.parametrize("make_graph", GRAPHS.values(), ids=GRAPHS)
@pytest.mark.parametrize(("epsilon", "failure"), [(0.5, 0.25), (0.5, 0.01), (0.1, 0.25)])
def test_local_scores_are_wrong_no_more_often_than_is_said(make_graph, epsilon, failure):
    draw, size = missed(make_graph, epsilon, epsilon=epsilon, failure=failure, delta=0.02)
    assert_rates(draw, np.zeros(size), np.full(size, failure), n0=300)


def test_errors_of_more_than_a_sixty_fourth_of_the_guaranteed_one_are_found():
    # Bounds are cautious, and pushing leaves little to walks on a
    # small graph; tests/pagerank/test_push.py shows that a quarter
    # of the walks break the bound where walks do all the work.
    draw, size = missed(lopsided_graph, 0.5 / 64, epsilon=0.5, failure=0.05, delta=0.02)
    with pytest.raises(AssertionError, match="wrong rate"):
        assert_rates(draw, np.zeros(size), np.full(size, 0.05), n0=300)
