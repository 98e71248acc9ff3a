"""Edges as nodes: how they are named, what joins them, and their weights."""

import networkx as nx
import numpy as np
import pytest

from graphrf import load_graph


def dense(graph):
    return graph.adjacency.toarray()


def town():
    """Both directions of a street, parallel ones, a loop, a dead end; as OSMnx has them."""
    graph = nx.MultiDiGraph(crs="epsg:32610")
    for u, v, length in [
        (7, 9, 100.0),
        (9, 7, 100.0),
        (9, 4, 300.0),
        (9, 4, 500.0),
        (4, 4, 60.0),
        (4, 2, 40.0),
    ]:
        graph.add_edge(u, v, length=length)
    return graph


NAMES = [(7, 9, 0), (9, 7, 0), (9, 4, 0), (9, 4, 1), (4, 4, 0), (4, 2, 0)]
JOINED = [
    [0, 1, 1, 1, 0, 0],
    [1, 0, 1, 1, 0, 0],
    [1, 1, 0, 1, 1, 1],
    [1, 1, 1, 0, 1, 1],
    [0, 0, 1, 1, 0, 1],
    [0, 0, 1, 1, 1, 0],
]


def test_edges_of_a_multigraph_are_named_and_ordered_as_in_networkx():
    graph = town()
    made = load_graph(graph, on="edges")
    assert list(made.nodes) == list(graph.edges)
    assert not made.directed
    np.testing.assert_array_equal(dense(made), np.array(JOINED))


@pytest.mark.parametrize("make", [nx.Graph, nx.DiGraph, nx.MultiGraph])
def test_the_line_graph_is_that_of_networkx(make):
    graph = make(nx.gnm_random_graph(12, 25, seed=3).edges)
    graph.add_edge(0, 99)  # a dead end
    made = load_graph(graph, on="edges")
    assert list(made.nodes) == list(graph.edges)
    theirs = nx.line_graph(nx.Graph(graph))
    ours = nx.relabel_nodes(made.to_networkx(), {name: frozenset(name[:2]) for name in made.nodes})
    assert {frozenset(map(frozenset, pair)) for pair in theirs.edges} == {
        frozenset(pair) for pair in ours.edges
    }


def test_distances_are_those_between_midpoints():
    made = load_graph(town(), on="edges", weight="length", weight_is="distance")
    lengths = np.array([100.0, 100.0, 300.0, 500.0, 60.0, 40.0])
    between = (lengths[:, None] + lengths) / 2
    joined = np.array(JOINED) > 0
    wanted = np.where(joined, between[joined].mean() / between, 0)
    np.testing.assert_allclose(dense(made), wanted)
    assert made.is_weighted


def test_similarities_are_conductances_in_series():
    graph = nx.path_graph(4)
    nx.set_edge_attributes(graph, {(0, 1): 1.0, (1, 2): 3.0, (2, 3): 0.0}, "lanes")
    made = load_graph(graph, on="edges", weight="lanes")
    np.testing.assert_allclose(dense(made), [[0, 1.5, 0], [1.5, 0, 0], [0, 0, 0]])


def test_tables_and_maps_are_named_by_their_index():
    pandas, geopandas = pytest.importorskip("pandas"), pytest.importorskip("geopandas")
    import shapely

    graph = town()
    table = pandas.DataFrame(
        {"length": [data["length"] for *_, data in graph.edges(data=True)]},
        index=pandas.MultiIndex.from_tuples(graph.edges, names=["u", "v", "key"]),
    )
    expected = load_graph(graph, on="edges", weight="length", weight_is="distance")
    spots = {7: (0, 0), 9: (1, 0), 4: (2, 5), 2: (3, 5)}
    lines = [shapely.LineString([spots[u], (5, 5), spots[v]]) for u, v, _ in graph.edges]
    # ox.graph_to_gdfs returns the second form.
    for source in (table, geopandas.GeoDataFrame(table, geometry=lines)):
        made = load_graph(source, on="edges", weight="length", weight_is="distance")
        assert list(made.nodes) == list(source.index) == NAMES
        np.testing.assert_array_equal(dense(made), dense(expected))
    flat = table.reset_index()
    assert list(load_graph(flat, on="edges").nodes) == list(flat.index)
    np.testing.assert_array_equal(
        dense(load_graph(flat.iloc[::-1], on="edges")), np.array(JOINED)[::-1, ::-1]
    )
    assert load_graph(flat.iloc[::-1], on="edges").nodes == (5, 4, 3, 2, 1, 0)
    bare = geopandas.GeoDataFrame(geometry=lines, index=list("abcdef"))
    assert load_graph(bare, on="edges").nodes == tuple("abcdef")
    np.testing.assert_array_equal(dense(load_graph(bare, on="edges")), np.array(JOINED))


