"""Answers of `LatentGaussianModel`: quantiles, probabilities, scores and criteria."""

import re
import warnings
from dataclasses import dataclass

import numpy as np
import pytest

import graphrf as grf
from graphrf.gp import Groups, LatentGaussianModel, Likelihood

pandas = pytest.importorskip("pandas")
pytest.importorskip("formulaic")

KNOWN = {"hyperparameters": "mode", "seed": 0}


def frame(n=80, seed=0):
    rng = np.random.default_rng(seed)
    made = pandas.DataFrame(
        {"g": rng.integers(0, 8, n), "x": rng.standard_normal(n), "people": rng.uniform(1, 5, n)},
        index=[f"row {k}" for k in range(n)],
    )
    eta = 0.5 + 0.4 * made["x"] + 0.2 * np.sin(made["g"])
    made["y"] = eta + 0.3 * rng.standard_normal(n)
    made["cases"] = rng.poisson(made["people"] * np.exp(eta))
    made["tries"] = rng.integers(1, 9, n)
    made["won"] = rng.binomial(made["tries"], 1 / (1 + np.exp(-eta)))
    made["wait"] = rng.exponential(np.exp(eta))
    return made


FRAME = frame()
MODELS = {
    "gaussian": ("y ~ 1 + x", {}),
    "poisson": ("cases ~ 1 + x", {"exposure": "people"}),
    "binomial": ("won ~ 1 + x", {"trials": "tries"}),
}
BESIDE = {
    "gaussian": lambda rows: 1.0,
    "poisson": lambda rows: rows["people"],
    "binomial": lambda rows: rows["tries"],
}


def model(likelihood="poisson", **settings):
    formula, beside = MODELS[likelihood]
    return LatentGaussianModel(formula, Groups("g"), likelihood, **{**KNOWN, **beside, **settings})


@dataclass(frozen=True)
class Rising(Likelihood):
    """Exponential waiting times of mean exp(f)."""

    support = (0.0, np.inf)

    def log_density(self, y, f):
        return -f - y * np.exp(-f)

    def mean(self, f):
        return np.exp(f)

    def variance(self, f):
        return np.exp(2 * f)

    def distribution(self, y, f):
        return -np.expm1(-y * np.exp(-f))


@dataclass(frozen=True)
class Falling(Rising):
    """The same of mean exp(-f), so that f is the logarithm of the hazard."""

    def log_density(self, y, f):
        return super().log_density(y, -f)

    def mean(self, f):
        return super().mean(-f)

    def variance(self, f):
        return super().variance(-f)

    def distribution(self, y, f):
        return super().distribution(y, -f)


class Impossible(grf.gp.Poisson):
    """Under which the fourth row cannot be."""

    def log_density(self, y, f):
        density = super().log_density(y, f)
        density[3] = -np.inf
        return density


def test_the_sign_of_f_does_not_change_answers_about_observations():
    levels = (0.05, 0.5, 0.95)
    graph = grf.from_edges(range(7), range(1, 8))
    settings = {"kernel": grf.Diffusion(1.0), "output_scale": 1.0, "optimize": False, "seed": 0}
    answers = []
    for likelihood in (Rising(), Falling()):
        latent = LatentGaussianModel("wait ~ 1 + x", Groups("g"), likelihood, **KNOWN).fit(FRAME)
        on_graph = grf.GraphGPRegressor(graph, likelihood=likelihood, **settings)
        on_graph.fit(FRAME["g"].to_numpy(), FRAME["wait"].to_numpy())
        own = []
        for gp, asked in ((latent, FRAME.iloc[:6]), (on_graph, [0, 3, 7])):
            expected = gp.predict(asked, quantiles=levels)
            observed = gp.predict(asked, quantiles=levels, return_std="observation")
            assert (np.diff(expected) > 0).all()
            assert (np.diff(observed) > 0).all()
            above, between = (
                gp.probability(asked, above=1.5),
                gp.probability(asked, above=1.0, below=2.0),
            )
            assert ((above > 0) & (above < 1) & (between > 0)).all()
            own += [expected, observed, above, between, gp.predict(asked)]
        answers.append(own)
    for rising, falling in zip(*answers, strict=True):
        np.testing.assert_allclose(falling, rising, rtol=2e-3)


