"""Data frames and graphs of other libraries as graphs, and back to networkx."""

from __future__ import annotations

import types

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

import graphrf as grf
from graphrf.graph.loaders import load_graph

IDS = [29837206, 53098262, 61234567, 71234567]
WEIGHTED = np.array([[0, 2, 0, 0], [2, 0, 0.5, 0], [0, 0.5, 0, 1], [0, 0, 1, 3.0]])


def dense(graph: grf.Graph) -> np.ndarray:
    return graph.adjacency.toarray()


class Frame:
    """A table as far as it is looked at, for machines without pandas and polars."""

    def __init__(self, data: dict) -> None:
        self._data = {name: np.asarray(column) for name, column in data.items()}

    @property
    def columns(self) -> list[str]:
        return list(self._data)

    def __len__(self) -> int:
        return len(next(iter(self._data.values()), ()))

    def __getitem__(self, name: str) -> np.ndarray:
        return self._data[name]


def frame_of(kind: str, data: dict):
    return Frame(data) if kind == "own" else pytest.importorskip(kind).DataFrame(data)


@pytest.mark.parametrize("kind", ["own", "pandas", "polars"])
def test_a_data_frame_is_what_its_csv_file_is(tmp_path, kind):
    """Identifiers of OpenStreetMap are names: as positions they would make 71 million nodes."""
    data = {"u": IDS, "v": [*IDS[1:], IDS[0]], "length": [1.0, 2.0, 4.0, 5.0]}
    table = frame_of(kind, data)
    path = tmp_path / "e.csv"
    path.write_text(
        "u,v,length\n" + "".join(f"{u},{v},{w}\n" for u, v, w in zip(*data.values(), strict=True))
    )
    for options in (
        {},
        {"weight": "length", "weight_is": "distance"},
        {"columns": ("v", "u"), "weight": 2, "weight_is": "similarity", "directed": True},
    ):
        found, wanted = load_graph(table, **options), load_graph(path, **options)
        assert found.nodes == wanted.nodes == tuple(IDS)
        np.testing.assert_array_equal(dense(found), dense(wanted))
    words = {"source": ["a", "b"], "target": ["b", "c"], "weight": [1.0, 2.0]}
    with pytest.warns(UserWarning, match="the graph is unweighted, but its edges have 'weight'"):
        assert load_graph(frame_of(kind, words)).nodes == ("a", "b", "c")


@pytest.mark.parametrize(
    ("data", "options", "error", "message"),
    [
        (
            {"id": [1], "source": ["a"], "target": ["b"]},
            {},
            ValueError,
            r"pass columns=\('source', 'target'\)",
        ),
        (
            {"a": [1, 2], "b": [2, 3]},
            {"weight": "w"},
            ValueError,
            "a column 'w', but its columns are 'a', 'b'",
        ),
        (
            {"a": [1, 2], "b": [2, 3]},
            {"columns": ("a", "c")},
            ValueError,
            "a column 'c', but its columns",
        ),
        ({"a": [1.0, np.nan], "b": [2, 3]}, {}, ValueError, "got none in row 1 of column 'a'"),
        ({"a": ["x", ""], "b": ["y", "z"]}, {}, ValueError, "got none in row 1 of column 'a'"),
        (
            {"a": np.array(["x", None]), "b": ["y", "z"]},
            {},
            ValueError,
            "got none in row 1 of column 'a'",
        ),
        (
            {"a": [1, 2], "b": [2, 3], "w": ["1", "x"]},
            {"weight": "w"},
            TypeError,
            "a column of numbers, got 'w'",
        ),
        (
            {"a": [1, 2], "b": [2, 3], "w": [1.0, -1]},
            {"weight": "w"},
            ValueError,
            "row 1: weights must be finite",
        ),
        ({"a": []}, {}, ValueError, "two columns of nodes and a row for each edge"),
        ({"a": [1], "b": [2]}, {"header": True}, ValueError, "`header` belong to files"),
    ],
)
def test_bad_tables_are_refused(data, options, error, message):
    with pytest.raises(error, match=message):
        load_graph(Frame(data), **options)


def test_levels_of_an_index_may_hold_the_ends_of_edges():
    """As OSMnx has the edges of a road graph: an index of u, v and key."""
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"u": IDS[:2], "v": IDS[1:3], "key": 0, "length": [10.0, 30.0]})
    table = table.set_index(["u", "v", "key"])
    graph = load_graph(table, weight="length", weight_is="distance")
    assert graph.nodes == tuple(IDS[:3])
    np.testing.assert_allclose(dense(graph), [[0, 2, 0], [2, 0, 2 / 3], [0, 2 / 3, 0]])
    missing = pandas.DataFrame({"a": pandas.array([1, None], dtype="Int64"), "b": [2, 3]})
    with pytest.raises(ValueError, match="got none in row 1 of column 'a'"):
        load_graph(missing)


