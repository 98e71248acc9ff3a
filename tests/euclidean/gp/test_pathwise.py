"""Decoupled draws against their closed forms, exactly: a draw is linear in its normals."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.kernel_approximation import Nystroem

from graphrf.euclidean.features import FourierFeatures
from graphrf.euclidean.gp import pathwise
from graphrf.euclidean.gp.moments import decoupled_moments, exact_moments, weight_space_moments
from graphrf.euclidean.gp.pathwise import decoupled_draws, weight_space_draws
from graphrf.euclidean.kernels import stationary_kernel

rng = np.random.default_rng(0)
X = rng.uniform(size=(7, 2))
Y = rng.standard_normal(7)
ASKED = rng.uniform(size=(5, 2))
FREQUENCIES = rng.standard_normal((4, 2))
NOISE = rng.uniform(0.01, 0.3, 7)
ROOT = rng.standard_normal((7, 7))
SETTINGS = {"noise": NOISE, "lengthscale": [0.5, 0.4], "output_scale": 1.7}
ALONE = {"noise": NOISE, "output_scale": 1.7}


class Few:
    """Eight features, far from enough for the kernel."""

    def transform(self, x):
        angles = (x / SETTINGS["lengthscale"]) @ FREQUENCIES.T
        return np.hstack([np.cos(angles), np.sin(angles)]) / 2


class Complete:
    """Features whose products are the kernel at points: rows K(x, z) L^-T, K(z, z) = L L^T."""

    def __init__(self, points, kernel="gaussian"):
        self._points, self._kernel = points, stationary_kernel(kernel)
        self._root = np.linalg.cholesky(self._gram(points))

    def _gram(self, x):
        return self._kernel.gram(x, self._points, lengthscale=SETTINGS["lengthscale"])

    def transform(self, x):
        return np.linalg.solve(self._root, self._gram(x).T).T


class UnitNormals:
    """In place of a Generator: draw i gets the i-th unit vector as normals, the last zeros.

    The mean of what is linear in the normals is then the last draw, its covariance a sum of squares
    of the rest.
    """

    def __init__(self, n_numbers):
        self.n_draws = n_numbers + 1
        self._numbers = np.vstack([np.eye(n_numbers), np.zeros(n_numbers)]).ravel()
        self._used = 0

    def standard_normal(self, shape):
        start, self._used = self._used, self._used + int(np.prod(shape))
        return self._numbers[start : self._used].reshape(shape)


@pytest.fixture
def unit_normals(monkeypatch):
    """Makes draws from unit normals, for 8 features and 7 points."""
    units = UnitNormals(8 + 7)
    monkeypatch.setattr(pathwise.np.random, "default_rng", lambda seed: units)
    return units


def dense(kernel="gaussian"):
    """K, K_*, K_**, Phi, Phi_* with the output scale."""
    law, scale = stationary_kernel(kernel), SETTINGS["output_scale"]
    grams = [
        scale * law.gram(a, b, lengthscale=SETTINGS["lengthscale"])
        for a, b in ((X, X), (ASKED, X), (ASKED, ASKED))
    ]
    return *grams, np.sqrt(scale) * Few().transform(X), np.sqrt(scale) * Few().transform(ASKED)


def assert_same(law, mean, covariance, atol=1e-10):
    np.testing.assert_allclose(law.mean, mean, rtol=0, atol=atol)
    np.testing.assert_allclose(law.covariance, covariance, rtol=0, atol=atol)


# -- closed forms --------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ["gaussian", "matern32"])
def test_exact_moments_are_equation_a2(kernel):
    gram, cross, prior, _, _ = dense(kernel)
    inverse = np.linalg.inv(gram + np.diag(NOISE))
    assert_same(
        exact_moments(kernel, X, Y, ASKED, **SETTINGS),
        cross @ inverse @ Y,
        prior - cross @ inverse @ cross.T,
    )


@pytest.mark.parametrize("kernel", ["gaussian", "matern32"])
def test_decoupled_moments_are_equation_a6_with_its_transpose_and_the_noise(kernel):
    gram, cross, _, phi, phi_new = dense(kernel)
    a = gram + np.diag(NOISE)
    update = cross @ np.linalg.inv(a)
    once = update @ phi @ phi_new.T
    covariance = (
        phi_new @ phi_new.T - once - once.T + update @ (phi @ phi.T + np.diag(NOISE)) @ update.T
    )
    law = decoupled_moments(Few(), kernel, X, Y, ASKED, **SETTINGS)
    assert_same(law, update @ Y, covariance)
    assert np.abs(once - once.T).max() > 0.01  # twice the same term, as printed, is not symmetric


def test_weight_space_moments_are_those_of_the_weights():
    _, _, _, phi, phi_new = dense()
    precision = np.eye(8) + (phi.T / NOISE) @ phi
    weights = np.linalg.solve(precision, (phi.T / NOISE) @ Y)
    law = weight_space_moments(Few(), X, Y, ASKED, **ALONE)
    assert_same(law, phi_new @ weights, phi_new @ np.linalg.solve(precision, phi_new.T))


def test_with_features_that_give_the_kernel_both_posteriors_are_exact():
    features = Complete(np.vstack([X, ASKED]))
    exact = exact_moments("gaussian", X, Y, ASKED, **SETTINGS)
    assert_same(
        decoupled_moments(features, "gaussian", X, Y, ASKED, **SETTINGS), *exact, atol=1e-13
    )
    assert_same(weight_space_moments(features, X, Y, ASKED, **ALONE), *exact, atol=1e-12)
    few = decoupled_moments(Few(), "gaussian", X, Y, ASKED, **SETTINGS)
    assert np.abs(few.covariance - exact.covariance).max() > 0.1


def test_features_of_scikit_learn_serve():
    everything = np.vstack([X, ASKED])
    features = Nystroem(kernel="rbf", gamma=2.0, n_components=12, random_state=0).fit(everything)
    settings = {**SETTINGS, "lengthscale": 0.5}
    exact = exact_moments("gaussian", X, Y, ASKED, **settings)
    assert_same(decoupled_moments(features, "gaussian", X, Y, ASKED, **settings), *exact, atol=1e-8)


# -- draws ---------------------------------------------------------------------------------------


def test_decoupled_draws_have_exactly_their_moments(unit_normals):
    draws = decoupled_draws(
        Few(), "gaussian", X, Y, n_samples=unit_normals.n_draws, seed=0, **SETTINGS
    )
    values = draws.at(ASKED)
    deviations = values[:-1] - values[-1]
    law = decoupled_moments(Few(), "gaussian", X, Y, ASKED, **SETTINGS)
    assert_same(law, values[-1], deviations.T @ deviations)


def test_weight_space_draws_have_exactly_their_moments(unit_normals):
    draws = weight_space_draws(Few(), X, Y, n_samples=unit_normals.n_draws, seed=0, **ALONE)
    values = draws.at(ASKED)
    deviations = values[:-1] - values[-1]
    assert_same(
        weight_space_moments(Few(), X, Y, ASKED, **ALONE), values[-1], deviations.T @ deviations
    )


def test_inducing_values_of_each_draw_add_their_covariance(unit_normals):
    # u = m + S^(1/2) e of an independent e adds C S C^T, C = K_* K_uu^-1.
    settings = {**SETTINGS, "noise": 0.0}
    n = unit_normals.n_draws
    # The first eight draws have unit weights, the next seven (whose noise is 0) a unit e.
    moved = np.vstack([np.zeros((8, 7)), ROOT.T, np.zeros((1, 7))])
    values = decoupled_draws(Few(), "gaussian", X, Y + moved, n_samples=n, seed=0, **settings).at(
        ASKED
    )
    deviations = values[:-1] - values[-1]
    gram, cross, *_ = dense()
    update = cross @ np.linalg.inv(gram)
    law = decoupled_moments(Few(), "gaussian", X, Y, ASKED, **settings)
    expected = law.covariance + update @ ROOT @ ROOT.T @ update.T
    np.testing.assert_allclose(deviations.T @ deviations, expected, rtol=1e-9, atol=1e-9)


def test_the_same_seed_gives_the_same_bits_and_more_draws_the_same_first_ones():
    def draws(n, seed):
        return decoupled_draws(Few(), "gaussian", X, Y, n_samples=n, seed=seed, **SETTINGS)

    np.testing.assert_array_equal(draws(4, 7).at(ASKED), draws(4, 7).at(ASKED))
    np.testing.assert_allclose(draws(9, 7).at(ASKED)[:4], draws(4, 7).at(ASKED), atol=1e-12)
    assert np.abs(draws(4, 8).at(ASKED) - draws(4, 7).at(ASKED)).max() > 0.1
    unseeded = draws(4, None)
    np.testing.assert_array_equal(draws(4, unseeded.seed).at(ASKED), unseeded.at(ASKED))


@pytest.mark.parametrize("way", ["decoupled", "weights"])
def test_a_draw_is_one_function_whatever_is_asked_of_it(way):
    if way == "decoupled":
        draws = decoupled_draws(Few(), "gaussian", X, Y, n_samples=3, seed=0, **SETTINGS)
    else:
        draws = weight_space_draws(Few(), X, Y, n_samples=3, seed=0, **ALONE)
    everywhere = draws.at(ASKED)
    assert everywhere.shape == (3, 5)
    np.testing.assert_allclose(draws.at(ASKED[[4, 0, 4]]), everywhere[:, [4, 0, 4]], atol=1e-12)
    assert draws.at(np.empty((0, 2))).shape == (3, 0)
    with pytest.raises(FrozenInstanceError):
        draws.seed = 1
    with pytest.raises(ValueError, match="read-only"):
        draws.draws.coefficients[0] = 0.0
    with pytest.raises(ValueError, match="`x` must have 2 columns as the observed points"):
        draws.at(np.zeros((4, 3)))


# -- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"x": X[:, 0]}, r"`x` must have shape \(n, d\)"),
        ({"y": Y[:5]}, r"`y` must have shape \(7,\) or \(3, 7\)"),
        ({"y": np.ones((2, 7))}, r"`y` must have shape \(7,\) or \(3, 7\)"),
        ({"noise": -0.1}, "`noise` must be a variance >= 0"),
        ({"noise": np.ones(5)}, "`noise` must be a variance >= 0, or 7 of them"),
        (
            {"noise": 0.0, "x": X[[0, 0, 1, 2, 3, 4, 5]]},
            "the kernel matrix plus noise is positive definite",
        ),
        (
            {"lengthscale": [1.0, 2.0, 3.0]},
            "`lengthscale` must be one number or one for each of the 2",
        ),
        (
            {"features": SimpleNamespace(transform=lambda x: x[:1])},
            r"must turn 7 points into shape \(7, D\)",
        ),
        (
            {"features": SimpleNamespace(transform=lambda x: x / 0.0)},
            r"`features.transform\(x\)` must be finite",
        ),
        (
            {"features": FourierFeatures(4, lengthscale=0.3).fit(X)},
            "must have the lengthscale of the kernel",
        ),
        (
            {
                "features": FourierFeatures(
                    4, kernel="matern32", lengthscale=SETTINGS["lengthscale"]
                ).fit(X)
            },
            "must be of the kernel 'gaussian', got features of 'matern32'",
        ),
        ({"features": np.cos}, "`features` must be a fitted transformer"),
        ({"y": np.array(["a"] * 7)}, "`y` must hold numbers"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
def test_what_does_not_fit_is_refused(changed, message):
    given = {
        "features": Few(),
        "kernel": "gaussian",
        "x": X,
        "y": Y,
        "n_samples": 3,
        "seed": 0,
        **SETTINGS,
    }
    with pytest.raises((TypeError, ValueError), match=message):
        decoupled_draws(**{**given, **changed})


def test_weights_need_noise_or_as_many_features_as_points():
    with pytest.raises(ValueError, match="the features' products plus noise is positive definite"):
        weight_space_draws(SimpleNamespace(transform=lambda x: x), X, Y, noise=0.0, n_samples=1)
    with pytest.raises(ValueError, match=r"`y` must have shape \(7,\), one value"):
        weight_space_draws(Few(), X, np.ones((3, 7)), noise=0.1, n_samples=3)
    with pytest.raises(ValueError, match="`output_scale` must be greater than 0"):
        weight_space_moments(Few(), X, Y, ASKED, noise=0.1, output_scale=-1.0)