@pytest.mark.parametrize("likelihood", MODELS)
def test_quantiles_of_observations_are_those_of_drawn_observations(likelihood):
    gp = model(likelihood).fit(FRAME)
    rows = FRAME.iloc[:4]
    draws = gp.sample(rows, 20_000, seed=0, observations=True)
    found = gp.predict(rows, quantiles=(0.1, 0.5, 0.9), return_std="observation")
    for k, level in enumerate((0.1, 0.5, 0.9)):
        quantile = found[:, k]
        assert ((draws <= quantile).mean(axis=0) > level - 0.02).all()
        assert ((draws < quantile).mean(axis=0) < level + 0.02).all()
    factor = BESIDE[likelihood](rows)
    narrow = gp.predict(rows, quantiles=(0.1, 0.9)) * np.reshape(factor, (-1, 1))
    assert (found[:, 2] - found[:, 0] > 1.2 * (narrow[:, 1] - narrow[:, 0])).all()
    mean, std = gp.predict(rows, return_std="observation")
    np.testing.assert_allclose(mean, gp.predict(rows) * factor)
    np.testing.assert_allclose(mean, draws.mean(axis=0), atol=0.05 * std.max())
    np.testing.assert_allclose(std, draws.std(axis=0), rtol=0.05)


@pytest.mark.parametrize("likelihood", MODELS)
def test_one_table_has_means_deviations_and_quantiles(likelihood):
    gp = model(likelihood).fit(FRAME)
    for kind in (True, "observation"):
        for rows in (FRAME.iloc[5:2:-1], None):
            table = gp.predict(rows, return_std=kind, quantiles=(0.1, 0.9), as_frame=True)
            assert list(table.columns) == ["mean", "std", "0.1", "0.9"]
            assert table.index.equals((FRAME if rows is None else rows).index)
            mean, std = gp.predict(rows, return_std=kind)
            of = {"return_std": kind} if kind == "observation" else {}
            quantiles = gp.predict(rows, quantiles=(0.1, 0.9), **of)
            np.testing.assert_array_equal(table, np.column_stack([mean, std, quantiles]))
    with pytest.raises(ValueError, match="`quantiles` are returned alone: as_frame=True"):
        gp.predict(return_std=True, quantiles=0.5)


