"""Every way into a graph: edges, points, networkx, matrices, PyG and files; refusals."""

from __future__ import annotations

import gzip
import io
import os
import struct
import tracemalloc
import types
import zipfile
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from graphrf.graph.builders import from_edges, from_mesh, from_points
from graphrf.graph.files import matrix_files
from graphrf.graph.files.matrix_files import read_matrix_market
from graphrf.graph.files.text_files import read_edge_list
from graphrf.graph.graph import Graph
from graphrf.graph.loaders import load_graph


def dense(graph: Graph) -> np.ndarray:
    return graph.adjacency.toarray()


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


# -- from_edges ------------------------------------------------------------------------------------


def test_edges_between_positions_keep_isolated_nodes_and_self_loops():
    graph = from_edges([0, 3], [1, 3], n_nodes=5)
    expected = np.zeros((5, 5))
    expected[0, 1] = expected[1, 0] = expected[3, 3] = 1
    np.testing.assert_array_equal(dense(graph), expected)


def test_weights_add_over_parallel_edges_and_both_directions_count_once():
    # 0-1 in both directions with one weight; 1-2 twice in one direction; 2-0 heavier backwards.
    src, dst, weight = [0, 1, 1, 1, 2, 0], [1, 0, 2, 2, 0, 2], [3.0, 3.0, 1.0, 4.0, 1.0, 7.0]
    np.testing.assert_array_equal(
        dense(from_edges(src, dst, weight)), [[0, 3, 7], [3, 0, 5], [7, 5, 0]]
    )
    np.testing.assert_array_equal(
        dense(from_edges(src, dst, weight, directed=True)), [[0, 3, 7], [3, 0, 5], [1, 0, 0]]
    )


def test_distances_become_mean_over_length_with_every_road_counted_once():
    # Kept: 0-1 of length 1 (listed in both directions) and 1-2 twice (2 and 4); the mean is 7/3.
    graph = from_edges([0, 1, 1, 1], [1, 0, 2, 2], [1.0, 1.0, 2.0, 4.0], weight_is="distance")
    mean = 7 / 3
    np.testing.assert_allclose(
        dense(graph), [[0, mean, 0], [mean, 0, mean * 0.75], [0, mean * 0.75, 0]], rtol=1e-15
    )


def test_the_shorter_direction_is_the_one_that_counts():
    graph = from_edges([0, 1], [1, 0], [1.0, 3.0], weight_is="distance")
    np.testing.assert_allclose(dense(graph), [[0, 1], [1, 0]])


def test_names_stand_in_the_order_of_first_appearance_or_of_nodes():
    assert from_edges(["b", "a"], ["c", "b"]).nodes == ("b", "c", "a")
    graph = from_edges(["b"], ["c"], nodes=["a", "b", "c"])
    assert graph.nodes == ("a", "b", "c")
    assert dense(graph)[1, 2] == 1
    assert from_edges([(0, 1)], [(0, 2)]).nodes == ((0, 1), (0, 2))
    assert from_edges(np.array(["x", "y"]), np.array(["y", "z"])).nodes == ("x", "y", "z")


def test_integer_ends_are_names_only_where_nodes_are_integers():
    np.testing.assert_array_equal(dense(from_edges([20], [10], nodes=[10, 20, 30]))[1], [1, 0, 0])
    np.testing.assert_array_equal(dense(from_edges([0], [2], nodes=["a", "b", "c"]))[0], [0, 0, 1])


def test_random_weighted_edges_agree_with_a_loop():
    rng = np.random.default_rng(0)
    src, dst, weight = rng.integers(0, 6, 60), rng.integers(0, 6, 60), rng.random(60)
    total = np.zeros((6, 6))
    for s, d, w in zip(src, dst, weight, strict=True):
        total[s, d] += w
    np.testing.assert_allclose(
        dense(from_edges(src, dst, weight, n_nodes=6)), np.maximum(total, total.T)
    )
    np.testing.assert_allclose(dense(from_edges(src, dst, weight, n_nodes=6, directed=True)), total)


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        (([0, 1], [1]), {}, ValueError, "equally long, got 2 and 1"),
        (
            ([0, -1], [1, 0]),
            {},
            ValueError,
            "`src` must hold positions at least 0, got -1 at edge 1",
        ),
        (
            ([0], [5]),
            {"n_nodes": 3},
            ValueError,
            r"`dst` must hold positions in \[0, 2\], got 5 at edge 0",
        ),
        (
            ([0.5], [1.0]),
            {},
            TypeError,
            "`src` must hold integer positions or names, got float 0.5",
        ),
        (
            (np.array([0.5]), np.array([1.0])),
            {},
            TypeError,
            r"got dtype float64; convert whole numbers",
        ),
        ((np.array([True]), np.array([False])), {}, TypeError, "dtype bool"),
        (([0], [1], [1.0, 2.0]), {}, ValueError, r"`weight` must have shape \(1,\)"),
        (([0], [1], ["heavy"]), {}, TypeError, "`weight` must hold numbers"),
        (([0, 1], [1, 2], [1.0, np.nan]), {}, ValueError, "edge 1: weights must be finite"),
        (([0], [1], [-1.0]), {}, ValueError, "at least 0; got -1"),
        (([0], [1], [0.0]), {"weight_is": "distance"}, ValueError, "edge 0: .* above 0; got 0"),
        (([0], [1], [1e-320]), {"weight_is": "distance"}, ValueError, "finite inverses"),
        (([0], [1], [1.0]), {"weight_is": "length"}, ValueError, "`weight_is` must be one of"),
        (([], []), {}, ValueError, "at least one edge"),
        (([10**12], [0]), {}, ValueError, "below 2"),
        (("ab", "cd"), {}, TypeError, "`src` must be an array of nodes"),
        (
            (["a"], ["z"]),
            {"nodes": ["a", "b"]},
            ValueError,
            "`dst` must hold names from `nodes`, got 'z' at edge 0",
        ),
        ((["a"], ["b"]), {"n_nodes": 3}, ValueError, "nodes without edges"),
        (([[0]], [[1]]), {}, TypeError, "hashable"),
        ((np.array([[0]]), np.array([[1]])), {}, ValueError, r"shape \(E,\)"),
    ],
)
def test_bad_edges_are_refused(arguments, options, error, message):
    with pytest.raises(error, match=message):
        from_edges(*arguments, **options)


# -- from_points -----------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", ["unit", "gaussian", "inverse_length"])
def test_nearest_neighbours_agree_with_a_dense_search(weights):
    x = np.random.default_rng(1).normal(size=(40, 3))
    d = np.linalg.norm(x[:, None] - x[None], axis=2)
    near = np.zeros((40, 40), dtype=bool)
    for i in range(40):
        near[i, np.argsort(np.where(np.arange(40) == i, np.inf, d[i]))[:4]] = True
    lengths = d[near]
    with np.errstate(divide="ignore"):
        value = {
            "unit": np.ones_like(d),
            "gaussian": np.exp(-0.5 * (d / np.median(lengths)) ** 2),
            "inverse_length": lengths.mean() / d,
        }[weights]
    expected = np.where(near | near.T, value, 0)
    np.testing.assert_allclose(
        dense(from_points(x, n_neighbors=4, weights=weights)), expected, rtol=1e-12
    )


