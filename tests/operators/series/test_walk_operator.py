"""The scaled walk matrix: one for all who need it at a time, kept no longer than asked."""

import weakref

import networkx as nx

import graphrf as grf
from graphrf.operators.series.walk_operator import doubled_matrix, kept_matrices


def test_matrices_are_kept_as_long_as_somebody_holds_them_or_within_kept_matrices():
    graph = grf.load_graph(nx.path_graph(5))
    matrix, _ = doubled_matrix(graph, "normalized")
    assert doubled_matrix(graph, "normalized")[0] is matrix
    held = weakref.ref(matrix)
    del matrix
    assert held() is None
    with kept_matrices():
        kept = weakref.ref(doubled_matrix(graph, "normalized")[0])
        assert doubled_matrix(graph, "normalized")[0] is kept()
        assert doubled_matrix(graph, "combinatorial")[0] is not kept()
    assert kept() is None
