"""Dictionaries of neighbours and lists of pairs."""

import networkx as nx
import numpy as np
import pytest

from graphrf import load_graph

KARATE = nx.karate_club_graph()


def dense(graph):
    return graph.adjacency.toarray()


def test_dictionaries_of_neighbours():
    graph = load_graph({"a": ["b", "c"], "d": []})
    assert (graph.nodes, graph.n_edges) == (("a", "d", "b", "c"), 2)
    weighted = load_graph({"a": {"b": 2.0}, "b": {"a": 2.0, "c": 3}}, weight="weight")
    np.testing.assert_array_equal(dense(weighted), [[0, 2, 0], [2, 0, 3], [0, 3, 0]])
    assert load_graph({"a": {"c", "b"}}).nodes == ("a", "b", "c")
    assert load_graph({5: np.array([2, 9])}).nodes == (5, 2, 9)
    assert load_graph({(0, 0): [(0, 1), (1, 0)]}).nodes == ((0, 0), (0, 1), (1, 0))
    assert load_graph({"u": ["v"], "v": ["u"]}).n_edges == 1


def test_a_neighbour_listed_on_one_side_is_joined_to_both_unless_directed():
    np.testing.assert_array_equal(dense(load_graph({"a": ["b"], "b": []})), [[0, 1], [1, 0]])
    np.testing.assert_array_equal(
        dense(load_graph({"a": ["b"], "b": []}, directed=True)), [[0, 1], [0, 0]]
    )


@pytest.mark.parametrize(
    "make", [nx.to_dict_of_dicts, lambda graph: graph.adj, lambda graph: graph.edges(data=True)]
)
def test_what_networkx_gives_is_its_graph(make):
    wanted = load_graph(KARATE, weight="weight")
    np.testing.assert_array_equal(dense(load_graph(make(KARATE), weight="weight")), dense(wanted))
    with pytest.warns(UserWarning, match="the graph is unweighted, but its edges have 'weight'"):
        assert load_graph(make(KARATE)).n_edges == wanted.n_edges
    for plain in (nx.to_dict_of_lists(KARATE), KARATE.edges, list(KARATE.edges)):
        np.testing.assert_array_equal(dense(load_graph(plain)), dense(wanted) > 0)


def test_lists_of_pairs():
    assert load_graph([("a", "b"), ("b", "c")]).nodes == ("a", "b", "c")
    assert load_graph([(3, 1), (1, 2)]).nodes == (1, 2, 3)  # ascending, as in a data frame
    assert load_graph([[656, 1], [1, np.int64(2)], [2, 656]]).nodes == (1, 2, 656)
    assert load_graph(zip("ab", "bc", strict=True)).n_edges == 2
    assert load_graph([((0, 0), (0, 1)), ((0, 1), (1, 1))]).nodes == ((0, 0), (0, 1), (1, 1))
    triples = [("a", "b", 2.0), ("b", "c", 0.5)]
    np.testing.assert_array_equal(
        dense(load_graph(triples, weight=2)), [[0, 2, 0], [2, 0, 0.5], [0, 0.5, 0]]
    )
    assert load_graph(triples, weight=False).is_weighted is False
    assert load_graph([("Paris", "in", "France")], columns=(0, 2)).nodes == ("Paris", "France")
    far = load_graph([("a", "b", 1.0), ("b", "c", 3.0)], weight=2, weight_is="distance")
    np.testing.assert_allclose(dense(far), [[0, 2, 0], [2, 0, 2 / 3], [0, 2 / 3, 0]])


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        ({}, {}, "at least one node"),
        ({"a": "bc"}, {}, "list of its neighbours.*got str 'bc' for 'a'"),
        ({"a": 1.0}, {}, "list of its neighbours.*got float"),
        ({(0, 0): (0, 1), (0, 1): (0, 0)}, {}, r"got tuple \(0, 1\) for \(0, 0\)"),
        ({"source": ["a"], "target": ["b"]}, {}, r"pandas\.DataFrame\(source\)"),
        ({"nodes": [{"id": 1}], "links": []}, {}, r"networkx\.node_link_graph"),
        ({1: [2], "1": [3]}, {}, "names that look the same, got 1 and '1'"),
        ({"a": {"b": {"w": 2}}}, {"weight": "x"}, r"attribute of the edges \('w'\), got 'x'"),
        (
            {"a": {"b": {"w": 2}, "c": {}}},
            {"weight": "w"},
            r"number for every edge, got NoneType None for \('a', 'c'\)",
        ),
        (
            {"a": {"b": float("nan")}},
            {"weight": "weight"},
            r"edge \('a', 'b'\): weights must be finite",
        ),
        (nx.to_dict_of_dicts(nx.MultiGraph([(0, 1)])), {}, "at least|multigraph"),
        ({"a": ["b"]}, {"columns": (0, 1)}, "`columns` belong to lists of pairs"),
        (
            [("a", "b", 2.0)],
            {},
            "weight=2 if the third are weights, weight=False to leave them out",
        ),
        ([("a", "b", "x")], {"weight": 2}, r"number for every edge, got str 'x' for \('a', 'b'\)"),
        ([("a", "b"), ("b", "c", 3)], {}, r"such as \('a', 'b'\) and \('b', 'c', 3\) \(entry 1\)"),
        ([("a", None)], {}, "must name all nodes, got None"),
        ([("a", ["b"])], {}, "hashable names"),
        (["ab", "cd"], {}, "list of pairs of nodes, got str 'ab' as entry 0"),
        ([{"source": 1, "target": 2}], {}, r"pandas\.DataFrame\(source\)"),
        ([], {}, "at least one edge"),
        ({("a", "b")}, {}, "in an order, got a set"),
        (([0, 1], [1, 2]), {}, r"graphrf\.from_edges\(\*source\)"),
        ([[0, 1], [1, 0]], {}, r"a matrix or a list of pairs: pass numpy\.array\(source\)"),
        ([[1, 3], [0, 2], [1, 3], [0, 2]], {}, r"dict\(enumerate\(source\)\)"),
        ([[1, 2], [0], [0]], {}, r"dict\(enumerate\(source\)\)"),
        ([(1, 2)], {"columns": (0, 5)}, r"`columns` must be in \[0, 1\]"),
        ([(1, 2)], {"weight": 4}, r"`weight` must be in \[0, 1\]"),
    ],
)
def test_what_is_unclear_is_refused(source, options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        load_graph(source, **options)
