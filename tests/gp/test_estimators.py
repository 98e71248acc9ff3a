"""Regressor and classifier as estimators: parameters, tags, weights, columns, data frames."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

import graphrf as grf

NODES = np.arange(0, 144, 4)
Y = np.sin(NODES / 12) + 0.1 * np.random.default_rng(0).standard_normal(NODES.size)
LABELS = np.where(Y > 0, "up", "down")
FIXED = {
    "kernel": grf.Diffusion(2.0),
    "optimize": False,
    "output_scale": 1.0,
    "noise": 0.1,
    "seed": 0,
}


@pytest.fixture
def regressor(grid):
    return grf.GraphGPRegressor(grid, **FIXED)


@pytest.fixture
def classifier(grid):
    return grf.GraphGPClassifier(
        grid, **{name: value for name, value in FIXED.items() if name != "noise"}
    )


def test_grid_search_sees_hyperparameters_of_kernels(regressor):
    search = GridSearchCV(
        regressor, {"kernel__lengthscale": [0.1, 3.0]}, cv=KFold(3, shuffle=True, random_state=0)
    ).fit(NODES[:, None], Y)
    assert search.best_params_ == {"kernel__lengthscale": 3.0}
    assert search.best_estimator_.kernel_ == grf.Diffusion(3.0)
    assert regressor.kernel == grf.Diffusion(2.0)


def test_nested_parameters_replace_the_object_and_change_no_other(grid):
    kernel, sampler = grf.Matern(1.5, 3.0), grf.RandomWalks(8)
    gp = grf.GraphGPRegressor(
        grid, kernel=kernel, numerics=grf.gp.Numerics(sampler=sampler), likelihood=grf.gp.StudentT()
    )
    params = gp.get_params()
    assert (params["kernel__nu"], params["kernel__lengthscale"]) == (1.5, 3.0)
    assert params["numerics__sampler__n_walks"] == 8
    assert not any("__" in name for name in gp.get_params(deep=False))
    areal = grf.GraphGPRegressor(grid, kernel=grf.BYM2(0.3)).get_params()
    assert [name for name in areal if "kernel__" in name] == ["kernel__mixing"]  # what can be set
    changes = {"kernel__nu": 0.5, "kernel__lengthscale": 2.0, "numerics__sampler__n_walks": 4}
    other = clone(gp).set_params(**changes, numerics__max_train=10)
    assert (other.kernel, other.numerics.sampler.n_walks, other.numerics.max_train) == (
        grf.Matern(0.5, 2.0),
        4,
        10,
    )
    assert (gp.kernel, gp.numerics.sampler) == (kernel, sampler)
    assert other.set_params(
        kernel=grf.Diffusion(1.0), kernel__lengthscale=4.0
    ).kernel == grf.Diffusion(4.0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"kernel__foo": 1.0},
            r"Invalid parameter 'kernel__foo' .*Diffusion\(lengthscale=2.0\) has laplacian",
        ),
        ({"noise__foo": 1.0}, "Invalid parameter 'noise__foo' .* float 0.1 has none"),
        ({"foo__bar": 1.0}, "Invalid parameter 'foo__bar'"),
        ({"foo": 1.0}, "Invalid parameter 'foo'"),
        ({"kernel__lengthscale": -1.0}, "`lengthscale` must be greater than 0"),
    ],
)
def test_unknown_nested_parameters_are_refused(regressor, changes, message):
    with pytest.raises(ValueError, match=message):
        regressor.set_params(**changes)
    assert regressor.kernel == grf.Diffusion(2.0)


def test_tags_say_what_is_accepted(regressor, classifier):
    for model in (regressor, classifier):
        tags = get_tags(model)
        assert tags.input_tags.one_d_array
        assert tags.input_tags.two_d_array
        assert tags.input_tags.string
        assert tags.target_tags.multi_output == (model is regressor)


def test_the_one_feature_is_the_node(regressor, classifier):
    for model, y in ((regressor, Y), (classifier, LABELS)):
        assert not hasattr(model, "n_features_in_")
        for nodes in (NODES, NODES[:, None]):
            assert model.fit(nodes, y).n_features_in_ == 1
        assert not hasattr(model, "feature_names_in_")
        with pytest.raises(ValueError, match="`nodes` must have shape"):
            model.fit(np.zeros((36, 2), int), y)
        assert not hasattr(model, "n_features_in_")
        with pytest.raises(Exception, match="not fitted"):
            check_is_fitted(model)


def test_nodes_are_no_metadata(regressor):
    assert {"sample_weight", "exposure", "trials"} <= set(
        regressor.get_metadata_routing().fit.requests
    )
    assert "nodes" not in regressor.get_metadata_routing().fit.requests
    assert "nodes" not in regressor.get_metadata_routing().predict.requests


@pytest.mark.parametrize("method", ["series", "features", "precision"])
def test_weights_are_inverse_noise_variances(grid, method):
    weights = np.random.default_rng(1).uniform(0.2, 5.0, NODES.size)
    settings = FIXED | {"method": method, "kernel": grf.Matern(1.0, 2.0)}
    known = grf.GraphGPRegressor(grid, **settings | {"noise": 0.1 / weights}).fit(NODES, Y)
    gp = grf.GraphGPRegressor(grid, **settings).fit(NODES, Y, weights)
    for one, other in zip(gp.predict(return_std=True), known.predict(return_std=True), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-10)
    assert gp.log_marginal_likelihood_ == pytest.approx(known.log_marginal_likelihood_, rel=1e-9)
    assert gp.noise_ == 0.1
    _, std = gp.predict([3], return_std="observation")  # of an observation with weight 1
    assert std[0] ** 2 == pytest.approx(gp.predict([3], return_std=True)[1][0] ** 2 + 0.1)
    both = grf.GraphGPRegressor(grid, **settings | {"noise": np.full(NODES.size, 0.1)}).fit(
        NODES, Y, weights
    )
    np.testing.assert_allclose(both.predict(), known.predict(), rtol=1e-8)


def test_trained_noise_is_that_of_weight_one(grid):
    gp = grf.GraphGPRegressor(grid, kernel=grf.Diffusion(2.0), seed=0)
    plain, weighted = (clone(gp).fit(NODES, Y, weights) for weights in (None, 1.0))
    assert plain.noise_ == weighted.noise_
    noisy = clone(gp).fit(NODES, Y, 0.5)
    # The prior is of the noise of weight 1.
    assert noisy.noise_ == pytest.approx(0.5 * plain.noise_, rel=0.2)


def test_weights_count_labels_and_repeated_observations(regressor, classifier, tmp_path):
    weights = np.repeat([0.0, 2.0, 1.0], [4, 16, 16])
    kept = np.repeat(np.arange(NODES.size), weights.astype(int))
    for model, y, answer in ((regressor, Y, "predict"), (classifier, LABELS, "predict_proba")):
        weighted, repeated = (
            clone(model).fit(NODES, y, weights),
            clone(model).fit(NODES[kept], y[kept]),
        )
        found = getattr(weighted, answer)()
        np.testing.assert_allclose(found, getattr(repeated, answer)(), rtol=1e-9, atol=1e-12)
        assert weighted.n_observations_ == 32
        halves = clone(model).fit(NODES, y, 0.5 * weights)
        halves.save(tmp_path / "model.npz")
        loaded = type(model).load(tmp_path / "model.npz")
        np.testing.assert_allclose(
            getattr(loaded, answer)(), getattr(halves, answer)(), rtol=1e-9, atol=1e-12
        )
        assert np.abs(getattr(halves, answer)() - found).max() > 1e-3


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0], r"`sample_weight` must be a number or have shape \(36,\)"),
        (np.ones((36, 2)), "`sample_weight` must be a number or have shape"),
        (-1.0, "`sample_weight` must not be negative"),
        (0.0, "nor all zero"),
        (np.nan, "`sample_weight` must be finite"),
    ],
)
def test_bad_weights_are_refused(regressor, classifier, weights, message):
    for model, y in ((regressor, Y), (classifier, LABELS)):
        with pytest.raises(ValueError, match=message):
            model.fit(NODES, y, weights)


def test_weights_are_for_normal_noise(grid):
    with pytest.raises(ValueError, match="`sample_weight` is for Gaussian noise"):
        grf.GraphGPRegressor(grid, likelihood="poisson").fit(NODES, np.ones(36), 2.0)


def test_classes_of_weight_zero_are_no_classes(classifier):
    labels = np.array(["a", "b", "c"] * 12)
    assert classifier.fit(NODES, labels, labels != "c").classes_.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="one class only, 'a'"):
        classifier.fit(NODES, labels, labels == "a")


# -- data frames ---------------------------------------------------------------------------------


def test_quantiles_have_columns_and_covariances_no_frame(regressor):
    pytest.importorskip("pandas")
    levels = regressor.fit(NODES, Y).predict([5], quantiles=[0.1, 0.9], as_frame=True)
    assert levels.columns.tolist() == ["0.1", "0.9"]
    np.testing.assert_array_equal(levels, regressor.predict([5], quantiles=[0.1, 0.9]))
    with pytest.raises(ValueError, match="set return_cov=False"):
        regressor.predict([5], return_cov=True, as_frame=True)


def test_columns_keep_their_name(regressor, classifier):
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"sensor": NODES})
    for model, y in ((regressor, Y), (classifier, LABELS)):
        plain = clone(model).fit(NODES, y).predict([1, 2])
        assert model.fit(table, y).feature_names_in_.tolist() == ["sensor"]
        np.testing.assert_array_equal(model.predict([1, 2]), plain)
        np.testing.assert_array_equal(model.predict(table), model.predict(NODES))
        with pytest.raises(ValueError, match=r"feature names should match.*\['other'\]"):
            model.predict(table.rename(columns={"sensor": "other"}))
    assert not hasattr(regressor.fit(pd.DataFrame({"speed": Y}, index=NODES)), "feature_names_in_")