@pytest.mark.parametrize("weights", ["unit", "gaussian", "inverse_length"])
def test_equal_points_are_legal(weights):
    x = np.zeros((10, 2))
    graph = from_points(x, n_neighbors=3, weights=weights)
    assert graph.adjacency.diagonal().sum() == 0
    assert (np.diff(graph.adjacency.indptr) >= 3).all()
    assert np.unique(graph.adjacency.data).tolist() == [1.0]


def test_bad_points_are_refused():
    with pytest.raises(ValueError, match="`n_neighbors` must be in \\[1, 2\\], got 3"):
        from_points(np.zeros((3, 1)), n_neighbors=3)
    with pytest.raises(ValueError, match="`x` must be finite"):
        from_points([[0.0], [np.inf]], n_neighbors=1)
    with pytest.raises(ValueError, match="`x` must be numbers of shape"):
        from_points(["a", "b"])
    with pytest.raises(ValueError, match="`lengthscale` belongs to weights='gaussian'"):
        from_points([0.0, 1.0], n_neighbors=1, lengthscale=1.0)
    with pytest.raises(ValueError, match="two points"):
        from_points([[0.0]], n_neighbors=1)


@pytest.mark.parametrize("with_sklearn", [True, False])
def test_neighbours_in_many_columns_are_those_of_all_distances(monkeypatch, with_sklearn):
    """Two clusters so far apart that squared distances within are lost; and points twice."""
    if with_sklearn:
        pytest.importorskip("sklearn")
    else:
        monkeypatch.setitem(__import__("sys").modules, "sklearn.neighbors", None)
    rng = np.random.default_rng(0)
    for far, twice in ((0.0, 0), (1e9, 0), (0.0, 20)):
        x = rng.normal(size=(60, 12))
        x[30:] += far
        x[60 - twice :] = x[:twice]
        lengths = np.linalg.norm(x[:, None] - x[None], axis=2)
        np.fill_diagonal(lengths, np.inf)
        # Of points at one place either may be the neighbour.
        reach = np.sort(lengths, axis=1)[:, 3]
        joined = dense(from_points(x, n_neighbors=4)) > 0
        assert (joined.sum(axis=1) >= 4).all()
        assert (lengths <= np.maximum(reach[:, None], reach))[joined].all()
        assert joined[lengths < np.maximum(reach[:, None], reach)].all()


def test_many_columns_are_compared_without_a_tree(monkeypatch):
    pytest.importorskip("sklearn")
    monkeypatch.setattr("scipy.spatial.cKDTree", None)
    assert from_points(np.random.default_rng(0).normal(size=(60, 11)), n_neighbors=4).n_nodes == 60


# -- other libraries -------------------------------------------------------------------------------


def test_a_graph_is_returned_as_it_is():
    graph = from_edges([0], [1])
    assert load_graph(graph) is graph
    assert load_graph(graph, directed=False) is graph
    with pytest.raises(ValueError, match="`directed` must be that of the Graph, False, got True"):
        load_graph(graph, directed=True)


@pytest.mark.parametrize("source", [np.ones((2, 2)), nx.path_graph(2), from_edges([0], [1])])
@pytest.mark.parametrize("options", [{"columns": (1, 0)}, {"header": True}])
def test_options_that_mean_nothing_are_refused(source, options):
    with pytest.raises(ValueError, match="`columns` and `header` belong to files of edges"):
        load_graph(source, **options)


def test_distances_must_be_named(tmp_path):
    graph = nx.path_graph(2)
    data = types.SimpleNamespace(edge_index=np.array([[0, 1], [1, 0]]))
    for source in (graph, data, write(tmp_path, "e.csv", "0,1,2\n")):
        with pytest.raises(
            ValueError, match="`weight` must name the attribute or column of the distances"
        ):
            load_graph(source, weight_is="distance")
    with pytest.raises(ValueError, match="`weight` must hold the distances"):
        from_edges([0], [1], weight_is="distance")
    with pytest.raises(ValueError, match=r"got weight_is='distance' for a Graph"):
        load_graph(from_edges([0], [1]), weight_is="distance")


def osmnx_like() -> nx.MultiDiGraph:
    """Two-way road 10-20 (100 m), one-way 20-30 (200 m), two parallel 30-40 (300, 600 m)."""
    roads = nx.MultiDiGraph(crs="epsg:4326")
    for node in (10, 20, 30, 40, 50):
        roads.add_node(node, x=float(node), y=0.0)
    for u, v in ((10, 20), (20, 10)):
        roads.add_edge(u, v, length=100.0)
    roads.add_edge(20, 30, length=200.0, oneway=True)
    for u, v in ((30, 40), (40, 30)):
        roads.add_edge(u, v, length=300.0)
        roads.add_edge(u, v, length=600.0)
    return roads


def test_an_osmnx_graph_becomes_an_undirected_graph_of_conductances():
    graph = load_graph(osmnx_like(), weight="length", weight_is="distance")
    mean = (100 + 200 + 300 + 600) / 4
    expected = np.zeros((5, 5))
    expected[0, 1], expected[1, 2], expected[2, 3] = mean / 100, mean / 200, mean / 300 + mean / 600
    np.testing.assert_allclose(dense(graph), expected + expected.T, rtol=1e-15)
    assert graph.nodes == (10, 20, 30, 40, 50)
    directed = load_graph(osmnx_like(), weight="length", weight_is="distance", directed=True)
    assert directed.adjacency[1, 2] > 0 == directed.adjacency[2, 1]


def test_roads_from_graphml_have_numbers_as_text_and_without_parallel_ones_no_directions_either(
    tmp_path,
):
    roads = osmnx_like()
    expected = load_graph(roads, weight="length", weight_is="distance")
    for _, _, data in roads.edges(data=True):
        data["length"] = str(data["length"])
    nx.write_graphml(roads, tmp_path / "roads.graphml")
    graph = load_graph(tmp_path / "roads.graphml", weight="length", weight_is="distance")
    np.testing.assert_allclose(dense(graph), dense(expected))
    simple = nx.MultiDiGraph(crs="epsg:4326")
    simple.add_edge("a", "b", length=2.0)
    nx.write_graphml(simple, tmp_path / "simple.graphml")
    assert not load_graph(tmp_path / "simple.graphml").directed
    assert not load_graph(simple).directed


def test_parallel_edges_of_an_undirected_multigraph_add_whichever_way_they_are_listed():
    network = nx.MultiGraph()
    network.add_edge("a", "b", w=1.0)
    network.add_edge("b", "a", w=2.0)
    assert dense(load_graph(network, weight="w"))[0, 1] == 3.0
    assert dense(load_graph(network, weight=False))[0, 1] == 1.0


