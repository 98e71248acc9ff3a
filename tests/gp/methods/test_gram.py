"""Covariances for training: the table of the series and the walks against dense algebra."""

from __future__ import annotations

import numpy as np
import pytest

import graphrf as grf
from graphrf.gp.methods import gram as gram_module
from graphrf.gp.methods.gram import SampledGram, SeriesGram
from graphrf.kernels.truncation import series_length
from graphrf.operators.series.apply import kernel_block
from graphrf.operators.series.series_factor import SeriesFactor

KERNELS = [
    grf.Diffusion(3.0),
    grf.Diffusion(0.8, laplacian="combinatorial"),
    grf.RegularizedLaplacian(2.0, power=1.5),
    grf.Matern(nu=1.5, lengthscale=3.0),
    grf.Matern(nu=2.0, lengthscale=1.0, laplacian="combinatorial"),
    grf.kernels.PStepRandomWalk(alpha=2.5, steps=3),
    grf.kernels.InverseCosine(),
    grf.kernels.PowerSeries(taylor=[4.0, 4.0, 1.0]),
    grf.kernels.LearnedModulation(max_length=3, values=[1.0, 0.5, -0.25, 0.1]),
]
NODES = np.array([0, 3, 5, 2, 7])


def _differences(kernel, graph, name, h=1e-5):
    value = kernel.hyperparameters[name]
    up, down = (kernel.replace(**{name: value + step}).dense(graph) for step in (h, -h))
    return (up - down) / (2 * h)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_series_gram_is_the_dense_kernel_and_its_derivatives(weighted_graph, kernel):
    gram = SeriesGram(weighted_graph, kernel.laplacian, NODES, max_degree=300)
    names = list(kernel.hyperparameters)
    matrix, changes = gram(kernel, names)
    block = np.ix_(NODES, NODES)
    scale = np.abs(kernel.dense(weighted_graph)).max()
    np.testing.assert_allclose(matrix, kernel.dense(weighted_graph)[block], atol=1e-7 * scale)
    assert len(changes) == len(names)
    for name, change in zip(names, changes, strict=True):
        np.testing.assert_allclose(
            change,
            _differences(kernel, weighted_graph, name)[block],
            atol=2e-7 * max(scale, 1),
            rtol=1e-5,
        )


def test_rows_that_products_have_not_reached_are_not_made_and_no_bit_changes(monkeypatch):
    graph = grf.from_edges(np.arange(199), np.arange(1, 200))
    nodes = np.array([90, 91, 93, 97])
    kernel = grf.Matern(nu=1.0, lengthscale=4.0)
    rows: list[int] = []

    class Counted(gram_module.RecurrenceSteps):
        def step(self, *arguments, **options):
            rows.append(options["rows"][1] - options["rows"][0])
            super().step(*arguments, **options)

    monkeypatch.setattr(gram_module, "RecurrenceSteps", Counted)
    found, (slope,) = SeriesGram(graph, "normalized", nodes, max_degree=300)(
        kernel, ["lengthscale"]
    )
    assert rows[:3] == [10, 12, 14]
    monkeypatch.setattr(
        gram_module, "reached_rows", lambda matrix: (np.zeros(200, int), np.full(200, 200))
    )
    monkeypatch.setattr(gram_module, "neighbourhood", lambda *arguments: np.arange(200))
    whole, (other,) = SeriesGram(graph, "normalized", nodes, max_degree=300)(
        kernel, ["lengthscale"]
    )
    assert rows[-1] == 200
    assert np.array_equal(found, whole)
    assert np.array_equal(slope, other)
    np.testing.assert_allclose(found, kernel.dense(graph)[np.ix_(nodes, nodes)], atol=1e-8)


def test_nodes_in_no_order_give_the_same_table_and_the_same_diagonal():
    order = np.random.default_rng(0).permutation(300)
    graph = grf.from_edges(order[:-1], order[1:])
    kernel = grf.Matern(nu=1.0, lengthscale=4.0)
    nodes = np.random.default_rng(1).permutation(300)[:40]
    gram = SeriesGram(graph, "normalized", nodes, max_degree=300)
    assert not np.array_equal(gram._rows, nodes)  # renumbered
    matrix, (slope,) = gram(kernel, ["lengthscale"])
    np.testing.assert_allclose(matrix, kernel.dense(graph)[np.ix_(nodes, nodes)], atol=1e-8)
    np.testing.assert_allclose(
        slope, _differences(kernel, graph, "lengthscale")[np.ix_(nodes, nodes)], atol=1e-6
    )
    length = series_length(kernel, graph.laplacian_scale("normalized"), 1e-11)
    factor = SeriesFactor(graph, max_length=length, nodes=nodes)
    found = factor.diagonal(kernel.modulation(length + 1))
    np.testing.assert_allclose(found, np.diagonal(kernel.dense(graph))[nodes], rtol=1e-7)


