"""GraphGPRegressor against textbook formulas with dense matrices, and as an honest forecaster."""

from __future__ import annotations

import warnings

import networkx as nx
import numpy as np
import pytest

import graphrf as grf
from graphrf.gp.covariance.covariance import Covariance
from graphrf.gp.posterior.spectral_solver import SpectralCG
from graphrf.operators.solvers import ConjugateGradients
from tests.support.dense_gp import dense_posterior, no_mean

# Some graphs have a node without an edge on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:.* without an edge:UserWarning")

KERNEL = grf.Diffusion(3.0)
FIXED = {
    "numerics": grf.gp.Numerics(std_method="exact"),
    "optimize": False,
    "output_scale": 2.0,
    "noise": 0.05,
    "seed": 0,
}


@pytest.fixture(scope="module")
def big_grid():
    """A 20 x 20 grid with one isolated node."""
    graph = nx.grid_2d_graph(20, 20)
    graph.add_node("alone")
    return grf.Graph(nx.to_scipy_sparse_array(graph))


def _draw(graph, kernel, n, seed, p=1, noise=0.05, scale=2.0):
    """Draws of the normalised prior at all nodes, and noisy values at n of them."""
    rng = np.random.default_rng(seed)
    dense = kernel.dense(graph)
    root = kernel.dense_root(graph) / np.sqrt(np.trace(dense) / graph.n_nodes)
    truth = np.sqrt(scale) * root @ rng.standard_normal((graph.n_nodes, p))
    nodes = rng.choice(graph.n_nodes, n, replace=False)
    return truth, nodes, truth[nodes] + np.sqrt(noise) * rng.standard_normal((n, p))


# -- against the textbook ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "mean", "solver"),
    [
        (KERNEL, "constant", "cholesky"),
        (grf.Matern(1.5, 4.0), "zero", "cg"),
        (grf.kernels.InverseCosine(), "zero", "cholesky"),
        (grf.Diffusion(1.0, laplacian="combinatorial"), "constant", "cg"),
    ],
    ids=repr,
)
def test_series_posterior_is_the_dense_gaussian_process(grid, kernel, mean, solver):
    _, nodes, y = _draw(grid, KERNEL, 50, seed=1, p=2)
    y = y + 3.0
    gp = grf.GraphGPRegressor(
        grid,
        kernel=kernel,
        method="series",
        mean=mean,
        **FIXED | {"numerics": grf.gp.Numerics(std_method="exact", solver=solver)},
    )
    gp.fit(nodes, y)
    dense = kernel.dense(grid)
    prior = 2.0 * dense / (np.trace(dense) / 144)
    root = np.sqrt(2.0 / (np.trace(dense) / 144)) * kernel.dense_root(grid)
    basis = no_mean(144) if mean == "zero" else None
    expected, covariance = dense_posterior(root, nodes, y, 0.05, basis=basis)
    got, std = gp.predict(return_std=True)
    # the inverse cosine's root is cut after 20,000 terms: the error of its square is largest, 1e-5,
    # on graphs that are bipartite, as this one
    atol = 2e-5 if kernel == grf.kernels.InverseCosine() else 1e-6
    np.testing.assert_allclose(got, expected, atol=atol)
    np.testing.assert_allclose(std[:, 0] ** 2, np.diagonal(covariance), atol=atol)
    np.testing.assert_allclose(gp.predict(return_cov=True)[1], covariance, atol=atol)
    np.testing.assert_allclose(gp.prior_covariance(), prior, atol=1e-7)
    assert np.linalg.norm(gp.prior_covariance() - prior, 2) <= 2.0 * gp.truncation_error_ + 1e-7
    assert gp.solver_ == solver
    assert gp.converged_


@pytest.mark.parametrize("solver", ["cholesky", "cg"])
def test_walks_predict_by_sampled_rows_observed_and_tell_the_error_of_that(grid, solver):
    _, nodes, y = _draw(grid, KERNEL, 50, seed=1)
    sampler = grf.RandomWalks(n_walks=16, lengths=grf.sampling.Truncated(20))
    gp = grf.GraphGPRegressor(
        grid,
        kernel=KERNEL,
        method="features",
        **FIXED | {"numerics": grf.gp.Numerics(std_method="exact", sampler=sampler, solver=solver)},
    ).fit(nodes, y[:, 0])
    phi = (
        grf.sample_features(grid, sampler, seed=gp.seed_, dtype="float64").matrix(KERNEL).toarray()
    )
    scale = np.sqrt(2.0 / gp.mean_variance_)
    exact = scale * KERNEL.dense_root(grid)
    expected, covariance = dense_posterior(exact, nodes, y[:, 0], 0.05, seen=scale * phi)
    got, std = gp.predict(return_std=True)
    np.testing.assert_allclose(got, expected, atol=1e-6)
    np.testing.assert_allclose(std**2, np.diagonal(covariance), atol=1e-6)
    np.testing.assert_allclose(
        gp.predict([5, 9], return_cov=True)[1], covariance[np.ix_([5, 9], [5, 9])], atol=1e-6
    )
    # and not that of the exact kernel, from which walks differ and whose errors are smaller, nor
    # that of sampled rows at queried nodes
    best, least = dense_posterior(exact, nodes, y[:, 0], 0.05)
    assert np.abs(got - best).max() > 1e-3
    assert (np.diagonal(covariance) - np.diagonal(least)).max() > 1e-3
    assert (std**2 >= np.diagonal(least) - 1e-6).all()
    assert np.abs(got - dense_posterior(scale * phi, nodes, y[:, 0], 0.05)[0]).max() > 1e-3


