"""Points stand for the tempered posterior with counts, as they do with normal noise."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import graphrf as grf
from graphrf.gp.hyperparameters import explore_latent as module
from graphrf.gp.hyperparameters.latent_evidence import block_evidence
from graphrf.gp.hyperparameters.space import Space, Units
from graphrf.gp.likelihoods.counts import Poisson
from graphrf.gp.likelihoods.positive import Gamma
from graphrf.gp.model.prior import FLAT, HyperparameterPrior
from graphrf.gp.model.problem import make_problem
from graphrf.gp.posterior.approximation.expectation_propagation import independent_sites

KERNEL = grf.Matern(nu=2.0)


@pytest.fixture(scope="module")
def drawn():
    """A grid, 60 of its nodes, and counts of a draw there."""
    graph = grf.Graph(nx.to_scipy_sparse_array(nx.grid_2d_graph(16, 16)))
    rng = np.random.default_rng(0)
    f = grf.apply_root(graph, grf.Matern(nu=2.0, lengthscale=4.0), rng.standard_normal(256))
    nodes = np.sort(rng.choice(256, 60, replace=False))
    return graph, nodes, rng.poisson(np.exp(1 + f[nodes] / f.std()))


@pytest.fixture(scope="module")
def grid(drawn):
    """Log evidence, moments of log lengthscale and log scale, tempered, on a fine grid."""
    graph, nodes, y = drawn
    gp = grf.GraphGPRegressor(graph, kernel=KERNEL, likelihood="poisson", seed=0)
    responses = make_problem(gp, [(KERNEL, ())], nodes, y).responses
    sites = independent_sites(responses, Poisson(), 3.0)
    lengths, scales = np.log(np.geomspace(0.02, 100, 28)), np.log(np.geomspace(1e-3, 1e3, 28))
    log = np.empty((lengths.size, scales.size))
    for own, length in zip(log, lengths, strict=True):
        k = grf.Matern(2.0, np.exp(length)).dense(graph)[np.ix_(nodes, nodes)]
        k *= nodes.size / np.trace(k)
        own[:] = [
            block_evidence(np.exp(scale) * k, responses, Poisson(), 3.0, sites) for scale in scales
        ]
    prior = HyperparameterPrior()
    density = prior.log_density("lengthscale", lengths, 1.0)[0][:, None]
    density = density + prior.log_density("output_scale", scales, 1.0)[0]
    log *= module.INFORMATION / nodes.size
    evidence = np.logaddexp.reduce((log + density).ravel()) - np.logaddexp.reduce(density.ravel())
    weights = np.exp(log + density - (log + density).max())
    weights /= weights.sum()
    sides = [(weights.sum(axis=1), lengths), (weights.sum(axis=0), scales)]
    means = [w @ v for w, v in sides]
    return (
        evidence,
        means,
        [np.sqrt(w @ (v - m) ** 2) for (w, v), m in zip(sides, means, strict=True)],
    )


def test_points_have_the_moments_and_the_evidence_of_a_fine_grid(drawn, grid, monkeypatch):
    graph, nodes, y = drawn
    monkeypatch.setattr(module, "SAMPLE", 256)
    monkeypatch.setattr(module, "POINTS", 1_000)
    near = 0.07
    gp = grf.GraphGPRegressor(
        graph, kernel=KERNEL, likelihood="poisson", method="series", seed=0
    ).fit(nodes, y)
    evidence, means, deviations = grid
    assert gp.candidates_[0].log_evidence == pytest.approx(evidence, abs=near)
    points = gp._fitted.points
    weights = np.array([point.weight for point in points])
    for k, own in enumerate(
        np.log([[point.kernel.lengthscale, point.amplitude] for point in points]).T
    ):
        if k:  # the output scale, in the mean variance at the observed nodes
            own = own + np.log(
                [np.diag(point.kernel.dense(graph))[nodes].mean() for point in points]
            )
        mean = weights @ own
        assert mean == pytest.approx(means[k], abs=near * deviations[k])
        assert np.sqrt(weights @ (own - mean) ** 2) == pytest.approx(deviations[k], rel=near)


@pytest.mark.full
def test_kernels_share_the_sample_by_their_evidence(drawn, monkeypatch):
    """The probabilities of kernels that are compared are those of their own evidences."""
    graph, nodes, y = drawn
    settings = {"likelihood": "poisson", "method": "series", "seed": 0}
    monkeypatch.setattr(module, "SAMPLE", 1024)
    together = grf.GraphGPRegressor(graph, **settings).fit(nodes, y)
    assert len(together.candidates_) == 8  # diffusion and three orders, two Laplacians
    for own in together.candidates_[:4]:
        alone = grf.GraphGPRegressor(graph, kernel=own.kernel, **settings).fit(nodes, y)
        assert own.log_evidence == pytest.approx(alone.candidates_[0].log_evidence, abs=0.15)
    assert sum(own.probability for own in together.candidates_) == pytest.approx(1.0)


def test_quantiles_of_the_prior_are_its_own():
    bounds = {"lengthscale": (1e-3, 1e3)}

    def space_of(prior):
        return Space.of(KERNEL, bounds, prior, Units(1.0), output_scale=None, likelihood=Gamma())

    prior = HyperparameterPrior(lengthscale=(4.0, 2.0), output_scale=(1.0, 3.0))
    space = space_of(prior)
    assert space.names == ("lengthscale", "output_scale", "shape")
    middle, above = space.quantiles(np.array([[0.5] * 3, [0.8413447] * 3]))
    np.testing.assert_allclose(np.exp(middle), [4.0, 1.0, 2.0], rtol=1e-3)
    np.testing.assert_allclose(np.exp(above - middle), [2.0, 3.0, 2.5], rtol=1e-2)
    flat = space_of(FLAT)
    np.testing.assert_allclose(
        flat.quantiles(np.full((1, 3), 0.25))[0], flat.box @ [0.75, 0.25], rtol=1e-6
    )


def test_the_mode_is_the_largest_posterior_density(drawn):
    """Moves of each hyperparameter lower evidence times prior."""
    graph, nodes, y = drawn
    settings = {
        "likelihood": "poisson",
        "method": "series",
        "seed": 0,
        "numerics": grf.gp.Numerics(normalize=False),
    }
    gp = grf.GraphGPRegressor(graph, kernel=KERNEL, hyperparameters="mode", **settings).fit(
        nodes, y
    )
    prior = HyperparameterPrior()

    def density(lengthscale, factor):
        kernel = grf.Matern(2.0, lengthscale)
        scale = gp._fitted.output_scale * factor
        own = grf.GraphGPRegressor(
            graph, kernel=kernel, optimize=False, output_scale=scale, **settings
        )
        variance = np.diag(kernel.dense(graph))[nodes].mean()
        return (
            own.fit(nodes, y).log_marginal_likelihood_
            + prior.log_density("lengthscale", np.log(lengthscale), 1.0)[0]
            + prior.log_density("output_scale", np.log(scale * variance), 1.0)[0]
        )

    best, length = density(gp.kernel_.lengthscale, 1.0), gp.kernel_.lengthscale
    for moved in (
        density(1.2 * length, 1.0),
        density(length / 1.2, 1.0),
        density(length, 1.2),
        density(length, 0.8),
    ):
        assert moved < best + 2e-3


# -- branches, on few observations -----------------------------------------------------------------

FEW = np.arange(0, 34, 3)
COUNTS = np.random.default_rng(0).poisson(np.exp(1 + np.sin(FEW / 5)))


def _fit(graph, **settings):
    settings = {
        "kernel": KERNEL,
        "likelihood": "poisson",
        "method": "series",
        "seed": 0,
        **settings,
    }
    return grf.GraphGPRegressor(graph, **settings).fit(FEW, COUNTS)


@pytest.mark.parametrize("normalize", [True, False])
def test_a_known_output_scale_is_the_variance_of_f_for_every_point(karate, normalize):
    gp = _fit(karate, output_scale=0.5, numerics=grf.gp.Numerics(normalize=normalize))
    assert gp.n_points_ > 1
    for point in gp._fitted.points:
        variance = np.diag(point.kernel.dense(karate)).mean() if normalize else 1.0
        assert point.amplitude * variance == pytest.approx(0.5, rel=1e-9)
    mode = _fit(
        karate,
        output_scale=0.5,
        hyperparameters="mode",
        numerics=grf.gp.Numerics(normalize=normalize),
    )
    variance = np.diag(mode.kernel_.dense(karate)).mean() if normalize else 1.0
    assert mode._fitted.amplitude * variance == pytest.approx(0.5, rel=1e-6)


def test_methods_have_the_same_points(karate):
    series, precision = (
        _fit(karate, method=method)._fitted.points for method in ("series", "precision")
    )
    assert len(series) == len(precision) > 1
    for one, other in zip(series, precision, strict=True):
        assert one.kernel.lengthscale == pytest.approx(other.kernel.lengthscale, rel=1e-3)
        assert (one.output_scale, one.weight) == pytest.approx(
            (other.output_scale, other.weight), rel=1e-3
        )


def test_averages_by_sampled_rows_keep_to_the_laplacian_of_the_rows(karate):
    gp = _fit(karate, kernel="auto", method="features")
    assert len({own.kernel.laplacian for own in gp.candidates_}) == 2
    assert {point.kernel.laplacian for point in gp._fitted.points} == {gp.sampler_.laplacian}


def test_hyperparameters_without_a_prior_are_at_the_mode_of_each_point(karate):
    gp = _fit(karate, optimize=("nu", "lengthscale"))
    assert gp.kernel_.nu != KERNEL.nu
    assert len({point.kernel.nu for point in gp._fitted.points}) == 1
    assert len({point.kernel.lengthscale for point in gp._fitted.points}) > 1
    mode = _fit(karate, optimize=("nu", "lengthscale"), hyperparameters="mode")
    assert mode.kernel_.nu != KERNEL.nu


def test_the_mode_of_blocks_is_continued_by_the_precision_of_all(karate):
    settings = {"hyperparameters": "mode", "prior": {"output_scale": (1.0, 2.0)}}
    whole = _fit(karate, **settings)
    few = settings | {"numerics": grf.gp.Numerics(max_train=6)}
    blocks, precision = (_fit(karate, method=own, **few) for own in ("series", "precision"))
    # the prior of the output scale is in the mean variance at the observed nodes, or at all
    assert precision.log_marginal_likelihood_ == pytest.approx(
        whole.log_marginal_likelihood_, abs=0.05
    )
    # Otherwise nothing was tested.
    assert blocks.log_marginal_likelihood_ < whole.log_marginal_likelihood_ - 0.2


@pytest.mark.parametrize("hyperparameters", ["average", "mode"])
def test_a_kernel_that_vanishes_is_refused(karate, hyperparameters):
    kernel = grf.kernels.LearnedModulation(2, (0.0, 0.0, 0.0))
    with pytest.raises(ValueError, match="a matrix cannot be factored"):
        _fit(karate, kernel=kernel, optimize=False, hyperparameters=hyperparameters)
