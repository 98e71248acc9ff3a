"""Identifiers beyond 2^53, which floats do not hold: exact, or refused with the way out."""

import numpy as np
import pytest

import graphrf as grf
from graphrf.gp import MetricGraph
from graphrf.graph.graph import given_nodes

pandas = pytest.importorskip("pandas")

FIRST = 2**53
IDS = [FIRST, FIRST + 1, FIRST + 2, FIRST + 3]  # as floats, the second is the first
GRAPH = grf.from_edges(IDS[:3], IDS[1:], nodes=IDS)
ROADS = MetricGraph(IDS[:3], IDS[1:], [1.0, 2.0, 3.0], nodes=IDS)
ROUNDED = np.array(IDS[1:3], dtype=float)


@pytest.mark.parametrize(
    "places",
    [
        np.array([[IDS[1], IDS[2], 1]]),
        np.array([[IDS[1], IDS[2], 1]], dtype=np.uint64),
        np.array([[IDS[1], IDS[2], 0, 1]]),
        np.array([(IDS[1], IDS[2], 1.0)], dtype=object),
        [(IDS[1], IDS[2], 1.0)],
        [[IDS[1], IDS[2], 1]],
        pandas.DataFrame({"u": IDS[1:2], "v": IDS[2:3], "metres": [1.0]}),
        pandas.DataFrame(
            {"u": pandas.array(IDS[1:2], dtype="Int64"), "v": IDS[2:3], "metres": [1.0]}
        ),
    ],
)
def test_integers_are_exact_places(places):
    found = ROADS.places(places)
    assert (found.edge.tolist(), found.distance.tolist()) == ([1], [1.0])


@pytest.mark.parametrize(
    "places",
    [
        np.column_stack([IDS[1:2], IDS[2:3], [0.5]]),
        np.array([[2**24 + 1, 2, 0.5]], dtype=np.float32),
        pandas.DataFrame({"u": IDS[1:2], "v": IDS[2:3], "metres": [0.5]}).to_numpy(),
        pandas.DataFrame({"u": ROUNDED[:1], "v": ROUNDED[1:], "metres": [0.5]}),
        [(float(IDS[1]), float(IDS[2]), 0.5)],
        list(np.array([[IDS[1], IDS[2], 0.5]])),
        ROUNDED,
    ],
)
def test_places_of_rounded_identifiers_are_refused(places):
    with pytest.raises((ValueError, TypeError), match=r"may be rounded: .*integers"):
        ROADS.places(places)


@pytest.mark.parametrize(
    "nodes",
    [
        ROUNDED,
        ROUNDED.tolist(),
        float(IDS[1]),
        [IDS[3], float(IDS[1])],
        pandas.Series(ROUNDED),
        pandas.Series(IDS[1:3], dtype="Float64"),
        pandas.Series([IDS[1], None, IDS[2]]).dropna(),
    ],
)
def test_rounded_names_of_nodes_are_refused(nodes):
    for found_by in (GRAPH.index, GRAPH.positions, lambda given: given_nodes(GRAPH, given)):
        with pytest.raises(TypeError, match="may be rounded"):
            found_by(nodes)


def test_floats_of_32_bits_are_exact_below_2_to_24():
    names = [2**25, 2**25 + 1, 2**25 + 2]
    graph = grf.from_edges(names[:2], names[1:], nodes=names)
    with pytest.raises(TypeError, match="may be rounded"):
        graph.index(np.array(names[1:2], dtype=np.float32))
    assert graph.index(np.array(names[1:2], dtype=float)).tolist() == [1]


@pytest.mark.parametrize(
    "nodes", [IDS[1:3], np.array(IDS[1:3]), np.array(IDS[1:3], dtype=np.uint64)]
)
def test_integers_are_exact_names(nodes):
    assert GRAPH.index(nodes).tolist() == [1, 2]
    assert GRAPH.index([np.uint64(IDS[1]), np.int64(IDS[2])]).tolist() == [1, 2]


def test_names_that_are_floats_are_found_by_floats():
    names = [float(2**60), float(2**61)]
    graph = grf.Graph(np.array([[0.0, 1.0], [1.0, 0.0]]), nodes=names)
    assert graph.index(names[::-1]).tolist() == [1, 0]


def test_observations_of_rounded_names_are_refused():
    model = grf.GraphGPRegressor(GRAPH, kernel=grf.Diffusion(lengthscale=2.0))
    with pytest.raises(TypeError, match="may be rounded"):
        model.fit(pandas.Series([1.0, 2.0], index=ROUNDED))
    with pytest.raises(TypeError, match="may be rounded"):
        model.fit(dict(zip(ROUNDED.tolist(), (1.0, 2.0), strict=True)))
    with pytest.raises(ValueError, match="`y` has the labels"):
        model.fit([IDS[0], IDS[2]], pandas.Series([1.0, 2.0], index=ROUNDED))


def test_columns_of_signed_and_unsigned_integers_are_exact():
    mixed = pandas.DataFrame({"a": np.array(IDS[:3], dtype=np.uint64), "b": np.array(IDS[1:])})
    assert grf.load_graph(mixed).nodes == tuple(IDS)
    large = pandas.DataFrame(
        {"a": np.array([2**63 + 1, 2**63 + 2], dtype=np.uint64), "b": np.array(IDS[:2])}
    )
    assert grf.load_graph(large).nodes == (*IDS[:2], 2**63 + 1, 2**63 + 2)
    assert (
        grf.from_edges(np.array(IDS[:1], dtype=np.uint64), np.array(IDS[1:2]), nodes=IDS).n_edges
        == 1
    )


def test_rows_of_an_array_with_weights_are_no_exact_edges():
    rows = [
        tuple(row)
        for row in np.array([[IDS[0], IDS[1], 0.5], [IDS[1], IDS[2], 0.5], [IDS[2], IDS[3], 1.0]])
    ]
    with pytest.raises(
        ValueError, match="may be rounded: rows of an array with weights are floats"
    ):
        grf.load_graph(rows, weight=2)
