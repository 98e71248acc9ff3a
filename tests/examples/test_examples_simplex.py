"""The examples of simplex features: their protocol, exact means, and small runs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import linalg, special

from graphrf.euclidean.frequencies.directions import simplex
from graphrf.euclidean.theory import laplace_mse
from tests.support.real_data import needs_data


@pytest.fixture(autouse=True)
def _short_search(example, monkeypatch):
    """A short search for sigma."""
    monkeypatch.setattr(example("simplex_classification"), "GRID", np.array([0.5, 1.0]))


def made_up(n: int = 500, d: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=n)
    return rng.normal(size=(n, d)) + 4 * y[:, None], y


@pytest.mark.parametrize("directions", ["iid", "orthogonal", "simplex"])
def test_means_of_gram_errors_are_the_sums_over_all_pairs(example, directions):
    module = example("simplex_gram")
    points = module.draw_points(2, 0)[:, :4]
    expected = [
        laplace_mse(
            x[:, None], x[None], 96, directions=directions, norms="iid", antithetic=False
        ).sum()
        for x in points
    ]
    np.testing.assert_allclose(module.exact_means(points, directions, 96), expected, rtol=1e-6)


def test_simplex_gram_prints_a_row_for_every_number_of_features_and_draws(run, tmp_path):
    pytest.importorskip("matplotlib", reason="figures need the extra `plot`")
    picture = tmp_path / "gram.png"
    lines = run("simplex_gram", "--features", "64", "128", "--repeats", "3", "--out", str(picture))
    assert [row[0] for row in lines[2:]] == ["64", "128"]
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_splits_are_standardised_and_leave_out_what_chose_sigma(example):
    module = example("simplex_classification")
    x, y = made_up()
    validation, rest = module.parts(len(x), seed=5)
    assert len(validation) == 50
    assert sorted([*validation, *rest]) == list(range(500))
    x[:, 2] = np.arange(500)  # names the rows
    split = module.test_split(x, y, repeat=7, seed=5)
    assert (len(split.x), len(split.x_test)) == (400, 50)
    np.testing.assert_allclose(split.x.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(split.x.std(axis=0), 1)
    rows = np.unique(np.concatenate([split.x[:, 2], split.x_test[:, 2]]), return_inverse=True)[1]
    np.testing.assert_array_equal(
        np.concatenate([split.y, split.y_test])[np.argsort(rows)], y[np.sort(rest)]
    )
    other = module.test_split(x, y, repeat=8, seed=5)
    assert not np.array_equal(other.x_test, split.x_test)


@needs_data
def test_simplex_classification_prints_both_tables_and_draws(run, tmp_path):
    pytest.importorskip("matplotlib", reason="figures need the extra `plot`")
    picture = tmp_path / "accuracy.png"
    options = (
        "--sets",
        "banknote",
        "--repeats",
        "2",
        "--multiples",
        "1",
        "2",
        "--out",
        str(picture),
    )
    lines = run("simplex_classification", *options)
    assert [(row[0], row[1], row[4]) for row in lines[3:5]] == [
        ("banknote", "4", "1"),
        ("banknote", "4", "2"),
    ]
    assert lines[-1][-3:] == ["0.7132", "+-", "0.0012"]
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("is_simplex", [False, True], ids=["orthogonal", "simplex"])
@pytest.mark.parametrize("support", ["axis", "pair", "all"])
def test_biases_are_the_means_over_all_signs_and_rows(example, support, is_simplex):
    bias, d = example("fast_simplex").bias, 4
    h = linalg.hadamard(d) / d**0.5
    x = np.zeros(d)
    width = {"axis": 1, "pair": 2, "all": d}[support]
    x[:width] = width**-0.5
    signs = np.array(list(itertools.product((-1, 1), repeat=d)))
    for _ in range(3):
        x = np.concatenate([(signs * row) @ h for row in np.atleast_2d(x)])
    t = x @ (simplex(d) if is_simplex else np.eye(d)).T
    for features, reach, sign in (("fourier", 1.5, -1), ("laplace", 1.5, 1), ("laplace", 3.0, 1)):
        # E cos(r t) and E cosh(r t) for a norm r of the chi law.
        expected = special.hyp1f1(d / 2, 0.5, sign * (reach * t) ** 2 / 2).mean() * np.exp(
            -sign * reach**2 / 2
        )
        assert bias(features, reach, support, d, is_simplex, 0) == (
            pytest.approx(expected, rel=1e-9),
            0.0,
        )


@needs_data
def test_fast_simplex_prints_both_tables_and_draws(run, tmp_path):
    pytest.importorskip("matplotlib", reason="figures need the extra `plot`")
    picture = tmp_path / "fast.png"
    options = ("--sets", "banknote", "--repeats", "2", "--dimensions", "4", "--out", str(picture))
    lines = run("fast_simplex", *options)
    assert lines[3][:3] == ["4", "axis", "0.8148"]
    assert lines[-1][-3:] == ["0.7296", "+-", "0.0017"]
    assert picture.read_bytes().startswith(b"\x89PNG")
