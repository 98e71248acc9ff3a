import copy
import pickle

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

import graphrf as grf


def test_laplacians_agree_with_networkx_on_a_graph_with_a_loop_and_an_isolated_node(weighted_graph):
    reference = nx.from_scipy_sparse_array(weighted_graph.adjacency)
    expected = nx.normalized_laplacian_matrix(reference).toarray()
    np.testing.assert_allclose(weighted_graph.laplacian().toarray(), expected, atol=1e-15)
    adjacency = weighted_graph.adjacency.toarray()
    combinatorial = np.diag(adjacency.sum(axis=1)) - adjacency
    np.testing.assert_allclose(
        weighted_graph.laplacian(normalized=False).toarray(), combinatorial, atol=1e-15
    )


@pytest.mark.parametrize("laplacian", ["normalized", "combinatorial"])
def test_laplacian_is_the_scale_times_identity_minus_the_walk_matrix(weighted_graph, laplacian):
    scale = weighted_graph.laplacian_scale(laplacian)
    walk = weighted_graph.walk_matrix(laplacian).toarray()
    lap = weighted_graph.laplacian(normalized=laplacian == "normalized").toarray()
    np.testing.assert_allclose(scale * (np.eye(8) - walk), lap, atol=1e-14)
    low = 0.0 if laplacian == "combinatorial" else -1.0
    eigenvalues = np.linalg.eigvalsh(walk)
    assert eigenvalues.min() >= low - 1e-12
    assert eigenvalues.max() <= 1 + 1e-12
    assert walk[7, 7] == 1.0


def test_walk_adjacency_rows_are_the_transition_probabilities(weighted_graph):
    weights = weighted_graph.walk_adjacency("combinatorial").toarray()
    np.testing.assert_allclose(weights.sum(axis=1), 2 * weighted_graph.degrees.max())
    assert weighted_graph.walk_adjacency("normalized").toarray()[7, 7] == 1.0


def test_graph_without_edges_has_the_identity_as_walk_matrix():
    graph = grf.Graph(np.zeros((3, 3)))
    for laplacian in ("normalized", "combinatorial"):
        np.testing.assert_array_equal(graph.walk_matrix(laplacian).toarray(), np.eye(3))


def test_edges_are_counted_once_and_self_loops_once(weighted_graph):
    assert weighted_graph.n_edges == 7
    assert grf.Graph(np.array([[0, 1], [0, 0]]), directed=True).n_edges == 1


def test_duplicates_of_a_sparse_matrix_are_added_and_zeros_dropped():
    matrix = sp.coo_array(
        ([1.0, 2.0, 3.0, 0.0, 0.0], ([0, 0, 1, 1, 2], [1, 1, 0, 2, 1])), shape=(3, 3)
    )
    graph = grf.Graph(matrix)
    assert graph.adjacency[0, 1] == 3.0
    assert graph.adjacency.nnz == 2


@pytest.mark.parametrize("weight", [np.uint8(200), np.int8(100), np.bool_(True)])
@pytest.mark.parametrize("form", ["coo", "csr", "csc"])
def test_duplicates_are_added_beyond_the_range_of_the_matrix(weight, form):
    indices, values = np.array([1, 1, 0, 0]), np.full(4, weight)
    if form == "coo":
        matrix = sp.coo_array((values, (indices[::-1], indices)), shape=(2, 2))
    else:
        matrix = {"csr": sp.csr_array, "csc": sp.csc_array}[form](
            (values, indices, [0, 2, 4]), shape=(2, 2)
        )
    assert grf.Graph(matrix).adjacency[0, 1] == 2 * float(weight)


def test_the_matrix_given_is_copied_and_the_graph_is_read_only():
    matrix = sp.csr_array(np.array([[0.0, 1.0], [1.0, 0.0]]))
    graph = grf.Graph(matrix)
    matrix.data[:] = 5.0
    assert graph.adjacency[0, 1] == 1.0
    with pytest.raises(ValueError, match="read-only"):
        graph.adjacency.data[0] = 2.0
    with pytest.raises(ValueError, match="read-only"):
        graph.degrees[0] = 2.0


