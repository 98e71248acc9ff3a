"""The examples of norm couplings: protocol and arithmetic against exact values, small runs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, stats

from tests.support.real_data import needs_data


def made_up(n: int = 40, d: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(2.0, 3.0, size=(n, d))
    return x, np.sin(x[:, 0]) + 0.1 * rng.standard_normal(n)


def test_what_test_points_hold_changes_nothing_of_the_training_points(example):
    uci = example("_uci")
    x, y = made_up(101)
    x[::7, 1] = np.nan
    part = uci.split(x, y, 3)
    test = np.random.default_rng(3).permutation(101)[50:100]
    x[test], y[test] = 1e6, -1e6
    other = uci.split(x, y, 3)
    np.testing.assert_array_equal(part.x_train, other.x_train)
    np.testing.assert_array_equal(part.y_train, other.y_train)
    assert not np.isnan(part.x_test).any()
    assert np.abs(other.x_test).min() > 1e5


def test_the_gradient_of_the_evidence_is_that_of_its_value(example):
    uci = example("_uci")
    x, y = made_up()
    distances = np.sum((x[:, None] - x[None]) ** 2, axis=2)
    for logs in np.random.default_rng(2).normal(0, 0.5, size=(3, 3)):
        value, gradient = uci.negative_evidence(logs, distances, y)
        assert value == pytest.approx(
            -stats.multivariate_normal(
                cov=np.exp(2 * logs[1] - distances / (2 * np.exp(2 * logs[0])))
                + np.exp(2 * logs[2]) * np.eye(len(y))
            ).logpdf(y)
        )
        numeric = optimize.approx_fprime(
            logs, lambda p: uci.negative_evidence(p, distances, y)[0], 1e-6
        )
        np.testing.assert_allclose(gradient, numeric, rtol=1e-4, atol=1e-3)


def test_features_predict_as_the_exact_gp_of_their_kernel(example):
    module = example("norm_coupled_gps")
    rng = np.random.default_rng(6)
    train, test, y = rng.normal(size=(30, 7)), rng.normal(size=(5, 7)), rng.normal(size=30)
    found = module.feature_predictive(train, test, y, 0.3)
    gain = np.linalg.solve(train @ train.T + 0.09 * np.eye(30), train @ test.T).T
    np.testing.assert_allclose(found.mean, gain @ y)
    np.testing.assert_allclose(
        found.covariance, test @ test.T - gain @ train @ test.T + 0.09 * np.eye(5), atol=1e-12
    )


def test_the_exact_prediction_is_that_of_gaussian_conditioning(example):
    uci, module = example("_uci"), example("norm_coupled_gps")
    x, y = made_up()
    part = uci.split(x, y, 0)
    fitted = uci.Hyperparameters(1.5, 0.8, 0.2)
    both = np.concatenate([part.x_train, part.x_test])
    joint = 0.64 * np.exp(-np.sum((both[:, None] - both[None]) ** 2, axis=2) / 4.5) + 0.04 * np.eye(
        40
    )
    gain = np.linalg.solve(joint[:20, :20], joint[:20, 20:]).T
    exact = module.exact_predictive(part, fitted)
    np.testing.assert_allclose(exact.mean, gain @ part.y_train)
    np.testing.assert_allclose(
        exact.covariance, joint[20:, 20:] - gain @ joint[:20, 20:], atol=1e-12
    )
    expected = -stats.multivariate_normal(exact.mean, exact.covariance).logpdf(part.y_test) / 20
    assert exact.joint_nll(part.y_test) == pytest.approx(expected)


@needs_data
def test_both_examples_run(printed, tmp_path):
    pytest.importorskip("matplotlib", reason="figures need matplotlib")
    for name, words in (
        ("norm_coupling", "+ PNC + antithetic"),
        ("norm_coupled_gps", "orthogonal -> + PNC"),
    ):
        picture = tmp_path / f"{name}.png"
        assert words in printed(
            name, "--sets", "cpu", "--splits", "2", "--repeats", "2", "--out", str(picture)
        )
        assert picture.stat().st_size > 1_000
