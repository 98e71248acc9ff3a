"""GraphGPRegressor inside scikit-learn, its shapes, and what it says of bad input."""

from __future__ import annotations

import subprocess
import sys

import networkx as nx
import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.utils.validation import check_is_fitted

import graphrf as grf

NODES = np.arange(0, 144, 3)
KNOWN = {
    "kernel": grf.Diffusion(3.0),
    "optimize": False,
    "output_scale": 1.0,
    "noise": 0.01,
    "seed": 0,
}


@pytest.fixture(scope="module")
def signal():
    return np.sin(np.arange(144) / 12) + 0.5 * np.cos(np.arange(144) % 12 / 3)


def _noisy(signal):
    return signal[NODES] + 0.05 * np.random.default_rng(0).standard_normal(NODES.size)


@pytest.fixture(scope="module")
def fitted(grid, signal):
    return grf.GraphGPRegressor(grid, **KNOWN).fit(NODES, _noisy(signal))


def test_shapes_follow_y_and_the_query(grid, signal):
    y = _noisy(signal)
    one = grf.GraphGPRegressor(grid, **KNOWN).fit(NODES, y)
    two = grf.GraphGPRegressor(grid, **KNOWN).fit(NODES[:, None], np.column_stack([y, 2 * y]))
    assert one.predict().shape == (144,)
    assert [a.shape for a in one.predict([4, 4, 1], return_std=True)] == [(3,), (3,)]
    assert [a.shape for a in one.predict([4, 4, 1], return_cov=True)] == [(3,), (3, 3)]
    assert one.sample([4, 1], n_samples=5, seed=0).shape == (5, 2)
    assert isinstance(one.mean_, float)
    assert [a.shape for a in two.predict([4, 4, 1], return_std=True)] == [(3, 2), (3, 2)]
    assert two.sample([4, 1], n_samples=5, seed=0).shape == (5, 2, 2)
    assert two.mean_.shape == (2,)
    np.testing.assert_allclose(two.mean_[1], 2 * two.mean_[0])
    assert one.coefficients_["mean"].to_numpy().shape == (1,)
    assert two.coefficients_["mean"].to_numpy().shape == (1, 2)
    assert two.predict([], return_std=False).shape == (0, 2)
    np.testing.assert_array_equal(one.sample([1, 2], 3, seed=7), one.sample([1, 2], 3, seed=7))


# -- little or no information --------------------------------------------------------------------


def test_noise_below_rounding_is_refused_with_the_way_out(grid):
    gp = grf.GraphGPRegressor(
        grid, kernel=grf.Diffusion(20.0), optimize=False, output_scale=1.0, noise=1e-18
    )
    with pytest.raises(ValueError, match="raise `noise`"):
        gp.fit(np.arange(144), np.arange(144.0))


# -- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"kernel": "gaussian"}, ValueError, "`kernel` must be one of 'auto', 'diffusion'"),
        (
            {"kernel": "difusion"},
            ValueError,
            r"`kernel` must be one of .*got 'difusion'; did you mean 'diffusion'\?",
        ),
        ({"kernel": 3}, TypeError, "`kernel` must be a graphrf kernel"),
        ({"method": "magic"}, ValueError, "`method` must be one of"),
        ({"mean": "linear"}, ValueError, "`mean` must be one of"),
        ({"numerics": grf.gp.Numerics(solver="lu")}, ValueError, "`solver` must be one of"),
        (
            {"numerics": grf.gp.Numerics(normalize="no")},
            TypeError,
            "`normalize` must be True or False, got str 'no'",
        ),
        ({"progress": 1}, TypeError, "`progress` must be True or False"),
        ({"numerics": grf.gp.Numerics(max_train=0)}, ValueError, "`max_train` must be at least 1"),
        ({"numerics": grf.gp.Numerics(tol=2.0)}, ValueError, "`tol` must be in"),
        (
            {"numerics": grf.gp.Numerics(max_iterations=0)},
            ValueError,
            "`max_iterations` must be at least 1",
        ),
        ({"seed": -1}, ValueError, "`seed` must be in"),
        ({"numerics": grf.gp.Numerics(n_threads=0)}, ValueError, "`n_threads` must be at least 1"),
        ({"optimize": ["nu"]}, ValueError, "`optimize` must name hyperparameters"),
        ({"optimize": "lengthscale"}, TypeError, "`optimize` must be True, False"),
        ({"numerics": grf.gp.Numerics(sampler=5)}, TypeError, "`sampler` must be a sampler"),
        (
            {"numerics": grf.gp.Numerics(sampler=grf.RandomWalks(8)), "method": "series"},
            ValueError,
            "`sampler` is for method='features'",
        ),
        (
            {
                "numerics": grf.gp.Numerics(sampler=grf.RandomWalks(8)),
                "kernel": grf.Diffusion(1.0, laplacian="combinatorial"),
            },
            ValueError,
            "`sampler` must walk the combinatorial Laplacian",
        ),
    ],
)
def test_bad_settings_are_refused_when_fitting(grid, settings, error, message):
    gp = grf.GraphGPRegressor(grid, **settings)  # as scikit-learn wants it: nothing is checked here
    with pytest.raises(error, match=message):
        gp.fit([0, 1], [0.0, 1.0])


