"""Sampled rows in training: they end where their variance would pass for a signal."""

import warnings

import numpy as np
import pytest

import graphrf as grf
from graphrf._base.memory import NoRoomError
from graphrf.gp.methods.default_rows import LENGTHS, default_sampler, excess
from graphrf.gp.methods.features import FeaturesMethod
from graphrf.operators.series.apply import kernel_diagonal


@pytest.fixture(scope="module")
def scattered():
    """A random graph of mean degree 8, where walks of some steps reach everything."""
    ends = np.random.default_rng(0).integers(0, 3_000, (2, 12_000))
    return grf.from_edges(*ends[:, ends[0] != ends[1]], n_nodes=3_000)


def _diagonals(graph, sampler, kernel, nodes):
    """The mean squared norm of rows, that of K, and what two draws say of their ratio."""
    first, second = (
        grf.sample_features(
            graph, sampler, nodes=graph.positions(nodes), seed=seed, dtype="float64"
        ).factor()
        for seed in (0, 1)
    )
    f = kernel.modulation(sampler.survival.table.size, graph.laplacian_scale(kernel.laplacian))
    exact = kernel_diagonal(graph, kernel, nodes).mean()
    return first.diagonal(f).mean(), exact, excess(first, second, f)


def test_two_draws_tell_how_much_of_a_rows_norm_is_its_variance(scattered):
    nodes = np.arange(0, 3_000, 30)
    sampler = grf.CompressedPowers(64, max_length=64)
    for lengthscale in (1.0, 2.0, 3.0, 4.0):
        norms, exact, own = _diagonals(scattered, sampler, grf.Diffusion(lengthscale), nodes)
        assert own == pytest.approx(norms / exact - 1, abs=0.05 + 0.3 * own)
    assert own > 0.2
    short = grf.Diffusion(0.3)
    exact_powers = grf.CompressedPowers(3_000, max_length=8)
    difference = _diagonals(scattered, exact_powers, short, nodes)[2]
    assert difference == pytest.approx(0, abs=1e-12)
    nothing = np.zeros(65)
    rows = grf.sample_features(
        scattered, sampler, nodes=scattered.positions(nodes), seed=0
    ).factor()
    assert excess(rows, rows, nothing) == np.inf


def test_lengthscales_end_where_the_variance_of_rows_is_a_quarter_of_the_kernels(scattered):
    nodes = np.random.default_rng(1).choice(3_000, 300, replace=False)
    sampler = grf.CompressedPowers(64, max_length=128)
    kernel = grf.Diffusion(1.0)
    (grams,) = FeaturesMethod(scattered, sampler, None, nodes.size).grams(
        [(kernel, ("lengthscale",))], [nodes], 0
    )
    longest = grams.longest(kernel)
    norms, exact, _ = _diagonals(scattered, sampler, grf.Diffusion(longest), nodes)
    assert 1.1 < norms / exact < 1.4
    norms, exact, _ = _diagonals(scattered, sampler, grf.Diffusion(1.5 * longest), nodes)
    assert norms / exact > 1.7  # there is something to end


def _own_and_neighbours(n, n_near):
    """A random graph, nodes near node 0 in random order, values half own, half neighbours'."""
    ends = np.random.default_rng(0).integers(0, n, (2, 4 * n))
    graph = grf.from_edges(*ends[:, ends[0] != ends[1]], n_nodes=n)
    rng = np.random.default_rng(2)
    numbers = rng.standard_normal(n)
    nodes = np.array([0])
    while nodes.size < n_near:
        nodes = np.unique(np.concatenate([nodes, graph.adjacency[nodes].indices]))
    return graph, rng.permutation(nodes), numbers + graph.adjacency @ numbers / 3, rng


@pytest.mark.filterwarnings("ignore:the graph explains y no better")
def test_rows_do_not_pass_for_a_signal_that_differs_at_every_node():
    # Half of a value is the node's own, half its neighbours'. At long lengthscales K has next to no
    # diagonal on such a graph, and rows of it nothing else: they took a node's own half for a
    # signal of lengthscale 5.89.
    graph, nodes, f, rng = _own_and_neighbours(3_000, 400)
    nodes = nodes[:200]
    y = f[nodes] + 0.1 * rng.standard_normal(200)
    rows, exact = (
        grf.GraphGPRegressor(
            graph, kernel="diffusion", method=method, hyperparameters="mode", seed=0
        )
        .fit(graph.positions(nodes), y)
        .kernel_.lengthscale
        for method in ("features", "series")
    )
    assert exact / 1.5 < rows < 1.5 * exact


@pytest.mark.filterwarnings("ignore:.* without an edge:UserWarning")
def test_variance_of_rows_is_told_where_the_lengthscale_is_given(scattered):
    nodes = np.arange(0, 3_000, 10)
    y = np.sin(nodes / 9.0)
    known = {"optimize": False, "output_scale": 1.0, "noise": 0.1, "seed": 0, "method": "features"}
    with pytest.warns(UserWarning, match="sampling variance"):
        grf.GraphGPRegressor(scattered, kernel=grf.Diffusion(6.0), **known).fit(nodes, y)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*sampling variance")
        grf.GraphGPRegressor(scattered, kernel=grf.Diffusion(2.0), **known).fit(nodes, y)


@pytest.mark.parametrize("count", range(5))
def test_default_rows_grow_as_long_as_those_of_all_observed_nodes_fit_into_memory(
    scattered, monkeypatch, count
):
    nodes, member = np.arange(0, 3_000, 30), (grf.Diffusion(2.0), ("lengthscale",))
    needed = []

    def asked(size, what, way_out):
        needed.append(size)
        if len(needed) > count:
            raise NoRoomError(f"{what} needs more; {way_out}")

    monkeypatch.setattr("graphrf.gp.methods.features.require_memory", asked)
    method = FeaturesMethod(scattered, None, None, 1_000_000)
    if count == 0:
        with pytest.raises(
            MemoryError, match=r"sampled rows of 1000000 observed nodes .*; .*method='precision'"
        ):
            list(method.grams([member], [nodes], 0))
        return
    found = [grams.sampler.survival.max_length for grams in method.grams([member], [nodes], 0)]
    assert found == list(LENGTHS[:count])
    assert ("do not fit into memory" in method.limitation(grf.Diffusion(2.0))) == (
        count < len(LENGTHS)
    )
    rows = grf.sample_features(
        scattered, default_sampler("normalized", LENGTHS[0], nodes.size), nodes=nodes, seed=0
    )
    assert needed[0] == pytest.approx(
        1_000_000 / nodes.size * (rows.nbytes + 8 * rows.nnz), rel=0.05
    )