def test_rounding_asymmetry_is_mended_and_real_asymmetry_is_not():
    almost = np.array([[0, 0.1 + 0.2], [0.3, 0]])
    graph = grf.Graph(almost)
    assert graph.adjacency[0, 1] == graph.adjacency[1, 0]
    with pytest.raises(
        ValueError, match=r"symmetric, got 1 at \[0, 1\] but 2 at \[1, 0\]; pass directed=True"
    ):
        grf.Graph(np.array([[0, 1], [2, 0]]))
    with pytest.raises(ValueError, match=r"got 1 at \[0, 1\] but 0 at \[1, 0\]"):
        grf.Graph(np.array([[0, 1], [0, 0]]))


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones((2, 3)), r"square matrix, got an array of shape \(2, 3\)"),
        (np.zeros((0, 0)), "at least one node"),
        ([[0, np.nan], [np.nan, 0]], r"2 NaN entries, the first at \[0, 1\]"),
        ([[0, np.inf], [np.inf, 0]], "2 infinite entries"),
        ([[0, -1], [-1, 0]], "2 negative entries"),
        (np.ones(3), "square"),
    ],
)
def test_illegal_matrices_are_refused(matrix, message):
    with pytest.raises(ValueError, match=message):
        grf.Graph(matrix)


@pytest.mark.parametrize("thing", ["path.gml", np.array([["a"]]), np.ones((2, 2)) * 1j])
def test_things_that_are_no_matrix_are_refused_with_the_way_out(thing):
    with pytest.raises(TypeError, match="numeric matrix"):
        grf.Graph(thing)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: grf.Graph(np.eye(2), nodes=5), "`nodes` must be a sequence of 2 names, got int 5"),
        (
            lambda: grf.Graph(np.eye(2), nodes="ab"),
            "`nodes` must be a sequence of 2 names, got str 'ab'",
        ),
        (
            lambda: grf.Graph(np.eye(2), directed="no"),
            "`directed` must be True or False, got str 'no'",
        ),
        (
            lambda: grf.Graph(np.eye(2)).laplacian("combinatorial"),
            "`normalized` must be True or False",
        ),
        (lambda: grf.Graph(np.eye(2)).index([{}]), "`names` must be hashable names of nodes"),
    ],
)
def test_arguments_of_the_wrong_kind_are_refused_by_name(make, message):
    with pytest.raises(TypeError, match=message):
        make()


def test_what_needs_a_graph_says_so_where_it_gets_something_else():
    with pytest.raises(
        TypeError, match=r"`graph` must be a graphrf.Graph, got str 'cora'; graphrf.load_graph\("
    ):
        grf.Diffusion().dense("cora")


def test_positions_of_named_graphs_name_their_argument_and_the_way_from_names():
    """Road graphs have integer names, which are easily taken for positions."""
    graph = grf.Graph(np.eye(3), nodes=[1001, 1002, 1003])
    with pytest.raises(
        ValueError, match=r"`nodes` must be positions in \[0, 2\], got 1001; graph.index"
    ):
        graph.positions([1001])
    with pytest.raises(ValueError, match=r"got 4$"):
        grf.Graph(np.eye(3)).positions([4])
    for name in ("z", ["z"], np.array(["z"])):
        with pytest.raises(ValueError, match="`rows` must be nodes of the graph, got 'z'"):
            graph.positions(name, argument="rows")
    with pytest.raises(ValueError, match="`nodes` of a subgraph must hold at least one node"):
        graph.subgraph([])


def test_names_are_looked_up_and_checked():
    graph = grf.Graph(np.eye(3), nodes=["a", ("b", 1), 7])
    assert graph.index("a") == 0
    np.testing.assert_array_equal(graph.index([7, "a"]), [2, 0])
    assert graph.index(("b", 1)) == 1
    with pytest.raises(ValueError, match="nodes of the graph, got 'z'; names here look like 'a'"):
        graph.index(["z"])
    with pytest.raises(ValueError, match="3 names, one for each row, got 2"):
        grf.Graph(np.eye(3), nodes=["a", "b"])
    with pytest.raises(ValueError, match="distinct names, got 'a' more than once"):
        grf.Graph(np.eye(3), nodes=["a", "b", "a"])


def test_the_position_of_one_name_is_an_integer_as_any_other():
    position = pickle.loads(pickle.dumps(grf.Graph(np.eye(2), nodes=["a", "b"]).index("b")))
    assert (position, repr(position), isinstance(position, int)) == (1, "1", True)


