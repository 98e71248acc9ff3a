"""checks/gpu.py: no part loses another's results; `make test-more` rehearses it whole."""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
if not (ROOT / "checks" / "gpu.py").is_file():
    pytest.skip("there is no checkout here", allow_module_level=True)


@pytest.fixture
def check(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "checks")
    return importlib.import_module("gpu")


@pytest.fixture
def benchmark(monkeypatch):
    pytest.importorskip("gpytorch", reason="the benchmark needs the extra `gp`")
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("device")


def outcome(check, tmp_path, code, seconds=30.0):
    return check.run("walks", [sys.executable, "-c", code], seconds, tmp_path, "cpu")


def test_a_part_that_passes_has_its_last_line_and_its_figures(check, tmp_path):
    figures = [{"name": "walks", "value": 2.0, "low": 1.0, "high": 3.0, "unit": "M steps/s"}]
    code = (
        f"open({str(tmp_path / 'gpu-walks.json')!r}, 'w').write({json.dumps(figures)!r}); "
        "print('a\\nb\\n')"
    )
    found = outcome(check, tmp_path, code)
    assert (found.ended, found.line, found.figures) == ("passed", "b", figures)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gpu.log"]


def test_a_part_that_fails_has_its_error_and_the_figures_before_it(check, tmp_path):
    code = (
        f"open({str(tmp_path / 'gpu-walks.json')!r}, 'w').write('[]'); raise SystemExit('bits "
        "differ')"
    )
    found = outcome(check, tmp_path, code)
    assert (found.ended, found.line, found.figures) == ("failed (1)", "bits differ", [])


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up in /proc")
def test_a_part_that_hangs_is_stopped_with_what_it_has_started(check, tmp_path):
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    found = outcome(check, tmp_path, code, seconds=5.0)
    assert found.ended == "stopped after 5 s"
    for _ in range(100):  # init takes a moment to bury an orphan
        state = Path(f"/proc/{found.line}/stat")
        if not state.exists() or state.read_text().rsplit(")", 1)[1].split()[0] == "Z":
            break
        time.sleep(0.1)
    else:
        os.kill(int(found.line), 9)
        pytest.fail("a process of the part still runs")


def test_the_table_has_every_part_and_every_figure(check):
    figure = {
        "name": "F^T Y",
        "value": 2.0,
        "low": 1.0,
        "high": 3.0,
        "unit": "ms",
        "gb_per_s": 1500.0,
    }
    figure |= {"share_of_copy": 0.5, "peak_gib": 3.25}
    outcomes = [
        check.Outcome("machine", "passed", 1.0, "a card"),
        check.Outcome("products", "stopped after 25 s", 25.0, "a | b", [figure]),
    ]
    text = check.table(outcomes, "a card")
    assert ": a card\n" in text
    assert "| products | stopped after 25 s | 25 | a / b |" in text
    assert "| products | F^T Y | 2 ms | 1 to 3 | 1500 | 0.5 | 3.25 |" in text
    assert "Largest peak of the device's memory: 3.25 GiB." in text
    assert text.endswith("1 passed, 1 failed, 26 s\n")


def test_parts_are_written_as_they_end_and_a_failure_is_the_exit_status(
    check, tmp_path, monkeypatch
):
    commands = {
        "machine": [sys.executable, "-c", "print('a card')"],
        "tests": [sys.executable, "-c", "1 / 0"],
    }
    monkeypatch.setattr(check, "commands", lambda device, out: commands)
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--device", "cpu", "--out", str(tmp_path)])
    with pytest.raises(SystemExit, match="True"):
        check.main()
    before = json.loads((tmp_path / "gpu.json").read_text())
    # What is not run again is kept.
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--parts", "tests"])
    with pytest.raises(SystemExit, match="True"):
        check.main()
    assert json.loads((tmp_path / "gpu.json").read_text())[0] == before[0]
    assert [part["ended"] for part in json.loads((tmp_path / "gpu.json").read_text())] == [
        "passed",
        "failed (1)",
    ]
    assert (
        "| tests | failed (1) | 0 | ZeroDivisionError: division by zero |"
        in (tmp_path / "gpu.md").read_text()
    )
    assert "== tests: failed (1)" in (tmp_path / "gpu.log").read_text()
    assert len(list(tmp_path.iterdir())) == 3


def test_time_limits_add_up_to_less_than_eight_minutes(check):
    assert sum(check.SECONDS.values()) < 8 * 60


def test_every_part_has_a_command_and_all_files_with_marked_tests_are_run(
    check, benchmark, tmp_path
):
    commands = check.commands("cuda", tmp_path)
    assert list(commands) == list(check.SECONDS)
    assert set(commands) - {"machine", "tests"} == set(benchmark.PARTS)
    for folder in ("sampling", "features", "pagerank/walks", "gp/torch"):
        assert any(name.startswith(str(ROOT / "tests" / folder)) for name in commands["tests"]), (
            folder
        )


def test_skipped_tests_have_not_passed(check, tmp_path):
    code = "print('== 42 passed, 3 skipped in 1.00s ==')"
    found = check.run("tests", [sys.executable, "-c", code], 30.0, tmp_path, "cpu")
    assert (found.ended, found.line) == (
        "failed (tests were skipped)",
        "42 passed, 3 skipped in 1.00s",
    )


def test_bits_that_differ_fail(benchmark, monkeypatch):
    """Negative control: another seed on the device."""
    options = type("Options", (), {"nodes": 200, "walks": 4})
    on = benchmark.Device("cpu", None)
    benchmark.bits(options, on)
    assert on.failed == []
    for place, function in ((benchmark.grf, "sample_features"), (benchmark, "estimate")):
        plain = getattr(place, function)

        def other(*given, seed, engine=None, plain=plain, **named):
            return plain(*given, seed=seed + (engine is not None), engine=engine, **named)

        monkeypatch.setattr(place, function, other)
    benchmark.bits(options, on)
    assert [name.split(",")[0] for name in on.failed].count("walks") == 12
    assert len(on.failed) == 12 + 6  # the rest are pools


def test_rows_that_differ_fail(benchmark, karate):
    """Negative control: the rows of another seed."""
    on = benchmark.Device("cpu", None)
    sampler = benchmark.grf.RandomWalks(8)
    benchmark.compared("walks", benchmark.sampled_on(on, karate, sampler), karate, on)
    other = benchmark.grf.sample_features(karate, sampler, seed=1)
    with pytest.raises(RuntimeError, match="rows of walks with the same bits"):
        benchmark.compared("walks", other, karate, on)


def test_figures_are_ratios_to_what_was_copied(benchmark, tmp_path):
    on = benchmark.Device("cpu", tmp_path / "figures.json")
    on._copied = 2e9
    on.rate("walks", 100.0, "M steps/s", benchmark.Runs([1.0, 4.0, 2.0], 3.5), moved=1e9)
    on.duration("step", benchmark.together([benchmark.Runs([0.5], None)]))
    first, second = json.loads((tmp_path / "figures.json").read_text())
    assert (first["value"], first["low"], first["high"]) == (50.0, 25.0, 100.0)
    assert (first["gb_per_s"], first["share_of_copy"]) == (0.5, 0.25)
    assert (second["value"], second["unit"]) == (500.0, "ms")
    assert first["peak_gib"] == 3.5
    assert benchmark.together([benchmark.Runs([1.0], 2.0), benchmark.Runs([3.0], 1.0)]) == (
        [1.0, 3.0],
        2.0,
    )
    assert "share_of_copy" not in second
