"""The examples on couplings of norms and on the theory: what they compute is right, and each runs when small."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from graphrf.euclidean.theory import fourier_mse
from tests.support.real_data import needs_data


@pytest.fixture
def run(example, monkeypatch, capsys):
    """The words of every line that a script printed."""

    def call(name: str, *options: str) -> list[list[str]]:
        monkeypatch.setattr(sys, "argv", [name, *options])
        example(name).main()
        return [line.split() for line in capsys.readouterr().out.splitlines()]

    return call


def test_conformity_falls_from_independent_to_optimised_directions(example):
    bars = example("simplex_theory").conformities(4, 1.0, 40, np.random.default_rng(1))
    means = [values.mean() for values in bars.values()]
    assert list(bars) == ["iid", "orthogonal", "simplex", "simplex+", "optimised"]
    assert means[1:] == sorted(means[1:], reverse=True)
    assert means[0] > means[2]
    assert bars["iid"].shape == (40,)


def test_simplex_theory_prints_the_papers_coefficient(run, tmp_path):
    lines = run("simplex_theory", "--dimension", "3", "--couplings", "10", "--out", str(tmp_path / "figure.png"))
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
        assert module.exact_errors(x, "matern32", scheme, [16])[0] == pytest.approx(mse.mean() ** 0.5, rel=1e-4)


def test_errors_of_matern_gram_matrices_have_the_exact_mean_square(example):
    module = example("matern_couplings")
    x = np.random.default_rng(3).normal(size=(10, 8)) / 8**0.5
    for scheme in module.SCHEMES:
        squares = module.errors(x, "matern12", scheme, 8, range(150)) ** 2
        gap = squares.mean() - module.exact_errors(x, "matern12", scheme, [8])[0] ** 2
        assert abs(gap) < 5 * squares.std(ddof=1) / 150**0.5


def test_matern_couplings_prints_a_row_for_every_scheme(run, tmp_path):
    lines = run(
        "matern_couplings", "--repeats", "2", "--frequencies", "8", "16", "--out", str(tmp_path / "figure.png")
    )
    assert len(lines) == 4 + 3 * 2 * 3
    assert (tmp_path / "figure.png").stat().st_size > 0


def test_a_moving_average_keeps_constants_and_follows_steps(example):
    moving_average = example("copula_training").moving_average
    np.testing.assert_allclose(moving_average(np.full(9, 2.0), 3.0), 2.0)
    followed = moving_average(np.repeat([0.0, 1.0], 50), 5.0)
    assert followed[49] == 0
    assert followed[54] == pytest.approx(1 - np.exp(-1))


@needs_data
def test_copula_training_prints_every_level_and_draws(run, tmp_path):
    lines = run(
        "copula_training", "--steps", "3", "--repeats", "3", "--points", "20", "--samples", "2",
        "--out", str(tmp_path / "figure.png"),
    )  # fmt: skip
    rows = [line for line in lines if line[0] in ("fourier", "laplace")]
    assert [row[2] for row in rows] == 2 * ["iid", "orthogonal", "+", "learned"]
    assert len(rows) == 8
    assert (tmp_path / "figure.png").stat().st_size > 0
