"""Areal kernels and their sparse precisions against dense algebra."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import graphrf as grf
from graphrf.operators.precision.areal import precision_of

KERNELS = [grf.ICAR(), grf.BYM2(0.3), grf.BYM2(0.97), grf.CAR(0.8), grf.Leroux(0.7)]
SHARES = [kernel for kernel in KERNELS if kernel.proportions]


@pytest.fixture(params=KERNELS, ids=repr)
def problem(request, weighted_graph, karate):
    """A kernel, and a graph of three components, one a node, or one without isolated nodes."""
    kernel = request.param
    return kernel, karate if isinstance(kernel, grf.CAR) else weighted_graph


def basis_of(precision) -> np.ndarray:
    """An orthonormal basis of what the constraints leave, by the sums that vanish."""
    component, summed = getattr(precision, "_constraints", (np.zeros(precision.n_nodes, int), None))
    rows = [] if summed is None else [(component == c) & summed for c in range(component.max() + 1)]
    rows = [row.astype(float) for row in rows if row.any()]
    if not rows:
        return np.eye(precision.n_nodes)
    return np.linalg.svd(np.array(rows))[2][len(rows) :].T


def test_the_intrinsic_kernel_is_the_scaled_pseudoinverse_of_each_component(weighted_graph):
    K, components = grf.ICAR().dense(weighted_graph), weighted_graph.components()
    pseudoinverse = np.linalg.pinv(weighted_graph.laplacian(normalized=False).toarray())
    for component in range(components.max() + 1):
        nodes = np.flatnonzero(components == component)
        own = K[np.ix_(nodes, nodes)]
        assert np.log(np.diag(own)).mean() == pytest.approx(0, abs=1e-12)  # 1 at an isolated node
        if nodes.size > 1:
            block = pseudoinverse[np.ix_(nodes, nodes)]
            np.testing.assert_allclose(own, block * (np.trace(own) / np.trace(block)), atol=1e-12)
            np.testing.assert_allclose(own.sum(axis=0), 0, atol=1e-12)
        assert not np.delete(K[nodes], nodes, axis=1).any()
    np.testing.assert_allclose(
        grf.ICAR().dense(grf.Graph(1e6 * weighted_graph.adjacency)), K, atol=1e-9
    )


def test_other_kernels_are_what_their_equations_say(weighted_graph, karate):
    structured = grf.ICAR().dense(weighted_graph)
    np.testing.assert_allclose(
        grf.BYM2(0.3).dense(weighted_graph), 0.7 * np.eye(8) + 0.3 * structured
    )
    laplacian = weighted_graph.laplacian(normalized=False).toarray()
    np.testing.assert_allclose(
        grf.Leroux(0.7).dense(weighted_graph) @ (0.3 * np.eye(8) + 0.7 * laplacian),
        np.eye(8),
        atol=1e-12,
    )
    adjacency = karate.adjacency.toarray()
    precision = np.diag(adjacency.sum(axis=0)) - 0.8 * adjacency
    np.testing.assert_allclose(grf.CAR(0.8).dense(karate) @ precision, np.eye(34), atol=1e-12)
    root = grf.BYM2(0.3).dense_root(weighted_graph)
    np.testing.assert_allclose(root @ root, grf.BYM2(0.3).dense(weighted_graph), atol=1e-12)


def test_precisions_against_dense_matrices(problem):
    kernel, graph = problem
    precision, dense = precision_of(graph, kernel), kernel.dense(graph)
    n, total = graph.n_nodes, precision.n_nodes
    Z = basis_of(precision)
    Q = precision.matrix.toarray()
    weights = np.zeros(total)
    weights[[0, 1, 4]] = 0.5, 2.0, 0.1  # the isolated node and one component are not observed
    for added in (np.zeros(total), weights):
        inner = Z.T @ (Q + np.diag(added)) @ Z
        S, factor = Z @ np.linalg.solve(inner, Z.T), precision.factor(added)
        np.testing.assert_allclose(factor.solve(np.eye(total)), S, atol=1e-11)
        np.testing.assert_allclose(factor.solve(np.ones(total)), S.sum(axis=1), atol=1e-11)
        np.testing.assert_allclose(factor.inverse_diagonal, np.diag(S), atol=1e-11)
        some = np.random.default_rng(2).permutation(total)[: total - 2]
        np.testing.assert_allclose(factor.inverse_between(some), S[np.ix_(some, some)], atol=1e-11)
        half = factor.root_t(np.eye(total))
        np.testing.assert_allclose(half.T @ half, S, atol=1e-11)
        np.testing.assert_allclose(factor.root(half), S, atol=1e-11)
        assert factor.log_determinant == pytest.approx(np.linalg.slogdet(inner)[1], abs=1e-10)
        assert factor.trace(precision.matrix) == pytest.approx(np.trace(S @ Q), rel=1e-10)
    prior = precision.factor().solve(np.eye(total))[:n, :n]
    np.testing.assert_allclose(prior, dense, atol=1e-11)
    assert precision.log_determinant() == pytest.approx(
        precision.factor().log_determinant, abs=1e-10
    )
    assert precision.mean_variance() == pytest.approx(np.trace(dense) / n, rel=1e-11)
    x = np.random.default_rng(0).standard_normal((total, 2))
    np.testing.assert_allclose(precision.unconstrained(x), Z @ (Z.T @ x), atol=1e-12)


@pytest.mark.parametrize("kernel", SHARES, ids=repr)
def test_derivatives_in_a_share(kernel, karate):
    precision, (name,) = precision_of(karate, kernel), kernel.proportions
    step, value = 1e-6, kernel.hyperparameters[kernel.proportions[0]]
    above, below = (
        precision.with_kernel(kernel.replace(**{name: value + s})) for s in (step, -step)
    )
    exact = precision.derivative(name).toarray()
    difference = (above.matrix - below.matrix).toarray() / (2 * step)
    np.testing.assert_allclose(exact, difference, atol=1e-7 * np.abs(exact).max())
    change = (above.log_determinant() - below.log_determinant()) / (2 * step)
    assert precision.trace_of_derivative(name) == pytest.approx(change, rel=1e-6)


def test_products_blocks_and_mean_variances_go_by_the_precision(problem):
    kernel, graph = problem
    dense = kernel.dense(graph)
    v = np.random.default_rng(0).standard_normal((graph.n_nodes, 2))
    np.testing.assert_allclose(grf.apply_kernel(graph, kernel, v), dense @ v, atol=1e-8)
    np.testing.assert_allclose(
        grf.kernel_block(graph, kernel, [2, 0], [1, 1, 2]), dense[[2, 0]][:, [1, 1, 2]], atol=1e-8
    )
    assert grf.operators.mean_variance(graph, kernel).value == pytest.approx(
        np.trace(dense) / graph.n_nodes
    )


def test_lerouxs_series_is_that_of_the_kernel(weighted_graph):
    kernel, scale = grf.Leroux(0.4), weighted_graph.laplacian_scale("combinatorial")
    walk = np.eye(8) - weighted_graph.laplacian(normalized=False).toarray() / scale
    f = kernel.modulation(400, scale)
    root = sum(value * np.linalg.matrix_power(walk, k) for k, value in enumerate(f))
    np.testing.assert_allclose(root @ root, kernel.dense(weighted_graph), atol=1e-9)
    step = 1e-6
    above, below = (grf.Leroux(0.4 + s).modulation(50, scale) for s in (step, -step))
    np.testing.assert_allclose(
        kernel.modulation_jacobian(50, scale)[:, 0],
        (above - below) / (2 * step),
        rtol=1e-6,
        atol=1e-9,
    )


def test_a_long_line_keeps_its_digits():
    line = grf.from_edges(np.arange(1999), np.arange(1, 2000))
    # of a path: L^+ has the diagonal (n^2 - 1) / (6 n) + ((i - (n - 1) / 2)^2 - (n^2 - 1) / 12) / n
    n, i = 2000, np.arange(2000)
    diagonal = (n**2 - 1) / (6 * n) + ((i - (n - 1) / 2) ** 2 - (n**2 - 1) / 12) / n
    expected = diagonal / np.exp(np.log(diagonal).mean())
    found = precision_of(line, grf.ICAR()).factor().inverse_diagonal
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_what_cannot_be_served_is_refused(weighted_graph):
    features = grf.sample_features(
        weighted_graph, grf.sampling.ExactPowers(3, laplacian="combinatorial"), seed=0
    )
    for kernel in (grf.ICAR(), grf.BYM2(0.5), grf.CAR(0.5)):
        for ask in (
            lambda kernel: kernel.modulation(3, 1.0),
            lambda kernel: kernel.truncation_length(1e-3, 1.0),
            lambda kernel: kernel.root(2),
            lambda kernel: kernel.spectrum([0.0], 1.0),
            features.matrix,
        ):
            with pytest.raises(ValueError, match="function of the Laplacian"):
                ask(kernel)
    with pytest.raises(ValueError, match="function of the Laplacian"):
        grf.apply_root(weighted_graph, grf.ICAR(), np.ones(8))
    with pytest.raises(ValueError, match="no isolated nodes"):
        grf.CAR(0.5).dense(weighted_graph)
    for made in (
        lambda: grf.BYM2(1.0),
        lambda: grf.BYM2(0.0),
        lambda: grf.CAR(1.0),
        lambda: grf.Leroux(-0.1),
    ):
        with pytest.raises(ValueError, match="must be"):
            made()
    directed = grf.Graph(sp.csr_array(np.triu(np.ones((3, 3)), 1)), directed=True)
    with pytest.raises(ValueError, match="undirected"):
        grf.ICAR().dense(directed)
    assert repr(grf.BYM2(0.25)) == "BYM2(mixing=0.25)"
    assert repr(grf.ICAR()) == "ICAR()"
    assert grf.BYM2(0.25).replace(mixing=0.5) == grf.BYM2(0.5)