def test_digraphs_keep_their_direction_and_graphs_are_unweighted_without_a_name():
    network = nx.DiGraph()
    network.add_edge("a", "b", weight=5.0)
    graph = load_graph(network, weight=False)
    assert graph.directed
    np.testing.assert_array_equal(dense(graph), [[0, 1], [0, 0]])
    np.testing.assert_array_equal(
        dense(load_graph(network, weight="weight", directed=False)), [[0, 5], [5, 0]]
    )
    assert load_graph(nx.path_graph(3), directed=True).directed


def test_a_missing_or_worded_edge_attribute_names_the_edge():
    network = nx.Graph()
    network.add_edge("a", "b", length=1.0)
    network.add_edge("b", "c")
    with pytest.raises(ValueError, match=r"edge \('b', 'c'\) has no 'length'"):
        load_graph(network, weight="length")
    network["b"]["c"]["length"] = "long"
    with pytest.raises(ValueError, match=r"'length' of edge \('b', 'c'\) is str 'long'"):
        load_graph(network, weight="length")
    network["b"]["c"]["length"] = 0.0
    with pytest.raises(ValueError, match=r"edge \('b', 'c'\): weights must be .* above 0"):
        load_graph(network, weight="length", weight_is="distance")
    with pytest.raises(ValueError, match="at least one node"):
        load_graph(nx.Graph())


@pytest.mark.parametrize("wrap", [np.asarray, sp.csr_array, sp.csc_matrix, sp.coo_array])
def test_matrices_hold_weights_or_distances(wrap):
    matrix = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 3.0], [0.0, 3.0, 0.0]])
    np.testing.assert_array_equal(dense(load_graph(wrap(matrix))), matrix)
    np.testing.assert_allclose(
        dense(load_graph(wrap(matrix), weight_is="distance")),
        [[0, 2, 0], [2, 0, 2 / 3], [0, 2 / 3, 0]],
    )


def test_matrices_must_be_symmetric_unless_directed():
    with pytest.raises(ValueError, match=r"symmetric.*directed=True"):
        load_graph(np.array([[0, 1], [0, 0]]))
    assert load_graph(np.array([[0, 1], [0, 0]]), directed=True).n_edges == 1
    with pytest.raises(
        ValueError, match="`weight` and `weight_is` belong to edges with attributes"
    ):
        load_graph(np.eye(2), weight="w")
    with pytest.raises(ValueError, match=r"entry \[0, 1\]: weights must be finite"):
        load_graph(sp.csr_array(([0.0], ([0], [1])), shape=(2, 2)), weight_is="distance")


def test_pyg_data_is_read_by_its_attributes():
    edge_index = np.array([[0, 1, 1, 2], [1, 0, 2, 1]])
    data = types.SimpleNamespace(
        edge_index=edge_index, num_nodes=4, edge_weight=np.array([2.0, 2, 3, 3])
    )
    assert load_graph(data, weight=False).n_nodes == 4
    assert dense(load_graph(data, weight="edge_weight"))[1, 2] == 3
    data.edge_attr = data.edge_weight[:, None]
    assert dense(load_graph(data, weight="edge_attr"))[0, 1] == 2
    with pytest.raises(ValueError, match="has no 'length'"):
        load_graph(data, weight="length")
    one_way = types.SimpleNamespace(edge_index=edge_index[:, :3], num_nodes=3)
    with pytest.raises(
        ValueError, match="directed=True to keep directions, directed=False to drop"
    ):
        load_graph(one_way)
    assert load_graph(one_way, directed=True).n_edges == 3
    assert load_graph(one_way, directed=False).n_edges == 2
    with pytest.raises(ValueError, match=r"`edge_index` must be integers of shape \(2, E\)"):
        load_graph(types.SimpleNamespace(edge_index=edge_index.T))


def test_torch_tensors_are_accepted():
    torch = pytest.importorskip("torch")
    edge_index = torch.tensor([[0, 1], [1, 0]])
    data = types.SimpleNamespace(
        edge_index=edge_index, edge_weight=torch.tensor([2.0, 2.0], requires_grad=True)
    )
    assert dense(load_graph(data, weight="edge_weight"))[0, 1] == 2
    assert from_edges(edge_index[0], edge_index[1]).n_edges == 1


# -- files: round trips ----------------------------------------------------------------------------

WEIGHTED = np.array([[0.0, 2.0, 0.5], [2.0, 0.0, 0.0], [0.5, 0.0, 1.5]])


def network() -> nx.Graph:
    return nx.relabel_nodes(nx.from_numpy_array(WEIGHTED), dict(enumerate(["a", "b", "é c"])))


@pytest.mark.parametrize("zipped", ["", ".gz"])
@pytest.mark.parametrize("suffix", [".gml", ".graphml"])
def test_gml_and_graphml_round_trip(tmp_path, suffix, zipped):
    path = tmp_path / f"graph{suffix}{zipped}"
    (nx.write_gml if suffix == ".gml" else nx.write_graphml)(network(), path)
    graph = load_graph(path, weight="weight")
    np.testing.assert_array_equal(dense(graph), WEIGHTED)
    assert load_graph(str(path), weight=False).is_weighted is False
    if suffix == ".graphml":
        assert graph.nodes == ("a", "b", "é c")


def test_directed_gml_and_graphml_keep_their_direction(tmp_path):
    nx.write_gml(nx.DiGraph([("a", "b")]), tmp_path / "d.gml")
    nx.write_graphml(nx.DiGraph([("a", "b")]), tmp_path / "d.graphml")
    for name in ("d.gml", "d.graphml"):
        assert load_graph(tmp_path / name).directed
        assert not load_graph(tmp_path / name, directed=False).directed


def test_gml_without_labels_or_with_repeated_ones_is_named_by_ids(tmp_path):
    text = "graph [ node [ id 5 %s ] node [ id 7 %s ] edge [ source 5 target 7 ] ]"
    assert load_graph(write(tmp_path, "a.gml", text % ("", ""))).nodes == (5, 7)
    assert load_graph(write(tmp_path, "b.gml", text % ('label "x"', 'label "x"'))).nodes == (5, 7)
    assert load_graph(write(tmp_path, "c.gml", text % ('label "x"', 'label "y"'))).nodes == (
        "x",
        "y",
    )


@pytest.mark.parametrize("zipped", ["", ".gz"])
@pytest.mark.parametrize("symmetry", ["general", "symmetric"])
def test_matrix_market_round_trips(tmp_path, symmetry, zipped):
    buffer = io.BytesIO()
    scipy.io.mmwrite(buffer, sp.coo_matrix(WEIGHTED), symmetry=symmetry)
    path = write(tmp_path, f"m.mtx{zipped}", buffer.getvalue())
    np.testing.assert_array_equal(dense(load_graph(path)), WEIGHTED)


def test_an_mtx_file_without_banner_is_an_edge_list(tmp_path):
    graph = load_graph(write(tmp_path, "roads.mtx", "2 1\n3 2\n"))
    assert graph.nodes == (1, 2, 3)
    assert graph.n_edges == 2


