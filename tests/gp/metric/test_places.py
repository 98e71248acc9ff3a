"""Metric graphs and places along their edges: every way to give them, and what is refused."""

from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest

import graphrf as grf
from graphrf.gp import FieldGPRegressor, MetricGraph


@pytest.fixture(scope="module")
def roads():
    return MetricGraph(["a", "c", "c", "c"], ["b", "b", "d", "d"], [4.0, 2.0, 3.0, 5.0])


def _covariance(graph, places):
    return graph.covariance(places, range=4.0)


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
    by_names = _covariance(
        graph, [(*graph.graph.index([9, 7]), 0.5), (*graph.graph.index([7, 5]), 0.25)]
    )
    np.testing.assert_allclose(by_rows, _covariance(graph, [(1, 1.5), (0, 0.75)]), rtol=1e-12)
    np.testing.assert_allclose(by_names, by_rows, rtol=1e-12)


def test_nodes_named_by_coordinates():
    graph = MetricGraph([(0.0, 0.0), (0.0, 1.0)], [(0.0, 1.0), (2.0, 1.0)], [1.0, 2.0])
    places = [(0.0, 1.0), ((0.0, 1.0), (2.0, 1.0), 0.5), (0, 0.5)]
    np.testing.assert_allclose(
        _covariance(graph, places), _covariance(graph, [(0, 1.0), (1, 0.5), (0, 0.5)]), rtol=1e-12
    )


def test_places_within_rounding_of_one_another_are_one(roads):
    pieces = roads.subdivide(
        roads.places([(0, 1.0), (0, 1.0 + 1e-9), (0, 1e-9), (0, 4.0 - 1e-9), (0, 1.0), (0, 2.0)])
    )
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
    with pytest.raises(
        ValueError, match=r"`length` must be an attribute of every edge, but edge .* no 'metres'"
    ):
        MetricGraph.from_networkx(graph, length="metres")


def osm_town(graph=nx.MultiDiGraph):
    """Junctions with identifiers of OpenStreetMap; two-way, one-way and parallel streets."""
    made = graph(crs="epsg:4326")
    spots = {
        656001893: (7.0, 50.0),
        656001894: (7.001, 50.0),
        31: (7.001, 50.001),
        656001899: (7.0, 50.001),
    }
    for node, (x, y) in spots.items():
        made.add_node(node, x=x, y=y)
    made.add_node(5, x=7.0, y=50.0)  # without a street
    for u, v, length in [
        (656001893, 656001894, 71.5),
        (656001894, 31, 111.0),
        (656001894, 31, 150.0),
        (31, 656001899, 71.4),
        (656001894, 656001893, 71.5),
        (31, 656001894, 150.0),
    ]:
        made.add_edge(u, v, length=length)
    return made


def test_two_directions_of_one_length_are_one_street_with_two_names():
    made = MetricGraph.from_networkx(osm_town())
    assert (made.n_nodes, made.n_edges) == (4, 4)
    np.testing.assert_array_equal(made.length, [71.5, 111.0, 150.0, 71.4])
    assert made.nodes == (656001893, 656001894, 31, 656001899)
    np.testing.assert_array_equal(made.index([31, 656001893]), [2, 0])
    found = made.places(
        [
            (656001893, 656001894, 0, 10.0),
            (656001894, 656001893, 0, 61.5),
            (656001893, 656001894, 10.0),
            (656001894, 31, 1, 40.0),
            (31, 656001894, 0, 110.0),  # the key of this direction is another
            (656001894, 31, 0, 40.0),
            (31, 656001899, 0, 1.4),
            (656001899, 31, 0, 70.0),
        ]
    )
    np.testing.assert_array_equal(found.edge, [0, 0, 0, 2, 2, 1, 3, 3])
    np.testing.assert_allclose(found.distance, [10, 10, 10, 40, 40, 40, 1.4, 1.4])
    apart = osm_town()
    apart.edges[31, 656001894, 0]["length"] = 151.0  # another carriageway
    assert MetricGraph.from_networkx(apart).n_edges == 5
    undirected = MetricGraph.from_networkx(osm_town().to_undirected())
    assert (
        undirected.places([(31, 656001894, 1, 10.0)]).edge
        == undirected.places([(656001894, 31, 1, 1.0)]).edge
    )


def test_integers_that_are_no_positions_are_names():
    made = MetricGraph.from_networkx(osm_town())
    rows = [(656001893, 656001894, 10.0), (31, 656001899, 7.5)]
    wanted = made.places([(0, 10.0), (3, 7.5)])
    for places in (
        rows,
        np.array(rows),
        np.array(rows, dtype=object),
        np.array([(u, v, 0, m) for u, v, m in rows]),
    ):
        for own, other in zip(made.places(places), wanted, strict=True):
            np.testing.assert_array_equal(own, other)
    for nodes in ([656001894, 31], np.array([656001894, 31])):
        np.testing.assert_array_equal(made.places(nodes).node, [1, 2])
    np.testing.assert_array_equal(made.places([1, 2]).node, [1, 2])
    with pytest.raises(
        ValueError, match="must be nodes of the graph, got 99; names here look like 656001893"
    ):
        made.places([656001893, 99])
    # All of these names are positions as well.
    both = MetricGraph([2, 1], [1, 0], [1.0, 1.0], nodes=[2, 1, 0])
    with pytest.raises(ValueError, match="must say whether integers are names or positions"):
        both.places([0, 2])


