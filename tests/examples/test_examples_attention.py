"""The examples of attention: their arithmetic against exact values, and both run."""

from __future__ import annotations

import numpy as np
import pytest


def test_variance_and_covariance_have_the_means_of_independent_frequencies(example):
    module = example("attention_error")
    rng = np.random.default_rng(0)
    query, keys, m = 0.3 * rng.standard_normal(3), 0.3 * rng.standard_normal((4, 3)), 5
    found = module.quantities(query, keys, rng.standard_normal((20_000, m, 3)))
    # Cov(X_j, X_l) = exp(q.k_j + q.k_l) (exp((q + k_j).(q + k_l)) - 1) / m.
    truth = np.exp(keys @ query)
    matrix = np.outer(truth, truth) * (np.exp((query + keys) @ (query + keys).T) - 1) / m
    variance, covariance = np.trace(matrix) / 4, matrix.mean()
    expected = np.array([variance, covariance, variance - covariance]) / truth.sum() ** 2
    errors = found[:, :3].std(axis=0) / len(found) ** 0.5
    assert (abs(found[:, :3].mean(axis=0) - expected) < 5 * errors).all()
    assert (errors < 0.15 * expected).all()


def test_attention_error_prints_and_draws(printed, tmp_path):
    pytest.importorskip("matplotlib", reason="figures need the extra `plot`")
    picture = tmp_path / "error.png"
    rows = printed("attention_error", "--quick", "--out", str(picture)).splitlines()
    assert len([row for row in rows if row.strip()[:2] in ("8 ", "16")]) == 20
    assert sum("more, more, less" in row for row in rows) == 2
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_performer_digits_prints_accuracies_and_draws(example, printed, monkeypatch, tmp_path):
    pytest.importorskip("matplotlib", reason="figures need the extra `plot`")
    module = example("performer_digits")
    kept = ("exact softmax", "orthogonal")
    monkeypatch.setattr(module, "SCHEMES", {name: module.SCHEMES[name] for name in kept})
    few = {name: (x[:160], y[:160]) for name, (x, y) in module.split_digits().items()}
    monkeypatch.setattr(module, "split_digits", lambda: few)
    picture = tmp_path / "digits.png"
    rows = printed(
        "performer_digits", "--quick", "--rate", "0.02", "--out", str(picture)
    ).splitlines()
    assert [row[:18].strip() for row in rows[-2:]] == list(kept)
    assert ".625 +- .003" in rows[-1]
    assert all(0 < float(row[18:25]) < 1 for row in rows[-2:])
    assert picture.stat().st_size > 10_000