@pytest.mark.parametrize("make", [sp.csr_array, sp.csc_matrix, sp.coo_array])
def test_npz_round_trips(tmp_path, make):
    sp.save_npz(tmp_path / "m.npz", make(WEIGHTED))
    np.testing.assert_array_equal(dense(load_graph(tmp_path / "m.npz")), WEIGHTED)


EDGES = [("0", "1", 2.0), ("1", "2", 0.25), ("2", "2", 7.0)]


@pytest.mark.parametrize(
    "name", ["e.csv", "e.tsv", "e.txt", "e.edges", "e.cites", "e.edgelist", "e.csv.gz"]
)
@pytest.mark.parametrize("delimiter", [",", "\t", ";", " ", "   "])
@pytest.mark.parametrize("header", [False, True])
def test_edge_lists_round_trip(tmp_path, name, delimiter, header):
    lines = ["# a comment", "", *(delimiter.join([u, v, str(w)]) for u, v, w in EDGES), "% another"]
    if header:
        lines.insert(2, delimiter.join(["one", "two", "w"]))
    path = write(tmp_path, name, "\r\n".join(lines))
    expected = np.array([[0, 2, 0], [2, 0, 0.25], [0, 0.25, 7]])
    np.testing.assert_array_equal(dense(load_graph(path)), expected > 0)
    np.testing.assert_array_equal(dense(load_graph(path, weight=2)), expected)
    if header:
        np.testing.assert_array_equal(
            dense(load_graph(path, weight="w", columns=("one", "two"))), expected
        )


def test_columns_choose_the_ends_and_the_direction(tmp_path):
    path = write(tmp_path, "e.txt", "0 5 6 0.5\n1 6 7 0.25\n")
    graph = load_graph(path, columns=(2, 1), weight=3, directed=True)
    assert graph.nodes == (5, 6, 7)
    np.testing.assert_array_equal(dense(graph), [[0, 0, 0], [0.5, 0, 0], [0, 0.25, 0]])


def test_headers_are_told_from_edges(tmp_path):
    def nodes(text: str, **options):
        return load_graph(write(tmp_path, "e.csv", text), **options).nodes

    assert nodes("source,target\nann,bob\n") == ("ann", "bob")
    assert nodes("Source,Target\nann,bob\n") == ("ann", "bob")
    assert nodes("ann,bob\ncid,bob\n") == ("ann", "bob", "cid")
    assert nodes("ann,bob\ncid,bob\n", header=True) == ("cid", "bob")
    assert nodes("person,friend\n7,9\n") == (7, 9)
    assert nodes("source,target\n1,2\n", header=False) == ("source", "target", "1", "2")
    assert list(nodes("0,1\n")) == [0, 1]
    # the title of a column of numbers, however the nodes are called; a missing number is no title
    assert nodes("town,other,km\nParis,Lyon,400\nLyon,Nice,300\n") == ("Paris", "Lyon", "Nice")
    assert nodes("km,town,other\n400,Paris,Lyon\n", columns=(1, 2)) == ("Paris", "Lyon")
    assert nodes("Paris,Lyon,400\nLyon,Nice,300\n") == ("Paris", "Lyon", "Nice")
    for missing in ("", "NA", "nan", "null"):
        assert nodes(f"Paris,Lyon,{missing}\nLyon,Nice,300\n") == ("Paris", "Lyon", "Nice")
    assert nodes("ann,bob,friends\nbob,cid,family\n") == ("ann", "bob", "cid")


def test_a_first_edge_is_no_header_for_a_word_in_another_column(tmp_path):
    text = "zoo,park,N1\npark,mill,12\nmill,port,3\n"
    assert load_graph(write(tmp_path, "e.csv", text)).nodes == ("zoo", "park", "mill", "port")
    for cell in ("300m", "50%", '"1,000"', "0x10"):
        path = write(tmp_path, "e.csv", f"harbour,market,{cell}\nmarket,station,250\n")
        assert load_graph(path).nodes == ("harbour", "market", "station")
        with pytest.raises(ValueError, match="line 1: the weight must be a number"):
            load_graph(path, weight=2)
    assert load_graph(write(tmp_path, "e.csv", "a,7\n1,2\n")).nodes == ("a", "7", "1", "2")


@pytest.mark.parametrize(
    "text",
    [
        "zoo,park,N1\nmill,port,12\n",  # no node of the first line is in another
        "author1,author2\nalice,bob\n",
        "person_a,person_b\nalice,bob\n",
        "a,b\n1,2\nx,3\n",
        "source,target\ntarget,7\n",
        "town,other,km\nLyon,other,400\n",
    ],
)
def test_a_line_that_may_be_a_header_or_an_edge_is_refused(tmp_path, text):
    path = write(tmp_path, "e.csv", text)
    with pytest.raises(
        ValueError, match=r"e\.csv, line 1: .* titles of the columns or an edge; say .*header=True"
    ):
        load_graph(path)
    lines = text.count("\n")
    assert load_graph(path, header=True).n_edges == lines - 1
    assert load_graph(path, header=False).n_edges == lines
    assert load_graph(write(tmp_path, "n.csv", "n1,n2\nn3,n4\n")).nodes == ("n1", "n2", "n3", "n4")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (",source,target,weight\n0,a,b,1.0\n1,b,c,2.0\n", r"columns=\('source', 'target'\)"),
        ("id,From,to,length\n1,a,b,1.0\n2,b,c,2.0\n", r"columns=\('From', 'to'\)"),
        (
            ",friend,other,weight\n0,a,b,1.0\n",
            "first column has no title, like the index that pandas writes",
        ),
        ("0,1,1\n1,0,1\n1,1,0\n", "adjacency matrix"),
        (",a,b,c\na,0,1,1\nb,1,0,1\nc,1,1,0\n", "if the line has titles, pass header=True"),
        ("0 1 2 3\n1 0 2 3\n2 0 1 3\n3 0 1 2\n", "neighbours of each node"),
        ("1 2 {'weight': 3.0, 'color': 'red'}\n", r"line 1: .*networkx\.read_edgelist"),
        ("1 2 {'weight': 3.0}\n2 3 {'weight': 1.0}\n", r"line 1: .*networkx\.read_edgelist"),
        ("1 2 0,5\n2 3 0,5\n", "line 1: .*decimal commas"),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", "Git LFS"),
        ("<!DOCTYPE html>, x\n<p>Not Found, sorry\n", "HTML page"),
        ("\ufeff\n<html>\n<p>Not Found, sorry\n", "HTML page"),
    ],
)
def test_text_that_is_no_list_of_edges_is_refused(tmp_path, text, message):
    path = write(tmp_path, "e.csv", text)
    with pytest.raises(ValueError, match=rf"e\.csv.*{message}"):
        load_graph(path)
    if "header=True" in message:
        with pytest.raises(ValueError, match=r"e\.csv: it seems to be an adjacency matrix"):
            load_graph(path, header=True)
    if "columns=" in message:
        given = ("source", "target") if "source" in message else ("From", "to")
        assert load_graph(path, columns=given, weight=False).nodes == ("a", "b", "c")
        assert load_graph(path, columns=(0, 1), weight=False).n_nodes == 4