def test_a_line_of_several_parts_is_one_edge():
    geopandas, shapely = pytest.importorskip("geopandas"), pytest.importorskip("shapely")
    whole = shapely.MultiLineString([[(0, 0), (3, 4)], [(9, 9), (9, 10)]])
    lines = [shapely.LineString([(3, 4), (3, 5)]), whole, shapely.LineString([(9, 10), (9, 13)])]
    made = load_graph(geopandas.GeoSeries(lines), on="edges", weight="length", weight_is="distance")
    np.testing.assert_allclose(
        dense(made), [[0, 4 / 3.5, 0], [4 / 3.5, 0, 4 / 4.5], [0, 4 / 4.5, 0]]
    )


def test_files_number_their_edges_and_graphs_in_them_name_them(tmp_path):
    path = tmp_path / "roads.csv"
    path.write_text("u,v,length\n7,9,100\n9,7,100\n9,4,300\n9,4,500\n4,4,60\n4,2,40\n")
    expected = load_graph(town(), on="edges", weight="length", weight_is="distance")
    made = load_graph(path, on="edges", weight="length", weight_is="distance")
    np.testing.assert_array_equal(dense(made), dense(expected))
    assert made.nodes == range(6)
    nx.write_graphml(town(), tmp_path / "roads.graphml")
    again = load_graph(
        tmp_path / "roads.graphml", on="edges", weight="length", weight_is="distance"
    )
    np.testing.assert_array_equal(dense(again), dense(expected))
    assert [name[:2] for name in again.nodes] == [(str(u), str(v)) for u, v, _ in NAMES]


def test_other_libraries_number_their_edges():
    igraph = pytest.importorskip("igraph")
    other = igraph.Graph([(0, 1), (1, 2), (3, 4)])
    np.testing.assert_array_equal(
        dense(load_graph(other, on="edges")), [[0, 1, 0], [1, 0, 0], [0, 0, 0]]
    )


def test_edges_that_meet_no_other_are_said():
    graph = nx.Graph([(0, 1), (2, 3), (4, 5), (5, 6)])
    assert load_graph(graph, on="edges").n_edges == 1
    graph.add_edge(8, 9)
    with pytest.warns(UserWarning, match="3 of the 5 edges share an end with no other"):
        made = load_graph(graph, on="edges")
    assert made.n_nodes == 5


def test_weights_of_edges_are_checked_as_those_of_nodes_are():
    with pytest.warns(UserWarning, match="the weights in 'length' are taken as similarities"):
        load_graph(town(), on="edges", weight="length")
    weighted = nx.Graph()
    weighted.add_weighted_edges_from([(0, 1, 2.0), (1, 2, 3.0)])
    with pytest.warns(UserWarning, match="the graph is unweighted, but its edges have 'weight'"):
        load_graph(weighted, on="edges")
    broken = town()
    broken.add_edge(2, 1, length=0.0)
    with pytest.raises(
        ValueError, match=r"edge \(2, 1, 0\): weights must be finite distances above 0; got 0"
    ):
        load_graph(broken, on="edges", weight="length", weight_is="distance")
    with pytest.raises(ValueError, match="no 'lanes'; the edges have 'length'"):
        load_graph(town(), on="edges", weight="lanes")


def test_what_has_no_edges_to_be_nodes_is_refused(tmp_path):
    pandas = pytest.importorskip("pandas")
    geopandas, shapely = pytest.importorskip("geopandas"), pytest.importorskip("shapely")
    for source in (np.eye(3), load_graph(nx.path_graph(3))):
        with pytest.raises(TypeError, match="`source` must list its edges for on='edges'"):
            load_graph(source, on="edges")
    with pytest.raises(ValueError, match="at least one edge"):
        load_graph(nx.empty_graph(3), on="edges")
    with pytest.raises(ValueError, match="must have lines only with on='edges', got 'Polygon'"):
        load_graph(geopandas.GeoSeries([shapely.box(0, 0, 1, 1)]), on="edges")
    with pytest.raises(ValueError, match="`directed` must not be True with on='edges'"):
        load_graph(town(), on="edges", directed=True)
    with pytest.raises(
        ValueError, match="`on` must be one of 'nodes', 'edges', got 'edge'; did you mean"
    ):
        load_graph(town(), on="edge")
    table = pandas.DataFrame({"u": [0, 1], "v": [1, 2]}, index=["a", "a"])
    with pytest.raises(
        ValueError, match=r"must have an index without repetitions, .* got 'a' more than once"
    ):
        load_graph(table, on="edges")
    unnamed = pandas.DataFrame({"lanes": [1, 2], "speed": [3, 4]}, index=[[7, 8], [8, 9]])
    with pytest.raises(ValueError, match="must say which columns or levels hold the ends"):
        load_graph(unnamed, on="edges")
    np.savetxt(tmp_path / "matrix.mtx", np.eye(2))
    with pytest.raises(ValueError, match=r"needs a list of edges, GML or GraphML, got matrix\.mtx"):
        load_graph(tmp_path / "matrix.mtx", on="edges")


def test_a_node_with_too_many_edges_is_refused_before_its_pairs_are_made():
    with pytest.raises(
        MemoryError, match="the graph of 100000 edges, of which 100000 meet at one node"
    ):
        load_graph(nx.star_graph(100_000), on="edges")
