"""Fixed effects: the same wherever their zero is, and finite where they are unbounded."""

import warnings

import numpy as np
import pytest

from graphrf.gp import Groups, LatentGaussianModel, Ordinal
from graphrf.gp.latent.basis import FixedEffects

pandas = pytest.importorskip("pandas")
pytest.importorskip("formulaic")

RNG = np.random.default_rng(11)
N = 120


def data():
    x = RNG.standard_normal(N)
    g, k = np.arange(N) % 8, np.resize(list("abc"), N)
    eta = 0.5 + 0.6 * x + 0.3 * np.sin(g) + (k == "b") * 0.4
    return pandas.DataFrame(
        {
            "x": x,
            "far": x + 5e6,
            "g": g,
            "k": k,
            "gaussian": eta + 0.3 * RNG.standard_normal(N),
            "poisson": RNG.poisson(np.exp(eta)),
            "bernoulli": RNG.binomial(1, 1 / (1 + np.exp(-eta))),
            "gamma": RNG.gamma(3.0, np.exp(eta) / 3),
            "negative_binomial": RNG.poisson(np.exp(eta) * RNG.gamma(4.0, 0.25, N)),
            "ordinal": RNG.binomial(3, 1 / (1 + np.exp(-eta))),
        }
    )


FRAME = data()


def fitted(formula, likelihood, hyperparameters, frame=FRAME):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        own = Ordinal(4) if likelihood == "ordinal" else likelihood
        return LatentGaussianModel(
            formula, Groups("g"), own, hyperparameters=hyperparameters, seed=0
        ).fit(frame)


@pytest.mark.parametrize(
    "likelihood", ["gaussian", "poisson", "bernoulli", "gamma", "negative_binomial", "ordinal"]
)
@pytest.mark.parametrize(
    "hyperparameters", ["mode", pytest.param("average", marks=pytest.mark.more)]
)
def test_results_do_not_depend_on_where_zero_is(likelihood, hyperparameters):
    there = FRAME.iloc[:20].assign(x=lambda own: own["x"] + 0.3, far=lambda own: own["far"] + 0.3)
    for near, far in (("x", "far"), ("x * k", "far * k"), ("0 + k + x", "0 + k + far")):
        one, other = (
            fitted(f"{likelihood} ~ {effects}", likelihood, hyperparameters)
            for effects in (near, far)
        )
        slope = slice(-1, None) if "*" not in near else slice(-2, None)
        np.testing.assert_allclose(
            one.coefficients_[["mean", "sd"]].iloc[slope],
            other.coefficients_[["mean", "sd"]].iloc[slope],
            rtol=1e-6,
        )
        for ours, theirs in zip(
            one.predict(there, return_std=True), other.predict(there, return_std=True), strict=True
        ):
            np.testing.assert_allclose(ours, theirs, rtol=1e-6)
        assert one.log_marginal_likelihood_ == pytest.approx(
            other.log_marginal_likelihood_, abs=1e-6
        )


def test_results_do_not_depend_on_the_coding_of_categories():
    fits = [
        fitted(f"poisson ~ {effects}", "poisson", "average")
        for effects in ("k", "0 + k", "C(k, contr.sum)")
    ]
    for other in fits[1:]:
        np.testing.assert_allclose(other.predict(), fits[0].predict(), rtol=1e-8)
        assert other.log_marginal_likelihood_ == pytest.approx(
            fits[0].log_marginal_likelihood_, abs=1e-6
        )


def test_a_stated_prior_of_coefficients_is_of_those_that_the_user_sees():
    design = np.column_stack([np.ones(N), 3.0 + FRAME["x"]])
    effects = FixedEffects.of(design, 1.0, 2.0)
    covariance = effects.transform @ np.linalg.inv(effects.precision) @ effects.transform.T
    np.testing.assert_allclose(covariance, 4.0 * np.eye(2), atol=1e-10)
    np.testing.assert_allclose(effects.matrix, design @ effects.transform)


def test_categories_stay_sparse_in_their_basis():
    codes = np.arange(N) % 30
    design = np.column_stack([(codes[:, None] == np.arange(30)).astype(float), 7.0 + FRAME["x"]])
    design = np.column_stack([design, design[:, 3] * (100.0 + FRAME["x"])])
    matrix = FixedEffects.of(design, 1.0, None).matrix
    assert ((matrix != 0) <= (design != 0)).all()
    gram = matrix.T @ matrix / N
    np.testing.assert_allclose(gram, np.eye(32), atol=1e-10)


@pytest.mark.parametrize("hyperparameters", ["mode", "average"])
@pytest.mark.parametrize(
    "likelihood", ["poisson", "negative_binomial", "bernoulli", "zero_inflated_poisson"]
)
def test_levels_without_events_have_finite_answers_and_are_named(likelihood, hyperparameters):
    y = np.where(
        FRAME["k"] == "c", 0, np.minimum(FRAME["poisson"], 1 if likelihood == "bernoulli" else 99)
    )
    y[FRAME.index[FRAME["k"] == "a"][:3]] = 0
    frame = FRAME.assign(y=y)
    model = LatentGaussianModel(
        "y ~ k + x", Groups("g"), likelihood, hyperparameters=hyperparameters, seed=0
    )
    with pytest.warns(UserWarning, match="do not bound the effect of .*'c' of 'k'"):
        model.fit(frame)
    mean, deviation = model.predict(return_std=True)
    empty = (frame["k"] == "c").to_numpy()
    assert np.isfinite([mean, deviation]).all()
    assert mean[empty].max() < 6 / empty.sum()  # no event in 40 rows
    assert (model.predict(quantiles=(0.025, 0.975))[empty, 0] > 1e-6).all()


def test_rows_without_any_event_have_finite_answers():
    for likelihood, value in (("poisson", 0), ("bernoulli", 0), ("bernoulli", 1)):
        for hyperparameters in ("mode", "average"):
            frame = FRAME.assign(y=value)
            model = LatentGaussianModel(
                "y ~ 1", Groups("g"), likelihood, hyperparameters=hyperparameters, seed=0
            )
            with pytest.warns(UserWarning, match="do not bound"):
                mean, deviation = model.fit(frame).predict(return_std=True)
            assert np.abs(mean - value).max() < 0.05
            assert np.isfinite(deviation).all()


def test_covariates_that_separate_have_finite_effects():
    frame = FRAME.assign(y=(FRAME["x"] > 0).astype(int))
    model = LatentGaussianModel("y ~ x", Groups("g"), "bernoulli", hyperparameters="mode", seed=0)
    with pytest.warns(UserWarning, match="do not bound the effect of all fixed effects together"):
        model.fit(frame)
    mean, sd = model.coefficients_.loc["x", ["mean", "sd"]]
    assert 1 < mean < 30
    assert 0 < sd < 30


@pytest.mark.parametrize("likelihood", ["gaussian", "poisson", "bernoulli", "ordinal"])
def test_effects_that_the_observations_bound_are_left_as_they_are(likelihood):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        own = Ordinal(4) if likelihood == "ordinal" else likelihood
        LatentGaussianModel(
            f"{likelihood} ~ k * x", Groups("g"), own, hyperparameters="mode", seed=0
        ).fit(FRAME)
    assert not [each for each in caught if "do not bound" in str(each.message)]
