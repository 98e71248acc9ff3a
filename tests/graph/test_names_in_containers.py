"""Nodes of any names in any container; unknown or ambiguous ones are refused with labels."""

import datetime
import re

import networkx as nx
import numpy as np
import pytest

import graphrf as grf
from graphrf.graph.graph import given_nodes
from graphrf.pagerank import local_pagerank, pagerank

pandas = pytest.importorskip("pandas")
torch = pytest.importorskip("torch")

TEXT = ["Leith", "Dalry", "Gorgie", "Morningside"]
OSM = [656001893, 25485930, 8131024318, 2**40]
EDGES = [
    (656001893, 25485930, 0),
    (25485930, 656001893, 0),
    (25485930, 8131024318, 0),
    (25485930, 8131024318, 1),
]
PAIRS = [("Leith", 1), ("Leith", 2), ("Dalry", 1), ("Gorgie", 7)]
POINTS = [(0.5, 1.25), (0.5, 2.25), (1.5, 1.25), (3.0, 1.0)]
MIXED = ["Leith", 656001893, (3, 4), datetime.date(2026, 1, 1)]
LARGE = [2**64 + 1, 2**63, 10, 2**70]


def graph_of(names):
    return grf.Graph(np.eye(4), nodes=names)


def objects(values):
    """An array of objects, also of tuples, with one axis."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


ORDER = [2, 0, 3]
CONTAINERS = {
    "list": list,
    "tuple": tuple,
    "keys": lambda names: dict.fromkeys(names).keys(),
    "array of objects": objects,
    "column of objects": lambda names: objects(names)[:, None],
    "Index": lambda names: pandas.Index(names, tupleize_cols=False),
    "Series": lambda names: pandas.Series(names, index=[5, 6, 7]),
    "column": lambda names: pandas.DataFrame({"node": names}),
}
FRAMES = {
    "frame": lambda names: pandas.DataFrame(names),
    "MultiIndex": lambda names: pandas.MultiIndex.from_tuples(names),
    "lists": lambda names: [list(name) for name in names],
}


@pytest.mark.parametrize("hold", CONTAINERS.values(), ids=CONTAINERS.keys())
@pytest.mark.parametrize("names", [TEXT, OSM, EDGES, PAIRS, POINTS, MIXED, LARGE])
def test_names_of_any_kind_are_found_in_any_container(names, hold):
    graph = graph_of(names)
    asked = hold([names[place] for place in ORDER])
    np.testing.assert_array_equal(given_nodes(graph, asked), ORDER)
    np.testing.assert_array_equal(
        graph.positions(asked) if names not in (OSM, LARGE) else ORDER, ORDER
    )
    if not isinstance(asked, tuple):  # which is one name there
        np.testing.assert_array_equal(graph.index(asked), ORDER)


@pytest.mark.parametrize("hold", FRAMES.values(), ids=FRAMES.keys())
@pytest.mark.parametrize("names", [EDGES, PAIRS, POINTS])
def test_rows_of_several_cells_are_names_that_are_tuples(names, hold):
    graph = graph_of(names)
    asked = hold([names[place] for place in ORDER])
    np.testing.assert_array_equal(given_nodes(graph, asked), ORDER)
    np.testing.assert_array_equal(graph.index(asked), ORDER)


def test_arrays_and_other_containers():
    graph = graph_of(TEXT)
    for asked in (
        np.array(TEXT)[ORDER],
        pandas.Categorical(TEXT)[ORDER],
        np.array(TEXT)[ORDER][:, None],
    ):
        np.testing.assert_array_equal(given_nodes(graph, asked), ORDER)
    np.testing.assert_array_equal(given_nodes(graph_of(EDGES), np.array(EDGES)[ORDER]), ORDER)
    np.testing.assert_array_equal(given_nodes(graph_of(POINTS), np.array(POINTS)[ORDER]), ORDER)
    for asked in (
        np.array(OSM)[ORDER],
        torch.tensor(OSM)[ORDER],
        pandas.Series(OSM, dtype="Int64")[ORDER],
    ):
        np.testing.assert_array_equal(given_nodes(graph_of(OSM), asked), ORDER)
    for asked in (
        [torch.tensor(2), torch.tensor(0)],
        [np.array([2]), np.array([0])],
        objects([2, 0]),
        (2, 0),
    ):
        np.testing.assert_array_equal(given_nodes(graph, asked), [2, 0])
    grid = nx.grid_2d_graph(2, 2)
    np.testing.assert_array_equal(given_nodes(grf.load_graph(grid), grid.nodes), np.arange(4))
    days = pandas.date_range("2026-01-01", periods=4)
    np.testing.assert_array_equal(given_nodes(graph_of(days), days[ORDER]), ORDER)
    np.testing.assert_array_equal(
        given_nodes(graph_of([0.5, 1.5, 2.5, 4.5]), np.array([2.5, 0.5])), [2, 0]
    )
    np.testing.assert_array_equal(given_nodes(graph_of([(1,), (0,), (2,), (3,)]), [(0,)]), [1])


def test_positions_in_any_container():
    graph = graph_of(TEXT)
    for asked in ([3, 1], np.array([[3], [1]]), np.array([3.0, 1.0], np.float32)):
        np.testing.assert_array_equal(graph.positions(asked), [3, 1])
    np.testing.assert_array_equal(graph.positions(None), np.arange(4))
    assert graph.positions([]).size == 0


def test_frames_of_polars_are_those_of_pandas():
    polars = pytest.importorskip("polars")
    np.testing.assert_array_equal(given_nodes(graph_of(TEXT), polars.Series(TEXT)[[2, 0]]), [2, 0])
    frame = polars.DataFrame(EDGES, schema=["u", "v", "key"], orient="row")
    np.testing.assert_array_equal(given_nodes(graph_of(EDGES), frame[[2, 0]]), [2, 0])


@pytest.mark.parametrize(
    ("names", "one"),
    [
        (TEXT, "Dalry"),
        (OSM, 25485930),
        (EDGES, EDGES[1]),
        (PAIRS, ("Leith", 2)),
        (POINTS, (0.5, 2.25)),
        (LARGE, 2**63),
        ([None, frozenset("ab"), 1.5, b"x"], frozenset("ab")),
    ],
)
def test_one_name_is_one_node(names, one):
    graph = graph_of(names)
    np.testing.assert_array_equal(given_nodes(graph, one), [1])
    assert graph.index(one) == 1
    assert isinstance(graph.index(one), int)


def test_one_name_is_one_source_of_pagerank():
    graph = grf.load_graph(nx.grid_2d_graph(3, 3))
    streets = graph_of(EDGES)
    one = local_pagerank(streets, EDGES[1], seed=0)
    several = local_pagerank(streets, EDGES[1:2], seed=0)
    assert one.top(4) == several.top(4)[0]
    with pytest.raises(
        ValueError,
        match=r"`sources` must say what \(1, 2\) is.*pass \[\(1, 2\)\] for the one, \[1, 2\]",
    ):
        local_pagerank(graph, (1, 2), seed=0)
    np.testing.assert_array_equal(graph.positions((1, 2)), [1, 2])
    assert graph.index((1, 2)) == 5


def test_identifiers_that_are_no_positions_are_names():
    graph = graph_of([1, 2, 3, 4])
    np.testing.assert_array_equal(given_nodes(graph, [4, 1]), [3, 0])  # 4 is no position
    np.testing.assert_array_equal(given_nodes(graph, [0, 3]), [0, 3])  # 0 is no name
    with pytest.raises(ValueError, match="must say whether integers are names or positions"):
        given_nodes(graph, [1, 3])
    with pytest.raises(
        ValueError, match="the node named '1' is at position 0, and the node at position 1 is named"
    ):
        given_nodes(graph_of(["1", "2", "3", "4"]), [1, 3])
    np.testing.assert_array_equal(
        given_nodes(graph_of(["1", "2", "3", "4"]), graph_of([1, 2, 3, 4]).index([3])), [2]
    )


PLOTS = ["00007", "00000", "00002", "00001"]


@pytest.mark.parametrize(
    "hold",
    [
        pandas.Index,
        pandas.Series,
        lambda numbers: pandas.Series(numbers, dtype="Int64"),
        lambda numbers: pandas.Series(numbers, dtype=float),
        lambda numbers: pandas.Series(numbers, dtype=object),
        lambda numbers: pandas.DataFrame({"plot": numbers}),
    ],
)
def test_integers_in_columns_are_no_positions_where_names_are_text(hold):
    graph = graph_of(PLOTS)
    for numbers in ([2, 1], [7, 0]):
        with pytest.raises(ValueError, match=r"named by text such as '0000[27]', .* dtype=str"):
            given_nodes(graph, hold(numbers))
    np.testing.assert_array_equal(given_nodes(graph, hold([])), [])
    np.testing.assert_array_equal(given_nodes(graph, np.array([2, 1])), [2, 1])
    np.testing.assert_array_equal(given_nodes(graph, [2, 1]), [2, 1])
    np.testing.assert_array_equal(given_nodes(graph_of(None), hold([2, 1])), [2, 1])
    with pytest.raises(ValueError, match=r"got 2 .*names here look like 'Leith'.*pass an array"):
        given_nodes(graph_of(TEXT), hold([2, 1]))


def test_an_index_of_integers_is_refused_alike_everywhere():
    series = pandas.Series([1.0, 2.0], index=[2, 1])
    graph = graph_of(PLOTS)
    for ask in (
        lambda: graph.index(series.index),
        lambda: grf.sample_features(graph, nodes=series.index, seed=0),
        lambda: local_pagerank(graph, series.index, seed=0),
        lambda: pagerank(graph, personalization=series),
    ):
        with pytest.raises(ValueError, match=r"such as '00002', .* dtype=str"):
            ask()


REFUSED = [
    (
        ["1", "2", "3", "40"],
        [40],
        "got 40; its nodes are named by text such as '40', and not by integers",
    ),
    (
        OSM,
        ["25485930"],
        "got '25485930'; its nodes are named by integers such as 25485930, and not by text",
    ),
    (None, ["3"], "got '3'; it has no names, so that its nodes are the positions 0 to 3"),
    (
        None,
        [1, 2, 3, 4],
        r"\[0, 3\], got 4; positions here run from 0 to 3: are yours numbered from 1",
    ),
    (None, [0, 4], r"\[0, 3\], got 4$"),
    (
        OSM,
        [656001893, 3],
        r"\[0, 3\] or names of nodes, got 656001893 beside 3, which is no name; names here",
    ),
    (OSM, [7], r"got 7; names here look like 656001893, 25485930, 8131024318"),
    (
        EDGES,
        [(25485930, 656001893)],
        r"got \(25485930, 656001893\); names here look like \(656001893, 25",
    ),
    (TEXT, EDGES, r"shape \(n,\) or \(n, 1\), got \(4, 3\); names here look like 'Leith', 'Dalry'"),
    (TEXT, [(1, 2), (1, 2, 3)], "got rows of 2 to 3; names here look like"),
    (
        TEXT,
        np.full((300, 3), 0.5),
        r"got \(300, 3\); these look like coordinates: .*scipy.spatial.cKDTree",
    ),
    (
        POINTS,
        [(0.5, 1.26)],
        r"got \(0.5, 1.26\); names here look like .*; these look like coordinates",
    ),
    (TEXT, ["Leith", None], "got None at position 1; names here look like 'Leith'"),
    (TEXT, ["Leith", float("nan")], "got nan at position 1"),
    (TEXT, ["Lieth"], r"got 'Lieth'; did you mean 'Leith'\?"),
    (TEXT, ["Leith", 1], "got 1; names here look like 'Leith'"),
    (TEXT, np.zeros((2, 2, 2)), r"must have shape \(n,\) or \(n, 1\), got \(2, 2, 2\)"),
]


@pytest.mark.parametrize(("names", "nodes", "message"), REFUSED)
def test_unknown_nodes_are_refused_with_labels_of_both_sides(names, nodes, message):
    with pytest.raises(ValueError, match=message) as caught:
        given_nodes(graph_of(names), nodes, "rows")
    assert caught.value.argument == "rows"


def test_labels_that_count_from_another_number_are_asked_about():
    with pytest.raises(
        ValueError,
        match=re.escape("`y` must be nodes of the graph, got 0; names here run from 1 to 4: "),
    ):
        graph_of([1, 2, 3, 4]).index(pandas.RangeIndex(4), argument="y")
    with pytest.raises(ValueError, match=r"numbered from 1\? Then subtract 1"):
        graph_of(None).index([1, 2, 3, 4])
    with pytest.raises(ValueError, match="a tuple is one name: pass several names in a list"):
        graph_of(TEXT).index(("Leith", "Dalry"))


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ({"Leith", "Dalry"}, "in an order.* got a set"),
        ({"Leith": 1}, "got a dict"),
        (iter(TEXT), "iterator"),
        ([True, False], "np.flatnonzero"),
        (np.array([1.5]), "the float 1.5"),
        (np.array([2.0**24]), "below 2"),
        ([[["Leith"]]], "hashable|shape"),
        ([-1], r"positions in \[0, 3\] or names"),
        ([np.nan], "the float nan"),
    ],
)
def test_what_holds_no_nodes_is_refused(nodes, message):
    with pytest.raises((TypeError, ValueError), match=message):
        given_nodes(graph_of(TEXT), nodes)


def test_names_of_a_graph_come_in_the_same_containers():
    for names in (pandas.MultiIndex.from_tuples(EDGES), pandas.DataFrame(EDGES), np.array(EDGES)):
        assert grf.Graph(np.eye(4), nodes=names).nodes == tuple(EDGES)
    assert grf.Graph(np.eye(4), nodes=pandas.DataFrame({"name": TEXT})).nodes == tuple(TEXT)