def test_what_looks_like_a_matrix_is_read_where_columns_or_weights_are_named(tmp_path):
    path = write(tmp_path, "e.csv", "0,1,1\n1,0,1\n1,1,0\n")
    assert load_graph(path, columns=(0, 1)).n_nodes == 2
    np.testing.assert_array_equal(dense(load_graph(path, weight=2)), [[0, 1], [1, 0]])
    ring = write(tmp_path, "f.csv", "0,1,2\n1,2,5\n2,0,1\n")
    assert load_graph(ring).n_edges == 3
    assert load_graph(write(tmp_path, "g.edgelist", "1 2 {}\n2 3 {}\n")).n_edges == 2


def test_comments_take_little_of_the_memory_limit(tmp_path):
    path = write(tmp_path, "e.csv", "# comment\n" * 100_000 + "1 2\n2 3\n")
    assert load_graph(path, memory_limit=2**25).n_edges == 2
    with pytest.raises(MemoryError, match="whose reading takes about"):
        load_graph(write(tmp_path, "e.csv", "1 2\n" * 100_000), memory_limit=2**25)


def test_decimal_commas_between_semicolons(tmp_path):
    path = write(tmp_path, "e.csv", "a;b;1,5\nb;c;2,5\n")
    assert load_graph(path).nodes == ("a", "b", "c")
    with pytest.raises(
        ValueError, match=r"line 1: the weight must be a number, got '1,5'; .* point for decimals"
    ):
        load_graph(path, weight=2)


@pytest.mark.parametrize("cell", ["inf", "-inf", "Infinity", "1_0", "1_0.5", "1__0"])
def test_a_first_edge_with_a_strange_number_is_no_header(tmp_path, cell):
    path = write(tmp_path, "e.csv", f"a,b,{cell}\nb,c,2\n")
    assert load_graph(path).nodes == ("a", "b", "c")
    with pytest.raises(ValueError, match=r"e\.csv, line 1: "):
        load_graph(path, weight=2)
    assert load_graph(path, weight=2, header=True).nodes == ("b", "c")
    assert load_graph(write(tmp_path, "f.csv", f"{cell},7\n1,2\n")).nodes == (cell, "7", "1", "2")


def test_lines_with_zero_bytes_are_no_headers_and_no_edges(tmp_path):
    for text, line in (("a\0,b\n1,2\n", 1), ("a,b,\0\nb,c,2\n", 1), ("1,2\n\n2,\0\n", 3)):
        with pytest.raises(ValueError, match=rf"e\.csv, line {line}: a byte is zero"):
            load_graph(write(tmp_path, "e.csv", text))
    with pytest.raises(
        ValueError, match="line 1: a byte is zero, which no text contains; convert the file"
    ):
        load_graph(write(tmp_path, "e.csv", "1,2\n".encode("utf-16-le")))


def test_what_is_compressed_otherwise_than_its_name_says_is_told_so(tmp_path):
    once = gzip.compress(b"0,1\n")
    for suffix in ("csv", "mtx", "gml"):
        with pytest.raises(ValueError, match=r"is compressed by gzip twice; decompress it once"):
            load_graph(write(tmp_path, f"e.{suffix}.gz", once))
        with pytest.raises(
            ValueError, match=r"is compressed by gzip; give it a name that ends in .gz"
        ):
            load_graph(write(tmp_path, f"e.{suffix}", once))


def test_paths_may_be_bytes(tmp_path):
    path = write(tmp_path, "é.csv", "0,1\n")
    assert load_graph(os.fsencode(path)).n_edges == 1
    off = write(tmp_path, "m.off", "OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n")
    pytest.importorskip("trimesh")
    assert from_mesh(os.fsencode(off)).n_nodes == 1


def test_names_that_only_look_like_numbers_stay_names(tmp_path):
    graph = load_graph(write(tmp_path, "e.csv", "007,7\n1_0,10\n"))
    assert graph.nodes == ("007", "7", "1_0", "10")


def test_quoted_cells_may_hold_the_delimiter(tmp_path):
    graph = load_graph(write(tmp_path, "e.csv", 'from,to\n"Smith, J.",Doe\n"say ""hi""", Doe\n'))
    assert graph.nodes == ("Smith, J.", "Doe", 'say "hi"')


def test_a_byte_order_mark_and_accents_are_read(tmp_path):
    graph = load_graph(write(tmp_path, "e.csv", "\ufeffé,ü\n".encode()))
    assert graph.nodes == ("é", "ü")


# -- files: what is refused ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("e.csv", "", {}, "is empty"),
        ("e.csv", "\n \n", {}, "is empty"),
        ("e.csv", "# only\n", {}, "only blank lines and comments"),
        ("e.csv", "0,1\n\n1,2,3\n", {}, "line 3: 3 columns where the lines above have 2"),
        ("e.txt", "0 1\n2\n", {}, "line 2: 1 columns"),
        ("e.csv", "0\n1\n", {}, "line 1: one column"),
        ("e.csv", "0,1\n2,\n", {}, "line 2: the name of a node is empty"),
        ("e.csv", "0,1,a\n", {"weight": 2}, "line 1: the weight must be a number, got 'a'"),
        ("e.csv", "a,b,w\n0,1,1\n1,2,nan\n", {"weight": "w"}, "line 3: weights must be finite"),
        ("e.csv", "0,1,-2\n", {"weight": 2}, "line 1: .* got -2"),
        ("e.csv", "0,1,0\n", {"weight": 2, "weight_is": "distance"}, "line 1: .*above 0"),
        ("e.csv", "0,1\n", {"weight": 2}, "no column 2: it has 2 columns"),
        ("e.csv", "a,b\n0,1\n", {"weight": "w"}, "no column 'w': its columns are 'a', 'b'"),
        ("e.csv", "a,b\n", {"header": True}, "header but no edges"),
        ("e.csv", b"0,1\n\xff,2\n", {}, "line 2: not UTF-8"),
        ("e.csv", '0,1\n"2,3\n', {}, "line 2: "),
        ("e.foo", "0 1\n", {}, "no known format; wanted .gml"),
        ("noending", "0 1\n", {}, "no known format"),
        ("g.gml", "graph [ node [ id 0", {}, "not a readable GML file"),
        (
            "g.gml",
            "graph [ node [ id 0 ] edge [ source 0 target 9 ] ]",
            {},
            "g.gml is not a readable GML",
        ),
        ("g.gml", "graph [ ]", {}, "g.gml: .*at least one node"),
        ("g.gml", "[ " * 5000, {}, "not a readable GML"),
        ("g.gml", "graph [ node [ id 0 ] ]", {"columns": (1, 0)}, "belong to edge lists"),
        ("g.graphml", "<graphml><graph", {}, "not a readable GraphML"),
        ("g.graphml", "<graphml></graphml>", {}, "not a readable GraphML"),
        (
            "m.mtx",
            "%%MatrixMarket matrix coordinate real general\n2 2 5\n1 1 1.0\n",
            {},
            "not a readable Matrix",
        ),
        (
            "m.mtx",
            "%%MatrixMarket matrix coordinate real general\n2 3 1\n1 3 1.0\n",
            {},
            "m.mtx: .*square",
        ),
        (
            "m.mtx",
            "%%MatrixMarket matrix coordinate complex general\n1 1 1\n1 1 1.0 2.0\n",
            {},
            "real one",
        ),
        (
            "m.mtx",
            "%%MatrixMarket matrix coordinate real general\n4000000000 4000000000 1\n1 1 1\n",
            {},
            "damaged",
        ),
        ("m.npz", b"PK\x03\x04 no archive", {}, "not a readable scipy.sparse npz"),
        ("m.npz", b"0 1", {}, "not a readable scipy.sparse npz"),
    ],
)
def test_broken_files_are_refused_with_their_name(tmp_path, name, content, options, message):
    path = write(tmp_path, name, content)
    with pytest.raises(ValueError, match=message) as caught:
        load_graph(path, **options)
    assert name in str(caught.value)


