"""Sampled rows in training: they end where their own variance would pass for a signal of the nodes."""

import numpy as np
import pytest

import graphrf as grf
from graphrf.gp.training import sampler_choice
from graphrf.gp.training.candidates import SampledCandidates, TrainingSet


@pytest.fixture(scope="module")
def scattered():
    """A random graph of mean degree 8, where walks of some steps reach everything."""
    ends = np.random.default_rng(0).integers(0, 3_000, (2, 12_000))
    return grf.from_edges(*ends[:, ends[0] != ends[1]], n_nodes=3_000)


def _diagonals(graph, sampler, kernel, nodes):
    """The mean squared norm of rows, that of K, and what two draws say of their ratio."""
    first, second = (
        grf.sample_features(graph, sampler, nodes=graph.positions(nodes), seed=seed, dtype="float64").factor()
        for seed in (0, 1)
    )
    f = kernel.modulation(sampler.survival.table.size, graph.laplacian_scale(kernel.laplacian))
    exact = np.array([grf.kernel_block(graph, kernel, [node], [node])[0, 0] for node in nodes]).mean()
    return first.diagonal(f).mean(), exact, sampler_choice.excess(first, second, f)


def test_two_draws_tell_how_much_of_a_rows_norm_is_its_variance(scattered):
    nodes = np.arange(0, 3_000, 30)
    sampler = grf.CompressedPowers(64, max_length=64)
    for lengthscale in (1.0, 2.0, 3.0, 4.0):
        norms, exact, excess = _diagonals(scattered, sampler, grf.Diffusion(lengthscale), nodes)
        assert excess == pytest.approx(norms / exact - 1, abs=0.05 + 0.3 * excess)
    assert excess > 0.2
    short = grf.Diffusion(0.3)
    assert _diagonals(scattered, grf.CompressedPowers(3_000, max_length=8), short, nodes)[2] == pytest.approx(
        0, abs=1e-12
    )
    nothing = np.zeros(65)
    rows = grf.sample_features(scattered, sampler, nodes=scattered.positions(nodes), seed=0).factor()
    assert sampler_choice.excess(rows, rows, nothing) == np.inf


def test_lengthscales_end_where_the_variance_of_rows_is_a_quarter_of_the_kernels(scattered):
    nodes = np.random.default_rng(1).choice(3_000, 300, replace=False)
    training = TrainingSet(scattered, grf.Diffusion(1.0), ["lengthscale"], [nodes], 1.0, 0, None)
    sampler = grf.CompressedPowers(64, max_length=128)
    longest = SampledCandidates(training, None)._candidate(sampler).longest
    given = SampledCandidates(training, sampler)._candidate(sampler).longest
    norms, exact, _ = _diagonals(scattered, sampler, grf.Diffusion(longest), nodes)
    assert norms / exact < 1.4
    norms, exact, _ = _diagonals(scattered, sampler, grf.Diffusion(given), nodes)
    assert norms / exact > 2  # what training did before, and does with a sampler that is given


def test_rows_do_not_pass_for_a_signal_that_differs_at_every_node():
    # Half of a value is the node's own, half its neighbours'. At long lengthscales K has next to no diagonal on
    # such a graph, and rows of it nothing else: they took a node's own half for a signal of lengthscale 5.28.
    ends = np.random.default_rng(0).integers(0, 10_000, (2, 40_000))
    graph = grf.from_edges(*ends[:, ends[0] != ends[1]], n_nodes=10_000)
    rng = np.random.default_rng(2)
    numbers = rng.standard_normal(10_000)
    nodes = np.array([0])
    while nodes.size < 400:
        nodes = np.unique(np.concatenate([nodes, graph.adjacency[nodes].indices]))
    nodes = rng.permutation(nodes)[:200]
    y = (numbers + graph.adjacency @ numbers / 3)[nodes] + 0.1 * rng.standard_normal(200)
    rows, exact = (
        grf.GraphGPRegressor(graph, kernel="diffusion", method=method, hyperparameters="map", seed=0)
        .fit(graph.positions(nodes), y)
        .kernel_.lengthscale
        for method in ("features", "series")
    )
    assert exact / 1.5 < rows < 1.5 * exact
