"""Precisions with hidden layers, of kernels with half-integer powers, against dense algebra."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

import graphrf as grf
from graphrf.operators.precision import markov, root_chain
from graphrf.operators.precision.markov import (
    SparsePrecision,
    has_sparse_inverse,
    has_sparse_precision,
)
from graphrf.operators.precision.root_chain import LARGEST_ERROR, RootChain, layers_needed
from graphrf.operators.sparse.ordering import Elimination

KERNELS = [
    made(laplacian)
    for laplacian in ("normalized", "combinatorial")
    for made in (
        lambda own: grf.Matern(0.5, 3.0, laplacian=own),
        lambda own: grf.Matern(0.5, 99.0, laplacian=own),
        lambda own: grf.Matern(1.5, 40.0, laplacian=own),
        lambda own: grf.Matern(2.5, 3.0, laplacian=own),
        lambda own: grf.Matern(2.5, 60.0, laplacian=own),
        lambda own: grf.RegularizedLaplacian(2.0, 1.5, laplacian=own),
    )
]


@pytest.mark.parametrize("ratio", [1.0, 1.02, 30.0, 2e4, 1e9, 1e14])
def test_sums_of_resolvents_have_the_least_largest_error(ratio):
    size = layers_needed(ratio)
    chain = RootChain.of(2.0, 2.0 * ratio, size)
    x = np.geomspace(2.0, 2.0 * ratio, 20_001)
    error = np.sqrt(x) * (chain.weights / (x[:, None] + chain.poles)).sum(axis=1) - 1
    assert np.abs(error).max() == pytest.approx(chain.error, rel=1e-4, abs=1e-12)
    assert error.max() == pytest.approx(-error.min(), rel=1e-3, abs=1e-12)
    assert (chain.weights > 0).all()
    assert (chain.poles > 0).all()
    # 2 m + 1 times the largest error with alternating signs: Chebyshev's criterion
    signs = np.sign(error[np.abs(error) > 0.99 * chain.error])
    assert ratio < 1.1 or 1 + np.count_nonzero(np.diff(signs)) == 2 * size + 1
    assert chain.error <= 2 * LARGEST_ERROR
    assert size == 1 or RootChain.of(1.0, ratio, size - 1).error > 2 * LARGEST_ERROR
    first = np.linalg.inv(chain.tridiagonal + 3.0 * np.eye(size))[0, 0]
    assert chain.scale * first == pytest.approx(
        (chain.weights / (3.0 + chain.poles)).sum(), rel=1e-8
    )


def test_a_chain_of_too_few_layers_exceeds_the_error(weighted_graph, monkeypatch):
    kernel = grf.Matern(0.5, 80.0)
    variance = np.diagonal(kernel.dense(weighted_graph))
    found = {}
    for layers in (2, layers_needed(2e4)):
        monkeypatch.setattr(markov, "layers_needed", lambda ratio, layers=layers: layers)
        precision = SparsePrecision(weighted_graph, kernel)
        own = np.diagonal(np.linalg.inv(precision.matrix.toarray()))[:8]
        found[layers] = np.abs(np.sqrt(own / variance) - 1).max()
    fewest, enough = sorted(found)
    assert found[fewest] > 2 * LARGEST_ERROR
    assert found[enough] <= LARGEST_ERROR


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_the_first_layer_has_the_covariance_of_the_kernel(weighted_graph, kernel):
    precision, n = SparsePrecision(weighted_graph, kernel), weighted_graph.n_nodes
    covariance, dense = (
        np.linalg.inv(precision.matrix.toarray())[:n, :n],
        kernel.dense(weighted_graph),
    )
    deviations = np.sqrt(np.diagonal(dense))
    assert np.abs(np.sqrt(np.diagonal(covariance)) / deviations - 1).max() <= LARGEST_ERROR
    assert (
        np.abs((covariance - dense) / np.outer(deviations, deviations)).max() <= 2 * LARGEST_ERROR
    )
    assert precision.mean_variance() == pytest.approx(np.diagonal(covariance).mean(), rel=1e-6)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_factor_and_determinant_are_those_of_the_joint_precision(weighted_graph, kernel):
    precision = SparsePrecision(weighted_graph, kernel)
    dense = precision.matrix.toarray()
    assert precision.n_nodes == dense.shape[0] >= weighted_graph.n_nodes
    weights = np.zeros(precision.n_nodes)
    weights[[1, 5]] = 3.0
    inverse = np.linalg.inv(dense + np.diag(weights))
    factor = precision.factor(weights)
    size = np.abs(inverse).max()
    np.testing.assert_allclose(factor.solve(np.eye(precision.n_nodes)), inverse, atol=1e-9 * size)
    np.testing.assert_allclose(factor.inverse_diagonal, np.diagonal(inverse), rtol=1e-9)
    assert precision.log_determinant() == pytest.approx(np.linalg.slogdet(dense)[1], rel=1e-8)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_derivatives_in_the_lengthscale(weighted_graph, kernel):
    precision, step = SparsePrecision(weighted_graph, kernel), 1e-3

    def at(steps: int) -> SparsePrecision:
        return precision.with_kernel(
            kernel.replace(lengthscale=kernel.lengthscale * np.exp(steps * step))
        )

    width = 12 * step * kernel.lengthscale
    weights = {1: 8 / width, -1: -8 / width, 2: -1 / width, -2: 1 / width}
    found = precision.derivative("lengthscale").toarray()
    difference = sum(weight * at(steps).matrix.toarray() for steps, weight in weights.items())
    np.testing.assert_allclose(found, difference, atol=1e-8 * np.abs(found).max())
    slope = sum(weight * at(steps).log_determinant() for steps, weight in weights.items())
    assert precision.trace_of_derivative("lengthscale") == pytest.approx(slope, rel=1e-8, abs=1e-8)
    trace = np.trace(np.linalg.solve(precision.matrix.toarray(), found))
    assert precision.trace_of_derivative("lengthscale") == pytest.approx(trace, rel=1e-7, abs=1e-7)


def test_layers_and_pattern_of_a_search_are_those_of_its_longest_lengthscale(
    weighted_graph, monkeypatch
):
    own = SparsePrecision(weighted_graph, grf.Matern(0.5, 0.1))
    first = own.smooth_in_lengthscale()
    assert own.n_nodes < first.n_nodes
    elimination = first.own_elimination
    monkeypatch.setattr(Elimination, "of", None)  # it is not made again
    for lengthscale in (0.3, 5.0, 100.0):
        other = first.with_kernel(grf.Matern(0.5, lengthscale))
        assert other.own_elimination is elimination
        np.testing.assert_array_equal(other.matrix.indices, first.matrix.indices)
    assert first.with_kernel(grf.Matern(0.5, 1e5)).n_nodes > first.n_nodes


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
def test_the_order_of_two_layers_is_as_good_as_that_of_all(nu):
    graph = grf.Graph(nx.to_scipy_sparse_array(nx.grid_2d_graph(30, 30)))
    precision = SparsePrecision(graph, grf.Matern(nu, 5.0))
    assert precision.own_elimination.n_entries < 1.2 * Elimination.of(precision.matrix).n_entries


def test_graphs_without_edges_have_independent_values():
    graph = grf.Graph(sp.csr_array((3, 3)))
    for nu in (0.5, 1.5):
        kernel = grf.Matern(nu, 2.0, laplacian="combinatorial")
        precision = SparsePrecision(graph, kernel)
        np.testing.assert_allclose(
            precision.factor().inverse_diagonal[:3],
            np.diagonal(kernel.dense(graph)),
            rtol=2 * LARGEST_ERROR,
        )
        slope = precision.derivative("lengthscale").toarray()
        found = np.trace(np.linalg.solve(precision.matrix.toarray(), slope))
        assert precision.trace_of_derivative("lengthscale") == pytest.approx(found)


def test_which_kernels_have_layers():
    assert all(
        has_sparse_precision(kernel) and not has_sparse_inverse(kernel) for kernel in KERNELS
    )
    assert has_sparse_inverse(grf.Matern(1.0))
    assert has_sparse_precision(grf.ICAR())
    assert not has_sparse_inverse(grf.ICAR())
    assert not has_sparse_precision(grf.Matern(3.5))
    assert not has_sparse_precision(grf.Matern(0.7))


def test_singular_precisions_are_refused(weighted_graph):
    precision = SparsePrecision(weighted_graph, grf.Matern(0.5, 1e6))
    assert not precision.serves(grf.Matern(0.5, 1e8))
    with pytest.raises(ValueError, match=r"numerically singular .* shorten the lengthscale"):
        precision.with_kernel(grf.Matern(0.5, 1e8))
    with pytest.warns(UserWarning, match="13 of 16 digits may be lost"):
        precision.with_kernel(grf.Matern(0.5, 3e6)).warn_of_rounding()


def test_the_poles_of_the_widest_interval_keep_their_digits():
    poles, weights, _ = root_chain._best_resolvents(1e14, 14)
    root, _ = root_chain._bidiagonal(poles, weights)
    np.testing.assert_allclose(np.linalg.svd(root)[1] ** 2, np.sort(poles)[::-1], rtol=1e-6)
