"""What the demo computes, and how its report says it."""

from __future__ import annotations

import dataclasses
import json
import re
import warnings
from pathlib import Path
from types import SimpleNamespace

import numba
import numpy as np
import pytest

import graphrf as grf
from graphrf import datasets
from graphrf.cli.demo import report, run, seconds
from graphrf.cli.demo import words as _demo_words
from graphrf.cli.demo.parts import GramPart, GramRow, InterpolationPart, PageRankPart, Settings, TimePart
from graphrf.cli.demo.seconds import timed
from graphrf.cli.demo.through_time import predict_through_time
from graphrf.cli.demo.words import _compared
from graphrf.datasets import readers, shapes
from graphrf.kernels.named import Diffusion, RegularizedLaplacian
from graphrf.sampling.powers.powers import CompressedPowers
from graphrf.sampling.sample import sample_features

SETTINGS = Settings(n_walks=8, repeats=12, seed=3)


def coarse_torus() -> datasets.Dataset:
    """The mesh of the demo with 144 faces."""
    return datasets.Dataset(
        "torus", "mesh", "A torus.", "none", **readers._mesh_content(*shapes.torus(12, 6, 2.0, 0.9))
    )


@pytest.fixture(scope="module")
def karate() -> datasets.Dataset:
    return datasets.load("karate")


@pytest.fixture(scope="module")
def kernel(karate) -> GramPart:
    return run.estimate_kernel(karate, SETTINGS)


@pytest.fixture(scope="module")
def ranks(karate) -> PageRankPart:
    return run.estimate_pagerank(karate, SETTINGS)


def test_stratified_walks_beat_independent_ones_and_the_table_holds_every_case(kernel):
    rows = {(row.lengths, row.directions): row for row in kernel.rows}
    assert len(rows) == len(kernel.rows) == 11
    independent, stratified = rows["independent", "independent"], rows["stratified", "stratified"]
    gap = independent.error - stratified.error
    assert gap > 3 * np.hypot(independent.stderr, stratified.stderr)
    assert stratified.error < 0.8 * independent.error
    # Nine steps a walk on average at p_halt = 0.1; six where walks are truncated.
    assert independent.steps == pytest.approx(9 * 8, rel=0.1)
    assert rows["truncated", "independent"].steps == 6 * 8
    assert rows["compressed powers", ""].error < independent.error
    assert all(1 < row.nonzeros < 34 for row in kernel.rows)


def test_walks_that_end_too_early_are_told_in_the_report_alone(karate, kernel):
    few = dataclasses.replace(SETTINGS, n_walks=4, repeats=2, p_halt=0.8)
    early = run.estimate_kernel(karate, few)  # a warning would be an error here
    assert "too short for this kernel" in report.as_text(early)
    assert "too short" not in report.as_text(kernel)


def test_curves_fall_with_walks_and_share_the_table_s_numbers(kernel):
    for label, rows in kernel.curves.items():
        errors = [row.error for row in rows]
        assert [row.n_walks for row in rows] == [2, 4, 8, 16, 32], label
        assert errors == sorted(errors, reverse=True), label
    assert kernel.curves["independent walks"][2] == kernel.rows[0]


def test_error_of_independent_walks_halves_with_four_times_the_walks(kernel):
    few, _, many = (kernel.curves["independent walks"][number] for number in (2, 3, 4))
    assert 1.6 < few.error / many.error < 2.6


def test_same_seed_gives_the_same_numbers_and_another_seed_others(karate, ranks):
    again = run.estimate_pagerank(karate, SETTINGS)
    other = run.estimate_pagerank(karate, dataclasses.replace(SETTINGS, seed=4))
    assert [row.error for row in again.rows] == [row.error for row in ranks.rows]
    assert [row.error for row in other.rows] != [row.error for row in ranks.rows]


def test_rows_of_a_large_matrix_stand_for_the_whole(karate, kernel, monkeypatch):
    chosen, rng = RegularizedLaplacian(1.0, 2), np.random.default_rng(3)
    whole = run._Truth(karate.graph, chosen, rng)
    monkeypatch.setattr(run, "_LARGEST_DENSE", 10)
    monkeypatch.setattr(run, "_SAMPLED_ROWS", 20)
    part = run._Truth(karate.graph, chosen, rng)
    assert kernel.compared_rows == whole.rows.size == 34
    assert part.rows.size == 20
    np.testing.assert_allclose(part.values, whole.values[part.rows], atol=1e-9)
    for seed in range(4):
        features = sample_features(karate.graph, seed=seed)
        assert part.error(features) == pytest.approx(whole.error(features), rel=0.25)


