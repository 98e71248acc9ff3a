"""The example of decoupled draws: its parts against exact values, and it runs."""

from __future__ import annotations

import numpy as np
import pytest


def test_distances_of_many_draws_come_near_those_of_exact_moments(example):
    script = example("decoupled_sampling")
    problem = script.make_problem(2, 0.25, np.random.default_rng(0))
    exact = script.exact_moments(
        script.KERNEL, problem.x, problem.y, problem.x_new, **problem.settings
    )
    features = script.make_features("RFF", 64, problem, 0)
    for approach in script.APPROACHES:
        found = script.measure(approach, features, problem, exact, 20_000, 1)
        assert found["sampled"] == pytest.approx(found["w2"], rel=0.1)
        assert found["kl"] > 0
    assert found["mean"] < 1e-10  # of decoupled draws


def test_the_reduced_run_prints_every_panel_and_claim_and_draws(
    example, printed, monkeypatch, tmp_path
):
    pytest.importorskip("matplotlib")
    out = tmp_path / "figure.png"
    options = [
        "--dimensions",
        "1",
        "8",
        "--features",
        "8",
        "32",
        "--samples",
        "32",
        "--repeats",
        "2",
    ]
    script = example("decoupled_sampling")
    draw = script.draw
    # One of three, for the time that panels take to draw.
    monkeypatch.setattr(script, "LENGTHSCALES", (0.25,))
    drawn: list[tuple] = []
    monkeypatch.setattr(script, "draw", lambda *arguments: drawn.append(arguments))
    lines = printed("decoupled_sampling", *options, "--out", str(out)).splitlines()
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
    # One dimension, for the time that panels take to draw.
    draw({(1, 0.25): panels[1, 0.25]}, floors, path)
    assert out.stat().st_size > 10_000


def test_posterior_draws_print_that_decoupled_means_are_exact_and_draw(run, tmp_path):
    pytest.importorskip("matplotlib")
    out = tmp_path / "draws.png"
    weights, decoupled = (
        words[-4:] for words in run("posterior_draws", "--columns", "64", "--out", str(out))[-2:]
    )
    assert float(decoupled[0]) < 1e-10 < 0.1 < float(weights[0])  # the error of the mean
    assert float(decoupled[3]) < float(weights[3])  # the distance
    assert out.stat().st_size > 10_000