def test_graphs_of_the_wrong_kind_are_refused():
    directed = grf.Graph(np.array([[0, 1], [0, 0]]), directed=True)
    with pytest.raises(
        ValueError, match="Gaussian process on its nodes `graph` must be an undirected graph"
    ):
        grf.GraphGPRegressor(directed).fit([0, 1], [0.0, 1.0])
    with pytest.raises(TypeError, match=r"`graph` must be a graphrf\.Graph"):
        grf.GraphGPRegressor(np.eye(3)).fit([0, 1], [0.0, 1.0])


def test_predictions_say_what_is_wrong(grid, fitted):
    with pytest.raises(NotFittedError, match="call fit"):
        grf.GraphGPRegressor(grid).predict()
    gp = fitted
    with pytest.raises(ValueError, match="exclude each other"):
        gp.predict(return_std=True, return_cov=True)
    with pytest.raises(ValueError, match="`return_std` must be True, False or 'observation'"):
        gp.predict(return_std="noise")
    with pytest.raises(TypeError, match="`return_cov` must be True or False"):
        gp.predict(return_cov="yes")
    with pytest.raises(ValueError, match="`nodes` must be positions"):
        gp.predict([-1])
    with pytest.raises(ValueError, match="`n_samples` must be at least 1"):
        gp.sample([0], n_samples=0)


def test_no_nodes_have_empty_predictions(fitted):
    gp = fitted
    assert gp.predict([]).shape == (0,)
    assert [part.shape for part in gp.predict([], return_std=True)] == [(0,), (0,)]
    assert [part.shape for part in gp.predict([], return_cov=True)] == [(0,), (0, 0)]
    assert gp.sample([], n_samples=3).shape == (3, 0)
    assert gp.prior_covariance([]).shape == (0, 0)


def test_joint_covariances_of_too_many_nodes_are_refused(fitted, monkeypatch):
    monkeypatch.setattr("graphrf.gp.predictor.LARGEST_JOINT", 10)
    for call in (fitted.prior_covariance, lambda: fitted.predict(return_cov=True)):
        with pytest.raises(ValueError, match="at most 10 distinct nodes"):
            call()


# -- imports -------------------------------------------------------------------------------------


