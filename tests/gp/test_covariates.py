"""Covariates with observations and questions: `fit(nodes, y, x=...)`, `predict(nodes, x=...)`."""

from __future__ import annotations

import numpy as np
import pytest

import graphrf as grf

pd = pytest.importorskip("pandas")

SMOOTH = grf.Matern(nu=1.0, lengthscale=2.0)
KNOWN = {"kernel": SMOOTH, "optimize": False, "output_scale": 1.0, "noise": 0.1, "seed": 0}


@pytest.fixture(scope="module")
def data(grid):
    """A covariate frame at all nodes of a grid, normal values, counts, observed nodes."""
    rng = np.random.default_rng(5)
    x = pd.DataFrame(
        {"income": 50 + 10 * rng.standard_normal(144), "age": rng.integers(20, 60, 144)}
    )
    smooth = grf.apply_root(grid, grf.Diffusion(6.0), rng.standard_normal(144))
    f = 0.05 * x["income"].to_numpy() - 0.02 * x["age"].to_numpy() + smooth / smooth.std()
    f += 0.1 * rng.standard_normal(144)
    return x, f, rng.poisson(np.exp(f - 1)), rng.permutation(144)[:60]


@pytest.mark.parametrize(
    "options",
    [
        {"method": "series", "hyperparameters": "mode"},
        {"method": "precision", "hyperparameters": "mode"},
        {"hyperparameters": "average"},
        {"likelihood": "poisson"},
    ],
    ids=str,
)
def test_they_are_the_covariates_of_the_mean(options, grid, data):
    x, f, counts, nodes = data
    y = (counts if "likelihood" in options else f)[nodes]
    options = {"kernel": SMOOTH, "seed": 0} | options
    whole = grf.GraphGPRegressor(grid, mean=x, **options).fit(nodes, y)
    gp = grf.GraphGPRegressor(grid, **options).fit(nodes, y, x=x.iloc[nodes])
    assert gp.coefficients_.index.tolist() == ["constant", "income", "age"]
    assert whole.coefficients_.index.tolist() == gp.coefficients_.index.tolist()
    np.testing.assert_allclose(
        gp.coefficients_["mean"].to_numpy(), whole.coefficients_["mean"].to_numpy(), rtol=1e-9
    )
    np.testing.assert_allclose(gp.predict(nodes), whole.predict(nodes), rtol=1e-9)
    for found, expected in zip(
        gp.predict(x=x, return_std=True), whole.predict(return_std=True), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    swapped = x[["age", "income"]].iloc[[3, 70]]  # columns are found by their names
    np.testing.assert_allclose(gp.predict([3, 70], x=swapped), whole.predict([3, 70]), rtol=1e-9)
    np.testing.assert_allclose(
        gp.sample([3, 70], 4, seed=1, x=x.iloc[[3, 70]]),
        whole.sample([3, 70], 4, seed=1),
        rtol=1e-9,
    )
    np.testing.assert_allclose(
        gp.log_density([3, 70], [1, 2], x=x.iloc[[3, 70]]),
        whole.log_density([3, 70], [1, 2]),
        rtol=1e-9,
    )


def test_other_values_at_observed_nodes_move_predictions_by_the_coefficients(grid, data):
    x, f, _, nodes = data
    gp = grf.GraphGPRegressor(grid, **KNOWN)
    gp.fit(nodes, f[nodes], x=x.iloc[nodes])
    richer = x.iloc[nodes].assign(income=x["income"].iloc[nodes] + 10)
    np.testing.assert_allclose(
        gp.predict(nodes, x=richer) - gp.predict(nodes), 10 * gp.coefficients_["mean"].iloc[1]
    )
    # The model forgets its covariates.
    np.testing.assert_allclose(gp.predict(nodes, x=x.iloc[nodes]), gp.predict(nodes))


def test_repeats_of_a_node_share_them(grid, data):
    x, f, _, nodes = data
    twice = np.concatenate([nodes, nodes])
    gp = grf.GraphGPRegressor(grid, **KNOWN)
    gp.fit(twice, f[twice] + 0.1 * np.repeat([1, -1], 60), x=x.to_numpy()[twice, 0])
    assert gp.coefficients_.index.tolist() == ["constant", "x0"]
    unlike = x.to_numpy()[twice, 0]
    unlike[-1] += 1
    with pytest.raises(ValueError, match="the same for all observations of a node"):
        gp.fit(twice, f[twice], x=unlike)


def test_frames_and_prior_covariances_at_nodes_that_were_not_observed(grid, data):
    x, f, _, nodes = data
    gp = grf.GraphGPRegressor(grid, **KNOWN)
    gp.fit(nodes, f[nodes], x=x.iloc[nodes])
    asked = np.setdiff1d(np.arange(144), nodes)[[4, 1]]
    frame = gp.predict(asked, x=x.iloc[asked], as_frame=True)
    np.testing.assert_array_equal(frame["mean"], gp.predict(asked, x=x.iloc[asked]))
    assert frame.index.tolist() == asked.tolist()
    prior = gp.output_scale_ / gp.mean_variance_ * gp.kernel_.dense(grid)[np.ix_(asked, asked)]
    # No covariates are needed.
    np.testing.assert_allclose(gp.prior_covariance(asked), prior, atol=1e-8)


def test_covariates_of_weight_zero_are_left_out_before_and_after_a_file(grid, data, tmp_path):
    x, f, _, nodes = data
    gp = grf.GraphGPRegressor(grid, **KNOWN)
    gp.fit(nodes, f[nodes], np.r_[0.0, np.ones(59)], x=x.iloc[nodes])
    gp.save(tmp_path / "gp.npz")
    for one in (gp, grf.GraphGPRegressor.load(tmp_path / "gp.npz")):
        with pytest.raises(ValueError, match=f"such as node {nodes[0]}"):
            one.predict(nodes)
        np.testing.assert_array_equal(one.predict(nodes[1:]), gp.predict(nodes[1:]))


def test_a_node_without_covariates_is_called_by_its_name():
    line = grf.load_graph([("Ayr", "Bute"), ("Bute", "Clyde"), ("Clyde", "Dee")])
    gp = grf.GraphGPRegressor(line, **KNOWN)
    gp.fit(["Ayr", "Bute", "Dee"], [1.0, 2.0, 4.0], x=[[0.0], [1.0], [3.0]])
    with pytest.raises(ValueError, match="such as node 'Clyde'"):
        gp.predict()


def test_the_offset_of_a_generalised_linear_model_is_an_exposure(grid):
    with pytest.raises(
        TypeError, match=r"`offset` is not an argument of fit.*exposure=np.exp\(offset\)"
    ):
        grf.GraphGPRegressor(grid, likelihood="poisson").fit([0, 1], [2, 3], offset=[0.1, 0.2])


def test_files_keep_them(grid, data, tmp_path):
    x, f, counts, nodes = data
    for likelihood, y in (("gaussian", f), ("poisson", counts)):
        gp = grf.GraphGPRegressor(
            grid, kernel=SMOOTH, likelihood=likelihood, hyperparameters="mode", seed=0
        )
        gp.fit(nodes, y[nodes], x=x.iloc[nodes]).save(tmp_path / "gp.npz")
        loaded = grf.GraphGPRegressor.load(tmp_path / "gp.npz")
        np.testing.assert_array_equal(loaded.predict(x=x), gp.predict(x=x))
        np.testing.assert_array_equal(loaded.predict(nodes), gp.predict(nodes))
        assert loaded.coefficients_.index.tolist() == gp.coefficients_.index.tolist()
        with pytest.raises(ValueError, match="`x` must be given"):
            loaded.predict()
    gp = grf.GraphGPRegressor(grid, mean=x, **KNOWN).fit(nodes, f[nodes])
    gp.save(tmp_path / "gp.npz")
    assert grf.GraphGPRegressor.load(tmp_path / "gp.npz").coefficients_.index.tolist() == [
        "constant",
        "income",
        "age",
    ]


def test_coefficients_are_a_data_frame(grid, data):
    x, f, _, nodes = data
    gp = grf.GraphGPRegressor(grid, **KNOWN).fit(nodes, f[nodes], x=x.iloc[nodes])
    table = gp.coefficients_
    assert table.columns.tolist() == ["mean", "sd", "0.025", "0.5", "0.975"]
    assert table.index.tolist() == ["constant", "income", "age"]
    np.testing.assert_allclose(table["0.025"], table["mean"] - 1.96 * table["sd"], rtol=1e-3)
    both = np.column_stack([f, -f])[nodes]
    pairs = gp.fit(nodes, both, x=x.iloc[nodes]).coefficients_
    np.testing.assert_allclose(pairs[("mean", 1)], -pairs[("mean", 0)], rtol=1e-6)


def test_bad_covariates_are_refused(grid, data):
    x, f, _, nodes = data
    y, own = f[nodes], x.iloc[nodes]
    gp = grf.GraphGPRegressor(grid, **KNOWN)
    for given, error, message in (
        (own.iloc[:-1], ValueError, "there is no value for"),
        (own.to_numpy()[:-1], ValueError, "a row for each entry"),
        (own.assign(income=np.nan), ValueError, "finite|NaN"),
        (own.assign(income="much"), TypeError, "get_dummies"),
        (own["income"].astype(str), TypeError, "got text; pandas.get_dummies"),
        (own.assign(age=1.0), ValueError, "`x` must hold covariates that vary"),
        (
            own.assign(age=2 * own["income"] + 1),
            ValueError,
            "`x` must hold covariates that are not collinear.*'income', 'age' are combinations",
        ),
        (pd.concat([own, own], axis=1), ValueError, "different names"),
        (1e200 * own, ValueError, "at most 1e\\+150"),
    ):
        with pytest.raises(error, match=message):
            gp.fit(nodes, y, x=given)
    with pytest.raises(ValueError, match="mean='constant'"):
        grf.GraphGPRegressor(grid, kernel=SMOOTH, mean="zero").fit(nodes, y, x=own)
    with pytest.raises(ValueError, match="mean='constant'"):
        grf.GraphGPRegressor(grid, kernel=SMOOTH, mean=x).fit(nodes, y, x=own)
    with pytest.raises(ValueError, match="`fit` was given no covariates"):
        gp.fit(nodes, y).predict(nodes, x=own)
    gp.fit(nodes, y, x=own)
    for nodes_asked, given, message in (
        (None, None, "`x` must be given: `fit` was given no covariates of 84"),
        (None, own, "`x` has the labels .* there is no value for 0"),
        (None, own.to_numpy(), "a row for each entry"),
        (nodes, own[["age"]].to_numpy(), "2 columns"),
        (nodes, own.rename(columns={"age": "years"}), "must have the columns income, age"),
        ([nodes[0], nodes[0]], own.iloc[:2].to_numpy(), "wherever a node or place is repeated"),
    ):
        with pytest.raises(ValueError, match=message):
            gp.predict(nodes_asked, x=given)
    with pytest.raises(ValueError, match="`x` must be given"):
        gp.sample()


def test_codes_of_missing_covariates_are_told(grid, data):
    x, f, _, nodes = data
    marked = x.assign(**{x.columns[0]: x.iloc[:, 0].where(x.index != x.index[nodes[4]], -999.0)})
    message = f"`{x.columns[0]}` holds -999 once, far from all other values"
    with pytest.warns(UserWarning, match=message):
        grf.GraphGPRegressor(grid, **KNOWN).fit(nodes, f[nodes], x=marked.iloc[nodes])
    with pytest.warns(UserWarning, match=message):
        grf.GraphGPRegressor(grid, mean=marked, **KNOWN).fit(nodes, f[nodes])