def test_unknown_names_are_answered_with_those_like_them():
    graph = grf.Graph(np.eye(3), nodes=["Valjean", "Javert", 24601])
    for unknown in ("z", 7, "Valjean" * 10):
        with pytest.raises(ValueError, match=r"names here look like 'Valjean', 'Javert', 24601$"):
            graph.index([unknown])
    many = grf.Graph(sp.csr_array((10_001, 10_001)), nodes=[f"node {i}" for i in range(10_001)])
    with pytest.raises(ValueError, match="names here look like 'node 0'"):
        many.index(["nod 7"])
    with pytest.raises(ValueError, match=r"without an edge is in no list .* nodes=names\)$"):
        many.index(["node 7", "node 8", "node 10001"])


def test_largest_component_keeps_names_or_makes_them_of_positions(weighted_graph):
    part = weighted_graph.largest_component()
    assert part.n_nodes == 4
    tail = weighted_graph.subgraph([4, 5, 6])
    assert list(tail.nodes) == [4, 5, 6]
    assert tail.adjacency[0, 1] == 1.5
    with pytest.raises(ValueError, match="distinct"):
        weighted_graph.subgraph([1, 1])


def test_directed_graphs_keep_directions_and_can_be_made_undirected():
    graph = grf.Graph(np.array([[1, 2, 0], [0, 0, 3], [0, 4, 0]]), directed=True)
    np.testing.assert_array_equal(graph.degrees, [3, 3, 4])
    with pytest.raises(ValueError, match="undirected graph, got a directed one"):
        graph.laplacian()
    both = graph.to_undirected()
    np.testing.assert_array_equal(both.adjacency.toarray(), [[1, 2, 0], [2, 0, 7], [0, 7, 0]])


def test_a_graph_without_its_loops_has_the_same_laplacian(weighted_graph):
    looped = grf.Graph(
        weighted_graph.adjacency + sp.diags_array([1e15, *[0.0] * (weighted_graph.n_nodes - 1)])
    )
    plain = looped.without_loops()
    assert plain.adjacency.diagonal().sum() == 0
    assert plain.without_loops() is plain
    difference = looped.laplacian(normalized=False) - weighted_graph.laplacian(normalized=False)
    np.testing.assert_allclose(difference.toarray(), 0, atol=1e-14)  # not 1e15 times the rounding
    directed = grf.Graph(
        np.array([[1, 2], [0, 3]]), directed=True, nodes=["a", "b"]
    ).without_loops()
    assert directed.directed
    assert directed.nodes == ("a", "b")
    np.testing.assert_array_equal(directed.adjacency.toarray(), [[0, 2], [0, 0]])


def test_copies_share_the_graph_and_pickles_rebuild_it(weighted_graph):
    assert copy.deepcopy(weighted_graph) is weighted_graph
    assert copy.copy(weighted_graph) is weighted_graph
    again = pickle.loads(pickle.dumps(weighted_graph))
    assert (again.adjacency != weighted_graph.adjacency).nnz == 0


def test_repr_says_what_the_graph_is(weighted_graph, plain_graph):
    assert repr(weighted_graph) == "Graph(8 nodes, 7 edges, undirected, weighted)"
    assert repr(plain_graph) == "Graph(8 nodes, 7 edges, undirected, unweighted)"
    assert (
        repr(grf.Graph(2 * plain_graph.adjacency))
        == "Graph(8 nodes, 7 edges, undirected, equal weights)"
    )
    assert repr(grf.Graph(np.zeros((3, 3)))) == "Graph(3 nodes, 0 edges, undirected, unweighted)"


def test_graphs_of_other_libraries_are_refused_by_type_and_with_the_way_out():
    everywhere = [
        lambda graph: grf.sample_features(graph),
        lambda graph: grf.pagerank.estimate(graph),
        lambda graph: grf.pagerank(graph),
        lambda graph: grf.apply_kernel(graph, grf.Diffusion(1.0), np.ones(34)),
        lambda graph: grf.Diffusion(1.0).dense(graph),
    ]
    for call in everywhere:
        with pytest.raises(
            TypeError, match=r"of type networkx\.classes\.graph\.Graph; graphrf\.load"
        ) as error:
            call(nx.karate_club_graph())
        assert "0x" not in str(error.value)
