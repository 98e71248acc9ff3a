"""The examples on quadrature, decompositions, weights and readouts: measures, small runs."""

from __future__ import annotations

import numpy as np

from graphrf.euclidean.frequencies.quadrature import gauss_hermite


def lines(capsys) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_quadrature_rules_run(example, capsys, tmp_path):
    picture = tmp_path / "rules.png"
    example("quadrature_rules").main(
        ["--nodes", "16", "64", "--points", "601", "--out", str(picture)]
    )
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


def test_importance_weights_run(example, capsys, tmp_path):
    picture = tmp_path / "weights.png"
    options = [
        "--draws",
        "10000",
        "--repeats",
        "2",
        "--dimensions",
        "1",
        "2",
        "--out",
        str(picture),
    ]
    example("importance_weights").main(options)
    assert sum(line.split()[:1] in (["1"], ["2"]) for line in lines(capsys)) == 2 * 2 + 2
    assert picture.stat().st_size > 10_000


def test_paired_and_phased_run(example, capsys, tmp_path):
    picture = tmp_path / "readouts.png"
    example("paired_phased").main(["--repeats", "2", "--out", str(picture)])
    rows = [
        line
        for line in lines(capsys)
        if line.startswith(("Gaussian  ", "Matern-3/2  ", "Laplace  "))
    ]
    assert len(rows) == 3 * 6
    assert picture.stat().st_size > 10_000
