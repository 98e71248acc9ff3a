"""Training: the gradient that the optimiser sees, and where it may look."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest
from scipy import optimize

import graphrf as grf
from graphrf.gp.hyperparameters.likelihood_search import (
    LikelihoodSearch,
    TrainingBlock,
    mean_variance_of_blocks,
    spectral_mean_variance,
    unit_mean_variance,
)
from graphrf.gp.hyperparameters.space import Model, Space, Units, hyperparameter_range
from graphrf.gp.methods.gram import SampledGram, SeriesGram
from graphrf.gp.model.observations import Observations
from graphrf.gp.model.prior import FLAT, HyperparameterPrior
from graphrf.kernels.lengthscales import longest_lengthscale
from graphrf.operators.series.density_of_states import density_of_states

NODES = np.repeat(np.arange(0, 34, 2), 2)[:-5]
KERNELS = {
    "diffusion": (grf.Diffusion(2.0), {"lengthscale": (0.1, 10.0)}),
    "matern": (grf.Matern(1.5, 2.0), {"nu": (0.25, 8.0), "lengthscale": (0.1, 10.0)}),
    "combinatorial": (grf.Diffusion(0.7, laplacian="combinatorial"), {"lengthscale": (0.1, 10.0)}),
    "learned": (
        grf.kernels.LearnedModulation(max_length=2, values=[1.0, -0.4, 0.2]),
        {f"f{k}": (-math.inf, math.inf) for k in range(3)},
    ),
}


def _mean_variances(graph, laplacian):
    points, weights = density_of_states(graph, laplacian, np.random.default_rng(0))
    return {
        "subset": mean_variance_of_blocks(),
        "spectral": spectral_mean_variance(points, weights, graph.laplacian_scale(laplacian)),
        "unit": unit_mean_variance(),
    }


def steps(at):
    return 1e-5 * np.eye(at.size)


@pytest.mark.parametrize("prior", [FLAT, HyperparameterPrior()], ids=["flat", "weak"])
@pytest.mark.parametrize("rows", ["series", "features"])
@pytest.mark.parametrize("mean_variance", ["subset", "spectral", "unit"])
@pytest.mark.parametrize("name", KERNELS)
def test_the_optimisers_gradient_is_the_limit_of_differences(
    karate, name, mean_variance, rows, prior
):
    kernel, bounds = KERNELS[name]
    y = np.random.default_rng(0).standard_normal((NODES.size, 2))
    observations = Observations.of(NODES, y, np.ones((34, 1)))
    if rows == "series":
        gram = SeriesGram(karate, kernel.laplacian, observations.nodes, max_degree=300)
    else:
        sampler = grf.RandomWalks(8, lengths=grf.sampling.Truncated(12), laplacian=kernel.laplacian)
        features = grf.sample_features(
            karate, sampler, nodes=observations.nodes, seed=0, dtype="float64"
        )
        gram = SampledGram(features.factor(), karate.laplacian_scale(kernel.laplacian))
    by = _mean_variances(karate, kernel.laplacian)[mean_variance]
    search = LikelihoodSearch(
        [TrainingBlock(gram, observations)] * 2,
        Space.of(kernel, bounds, prior, Units(0.7, 1.3), output_scale=None, noise=None),
        by,
    )
    own = [
        math.log(value) if bounds[key][0] > 0 else value
        for key, value in kernel.hyperparameters.items()
        if key in bounds
    ]
    at = np.array([*own, 0.3, -1.2])
    _, gradient = search.log_posterior(at)
    ends = [(search.log_posterior(at + h)[0], search.log_posterior(at - h)[0]) for h in steps(at)]
    expected = [(ahead - behind) / 2e-5 for ahead, behind in ends]
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=2e-5)


@pytest.mark.parametrize("noise", [0.01, 0.3])
@pytest.mark.parametrize("kernel", [grf.Diffusion(3.0), grf.Matern(1.0, 3.0)], ids=repr)
def test_the_search_ends_where_another_optimiser_does_after_few_evaluations(kernel, noise):
    graph, evaluations = grf.load_graph(nx.grid_2d_graph(20, 20)), []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        y = grf.apply_root(graph, kernel, rng.standard_normal(400))
        y += np.sqrt(noise) * y.std() * rng.standard_normal(400)
        observations = Observations.of(
            nodes := rng.permutation(400)[:80], y[nodes, None], np.ones((400, 1))
        )
        bounds, units = {"lengthscale": (0.1, 30.0)}, Units(y.var())
        space = Space.of(
            kernel, bounds, HyperparameterPrior(), units, output_scale=None, noise=None
        )
        search = LikelihoodSearch(
            [
                TrainingBlock(
                    SeriesGram(graph, "normalized", observations.nodes, max_degree=400),
                    observations,
                )
            ],
            space,
            mean_variance_of_blocks(),
            step=lambda: evaluations.append(1),
        )
        first = Model(kernel.replace(lengthscale=1.0), y.var(), noise=0.05 * y.var())
        start = space.vector_of(first)
        found = search.run([start])
        assert found.converged
        search.step = None
        theirs = optimize.minimize(
            lambda point, search=search: -search.log_posterior(point, gradient=False)[0],
            start,
            method="Nelder-Mead",
            options={"xatol": 1e-4, "fatol": 1e-6, "maxfev": 1000},
        )
        assert -search.log_posterior(found.vector)[0] == pytest.approx(theirs.fun, abs=1e-3)
    assert len(evaluations) < 2 * 40


def test_with_nothing_to_train_the_given_values_come_back(karate):
    observations = Observations.of(np.arange(5), np.arange(5.0)[:, None], np.ones((34, 1)))
    gram = SeriesGram(karate, "normalized", observations.nodes, max_degree=100)
    kernel = grf.Diffusion(1.5)
    space = Space.of(kernel, {}, HyperparameterPrior(), Units(1.0), output_scale=2.0, noise=0.1)
    search = LikelihoodSearch([TrainingBlock(gram, observations)], space, unit_mean_variance())
    trained = search.run([space.vector_of(Model(kernel, 2.0, noise=0.1))])
    assert trained.model == Model(grf.Diffusion(1.5), 2.0, noise=0.1)
    assert (trained.amplitude, trained.converged) == (2.0, True)


def test_the_longest_lengthscale_is_the_edge_of_what_fits():
    kernel = grf.Diffusion(1.0)
    longest = longest_lengthscale(kernel, lambda k: k.truncation_length(1e-3) <= 16)
    assert grf.Diffusion(longest).truncation_length(1e-3) <= 16
    assert grf.Diffusion(1.05 * longest).truncation_length(1e-3) > 16
    assert longest_lengthscale(kernel, lambda k: True) == 100.0


def test_ranges_respect_what_a_kernel_allows():
    assert hyperparameter_range(grf.kernels.PStepRandomWalk(2.5, 3), "alpha", 1.0, 100.0) == (
        2.0,
        200.0,
    )
    assert hyperparameter_range(grf.kernels.LearnedModulation(1), "f0", 1.0, 100.0) == (
        -math.inf,
        math.inf,
    )
    assert hyperparameter_range(grf.Diffusion(1.0), "lengthscale", 1.0, 7.0) == (0.1, 7.0)


def _smooth_values(n, noise):
    """A 30 x 30 grid, and a smooth function observed at n of its nodes with little noise."""
    graph = grf.Graph(nx.to_scipy_sparse_array(nx.grid_2d_graph(30, 30)))
    x, y = np.divmod(np.arange(900), 30)
    rng = np.random.default_rng(1)
    nodes = rng.choice(900, n, replace=False)
    return graph, nodes, (np.sin(x / 5) * np.cos(y / 7))[nodes] + noise * rng.standard_normal(n)


def test_the_likelihood_of_little_noise_does_not_jump():
    # where the series ended at another degree for every
    # lengthscale, these differences were off by up to 40 nats
    graph, nodes, y = _smooth_values(150, 0.001)
    kernel = grf.Matern(nu=4.0, lengthscale=9.0, laplacian="combinatorial")
    gram = SeriesGram(graph, "combinatorial", nodes, max_degree=600)
    space = Space.of(
        kernel, {"lengthscale": (0.1, 20.0)}, FLAT, Units(1.0), output_scale=1.0, noise=2.6e-5
    )
    observations = Observations.of(nodes, y[:, None], np.ones((900, 1)))
    block = TrainingBlock(gram, observations)
    search = LikelihoodSearch([block], space, mean_variance_of_blocks())
    gram(kernel.replace(lengthscale=18.0), ())
    points = math.log(9.0) + 1e-3 * np.arange(-6, 7)[:, None]
    values, slopes = zip(*(search.log_posterior(point) for point in points), strict=True)
    between = 0.5 * (np.ravel(slopes)[:-1] + np.ravel(slopes)[1:])
    np.testing.assert_allclose(np.diff(values) / 1e-3, between, atol=0.5)
