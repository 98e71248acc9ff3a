"""The sparse Cholesky factor against dense algebra: solves, determinants, roots, inverses."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

from graphrf.operators.sparse.cholesky import SparseCholesky
from graphrf.operators.sparse.ordering import Elimination, FactorTooLargeError

GRAPHS = {
    "one node": nx.empty_graph(1),
    "no edges": nx.empty_graph(7),
    "grid": nx.grid_2d_graph(13, 11),
    "torus in three dimensions": nx.grid_graph((5, 6, 7), periodic=True),
    "tree": nx.random_labeled_tree(200, seed=0),
    "star": nx.star_graph(90),
    "complete": nx.complete_graph(40),
    "random": nx.gnp_random_graph(150, 0.03, seed=1),
    "two grids and a loner": nx.disjoint_union_all(
        [nx.grid_2d_graph(5, 5), nx.grid_2d_graph(9, 4), nx.empty_graph(1)]
    ),
}


def positive_definite(graph: nx.Graph) -> sp.csr_array:
    """A matrix with the pattern of a graph, entries of both signs and a diagonal that dominates."""
    adjacency = sp.triu(nx.to_scipy_sparse_array(graph, weight=None), k=1, format="coo")
    values = np.random.default_rng(0).standard_normal(adjacency.nnz)
    half = sp.coo_array((values, (adjacency.row, adjacency.col)), shape=adjacency.shape)
    matrix = sp.csr_array(half + half.T)
    return sp.csr_array(matrix + sp.diags_array(1.0 + abs(matrix).sum(axis=1), format="csr"))


@pytest.mark.parametrize("name", GRAPHS)
def test_all_is_as_by_dense_algebra(name):
    matrix = positive_definite(GRAPHS[name])
    dense, n = matrix.toarray(), matrix.shape[0]
    factor = SparseCholesky(matrix)
    inverse = np.linalg.inv(dense)
    b = np.random.default_rng(1).standard_normal((n, 3))
    np.testing.assert_allclose(factor.solve(b), inverse @ b, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(factor.solve(b[:, 0]), inverse @ b[:, 0], rtol=1e-10, atol=1e-12)
    assert factor.log_determinant == pytest.approx(
        np.linalg.slogdet(dense)[1], rel=1e-12, abs=1e-12
    )
    np.testing.assert_allclose(factor.inverse_diagonal, np.diagonal(inverse), rtol=1e-11)
    assert factor.trace(matrix) == pytest.approx(n, rel=1e-11)
    some = np.random.default_rng(2).permutation(n)[: (n + 1) // 2]
    for nodes in (some[:1], some):
        np.testing.assert_allclose(
            factor.inverse_between(nodes), inverse[np.ix_(nodes, nodes)], rtol=1e-9, atol=1e-12
        )
    root = factor.root(np.eye(n))
    np.testing.assert_allclose(root @ root.T, inverse, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(factor.root_t(b), root.T @ b, rtol=1e-9, atol=1e-12)


def test_traces_take_the_entries_of_the_other_matrix():
    matrix = positive_definite(GRAPHS["grid"])
    other = sp.csr_array(sp.diags_array(np.arange(143.0)) - 2 * matrix)
    expected = np.trace(np.linalg.solve(matrix.toarray(), other.toarray()))
    assert SparseCholesky(matrix).trace(other) == pytest.approx(expected, rel=1e-11)


def test_one_order_serves_all_matrices_of_a_pattern():
    matrix = positive_definite(GRAPHS["grid"])
    elimination = Elimination.of(matrix)
    # A pattern that the other one holds.
    smaller = sp.csr_array(sp.diags_array(np.arange(1.0, 144.0)))
    for each in (matrix, smaller):
        factor = SparseCholesky(each, elimination)
        assert factor.elimination is elimination
        expected = np.diagonal(np.linalg.inv(each.toarray()))
        np.testing.assert_allclose(factor.inverse_diagonal, expected, rtol=1e-11)


def test_the_order_keeps_the_factor_of_a_grid_sparse():
    n = 60 * 60
    elimination = Elimination.of(positive_definite(nx.grid_2d_graph(60, 60)))
    np.testing.assert_array_equal(np.sort(elimination.order), np.arange(n))
    # rows in their own order would hold 60 numbers a node and take 60^2 operations
    assert elimination.n_entries < 45 * n
    assert elimination.operations < 2_500 * n


@pytest.mark.parametrize("size", [3, 30])
def test_what_is_not_positive_definite_is_refused(size):
    matrix = sp.csr_array(np.ones((size, size)))
    with pytest.raises(np.linalg.LinAlgError):
        SparseCholesky(matrix)


def test_entries_outside_of_the_pattern_of_an_order_are_refused():
    pattern = positive_definite(nx.path_graph(300))
    other = sp.csr_array(
        pattern + sp.csr_array(([0.1, 0.1], ([40, 250], [250, 40])), shape=(300, 300))
    )
    with pytest.raises(ValueError, match="entries outside of the pattern"):
        SparseCholesky(other, Elimination.of(pattern))


def test_a_factor_without_room_is_refused_before_it_is_made():
    complete = positive_definite(nx.complete_graph(300))
    with pytest.raises(FactorTooLargeError, match="300 rows would hold more than 1e\\+04 numbers"):
        Elimination.of(complete, most=10_000)


def test_the_bits_do_not_depend_on_the_threads_of_blas():
    from graphrf._base.blas import blas_threads

    matrix = positive_definite(nx.complete_graph(300))
    found = []
    for threads in (1, 2):
        with blas_threads(threads):
            factor = SparseCholesky(matrix)
            found.append([factor.inverse_diagonal.tobytes(), factor.solve(np.ones(300)).tobytes()])
    assert found[0] == found[1]