def test_importing_the_package_is_light():
    code = (
        "import sys, graphrf.gp; bad = {'torch', 'gpytorch', 'sklearn'} & set(sys.modules); assert "
        "not bad, bad\n"
        "graphrf.gp.GraphGPRegressor; assert 'torch' not in sys.modules and 'gpytorch' not in "
        "sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_scikit_learn_the_message_says_what_to_install(monkeypatch):
    monkeypatch.delitem(sys.modules, "graphrf.gp.regression", raising=False)
    monkeypatch.delitem(vars(grf.gp), "GraphGPRegressor", raising=False)
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    with pytest.raises(ImportError, match=r"pip install 'graphrf\[gp\]'"):
        grf.gp.GraphGPRegressor  # noqa: B018


def test_progress_of_training_solves_and_predictions_is_told_and_changes_nothing(
    grid, signal, capsys
):
    y = _noisy(signal)
    settings = {
        "kernel": "matern",
        "hyperparameters": "mode",
        "seed": 0,
        "numerics": grf.gp.Numerics(solver="cg"),
    }
    silent = grf.GraphGPRegressor(grid, **settings).fit(NODES, y)
    want = silent.predict(return_std=True)
    assert capsys.readouterr().err == ""
    told = grf.GraphGPRegressor(grid, progress=True, **settings).fit(NODES, y)
    found = told.predict(return_std=True)
    captured = capsys.readouterr()
    assert captured.out == ""
    for what in ("training", "solving", "predictions"):
        assert what in captured.err
    for one, other in zip(want, found, strict=True):
        np.testing.assert_array_equal(one, other)


# -- fits one after another ----------------------------------------------------------------------


def test_a_second_fit_knows_nothing_of_the_first(grid, signal):
    y = _noisy(signal)
    gp = grf.GraphGPRegressor(grid, **KNOWN, method="features").fit(
        NODES[:20], np.column_stack([y, -y])[:20]
    )
    gp.predict(return_std=True)
    settings = {
        "kernel": "diffusion",
        "optimize": True,
        "method": "series",
        "mean": "zero",
        "noise": 0.02,
    }
    gp.set_params(**settings).fit(NODES, y)
    fresh = grf.GraphGPRegressor(grid, **{**KNOWN, **settings}).fit(NODES, y)
    for one, other in zip(gp.predict(return_std=True), fresh.predict(return_std=True), strict=True):
        np.testing.assert_array_equal(one, other)
    names = [name for name in vars(fresh) if name.endswith("_")]
    assert [name for name in vars(gp) if name.endswith("_")] == names
    for name in names:
        np.testing.assert_array_equal(getattr(gp, name), getattr(fresh, name), err_msg=name)
    assert gp.sampler_ is None


def test_clones_of_fitted_ones_are_not_fitted(grid, signal):
    gp = grf.GraphGPRegressor(grid, **KNOWN, mean=np.arange(144.0)).fit(NODES, _noisy(signal))
    other = clone(gp)
    assert not [name for name in vars(other) if name.endswith("_")]
    with pytest.raises(NotFittedError, match="call fit"):
        other.predict()
    with pytest.raises(NotFittedError):
        check_is_fitted(other)
    check_is_fitted(gp)
    np.testing.assert_array_equal(other.fit(NODES, _noisy(signal)).predict(), gp.predict())


def test_the_representation_is_short_whatever_is_fitted(grid, signal):
    # scikit-learn cuts what is longer.
    for mean, most in (("constant", 200), (np.arange(144.0), 1500)):
        gp = grf.GraphGPRegressor(grid, **KNOWN, mean=mean).fit(NODES, _noisy(signal))
        assert len(repr(gp)) < most
    assert "144 nodes" in repr(gp)
    assert repr(gp) == repr(clone(gp))


def test_settings_given_stay_as_they_were_given(grid, signal):
    settings = {
        "kernel": "matern",
        "noise": np.float32(0.1),
        "optimize": ("lengthscale",),
        "seed": np.int64(4),
    }
    settings["hyperparameters"] = "mode"
    gp = grf.GraphGPRegressor(grid, **settings).fit(NODES, _noisy(signal))
    for name, value in settings.items():
        assert getattr(gp, name) is value
    assert gp.noise_ == np.float32(0.1)
    assert gp.kernel_.nu == 2.0


def test_fixed_hyperparameters_stay_and_the_rest_is_trained(grid, signal):
    y = _noisy(signal)
    start = grf.Matern(2.5, 3.0)
    fixed = grf.GraphGPRegressor(
        grid, kernel=start, optimize=False, output_scale=2.0, noise=0.1, seed=0
    )
    fixed.fit(NODES, y)
    assert (fixed.kernel_, fixed.output_scale_, fixed.noise_) == (start, 2.0, 0.1)
    mode = {"kernel": start, "hyperparameters": "mode", "seed": 0}
    trained = grf.GraphGPRegressor(grid, output_scale=2.0, **mode).fit(NODES, y)
    assert trained.output_scale_ == 2.0
    assert trained.kernel_.nu == 2.5
    assert trained.kernel_.lengthscale != 3.0
    assert trained.log_marginal_likelihood_ > fixed.log_marginal_likelihood_
    both = grf.GraphGPRegressor(grid, optimize=["nu", "lengthscale"], **mode).fit(NODES, y)
    assert both.kernel_.nu != 2.5
    assert both.log_marginal_likelihood_ >= trained.log_marginal_likelihood_ - 1e-6


# -- model selection -----------------------------------------------------------------------------


def test_score_is_r2_also_for_several_outputs_repeats_and_names(signal):
    names = [f"n{i}" for i in range(144)]
    graph = grf.Graph(nx.to_scipy_sparse_array(nx.grid_2d_graph(12, 12)), nodes=names)
    train = np.concatenate([NODES, NODES[:5]])
    y = np.column_stack([signal, 2 - signal])[train]
    gp = grf.GraphGPRegressor(graph, **KNOWN).fit([names[i] for i in train], y)
    queried = [names[i] for i in train]
    assert np.isclose(gp.score(queried, y), r2_score(y, gp.predict(train)))
    weights = np.arange(train.size)
    assert np.isclose(
        gp.score(train, y, weights), r2_score(y, gp.predict(train), sample_weight=weights)
    )
    scores = cross_val_score(gp, np.array(queried), y, cv=KFold(3, shuffle=True, random_state=0))
    assert (scores > 0.4).all()


def test_grid_search_over_methods_noise_and_solvers(grid, signal):
    search = GridSearchCV(
        grf.GraphGPRegressor(grid, kernel=grf.Diffusion(3.0), optimize=False, seed=0),
        {
            "method": ["series", "features"],
            "noise": [0.01, 100.0],
            "numerics__solver": ["cholesky", "cg"],
        },
        cv=KFold(3, shuffle=True, random_state=0),
        scoring="neg_root_mean_squared_error",
    ).fit(NODES[:, None], _noisy(signal))
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_params_["noise"] != 100.0
    assert search.best_estimator_.graph is grid


# -- over space ----------------------------------------------------------------------------------


def _over_space(kind):
    """A domain and forty places of it."""
    rng = np.random.default_rng(0)
    if kind == "edges":
        return grf.gp.MetricGraph(range(8), range(1, 9), np.ones(8)), np.column_stack(
            [rng.integers(8, size=40), rng.random(40)]
        )
    return grf.gp.TriangleMesh.sphere(2), np.column_stack(
        [rng.uniform(-180, 180, 40), rng.uniform(-80, 80, 40)]
    )


@pytest.mark.parametrize("kind", ["edges", "mesh"])
def test_fields_over_space_are_searched_and_validated(kind):
    domain, places = _over_space(kind)
    y = domain.sample(places, range=1.5, seed=0)[0]
    known = {"range": 1.5, "sd": 1.0, "noise": 0.01}
    gp = grf.gp.FieldGPRegressor(domain, **known)
    scores = cross_val_score(gp, places, y, cv=KFold(4))
    assert scores.shape == (4,)
    assert np.isfinite(scores).all()
    search = GridSearchCV(gp, {"noise": [0.01, 100.0]}, cv=KFold(4)).fit(places, y)
    assert search.best_params_ == {"noise": 0.01}
    check_is_fitted(search.best_estimator_)
    if kind == "mesh":
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame(places, columns=["lon", "lat"])
        by_title = cross_val_score(gp, frame, y, cv=KFold(4))
        np.testing.assert_array_equal(by_title, scores)
        turned = gp.fit(frame, y).predict(frame[["lat", "lon"]])
        np.testing.assert_array_equal(turned, gp.predict(places))
        assert gp.feature_names_in_.tolist() == ["lon", "lat"]
    ours, theirs = (own.get_params() for own in (gp, clone(gp)))
    assert repr(ours.pop("domain")) == repr(theirs.pop("domain"))
    assert ours == theirs


def test_exposures_are_routed_in_cross_validation(grid, signal):
    exposure = np.random.default_rng(1).gamma(2.0, 4.0, 144)
    counts = np.random.default_rng(2).poisson(exposure * np.exp(signal))
    gp = grf.GraphGPRegressor(
        grid, kernel=grf.Matern(nu=1.0), likelihood="poisson", hyperparameters="mode", seed=0
    )
    given = {"cv": KFold(3, shuffle=True, random_state=0), "params": {"exposure": exposure}}
    with pytest.raises(ValueError, match=r"the fit had exposures.*set_fit_request"):
        cross_val_score(gp, np.arange(144), counts, **given, error_score="raise")
    with config_context(enable_metadata_routing=True):
        gp = gp.set_fit_request(exposure=True).set_score_request(exposure=True)
        assert cross_val_score(gp, np.arange(144), counts, **given).min() > 0.5


def test_an_index_whose_names_lost_their_zeros_is_refused(grid, signal):
    pandas = pytest.importorskip("pandas")
    names = [f"{k:05d}" for k in range(143, -1, -1)]
    graph = grf.Graph(grid.adjacency, nodes=names)
    y = pandas.Series(_noisy(signal), index=[names[k] for k in NODES])
    gp = grf.GraphGPRegressor(graph, **KNOWN).fit(y.index, y)
    lost = y.set_axis(y.index.astype(int))
    classifier = grf.GraphGPClassifier(graph, output_scale=1.0, optimize=False, seed=0)
    for ask in (
        lambda: grf.GraphGPRegressor(graph, **KNOWN).fit(lost),
        lambda: grf.GraphGPRegressor(graph, **KNOWN).fit(lost.index, lost),
        lambda: gp.predict(lost.index),
        lambda: gp.predict(pandas.Series(lost.index)),
        lambda: gp.score(lost.index, lost),
        lambda: gp.sample(lost.index, seed=0),
        lambda: classifier.fit(lost.index, lost > 0),
        lambda: cross_val_score(gp, lost.index, lost, cv=2, error_score="raise"),
        lambda: graph.subgraph(lost.index),
    ):
        with pytest.raises(ValueError, match=r"named by text such as '00(143|071)', .* dtype=str"):
            ask()
    np.testing.assert_array_equal(gp.predict(NODES), gp.predict([names[k] for k in NODES]))
