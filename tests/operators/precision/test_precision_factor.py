"""The factor of a kernel with a sparse inverse: products and diagonals against dense ones."""

import numpy as np
import pytest

import graphrf as grf
from graphrf.operators import Factor
from graphrf.operators.precision.factor import PrecisionFactor
from graphrf.operators.precision.markov import SparsePrecision
from graphrf.operators.series.series_factor import SeriesFactor

ROWS = np.array([7, 0, 3, 7, 24])


@pytest.fixture(scope="module")
def made():
    """A 5 x 5 grid, a kernel, its dense matrix and the factor of five rows, one of them twice."""
    side = np.arange(25).reshape(5, 5)
    graph = grf.from_edges(
        np.concatenate([side[:, :-1].ravel(), side[:-1].ravel()]),
        np.concatenate([side[:, 1:].ravel(), side[1:].ravel()]),
    )
    kernel = grf.Matern(nu=2.0, lengthscale=2.0)
    cholesky = SparsePrecision(graph, kernel).factor()
    return graph, kernel.dense(graph), PrecisionFactor(cholesky, ROWS)


def test_products_are_those_of_a_root_of_the_kernel(made):
    _, dense, factor = made
    f, rng = np.array([2.0]), np.random.default_rng(0)
    x, y = rng.standard_normal((25, 3)), rng.standard_normal((5, 3))
    assert isinstance(factor, Factor)
    own = 4.0 * dense[np.ix_(ROWS, ROWS)]
    matrix = factor.matrix(f)
    np.testing.assert_allclose(matrix @ matrix.T, own, rtol=1e-10)
    np.testing.assert_allclose(factor.apply(f, x), matrix @ x, rtol=1e-10)
    np.testing.assert_allclose(factor.apply_t(f, y), matrix.T @ y, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(factor.gram_apply(f, y, 0.5), 0.5 * own @ y, rtol=1e-10)
    np.testing.assert_allclose(factor.diagonal(f), np.diagonal(own), rtol=1e-10)
    np.testing.assert_allclose(factor.gram_apply(f, y[:, 0]), own @ y[:, 0], rtol=1e-10)
    np.testing.assert_allclose(factor.grad_f(x, y), [np.vdot(y, matrix @ x) / 2], rtol=1e-10)


def test_columns_between_rows_and_with_other_factors(made):
    graph, dense, factor = made
    f = np.array([2.0])
    others = np.array([11, 2])
    other = PrecisionFactor(factor._cholesky, others)
    block, diagonal = factor.columns(f, other)
    np.testing.assert_allclose(block, 4.0 * dense[np.ix_(ROWS, others)], rtol=1e-10)
    np.testing.assert_allclose(diagonal, 4.0 * dense[others, others], rtol=1e-10)
    np.testing.assert_allclose(
        factor.gram_columns(f, np.array([1, 4])), 4.0 * dense[np.ix_(ROWS, [0, 24])], rtol=1e-10
    )
    np.testing.assert_array_equal(factor.take([1, 1]).nodes, [0, 0])
    # rows that are no rows of this root are applied as they are
    series = SeriesFactor(graph, max_length=3, nodes=others)
    block, diagonal = factor.columns(f, series)
    np.testing.assert_allclose(
        block, factor.matrix(f) @ series.dense_rows(f, np.arange(2)), rtol=1e-10, atol=1e-12
    )


def test_operands_of_another_length_are_refused(made):
    factor = made[2]
    with pytest.raises(ValueError, match="`y` must have shape"):
        factor.apply_t(np.ones(1), np.ones(4))
    with pytest.raises(ValueError, match="`x` must have shape"):
        factor.apply(np.ones(1), np.ones(5))
