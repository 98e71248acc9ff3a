"""Quadrature rules and their features: exact where they should be, or refused."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy import integrate
from sklearn.utils.estimator_checks import parametrize_with_checks

from graphrf.euclidean.frequencies import quadrature
from graphrf.euclidean.frequencies.quadrature import (
    gauss_hermite,
    gauss_legendre,
    simpson,
    spectral_cutoff,
    spectral_rule,
)
from graphrf.euclidean.kernels import KERNELS, stationary_kernel
from graphrf.euclidean.quadrature_features import QuadratureFeatures


def normal_density(w):
    return np.exp(-(w**2) / 2) / np.sqrt(2 * np.pi)


def newton_cotes(n_nodes):
    """The plain rule of the highest degree on [-5, 5]."""
    weights, _ = integrate.newton_cotes(n_nodes - 1, 1)
    return np.linspace(-5, 5, n_nodes), 10 / (n_nodes - 1) * weights


def approximate(frequencies, weights, differences):
    return np.cos(differences @ frequencies.T) @ weights


@pytest.mark.parametrize("n_nodes", [1, 2, 5, 16, 90])
def test_gauss_hermite_weights_are_the_physicists_over_sqrt_pi(n_nodes):
    nodes, weights = gauss_hermite(n_nodes)
    xi, alpha = np.polynomial.hermite.hermgauss(n_nodes)
    np.testing.assert_allclose(nodes, np.sqrt(2) * xi, rtol=0, atol=1e-13)
    np.testing.assert_allclose(weights * normal_density(nodes), alpha / np.sqrt(np.pi), rtol=1e-11)


def test_gauss_hermite_weights_do_not_underflow():
    # The physicists' weights are 0 at the outer nodes of 1000; the Cauchy density is not.
    nodes, weights = gauss_hermite(1000)
    assert (weights > 0.05).all()
    assert weights @ normal_density(nodes) == pytest.approx(1, abs=1e-12)
    cauchy = 1 / (np.pi * (1 + nodes**2))
    end = nodes[-1] + weights[-1] / 2
    assert weights @ cauchy == pytest.approx(2 / np.pi * np.arctan(end), abs=1e-4)


def test_gauss_legendre_is_exact_for_cauchy():
    # tan maps the Cauchy density to a constant.
    for n_nodes in (1, 2, 7, 40):
        nodes, weights = gauss_legendre(n_nodes)
        assert weights @ (1 / (np.pi * (1 + nodes**2))) == pytest.approx(1, abs=1e-13)


def test_simpson_is_that_of_scipy_and_exact_for_cubics():
    nodes, weights = simpson(9, 3.0)
    values = np.exp(0.3 * nodes)
    assert weights @ values == pytest.approx(integrate.simpson(values, x=nodes), rel=1e-14)
    assert weights @ (nodes**2 + nodes**3) == pytest.approx(18, rel=1e-14)
    assert weights @ nodes**4 != pytest.approx(2 * 3**5 / 5, rel=1e-4)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_cutoff_leaves_out_one_in_ten_thousand(kernel):
    law = stationary_kernel(kernel)
    assert 1 - law.norm_cdf(spectral_cutoff(law), 1) == pytest.approx(1e-4, rel=1e-6)


@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.parametrize(
    ("rule", "n_nodes"),
    [
        ("gauss-hermite", 3),
        ("gauss-hermite", 4),
        ("gauss-legendre", 4),
        ("gauss-legendre", 5),
        ("simpson", 5),
    ],
)
def test_half_of_the_product_is_the_whole_product(rule, dimension, n_nodes):
    law = stationary_kernel("matern52")
    line = {"gauss-hermite": gauss_hermite, "gauss-legendre": gauss_legendre}.get(
        rule, partial(simpson, max_frequency=spectral_cutoff(law))
    )
    nodes, weights = line(n_nodes)
    grid = np.stack(np.meshgrid(*[nodes] * dimension, indexing="ij"), axis=-1).reshape(
        -1, dimension
    )
    products = np.prod(np.meshgrid(*[weights] * dimension, indexing="ij"), axis=0).ravel()
    products = products * law.spectral_density(grid)
    differences = np.random.default_rng(0).normal(size=(20, dimension))
    frequencies, merged = spectral_rule(
        n_nodes, dimension, rule=rule, kernel="matern52", normalize=False
    )
    assert len(frequencies) == (n_nodes**dimension + 1) // 2
    np.testing.assert_allclose(
        approximate(frequencies, merged, differences),
        approximate(grid, products, differences),
        rtol=1e-11,
        atol=1e-12,
    )


@pytest.mark.parametrize(
    ("kernel", "rule", "errors"),
    [
        ("gaussian", "gauss-hermite", (2.5e-3, 2.2e-9)),
        ("gaussian", "gauss-legendre", (9.3e-2, 1.5e-2, 2.0e-4, 5.5e-8)),
        ("gaussian", "simpson", (3.2e-1, 9.1e-4, 1.7e-4, 1.7e-4)),
        ("matern52", "gauss-hermite", (1.8e-2, 1.0e-3, 2.0e-4, 3.5e-5)),
        ("matern52", "gauss-legendre", (1.6e-1, 4.8e-2, 5.2e-3, 6.3e-4)),
        ("matern12", "gauss-hermite", (1.4e-1, 1.0e-1, 7.3e-2, 5.2e-2)),
        ("matern12", "gauss-legendre", (3.4e-1, 1.8e-1, 1.2e-1, 5.2e-2)),
    ],
)
def test_errors_are_those_documented(kernel, rule, errors):
    distances = np.linspace(0, 3, 61)
    exact = stationary_kernel(kernel)(distances)
    for n_nodes, error in zip((9, 17, 33, 65), errors, strict=False):
        found = approximate(
            *spectral_rule(n_nodes, 1, rule=rule, kernel=kernel), distances[:, None]
        )
        assert np.abs(found - exact).max() == pytest.approx(error, rel=0.05)


def test_normalized_weights_sum_to_one():
    _, weights = spectral_rule(5, 2, rule="gauss-legendre")
    assert weights.sum() == pytest.approx(1, abs=1e-14)
    _, weights = spectral_rule(5, 1, rule="gauss-legendre", normalize=False)
    assert weights.sum() == pytest.approx(1.078, abs=5e-4)


def test_nodes_without_weight_are_left_out():
    # The Gaussian density underflows at the outer nodes of the tangent map.
    frequencies, weights = spectral_rule(101, 1, rule="gauss-legendre")
    assert len(frequencies) < 51
    assert (weights > 0).all()


def test_newton_cotes_rules_are_refused_where_weights_are_negative():
    # Degrees 7 and 9 are the last positive ones.
    for degree in (7, 9):
        assert (spectral_rule(degree + 1, 1, rule=newton_cotes)[1] > 0).all()
    for degree in (8, 10, 12, 20):
        with pytest.raises(ValueError, match=r"positive weights.*use 'simpson' or a Gauss rule"):
            spectral_rule(degree + 1, 1, rule=newton_cotes)


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        (
            {"n_nodes": 4, "rule": "simpson"},
            ValueError,
            "`n_nodes` must be odd for Simpson's rule, got 4: use 5",
        ),
        ({"dimension": 5}, ValueError, "at most 4 dimensions, got 5: .* use FourierFeatures"),
        (
            {"dimension": 4, "n_nodes": 64},
            ValueError,
            r"64\^4 = 16777216 nodes are more than 1048576",
        ),
        ({"rule": 3}, TypeError, "`rule` must be one of .* or a function, got 3"),
        (
            {"rule": lambda n: (np.zeros(2), np.ones(2))},
            ValueError,
            "`rule` must return 3 nodes and 3 weights",
        ),
        ({"rule": np.ones}, TypeError, "`rule` must return nodes and weights, two arrays"),
        ({"rule": lambda n: (np.arange(n), np.ones(n))}, ValueError, "symmetric about 0"),
        ({"rule": lambda n: (np.full(n, np.nan), np.ones(n))}, ValueError, "`rule` must be finite"),
    ],
)
def test_bad_arguments_are_named(change, error, match):
    with pytest.raises(error, match=match):
        spectral_rule(**({"n_nodes": 3, "dimension": 1} | change))


def test_features_are_those_of_the_rule():
    x = np.random.default_rng(0).normal(size=(40, 2))
    scale = np.array([0.8, 2.0])
    phi = QuadratureFeatures(
        7, rule="gauss-legendre", kernel="matern32", lengthscale=scale
    ).fit_transform(x)
    frequencies, weights = spectral_rule(7, 2, rule="gauss-legendre", kernel="matern32")
    expected = np.cos((x[:, None] - x) / scale @ frequencies.T) @ weights
    np.testing.assert_allclose(phi @ phi.T, expected, rtol=0, atol=1e-13)
    np.testing.assert_allclose((phi**2).sum(axis=1), 1, rtol=1e-13)


@pytest.mark.parametrize(("n_nodes", "dimension"), [(1, 1), (4, 1), (5, 1), (4, 2), (5, 3), (3, 4)])
def test_a_rule_has_as_many_columns_as_nodes(n_nodes, dimension):
    x = 0.1 * np.random.default_rng(0).normal(size=(3, dimension))
    features = QuadratureFeatures(n_nodes).fit(x)
    assert features.transform(x).shape == (3, n_nodes**dimension)
    assert len(features.get_feature_names_out()) == n_nodes**dimension
    # No column is zero everywhere: the origin has no sine.
    assert (np.abs(features.transform(np.concatenate([x, x + 0.37]))).max(axis=0) > 0).all()


def test_equidistant_nodes_warn_where_they_alias():
    rule = partial(simpson, max_frequency=5.0)
    # pi / h = pi lengthscales, 1.57 here.
    features = QuadratureFeatures(11, rule=rule, lengthscale=0.5)
    near, far = np.linspace(0, 1.5, 9)[:, None], np.linspace(0, 1.6, 9)[:, None]
    phi = features.fit_transform(near)  # warnings are errors in these tests
    assert phi.shape == (9, 11)
    with pytest.warns(
        UserWarning, match=r"reach over 3\.2 lengthscales .* from pi/h = 3\.14 on: raise `n_nodes`"
    ):
        phi = features.fit_transform(far)
    # What the warning is about: the kernel is 0.007 at that distance.
    assert phi[0] @ phi[-1] > 0.3
    # Points of fit and of transform count together.
    with pytest.warns(UserWarning, match="lengthscales"):
        features.fit(near).transform(near - 0.5)
    QuadratureFeatures(11, lengthscale=0.5).fit_transform(far)


@pytest.fixture
def no_limit_of_columns(monkeypatch):
    """scikit-learn checks with up to 10 columns."""
    monkeypatch.setattr(quadrature, "MAX_DIMENSION", 10)


@pytest.mark.usefixtures("no_limit_of_columns")
@parametrize_with_checks([QuadratureFeatures(2)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)