def test_repeated_observations_equal_their_averages_with_smaller_noise(grid):
    _, nodes, y = _draw(grid, KERNEL, 30, seed=3)
    y = y[:, 0]
    shift = np.random.default_rng(0).standard_normal(30)
    twice = grf.GraphGPRegressor(grid, kernel=KERNEL, **FIXED)
    twice.fit(np.concatenate([nodes, nodes]), np.concatenate([y + shift, y - shift]))
    once = grf.GraphGPRegressor(grid, kernel=KERNEL, **{**FIXED, "noise": 0.025}).fit(nodes, y)
    for a, b in zip(twice.predict(return_std=True), once.predict(return_std=True), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)
    assert twice.n_observations_ == 60
    assert twice.n_observed_nodes_ == 30


# -- as a forecaster -----------------------------------------------------------------------------


def test_hyperparameters_of_a_draw_are_recovered(big_grid):
    _, nodes, y = _draw(big_grid, grf.Diffusion(4.0), 300, seed=6, p=6)
    settings = {
        "kernel": "diffusion",
        "method": "series",
        "mean": "zero",
        "hyperparameters": "mode",
        "seed": 0,
    }
    gp = grf.GraphGPRegressor(big_grid, **settings).fit(nodes, y)
    # six draws of some 25 independent regions each: relative errors of 1 / sqrt(150 / 2) in the
    # scale, far less in lengthscale and noise
    assert abs(gp.kernel_.lengthscale / 4.0 - 1) < 0.15
    assert abs(gp.noise_ / 0.05 - 1) < 0.2
    assert abs(gp.output_scale_ / 2.0 - 1) < 0.5
    assert gp.converged_


@pytest.mark.filterwarnings("ignore:the sampled rows of")
def test_variances_of_walks_are_never_negative(big_grid):
    # With the exact diagonal in place of the walks' own, a third and more of these variances are
    # negative: the control shows that the case is a hard one.
    kernel = grf.Diffusion(4.0)
    _, nodes, y = _draw(big_grid, kernel, 300, seed=10, noise=0.01)
    sampler = grf.RandomWalks(n_walks=16, directions="independent", lengths=grf.sampling.IID(0.1))
    gp = grf.GraphGPRegressor(
        big_grid,
        kernel=kernel,
        method="features",
        numerics=grf.gp.Numerics(sampler=sampler),
        optimize=False,
        output_scale=1.0,
        noise=0.01,
        seed=0,
    ).fit(nodes, y[:, 0])
    _, covariance = gp.predict(return_cov=True)
    variance = np.diagonal(covariance)
    assert variance.min() > -1e-10
    assert np.isfinite(gp.predict(return_std=True)[1]).all()
    features = grf.sample_features(big_grid, sampler, seed=gp.seed_, dtype="float64")
    own = np.diagonal(features.gram(kernel)) / gp.mean_variance_
    mixed = variance - own + np.diagonal(gp.prior_covariance())
    assert (mixed < 0).mean() > 0.1


@pytest.mark.parametrize("even", [False, True])
def test_inexact_solves_never_make_variances_too_small(big_grid, monkeypatch, even):
    monkeypatch.setattr("graphrf.gp.methods.rows._PRECONDITIONER_RANK", 5)
    monkeypatch.setattr("graphrf.gp.methods.series.evenly_observed", lambda *_: even)
    _, nodes, y = _draw(big_grid, KERNEL, 200, seed=11)
    settings = {"kernel": KERNEL, **FIXED, "noise": 1e-3}
    exact = grf.GraphGPRegressor(big_grid, **settings).fit(nodes, y[:, 0])
    settings["numerics"] = grf.gp.Numerics(std_method="exact", solver="cg", tol=0.3)
    rough = grf.GraphGPRegressor(big_grid, **settings).fit(nodes, y[:, 0])
    _, std = exact.predict(return_std=True)
    _, wider = rough.predict(return_std=True)
    assert (wider >= std - 1e-9).all()
    assert (wider > std + 1e-5).any()