class _Clock:
    """Time that passes in calls that are watched: 100 seconds in the first of them, which compiles, then one."""

    def __init__(self, monkeypatch):
        self.now, self.calls = 0.0, []
        for module in (run, seconds):
            monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: self.now))

    def watched(self, call):
        def timed(*arguments, **options):
            self.now += 1.0 if call in self.calls else 100.0
            self.calls.append(call)
            return call(*arguments, **options)

        return timed


def test_compilation_is_no_part_of_the_exact_methods_times(karate, monkeypatch):
    clock = _Clock(monkeypatch)
    monkeypatch.setattr(run, "pagerank", clock.watched(run.pagerank))
    few = dataclasses.replace(SETTINGS, n_walks=4, repeats=2)
    assert run.estimate_pagerank(karate, few).exact_seconds == 1
    monkeypatch.setattr(run, "_LARGEST_DENSE", 10)
    monkeypatch.setattr(run, "_SAMPLED_ROWS", 20)
    monkeypatch.setattr(run, "kernel_block", clock.watched(run.kernel_block))
    assert run._Truth(karate.graph, RegularizedLaplacian(1.0, 2), np.random.default_rng(0)).seconds == 1


def test_training_is_warmed_and_what_it_warns_of_is_told_without_options(monkeypatch):
    from graphrf import gp

    clock = _Clock(monkeypatch)
    made = []

    class Regressor:
        sampler_ = CompressedPowers(32, 8)
        kernel_, output_scale_, noise_, mean_ = Diffusion(), 1.0, 0.04, 0.0

        def __init__(self, graph, *, method, seed, **options):
            self.n_nodes = graph.n_nodes
            self.learned = clock.watched(f"{method}, {options}".upper)
            made.append((method, *options))

        def fit(self, nodes, y):
            self.learned()
            hint = "; pass a longer `sampler` or method='series'"
            warnings.warn(
                f"the lengthscale stopped at {len(y)}, the longest that {self.sampler_!r} can serve: the data ask "
                f"for more{hint}",
                stacklevel=2,
            )
            return self

        def predict(self, nodes, return_std):
            return np.zeros(self.n_nodes), np.full(self.n_nodes, 0.1)

    monkeypatch.setattr(gp, "GraphGPRegressor", Regressor)
    part = run.interpolate_mesh(coarse_torus(), SETTINGS)
    assert made == [("auto",), ("series", "kernel")]
    assert [row.seconds for row in part.rows] == [None, 1, 1]
    assert [row.fitted_noise for row in part.rows] == [None, 0.2, 0.2]
    assert part.notes == tuple(
        f"Gaussian process, {words}: the lengthscale stopped at 29, the longest that these rows can serve."
        for words in ("by default", "diffusion kernel")
    )
    text = " ".join(report.as_text(part).split())
    assert all(note in text for note in part.notes)
    assert "`" not in text
    # Noise of 0.2 where 0.1 was added: deviations of 0.1 leave out sqrt(0.2^2 - 0.1^2).
    assert "The noise fitted by the first has standard deviation 0.2, more than the 0.1 that was added" in text
    assert "If it is included, the expected error is 0.2," in text


def test_pagerank_is_exact_up_to_the_stated_error(ranks):
    assert ranks.exact.sum() == pytest.approx(1)
    for label, scores in ranks.estimates.items():
        assert scores.sum() == pytest.approx(1), label
    errors = {(row.estimator, row.coupling): row.error for row in ranks.rows}
    assert len(errors) == 9
    assert errors["visits", "pooled"] < errors["visits", "iid"] < errors["endpoints", "iid"] < 0.5
    assert ranks.top[0][0] == "33"  # the officer has the most friends
    assert [score for _, score in ranks.top] == sorted((score for _, score in ranks.top), reverse=True)


