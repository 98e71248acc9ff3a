"""Metrics of predictions against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from graphrf.gp import metrics


def test_metrics_are_what_they_say():
    rng = np.random.default_rng(0)
    mean, std = rng.standard_normal(500), rng.uniform(0.5, 2.0, 500)
    y = mean + std * rng.standard_normal(500)
    assert np.isclose(metrics.rmse(y, mean), np.sqrt(np.mean((y - mean) ** 2)))
    assert np.isclose(metrics.nlpd(y, mean, std), -norm(mean, std).logpdf(y).mean())
    inside = np.abs(norm(mean, std).cdf(y) - 0.5) <= 0.4
    assert metrics.coverage(y, mean, std, level=0.8) == inside.mean()


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="`mean` must have the shape of `y`"):
        metrics.rmse([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="`y` must hold at least one value"):
        metrics.rmse([], [])
    with pytest.raises(ValueError, match="`std` must be greater than 0"):
        metrics.nlpd([1.0], [1.0], [0.0])
    with pytest.raises(ValueError, match="`y` must be finite"):
        metrics.coverage([np.nan], [1.0], [1.0])
    with pytest.raises(ValueError, match="`level` must be in"):
        metrics.coverage([1.0], [1.0], [1.0], level=1.5)


def _normals(size, seed):
    rng = np.random.default_rng(seed)
    roots = rng.standard_normal((2, size, size + 3))
    return [(rng.standard_normal(size), root @ root.T / size) for root in roots]


def test_divergence_is_the_closed_form_in_its_direction():
    (m0, c0), (m1, c1) = _normals(6, seed=0)
    inverse, shift = np.linalg.inv(c1), m1 - m0
    log_ratio = np.linalg.slogdet(c1)[1] - np.linalg.slogdet(c0)[1]
    expected = 0.5 * (np.trace(inverse @ c0) + shift @ inverse @ shift - 6 + log_ratio)
    assert np.isclose(metrics.kl_divergence(m0, c0, m1, c1), expected, rtol=1e-11)
    assert not np.isclose(metrics.kl_divergence(m1, c1, m0, c0), expected, rtol=1e-2)


def test_divergence_of_close_normals_keeps_its_digits():
    (m0, c0), _ = _normals(40, seed=1)
    # For cov1 = (1 + h) cov0 it is k
    # (1 / (1 + h) - 1 + log(1 + h)) / 2 = k (h^2 / 4 - h^3 / 3 + ...).
    h = 1e-5
    assert np.isclose(
        metrics.kl_divergence(m0, c0, m0, (1 + h) * c0), 40 * (h**2 / 4 - h**3 / 3), rtol=1e-4
    )
    assert 0 <= metrics.kl_divergence(m0, c0, m0, c0) < 1e-20


def test_divergence_of_normals_of_very_different_size():
    rng = np.random.default_rng(3)
    basis = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    ratios = 10.0 ** np.arange(-9, 9, 3)
    expected = 0.5 * np.sum(ratios - 1 - np.log(ratios))
    found = metrics.kl_divergence(np.zeros(6), np.diag(ratios), np.zeros(6), np.eye(6))
    assert np.isclose(found, expected, rtol=1e-12)
    root = basis @ np.diag(np.sqrt([1e-4, 1, 1, 1, 1, 1e4]))
    expected = 0.5 * (1e-4 - 1 + 1e4 - 1)
    assert np.isclose(
        metrics.kl_divergence(np.zeros(6), root @ root.T, np.zeros(6), np.eye(6)),
        expected,
        rtol=1e-9,
    )


def test_divergence_refuses_what_has_none():
    (m0, c0), (m1, c1) = _normals(4, seed=2)
    flat = np.ones((4, 4))
    with pytest.raises(ValueError, match="`cov0` must be positive definite"):
        metrics.kl_divergence(m0, flat, m1, c1)
    with pytest.raises(ValueError, match="`cov1` must be positive definite"):
        metrics.kl_divergence(m0, c0, m1, -c1)
    with pytest.raises(ValueError, match="`cov0` must be symmetric"):
        metrics.kl_divergence(m0, c0 + np.triu(flat, 1), m1, c1)
    with pytest.raises(ValueError, match="`cov1` must have shape"):
        metrics.kl_divergence(m0, c0, m1, c1[:3])
    with pytest.raises(ValueError, match="`mean1` must be a vector"):
        metrics.kl_divergence(m0, c0, m1[:3], c1)
    with pytest.raises(ValueError, match="`mean0` must be finite"):
        metrics.kl_divergence(m0 * np.nan, c0, m1, c1)
