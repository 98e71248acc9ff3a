"""The matching cost of PageRank: against dense matrices, and as the variance of scores."""

import itertools

import numpy as np
import pytest

import graphrf as grf
from graphrf.couplings.linear import solve_linear
from graphrf.couplings.pagerank_cost import SourceCosts, pagerank_cost
from graphrf.pagerank.estimates import length_law
from graphrf.pagerank.problem import make_problem
from graphrf.pagerank.walks.runs import Walks
from graphrf.sampling.walks.lengths import Survival
from tests.pagerank.oracles import directed_graph, lopsided_graph, lossy_measure, transition_matrix
from tests.support.sequential import assert_unbiased

SURVIVALS = [Survival.geometric(0.3), Survival([1.0, 1.0, 0.55, 0.25, 0.25, 0.1])]
GRAPHS = [directed_graph, lopsided_graph]


def tile_laws(survival, order):
    """P(length = k | tile q): overlaps of tiles with the intervals of u of each length."""
    ends = 1.0 - np.append(survival.table, 0.0)
    laws = np.zeros((order, survival.table.size))
    for q, k in itertools.product(range(order), range(survival.table.size)):
        laws[q, k] = order * max(0.0, min((q + 1) / order, ends[k + 1]) - max(q / order, ends[k]))
    return laws


def powers(graph, n):
    chain = transition_matrix(graph)
    return np.array([np.linalg.matrix_power(chain, k) for k in range(n)])


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize("make_graph", GRAPHS)
@pytest.mark.parametrize("survival", SURVIVALS, ids=["geometric", "plateaus"])
@pytest.mark.parametrize("order", [1, 4, 7])
def test_the_cost_is_the_sum_over_all_pairs_of_nodes_of_products_of_end_point_laws(
    make_graph, survival, order
):
    graph = make_graph()
    ends = np.einsum("qk,kij->qij", tile_laws(survival, order), powers(graph, survival.table.size))
    dense = np.zeros((order, order))
    for a, b in itertools.product(range(order), repeat=2):
        for start, end in itertools.product(range(graph.n_nodes), repeat=2):
            dense[a, b] += ends[a, start, end] * ends[b, start, end]
    np.testing.assert_allclose(
        pagerank_cost(graph, survival, order, rng=rng()), dense, rtol=0, atol=1e-12
    )


def predicted_error(graph, survival, permutation):
    """The formula of docs/theory/couplings.md, sum_i Var(rho_i) for two walks a node."""
    order, n = permutation.size, graph.n_nodes
    cost = pagerank_cost(graph, survival, order, rng=rng())
    probability = survival.table - np.append(survival.table[1:], 0.0)
    mean = np.einsum("k,kij->ij", probability, powers(graph, survival.table.size))
    matched = cost[np.arange(order), permutation].mean()
    return float(mean.sum() + matched - 2 * (mean**2).sum()) / (2 * n**2)


def exact_error(graph, survival, joint):
    """The same from the joint law of both lengths, target by target: all moments."""
    n, walks = graph.n_nodes, powers(graph, survival.table.size)
    total = 0.0
    for start, end in itertools.product(range(n), repeat=2):
        hit = walks[:, start, end]
        first, second = joint.sum(axis=1) @ hit, joint.sum(axis=0) @ hit
        total += first + second + 2 * hit @ joint @ hit - (first + second) ** 2
    return total / (2 * n) ** 2


@pytest.mark.parametrize("make_graph", GRAPHS)
@pytest.mark.parametrize("survival", SURVIVALS, ids=["geometric", "plateaus"])
def test_the_cost_predicts_the_variance_of_the_scores_of_two_walks(make_graph, survival):
    graph, order = make_graph(), 5
    laws = tile_laws(survival, order)
    for permutation in (np.arange(order), np.array([4, 2, 3, 0, 1])):
        joint = laws.T @ laws[permutation] / order
        expected = exact_error(graph, survival, joint)
        assert predicted_error(graph, survival, permutation) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("coupled", [True, False])
def test_the_estimator_has_the_predicted_mean_squared_error(coupled):
    graph, survival = directed_graph(), Survival.geometric(0.3)
    permutation = solve_linear(pagerank_cost(graph, survival, 10, rng=rng()))
    problem = make_problem(graph, 0.3, None)
    law = length_law(grf.sampling.Coupling(permutation) if coupled else "iid", 0.3, "endpoints")
    truth = lossy_measure(graph, 0.3)

    def draw(index, n):
        groups = 2 // law.group * n
        parts = Walks(problem, law, "endpoints", index, 1).measures(groups, n)
        return np.array([[((measure / weight - truth) ** 2).sum()] for measure, weight, _ in parts])

    predicted = predicted_error(graph, survival, permutation)
    if coupled:
        assert_unbiased(draw, predicted, n0=20_000)
    else:
        # Independent walks must fail the prediction, or the test above would show nothing.
        with pytest.raises(AssertionError, match="biased"):
            assert_unbiased(draw, predicted, n0=20_000)


class Chosen:
    """A generator whose choice is given."""

    def __init__(self, nodes):
        self.nodes = np.array(nodes)

    def choice(self, n, size, replace):
        assert size == self.nodes.size
        assert not replace
        return self.nodes


@pytest.mark.parametrize("n_sources", [1, 2, 3])
def test_sampled_sources_average_to_the_cost_over_all_of_their_choices(n_sources):
    graph, survival = directed_graph(), SURVIVALS[1]
    exact = pagerank_cost(graph, survival, 4, rng=rng())
    costs = SourceCosts(all_sources=3, work=0, fewest_sources=n_sources)
    choices = list(itertools.combinations(range(graph.n_nodes), n_sources))
    sampled = np.array(
        [pagerank_cost(graph, survival, 4, rng=Chosen(nodes), costs=costs) for nodes in choices]
    )
    np.testing.assert_allclose(sampled.mean(axis=0), exact, rtol=0, atol=1e-12)
    assert np.abs(sampled - exact).max() > 0.1


def test_large_graphs_are_sampled_as_far_as_the_work_allowed_goes():
    line = np.arange(1_100)
    graph, survival = grf.from_edges(line[:-1], line[1:]), Survival.geometric(0.8)
    exact = pagerank_cost(graph, survival, 3, rng=rng())
    np.testing.assert_array_equal(exact, exact.T)
    everyone = SourceCosts(all_sources=2_000)
    np.testing.assert_allclose(
        pagerank_cost(graph, survival, 3, rng=None, costs=everyone), exact, rtol=1e-12
    )
    few = SourceCosts(work=100 * survival.table.size * graph.adjacency.nnz)
    sampled = [pagerank_cost(graph, survival, 3, rng=rng(seed), costs=few) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(sampled[0], sampled[1])
    assert not np.array_equal(sampled[0], sampled[2])
    np.testing.assert_allclose(sampled[0], exact, rtol=0.05)


def test_blocks_of_sources_add_up():
    graph = lopsided_graph()
    whole = pagerank_cost(graph, SURVIVALS[0], 4, rng=rng())
    costs = SourceCosts(block_floats=2 * 4 * graph.n_nodes)
    in_blocks = pagerank_cost(graph, SURVIVALS[0], 4, rng=rng(), costs=costs)
    np.testing.assert_allclose(in_blocks, whole, rtol=1e-13)
