"""Tables of a fitted model: ratios, ranks, and what is printed."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

import graphrf as grf
from graphrf.gp import Covariate, Groups, LatentGaussianModel, Nodes, Steps

pandas = pytest.importorskip("pandas")
pytest.importorskip("formulaic")

GRAPH = grf.from_edges(np.arange(9), np.arange(1, 10))


def data(n=200):
    rng = np.random.default_rng(3)
    frame = pandas.DataFrame(
        {
            "node": np.arange(n) % 10,
            "year": 2001 + np.arange(n) // 10 % 5,
            "share": rng.uniform(size=n).round(3),
            "people": rng.uniform(50, 100, n).round(),
        }
    )
    eta = 0.7 * frame["share"] - 2 + 0.3 * np.sin(frame["node"])
    return frame.assign(cases=rng.poisson(frame["people"] * np.exp(eta)))


FRAME = data()


def model(*terms, **settings):
    arguments = {"likelihood": "poisson", "exposure": "people", "seed": 0, **settings}
    return LatentGaussianModel("cases ~ 1 + share", terms, **arguments)


@pytest.fixture(scope="module")
def fitted():
    return model(Nodes(GRAPH, grf.ICAR()), Steps("year", "rw1")).fit(FRAME)


# -- ratios ----------------------------------------------------------------------------------------


def test_ratios_have_transformed_quantiles_and_the_moments_of_the_log_normal():
    fit = model(hyperparameters="mode").fit(FRAME)
    plain, ratios = fit.summary(), fit.summary(transform="exp")
    levels = ["0.025", "0.5", "0.975"]
    np.testing.assert_allclose(ratios[levels], np.exp(plain[levels]))
    variance = plain["sd"] ** 2
    np.testing.assert_allclose(ratios["mean"], np.exp(plain["mean"] + variance / 2))
    np.testing.assert_allclose(ratios["sd"], ratios["mean"] * np.sqrt(np.expm1(variance)))


def test_the_mode_states_no_spread_of_hyperparameters():
    table = model(Groups("node"), hyperparameters="mode").fit(FRAME).summary()
    assert table.loc[["Intercept", "share"]].notna().all(axis=None)
    assert table.loc["sd(node)"].isna().tolist() == [False, True, True, False, True]
    assert table.loc["sd(node)", "mean"] == table.loc["sd(node)", "0.5"] > 0


def test_ratios_of_an_average_over_hyperparameters_are_those_of_draws(fitted):
    ratios = fitted.summary(transform="exp")
    assert list(ratios.index) == ["Intercept", "share"]
    pair = FRAME.iloc[[0, 0]].assign(share=[1.0, 0.0])
    draws, _ = fitted._draws_of_rows(pair, 20_000, 1)
    ratio = draws[:, 0] / draws[:, 1]
    error = ratio.std() / np.sqrt(ratio.size)
    assert abs(ratio.mean() - ratios.loc["share", "mean"]) < 5 * error
    assert ratio.std() == pytest.approx(ratios.loc["share", "sd"], rel=0.05)


def test_only_exp_is_a_transform(fitted):
    with pytest.raises(ValueError, match="`transform` must be"):
        fitted.summary(transform="sqrt")


def test_a_lengthscale_has_its_range_in_edges_beside_it():
    fit = model(Nodes(GRAPH, grf.Matern(nu=2.0)), hyperparameters="mode").fit(FRAME)
    rows = fit.summary()["mean"]
    kernel = grf.Matern(nu=2.0, lengthscale=rows["lengthscale(node)"])
    expected = grf.kernels.correlation_range(kernel, GRAPH)
    assert rows["range(node), edges"] == pytest.approx(expected)
    smooth = model(Nodes(GRAPH, grf.Matern(nu=1.0)), hyperparameters="mode").fit(FRAME)
    assert "range(node), edges" not in smooth.summary().index  # it has none in the plane


# -- ranks -----------------------------------------------------------------------------------------


def test_ranks_are_those_of_joint_draws(fitted):
    last = FRAME[FRAME["year"] == 2005].drop_duplicates("node").set_index("node", drop=False)
    last = last.assign(share=0.5)
    found = fitted.ranks(last, top=3, n_samples=2_000, seed=4)
    assert list(found.columns) == ["0.025", "0.5", "0.975", "P(rank <= 3)"]
    assert found.index.equals(last.index)
    # In every draw three rows are among the first three.
    assert found["P(rank <= 3)"].sum() == pytest.approx(3)
    draws, _ = fitted._draws_of_rows(last, 2_000, 4)
    ranks = 1 + (draws[:, None, :] > draws[:, :, None]).sum(axis=2)
    np.testing.assert_allclose(found["P(rank <= 3)"], (ranks <= 3).mean(axis=0))
    np.testing.assert_array_equal(found["0.5"], np.sort(ranks, axis=0)[999])
    best = last["node"].iloc[int(np.argmax(fitted.predict(last)))]
    assert found["0.5"].idxmin() == best


def test_rows_that_are_the_same_share_a_rank(fitted):
    twice = FRAME.iloc[[0, 0, 1]]
    found = fitted.ranks(twice, top=1, seed=0)
    np.testing.assert_array_equal(found.iloc[0], found.iloc[1])
    with pytest.raises(ValueError, match="`top` must be"):
        fitted.ranks(twice, top=0)


# -- what is printed -------------------------------------------------------------------------------


def test_a_fitted_model_is_printed_in_ten_lines(fitted):
    lines = str(fitted).split("\n")
    assert len(lines) <= 10
    text = " ".join(str(fitted).split())
    for part in (
        "fitted to 200 rows; 10 nodes of node; 5 levels of year (2001 to 2005)",
        "cases ~ 1 + share, poisson, exposure=people",
        "Nodes(node, ICAR) + Steps(year, rw1)",
        "averaged over",
        "warnings none",
    ):
        assert part in text
    assert "likelihood" not in text  # a number by which formulas would be compared
    row = fitted.summary().loc["sd(node)"]
    assert f"sd(node) {row['0.5']:.3g} [{row['0.025']:.3g}, {row['0.975']:.3g}]" in text


def test_many_terms_take_ten_lines_too():
    frame = FRAME.assign(**{f"group{k}": FRAME.index % (k + 3) for k in range(5)})
    terms = [Covariate("share") * Groups(f"group{k}") for k in range(5)]
    text = str(model(*terms, hyperparameters="mode").fit(frame))
    assert len(text.split("\n")) <= 10
    assert "at the mode of the hyperparameters" in text


def test_the_representation_stays_that_of_scikit_learn(fitted):
    new = clone(fitted)
    assert str(new) == repr(new) == repr(fitted)
    assert repr(fitted).startswith("LatentGaussianModel(")


def test_warnings_of_a_fit_are_shown_kept_and_saved(tmp_path):
    few = FRAME.iloc[:8]
    with pytest.warns(UserWarning, match="8 observations"):
        fit = model(Groups("year")).fit(few)
    assert any("8 observations" in message for message in fit.warnings_)
    assert "8 observations" in str(fit)
    fit.save(tmp_path / "model.npz")
    loaded = LatentGaussianModel.load(tmp_path / "model.npz")
    assert str(loaded) == str(fit)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model(Groups("year")).fit(FRAME).warnings_ == []
