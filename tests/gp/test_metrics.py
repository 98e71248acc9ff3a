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
