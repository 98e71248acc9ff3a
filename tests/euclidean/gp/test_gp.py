"""Sparse spectrum GP regression against dense formulas, exact GPs and finite differences."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from sklearn.utils.estimator_checks import check_estimator

from graphrf.euclidean.features import FourierFeatures
from graphrf.euclidean.frequencies.draw import draw_frequencies
from graphrf.euclidean.gp.sparse_spectrum import SparseSpectrumGPRegressor
from tests.euclidean.gp.slopes import assert_slopes

SCALE, NOISE, LENGTHSCALE = 1.7, 0.3, np.array([0.8, 1.6])
FIXED = {"lengthscale": LENGTHSCALE, "output_scale": SCALE, "noise": NOISE}


pytestmark = pytest.mark.usefixtures("one_torch_thread")


def data(n, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2)) + [3, -2]
    return x, np.sin(2 * x[:, 0]) + 0.3 * x[:, 1] ** 2 + 0.2 * rng.standard_normal(n)


def dense(x, y, x_new, gram, mean="constant"):
    """Mean, deviation, constant and log likelihood by dense formulas, App. B.2 Eq. 43."""
    inverse = np.linalg.inv(SCALE * gram(x, x) + NOISE * np.eye(len(y)))
    c = inverse.sum(0) @ y / inverse.sum() if mean == "constant" else 0.0
    cross = SCALE * gram(x_new, x)
    variance = SCALE * np.diag(gram(x_new, x_new)) - np.einsum("ij,jk,ik->i", cross, inverse, cross)
    likelihood = multivariate_normal.logpdf(y, np.full(len(y), c), np.linalg.inv(inverse))
    return c + cross @ inverse @ (y - c), np.sqrt(variance), c, likelihood


def feature_gram(features):
    return lambda a, b: features.transform(a) @ features.transform(b).T


# -- against exact formulas ------------------------------------------------------------------------


@pytest.mark.parametrize("n", [10, 60], ids=["fewer rows than features", "more rows"])
@pytest.mark.parametrize("mean", ["constant", "zero"])
def test_predictions_and_likelihood_are_the_dense_ones(n, mean):
    x, y = data(n)
    x_new = data(7, seed=1)[0]
    features = FourierFeatures(12, lengthscale=LENGTHSCALE, seed=5).fit(x)
    gp = SparseSpectrumGPRegressor(12, mean=mean, seed=5, **FIXED).fit(x, y)
    expected_mean, expected_std, c, likelihood = dense(x, y, x_new, feature_gram(features), mean)
    predicted, std = gp.predict(x_new, return_std=True)
    np.testing.assert_allclose(predicted, expected_mean, rtol=0, atol=1e-10)
    np.testing.assert_allclose(std, expected_std, rtol=1e-9)
    assert gp.mean_ == pytest.approx(c, abs=1e-10)
    assert gp.log_marginal_likelihood_ == pytest.approx(likelihood, abs=1e-8)
    observed = gp.predict(x_new, return_std="observation")[1]
    np.testing.assert_allclose(observed**2, std**2 + NOISE, rtol=1e-12)


def test_another_draw_of_frequencies_is_another_model():
    """A negative control of the test above: its tolerance tells two draws apart."""
    x, y = data(60)
    features = FourierFeatures(12, lengthscale=LENGTHSCALE, seed=6).fit(x)
    gp = SparseSpectrumGPRegressor(12, seed=5, **FIXED).fit(x, y)
    assert np.abs(gp.predict(x) - dense(x, y, x, feature_gram(features))[0]).max() > 1e-3


@pytest.mark.parametrize("n", [10, 60])
def test_draws_have_the_posterior_law(n):
    x, y = data(n)
    gp = SparseSpectrumGPRegressor(12, seed=5, **FIXED).fit(x, y)
    x_new = data(4, seed=1)[0]
    features = FourierFeatures(12, lengthscale=LENGTHSCALE, seed=5).fit(x)
    phi, phi_new = (
        np.sqrt(SCALE) * features.transform(x),
        np.sqrt(SCALE) * features.transform(x_new),
    )
    covariance = phi_new @ np.linalg.inv(phi.T @ phi / NOISE + np.eye(24)) @ phi_new.T
    draws = gp.sample(x_new, 20_000, seed=3)
    assert draws.shape == (20_000, 4)
    white = np.linalg.solve(np.linalg.cholesky(covariance), (draws - gp.predict(x_new)).T)
    assert np.abs(white.mean(1)).max() * np.sqrt(20_000) < 5
    second = white @ white.T / 20_000
    error = np.sqrt((1 + np.eye(4)) / 20_000)
    assert (np.abs(second - np.eye(4)) < 5 * error).all()


def test_a_draw_is_one_function_whatever_the_points_and_the_number_of_draws():
    x, y = data(60)
    gp = SparseSpectrumGPRegressor(12, seed=5, **FIXED).fit(x, y)
    whole = gp.sample(x, 5, seed=2)
    np.testing.assert_allclose(gp.sample(x[3:6], 2, seed=2), whole[:2, 3:6], rtol=0, atol=1e-12)


# -- gradients -------------------------------------------------------------------------------------


@pytest.mark.parametrize("frequencies", ["fixed", "trained"])
@pytest.mark.parametrize("n", [7, 40])
def test_the_gradient_of_the_likelihood_is_that_of_finite_differences(n, frequencies):
    x, y = data(n)
    gp = SparseSpectrumGPRegressor(4, frequencies=frequencies, seed=0)
    gp._m = 4
    observed, _ = gp._observed(x, y[:, None])
    matrix = draw_frequencies(4, 2, seed=0).matrix
    # blocks of a few rows, so that the sum over blocks is tested too
    observed = observed._replace(block_numbers=100)
    objective = gp.evidence(observed, torch.tensor(matrix) if frequencies == "fixed" else None)
    point = {"lengthscale": np.log([0.9, 1.4]), "output_scale": np.log(1.2), "noise": np.log(0.2)}
    if frequencies == "trained":
        point["frequencies"] = matrix.copy()
    assert_slopes(objective, point, rel=1e-5)


# -- training --------------------------------------------------------------------------------------


def test_training_finds_a_maximum_of_the_likelihood():
    x, y = data(120)
    gp = SparseSpectrumGPRegressor(16, seed=5).fit(x, y)
    assert gp.converged_
    best = {"lengthscale": gp.lengthscale_, "output_scale": gp.output_scale_, "noise": gp.noise_}
    again = SparseSpectrumGPRegressor(16, seed=5, **best).fit(x, y)
    assert again.log_marginal_likelihood_ == pytest.approx(gp.log_marginal_likelihood_, abs=1e-8)
    for name in best:
        for factor in (0.8, 1.25):
            moved = SparseSpectrumGPRegressor(
                16, seed=5, **(best | {name: factor * best[name]})
            ).fit(x, y)
            assert moved.log_marginal_likelihood_ < gp.log_marginal_likelihood_


def test_several_outputs_share_hyperparameters_and_add_their_likelihoods():
    x, y = data(60)
    both = np.column_stack([y, np.cos(x[:, 1])])
    gp = SparseSpectrumGPRegressor(8, seed=0, **FIXED).fit(x, both)
    single = [SparseSpectrumGPRegressor(8, seed=0, **FIXED).fit(x, column) for column in both.T]
    mean, std = gp.predict(x, return_std=True)
    assert mean.shape == std.shape == (60, 2)
    assert gp.mean_.shape == (2,)
    for column, each in enumerate(single):
        np.testing.assert_allclose(mean[:, column], each.predict(x), atol=1e-10)
    total = sum(each.log_marginal_likelihood_ for each in single)
    assert gp.log_marginal_likelihood_ == pytest.approx(total, abs=1e-8)
    assert gp.sample(x[:3], 2, seed=0).shape == (2, 3, 2)


# -- the door --------------------------------------------------------------------------------------


def test_scikit_learns_checks_pass():
    gp = SparseSpectrumGPRegressor(2, frequencies="trained", max_iterations=1, seed=0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Skipping check")
        check_estimator(gp)


@pytest.mark.parametrize(
    "mode", [torch.no_grad, torch.inference_mode], ids=["no_grad", "inference"]
)
def test_training_is_the_same_in_any_mode_of_the_caller(mode):
    x, y = data(30)
    outside, inside = (
        SparseSpectrumGPRegressor(4, frequencies="trained", max_iterations=5, seed=0)
        for _ in range(2)
    )
    outside.fit(x, y)
    with mode():
        inside.fit(x, y)
        predicted = inside.predict(x)
    for answer in (predicted, inside.predict(x)):
        np.testing.assert_array_equal(answer, outside.predict(x))
    np.testing.assert_array_equal(inside.sample(x, seed=1), outside.sample(x, seed=1))


def test_a_constant_y_is_predicted_with_a_warning():
    x, _ = data(20)
    with pytest.warns(UserWarning, match="`y` is constant"):
        gp = SparseSpectrumGPRegressor(4, seed=0).fit(x, np.full(20, 7.0))
    np.testing.assert_allclose(gp.predict(x), 7.0)


@pytest.mark.parametrize(
    ("settings", "error", "match"),
    [
        ({"n_frequencies": 0}, ValueError, "`n_frequencies` must be at least 1"),
        ({"directions": "sobol"}, ValueError, "`norms` must be None"),
        ({"frequencies": "free"}, ValueError, "`frequencies` must be one of"),
        ({"lengthscale": "both"}, ValueError, "`lengthscale` must be one of 'ard', 'shared'"),
        (
            {"lengthscale": [1.0, 2.0, 3.0]},
            ValueError,
            "`lengthscale` must be one number or one for each",
        ),
        ({"noise": 0.0}, ValueError, "`noise` must be greater than 0"),
        ({"output_scale": "large"}, TypeError, "`output_scale` must be a number"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_bad_settings_are_refused(settings, error, match):
    x, y = data(10)
    gp = SparseSpectrumGPRegressor(**({"n_frequencies": 4, "seed": 0} | settings))
    with pytest.raises(error, match=match):
        gp.fit(x, y)


@pytest.mark.parametrize("settings", [{}, FIXED], ids=["trained", "given"])
@pytest.mark.parametrize("factor", [1e200, 1e-170])
def test_data_whose_squares_are_no_numbers_are_refused(settings, factor):
    x, y = data(20)
    gp = SparseSpectrumGPRegressor(4, max_iterations=5, seed=0, **settings)
    wanted = (
        "must be at least 1e-140 and at most 1e\\+140 in size, whose squares float64 can hold, got "
        ".*: rescale it"
    )
    for name, args in (("X", (factor * x, y)), ("X", (x * [1, factor], y)), ("y", (x, factor * y))):
        with pytest.raises(ValueError, match=f"`{name}` {wanted}"):
            gp.fit(*args)
    gp.fit(x * [1, 0], y)
    with pytest.raises(ValueError, match=r"`X` must be at most 1e\+140"):
        gp.predict(1e200 * x)
    assert np.isfinite(gp.predict(1e-200 * x)).all()


@pytest.mark.parametrize("factor", [1e-130, 1e130])
def test_units_do_not_matter_within_the_range_of_numbers(factor):
    x, y = data(60)
    plain, inputs, outputs = (
        SparseSpectrumGPRegressor(8, seed=0).fit(a * x, b * y)
        for a, b in ((1, 1), (factor, 1), (1, factor))
    )
    mean, std = plain.predict(x, return_std=True)
    # the search ends a little elsewhere after other roundings
    np.testing.assert_allclose(
        inputs.predict(factor * x, return_std=True), [mean, std], rtol=1e-3, atol=1e-3
    )
    np.testing.assert_allclose(
        outputs.predict(x, return_std=True), [factor * mean, factor * std], rtol=1e-3
    )
    assert outputs.noise_ == pytest.approx(factor**2 * plain.noise_, rel=1e-3)
    assert inputs.noise_ == pytest.approx(plain.noise_, rel=1e-3)


def test_bad_data_are_refused():
    """The checks of scikit-learn have others."""
    x, y = data(10)
    gp = SparseSpectrumGPRegressor(4, seed=0, **FIXED)
    with pytest.raises(ValueError, match="y contains NaN"):
        gp.fit(x, np.where(y == y[0], np.nan, y))
    gp.fit(x, y)
    with pytest.raises(ValueError, match="`return_std` must be True, False or 'observation'"):
        gp.predict(x, return_std="all")
    with pytest.raises(ValueError, match="`n_samples` must be at least 1"):
        gp.sample(x, 0)