def test_missing_files_and_folders_are_told_apart(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no such file: .*datasets.load"):
        load_graph(tmp_path / "absent.csv")
    with pytest.raises(FileNotFoundError, match="no such file"):
        load_graph("cora")
    folder = tmp_path / "folder.csv"
    folder.mkdir()
    with pytest.raises(ValueError, match="is a folder"):
        load_graph(folder)


@pytest.mark.parametrize("name", ["e.csv.gz", "g.gml.gz", "m.mtx.gz", "m.npz.gz"])
def test_truncated_gzip_is_refused(tmp_path, name):
    path = tmp_path / name
    whole = gzip.compress(b"0,1\n" * 1000)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="not a whole gzip file"):
        load_graph(path)
    path.write_bytes(b"0,1\n")
    with pytest.raises(ValueError, match="not a whole gzip file"):
        load_graph(path)


def test_entities_are_refused_before_the_xml_is_read(tmp_path):
    entities = '<!DOCTYPE lolz [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>'
    bomb = f'<?xml version="1.0"?>\n{entities}\n<graphml>&b;</graphml>'
    with pytest.raises(ValueError, match="line 2: XML document types and entities are refused"):
        load_graph(write(tmp_path, "bomb.graphml", bomb))
    with pytest.raises(ValueError, match="not UTF-8"):
        load_graph(write(tmp_path, "bomb16.graphml", bomb.encode("utf-16")))


def test_an_npz_file_with_a_pickle_is_not_unpickled(tmp_path):
    ran = tmp_path / "ran"

    class Hostile:
        def __reduce__(self):
            return os.mkdir, (str(ran),)

    np.savez(
        tmp_path / "m.npz",
        format="csr",
        shape=[1, 1],
        data=np.array([Hostile()], dtype=object),
        indices=[0],
        indptr=[0, 1],
    )
    with pytest.raises(ValueError, match="not a readable"):
        load_graph(tmp_path / "m.npz")
    assert not ran.exists()


def test_an_npz_file_with_indices_outside_the_matrix_is_refused(tmp_path):
    np.savez(
        tmp_path / "m.npz",
        format="csr",
        shape=[2, 2],
        data=[1.0],
        indices=[10**6],
        indptr=[0, 1, 1],
    )
    with pytest.raises(ValueError, match="not a readable"):
        load_graph(tmp_path / "m.npz")
    with zipfile.ZipFile(tmp_path / "n.npz", "w") as archive:
        archive.writestr("../format.npy", b"csr")
    with pytest.raises(ValueError, match="not a readable"):
        load_graph(tmp_path / "n.npz")


# -- files: bounds, and what once went wrong -------------------------------------------------------


def test_files_beyond_the_limit_are_refused_unread(tmp_path):
    for name in ("e.csv", "g.gml", "g.graphml", "m.mtx", "m.npz", "s.stl", "e.csv.gz"):
        with (tmp_path / name).open("wb") as file:
            file.truncate(2**40)  # of holes
        with pytest.raises(
            MemoryError, match=rf"{name} has 1,099,511,627,776 bytes.* GiB are left; pass a larger"
        ):
            load_graph(tmp_path / name)
    with pytest.raises(MemoryError, match="but `memory_limit` is 1 GiB; pass a larger"):
        from_mesh(tmp_path / "s.stl", memory_limit=2**30)


def test_a_forged_table_of_contents_is_refused_before_the_archive_is_read(tmp_path):
    path = tmp_path / "bomb.npz"
    with path.open("wb") as file:  # with a hole
        file.write(b"PK\3\4" + bytes(26))
        file.seek(500_000_100)
        file.write(struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, 500_000_000, 100, 0))
    tracemalloc.start()
    with pytest.raises(
        ValueError,
        match=r"bomb\.npz is not a readable scipy.sparse npz file: its table of contents",
    ):
        load_graph(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10_000_000


def test_a_gzip_bomb_is_refused_in_the_memory_allowed(tmp_path):
    piece = gzip.compress(bytes(2**24))
    (tmp_path / "bomb.csv.gz").write_bytes(piece * 64)  # 1 GiB of zeros in 1 MB
    tracemalloc.start()
    with pytest.raises(MemoryError, match=r"bomb.csv.gz has at least [\d,]+ bytes"):
        load_graph(tmp_path / "bomb.csv.gz", memory_limit=40 * 2**20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * 2**20


def test_the_memory_limit_is_what_reading_may_take(tmp_path):
    path = write(tmp_path, "e.csv", "".join(f"{i},{i + 1}\n" for i in range(10_000)))
    assert load_graph(path, memory_limit=20_000_000).n_nodes == 10_001
    # few bytes, but as many cells
    for text in ("0,1\n" * 10_000, "a,b" + "," * 40_000 + "\n", "a\u3000b\n" * 10_000):
        with pytest.raises(MemoryError, match=r"e.csv has [\d,]+ bytes, whose reading takes about"):
            load_graph(write(tmp_path, "e.csv", text), memory_limit=1_000_000)
    with pytest.raises(ValueError, match="`memory_limit` must be at least 1, got 0"):
        load_graph(path, memory_limit=0)


def test_members_of_gzip_files_are_joined_and_what_follows_them_is_refused(tmp_path):
    first, second = gzip.compress(b"0,1\n"), gzip.compress(b"1,2\n")
    path = tmp_path / "e.csv.gz"
    path.write_bytes(first + second + bytes(100_000))  # zeros, as tapes leave them
    assert load_graph(path).n_nodes == 3
    path.write_bytes(first + gzip.compress(b"") * 1000 + second)
    assert load_graph(path).n_nodes == 3
    for content in (first + b"garbage", first[:-1], first[:-8] + bytes(8), b"\0" + first):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"e.csv.gz is not a whole gzip file"):
            load_graph(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_pipes_and_devices_are_refused_unopened(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "zero.csv").symlink_to("/dev/zero")
    for name in ("pipe.csv", "zero.csv"):
        with pytest.raises(ValueError, match=f"{name} is a pipe, a socket or a device"):
            load_graph(tmp_path / name)


@pytest.mark.parametrize(
    "name", ["a\0b.csv", "long" * 100 + ".csv", "a/" * 3000 + "b.csv", "0,1\n" * 5000]
)
def test_names_that_no_file_can_have_are_names_of_no_file(name):
    with pytest.raises(FileNotFoundError, match="no such file") as caught:
        load_graph(name)
    assert len(str(caught.value)) < 500


def test_a_cell_of_many_digits_takes_linear_time(tmp_path):
    digits = "1" * 200_000
    assert load_graph(write(tmp_path, "e.csv", f"{digits}x,y\n3,4\n")).n_edges == 1


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (",".join(["column"] * 50_000) + "\n" + ",".join("1" * 50_000) + "\n", {"weight": "w"}),
        ("0,1," + "a" * 50_000 + "\n", {"weight": 2}),
        ("a" * 50_000 + ",b,1\n", {"columns": ("x", "b")}),
    ],
)
def test_messages_are_short_however_long_the_file(tmp_path, text, options):
    with pytest.raises(ValueError, match=r"e.csv") as caught:
        load_graph(write(tmp_path, "e.csv", text), **options)
    assert len(str(caught.value)) < 1000 + len(str(tmp_path))


