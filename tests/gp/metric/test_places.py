"""Metric graphs and places along their edges: every way to give them, and what is refused."""

import networkx as nx
import numpy as np
import pytest

import graphrf as grf
from graphrf.gp import MetricGraph


@pytest.fixture(scope="module")
def roads():
    return MetricGraph(["a", "c", "c", "c"], ["b", "b", "d", "d"], [4.0, 2.0, 3.0, 5.0])


def _covariance(graph, places):
    return graph.covariance(places, lengthscale=2.0)


@pytest.mark.parametrize(
    "places",
    [
        ["b", ("a", "b", 1.0), ("b", "c", 0.5), (3, 2.0), "d"],
        ["b", (0, 1.0), (1, 1.5), (3, 2.0), "d"],
        [1, ("b", "a", 3.0), ("c", "b", 1.5), [3, 2.0], (3, 5.0)],
        [(0, 4.0), (0, 1.0), (1, 1.5), (3, 2.0), (2, 3.0)],
        np.array([[0, 4.0], [0, 1.0], [1, 1.5], [3, 2.0], [2, 3.0]]),
    ],
)
def test_all_ways_to_give_places_agree(roads, places):
    expected = _covariance(roads, [(0, 4.0), (0, 1.0), (1, 1.5), (3, 2.0), (2, 3.0)])
    np.testing.assert_allclose(_covariance(roads, places), expected, rtol=1e-12)


def test_rows_of_three_numbers_are_two_nodes_and_a_distance():
    graph = MetricGraph([5, 7], [7, 9], [1.0, 2.0], nodes=[5, 7, 9])
    by_rows = _covariance(graph, np.array([[2, 1, 0.5], [1, 0, 0.25]]))
    by_names = _covariance(graph, [(*graph.graph.index([9, 7]), 0.5), (*graph.graph.index([7, 5]), 0.25)])
    np.testing.assert_allclose(by_rows, _covariance(graph, [(1, 1.5), (0, 0.75)]), rtol=1e-12)
    np.testing.assert_allclose(by_names, by_rows, rtol=1e-12)


def test_nodes_named_by_coordinates():
    graph = MetricGraph([(0.0, 0.0), (0.0, 1.0)], [(0.0, 1.0), (2.0, 1.0)], [1.0, 2.0])
    places = [(0.0, 1.0), ((0.0, 1.0), (2.0, 1.0), 0.5), (0, 0.5)]
    np.testing.assert_allclose(
        _covariance(graph, places), _covariance(graph, [(0, 1.0), (1, 0.5), (0, 0.5)]), rtol=1e-12
    )


def test_places_within_rounding_of_one_another_are_one(roads):
    pieces = roads.cut(roads.places([(0, 1.0), (0, 1.0 + 1e-9), (0, 1e-9), (0, 4.0 - 1e-9), (0, 1.0), (0, 2.0)]))
    assert pieces.n_nodes == roads.n_nodes + 2
    np.testing.assert_array_equal(pieces.where[[0, 1, 4]], pieces.where[0])
    np.testing.assert_array_equal(pieces.where[2:4], [0, 1])
    assert pieces.length.sum() == pytest.approx(roads.length.sum())


def test_places_come_in_the_order_given(roads):
    places = [(2, 1.0), "a", (0, 3.0), (2, 0.5), "c", (0, 1.0)]
    order = np.random.default_rng(0).permutation(6)
    whole = _covariance(roads, places)
    np.testing.assert_allclose(
        _covariance(roads, [places[n] for n in order]), whole[np.ix_(order, order)], rtol=1e-12
    )
    assert _covariance(roads, []).shape == (0, 0)


def test_networkx_graphs_keep_their_parallel_edges():
    graph = nx.MultiGraph()
    graph.add_edge("x", "y", length=1.0)
    graph.add_edge("y", "x", length=2.0)
    graph.add_edge("y", "z", length=3.0)
    made = MetricGraph.from_networkx(graph)
    assert (made.n_nodes, made.n_edges, made.length.sum()) == (3, 3, 6.0)
    np.testing.assert_allclose(
        _covariance(made, ["x", ("z", "y", 1.0)]),
        _covariance(MetricGraph([0, 0, 1], [1, 1, 2], [1.0, 2.0, 3.0]), [0, (2, 2.0)]),
    )
    with pytest.raises(ValueError, match="`length` must be an attribute of every edge, got 'metres'"):
        MetricGraph.from_networkx(graph, length="metres")
    with pytest.raises(ValueError, match="`graph` must be undirected"):
        MetricGraph.from_networkx(nx.DiGraph([(0, 1)]))


def test_the_unit_of_lengthscales_does_not_depend_on_cuts():
    whole = MetricGraph([0, 0, 0], [1, 2, 3], [1.0, 2.0, 3.0])
    cut = MetricGraph([0, 4, 0, 5, 0], [4, 1, 5, 2, 3], [0.5, 0.5, 0.4, 1.6, 3.0])
    assert whole.road_length == cut.road_length == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("places", "said"),
    [
        ([("a", "b", 4.5)], "distances from 0 to the length of the edge, 4 for edge 0, got 4.5"),
        ([("a", "b", -0.5)], "got -0.5"),
        ([(0, float("nan"))], "must be finite, got nan"),
        (np.array([[0, np.nan]]), "got nan"),
        ([("a", "c", 1.0)], "no edge joins 'a' and 'c'"),
        ([("c", "d", 1.0)], "which of the edges 2, 3 between 'c' and 'd' is meant"),
        ([(4, 1.0)], r"edge numbers in \[0, 3\], got 4"),
        ([("a", 1.0)], "the edge number of places` must be an integer"),
        ([("a", "e", 1.0)], "'e'"),
        (["e"], "'e'"),
        ([(0, 1, 2, 3)], "got a place of 4 parts"),
        (np.zeros((2, 4)), "which has none of these shapes"),
        (np.array([[0.5, 1.0]]), "must have edge numbers before the last column"),
        (3.5, "must be nodes, pairs"),
    ],
)
def test_what_is_no_place_is_refused(roads, places, said):
    with pytest.raises((ValueError, TypeError), match=said):
        roads.places(places)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (([0], [1], [0.0]), "`length` must hold positive, finite lengths, got 0 at edge 0"),
        (([0, 1], [1, 2], [1.0, -2.0]), "got -2 at edge 1"),
        (([0], [1], [np.inf]), "got inf"),
        (([0], [1], [1.0, 2.0]), r"`length` must have shape \(1,\)"),
        (([0], [1], ["long"]), "`length` must hold numbers"),
        (([0], [2], [1.0]), "`nodes` must each be an end of an edge, got 1"),
        (([0, 1], [1], [1.0]), "must be equally long"),
    ],
)
def test_what_is_no_metric_graph_is_refused(arguments, said):
    with pytest.raises((ValueError, TypeError), match=said):
        MetricGraph(*arguments)


def test_a_graph_of_weights_is_no_metric_graph():
    gp = grf.gp.MetricGraphGPRegressor(grf.from_edges([0], [1]))
    with pytest.raises(TypeError, match="`graph` must be a MetricGraph"):
        gp.fit([0], [1.0])
