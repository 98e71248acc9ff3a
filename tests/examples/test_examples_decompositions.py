"""The examples on quadrature, decompositions, importance weights and readouts: measures and reduced runs."""

from __future__ import annotations

import numpy as np
import pytest

import graphrf as grf
from graphrf.euclidean.frequencies.quadrature import gauss_hermite
from graphrf.euclidean.kernels import stationary_kernel


def lines(capsys) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_quadrature_rules_run(example, capsys, tmp_path):
    picture = tmp_path / "rules.png"
    example("quadrature_rules").main(["--nodes", "16", "64", "--points", "601", "--out", str(picture)])
    rows = [line for line in lines(capsys) if line.split()[:1] in (["16"], ["64"])]
    assert len(rows) == 10
    assert picture.stat().st_size > 10_000


def test_rules_of_the_example_are_those_of_the_chapter(example):
    rules = example("quadrature_rules")
    t = np.array([0.0, 0.3, 1.7])
    u, alpha = np.polynomial.legendre.leggauss(12)
    w = np.tan(np.pi / 2 * u)
    density = np.exp(-((w * rules.LENGTHSCALE) ** 2) / 2) * rules.LENGTHSCALE / np.sqrt(2 * np.pi)
    weights = np.pi / 2 * alpha * density / np.cos(np.pi / 2 * u) ** 2
    found = rules.approximate("Gauss-Legendre, in 1/x", 12, t)
    np.testing.assert_allclose(found, np.cos(np.multiply.outer(t, w)) @ weights, rtol=0, atol=1e-12)
    nodes, hermite = gauss_hermite(12)
    hermite = hermite * np.exp(-(nodes**2) / 2) / np.sqrt(2 * np.pi)
    exact = np.cos(np.multiply.outer(t / rules.LENGTHSCALE, nodes)) @ hermite
    np.testing.assert_allclose(rules.approximate("Gauss-Hermite", 12, t), exact, rtol=0, atol=1e-12)


def test_decompositions_run(example, capsys, tmp_path):
    picture = tmp_path / "decompositions.png"
    options = ["--data", "iris", "--columns", "16", "--repeats", "2", "--out", str(picture)]
    example("fourier_decompositions").main(options)
    rows = [line.split() for line in lines(capsys) if line.startswith("iris  ")]
    assert len(rows) == 2 * 3  # kernels, lengthscales
    assert rows[0][-1] == "hermite"
    assert picture.stat().st_size > 10_000


def test_numbers_of_nodes_fill_the_columns(example):
    nodes_for = example("fourier_decompositions").nodes_for
    assert [nodes_for("gauss-hermite", n, 4) for n in (15, 16, 255, 256, 4096)] == [0, 2, 3, 4, 8]
    assert [nodes_for("simpson", n, 4) for n in (16, 81, 256, 625)] == [0, 3, 3, 5]
    assert nodes_for("simpson", 64, 1) == 63


@pytest.mark.parametrize("name", ["line", "iris", "diabetes", "boston", "wine", "breast_cancer"])
def test_points_fill_the_unit_cube(example, name):
    if name == "boston":
        try:
            grf.datasets.load("uci-housing")
        except FileNotFoundError as error:
            pytest.skip(f"uci-housing is not in the data folder: {error}")
    x = example("fourier_decompositions").points(name)
    assert 133 <= len(x) <= 150
    assert x.min() == 0
    assert x.max() == 1


def test_importance_weights_run(example, capsys, tmp_path):
    picture = tmp_path / "weights.png"
    options = ["--draws", "10000", "--repeats", "2", "--dimensions", "1", "2", "--out", str(picture)]
    example("importance_weights").main(options)
    assert sum(line.split()[:1] in (["1"], ["2"]) for line in lines(capsys)) == 2 * 2 + 2
    assert picture.stat().st_size > 10_000


def test_variance_of_importance_weights_is_infinite(example):
    # The second moment of the weights up to a cut grows without bound; the mean of the weights is 1.
    kernel = stationary_kernel("matern52")
    module = example("importance_weights")
    w = np.linspace(-12, 12, 200_001)
    weights = module.weights(kernel, w[:, None])
    normal = np.exp(-(w**2) / 2) / np.sqrt(2 * np.pi)
    inner = {cut: np.abs(w) <= cut for cut in (4, 8, 12)}
    step = w[1] - w[0]
    first = {cut: (weights * normal)[inside].sum() * step for cut, inside in inner.items()}
    second = {cut: (weights**2 * normal)[inside].sum() * step for cut, inside in inner.items()}
    assert first[12] == pytest.approx(float(kernel.norm_cdf(12.0, 1)), abs=1e-4)
    assert second[8] > 100 * second[4]
    assert second[12] > 1e10 * second[8]


def test_paired_and_phased_run(example, capsys, tmp_path):
    picture = tmp_path / "readouts.png"
    example("paired_phased").main(["--repeats", "2", "--out", str(picture)])
    rows = [line for line in lines(capsys) if line.startswith(("Gaussian  ", "Matern-3/2  ", "Laplace  "))]
    assert len(rows) == 3 * 6
    assert picture.stat().st_size > 10_000


@pytest.mark.parametrize("kernel", ["gaussian", "laplace"])
@pytest.mark.parametrize("readout", ["paired", "phased"])
def test_exact_errors_of_readouts_are_those_measured(example, kernel, readout):
    module = example("paired_phased")
    squares = module.errors(kernel, readout, 32, 100) ** 2
    error = squares.std(ddof=1) / squares.size**0.5
    assert squares.mean() == pytest.approx(module.exact_error(kernel, readout, 32) ** 2, abs=5 * error)


def test_paired_wins_at_equal_columns_by_the_exact_errors(example):
    exact_error = example("paired_phased").exact_error
    ratios = [
        exact_error(k, "phased", 64) / exact_error(k, "paired", 64) for k in ("gaussian", "matern32", "laplace")
    ]
    np.testing.assert_allclose(ratios, [1.084, 1.060, 1.032], atol=1e-3)