def test_sampled_deviations_are_the_exact_ones_within_their_standard_error(big_grid):
    _, nodes, y = _draw(big_grid, KERNEL, 40, seed=12)
    settings = {"kernel": KERNEL, **FIXED}
    _, exact = (
        grf.GraphGPRegressor(big_grid, **settings).fit(nodes, y[:, 0]).predict(return_std=True)
    )
    for method in ("series", "features"):
        sampler = grf.sampling.ExactPowers(40) if method == "features" else None
        settings |= {
            "method": method,
            "numerics": grf.gp.Numerics(sampler=sampler, std_method="sampled"),
        }
        gp = grf.GraphGPRegressor(big_grid, **settings).fit(nodes, y)
        _, sampled = gp.predict(return_std=True)
        error = sampled[:, 0] / exact - 1
        assert np.abs(error).max() < 5 / np.sqrt(2 * 64)
        assert 0.5 < error.std() * np.sqrt(2 * 64) < 1.5
        # drawn once: the same whatever is asked for, and in whatever order
        np.testing.assert_array_equal(gp.predict([7, 3], return_std=True)[1], sampled[[7, 3]])
        np.testing.assert_array_equal(
            gp.fit(nodes, y).predict([7], return_std=True)[1], sampled[[7]]
        )


# -- known and unknown hyperparameters ------------------------------------------------------------


