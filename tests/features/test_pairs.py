"""Products of the rows of features under many modulations."""

from __future__ import annotations

import numpy as np
import pytest

import graphrf as grf
from graphrf.features.pairs import PairCosts, RowPairs

SAMPLERS = {
    "walks": grf.RandomWalks(8, lengths=grf.sampling.Truncated(10)),
    "powers": grf.CompressedPowers(20, max_length=10),
    "combinatorial": grf.CompressedPowers(20, max_length=10, laplacian="combinatorial"),
}


def _pairs(factor, n_threads=None, **options):
    return RowPairs(factor._info, factor._nodes, factor._record, n_threads, **options)


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("fixture", ["karate", "weighted_graph", "grid"])
def test_products_are_those_of_the_feature_matrices(name, fixture, dense, request):
    graph = request.getfixturevalue(fixture)
    costs = PairCosts(
        dense_speed=np.inf if dense else 0.0,
        dense_numbers=100,  # several blocks of columns
        worth_pairs=0,
        pairs_per_entry=0,
        worth_entries=0,
    )
    nodes = np.random.default_rng(0).permutation(graph.n_nodes)[:15]
    factor = grf.sample_features(
        graph, SAMPLERS[name], nodes=nodes, seed=1, dtype="float64"
    ).factor()
    f, *slopes = np.random.default_rng(2).standard_normal((3, factor.max_length + 1))
    one, three = (_pairs(factor, n_threads, costs=costs) for n_threads in (1, 3))
    assert one._dense is dense
    found = one(f, slopes)
    root, *others = (factor.matrix(each).toarray() for each in (f, *slopes))
    np.testing.assert_allclose(found[0], root @ root.T, rtol=1e-12, atol=1e-12)
    for change, other in zip(found[1], others, strict=True):
        np.testing.assert_allclose(change, root @ other.T + other @ root.T, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(change, change.T)
    again = three(f, slopes)
    for ours, theirs in zip([found[0], *found[1]], [again[0], *again[1]], strict=True):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(one(f, [])[0], found[0])
    assert one(f, [])[1] == []


def test_rows_that_share_no_node_have_a_diagonal_alone(grid):
    factor = grf.sample_features(
        grid, grf.CompressedPowers(8, max_length=0), nodes=[3, 0, 7], seed=0, dtype="float64"
    ).factor()
    matrix, (change,) = _pairs(factor)(np.array([2.0]), [np.array([0.5])])
    np.testing.assert_allclose(matrix, 4.0 * np.eye(3))
    np.testing.assert_allclose(change, 2.0 * np.eye(3))


def test_a_factor_has_its_own_columns_by_pairs(grid):
    factor = grf.sample_features(
        grid, SAMPLERS["powers"], nodes=np.arange(0, 30, 2), seed=0
    ).factor()
    f = grf.Diffusion(1.0).modulation(factor.max_length + 1)
    found, diagonal = factor.columns(f, factor)
    matrix = factor.matrix(f).toarray()
    assert found.dtype == diagonal.dtype == factor.dtype
    np.testing.assert_allclose(found, matrix @ matrix.T, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(diagonal, np.square(matrix).sum(axis=1), rtol=1e-5)