def test_speeds_are_predicted_at_sensors_that_were_not_shown():
    try:
        data = datasets.load("san-jose")
    except ConnectionError as error:
        pytest.skip(f"San Jose is not at hand: {error}")
    part = run.interpolate_traffic(data, SETTINGS)
    assert (part.n_observed, part.n_predicted, part.unit) == (250, 75, "mph")
    constant, default, diffusion = part.rows
    assert default.rmse < diffusion.rmse < constant.rmse
    text = report.as_text(part)
    assert max(map(len, text.splitlines())) <= 100
    assert "here the best is the Matern kernel with the combinatorial Laplacian" in " ".join(text.split())
    assert all(0.7 < row.coverage <= 1 for row in part.rows)
    hidden = np.isfinite(part.truth) & np.isnan(part.observed)
    assert np.sqrt(np.mean((part.mean - part.truth)[hidden] ** 2)) == pytest.approx(default.rmse)
    pytest.importorskip("matplotlib", reason="figures need the extra `plot`")
    from graphrf.cli.demo.pictures import pictures

    (picture,) = pictures(part)
    assert picture.file == "traffic.png"
    assert "mph" in picture.alt


def test_speeds_are_predicted_through_time():
    rng = np.random.default_rng(0)
    hour, place = np.arange(3 * 288)[:, None] / 12, np.arange(15)
    speeds = 60 - 20 * np.exp(-(((hour % 24) - 8 - place / 8) ** 2) / 4) + rng.standard_normal((hour.size, 15))
    graph = grf.from_edges(range(14), range(1, 15))
    data = datasets.Dataset("ring", "traffic", "Speeds.", "none", graph=graph, extra={"speeds": speeds})
    part = predict_through_time(data, SETTINGS)
    assert (part.n_times, part.n_hidden) == (288, 3)
    assert [row.coverage is None for row in part.rows] == [True, False, True, False]
    assert part.rows[1].rmse < 4
    assert all(row.coverage > 0.8 for row in part.rows[1::2])
    text = report.as_text(part)
    assert max(map(len, text.splitlines())) <= 100
    assert "sensors never seen" in text
    assert report._record([part], SETTINGS, 1.0)["parts"][0]["kind"] == "time"
    pytest.importorskip("matplotlib", reason="figures need the extra `plot`")
    from graphrf.cli.demo.pictures import pictures

    (picture,) = pictures(part)
    assert picture.file == "traffic_through_time.png"
    assert len(picture.figure.axes) == 2


def test_traffic_that_is_not_at_hand_is_left_out(monkeypatch):
    load = datasets.load

    def without(name):
        if name == "metr-la":
            raise ConnectionError("metr-la is not on this machine")
        return load("karate" if name == "san-jose" else name)

    monkeypatch.setattr(datasets, "load", without)
    with pytest.warns(
        UserWarning, match="through time is left out, because its data is not available: metr-la is not"
    ):
        run.run(Settings(traffic=True))


def test_settings_are_checked():
    with pytest.raises(ValueError, match="`n_walks` must be even"):
        Settings(n_walks=7)
    with pytest.raises(ValueError, match="`repeats` must be at least 2, got 1"):
        Settings(repeats=1)
    with pytest.raises(ValueError, match="`p_halt` must be in"):
        Settings(p_halt=0.99)


def test_a_directed_graph_is_refused():
    try:
        datasets.load("cora-directed")
    except ConnectionError as error:
        pytest.skip(f"cora-directed is not at hand: {error}")
    with pytest.raises(ValueError, match="`dataset` must be undirected for the kernel, got 'cora-directed'"):
        run.run(Settings(dataset="cora-directed"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (Settings(dataset="nowhere"), "`name` must be one of"),
        (Settings(dataset="uci-wine"), "table|not on this machine"),
        (Settings(mesh="generated-grid"), "`mesh` must be a triangle mesh, got 'generated-grid'"),
    ],
)
def test_data_that_does_not_serve_is_refused_before_anything_is_computed(settings, message):
    with pytest.raises((ValueError, ConnectionError), match=message):
        run.run(settings)


# -- the report ----------------------------------------------------------------------------------------------


def test_text_explains_the_numbers_and_fits_the_terminal(kernel, ranks):
    for part in (kernel, ranks):
        text = report.as_text(part)
        assert max(map(len, text.splitlines())) <= 100
        assert "karate" in text
        assert text.count("  best") == 1
        for row in part.rows:
            assert f"{row.error:.4f} ± {row.stderr:.4f}" in text