def check_weighted(source, directed=False, nodes=(0, 1, 2, 3)):
    """The graph of WEIGHTED, with its weights and, after a warning, without."""
    graph = load_graph(source, weight="weight")
    np.testing.assert_array_equal(dense(graph), np.triu(WEIGHTED) if directed else WEIGHTED)
    assert (graph.directed, tuple(graph.nodes)) == (directed, nodes)
    with pytest.warns(UserWarning, match="the graph is unweighted, but its edges have 'weight'"):
        np.testing.assert_array_equal(dense(load_graph(source)) > 0, dense(graph) > 0)
    assert load_graph(source, weight=False).n_edges == 4
    with pytest.raises(ValueError, match="must be an attribute of the edges"):
        load_graph(source, weight="length")


EDGES = [(1, 0, 2.0), (1, 2, 0.5), (2, 3, 1.0), (3, 3, 3.0)]
ARCS = [(0, 1, 2.0), (1, 2, 0.5), (2, 3, 1.0), (3, 3, 3.0)]


@pytest.mark.parametrize("directed", [False, True])
def test_igraph(directed):
    igraph = pytest.importorskip("igraph")
    graph = igraph.Graph(
        n=4, edges=[edge[:2] for edge in (ARCS if directed else EDGES)], directed=directed
    )
    graph.es["weight"] = [edge[2] for edge in EDGES]
    check_weighted(graph, directed)
    graph.vs["name"] = ["a", "b", "c", "d"]
    check_weighted(graph, directed, ("a", "b", "c", "d"))
    parallel = igraph.Graph(n=2, edges=[(0, 1), (1, 0)])
    parallel.es["weight"] = [1.0, 2.0]
    assert dense(load_graph(parallel, weight="weight"))[0, 1] == 3  # they have no direction and add


@pytest.mark.parametrize("directed", [False, True])
def test_rustworkx(directed):
    rustworkx = pytest.importorskip("rustworkx")
    graph = rustworkx.PyDiGraph() if directed else rustworkx.PyGraph()
    graph.add_nodes_from(range(5))
    graph.remove_node(0)  # indices need not begin at 0
    graph.add_edges_from([(u + 1, v + 1, w) for u, v, w in (ARCS if directed else EDGES)])
    check_weighted(graph, directed)
    for edge in graph.edge_index_map():
        graph.update_edge_by_index(edge, {"weight": graph.edge_index_map()[edge][2]})
    check_weighted(graph, directed)


@pytest.mark.parametrize("directed", [False, True])
def test_networkit(directed):
    networkit = pytest.importorskip("networkit")
    graph = networkit.Graph(4, weighted=True, directed=directed)
    for u, v, w in ARCS if directed else EDGES:
        graph.addEdge(u, v, w)
    check_weighted(graph, directed)


def test_dgl_by_its_methods():
    """A stand-in with the methods of dgl.DGLGraph that are called."""
    src, dst, weight = map(np.array, zip(*ARCS, strict=True))
    graph = types.SimpleNamespace(
        edges=lambda: (src, dst), num_nodes=lambda: 4, edata={"weight": weight}
    )
    check_weighted(graph, directed=True)


@pytest.mark.parametrize(
    "source",
    [
        types.SimpleNamespace(W=sp.csr_array(WEIGHTED), is_directed=lambda: False),
        types.SimpleNamespace(sparse=sp.csr_array(WEIGHTED), id_order=["a", "b", "c", "d"]),
        types.SimpleNamespace(adjacency=sp.csr_array(WEIGHTED), names=["a", "b", "c", "d"]),
        types.SimpleNamespace(to_scipy=lambda: sp.csr_array(WEIGHTED), sparse_sizes=lambda: (4, 4)),
    ],
    ids=["PyGSP", "libpysal", "scikit-network", "torch_sparse"],
)
def test_what_other_libraries_hold_as_a_matrix(source):
    """Stand-ins with what is looked at."""
    graph = load_graph(source)
    np.testing.assert_array_equal(dense(graph), WEIGHTED)
    named = hasattr(source, "id_order") or hasattr(source, "names")
    assert tuple(graph.nodes) == (("a", "b", "c", "d") if named else (0, 1, 2, 3))
    with pytest.raises(ValueError, match="a matrix, whose entries are the weights"):
        load_graph(source, weight="weight")


def test_pygsp():
    graphs = pytest.importorskip("pygsp").graphs
    np.testing.assert_array_equal(dense(load_graph(graphs.Graph(WEIGHTED))), WEIGHTED)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
