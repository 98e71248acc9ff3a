"""Invariants of kernels, products, features and Gaussian processes, on generated graphs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import graphrf as grf
from graphrf.operators.series.apply import kernel_block
from tests.support.graph_strategies import (
    COMBINATORIAL,
    KERNELS,
    graphs,
    kernels,
    permutations,
    relabelled,
    seeds,
    slower,
    union,
)

pytestmark = pytest.mark.filterwarnings(
    "ignore::graphrf.features.TruncationWarning", "ignore::graphrf.features.HeavyTailWarning"
)

SAMPLERS = [
    grf.RandomWalks(4),
    grf.sampling.ExactPowers(4),
    grf.sampling.CutPowers(3, 4),
    grf.CompressedPowers(3, 4),
]


def close(first, second, size=1.0):
    return np.allclose(
        first, second, rtol=1e-9, atol=1e-10 * max(size, np.abs(second).max(initial=0.0))
    )


@slower
@given(graphs(), kernels, seeds)
def test_a_kernel_of_relabelled_nodes_is_the_kernel_with_rows_and_columns_permuted(
    graph, kernel, seed
):
    order = permutations(graph.n_nodes, seed)
    other = relabelled(graph, order)
    exact = kernel.dense(graph)
    assert close(kernel.dense(other), exact[np.ix_(order, order)])
    v = np.random.default_rng(seed).normal(size=(graph.n_nodes, 2))
    assert close(
        grf.apply_kernel(other, kernel, v[order]), grf.apply_kernel(graph, kernel, v)[order]
    )
    assert close(kernel_block(other, kernel), kernel_block(graph, kernel)[np.ix_(order, order)])


@slower
@given(graphs(decades=2), st.sampled_from(COMBINATORIAL), seeds)
def test_a_combinatorial_kernel_of_relabelled_nodes_is_the_kernel_permuted(graph, kernel, seed):
    order = permutations(graph.n_nodes, seed)
    other = relabelled(graph, order)
    exact = kernel.dense(graph)
    assert close(kernel.dense(other), exact[np.ix_(order, order)])
    assert close(kernel_block(other, kernel), kernel_block(graph, kernel)[np.ix_(order, order)])


@slower
@given(graphs(), kernels, seeds)
def test_rows_and_columns_of_a_kernel_follow_the_nodes_asked_for(graph, kernel, seed):
    rng = np.random.default_rng(seed)
    rows, cols = (rng.integers(0, graph.n_nodes, 5) for _ in range(2))
    whole = kernel_block(graph, kernel)
    assert np.array_equal(kernel_block(graph, kernel, cols=cols), whole[:, cols])
    assert close(kernel_block(graph, kernel, rows, cols), whole[np.ix_(rows, cols)])


@slower
@given(graphs(max_nodes=7), graphs(max_nodes=7), kernels)
def test_a_kernel_of_two_components_is_block_diagonal(first, second, kernel):
    both, n = union(first, second), first.n_nodes
    block = kernel.dense(both)
    assert close(block[:n, :n], kernel.dense(first))
    assert close(block[n:, n:], kernel.dense(second))
    series = kernel_block(both, kernel)
    assert not series[:n, n:].any()
    assert not series[n:, :n].any()
    assert np.array_equal(series[:n, :n], kernel_block(first, kernel))


@slower
@given(
    graphs(max_nodes=7, decades=2), graphs(max_nodes=7, decades=2), st.sampled_from(COMBINATORIAL)
)
def test_a_combinatorial_kernel_of_two_components_is_block_diagonal(first, second, kernel):
    # A given series is one in W, whose scale is twice the
    # largest degree of all: it must be that of both parts.
    if isinstance(kernel, grf.kernels.PowerSeries | grf.kernels.LearnedModulation):
        assume(first.n_edges and second.n_edges)
        second = grf.Graph(second.adjacency * (first.degrees.max() / second.degrees.max()))
    both, n = union(first, second), first.n_nodes
    block = kernel.dense(both)
    assert close(block[:n, n:], 0.0, np.abs(block).max())
    assert close(block[:n, :n], kernel.dense(first))
    assert close(block[n:, n:], kernel.dense(second))
    assert not kernel_block(both, kernel)[:n, n:].any()


def test_a_given_series_in_w_depends_on_the_largest_degree_of_all_components():
    # Negative control of the one above.
    first, second = grf.from_edges([0], [1], [1.0]), grf.from_edges([0], [1], [5.0])
    for kernel in COMBINATORIAL[3:]:
        assert not close(kernel.dense(union(first, second))[:2, :2], kernel.dense(first))


@slower
@given(graphs(), kernels, st.floats(-6, 6))
def test_a_kernel_of_the_normalized_laplacian_does_not_see_the_scale_of_weights(
    graph, kernel, decade
):
    scaled = grf.Graph(graph.adjacency * 10**decade)
    assert close(kernel.dense(scaled), kernel.dense(graph))
    v = np.arange(1.0, graph.n_nodes + 1)
    assert close(grf.apply_kernel(scaled, kernel, v), grf.apply_kernel(graph, kernel, v))


@slower
@given(graphs(decades=2), st.integers(-8, 8))
def test_weights_times_four_are_a_combinatorial_lengthscale_times_two(graph, power):
    kernel = grf.Diffusion(1.0, laplacian="combinatorial")
    scaled = grf.Graph(graph.adjacency * 4.0**power)
    assume(graph.n_edges)
    assert close(kernel.dense(scaled), kernel.replace(lengthscale=2.0**power).dense(graph))


@slower
@given(graphs(), st.sampled_from(KERNELS + COMBINATORIAL))
def test_a_gram_matrix_is_symmetric_positive_and_obeys_cauchy_and_schwarz(graph, kernel):
    gram = kernel.dense(graph)
    size = max(float(np.abs(gram).max()), 1e-300)
    assert np.array_equal(gram, gram.T)
    assert np.linalg.eigvalsh(gram / size).min() >= -1e-12
    diagonal = np.diagonal(gram)
    assert (diagonal >= 0).all()
    assert (np.abs(gram) <= np.sqrt(np.outer(diagonal, diagonal)) + 1e-12 * size).all()


@slower
@given(graphs(), kernels, seeds)
def test_the_product_with_a_kernel_is_linear_symmetric_and_the_square_of_its_root(
    graph, kernel, seed
):
    x, y = np.random.default_rng(seed).normal(size=(2, graph.n_nodes))
    kx, ky = grf.apply_kernel(graph, kernel, x), grf.apply_kernel(graph, kernel, y)
    size = float(np.linalg.norm(kx) + np.linalg.norm(ky))
    assert close(grf.apply_kernel(graph, kernel, 2 * x - 3 * y), 2 * kx - 3 * ky, size)
    assert close(x @ ky, y @ kx, size * float(np.linalg.norm(x) + np.linalg.norm(y)))
    # The roots' series of these converge slowly.
    if not isinstance(kernel, grf.kernels.InverseCosine | grf.kernels.PStepRandomWalk):
        assert np.allclose(
            grf.apply_root(graph, kernel, grf.apply_root(graph, kernel, x)),
            kx,
            rtol=1e-7,
            atol=1e-8 * size,
        )


@slower
@given(
    graphs(),
    st.sampled_from([grf.Diffusion(1.5), grf.RegularizedLaplacian(1.0, 1.5), grf.Matern(1.5, 2.0)]),
)
def test_more_terms_of_a_series_with_positive_terms_are_never_further_from_the_kernel(
    graph, kernel
):
    exact = kernel.dense(graph)
    errors = []
    for length in (0, 1, 2, 4, 8, 16):
        rows = grf.sample_features(graph, grf.sampling.ExactPowers(length), dtype="float64")
        errors.append(np.linalg.norm(rows.gram(kernel) - exact, 2))
        bound = rows.truncation_error(kernel)
        assert errors[-1] <= bound * (1 + 1e-6) + 1e-6 * np.linalg.norm(exact, 2)
    assert (np.diff(errors) <= 1e-6 * errors[0]).all()


# -- features --------------------------------------------------------------------------------------


@slower
@given(graphs(), kernels, seeds)
def test_exact_powers_of_relabelled_nodes_are_the_powers_with_rows_and_columns_permuted(
    graph, kernel, seed
):
    order = permutations(graph.n_nodes, seed)
    matrices = [
        grf.sample_features(each, grf.sampling.ExactPowers(5)).matrix(kernel).toarray()
        for each in (graph, relabelled(graph, order))
    ]
    assert np.allclose(matrices[1], matrices[0][np.ix_(order, order)], rtol=1e-5, atol=1e-6)


@slower
@given(graphs(), st.sampled_from(SAMPLERS), kernels, seeds)
def test_rows_of_features_follow_the_nodes_asked_for_bit_for_bit(graph, sampler, kernel, seed):
    rng = np.random.default_rng(seed)
    nodes = rng.permutation(graph.n_nodes)[: rng.integers(1, graph.n_nodes + 1)]
    whole = grf.sample_features(graph, sampler, seed=seed)
    some = grf.sample_features(graph, sampler, nodes=nodes, seed=seed)
    matrix = whole.matrix(kernel).toarray()
    assert np.array_equal(some.matrix(kernel).toarray(), matrix[nodes])
    assert np.array_equal(whole.take(nodes).matrix(kernel).toarray(), matrix[nodes])
    assert np.array_equal(whole.gram(kernel, rows=nodes), whole.gram(kernel)[nodes])
    named = grf.Graph(graph.adjacency, nodes=[f"node {i}" for i in range(graph.n_nodes)])
    by_name = grf.sample_features(named, sampler, nodes=[f"node {i}" for i in nodes], seed=seed)
    assert np.array_equal(by_name.matrix(kernel).toarray(), matrix[nodes])


@slower
@given(graphs(max_nodes=7), graphs(max_nodes=7), st.sampled_from(SAMPLERS), seeds)
def test_features_never_reach_another_component(first, second, sampler, seed):
    both, n = union(first, second), first.n_nodes
    rows, columns = grf.sample_features(both, sampler, seed=seed).matrix(KERNELS[0]).nonzero()
    labels = both.components()
    assert (labels[rows] == labels[columns]).all()
    assert ((rows < n) == (columns < n)).all()


@slower
@given(graphs(), st.sampled_from(SAMPLERS), st.integers(-300, 300), seeds)
def test_features_of_weights_times_a_power_of_two_are_the_same_bits(graph, sampler, power, seed):
    degrees = graph.degrees[graph.degrees > 0]
    assume(
        not degrees.size
        or (degrees.max() * 2.0**power < 1e300 and degrees.min() * 2.0**power > 1e-290)
    )
    scaled = grf.Graph(graph.adjacency * 2.0**power)
    matrices = [
        grf.sample_features(each, sampler, seed=seed).matrix(KERNELS[1]).toarray()
        for each in (graph, scaled)
    ]
    # an even power of two leaves the mantissa of square roots as it was
    assert (
        np.array_equal(*matrices)
        if power % 2 == 0
        else np.allclose(*matrices, rtol=1e-5, atol=1e-7)
    )


@slower
@given(graphs(), st.sampled_from(SAMPLERS), seeds)
def test_features_are_linear_in_the_modulation_and_multiply_as_their_matrix_does(
    graph, sampler, seed
):
    features = grf.sample_features(graph, sampler, seed=seed, dtype="float64")
    rng = np.random.default_rng(seed)
    f, g = rng.normal(size=(2, 5))
    matrix_f, matrix_g = (features.matrix_from_modulation(each).toarray() for each in (f, g))
    assert np.allclose(
        features.matrix_from_modulation(f + g).toarray(), matrix_f + matrix_g, atol=1e-10
    )
    x, y = rng.normal(size=(2, graph.n_nodes, 3))
    factor = features.factor()
    assert np.allclose(factor.apply(f, x), matrix_f @ x)
    assert np.allclose(factor.apply_t(f, y), matrix_f.T @ y)
    assert np.allclose(factor.diagonal(f), np.square(matrix_f).sum(axis=1))
    assert np.allclose(factor.grad_f(x, y)[:5] @ f, np.vdot(matrix_f @ x, y))
    gram = features.gram(KERNELS[0])
    assert np.array_equal(gram, gram.T)
    assert np.linalg.eigvalsh(gram).min() >= -1e-10 * np.abs(gram).max()
    assert np.array_equal(
        features.gram(KERNELS[0], rows=[0], cols=[graph.n_nodes - 1])[0, 0], gram[0, -1]
    )


@slower
@given(graphs(), seeds)
def test_the_gram_matrix_of_a_product_is_symmetric_and_positive(graph, seed):
    product = grf.sampling.sample_product(
        graph, grf.RandomWalks(3), n_factors=3, seed=seed, dtype="float64"
    )
    gram = product.gram(grf.Diffusion(2.0))
    assert np.array_equal(gram, gram.T)
    assert np.linalg.eigvalsh(gram).min() >= -1e-10 * np.abs(gram).max()
    v = np.random.default_rng(seed).normal(size=graph.n_nodes)
    whole = product.apply(grf.Diffusion(2.0), product.apply_t(grf.Diffusion(2.0), v))
    assert np.allclose(whole, gram @ v)


# -- Gaussian processes ----------------------------------------------------------------------------


def posterior(graph, nodes, y, **options):
    gp = grf.GraphGPRegressor(
        graph,
        kernel=grf.Diffusion(1.5),
        method="series",
        mean="zero",
        optimize=False,
        output_scale=2.0,
        noise=0.1,
        seed=0,
        numerics=grf.gp.Numerics(normalize=False, n_threads=1),
        **options,
    )
    return gp.fit(nodes, y)


@slower
@given(graphs(), seeds)
def test_predictions_of_relabelled_nodes_are_permuted_and_their_covariance_is_positive(graph, seed):
    pytest.importorskip("torch")
    rng = np.random.default_rng(seed)
    order = permutations(graph.n_nodes, seed)
    nodes = rng.integers(0, graph.n_nodes, 4)
    y = rng.normal(size=4)
    gp = posterior(graph, nodes, y)
    mean, std = gp.predict(return_std=True)
    assert (std >= 0).all()
    assert (std**2 <= 2.0 * np.diagonal(grf.Diffusion(1.5).dense(graph)) + 1e-9).all()
    covariance = gp.predict(return_cov=True)[1]
    assert np.allclose(covariance, covariance.T)
    assert np.linalg.eigvalsh(covariance).min() >= -1e-9
    other = posterior(relabelled(graph, order), np.argsort(order)[nodes], y)
    mean_other, std_other = other.predict(return_std=True)
    assert np.allclose(mean_other, mean[order], atol=1e-8)
    assert np.allclose(std_other, std[order], atol=1e-6)


@slower
@given(graphs(max_nodes=6), graphs(max_nodes=6), seeds)
def test_observations_in_one_component_say_nothing_about_another(first, second, seed):
    pytest.importorskip("torch")
    rng = np.random.default_rng(seed)
    n = first.n_nodes
    nodes, y = rng.integers(0, n, 3), rng.normal(size=3)
    there, other_y = n + rng.integers(0, second.n_nodes, 3), rng.normal(size=3)
    both = union(first, second)
    alone = posterior(first, nodes, y).predict(return_std=True)
    together = posterior(both, np.r_[nodes, there], np.r_[y, other_y]).predict(
        np.arange(n), return_std=True
    )
    for one, other in zip(alone, together, strict=True):
        assert np.allclose(one, other, atol=1e-7)
