"""The example of decoupled draws: its parts against exact values, and it runs."""

from __future__ import annotations

import sys

import numpy as np
import pytest


def test_draws_of_the_exact_posterior_have_its_law(example):
    script = example("decoupled_sampling")
    root = np.random.default_rng(0).standard_normal((3, 2))
    law = script.Moments(np.arange(3.0), root @ root.T)
    values = script.exact_draws(law, 20_000, np.random.default_rng(1))
    variances = law.covariance.diagonal()
    assert np.abs((values.mean(axis=0) - law.mean) / np.sqrt(variances / 20_000)).max() < 5
    error = np.sqrt((np.outer(variances, variances) + law.covariance**2) / 20_000)
    assert np.abs((script.empirical(values).covariance - law.covariance) / error).max() < 5


def test_distances_of_many_draws_come_near_those_of_exact_moments(example):
    script = example("decoupled_sampling")
    problem = script.make_problem(2, 0.25, np.random.default_rng(0))
    exact = script.exact_moments(script.KERNEL, problem.x, problem.y, problem.x_new, **problem.settings)
    features = script.make_features("RFF", 64, problem, 0)
    for approach in script.APPROACHES:
        found = script.measure(approach, features, problem, exact, 20_000, 1)
        assert found["sampled"] == pytest.approx(found["w2"], rel=0.1)
        assert found["kl"] > 0
    assert found["mean"] < 1e-10  # of decoupled draws


@pytest.mark.parametrize(
    ("dimension", "columns", "expected"), [(1, 16, 16), (2, 16, 16), (4, 256, 256), (4, 64, 16)]
)
def test_quadrature_takes_the_most_nodes_that_fit(example, dimension, columns, expected):
    script = example("decoupled_sampling")
    problem = script.make_problem(dimension, 1.0, np.random.default_rng(0))
    assert script.make_features("GH", columns, problem, 0).transform(problem.x).shape == (128, expected)
    assert script.make_features("PNC", columns, problem, 0).transform(problem.x).shape == (128, columns)


def test_quadrature_is_left_out_beyond_four_dimensions(example):
    script = example("decoupled_sampling")
    problem = script.make_problem(8, 1.0, np.random.default_rng(0))
    assert script.make_features("GH", 1024, problem, 0) is None


def test_rank_correlations_and_spreads_are_those_of_the_means(example):
    script = example("decoupled_sampling")

    def cell(method, columns, gram, w2, repeat=0):
        return script.Cell(1, 1.0, repeat, method, columns, gram, {"decoupled": {"w2": w2}})

    cells = [cell("RFF", 16, 0.3, 9.0), cell("RFF", 16, 0.1, 1.0, 1), cell("PNC", 16, 0.1, 2.0)]
    panels = {(1, 1.0): [*cells, cell("RFF", 64, 0.05, 1.5), cell("GH", 9, 0.01, 0.25)]}
    assert script.rank_correlations(panels, "decoupled", "w2") == [pytest.approx(1.0)]
    assert script.spreads(panels, "decoupled", "w2", 16) == [pytest.approx(5.0 / 2.0)]
    # Gauss-Hermite has no 16 columns here: its 9 stand for them.
    ratios = script.gauss_hermite_ratios(panels, "decoupled", 16)
    assert ratios == {(1, 1.0): pytest.approx(0.25 / 2.0)}


def test_intervals_are_students(example):
    interval = example("decoupled_sampling").interval
    assert interval(np.array([0.0, 2.0])) == pytest.approx(12.7062, rel=1e-4)
    assert interval(np.array([3.0])) == 0.0


def test_the_reduced_run_prints_every_panel_and_claim_and_draws(example, monkeypatch, capsys, tmp_path):
    pytest.importorskip("matplotlib")
    out = tmp_path / "figure.png"
    options = ["--dimensions", "1", "8", "--features", "8", "32", "--samples", "32", "--repeats", "2"]
    monkeypatch.setattr(sys, "argv", ["decoupled_sampling.py", *options, "--out", str(out)])
    script = example("decoupled_sampling")
    draw = script.draw
    monkeypatch.setattr(script, "LENGTHSCALES", (0.25,))  # of three, for the time that panels take to draw
    drawn: list[tuple] = []
    monkeypatch.setattr(script, "draw", lambda *arguments: drawn.append(arguments))
    script.main()
    lines = capsys.readouterr().out.splitlines()
    rows = [line.split() for line in lines if " weights " in line or " decoupled " in line]
    rows = [row for row in rows if row[0] in ("1", "8")]
    assert len(rows) == 2 * 2
    assert [row[2] for row in rows[:2]] == ["weights", "decoupled"]
    assert rows[0].count("-") == 0
    assert rows[-1].count("-") == 3  # no quadrature in eight dimensions
    claims = [line for line in lines if line.startswith("- ")]
    assert len(claims) == 14
    panels, floors, path = drawn[0]
    assert list(panels) == [(1, 0.25), (8, 0.25)]
    draw({(1, 0.25): panels[1, 0.25]}, floors, path)  # one dimension, for the time that panels take to draw
    assert out.stat().st_size > 10_000


def test_posterior_draws_print_that_decoupled_means_are_exact_and_draw(example, monkeypatch, capsys, tmp_path):
    pytest.importorskip("matplotlib")
    out = tmp_path / "draws.png"
    monkeypatch.setattr(sys, "argv", ["posterior_draws.py", "--columns", "64", "--out", str(out)])
    example("posterior_draws").main()
    weights, decoupled = (line.split()[-4:] for line in capsys.readouterr().out.splitlines()[-2:])
    assert float(decoupled[0]) < 1e-10 < 0.1 < float(weights[0])  # the error of the mean
    assert float(decoupled[3]) < float(weights[3])  # the distance
    assert out.stat().st_size > 10_000


@pytest.mark.parametrize("options", [["--features", "15"], ["--repeats", "0"], ["--samples", "1"]])
def test_options_that_make_no_sense_are_refused(example, monkeypatch, capsys, options):
    monkeypatch.setattr(sys, "argv", ["decoupled_sampling.py", *options])
    with pytest.raises(SystemExit):
        example("decoupled_sampling").main()
    assert "must be" in capsys.readouterr().err