def test_series_gram_grows_for_longer_lengthscales_and_keeps_what_it_had(grid):
    nodes = np.arange(0, 144, 2)
    gram = SeriesGram(grid, "normalized", nodes, max_degree=400, n_threads=2)
    for lengthscale in (1.0, 20.0, 1.0, 5.0):
        kernel = grf.Diffusion(lengthscale)
        np.testing.assert_allclose(
            gram(kernel, ())[0], kernel.dense(grid)[np.ix_(nodes, nodes)], atol=1e-8
        )


LONG = [
    grf.Diffusion(40.0),
    grf.Diffusion(8.0, laplacian="combinatorial"),
    grf.RegularizedLaplacian(30.0),
    grf.RegularizedLaplacian(8.0, laplacian="combinatorial"),
    grf.Matern(nu=1.5, lengthscale=60.0),
    grf.Matern(nu=1.5, lengthscale=8.0, laplacian="combinatorial"),
]


@pytest.mark.parametrize("kernel", LONG, ids=repr)
def test_derivatives_of_long_kernels_are_those_of_the_dense_kernel(kernel):
    # a weighted path of 30 nodes, another of 3, and an isolated node
    tail = np.array([*range(29), 30, 31])
    weights = np.random.default_rng(0).uniform(0.5, 2.0, tail.size)
    graph = grf.from_edges(tail, tail + 1, weights, n_nodes=34)
    nodes = np.array([0, 4, 17, 29, 31, 33])
    gram = SeriesGram(graph, kernel.laplacian, nodes, max_degree=1_000)
    matrix, changes = gram(kernel, list(kernel.hyperparameters))
    block = np.ix_(nodes, nodes)
    expected = kernel.dense(graph)[block]
    largest = expected.max()
    np.testing.assert_allclose(matrix, expected, atol=1e-7 * largest)
    for (name, value), change in zip(kernel.hyperparameters.items(), changes, strict=True):
        expected = _differences(kernel, graph, name, 1e-5 * value)[block]
        np.testing.assert_allclose(value * change, value * expected, rtol=1e-6, atol=1e-6 * largest)
        assert np.abs(value * expected).max() > 1e-3 * largest


def test_degree_says_what_fits(grid):
    gram = SeriesGram(grid, "normalized", np.arange(5), max_degree=40)
    assert gram.fits(grf.Diffusion(2.0))
    assert not gram.fits(grf.Diffusion(50.0))


def test_the_gram_of_walks_is_phi_phi_t_with_its_derivative(grid):
    features = grf.sample_features(
        grid, grf.RandomWalks(n_walks=16), nodes=NODES, seed=3, dtype="float64"
    )
    kernel = grf.Diffusion(2.0)
    gram = SampledGram(features.factor(), 1.0)
    matrix, (change,) = gram(kernel, ["lengthscale"])
    np.testing.assert_allclose(matrix, features.gram(kernel), atol=1e-12)
    up, down = (gram(grf.Diffusion(2.0 + h), ())[0] for h in (1e-5, -1e-5))
    np.testing.assert_allclose(change, (up - down) / 2e-5, atol=1e-8)


def test_the_table_of_a_cluster_in_a_large_graph_needs_its_surroundings_only():
    ring = np.arange(2_000)
    graph = grf.from_edges(ring, np.roll(ring, -1))
    nodes = np.array([3, 10, 11, 40])
    gram = SeriesGram(graph, "normalized", nodes, max_degree=500)
    for kernel in (grf.Diffusion(3.0), grf.Diffusion(30.0)):  # the second begins a larger table
        got, (slope,) = gram(kernel, ["lengthscale"])
        assert gram._doubled.shape[0] < 1_000
        np.testing.assert_allclose(got, kernel_block(graph, kernel, nodes, nodes), atol=1e-8)
        assert np.isfinite(slope).all()
