"""Divergences of normal laws against their formulas and against cases solved by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import sqrtm

from graphrf.euclidean.gp.divergences import gaussian_kl, gaussian_w2
from graphrf.gp.metrics import kl_divergence


def law(seed, size=6, rank=None):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((size, rank or 2 * size))
    return rng.standard_normal(size), root @ root.T


def trace_formula(mean0, cov0, mean1, cov1):
    root = sqrtm(cov1)
    return np.sum((mean0 - mean1) ** 2) + np.trace(cov0 + cov1 - 2 * sqrtm(root @ cov0 @ root)).real


def test_the_divergence_is_that_of_metrics():
    """tests/gp/test_metrics.py has its formula and its refusals."""
    (mean0, cov0), (mean1, cov1) = law(0), law(1)
    for jitter in (0.0, 0.3):
        expected = kl_divergence(mean0, cov0, mean1, cov1, jitter=jitter)
        assert gaussian_kl(mean0, cov0, mean1, cov1, jitter=jitter) == expected


def test_w2_is_the_trace_formula():
    (mean0, cov0), (mean1, cov1) = law(0), law(1)
    got = gaussian_w2(mean0, cov0, mean1, cov1)
    assert got == pytest.approx(trace_formula(mean0, cov0, mean1, cov1), rel=1e-9)
    assert got == pytest.approx(gaussian_w2(mean1, cov1, mean0, cov0), rel=1e-12)


def test_w2_of_covariances_that_commute_is_the_distance_of_their_deviations():
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((4, 4)))[0]
    a, b = np.array([0.0, 1.0, 2.0, 3.0]), np.array([1.0, 0.0, 2.5, 0.5])
    got = gaussian_w2(np.zeros(4), (turn * a**2) @ turn.T, np.ones(4), (turn * b**2) @ turn.T)
    assert got == pytest.approx(4 + np.sum((a - b) ** 2), rel=1e-12)


def test_w2_of_laws_that_are_close_keeps_its_digits():
    mean, cov = law(0)
    step = 1e-9
    exact = np.trace(cov) * (np.sqrt(1 + step) - 1) ** 2
    assert gaussian_w2(mean, cov, mean, (1 + step) * cov) == pytest.approx(exact, rel=1e-5)
    # Here the traces lose all digits.
    assert abs(trace_formula(mean, cov, mean, (1 + step) * cov) - exact) > exact
    assert gaussian_w2(mean, cov, mean, cov) < 1e-25


def test_w2_takes_singular_covariances():
    (mean0, cov0), (mean1, cov1) = law(0, rank=2), law(1, rank=3)
    got = gaussian_w2(mean0, cov0, mean1, cov1)
    lifted = gaussian_w2(mean0, cov0 + 1e-10 * np.eye(6), mean1, cov1 + 1e-10 * np.eye(6))
    assert got == pytest.approx(lifted, rel=1e-4)
    assert gaussian_w2([0.0], [[0.0]], [0.0], [[4.0]]) == 4.0


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"mean0": [[0.0, 0.0]]}, "`mean0` must be a vector"),
        ({"cov0": np.eye(3)}, r"`cov0` must have shape \(2, 2\)"),
        ({"cov1": [[1.0, 0.5], [0.0, 1.0]]}, "`cov1` must be symmetric"),
        ({"cov1": [[1.0, 2.0], [2.0, 1.0]]}, "`cov1` must be positive"),
        ({"mean1": [0.0], "cov1": [[1.0]]}, "`mean1` must"),
    ],
)
def test_what_does_not_fit_is_refused(changed, message):
    given = {"mean0": [0.0, 0.0], "cov0": np.eye(2), "mean1": [0.0, 0.0], "cov1": np.eye(2)}
    with pytest.raises(ValueError, match=message):
        gaussian_w2(**{**given, **changed})