def test_places_in_a_data_frame():
    pandas = pytest.importorskip("pandas")
    made = MetricGraph.from_networkx(osm_town())
    wanted = made.places([(656001894, 31, 1, 40.0), (31, 656001899, 0, 7.5)])
    table = pandas.DataFrame(
        {"metres": [40.0, 7.5], "v": [31, 656001899], "key": [1, 0], "u": [656001894, 31]},
        index=["x", "y"],
    )
    numbered = pandas.DataFrame({"distance": [40.0, 7.5], "edge": [2, 3]})
    for frame in (table, table.set_index(["u", "v", "key"]), numbered):
        for own, other in zip(made.places(frame), wanted, strict=True):
            np.testing.assert_array_equal(own, other)
    simple = made.places(table.drop(columns="key").iloc[1:])
    np.testing.assert_array_equal(simple.edge, [3])
    assert made.places(table.iloc[:0]).node.size == 0
    for frame in (table.assign(speed=30.0), table.drop(columns="metres"), table[["metres", "key"]]):
        with pytest.raises(
            ValueError, match="`places` must have the columns u, v, key and one of distances"
        ):
            made.places(frame)


def test_numbers_in_text_are_lengths_and_other_text_is_not():
    graph = nx.Graph()
    graph.add_edge("a", "b", length="12.5")
    assert MetricGraph.from_networkx(graph).length == [12.5]
    graph.add_edge("b", "c", length="long")
    with pytest.raises(
        ValueError, match=r"`length` must be an attribute with numbers, but 'length' of edge"
    ):
        MetricGraph.from_networkx(graph)


@pytest.mark.filterwarnings("error")
def test_lengths_in_degrees_are_noticed():
    graph = osm_town()
    MetricGraph.from_networkx(graph)
    for u, v, data in graph.edges(data=True):
        (x, y), (a, b) = ((graph.nodes[node]["x"], graph.nodes[node]["y"]) for node in (u, v))
        data["length"] = 1.1 * np.hypot(x - a, y - b)
    with pytest.warns(UserWarning, match="the lengths in 'length' seem to be in degrees, like"):
        MetricGraph.from_networkx(graph)
    for on in ("nodes", "edges"):
        with pytest.warns(UserWarning, match="seem to be in degrees"):
            grf.load_graph(graph, on=on, weight="length", weight_is="distance")
    graph.graph["crs"] = SimpleNamespace(is_geographic=False)  # projected: these are metres
    MetricGraph.from_networkx(graph)


def test_the_unit_of_lengthscales_does_not_depend_on_cuts():
    whole = MetricGraph([0, 0, 0], [1, 2, 3], [1.0, 2.0, 3.0])
    cut = MetricGraph([0, 4, 0, 5, 0], [4, 1, 5, 2, 3], [0.5, 0.5, 0.4, 1.6, 3.0])
    assert whole.road_length == cut.road_length == pytest.approx(0.6)


@pytest.mark.parametrize(
    ("places", "said"),
    [
        (
            [("a", "b", 4.5)],
            "from 0 to the length of the edge, 4 for edge 0 from 'a' to 'b', got 4.5",
        ),
        ([("a", "b", 4.000001)], "got 4.000001"),
        ([("a", "b", -0.5)], "got -0.5"),
        ([(0, float("nan"))], "must be finite, got nan"),
        (np.array([[0, np.nan]]), "got nan"),
        ([("a", "c", 1.0)], "no edge joins 'a' and 'c'"),
        ([("c", "d", 1.0)], "which of the edges 2, 3 between 'c' and 'd' is meant"),
        ([(4, 1.0)], r"edge numbers in \[0, 3\], got 4"),
        ([("a", 1.0)], "the edge number of places` must be an integer"),
        ([("a", "e", 1.0)], "'e'"),
        (["e"], "'e'"),
        (
            [("c", "d", 2, 1.0)],
            r"got key 2 between 'c' and 'd', whose edges have the keys 0, 1 \(place 0\)",
        ),
        ([("a", "d", 0, 1.0)], "got key 0 between 'a' and 'd', which no edge joins"),
        ([(0, 1, 2, 3, 4)], "got a place of 5 parts"),
        (np.zeros((2, 5)), "which has none of these shapes"),
        (np.array([[0.5, 1.0]]), "must have edge numbers before the last column"),
        (3.5, "must be nodes, .edge number, distance from its `src`., .u, v, distance"),
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
    gp = grf.gp.FieldGPRegressor(grf.from_edges([0], [1]))
    with pytest.raises(TypeError, match="`domain` must be a TriangleMesh or a MetricGraph"):
        gp.fit([0], [1.0])


def test_files_keep_the_keys_of_streets(tmp_path):
    """Key 0 from 31 is another street than key 0 to 31, and is not found by counting."""
    town = MetricGraph.from_networkx(osm_town())
    gp = FieldGPRegressor(town, range=200.0, sd=1.0, noise=0.01)
    gp.fit([(656001894, 31, 0, 50.0), (31, 656001894, 0, 50.0)], [1.0, -1.0]).save(
        tmp_path / "gp.npz"
    )
    loaded = FieldGPRegressor.load(tmp_path / "gp.npz")
    there = [(31, 656001894, 0, 50.0), (656001894, 31, 1, 100.0), (656001894, 31, 0, 50.0)]
    np.testing.assert_array_equal(loaded.predict(there), gp.predict(there))
    assert loaded.predict(there)[0] < 0 < loaded.predict(there)[2]