def test_nothing_is_averaged_where_nothing_is_trained(grid):
    _, nodes, y = _draw(grid, KERNEL, 40, seed=5)
    every, mode = (
        grf.GraphGPRegressor(grid, kernel=KERNEL, hyperparameters=which, **FIXED).fit(
            nodes, y[:, 0]
        )
        for which in ("average", "mode")
    )
    assert every.n_points_ == mode.n_points_ == 1
    for one, other in zip(
        every.predict(return_std=True), mode.predict(return_std=True), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(
        every.sample(n_samples=3, seed=1), mode.sample(n_samples=3, seed=1)
    )


# -- one observed share everywhere, or not -------------------------------------------------------


def test_conjugate_gradients_take_few_steps_where_nodes_are_observed_evenly(big_grid, monkeypatch):
    _, nodes, y = _draw(big_grid, KERNEL, 300, seed=3)
    settings = {
        "kernel": grf.Diffusion(6.0),
        **FIXED,
        "numerics": grf.gp.Numerics(solver="cg", tol=1e-8),
    }
    gp = grf.GraphGPRegressor(big_grid, **settings).fit(nodes, y)
    assert isinstance(gp._posterior._solver, SpectralCG)
    monkeypatch.setattr("graphrf.gp.methods.series.evenly_observed", lambda *_: False)
    monkeypatch.setattr("graphrf.gp.methods.rows._PRECONDITIONER_RANK", 1)
    plain = grf.GraphGPRegressor(big_grid, **settings).fit(nodes, y)
    assert isinstance(plain._posterior._solver, ConjugateGradients)
    assert 2 * gp._posterior.solution.iterations < plain._posterior.solution.iterations
    np.testing.assert_allclose(gp.predict(), plain.predict(), atol=1e-5)


def test_one_corner_observed_is_not_even(big_grid):
    corner = np.arange(150)
    settings = FIXED | {"numerics": grf.gp.Numerics(std_method="exact", solver="cg")}
    gp = grf.GraphGPRegressor(big_grid, kernel=KERNEL, **settings).fit(corner, np.sin(corner / 9))
    assert isinstance(gp._posterior._solver, ConjugateGradients)


# -- walks that suit -----------------------------------------------------------------------------


def test_default_walks_are_as_long_as_the_trained_kernel_needs(big_grid):
    _, nodes, y = _draw(big_grid, grf.Diffusion(8.0), 200, seed=12, p=4)
    settings = {"kernel": "diffusion", "method": "features", "hyperparameters": "mode", "seed": 0}
    gp = grf.GraphGPRegressor(big_grid, **settings).fit(nodes, y)
    length = gp.sampler_.max_length
    assert length > 16
    assert length >= gp.kernel_.truncation_length(1e-3)
    f = gp.kernel_.modulation_tail
    assert np.isclose(gp.truncation_error_ * gp.mean_variance_, f(length) * (2 * f(-1) - f(length)))
    assert gp.truncation_error_ * gp.mean_variance_ < 2e-3 * f(-1) ** 2


def test_walks_too_short_for_the_data_are_reported(big_grid):
    _, nodes, y = _draw(big_grid, grf.Diffusion(8.0), 200, seed=12, p=4)
    short = grf.RandomWalks(n_walks=16, lengths=grf.sampling.Truncated(4))
    gp = grf.GraphGPRegressor(
        big_grid,
        kernel="diffusion",
        method="features",
        numerics=grf.gp.Numerics(sampler=short),
        seed=0,
    )
    with pytest.warns(UserWarning, match="a longer `sampler`"):
        gp.fit(nodes, y)
    assert gp.kernel_.truncation_length(1e-3) <= 4


def test_a_lengthscale_that_ends_at_the_largest_that_training_looks_at_is_reported():
    graph = grf.Graph(nx.to_scipy_sparse_array(nx.grid_2d_graph(30, 30)))
    nodes = np.random.default_rng(0).choice(900, 60, replace=False)
    ramp = np.arange(900) // 30 / 29
    settings = {
        "method": "series",
        "noise": 1e-3,
        "prior": None,
        "hyperparameters": "mode",
        "seed": 0,
    }
    with pytest.warns(UserWarning, match="the largest lengthscale that is searched, 100") as caught:
        gp = grf.GraphGPRegressor(graph, kernel=grf.Matern(nu=1.5), **settings).fit(
            nodes, ramp[nodes]
        )
    assert [warning.filename for warning in caught] == [__file__]
    assert gp.kernel_.hyperparameters["lengthscale"] == pytest.approx(100.0)
    grf.GraphGPRegressor(graph, kernel=gp.kernel_, optimize=False, **settings).fit(
        nodes, ramp[nodes]
    )


def test_walks_that_end_too_early_for_the_kernel_are_reported(big_grid):
    _, nodes, y = _draw(big_grid, KERNEL, 50, seed=12)
    early = grf.RandomWalks(n_walks=16, lengths=grf.sampling.IID(0.5))
    with pytest.warns(grf.features.HeavyTailWarning, match="end too early"):
        grf.GraphGPRegressor(
            big_grid,
            kernel=grf.Diffusion(8.0),
            method="features",
            **FIXED | {"numerics": grf.gp.Numerics(std_method="exact", sampler=early)},
        ).fit(nodes, y)


def test_auto_takes_the_series_where_it_is_affordable_and_walks_beyond(grid, monkeypatch):
    nodes, y = np.arange(0, 144, 10), np.sin(np.arange(0, 144, 10) / 20)
    assert grf.GraphGPRegressor(grid, seed=0).fit(nodes, y).method_ == "precision"
    assert grf.GraphGPRegressor(grid, kernel="diffusion", seed=0).fit(nodes, y).method_ == "series"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of longer lengthscales than rows serve
        sampled = grf.GraphGPRegressor(
            grid, numerics=grf.gp.Numerics(sampler=grf.RandomWalks(16)), seed=0
        ).fit(nodes, y)
    assert sampled.method_ == "features"
    monkeypatch.setattr("graphrf.gp.methods.costs.SERIES_BUDGET", 0.0)
    monkeypatch.setattr("graphrf.gp.methods.costs._MUCH_CHEAPER", 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of longer lengthscales than rows serve
        assert (
            grf.GraphGPRegressor(grid, kernel="diffusion", seed=0).fit(nodes, y).method_
            == "features"
        )


def test_the_same_seed_gives_the_same_bits_on_any_number_of_threads(grid):
    _, nodes, y = _draw(grid, KERNEL, 60, seed=13)
    for method in ("features", "series"):
        results = []
        for n_threads in (1, 2):
            numerics = grf.gp.Numerics(max_train=40, n_threads=n_threads)
            gp = grf.GraphGPRegressor(
                grid, kernel="diffusion", method=method, numerics=numerics, seed=5
            )
            gp.fit(nodes, y[:, 0])
            results.append(
                np.concatenate([*gp.predict(return_std=True), gp.sample([3, 4], seed=1)[0]])
            )
        np.testing.assert_array_equal(*results)
    given = {"kernel": KERNEL, "method": "features", "optimize": False}
    assert grf.GraphGPRegressor(grid, seed=6, **given).fit(nodes, y[:, 0]).seed_ == 6
    assert grf.GraphGPRegressor(grid, **given).fit(nodes, y[:, 0]).seed_ is not None


def test_means_at_all_nodes_are_made_once(grid, monkeypatch):
    made = []
    values = Covariance.root_values
    monkeypatch.setattr(Covariance, "root_values", lambda *given: made.append(1) or values(*given))
    gp = grf.GraphGPRegressor(
        grid, kernel=grf.Diffusion(2.0), optimize=False, noise=0.1, method="series", seed=0
    )
    gp.fit([0, 5, 9], [1.0, -1.0, 0.5])
    everywhere = gp.predict()
    n_made = len(made)
    np.testing.assert_array_equal(gp.predict([7, 3]), everywhere[[7, 3]])
    assert n_made == len(made) >= 1
