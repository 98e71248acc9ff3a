"""The example scripts: what they measure with is right, and each runs on a small setting."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import graphrf as grf
from graphrf.couplings import shipped_coupling
from tests.support.real_data import needs_data


def test_the_error_of_a_ratio_of_means_heeds_dependence(example):
    ratio_and_error = example("gram_error").ratio_and_error
    rng = np.random.default_rng(0)
    reference, noise = rng.normal(10, 1, 4_000), rng.normal(0, 1, 4_000)
    assert ratio_and_error(0.9 * reference, reference) == pytest.approx((0.9, 0.0))
    ratio, error = ratio_and_error(8 + noise, reference)
    # Independent: relative variances add.
    assert ratio == pytest.approx(0.8, abs=5 * error)
    assert error == pytest.approx(0.8 * np.hypot(1 / 8, 1 / 10) / 4_000**0.5, rel=0.1)


def test_gram_error_prints_a_row_for_every_p_halt_and_draws(run, tmp_path):
    pytest.importorskip("matplotlib", reason="figures need the extra `plot`")
    picture = tmp_path / "errors.png"
    rows = run("gram_error", "--graphs", "karate", "--repeats", "50", "--out", str(picture))[3:]
    assert [row[:3] for row in rows] == [
        ["karate", f"{p:g}", "50"] for p in (0.1, 0.2, 0.3, 0.4, 0.5)
    ]
    independent = [float(row[3]) for row in rows]
    assert independent == sorted(independent)  # shorter walks, larger errors
    ratio, error = float(rows[2][10]), float(rows[2][12])
    assert ratio + 2 * error < 1  # sigma-coupled at .3: the paper's claim
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_linear_against_exhaustive_prints_a_row_for_every_order_and_draws(run, tmp_path):
    pytest.importorskip("matplotlib", reason="figures need the extra `plot`")
    picture = tmp_path / "orders.svg"
    options = ("--graph", "karate", "--orders", "3", "6", "--repeats", "20", "--out", str(picture))
    rows = run("linear_against_exhaustive", *options)[3:]
    assert [row[0] for row in rows] == ["3", "4", "5", "6"]
    for *_, distance, tied, objective in rows:
        assert int(tied) <= int(distance)
        assert float(objective) >= 0.999999  # nothing is below the best of all permutations
    assert "<svg" in picture.read_text(encoding="utf-8")


def test_the_shipped_permutations_are_as_good_as_those_the_script_learns(run, tmp_path):
    pytest.importorskip("matplotlib", reason="figures need the extra `plot`")
    path, picture = tmp_path / "permutations.json", tmp_path / "permutations.svg"
    run("learn_permutations", str(path), "--out", str(picture))
    assert "<svg" in picture.read_text(encoding="utf-8")
    learned = json.loads(path.read_text(encoding="utf-8"))
    assert list(learned) == ["gram", "pagerank"]
    for objective, table in learned.items():
        assert len(table["couplings"]) == 18
        for p_halt, record in table["couplings"].items():
            shipped = shipped_coupling(float(p_halt), objective)
            assert shipped.cost_after == pytest.approx(record["cost_after"], rel=1e-9)
            assert (shipped.kernel, shipped.graph) == (table["kernel"], table["graph"])


def test_the_search_keeps_the_posterior_of_the_regressor(example, grid):
    module = example("bayesian_optimisation")
    rng = np.random.default_rng(0)
    nodes, values = rng.choice(grid.n_nodes, 40), rng.standard_normal(40)
    surrogate = module.Surrogate(grid, nodes[:30], values[:30], 0.1, 0)
    surrogate.add(nodes, values)
    learned = surrogate.gp
    gp = grf.GraphGPRegressor(
        grid,
        kernel=learned.kernel_,
        method="series",
        numerics=grf.gp.Numerics(normalize=False),
        mean="zero",
        optimize=False,
        output_scale=learned.output_scale_,
        noise=0.1,
    ).fit(nodes, values - learned.mean_)
    np.testing.assert_allclose(surrogate.mean(), gp.predict(), atol=1e-7)
    mean, covariance = surrogate.joint(surrogate.products(np.arange(5)))
    np.testing.assert_allclose(mean, gp.predict()[:5], atol=1e-7)
    np.testing.assert_allclose(covariance, gp.predict(np.arange(5), return_cov=True)[1], atol=1e-7)
    draws = surrogate.draws(400, rng)
    std = gp.predict(return_std=True)[1]
    assert np.abs((draws.mean(axis=1) - gp.predict()) / (std / 20)).max() < 5
    peaks = module.greedy(surrogate, 3, grid.adjacency)
    heights = surrogate.mean()
    for peak in peaks:
        assert (heights[peak] >= heights[grid.adjacency[[peak]].indices]).all()
    assert peaks[0] == heights.argmax()


def test_bayesian_optimisation_prints_falling_regrets_and_draws(run, tmp_path):
    pytest.importorskip("matplotlib", reason="figures need the extra `plot`")
    picture = tmp_path / "regret.png"
    rows = run("bayesian_optimisation", "--quick", "--out", str(picture))
    table = [row for row in rows if row[0].isdigit()]
    assert [int(row[0]) for row in table] == [15, 27, 39]
    regrets = np.array([[float(x) for x in row[1::3]] for row in table])
    assert (regrets[0] == regrets[0, 0]).all()  # all start from the same nodes
    assert (np.diff(regrets, axis=0) <= 0).all()
    assert picture.read_bytes().startswith(b"\x89PNG")


@needs_data
def test_gpytorch_trains_the_model_of_the_regressor(run, require, tmp_path):
    pytest.importorskip("matplotlib", reason="figures need the extra `plot`")
    require("san-jose")
    picture = tmp_path / "modulations.png"
    rows = run("gpytorch_regression", "--splits", "1", "--steps", "5", "--out", str(picture))[2:]
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert [row[:2] for row in rows] == [
        ["gpytorch,", "diffusion"],
        ["gpytorch,", "learned"],
        ["regressor,", "diffusion"],
    ]
    likelihood = {" ".join(row[:2]): float(row[5]) for row in rows}
    # One model, so that five steps of Adam stay below the maximum that the regressor finds.
    assert likelihood["gpytorch, diffusion"] < likelihood["regressor, diffusion"]
    assert all(5 < float(row[2]) < 25 and 50 < float(row[4]) <= 100 for row in rows)


@needs_data
@pytest.mark.parametrize("name", ["mesh-teapot", "san-jose"])
def test_mean_and_deviation_beats_a_constant_and_draws(name, require, printed, tmp_path):
    pytest.importorskip("matplotlib", reason="figures need the extra `plot`")
    require(name)
    picture = tmp_path / "posterior.png"
    options = ["--data", name, "--share", "0.2", "--out", str(picture)]
    words = printed("mean_and_deviation", *options).splitlines()[1].split()
    error, constant, within = (
        float(words[words.index(word) + 1].strip(");"))
        for word in ("RMSE", "constant:", "deviations")
    )
    assert error < 0.95 * constant
    assert 0.8 < within <= 1
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.full  # a minute; docs/tutorials/traffic_through_time.md makes the same calls
@needs_data
def test_traffic_through_time_beats_the_time_of_day_and_draws(run, require, tmp_path):
    pytest.importorskip("matplotlib", reason="figures need the extra `plot`")
    require("metr-la")
    picture = tmp_path / "week.png"
    rows = run("traffic_through_time", "--out", str(picture))
    unseen, ahead = (
        next(row for row in rows if " ".join(row).startswith(name))
        for name in ("sensors", "the next")
    )
    for row in (unseen, ahead):
        error, usual = (
            float(row[row.index("RMSE") + 1]),
            float(row[row.index("day") + 1].strip("),")),
        )
        assert error < 0.9 * usual
        assert float(row[-1]) > 0.85
    assert picture.read_bytes().startswith(b"\x89PNG")


# So few values may not say more than noise.
@pytest.mark.filterwarnings("ignore:the graph explains y no better")
def test_the_example_of_ten_million_nodes_runs_on_fewer(
    run, example, monkeypatch, capsys, tmp_path
):
    module = example("ten_million_nodes")
    for name, size in (("OBSERVED", 80), ("PREDICTED", 300), ("WITH_DEVIATIONS", 50)):
        monkeypatch.setattr(module, name, size)
    module.run(2_000, tmp_path)
    graph = grf.open_graph(tmp_path)
    assert (graph.n_nodes, graph.n_edges) == (2_000, pytest.approx(8_000, rel=0.01))
    near = module.neighbourhood(graph, 0, 100)
    assert near.size == np.unique(near).size == 100
    assert set(graph.adjacency[[0]].indices) <= set(near)
    said = capsys.readouterr().out
    assert float(said.rpartition("intervals contain ")[2].split()[0]) > 0.7
    assert 0 <= float(said.rpartition("scores lack ")[2].split()[0]) < 1


def test_label_spreading_is_its_closed_form(example, karate):
    module = example("node_classification")
    nodes, y = np.array([0, 33, 5]), np.array([0, 1, 0])
    rest = np.setdiff1d(np.arange(karate.n_nodes), nodes)
    start = np.zeros((karate.n_nodes, 2))
    start[nodes, y] = 1.0
    walk = karate.walk_matrix("normalized").toarray()
    exact = np.linalg.solve(np.eye(karate.n_nodes) - 0.9 * walk, start)[rest]
    found = module.propagation(karate, nodes, y, rest, 0)
    # What is left after 100 steps is .9^100 = 3e-5 of the sum.
    np.testing.assert_allclose(found, exact / exact.sum(axis=1, keepdims=True), atol=1e-3)


@needs_data
def test_node_classification_prints_a_row_for_every_method_and_draws(run, require, tmp_path):
    pytest.importorskip("matplotlib", reason="figures need the extra `plot`")
    require("cora")
    picture = tmp_path / "reliability.png"
    options = ("--labelled", "140", "--splits", "1", "--skip", "integrated", "--out", str(picture))
    rows = [row for row in run("node_classification", *options) if "±" in row]
    assert [row[0] for row in rows] == [
        "GraphGPClassifier",
        "GraphGPRegressor,",
        "label",
        "logistic",
    ]
    for row in rows:
        accuracy, loss, calibration = (
            float(row[at - 1]) for at, word in enumerate(row) if word == "±"
        )
        assert 0.5 < accuracy < 1  # the commonest topic has .3
        assert 0 < loss < np.log(7)  # equal probabilities
        assert 0 <= calibration < 0.5
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.more
def test_disease_mapping_covers_rates_and_counts_and_draws(printed, tmp_path):
    for library in ("geopandas", "libpysal", "jinja2"):
        pytest.importorskip(library)
    path = tmp_path / "maps.png"
    out = printed("disease_mapping", "--out", str(path))
    rates, lost, counts = (float(share) for share in re.findall(r": ([01]\.\d\d) of", out))
    assert rates > 0.9
    assert lost > 0.6  # of three
    assert counts > 0.9
    row = next(line for line in out.splitlines() if line.startswith("poverty &"))
    assert 1.02 < float(row.split("&")[1]) < 1.04  # exp(0.03)
    assert path.stat().st_size > 10_000


@pytest.mark.full  # a minute
def test_areas_through_years_compares_models_and_draws(printed, tmp_path):
    for library in ("geopandas", "libpysal"):
        pytest.importorskip(library)
    path = tmp_path / "maps.png"
    out = printed("areas_through_years", "--out", str(path))
    lines = [line for line in out.splitlines() if "log predictive densities" in line]
    densities = [float(line.split("densities ")[1].split(",")[0]) for line in lines]
    assert densities == sorted(densities)  # each model predicts better than the one before
    assert len(densities) == 3
    # Cressie 1991, model IV: 0.0346 for transformed rates with other neighbours
    _, mean, sd, *_ = out.splitlines()[-1].split()
    assert abs(float(mean) - 0.0346) < float(sd)
    assert path.stat().st_size > 10_000


@pytest.mark.more
def test_crashes_covers_the_truth_and_draws(printed, tmp_path):
    path = tmp_path / "maps.png"
    words = printed("crashes", "--towns", "1", "--out", str(path)).split()
    covered, predicted, ratios = (float(words[at].rstrip(";,")) for at in (12, 16, -1))
    assert 0.8 < covered < 1
    assert predicted < 0.6 * ratios
    assert path.stat().st_size > 10_000


@pytest.mark.more
def test_gpytorch_counts_runs(run):
    header, *rows = run("gpytorch_counts", "--observed", "100", "--inducing", "30", "--steps", "5")
    assert header[-1] == "seconds"
    assert [row[0] for row in rows] == ["GPyTorch,", "GraphGPRegressor,"]
    assert all(np.isfinite([float(value) for value in row[2:]]).all() for row in rows)


@pytest.mark.more
def test_city_needs_the_class_of_the_road_and_draws(printed, tmp_path):
    pytest.importorskip("plotly")
    picture, page = tmp_path / "maps.png", tmp_path / "map.html"
    out = printed("city", "--out", str(picture), "--map", str(page))
    lost, correlation, covered = (
        [float(value) for value in re.findall(f"{before} ([0-9.]+)", out)]
        for before in (r"RMSE \d+ of \d+,", "correlation", r"correlation [0-9.]+,")
    )
    assert min(lost) > 0.9
    assert correlation[1] > 0.9 > correlation[0] + 0.1
    assert covered[1] > 0.85
    assert picture.stat().st_size > 10_000
    assert "vehicles per hour" in page.read_text(encoding="utf-8")


@pytest.mark.more
def test_tables_give_a_model_that_another_process_loads(printed):
    pytest.importorskip("pandas")
    words = printed("from_tables", "--side", "50").split()
    scores = [float(words[at + 1]) for at, word in enumerate(words) if word == "R^2"]
    assert len(scores) == 2
    assert min(scores) > 0.7
    assert float(words[words.index("of") - 1]) > 0.9
    assert float(words[-1]) < 1e-6


def test_the_index_of_a_survey_does_not_depend_on_labels_or_order_of_the_grid(example):
    pandas = pytest.importorskip("pandas")

    class Density:
        """A model whose draws are the density of each row."""

        def sample(self, frame, n, seed):
            return np.tile(frame["density"].to_numpy(), (n, 1))

    grid = pandas.DataFrame({"year": [2019, 2020] * 3, "density": [1.0, 10, 2, 20, 3, 30]})
    for each in (grid, grid[::-1], pandas.concat([grid[:3], grid[3:].reset_index(drop=True)])):
        index = example("survey").index_of(Density(), each)
        assert index.loc[:, 0.5].to_dict() == {2019: 16 * 6.0, 2020: 16 * 60.0}


@pytest.mark.more
def test_survey_covers_densities_and_counts_and_draws(printed, tmp_path):
    path = tmp_path / "survey.png"
    out = printed("survey", "--out", str(path))
    middle, low, high = map(
        float, re.search(r"depth (\S+) times, from (\S+) to ([\d.]+);", out).groups()
    )
    assert low < 0.45 < high
    assert low < middle < high
    rows = [line.split() for line in out.splitlines() if line.startswith("20")]
    assert sum(float(row[1]) < float(row[4]) < float(row[3]) for row in rows) >= 3
    assert all(float(share) > 0.9 for share in re.findall(r": (\S+) in the 95", out))
    assert path.stat().st_size > 10_000


def test_heart_covers_times_and_range_and_exports(printed, tmp_path):
    pytest.importorskip("matplotlib", reason="figures need the extra `plot`")
    path, mesh = tmp_path / "heart.png", tmp_path / "heart.vtk"
    lines = printed("heart", "--out", str(path), "--export", str(mesh)).splitlines()
    assert float(lines[0].split()[-1]) > 0.9
    for line, truth in ((lines[2], 40.0), (lines[3], 2.0)):
        low, _, high = map(float, line.split()[-3:])
        assert low < truth < high
    assert path.stat().st_size > 10_000
    assert mesh.read_text().startswith("# vtk")
