"""Training: the gradient that the optimiser sees, and where it may look."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest

import graphrf as grf
from graphrf.gp.inference.observations import Observations
from graphrf.gp.prior import FLAT, HyperparameterPrior
from graphrf.gp.training.blocks import training_blocks
from graphrf.gp.training.gram import FactorGram, SeriesGram
from graphrf.gp.training.likelihood_search import (
    Block,
    LikelihoodSearch,
    spectral_divisor,
    spread,
    subset_divisor,
    unit_divisor,
)
from graphrf.gp.training.parameters import Parameters
from graphrf.gp.training.ranges import hyperparameter_range, longest_lengthscale
from graphrf.kernels.spectrum import density_of_states

NODES = np.repeat(np.arange(0, 34, 2), 2)[:-5]
KERNELS = {
    "diffusion": (grf.Diffusion(2.0), {"lengthscale": (0.1, 10.0)}),
    "matern": (grf.Matern(1.5, 2.0), {"nu": (0.25, 8.0), "lengthscale": (0.1, 10.0)}),
    "combinatorial": (grf.Diffusion(0.7, laplacian="combinatorial"), {"lengthscale": (0.1, 10.0)}),
    "learned": (
        grf.LearnedModulation(max_length=2, values=[1.0, -0.4, 0.2]),
        {f"f{k}": (-math.inf, math.inf) for k in range(3)},
    ),
}


def _divisors(graph, laplacian):
    points, weights = density_of_states(graph, laplacian, np.random.default_rng(0))
    return {
        "subset": subset_divisor(),
        "spectral": spectral_divisor(points, weights, graph.laplacian_scale(laplacian)),
        "unit": unit_divisor(),
    }


@pytest.mark.parametrize("prior", [FLAT, HyperparameterPrior()], ids=["flat", "weak"])
@pytest.mark.parametrize("rows", ["series", "features"])
@pytest.mark.parametrize("divisor", ["subset", "spectral", "unit"])
@pytest.mark.parametrize("name", KERNELS)
def test_the_optimisers_gradient_is_the_limit_of_differences(karate, name, divisor, rows, prior):
    kernel, bounds = KERNELS[name]
    y = np.random.default_rng(0).standard_normal((NODES.size, 2))
    observations = Observations.of(NODES, y, np.ones((34, 1)))
    if rows == "series":
        gram = SeriesGram(karate, kernel.laplacian, observations.nodes, max_degree=300)
    else:
        sampler = grf.RandomWalks(8, lengths=grf.Truncated(12), laplacian=kernel.laplacian)
        features = grf.sample_features(karate, sampler, nodes=observations.nodes, seed=0, dtype="float64")
        gram = FactorGram(features.factor(), karate.laplacian_scale(kernel.laplacian))
    by = _divisors(karate, kernel.laplacian)[divisor]
    search = LikelihoodSearch(
        [Block(gram, observations)] * 2, Parameters(kernel, tuple(bounds), bounds), None, None, by, prior,
        unit=0.7, length_unit=1.3,
    )  # fmt: skip
    own = [
        math.log(value) if bounds[key][0] > 0 else value
        for key, value in kernel.hyperparameters.items()
        if key in bounds
    ]
    at = np.array([*own, 0.3, -1.2])
    _, gradient = search.negative(at)
    steps = 1e-5 * np.eye(at.size)
    expected = [(search.negative(at + h)[0] - search.negative(at - h)[0]) / 2e-5 for h in steps]
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=2e-5)


def test_with_nothing_to_train_the_given_values_come_back(karate):
    observations = Observations.of(np.arange(5), np.arange(5.0)[:, None], np.ones((34, 1)))
    gram = SeriesGram(karate, "normalized", observations.nodes, max_degree=100)
    kernel = grf.Diffusion(1.5)
    search = LikelihoodSearch(
        [Block(gram, observations)], Parameters(kernel, (), {}), 2.0, 0.1, unit_divisor(), HyperparameterPrior(),
        unit=1.0, length_unit=1.0,
    )  # fmt: skip
    trained = search.run([search.point(kernel, 2.0, 0.1)])
    assert (trained.kernel, trained.amplitude, trained.noise) == (grf.Diffusion(1.5), 2.0, 0.1)
    assert trained.converged
    assert trained.ends == {}


def test_spread_is_the_variance_of_all_observations():
    rng = np.random.default_rng(0)
    nodes, y = rng.integers(0, 6, 40), rng.standard_normal((40, 3)) + 5.0
    first = nodes < 3
    for basis, expected in ((np.ones((6, 1)), y.var(axis=0)), (np.zeros((6, 0)), np.square(y).mean(axis=0))):
        blocks = [Observations.of(nodes[part], y[part], basis) for part in (first, ~first)]
        assert np.isclose(spread(blocks), expected.mean())


def test_the_longest_lengthscale_is_the_edge_of_what_fits():
    kernel = grf.Diffusion(1.0)
    longest = longest_lengthscale(kernel, lambda k: k.truncation_length(1e-3) <= 16)
    assert grf.Diffusion(longest).truncation_length(1e-3) <= 16
    assert grf.Diffusion(1.05 * longest).truncation_length(1e-3) > 16
    assert longest_lengthscale(kernel, lambda k: True) == 100.0


def test_ranges_respect_what_a_kernel_allows():
    assert hyperparameter_range(grf.PStepRandomWalk(2.5, 3), "alpha", 1.0, 100.0) == (2.0, 200.0)
    assert hyperparameter_range(grf.LearnedModulation(1), "f0", 1.0, 100.0) == (-math.inf, math.inf)
    assert hyperparameter_range(grf.Diffusion(1.0), "lengthscale", 1.0, 7.0) == (0.1, 7.0)


def test_blocks_hold_near_nodes_and_one_holds_distant_ones():
    nodes = np.arange(900).reshape(30, 30)
    grid = grf.from_edges(
        np.r_[nodes[:, 1:].ravel(), nodes[1:].ravel()], np.r_[nodes[:, :-1].ravel(), nodes[:-1].ravel()]
    )
    rng = np.random.default_rng(0)
    observed = np.sort(rng.choice(grid.n_nodes, 600, replace=False))
    blocks = training_blocks(grid, observed, 90, rng)
    assert [block.size for block in blocks] == [45, 45]
    assert all(np.isin(block, observed).all() and np.unique(block).size == block.size for block in blocks)
    rows, columns = np.divmod(blocks[0], 30)
    assert np.ptp(rows) < 20
    assert np.ptp(columns) < 20
    rows, columns = np.divmod(blocks[1], 30)
    assert np.ptp(rows) > 20
    assert np.ptp(columns) > 20
    assert training_blocks(grid, observed, 600, rng)[0] is observed


def test_blocks_are_filled_from_other_components_where_one_is_small():
    islands = grf.from_edges([0, 1, 3, 4, 6, 7], [1, 2, 4, 5, 7, 8])
    blocks = training_blocks(islands, np.arange(9), 8, np.random.default_rng(0))
    assert [np.unique(block).size for block in blocks] == [4, 4]
    assert 3 in np.bincount(blocks[0] // 3)  # a whole island first


@pytest.mark.parametrize("noise", [0.05, 3.0])
def test_little_and_much_noise_are_both_found(noise):
    graph = grf.Graph(nx.to_scipy_sparse_array(nx.grid_2d_graph(30, 30)))
    rng = np.random.default_rng(0)
    kernel = grf.Diffusion(5.0)
    truth = grf.apply_root(graph, kernel, rng.standard_normal((900, 4)))
    truth /= truth.std()
    nodes = rng.choice(900, 500, replace=False)
    y = truth[nodes] + np.sqrt(noise) * rng.standard_normal((500, 4))
    for method in ("series", "features"):
        gp = grf.GraphGPRegressor(graph, kernel="diffusion", method=method, seed=0).fit(nodes, y)
        # the estimate of a variance from 2,000 numbers: five standard errors are 16 %
        assert abs(gp.noise_ / noise - 1) < 0.3
        assert 3.0 < gp.kernel_.hyperparameters["lengthscale"] < 8.0
