"""Sparse inverses of kernels against dense kernels."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import graphrf as grf
from graphrf.operators.precision.markov import SparsePrecision, has_sparse_precision
from graphrf.operators.sparse.ordering import FactorTooLargeError

KERNELS = [
    grf.Matern(1.0, 2.0),
    grf.Matern(2.0, 3.0, laplacian="combinatorial"),
    grf.Matern(3.0, 5.0),
    grf.RegularizedLaplacian(1.5, 1.0, laplacian="combinatorial"),
    grf.RegularizedLaplacian(1.0, 2.0),  # c = t = 1, as of a Matern kernel
    grf.RegularizedLaplacian(2.0, 4.0),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_the_matrix_is_the_inverse_of_the_kernel(weighted_graph, kernel):
    precision, dense = SparsePrecision(weighted_graph, kernel), kernel.dense(weighted_graph)
    n = weighted_graph.n_nodes
    np.testing.assert_allclose(precision.matrix @ dense, np.eye(n), atol=1e-10)
    np.testing.assert_allclose(precision.factor().solve(np.eye(n)), dense, rtol=1e-9, atol=1e-12)
    assert precision.log_determinant() == pytest.approx(-np.linalg.slogdet(dense)[1], rel=1e-10)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_derivatives_in_the_lengthscale(weighted_graph, kernel):
    precision, step = SparsePrecision(weighted_graph, kernel), 1e-6

    def at(factor: float) -> SparsePrecision:
        return precision.with_kernel(kernel.replace(lengthscale=factor * kernel.lengthscale))

    width = 2 * step * kernel.lengthscale
    difference = (at(1 + step).matrix - at(1 - step).matrix).toarray() / width
    exact = precision.derivative("lengthscale").toarray()
    np.testing.assert_allclose(exact, difference, atol=1e-7 * np.abs(exact).max())
    change = (at(1 + step).log_determinant() - at(1 - step).log_determinant()) / width
    assert precision.trace_of_derivative("lengthscale") == pytest.approx(change, rel=1e-6)


def test_other_kernels_on_the_graph_share_the_order_of_elimination(weighted_graph):
    precision = SparsePrecision(weighted_graph, KERNELS[0])
    for kernel in KERNELS:
        other = precision.with_kernel(kernel)
        np.testing.assert_allclose(
            other.matrix @ kernel.dense(weighted_graph), np.eye(8), atol=1e-10
        )
        assert other.elimination(other.power) is precision.elimination(other.power)


@pytest.mark.parametrize(
    "kernel",
    [
        grf.Diffusion(1.0),
        grf.Matern(0.7, 1.0),
        grf.Matern(5.0, 1.0),
        grf.RegularizedLaplacian(1.0, 3.5),
    ],
    ids=repr,
)
def test_kernels_without_a_sparse_precision_are_refused(weighted_graph, kernel):
    assert not has_sparse_precision(kernel)
    with pytest.raises(
        ValueError, match=r"`kernel` must have a sparse precision .* or method='series'"
    ):
        SparsePrecision(weighted_graph, kernel)


def test_an_inverse_that_is_singular_to_rounding_is_refused_and_one_that_is_nearly_warns(karate):
    with pytest.raises(ValueError, match=r"numerically singular .* shorten the lengthscale"):
        SparsePrecision(karate, grf.Matern(2.0, 1e9))
    nearly = SparsePrecision(karate, grf.Matern(4.0, 80.0))
    with pytest.warns(
        UserWarning, match=r"span a factor of 7e\+12, so that 13 of 16 digits may be lost"
    ):
        nearly.warn_of_rounding()


def test_powers_of_the_laplacian_of_a_hub_are_refused_before_they_are_made():
    star = grf.load_graph(nx.star_graph(20_000))
    precision = SparsePrecision(star, grf.Matern(2.0, 1.0))
    with pytest.raises(FactorTooLargeError, match="its largest node has 20001 neighbours"):
        precision.matrix  # noqa: B018
    assert SparsePrecision(star, grf.Matern(1.0, 1.0)).factor().solve(np.ones(20_001)).min() > 0
