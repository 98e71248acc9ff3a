import re
import types
import warnings

import networkx as nx
import numpy as np
import pytest

import graphrf as grf
from graphrf.graph.notices import of_few_edges


def said(call, *args, **options):
    """The one warning of a call, or an empty text."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(*args, **options)
    assert len(caught) <= 1
    return str(caught[0].message) if caught else ""


def weighted(kind=nx.Graph, **attributes):
    network = kind()
    network.add_edge("a", "b", **attributes)
    network.add_edge("b", "c", **attributes)
    return network


# -- weights that nobody asked for -----------------------------------------------------------------


def test_a_weight_that_is_left_aside_is_told_with_both_ways_out(tmp_path):
    network = weighted(weight=2.0, colour="red", length=3.0)
    text = said(grf.load_graph, network)
    assert (
        "the graph is unweighted, but its edges have 'weight' (attributes: 'weight', 'colour', "
        "'length')" in text
    )
    assert "pass weight='weight' to use it, or weight=False for an unweighted graph" in text
    assert not grf.load_graph(network, weight=False).is_weighted  # warnings are errors
    assert grf.load_graph(network, weight="weight").adjacency.max() == 2.0
    nx.write_gml(network, tmp_path / "g.gml")
    nx.write_graphml(network, tmp_path / "g.graphml")
    (tmp_path / "g.csv").write_text("from,to,Weight,x\na,b,1,0\nb,c,2,0\n")
    for name, attribute in (("g.gml", "weight"), ("g.graphml", "weight"), ("g.csv", "Weight")):
        assert f"pass weight='{attribute}' to use it" in said(grf.load_graph, tmp_path / name)
        grf.load_graph(tmp_path / name, weight=False)
        assert grf.load_graph(tmp_path / name, weight=attribute).adjacency.max() == 2.0
    data = types.SimpleNamespace(
        edge_index=np.array([[0, 1], [1, 0]]), edge_weight=np.array([2.0, 2.0])
    )
    assert "pass weight='edge_weight' to use it" in said(grf.load_graph, data)
    assert grf.load_graph(data, weight=False).adjacency.max() == 1.0


def test_what_loses_nothing_or_is_no_weight_by_name_is_left_aside_in_silence(tmp_path):
    for attributes in ({"weight": 1.0}, {"length": 2.0, "travel_time": 3.0}, {"colour": "red"}, {}):
        grf.load_graph(weighted(**attributes))  # warnings are errors
    (tmp_path / "g.csv").write_text("from,to,weight,length\na,b,1,5\nb,c,1.0,2\n")
    grf.load_graph(tmp_path / "g.csv")
    (tmp_path / "untitled.csv").write_text("a,b,3\nb,c,4\n")
    grf.load_graph(tmp_path / "untitled.csv")


def test_weight_is_a_name_or_false():
    for wrong in (True, 1.5, ["weight"]):
        with pytest.raises(
            TypeError, match="`weight` must be the name of an attribute or column, or False"
        ):
            grf.load_graph(weighted(weight=2.0), weight=wrong)
    with pytest.raises(
        ValueError, match="`weight` must name the attribute or column of the distances"
    ):
        grf.load_graph(weighted(weight=2.0), weight=False, weight_is="distance")
    with pytest.raises(
        ValueError, match="got weight=False for a matrix, whose entries are the weights"
    ):
        grf.load_graph(np.eye(2), weight=False)


def test_an_attribute_that_is_missing_is_answered_with_those_that_are_there():
    with pytest.raises(
        ValueError, match=r"edge \('a', 'b'\) has no 'weight'; the edges have 'length', 'name'$"
    ):
        grf.load_graph(weighted(length=1.0, name="x"), weight="weight")
    with pytest.raises(ValueError, match="has no 'weight'; the edges have no attributes"):
        grf.load_graph(weighted(), weight="weight")


# -- distances -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["length", "distance", "travel_time", "time", "cost", "roadLength", "KM"]
)
def test_distances_that_are_taken_as_similarities_are_told(name, tmp_path):
    network = weighted(nx.MultiDiGraph, **{name: 2.0})
    network.graph["crs"] = "epsg:4326"
    text = said(grf.load_graph, network, weight=name)
    assert f"the weights in '{name}' are taken as similarities" in text
    assert "pass weight_is='distance'; weight_is='similarity' ends this warning" in text
    for kind in ("similarity", "distance"):
        grf.load_graph(network, weight=name, weight_is=kind)
    (tmp_path / "g.csv").write_text(f"from,to,{name}\na,b,1\nb,c,2\n")
    assert said(grf.load_graph, tmp_path / "g.csv", weight=name) == text
    assert said(grf.load_graph, tmp_path / "g.csv", weight=2) == text
    data = types.SimpleNamespace(
        edge_index=np.array([[0, 1], [1, 0]]), **{name: np.array([2.0, 2.0])}
    )
    assert said(grf.load_graph, data, weight=name) == text


def test_other_weights_are_similarities_without_a_word():
    for name in ("weight", "strength", "times_seen"):
        grf.load_graph(weighted(**{name: 2.0}), weight=name)


# -- parallel edges and directions -----------------------------------------------------------------


def parallel(kind=nx.MultiDiGraph):
    return kind([(0, 1), (0, 1), (0, 2), (1, 0)])


def test_parallel_arcs_that_count_once_are_told_and_with_the_weight_1_they_count_as_in_networkx(
    tmp_path,
):
    network = parallel()
    text = said(grf.load_graph, network, directed=True)
    assert "1 of the 4 edges listed repeat an earlier one" in text
    assert "weight 1 to have parallel ones added, as networkx does, or pass weight=False" in text
    once = grf.load_graph(network, directed=True, weight=False)
    np.testing.assert_array_equal(once.adjacency.toarray(), [[0, 1, 1], [1, 0, 0], [0, 0, 0]])

    nx.set_edge_attributes(network, 1.0, "n")
    counted = grf.load_graph(network, directed=True, weight="n")
    expected = list(nx.pagerank(parallel(), tol=1e-12).values())
    np.testing.assert_allclose(grf.pagerank(counted).scores, expected, atol=1e-10)
    assert list(nx.pagerank(parallel(), backend="graphrf").values()) == pytest.approx(
        expected, abs=1e-5
    )

    src, dst = [0, 0, 0, 1], [1, 1, 2, 0]
    assert said(grf.from_edges, src, dst, directed=True) == text
    np.testing.assert_array_equal(
        grf.from_edges(src, dst, False, directed=True).adjacency.toarray(), once.adjacency.toarray()
    )
    np.testing.assert_array_equal(
        grf.from_edges(src, dst, np.ones(4), directed=True).adjacency.toarray(),
        counted.adjacency.toarray(),
    )
    (tmp_path / "g.csv").write_text("0,1\n0,1\n0,2\n1,0\n")
    assert said(grf.load_graph, tmp_path / "g.csv", directed=True) == text
    grf.load_graph(tmp_path / "g.csv", directed=True, weight=False)
    data = types.SimpleNamespace(edge_index=np.array([src, dst]), num_nodes=3)
    assert said(grf.load_graph, data, directed=True) == text
    grf.load_graph(data, directed=True, weight=False)


def test_undirected_parallel_edges_are_told_in_multigraphs_and_lists_in_both_directions_nowhere(
    tmp_path,
):
    assert "parallel edges count once" in said(grf.load_graph, parallel(nx.MultiGraph))
    grf.load_graph(parallel(nx.MultiGraph), weight=False)
    grf.from_edges([0, 1, 0], [1, 0, 1])
    (tmp_path / "g.csv").write_text("a,b\nb,a\na,b\n")
    grf.load_graph(tmp_path / "g.csv")
    grf.load_graph(nx.MultiGraph([(0, 1), (1, 2)]))
    both = types.SimpleNamespace(edge_index=np.array([[0, 1, 0, 1], [1, 0, 1, 0]]), num_nodes=2)
    grf.load_graph(both)


def test_road_graphs_are_read_as_before_and_other_multidigraphs_keep_directions_or_say_so():
    roads = parallel()
    roads.graph["crs"] = "epsg:4326"
    grf.load_graph(roads)
    assert "parallel edges count once" in said(grf.load_graph, roads, directed=True)
    text = said(grf.load_graph, nx.MultiDiGraph([(0, 1), (1, 2)]))
    assert (
        "without the directions of its edges: pass directed=True to keep them, or directed=False"
        in text
    )
    grf.load_graph(nx.MultiDiGraph([(0, 1), (1, 2)]), directed=False)
    grf.load_graph(nx.MultiDiGraph([(0, 1), (1, 2)]), directed=True)
    grf.load_graph(nx.MultiDiGraph([(0, 1), (1, 0)]))
    uneven = nx.MultiDiGraph([(0, 1, {"w": 1.0}), (1, 0, {"w": 2.0})])
    assert "without the directions" in said(grf.load_graph, uneven, weight="w")


# -- identifiers -----------------------------------------------------------------------------------


def test_identifiers_taken_as_positions_are_told(tmp_path):
    src, dst = np.array([4567890, 4567891]), np.array([4567891, 4567892])
    text = said(grf.from_edges, src, dst)
    assert "2 edges make a graph of 4,567,893 nodes" in text
    assert "name the nodes by them: nodes=np.unique([src, dst])" in text
    assert grf.from_edges(src, dst, nodes=np.unique([src, dst])).nodes == (
        4567890,
        4567891,
        4567892,
    )
    assert grf.from_edges([0], [5000], n_nodes=5001).n_nodes == 5001
    assert grf.from_edges([0], [1099]).n_nodes == 1100
    assert "make a graph of 1,102 nodes" in said(grf.from_edges, [0], [1101])


# -- few edges -------------------------------------------------------------------------------------


def test_positions_that_are_numbered_from_1_are_told():
    with pytest.warns(
        UserWarning, match=r"edges at 1 to 3, and none at 0: are the nodes numbered from 1\?"
    ):
        assert grf.from_edges([1, 2], [2, 3]).n_nodes == 4
    for src, dst, options in (
        ([1, 2], [2, 3], {"n_nodes": 4}),
        ([1, 2], [2, 3], {"nodes": [1, 2, 3]}),
        ([1, 2], [2, 4], {}),  # 3 is missing, too
        ([0, 1], [1, 2], {}),
    ):
        grf.from_edges(src, dst, **options)  # an error here, as all warnings in tests


def test_values_of_nodes_are_no_edges():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"district": ["A", "B", "C"], "cases": [3, 0, 2]})
    for source, message in (
        (
            table,
            (
                "text in column '?district'? and numbers in column '?cases'?, which name no node "
                "in common"
            ),
        ),
        (table[["cases", "district"]], "text in column '?district'? and numbers in column"),
        (
            list(zip(table["district"], table["cases"], strict=True)),
            "text in the first entries and numbers in the",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            grf.load_graph(source)
        assert grf.load_graph(source, columns=(0, 1)).n_nodes == 6
    titled = table.set_axis(["source", "target"], axis=1)
    assert grf.load_graph(titled).n_nodes == 6


def test_graphs_of_which_most_nodes_have_no_edge_are_told():
    pair = grf.from_edges([0], [1], n_nodes=5)
    text = (
        "3 of the 5 areas have no edge, and the largest of the 4 parts of the graph has 2 of the 5 "
        "areas; values"
    )
    assert of_few_edges("areas", pair).startswith(text)
    assert of_few_edges("areas", pair, "draw them").endswith(
        "no information on the others: draw them"
    )
    assert of_few_edges("areas", grf.from_edges([0], [1], n_nodes=4)) == ""
    loops = grf.from_edges([0, 1, 2, 3], [0, 1, 2, 0])
    assert of_few_edges("nodes", loops) == ""
    assert "3 of the 3 nodes" in of_few_edges("nodes", grf.from_edges([0, 1, 2], [0, 1, 2]))
    directed = grf.from_edges([0, 0], [1, 2], directed=True)  # 1 and 2 have an edge that comes
    assert of_few_edges("nodes", directed) == ""
    assert of_few_edges("nodes", grf.Graph(np.zeros((1, 1)))) == ""
    thirds = grf.from_edges([0, 2, 4], [1, 3, 5])
    assert of_few_edges("nodes", thirds) == ""
    assert of_few_edges("nodes", thirds, together=0.5).startswith(
        "the largest of the 3 parts of the graph has 2"
    )
    assert "1 of the 3 faces" in of_few_edges(
        "faces", grf.from_edges([0], [1], n_nodes=3), alone=0.3
    )


# -- degrees ---------------------------------------------------------------------------------------


def test_lengths_between_longitudes_and_latitudes_of_nodes_are_told():
    network = nx.Graph()
    for node, (x, y) in enumerate([(-122.4, 37.7), (-122.41, 37.75), (-122.42, 37.76)]):
        network.add_node(node, x=x, y=y)
    network.add_edge(0, 1, length=0.051, metres=5_600.0)
    network.add_edge(1, 2, length=0.014, metres=1_500.0)
    assert "lengths in 'length' seem to be in degrees" in said(
        grf.load_graph, network, weight="length", weight_is="distance"
    )
    for weight in ("metres", None):
        kind = None if weight is None else "distance"
        assert said(grf.load_graph, network, weight=weight, weight_is=kind) == ""
    del network.nodes[0]["x"]
    assert said(grf.load_graph, network, weight="length", weight_is="distance") == ""


# -- formats of others -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "reader"),
    [
        ("districts.gpkg", "geopandas.read_file reads this format: pass its result to load_graph"),
        ("districts.SHP", "geopandas.read_file"),
        ("districts.geojson", "geopandas.read_file"),
        ("net.gexf", "networkx.read_gexf reads"),
        ("net.net", "networkx.read_pajek reads"),
        ("net.graph", "networkit.readGraph(path, networkit.Format.METIS) reads"),
        (
            "net.gal",
            "libpysal.io.open reads this format: load_graph(libpysal.io.open(path).read())",
        ),
        ("part.glb", "trimesh.load_mesh reads this format: from_mesh(trimesh.load_mesh(path))"),
    ],
)
def test_files_of_other_formats_name_their_reader(tmp_path, name, reader):
    (tmp_path / name).write_text("x")
    for load in (grf.load_graph, grf.from_mesh):
        with pytest.raises(ValueError, match=re.escape(reader)):
            load(tmp_path / name)