def test_names_of_edges_are_cut_in_messages(tmp_path):
    text = 'graph [ node [ id 0 label "{}" ] node [ id 1 label "b" ] edge [ source 0 target 1 ] ]'
    with pytest.raises(ValueError, match="no 'w'") as caught:
        load_graph(write(tmp_path, "g.gml", text.format("a" * 50_000)), weight="w")
    assert len(str(caught.value)) < 1000


def test_weights_at_the_ends_of_float64_are_sound_or_refused(tmp_path):
    def weights(text: str, **options) -> np.ndarray:
        return load_graph(write(tmp_path, "e.csv", text), weight=2, **options).adjacency.data

    huge = "0,1,1e308\n1,2,1e308\n2,3,1e308\n"
    np.testing.assert_array_equal(weights(huge), np.full(6, 1e308))
    # the sum of the distances overflows, their mean does not
    np.testing.assert_allclose(weights(huge, weight_is="distance"), np.ones(6), rtol=1e-14)
    with pytest.raises(ValueError, match=r"e.csv: .*2 infinite entries"):
        weights("0,1,1e308\n0,1,1e308\n")  # parallel edges add
    with pytest.raises(ValueError, match=r"e.csv: .*2 infinite entries"):
        weights("0,1,1e-308\n1,2,1e308\n", weight_is="distance")
    with pytest.raises(ValueError, match=r"e.csv: .*finite inverses"):
        weights("0,1,1e-310\n", weight_is="distance")
    matrix = sp.csr_array(([1e308] * 4, ([0, 1, 1, 2], [1, 0, 2, 1])), shape=(3, 3))
    np.testing.assert_allclose(
        load_graph(matrix, weight_is="distance").adjacency.data, np.ones(4), rtol=1e-14
    )


def test_integers_too_large_for_int64_are_names(tmp_path):
    assert load_graph(write(tmp_path, "e.csv", f"1,{10**30}\n")).nodes == ("1", str(10**30))
    assert load_graph(write(tmp_path, "e.csv", f"1,{'9' * 5000}\n")).n_nodes == 2


@pytest.mark.parametrize("scale", [1e-200, 1e200])
@pytest.mark.parametrize("weights", ["unit", "gaussian", "inverse_length"])
def test_the_unit_of_points_and_meshes_does_not_matter(scale, weights):
    x = np.random.default_rng(1).normal(size=(40, 3))
    np.testing.assert_allclose(
        dense(from_points(x * scale, n_neighbors=4, weights=weights)),
        dense(from_points(x, n_neighbors=4, weights=weights)),
        rtol=1e-12,
    )
    faces = np.array([[i, i + 1, i + 2] for i in range(38)])
    if weights != "gaussian":
        np.testing.assert_allclose(
            dense(from_mesh((x * scale, faces), weights=weights)),
            dense(from_mesh((x, faces), weights=weights)),
            rtol=1e-12,
        )


# -- files: MatrixMarket ---------------------------------------------------------------------------


@pytest.mark.parametrize("integers", [False, True])
@pytest.mark.parametrize("dense_form", [False, True])
@pytest.mark.parametrize("symmetry", ["general", "symmetric", "skew-symmetric"])
def test_matrix_market_is_read_as_scipy_reads_it(tmp_path, symmetry, dense_form, integers):
    matrix = np.random.default_rng(3).integers(1, 100, (7, 7)) * (1 if integers else 0.37)
    matrix = {
        "general": matrix,
        "symmetric": matrix + matrix.T,
        "skew-symmetric": matrix - matrix.T,
    }[symmetry]
    buffer = io.BytesIO()
    scipy.io.mmwrite(buffer, matrix if dense_form else sp.coo_array(matrix), symmetry=symmetry)
    found = read_matrix_market(write(tmp_path, "m.mtx", buffer.getvalue()))
    wanted = scipy.io.mmread(io.BytesIO(buffer.getvalue()))
    np.testing.assert_array_equal(*(m.toarray() if sp.issparse(m) else m for m in (found, wanted)))