@pytest.mark.parametrize("layout", ["strided", "sparse_coo", "sparse_csr"])
def test_tensors_of_torch(layout):
    torch = pytest.importorskip("torch")
    tensor = torch.tensor(WEIGHTED)
    if layout != "strided":
        tensor = tensor.to_sparse(layout=getattr(torch, layout))
    np.testing.assert_array_equal(dense(load_graph(tensor)), WEIGHTED)
    directed = tensor.to_dense().triu()
    np.testing.assert_array_equal(dense(load_graph(directed, directed=True)), np.triu(WEIGHTED))


def test_what_is_no_graph_is_refused_with_what_could_be():
    for source in (None, 3, 1.5, object(), types.SimpleNamespace(columns=["a"])):
        with pytest.raises(
            TypeError,
            match=r"must be a path, a data frame, a dictionary .*, a graph of networkx, igraph",
        ):
            load_graph(source)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_graphs_go_to_networkx_and_back(directed, weighted):
    graph = nx.DiGraph() if directed else nx.Graph()
    graph.add_nodes_from(["z", "a", ("b", 1), 7])
    graph.add_weighted_edges_from([("a", "z", 2.0), (("b", 1), "a", 0.5), ("a", "a", 3.0)])
    ours = load_graph(graph, weight="weight" if weighted else False)
    back = ours.to_networkx()
    assert list(back) == list(graph)
    assert {frozenset(edge) for edge in back.edges} == {frozenset(edge) for edge in graph.edges}
    assert back.is_directed() == directed
    again = load_graph(back, weight="weight" if weighted else None)
    np.testing.assert_array_equal(dense(again), dense(ours))
    if weighted:
        assert back["a"]["z"]["weight"] == 2.0
    else:
        assert not any(data for *_, data in back.edges(data=True))


def test_lines_of_a_map_join_their_ends():
    geopandas, shapely = pytest.importorskip("geopandas"), pytest.importorskip("shapely")
    lines = [[(0, 0), (0, 1), (0, 2)], [(0, 2), (3, 2)], [(9, 9), (0.0, -0.0)]]
    roads = geopandas.GeoDataFrame(
        {"speed": [30, 50, 50]}, geometry=[shapely.LineString(line) for line in lines]
    )
    with pytest.warns(UserWarning, match="the weights in 'length' are taken as similarities"):
        graph = load_graph(roads, weight="length")
    assert graph.nodes == ((0.0, 0.0), (0.0, 2.0), (3.0, 2.0), (9.0, 9.0))
    wanted = np.zeros((4, 4))
    wanted[0, 1], wanted[1, 2], wanted[0, 3] = 2, 3, np.hypot(9, 9)
    np.testing.assert_allclose(
        dense(load_graph(roads, weight="length", weight_is="similarity")), wanted + wanted.T
    )
    np.testing.assert_array_equal(
        dense(load_graph(roads, weight="speed")) > 0, wanted + wanted.T > 0
    )
    assert load_graph(roads.geometry).n_edges == 3
    joined = geopandas.GeoSeries([shapely.MultiLineString(lines)])
    np.testing.assert_array_equal(dense(load_graph(joined)), wanted + wanted.T > 0)
    assert load_graph(roads, directed=True).adjacency[3, 0] == 1
    with pytest.raises(ValueError, match="is in degrees here; project the map first"):
        load_graph(roads.set_crs("EPSG:4326"), weight="length")
    with pytest.raises(
        ValueError, match=r"must be a column \('speed', 'geometry'\) or 'length', got 'lanes'"
    ):
        load_graph(roads, weight="lanes")
    named = roads.assign(u=["a", "b", "c"], v=["b", "c", "a"])
    assert load_graph(named, columns=("u", "v")).nodes == ("a", "b", "c")


def test_polygons_of_a_map_are_joined_along_borders():
    """Not at corners; what touches nothing is an isolated node."""
    geopandas, shapely = pytest.importorskip("geopandas"), pytest.importorskip("shapely")
    boxes = [shapely.box(x, y, x + 1, y + 1) for x, y in ((0, 0), (1, 0), (1, 1), (5, 5))]
    areas = geopandas.GeoDataFrame(geometry=boxes, index=["a", "b", "c", "d"])
    graph = load_graph(areas)
    assert graph.nodes == ("a", "b", "c", "d")
    np.testing.assert_array_equal(
        dense(graph), [[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]]
    )
    with pytest.raises(ValueError, match="belongs to lines"):
        load_graph(areas, weight="length")
    mixed = geopandas.GeoSeries([boxes[0], shapely.Point(0, 0)])
    with pytest.raises(
        ValueError, match=r"must have lines only, .* or polygons only, got 'Point', 'Polygon'"
    ):
        load_graph(mixed)
    with pytest.raises(ValueError, match="must have a geometry in each row"):
        load_graph(geopandas.GeoSeries([boxes[0], None]))
