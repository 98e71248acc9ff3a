import pickle

import networkx as nx
import numpy as np
import pytest

import graphrf as grf
from graphrf.graph.graph import given_nodes
from graphrf.operators import SeriesFactor
from graphrf.pagerank import local_pagerank


class Column:
    """What `positions` sees of a column of pandas."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype=dtype)


INTEGERS = [
    3,
    [3],
    (3, 2),
    [3.0],
    [[3]],
    Column([3, 1]),
    range(2, 4),
    np.array([3, 1]),
    np.array([3.0]),
    np.int64(3),
    [np.int64(3)],
    np.array([[3], [2]], dtype=np.uint8),
]


@pytest.mark.parametrize("nodes", INTEGERS)
def test_integers_that_are_names_of_other_nodes_too_are_refused_until_it_is_said_what_they_are(
    nodes,
):
    graph = grf.Graph(np.eye(7), nodes=[10, 3, 2, 1, 0, 4, 5])
    both = (
        "`nodes` must say whether integers are names or positions.*: the node named 3 is at "
        "position 1, and the node at position 3 is named 1; "
        r"graph.index\(...\) takes names, graph.positions\(...\) takes positions"
    )
    with pytest.raises(ValueError, match=both) as caught:
        given_nodes(graph, nodes)
    assert caught.value.argument == "nodes"
    said = graph.positions(nodes)
    np.testing.assert_array_equal(said, np.ravel(np.asarray(nodes)))
    assert given_nodes(graph, said) is not None
    names = graph.index(np.ravel(np.asarray(nodes)).astype(int).tolist())
    np.testing.assert_array_equal(given_nodes(graph, names), names)
    assert set(names.tolist()) <= {1, 2, 3}


def test_integers_that_can_be_nothing_else_are_positions():
    graph = grf.Graph(np.eye(7), nodes=[10, 3, 2, 1, 0, 4, 5])
    known = graph.index([3, 1])
    for nodes in (
        known,
        known[::-1],
        known[[1]],
        known[:, None],
        known.astype(float),
        graph.index(3),
    ):
        given_nodes(graph, nodes)
    given_nodes(graph, [graph.index(3)])
    given_nodes(graph, pickle.loads(pickle.dumps(known)))
    named_from_1 = grf.Graph(np.eye(3), nodes=[1, 2, 3])
    # 0 is below all names.
    np.testing.assert_array_equal(given_nodes(named_from_1, np.array([0, 2])), [0, 2])
    np.testing.assert_array_equal(given_nodes(graph, [2]), [2])  # as a name it is at position 2 too
    np.testing.assert_array_equal(given_nodes(graph), np.arange(7))
    np.testing.assert_array_equal(given_nodes(graph, []), [])
    np.testing.assert_array_equal(
        given_nodes(grf.Graph(np.eye(4), nodes=[0, 1, 3, 2]), [1, 0]), [1, 0]
    )
    np.testing.assert_array_equal(given_nodes(grf.Graph(np.eye(4)), [3, 1]), [3, 1])
    np.testing.assert_array_equal(
        given_nodes(grf.Graph(np.eye(3), nodes=["0", "1", "9"]), [1]), [1]
    )


def test_an_integer_among_the_names_may_be_that_of_a_node_left_out():
    """Of vertices 0 to 6 of a mesh, 2 and 5 are at others' places; 2 is not position 2."""
    graph = grf.Graph(np.eye(5), nodes=[0, 1, 3, 4, 6])
    for nodes in ([0, 2], np.arange(5), [2]):
        with pytest.raises(
            ValueError, match="no node is named 2, and the node at position 2 is named 3; "
        ):
            given_nodes(graph, nodes)
    np.testing.assert_array_equal(given_nodes(graph, graph.positions([0, 2])), [0, 2])
    np.testing.assert_array_equal(given_nodes(graph, graph.index([0, 3])), [0, 2])


def test_what_is_known_to_be_a_position_is_an_array_as_any_other():
    known = grf.Graph(np.eye(3), nodes=[3, 2, 1]).index([3, 1])
    assert (repr(known), repr(known + 1), repr(known == 2)) == (
        "array([0, 2])",
        "array([1, 3])",
        "array([False,  True])",
    )
    assert {type(known + 1), type(known == 2), type(np.asarray(known))} == {np.ndarray}
    assert type(known.sum()) is np.int64
    assert type(grf.Graph(np.eye(2), nodes=["a", "b"]).index(["b"])) is np.ndarray


KNOWN = {"kernel": grf.Diffusion(), "output_scale": 1.0, "optimize": False, "seed": 0}


def _fitted(graph, seen, method="auto"):
    return grf.GraphGPRegressor(graph, method=method, noise=0.1, **KNOWN).fit(seen, [0.0, 2.0, 1.0])


# What takes nodes of a graph: the result for some nodes, by a seed where there is one.
TAKING_NODES = {
    "kernel_block": lambda graph, seen, asked: grf.kernel_block(
        graph, grf.Diffusion(), seen, asked
    ),
    "sample_features": lambda graph, seen, asked: (
        grf.sample_features(graph, nodes=asked, seed=0).nodes
    ),
    "sample_product": lambda graph, seen, asked: grf.sampling.sample_product(
        graph, grf.RandomWalks(4), nodes=asked, seed=0
    ).gram(grf.Diffusion()),
    "series factor": lambda graph, seen, asked: SeriesFactor(
        graph, max_length=3, nodes=asked
    ).apply(np.ones(4), np.arange(12.0)),
    "subgraph": lambda graph, seen, asked: graph.subgraph(asked).adjacency.toarray(),
    "local_pagerank": lambda graph, seen, asked: local_pagerank(
        graph, asked, seed=0
    ).scores.toarray(),
    "regression by the series": lambda graph, seen, asked: _fitted(graph, seen, "series").predict(
        asked
    ),
    "regression by features": lambda graph, seen, asked: _fitted(graph, seen, "features").predict(
        asked
    ),
    "prior covariance": lambda graph, seen, asked: _fitted(graph, seen).prior_covariance(asked),
    "draws": lambda graph, seen, asked: _fitted(graph, seen, "features").sample(
        asked, n_samples=2, seed=0
    ),
    "classification": lambda graph, seen, asked: (
        grf.GraphGPClassifier(graph, **KNOWN).fit(seen, ["a", "b", "a"]).predict_proba(asked)
    ),
}


@pytest.mark.filterwarnings("ignore")  # of fits to three values
@pytest.mark.parametrize("use", TAKING_NODES.values(), ids=TAKING_NODES.keys())
def test_whatever_takes_nodes_refuses_integers_that_could_be_names_and_takes_known_positions(use):
    adjacency = nx.to_scipy_sparse_array(nx.path_graph(12))
    unnamed, named = grf.Graph(adjacency), grf.Graph(adjacency, nodes=range(11, -1, -1))
    seen, asked = np.array([0, 4, 9]), np.array([2, 7, 8])
    with pytest.raises(ValueError, match="must say whether integers are names or positions"):
        use(named, named.positions(seen), asked)
    expected = use(unnamed, seen, asked)
    np.testing.assert_array_equal(
        use(named, named.positions(seen), named.positions(asked)), expected
    )
    np.testing.assert_array_equal(
        use(named, named.index(11 - seen), named.index(11 - asked)), expected
    )