def test_columns_of_the_table_line_up(kernel):
    lines = report.as_text(kernel).splitlines()
    rule = next(number for number, line in enumerate(lines) if line.startswith("---"))
    edges = [match.span() for match in re.finditer("-+", lines[rule])]
    for line in lines[rule + 1 : rule + 11]:
        assert [line[start] != " " for start, _ in edges[:2]] == [True, True]  # words begin at the left
        assert all(line[end - 1] != " " for _, end in edges[2:])  # numbers end at the right
        assert all(line[end : end + 2].strip() == "" for _, end in edges)


def test_best_row_is_the_one_with_the_least_error(kernel, ranks):
    for part in (kernel, ranks):
        content = _demo_words.section(part)
        assert part.rows[content.best[0]].error == min(row.error for row in part.rows)


def test_a_row_with_intervals_that_are_too_narrow_is_not_pointed_out():
    part = run.interpolate_mesh(coarse_torus(), SETTINGS)
    first, default, *others = part.rows
    rows = (
        first,
        dataclasses.replace(default, coverage=0.94),
        *(dataclasses.replace(row, rmse=0, coverage=0.8) for row in others),
    )
    content = _demo_words.section(dataclasses.replace(part, rows=rows))
    assert content.best == (1,)
    assert "'Gaussian process, diffusion kernel' (80.0 %) are" in content.findings[1]
    narrow = dataclasses.replace(part, rows=tuple(dataclasses.replace(row, coverage=0.8) for row in part.rows))
    assert _demo_words.section(narrow).best == ()


def test_numbers_survive_json_and_what_is_not_finite_becomes_null(kernel, tmp_path):
    broken = dataclasses.replace(kernel, exact_seconds=float("nan"))
    page, numbers = report.write([broken], SETTINGS, tmp_path, seconds=1.0, with_figures=False)
    record = json.loads(numbers.read_text())
    (part,) = record["parts"]
    assert part["kind"] == "kernel"
    assert part["exact_seconds"] is None
    assert part["rows"][0]["error"] == kernel.rows[0].error
    assert "coupling" not in part
    assert page.read_text().startswith("<!DOCTYPE html>")


def test_text_of_others_is_escaped_in_the_page(kernel, tmp_path):
    source = dataclasses.replace(kernel.source, name="<b>&", description='"<script>"')
    page, _ = report.write(
        [dataclasses.replace(kernel, source=source)], SETTINGS, tmp_path, seconds=1.0, with_figures=False
    )
    text = Path(page).read_text()
    assert "<script>" not in text
    assert "<b>" not in text
    assert "&lt;b&gt;&amp;" in text


def test_command_gives_the_settings_again():
    settings = Settings(dataset="cora", mesh="a mesh", traffic=True, n_walks=8, repeats=3, seed=5, p_halt=0.3)
    assert report.command(settings) == (
        "graphrf demo --dataset cora --mesh 'a mesh' --traffic --walks 8 --repeats 3 --p-halt 0.3 --seed 5"
    )


def test_short_times_are_plain_numbers():
    times = {
        0.00071: "0.71 ms",
        0.0271: "27 ms",
        0.0996: "100 ms",
        0.8849: "880 ms",
        1.04: "1.0 s",
        83.2: "83.2 s",
    }
    assert {seconds: _demo_words._seconds(seconds) for seconds in times} == times


def test_every_kind_of_part_has_a_name_in_json():
    assert set(report._KINDS) == {GramPart, InterpolationPart, PageRankPart, TimePart}


def test_a_difference_within_the_noise_is_not_called_one():
    def row(error):
        return GramRow("iid", "independent", 16, error=error, stderr=0.01, steps=1.0, nonzeros=1.0, seconds=1.0)

    assert "makes no significant difference" in _compared(row(0.50), row(0.51))
    assert "divides the error by 1.25" in _compared(row(0.50), row(0.40))


def test_seconds_exclude_compilation(monkeypatch):
    def compute():
        calls.append(len(calls))
        return one(1) + (other(1.0) if len(calls) == 1 else 0)

    one, other = numba.njit(lambda x: x + 1), numba.njit(lambda x: x + 2)
    calls = []
    readings = iter([0.0, 90.0, 100.0, 102.0, 200.0, 203.0])
    monkeypatch.setattr(seconds, "time", SimpleNamespace(perf_counter=lambda: next(readings)))
    assert timed(compute) == (2, 2.0)
    assert calls == [0, 1]  # the second run compiles nothing
    assert timed(lambda: one(1)) == (2, 3.0)
