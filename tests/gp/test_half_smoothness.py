"""Gaussian processes by precisions with hidden layers: Matern kernels, nu 1/2, 3/2, 5/2."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from scipy import optimize

import graphrf as grf
from graphrf.gp import LatentGaussianModel, Nodes
from graphrf.operators.precision import markov
from graphrf.operators.precision.root_chain import LARGEST_ERROR, layers_needed

# The graph has a node without an edge on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:.* without an edge:UserWarning")

# Relative to standard deviations: what kernels with more layers than by default may be off by.
OFF, LAYERS_OFF = 1e-3, 2e-4
NOISE = 0.04


@pytest.fixture(autouse=True)
def _more_layers(monkeypatch):
    monkeypatch.setattr(markov, "layers_needed", lambda ratio: layers_needed(ratio, LAYERS_OFF))


@pytest.fixture(scope="module")
def graph():
    """A weighted grid of 14 x 14 without a quarter of its edges, with an isolated node."""
    grid, rng = nx.grid_2d_graph(14, 14), np.random.default_rng(0)
    grid.remove_edges_from([edge for edge in list(grid.edges) if rng.random() < 0.25])
    for edge in grid.edges:
        grid.edges[edge]["weight"] = rng.uniform(0.5, 2.0)
    grid.add_node("alone")
    return grf.Graph(nx.to_scipy_sparse_array(grid, weight="weight"))


@pytest.fixture(scope="module")
def observed(graph):
    kernel = grf.Matern(nu=1.5, lengthscale=4.0)
    f = grf.apply_root(graph, kernel, np.random.default_rng(1).standard_normal(graph.n_nodes))
    nodes = np.random.default_rng(2).choice(graph.n_nodes - 1, 90, replace=False)
    return nodes, f[nodes] + NOISE**0.5 * np.random.default_rng(3).standard_normal(90)


def _dense(graph, kernel, nodes, y):
    """Means and deviations at all nodes, and the log likelihood, for noise NOISE and no mean."""
    k = kernel.dense(graph)
    inner = k[np.ix_(nodes, nodes)] + NOISE * np.eye(nodes.size)
    solved = np.linalg.solve(inner, np.column_stack([y, k[nodes]]))
    variances = np.diagonal(k) - np.einsum("ij,ij->j", k[nodes], solved[:, 1:])
    log_likelihood = -0.5 * (
        y @ solved[:, 0] + np.linalg.slogdet(inner)[1] + y.size * np.log(2 * np.pi)
    )
    return k[:, nodes] @ solved[:, 0], np.sqrt(variances), log_likelihood


FIXED = {
    "noise": NOISE,
    "output_scale": 1.0,
    "numerics": grf.gp.Numerics(normalize=False),
    "mean": "zero",
}
SETTINGS = FIXED | {"method": "precision", "seed": 0}


@pytest.mark.parametrize(
    ("nu", "lengthscale", "laplacian"),
    [
        (0.5, 3.0, "normalized"),
        (0.5, 90.0, "combinatorial"),
        (1.5, 8.0, "normalized"),
        (2.5, 20.0, "combinatorial"),
    ],
)
def test_posteriors_are_those_of_dense_algebra(graph, observed, nu, lengthscale, laplacian):
    kernel = grf.Matern(nu=nu, lengthscale=lengthscale, laplacian=laplacian)
    mean, deviation, likelihood = _dense(graph, kernel, *observed)
    gp = grf.GraphGPRegressor(graph, kernel=kernel, optimize=False, **SETTINGS).fit(*observed)
    found = gp.predict(return_std=True)
    assert np.abs(found[0] - mean).max() <= OFF * np.abs(observed[1]).max()
    assert (np.abs(found[1] / deviation - 1) <= OFF).all()
    assert gp.log_marginal_likelihood_ == pytest.approx(likelihood, abs=0.02)
    np.testing.assert_allclose(
        gp.prior_covariance(), kernel.dense(graph), atol=2 * OFF * kernel.dense(graph).max()
    )


def test_by_default_deviations_are_off_by_a_fortieth_at_most(graph, observed, monkeypatch):
    monkeypatch.setattr(markov, "layers_needed", layers_needed)
    kernel = grf.Matern(nu=1.5, lengthscale=8.0)
    _, deviation, _ = _dense(graph, kernel, *observed)
    gp = grf.GraphGPRegressor(graph, kernel=kernel, optimize=False, **SETTINGS).fit(*observed)
    off = np.abs(gp.predict(return_std=True)[1] / deviation - 1).max()
    assert OFF < off <= LARGEST_ERROR


def test_draws_have_the_covariance_of_the_posterior(graph, observed):
    kernel = grf.Matern(nu=0.5, lengthscale=4.0)
    gp = grf.GraphGPRegressor(graph, kernel=kernel, optimize=False, **SETTINGS).fit(*observed)
    mean, covariance = gp.predict([0, 7, 100], return_cov=True)
    draws = gp.sample([0, 7, 100], 1_000, seed=0)
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=0.1)
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=0.12 * covariance.max())


@pytest.mark.parametrize("nu", [0.5, 2.5])
def test_the_trained_lengthscale_is_that_of_the_dense_likelihood(graph, observed, nu):
    found = optimize.minimize_scalar(
        lambda length: -_dense(graph, grf.Matern(nu=nu, lengthscale=np.exp(length)), *observed)[2],
        bounds=(-1.0, 4.0),
        method="bounded",
        options={"xatol": 1e-5},
    )
    settings = SETTINGS | {"hyperparameters": "mode", "kernel": grf.Matern(nu=nu), "prior": None}
    gp = grf.GraphGPRegressor(graph, **settings).fit(*observed)
    assert gp.converged_
    assert gp.kernel_.lengthscale == pytest.approx(np.exp(found.x), rel=2e-3)


def test_counts_are_those_of_the_series(graph, observed):
    nodes, f = observed
    y = np.random.default_rng(5).poisson(np.exp(1 + 0.5 * f))
    settings = {"kernel": grf.Matern(nu=0.5, lengthscale=4.0), "likelihood": "poisson", "seed": 0}
    series, layers = (
        grf.GraphGPRegressor(graph, method=method, hyperparameters="mode", **settings).fit(nodes, y)
        for method in ("series", "precision")
    )
    asked = np.arange(graph.n_nodes - 1)
    for one, other in zip(
        *(gp.predict(asked, return_std=True) for gp in (series, layers)), strict=True
    ):
        np.testing.assert_allclose(other, one, rtol=5 * OFF)


def test_classes_are_those_of_the_series(graph, observed):
    nodes = observed[0]
    settings = {"kernel": grf.Matern(nu=1.5, lengthscale=4.0), "seed": 0}
    series, layers = (
        grf.GraphGPClassifier(graph, method=method, **settings).fit(nodes, nodes % 14 > 6)
        for method in ("series", "precision")
    )
    np.testing.assert_allclose(layers.predict_proba(), series.predict_proba(), atol=OFF)


def test_terms_of_nodes_are_those_of_dense_algebra(graph, observed):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("formulaic")
    nodes, y = observed[0], observed[1] + 0.4 * np.random.default_rng(6).standard_normal(90)
    nu = 1.5
    term = Nodes(graph, grf.Matern(nu=nu, lengthscale=4.0))
    model = LatentGaussianModel(
        "y ~ 1", term, coefficient_deviation=5.0, hyperparameters="mode", seed=0
    )
    model.fit(pandas.DataFrame({"y": y, "node": nodes}))
    found = model.summary()["mean"]
    kernel = grf.Matern(nu=nu, lengthscale=found["lengthscale(node)"])
    dense = kernel.dense(graph)
    covariance = 25.0 + found["sd(node)"] ** 2 / np.diagonal(dense).mean() * dense
    inner = covariance[np.ix_(nodes, nodes)] + found["scale"] ** 2 * np.eye(nodes.size)
    solved = np.linalg.solve(inner, np.column_stack([y, covariance[nodes]]))
    variances = np.diagonal(covariance) - np.einsum("ij,ij->j", covariance[nodes], solved[:, 1:])
    everywhere = pandas.DataFrame({"node": np.arange(graph.n_nodes)})
    mean, deviation = model.predict(everywhere, return_std=True, latent=True)
    np.testing.assert_allclose(mean, covariance[:, nodes] @ solved[:, 0], atol=OFF)
    np.testing.assert_allclose(deviation, np.sqrt(variances), rtol=OFF)
