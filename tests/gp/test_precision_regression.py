"""GraphGPRegressor by sparse precisions, as a user calls it."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import graphrf as grf
from graphrf.operators.sparse.ordering import Elimination

# Some graphs have a node without an edge on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:.* without an edge:UserWarning")

KERNEL = grf.Matern(nu=2.0, lengthscale=4.0)


@pytest.fixture(scope="module")
def roads():
    """A grid of 20 x 20 without a quarter of its edges, in several components."""
    grid = nx.grid_2d_graph(20, 20)
    rng = np.random.default_rng(0)
    grid.remove_edges_from([edge for edge in list(grid.edges) if rng.random() < 0.25])
    return grf.Graph(nx.to_scipy_sparse_array(grid))


@pytest.fixture(scope="module")
def observed(roads):
    signal = 3 * grf.apply_root(roads, KERNEL, np.random.default_rng(1).standard_normal(400))
    nodes = np.random.default_rng(2).choice(400, 150, replace=False)
    return nodes, signal[nodes] + 0.1 * np.random.default_rng(4).standard_normal(150)


def test_predictions_are_those_of_the_series(roads, observed):
    settings = {"kernel": grf.Matern(nu=2.0), "seed": 0, "hyperparameters": "mode"}
    series = grf.GraphGPRegressor(roads, method="series", **settings).fit(*observed)
    sparse = grf.GraphGPRegressor(roads, method="precision", **settings).fit(*observed)
    assert (sparse.method_, sparse.solver_, sparse.converged_) == ("precision", "cholesky", True)
    for ask in (
        {"return_std": True},
        {"return_std": "observation"},
        {"nodes": [5, 399, 5], "return_cov": True},
    ):
        for one, other in zip(series.predict(**ask), sparse.predict(**ask), strict=True):
            # Two searches find one optimum.
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("noise", [1e-2, 1e-6])
def test_rounding_that_is_not_warned_of_does_not_show(noise):
    graph = grf.Graph(nx.to_scipy_sparse_array(nx.grid_2d_graph(16, 16)))
    nodes = np.random.default_rng(0).choice(256, 60, replace=False)
    kernel = grf.Matern(nu=3.0, lengthscale=170.0)  # eigenvalues span 9e11
    numerics = grf.gp.Numerics(normalize=False)
    settings = {
        "optimize": False,
        "output_scale": 1.0,
        "numerics": numerics,
        "mean": "zero",
        "seed": 0,
    }
    found = [
        grf.GraphGPRegressor(graph, kernel=kernel, method=method, noise=noise, **settings)
        .fit(nodes, np.sin(nodes / 50))
        .predict(return_std=True)
        for method in ("series", "precision")
    ]
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-4)


def test_averages_over_hyperparameters_are_those_of_the_series(roads, observed):
    nodes, y = observed
    settings = {"kernel": grf.Matern(nu=1.0), "seed": 0}
    found = [
        grf.GraphGPRegressor(roads, method=method, **settings).fit(nodes[:40], y[:40])
        for method in ("series", "precision")
    ]
    assert found[1].n_points_ == found[0].n_points_ > 1
    for one, other in zip(*(gp.predict(return_std=True) for gp in found), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_beyond_the_training_blocks_hyperparameters_maximise_the_likelihood_of_all(roads, observed):
    def fitted(**settings):
        settings = {"kernel": grf.Matern(nu=2.0), "hyperparameters": "mode", "seed": 0, **settings}
        gp = grf.GraphGPRegressor(roads, **settings).fit(*observed)
        return gp, (gp.kernel_.lengthscale, gp.noise_)

    exact, best = fitted(method="series")
    _, rough = fitted(method="series", numerics=grf.gp.Numerics(max_train=60))
    sparse, found = fitted(method="precision", numerics=grf.gp.Numerics(max_train=60))
    assert found == pytest.approx(best, rel=1e-2)
    assert rough != pytest.approx(best, rel=1e-2)  # or nothing was tested
    assert sparse.log_marginal_likelihood_ == pytest.approx(
        exact.log_marginal_likelihood_, abs=0.01
    )


def test_an_average_has_the_same_bits_on_any_number_of_threads():
    grid = nx.grid_2d_graph(70, 70)
    rng = np.random.default_rng(0)
    nodes, found = rng.choice(4_900, 120, replace=False), []
    for n_threads in (1, 3):
        graph = grf.load_graph(grid)  # nothing is known of it
        f = grf.apply_root(
            graph, grf.Matern(nu=2.0, lengthscale=40.0), np.random.default_rng(1).normal(size=4_900)
        )
        gp = grf.GraphGPRegressor(graph, seed=0, numerics=grf.gp.Numerics(n_threads=n_threads)).fit(
            nodes, f[nodes]
        )
        assert gp.method_ == "precision"
        assert gp.n_points_ > 1
        found.append((*gp.predict(return_std=True), gp.predict(nodes[:9], return_cov=True)[1]))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("settings", [{"output_scale": 4.0}, {"optimize": False, "noise": 0.02}])
def test_what_is_fixed_stays_so(roads, observed, settings):
    settings = settings | {"kernel": KERNEL, "hyperparameters": "mode", "seed": 0}
    gp = grf.GraphGPRegressor(
        roads, method="precision", numerics=grf.gp.Numerics(max_train=60), **settings
    ).fit(*observed)
    assert gp.output_scale_ == settings.get("output_scale", gp.output_scale_)
    assert gp.noise_ == settings.get("noise", gp.noise_)
    series = grf.GraphGPRegressor(roads, method="series", **settings).fit(*observed)
    assert gp.noise_ == pytest.approx(series.noise_, rel=0.03)
    assert gp.kernel_.lengthscale == pytest.approx(series.kernel_.lengthscale, rel=0.03)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel": "diffusion"}, "`kernel` must have a sparse precision for method='precision'"),
        ({"kernel": grf.Matern(0.7)}, "5/2, 3 or 4, or an areal kernel, got Matern"),
        (
            {"numerics": grf.gp.Numerics(sampler=grf.RandomWalks(4))},
            "`sampler` is for method='features'; 'precision' samples nothing",
        ),
        (
            {"numerics": grf.gp.Numerics(feature_sampler=grf.sample_features)},
            "`feature_sampler` is for method='features'; 'precision' samples nothing",
        ),
        (
            {"numerics": grf.gp.Numerics(solver="cg")},
            "`solver` must be 'auto' or 'cholesky' for method='precision', got 'cg'",
        ),
        (
            {"kernel": KERNEL, "optimize": ["nu"]},
            "must not name 'nu' or 'power' with method='precision'",
        ),
        ({"kernel": grf.Matern(2.0, 1e9), "optimize": False, "noise": 1.0}, "numerically singular"),
    ],
)
def test_settings_that_do_not_go_with_it_are_refused(roads, observed, settings, message):
    with pytest.raises(ValueError, match=message):
        grf.GraphGPRegressor(roads, method="precision", **settings).fit(*observed)


def test_a_factor_that_does_not_fit_is_refused_with_the_way_out():
    star = grf.load_graph(nx.star_graph(20_000))
    gp = grf.GraphGPRegressor(
        star, kernel=KERNEL, method="precision", optimize=False, noise=0.1, seed=0
    )
    with pytest.raises(
        MemoryError, match=r"no small factor; use method='series' or 'features', .* smaller `nu`"
    ):
        gp.fit([0, 5], [0.0, 1.0])


def test_weights_over_many_orders_of_magnitude_warn():
    path = nx.path_graph(50)
    for number, edge in enumerate(path.edges):
        path.edges[edge]["weight"] = 10.0 ** (-6 if number % 2 else 6)
    graph = grf.load_graph(path, weight="weight")
    kernel = grf.Matern(nu=1.0, lengthscale=1e3, laplacian="combinatorial")
    gp = grf.GraphGPRegressor(
        graph,
        kernel=kernel,
        method="precision",
        optimize=False,
        noise=0.1,
        hyperparameters="mode",
        seed=0,
    )
    with pytest.warns(UserWarning, match="1[0-9] of 16 digits may be lost to rounding"):
        gp.fit([0, 20, 40], [0.0, 1.0, 0.0])
    _, std = gp.predict(return_std=True)
    assert np.isfinite(std).all()


def test_the_order_of_elimination_is_found_once_for_a_graph(observed, monkeypatch):
    settings = {"kernel": KERNEL, "method": "precision", "hyperparameters": "mode", "seed": 0}
    graph = grf.load_graph(nx.grid_2d_graph(20, 20))
    found = grf.GraphGPRegressor(graph, **settings).fit(*observed)
    monkeypatch.setattr(Elimination, "of", None)
    again = grf.GraphGPRegressor(graph, **settings).fit(*observed)
    np.testing.assert_array_equal(found.predict(), again.predict())
