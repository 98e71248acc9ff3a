"""The examples on couplings of norms and on theory: what they compute, and small runs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from graphrf.euclidean.theory import fourier_mse
from tests.support.real_data import needs_data


def test_simplex_theory_prints_the_papers_coefficient(run, tmp_path):
    lines = run(
        "simplex_theory",
        "--dimension",
        "3",
        "--couplings",
        "10",
        "--out",
        str(tmp_path / "figure.png"),
    )
    coefficient = next(line for line in lines if line[:2] == ["leading", "coefficient"])
    assert abs(float(coefficient[9]) - 0.0078) < 5e-5
    assert lines[-1][0] == "3.0"
    assert (tmp_path / "figure.png").stat().st_size > 0


def test_exact_matern_errors_are_the_mean_over_all_pairs(example):
    module = example("matern_couplings")
    x = np.random.default_rng(2).normal(size=(6, 8)) / 8**0.5
    z = cdist(x, x)
    for scheme in ("iid", "+ PNC"):
        directions, norms = module.SCHEMES[scheme]
        mse = fourier_mse(z, 8, 16, kernel="matern32", directions=directions, norms=norms)
        assert module.exact_errors(x, "matern32", scheme, [16])[0] == pytest.approx(
            mse.mean() ** 0.5, rel=1e-4
        )


def test_matern_couplings_prints_a_row_for_every_scheme(run, tmp_path):
    lines = run(
        "matern_couplings",
        "--repeats",
        "2",
        "--frequencies",
        "8",
        "16",
        "--out",
        str(tmp_path / "figure.png"),
    )
    assert len(lines) == 4 + 3 * 2 * 3
    assert (tmp_path / "figure.png").stat().st_size > 0


@needs_data
def test_copula_training_prints_every_level_and_draws(run, tmp_path):
    lines = run(
        "copula_training",
        "--steps",
        "3",
        "--repeats",
        "3",
        "--points",
        "20",
        "--samples",
        "2",
        "--out",
        str(tmp_path / "figure.png"),
    )
    rows = [line for line in lines if line[0] in ("fourier", "laplace")]
    assert [row[2] for row in rows] == 2 * ["iid", "orthogonal", "+", "learned"]
    assert len(rows) == 8
    assert (tmp_path / "figure.png").stat().st_size > 0