def test_exposures_of_predictions_in_another_unit_are_warned_of():
    gp = model().fit(FRAME)
    low, high = FRAME["people"].min(), FRAME["people"].max()
    rows = FRAME.iloc[:2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for factor in (0.02 * low / high, 50.0):
            gp.predict(rows.assign(people=factor * high), return_std="observation")
        gp.predict(rows.assign(people=1e6 * high), return_std=True)  # which read no exposure
    said = f"{1e6 * high:.3g} to {1e6 * high:.3g}, that of the fit {low:.3g} to {high:.3g}: "
    with pytest.warns(UserWarning, match=re.escape(said)):
        gp.predict(rows.assign(people=1e6 * high), return_std="observation")
    with pytest.warns(UserWarning, match="in one unit"):
        gp.sample(rows.assign(people=1e-6 * high), 2, seed=0, observations=True)


def test_observations_have_the_exposure_of_their_row():
    gp = model().fit(FRAME)
    rows = FRAME.iloc[[0, 0]].assign(people=[1.0, 50.0])
    low, high = gp.predict(rows, return_std="observation", quantiles=(0.025, 0.975)).T
    assert high[0] < 20 < low[1]
    np.testing.assert_array_equal(*gp.predict(rows, quantiles=(0.5,)))
    once = LatentGaussianModel("cases ~ 1 + x", Groups("g"), "poisson", **KNOWN)
    once.set_params(exposure=FRAME["people"]).fit(FRAME)
    np.testing.assert_allclose(
        once.predict(FRAME.iloc[:3], return_std="observation"),
        gp.predict(FRAME.iloc[:3], return_std="observation"),
    )
    with pytest.raises(ValueError, match="no column 'people', which `exposure` reads"):
        gp.predict(FRAME.drop(columns="people"), return_std="observation")


def test_draws_are_of_observations_or_of_the_linear_predictor():
    gp = model().fit(FRAME)
    with pytest.raises(ValueError, match="`observations` are not of the latent function"):
        gp.sample(FRAME, 3, latent=True, observations=True)
    latent, rates = gp.sample(FRAME, 3, seed=0, latent=True), gp.sample(FRAME, 3, seed=0)
    np.testing.assert_allclose(rates, np.exp(latent))


def test_the_effect_of_a_column_is_a_difference_of_linear_predictors(tmp_path):
    data = FRAME.assign(kind=np.where(FRAME["g"] < 3, "low", "high"))
    formula = "cases ~ 1 + x + I(x**2) + kind"
    gp = LatentGaussianModel(formula, Groups("g"), "poisson", exposure="people", **KNOWN).fit(data)
    effects = gp.effects("x")
    assert len(effects) == 50
    assert [effects.index[0], effects.index[-1]] == [data["x"].min(), data["x"].max()]
    rows = data.iloc[[0] * 50].assign(x=effects.index)
    predicted = gp.predict(rows, latent=True)
    np.testing.assert_allclose(np.diff(effects["mean"]), np.diff(predicted), atol=1e-8)
    # The mean over the rows of the fit is 0.
    slope, curve = gp.coefficients_.loc[["x", "I(x ** 2)"], "mean"]
    at = effects.index.to_numpy()
    own = slope * (at - data["x"].mean()) + curve * (at**2 - (data["x"] ** 2).mean())
    np.testing.assert_allclose(effects["mean"], own, atol=1e-8)
    between = np.ptp(gp.effects("kind")["mean"])
    kind = next(name for name in gp.coefficients_.index if name.startswith("kind"))
    assert between == pytest.approx(abs(gp.coefficients_.loc[kind, "mean"]))
    gp.save(tmp_path / "gp.npz")
    loaded = LatentGaussianModel.load(tmp_path / "gp.npz")
    pandas.testing.assert_frame_equal(loaded.effects("x"), effects)


def test_an_effect_that_depends_on_other_columns_is_refused():
    gp = LatentGaussianModel("cases ~ x * people", Groups("g"), "poisson", **KNOWN).fit(FRAME)
    with pytest.raises(ValueError, match=r"`term` = 'x' .* depends on 'people': predict\(frame"):
        gp.effects("x")


def test_the_fitted_rows_have_their_labels():
    gp = model().fit(FRAME)
    for answer in (
        gp.predict(as_frame=True, return_std=True),
        gp.predict(as_frame=True, quantiles=(0.1, 0.9), return_std="observation"),
        gp.probability(above=1.0, as_frame=True),
    ):
        assert answer.index.equals(FRAME.index)
    assert list(gp.probability(FRAME.iloc[:2], above=1.0, as_frame=True).columns) == ["probability"]


def test_probabilities_of_the_linear_predictor_are_those_of_its_mean():
    gp = model().fit(FRAME)
    np.testing.assert_allclose(
        gp.probability(above=0.3, latent=True), gp.probability(above=np.exp(0.3))
    )
    below = gp.predict(FRAME, quantiles=[0.2], latent=True)[0, 0]
    assert gp.probability(FRAME.iloc[:1], below=below, latent=True)[0] == pytest.approx(
        0.2, abs=1e-6
    )


@pytest.mark.parametrize("likelihood", MODELS)
def test_scores_and_densities_are_those_of_held_out_rows(likelihood):
    from scipy.stats import binom, norm, poisson

    seen, held = FRAME.iloc[:60], FRAME.iloc[60:]
    gp = model(likelihood).fit(seen)
    factor = {"poisson": held["people"], "binomial": held["tries"]}.get(likelihood, 1.0)
    y = held[MODELS[likelihood][0].split()[0]]
    error = y - gp.predict(held) * factor
    assert gp.score(held) == pytest.approx(1 - (error**2).sum() / ((y - y.mean()) ** 2).sum())
    if likelihood == "gaussian":
        expected = norm.logpdf(y, *gp.predict(held, return_std="observation"))
    else:
        eta = gp.sample(held, 20_000, seed=0, latent=True)
        mean = np.exp(eta) if likelihood == "poisson" else 1 / (1 + np.exp(-eta))
        law = (
            poisson(mean * factor.to_numpy())
            if likelihood == "poisson"
            else binom(factor.to_numpy(), mean)
        )
        expected = np.log(law.pmf(y.to_numpy()).mean(axis=0))
    np.testing.assert_allclose(gp.log_density(held), expected, atol=0.03)


# -- criteria --------------------------------------------------------------------------------------


def test_leave_one_out_is_printed_in_five_lines_with_the_worst_rows():
    data = FRAME.assign(cases=FRAME["cases"].where(FRAME.index != "row 7", 90))
    result = model().fit(data).loo()
    lines = repr(result).splitlines()
    assert len(lines) == 5
    assert f"{result.total:.1f}" in lines[1]
    assert f"{result.standard_error:.1f}" in lines[2]
    assert "80" in lines[3]
    assert "row 7 (" in lines[4]
    assert result.total == pytest.approx(result.log_density.sum())
    assert result.standard_error == pytest.approx(np.sqrt(80) * result.log_density.std(ddof=1))
    assert result.log_density.shape == result.pit.shape == (80,)


def test_rows_that_are_impossible_given_the_others_are_named():
    gp = model().fit(FRAME)
    gp._points = [each._replace(likelihood=Impossible()) for each in gp._points]
    with pytest.warns(
        UserWarning,
        match=r"of 1 of 80 observations given all others is not finite, as that of row row 3: ",
    ):
        result = gp.loo()
    assert np.isinf(result.log_density[3])
    assert "row 3 (-inf)" in repr(result)


def test_waic_warns_where_densities_vary_much_over_the_posterior_and_only_there():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model("gaussian").fit(frame(600)).waic()
    saturated = FRAME.assign(own=np.arange(80))
    gp = LatentGaussianModel(
        "cases ~ 1", Groups("own", prior={"sd": (3.0, 1.1)}), "poisson", **KNOWN
    )
    gp.fit(saturated)
    with pytest.warns(
        UserWarning, match=r"WAIC may mislead here: .* variance above 0\.4 .* use loo\(\)"
    ):
        gp.waic()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isfinite(gp.loo().total)