@pytest.mark.parametrize(
    ("kind", "body", "message"),
    [
        # the first two end a process that leaves them to scipy 1.17
        ("array real general", "0 0\n", r"its shape is \(0, 0\)"),
        (
            "array real general",
            "3 3\n0\n2\n5E\0\n1\n0\n0\n0\n0\n1\n",
            "line 6: '5E.x00' is not a number",
        ),
        ("array real skew-symmetric", "1000000 1000000\n1\n", "declares 499,999,500,000 entries"),
        (
            "coordinate real general",
            f"2 2 {10**17}\n1 1 1\n",
            "declares 100,000,.* entries and holds 1",
        ),
        ("coordinate real general", f"{10**18} 2 1\n1 1 1\n", "its size must be whole numbers"),
        ("coordinate real general", "2 2 -1\n1 1 1\n", "its size must be whole numbers"),
        (
            "coordinate real general",
            "2 2 1\n1 1 1\n2 2 2\n",
            "line 5: it declares 1 entries, and this is one",
        ),
        (
            "coordinate real general",
            "2 2 2\n1 1 1\n2 2 \n",
            "line 5: 2 numbers where 3 were wanted",
        ),
        ("coordinate real general", "2 2 1\n0 1 1\n", r"line 4: .* in \[1, 2\], got '0'"),
        ("coordinate real general", "2 2 1\n1 1 abc\n", "line 4: 'abc' is not a number"),
        # the numbers of these are as many as declared, but their lines say something else
        (
            "coordinate pattern symmetric",
            "5 5 3\n2 1 5\n3 1 5\n",
            "line 4: 3 numbers where 2 were wanted",
        ),
        (
            "coordinate real general",
            "2 2 2\n1 1 1 2 2 2\n",
            "line 4: 6 numbers where 3 were wanted",
        ),
        (
            "coordinate real general",
            "2 2 2\n1 1\n1 2 2 2\n",
            "line 4: 2 numbers where 3 were wanted",
        ),
        ("coordinate pattern general", "2 2 2\n\n1 1\n\n", "declares 2 entries and holds 1"),
        ("array real general", "2 2\n1 2\n3 4\n", "line 4: 2 numbers where 1 were wanted"),
        (
            "array real general",
            "2 2\n1\n2\n3\n4\n5\n",
            "line 8: it declares 4 entries, and this is one more",
        ),
        (
            "coordinate real general",
            "2 2 2\n1 1 1\n2 2 1.0D+00\n",
            r"line 5: '1.0D\+00' is not a number",
        ),
        (
            "coordinate real general",
            "2 2 2\n1 1 1\n2 2-1\n",
            "line 5: .* a whole number, got '2-1'",
        ),
        ("coordinate real general", "2 2 1\n1.0 1 1\n", "line 4: .* a whole number, got '1.0'"),
        ("coordinate real general", "2 2 1\n1 +1 1\n", "line 4: .* a whole number, got '[+]1'"),
        (
            "coordinate real symmetric",
            "2 2 2\n2 1 3\n1 2 3\n",
            "entries on both sides of its diagonal",
        ),
        (
            "coordinate real general",
            "2 2 1\n1 1 1\n% end\n",
            "line 5: comments stand before the size",
        ),
        ("coordinate real general", "% only\n%\n", "ends before its size"),
        ("coordinate real symmetric", "2 3 1\n1 1 1\n", r"its shape is \(2, 3\)"),
        (
            "coordinate complex hermitian",
            "1 1 1\n1 1 1 0\n",
            "complex numbers; a real one was wanted",
        ),
        ("array pattern general", "1 1\n1\n", "no matrices of the kind"),
        ("coordinate real", "1 1 1\n1 1 1\n", "its first line must be"),
        ("coordinate real general", "2 2 1\n1 2 nan\n", "1 NaN entries"),
        ("coordinate real skew-symmetric", "2 2 1\n2 1 1\n", "negative entries"),
    ],
)
def test_damaged_matrix_market_is_refused(tmp_path, kind, body, message):
    with pytest.raises(ValueError, match=message) as caught:
        load_graph(write(tmp_path, "m.mtx", f"%%MatrixMarket matrix {kind}\n% a comment\n{body}"))
    assert "m.mtx" in str(caught.value)


def test_matrix_market_numbers_at_the_ends_of_their_range(tmp_path):
    """What scipy's parser refuses is left to NumPy's."""
    path = write(
        tmp_path,
        "m.mtx",
        "%%MatrixMarket matrix coordinate real symmetric\n"
        "3 3 4\n"
        "2 1 5e-324\n"
        "3 1 +2.5\n"
        "3 2 .5\n"
        "3 3 1e-400\n",
    )
    found = dense(load_graph(path))
    np.testing.assert_array_equal(found, [[0, 5e-324, 2.5], [5e-324, 0, 0.5], [2.5, 0.5, 0]])


def test_a_fault_at_the_end_of_a_large_matrix_market_file_is_found_quickly(tmp_path, monkeypatch):
    """In Python only the lines near it are read: all of them take a minute for 60 KB."""
    lines = 200_000
    text = f"%%MatrixMarket matrix coordinate pattern general\n2 2 {lines - 1}\n" + "1 2\n" * lines
    path = write(tmp_path, "m.mtx.gz", text)
    looked_at = []

    class Digits:
        def fullmatch(self, cell):
            looked_at.append(cell)
            return True

    monkeypatch.setattr(matrix_files, "_DIGITS", Digits())
    with pytest.raises(ValueError, match=f"line {lines + 2}: it declares {lines - 1:,} entries"):
        load_graph(path)
    assert len(looked_at) <= matrix_files._PIECE // 2


def test_words_that_only_begin_with_the_banner_are_none(tmp_path):
    path = write(tmp_path, "m.mtx", "%%MatrixMarket[ matrix array real general\n1 1\n1\n")
    with pytest.raises(ValueError, match="its first line must be %%MatrixMarket matrix"):
        load_graph(path)


def test_blank_lines_and_line_ends_of_matrix_market_do_not_matter(tmp_path):
    text = (
        "%%MatrixMarket matrix coordinate real general\n%\n\n2 2 2\n\n1 2 1\n \t\n 2\t1  .5E+1 \n\n"
    )
    for content in (text, text.rstrip(), text.replace("\n", "\r\n")):
        graph = load_graph(write(tmp_path, "m.mtx", content), directed=True)
        np.testing.assert_array_equal(dense(graph), [[0, 1], [5, 0]])


@pytest.mark.parametrize("name", ["m.mtx", "m.npz"])
def test_a_matrix_with_many_rows_is_read_where_a_memory_limit_allows_it(tmp_path, name):
    n = 1_000_001
    path = tmp_path / name
    with path.open("wb") as file:
        entry = sp.coo_array(([1.0], ([0], [0])), shape=(n, n))
        scipy.io.mmwrite(file, entry) if name == "m.mtx" else sp.save_npz(file, entry)
    with pytest.raises(
        ValueError, match=r"it is taken for damaged; if it is not, pass a `memory_limit`"
    ):
        load_graph(path)
    with pytest.raises(
        MemoryError, match=r"about 0.0447 GiB, but `memory_limit` is 0.0186 GiB; pass a larger"
    ):
        load_graph(path, memory_limit=20_000_000)
    assert load_graph(path, memory_limit=49_000_000).n_nodes == n


def test_lines_of_edges_are_those_of_the_file(tmp_path):
    edges = read_edge_list(write(tmp_path, "e.txt", "# c\n0 1\n\n2 3\n"))
    assert edges.lines.tolist() == [2, 4]


def test_what_is_wrong_with_a_file_is_said_once(tmp_path):
    broken = tmp_path / "k.gml.gz"
    broken.write_bytes(b"no gzip")
    with pytest.raises(ValueError, match="not a whole gzip file") as caught:
        load_graph(broken)
    assert str(caught.value).count(str(broken)) == 1
    np.savez(tmp_path / "other.npz", a=np.eye(2))
    with pytest.raises(ValueError, match="npz file: it does not contain a sparse array"):
        load_graph(tmp_path / "other.npz")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: load_graph(np.eye(2), directed="no"),
            "`directed` must be True or False, got str 'no'",
        ),
        (lambda: load_graph("e.csv", header=1), "`header` must be True or False, got int 1"),
        (lambda: from_edges([0], [1], directed=0), "`directed` must be True or False, got int 0"),
        (lambda: from_mesh((np.eye(3), [[0, 1, 2]]), weld="yes"), "`weld` must be True or False"),
    ],
)
def test_flags_are_booleans(call, message):
    with pytest.raises(TypeError, match=message):
        call()
