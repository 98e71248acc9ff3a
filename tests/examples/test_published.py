"""The published benchmarks: their measures of coverage, and the data of the smallest."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import poisson

from graphrf import datasets
from tests.support.real_data import needs_data

pytest.importorskip("pandas")
pytest.importorskip("formulaic")
PUBLISHED = Path(__file__).parents[2] / "benchmarks" / "published"


@pytest.fixture
def published(monkeypatch):
    """Imports a script by its name, as its neighbours do."""
    monkeypatch.syspath_prepend(PUBLISHED)  # which puts back the path that scripts change
    return importlib.import_module


def test_counts_of_a_calibrated_model_are_covered_as_often_as_stated(published):
    rates = np.repeat([0.3, 2.0, 40.0], 2_000)
    y, table = poisson.rvs(rates, random_state=0), published("_table")
    low, high = poisson.cdf(y - 1, rates), poisson.cdf(y, rates)
    held = [table.within(low, high, level) for level in table.LEVELS]
    np.testing.assert_allclose(held, (0.5, 0.8, 0.95), atol=0.02)


def test_the_crps_of_normal_predictions_is_that_of_many_draws(published):
    table = published("_table")
    y, mean, std = np.array([0.3, -2.0]), np.array([0.0, 1.0]), np.array([1.0, 0.5])
    draws = mean + std * np.random.default_rng(0).standard_normal((100_000, 2))
    assert table.crps(y, mean, std) == pytest.approx(table.metrics.crps(y, draws), abs=0.01)


def test_what_is_left_out_is_predicted_from_the_rest(published):
    rng = np.random.default_rng(0)
    root, y = rng.standard_normal((6, 6)), rng.standard_normal(6)
    covariance = root @ root.T + np.eye(6)
    mean, std = published("traffic_san_jose").left_out(covariance, y, 0.7)
    for i in range(6):
        rest = np.delete(np.arange(6), i)
        weights = np.linalg.solve(covariance[np.ix_(rest, rest)], covariance[rest, i])
        assert mean[i] == pytest.approx(0.7 + weights @ (y[rest] - 0.7))
        assert std[i] == pytest.approx(np.sqrt(covariance[i, i] - weights @ covariance[rest, i]))


@needs_data
def test_the_districts_are_those_of_the_case_study(published):
    graph, frame = published("lip_cancer").districts()
    assert (graph.n_nodes, graph.n_edges) == (56, 132)
    assert (frame["y"].sum(), round(frame["e"].sum(), 1), frame["x"].max()) == (
        536,
        536.2,
        pytest.approx(2.4),
    )
    assert graph.adjacency[[0]].indices.tolist() == [4, 8, 10, 18]


@pytest.mark.parametrize("name", ["Seeds", "Salm", "Surgical", "Rats"])
def test_posteriors_of_bugs_are_those_that_are_printed(published, name):
    classics = published("classics")
    (example,) = [each for each in classics.EXAMPLES if each.title == name]
    here = example.answers()
    for key, (mean, sd) in example.published.items():
        assert here[key][0] == pytest.approx(mean, abs=0.1 * sd)
        assert here[key][1] == pytest.approx(sd, rel=0.1)


@needs_data
@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("cbpp", "cbpp"),
        ("grouseticks", "grouseticks"),
        ("sleepstudy", "sleepstudy"),
        ("nile", "Nile, level integrated"),
    ],
)
def test_maximum_likelihood_is_that_of_other_programs(published, name, title):
    if {each.name: each.found for each in datasets.catalog("table")}[name] == "to fetch":
        pytest.skip(f"{name} is not in the data folder")
    classics = published("classics")
    (example,) = [each for each in classics.EXAMPLES if each.title == title]
    here = example.answers()
    for key, (value, _) in example.published.items():
        assert here[key][0] == pytest.approx(value, rel=1e-4)


def test_a_script_without_its_data_says_why_it_skips(published, monkeypatch, capsys):
    monkeypatch.setenv("GRAPHRF_DATA_DIR", "nowhere")
    with pytest.raises(SystemExit) as stop:
        published("ohio_lung").main()
    assert stop.value.code == 0
    assert (
        "skipped: set GRAPHRF_DATA_DIR to a folder that holds areal/ohio_lung.csv"
        in capsys.readouterr().out
    )
