"""Both directions of a street back to its own junction, in every loader that joins them."""

import networkx as nx
import numpy as np
import pytest

import graphrf as grf
from graphrf.gp import FieldGPRegressor, MetricGraph

# A street in both directions, and a cul-de-sac at its end.
SRC, DST, LENGTH = [0, 1, 1, 1], [1, 0, 1, 1], [300.0, 300.0, 500.0, 500.0]


def _roads(*loops, kind=nx.MultiDiGraph):
    """A street, in both directions if there are any, and loops at its end with these attributes."""
    graph = kind(crs="epsg:32632")
    graph.add_edge(0, 1, length=300.0)
    if graph.is_directed():
        graph.add_edge(1, 0, length=300.0)
    graph.add_edges_from((1, 1, loop) for loop in loops)
    return graph


def _adjacency(source, **options):
    return grf.load_graph(
        source, weight="length", weight_is="distance", **options
    ).adjacency.toarray()


ONE = _adjacency(_roads({"length": 500.0}, kind=nx.MultiGraph))
TWO = _adjacency(_roads({"length": 500.0}, {"length": 500.0}, kind=nx.MultiGraph))


@pytest.mark.parametrize(
    ("first", "second", "n_loops"),
    [
        ({}, {}, 1),
        ({}, {"length": 500.0000001}, 1),
        ({}, {"length": 500.1}, 1),
        ({"length": "500.0"}, {"length": "500.0"}, 1),
        ({"osmid": 7, "reversed": False}, {"osmid": 7, "reversed": True}, 1),
        ({"osmid": [7, 8]}, {"osmid": [8, 7]}, 1),
        ({"osmid": "[7, 8]"}, {"osmid": "[8, 7]"}, 1),
        ({"oneway": False}, {"oneway": False}, 1),
        ({"osmid": 7}, {"osmid": 8}, 2),
        ({"osmid": [7, 8]}, {"osmid": [7, 9]}, 2),
        ({"oneway": True}, {"oneway": True}, 2),
        ({"oneway": "True"}, {"oneway": "True"}, 2),
    ],
)
def test_the_two_directions_of_a_loop_are_one_street(first, second, n_loops):
    graph = _roads({"length": 500.0} | first, {"length": 500.0} | second)
    assert MetricGraph.from_networkx(graph).n_edges == 1 + n_loops
    np.testing.assert_allclose(_adjacency(graph), ONE if n_loops == 1 else TWO, rtol=1e-3)


def test_loops_of_other_lengths_are_paired_by_their_lengths():
    graph = _roads(*({"length": length} for length in (500.0, 700.0, 700.0, 500.0)))
    assert sorted(MetricGraph.from_networkx(graph).length) == [300, 500, 700]
    expected = _adjacency(_roads({"length": 500.0}, {"length": 700.0}, kind=nx.MultiGraph))
    np.testing.assert_allclose(_adjacency(graph), expected)


def test_parallel_loops_of_an_undirected_graph_both_count():
    graph = _roads({"length": 500.0}, {"length": 500.0}, kind=nx.MultiGraph)
    assert MetricGraph.from_networkx(graph).n_edges == 3
    listed = grf.from_edges([0, 1, 1], [1, 1, 1], [300.0, 500.0, 500.0], weight_is="distance")
    np.testing.assert_allclose(listed.adjacency.toarray(), TWO)


def test_lists_of_both_directions_have_each_loop_once(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"u": SRC, "v": DST, "length": LENGTH})
    frame.to_csv(tmp_path / "roads.csv", index=False)
    nx.write_graphml(_roads({"length": 500.0}, {"length": 500.0}), tmp_path / "roads.graphml")
    rows = [(u, v, {"length": length}) for u, v, length in zip(SRC, DST, LENGTH, strict=True)]
    for source in (
        frame,
        frame.set_index(["u", "v"]),
        rows,
        tmp_path / "roads.csv",
        tmp_path / "roads.graphml",
    ):
        np.testing.assert_allclose(_adjacency(source), ONE)
    np.testing.assert_allclose(
        grf.from_edges(SRC, DST, LENGTH, weight_is="distance").adjacency.toarray(), ONE
    )


def test_a_directed_graph_keeps_both_loops():
    graph = _roads({"length": 500.0}, {"length": 500.0})
    assert _adjacency(graph, directed=True)[1, 1] == pytest.approx(2 * 400 / 500)


def test_the_second_name_of_a_loop_leads_backwards(tmp_path):
    roads = MetricGraph.from_networkx(_roads({"length": 500.0}, {"length": 500.0}))
    there, back = roads.places([(1, 1, 0, 100.0)]), roads.places([(1, 1, 1, 400.0)])
    assert (there.edge, there.distance) == (back.edge, back.distance)
    fitted = FieldGPRegressor(roads).fit([0, 1, (1, 1, 1, 100.0)], [1.0, 2.0, 4.0])
    fitted.save(tmp_path / "fit.npz")
    loaded = FieldGPRegressor.load(tmp_path / "fit.npz")
    assert loaded.domain.edge_names == roads.edge_names
    np.testing.assert_array_equal(
        loaded.predict([(1, 1, 1, 120.0)]), fitted.predict([(1, 1, 0, 380.0)])
    )


def test_a_carriageway_for_each_direction_is_two_roads():
    graph = nx.MultiDiGraph()
    graph.add_edge("a", "b", length=100.0, osmid=1, oneway=True)
    graph.add_edge("b", "a", length=100.0, osmid=2, oneway=True)
    assert MetricGraph.from_networkx(graph).n_edges == 2
    graph["b"]["a"][0].update(osmid=1, oneway=False)
    assert MetricGraph.from_networkx(graph).n_edges == 1


def test_arrays_with_both_directions_of_most_roads_are_warned_of(recwarn):
    MetricGraph([0, 1, 2], [1, 2, 0], [1.0, 1.0, 1.0])
    MetricGraph([0, 1], [1, 0], [1.0, 1.0])  # a circle
    assert not recwarn
    with pytest.warns(
        UserWarning, match="4 of the 4 edges lead back along another of the same length"
    ):
        MetricGraph([0, 1, 1, 2], [1, 0, 2, 1], [1.0, 1.0, 2.0, 2.0])
