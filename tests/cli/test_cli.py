"""The command line, as it is used."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import warnings
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.testing import CliRunner

import graphrf
from graphrf.cli import app
from graphrf.cli.options.messages import plain_messages
from graphrf.datasets import files as data_files

TINY = ["--walks", "8", "--repeats", "4", "--seed", "1"]
# Elements of HTML that are never closed.
VOID = {"meta", "img", "br", "hr", "link", "input"}


def invoke(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture(scope="module")
def demo_run(tmp_path_factory):
    """One run of the demo at tiny settings: the folder, and what was printed."""
    from graphrf.datasets import shapes

    folder = tmp_path_factory.mktemp("demo") / "made" / "out"
    with pytest.MonkeyPatch.context() as patch:
        coarse = shapes.torus(32, 16, radius=2.0, tube=1.0)
        patch.setattr(shapes, "torus", lambda **fine: coarse)
        result = invoke("demo", *TINY, "--out", str(folder))
    assert result.exit_code == 0, result.output
    return folder, result


@pytest.fixture
def offline(monkeypatch, tmp_path):
    """No data folder, an empty cache, and no network."""
    monkeypatch.delenv(data_files.DATA_VARIABLE, raising=False)
    monkeypatch.setenv(data_files.CACHE_VARIABLE, str(tmp_path / "cache"))
    for variable in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("no_proxy", "")


# -- demo ----------------------------------------------------------------------------------------------------


def test_demo_writes_a_report_numbers_and_figures(demo_run):
    folder, result = demo_run
    files = {path.name for path in folder.iterdir()}
    figures = {"error_against_walks.png", "permutation.png", "mesh.png", "pagerank.png"}
    # That each figure is on the page, and no other, is the next test but one.
    assert files >= {"report.html", "results.json", *figures}
    assert all(name.endswith(".png") for name in files - {"report.html", "results.json"})
    for name in files - {"report.html", "results.json"}:
        content = (folder / name).read_bytes()
        assert content.startswith(b"\x89PNG")
        assert len(content) > 10_000
    assert "karate" in result.stdout
    assert str(folder / "report.html") in result.stdout
    assert "Traceback" not in result.output


def test_demo_numbers_are_sane(demo_run):
    record = json.loads((demo_run[0] / "results.json").read_text())
    assert record["settings"]["n_walks"] == 8
    assert record["versions"]["graphrf"] == graphrf.__version__
    interpolation, pagerank, kernel = record["parts"]
    assert [part["kind"] for part in record["parts"]] == ["interpolation", "pagerank", "kernel"]

    errors = {(row["lengths"], row["directions"]): row["error"] for row in kernel["rows"]}
    assert errors["stratified", "stratified"] < 0.85 * errors["independent", "independent"] < 0.5

    constant, *processes = interpolation["rows"]
    assert len(processes) == 2
    for row in processes:
        assert row["rmse"] < 0.5 * constant["rmse"]
        assert 0.8 < row["coverage"] <= 1
        assert 0.5 < row["deviation"] / row["rmse"] < 2
    assert interpolation["n_observed"] + interpolation["n_predicted"] == interpolation["source"]["n_nodes"]

    scores = {(row["estimator"], row["coupling"]): row["error"] for row in pagerank["rows"]}
    assert scores["visits", "pooled"] < 0.6 * scores["endpoints", "iid"]


class _Page(HTMLParser):
    """Checks that elements are closed in order, and collects what the page refers to."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.images: list[dict[str, str | None]] = []
        self.links: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        attributes = dict(attrs)
        if tag == "img":
            self.images.append(attributes)
        self.links += [value for name, value in attrs if name in ("src", "href", "action", "data")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_page_is_whole_and_asks_for_nothing_from_elsewhere(demo_run):
    folder, _ = demo_run
    text = (folder / "report.html").read_text(encoding="utf-8")
    page = _Page()
    page.feed(text)
    page.close()
    assert page.open == []
    assert "script" not in page.tags
    assert {"table", "figure", "h1", "h2"} <= page.tags
    assert not re.search(r"url\(|@import|https?://", text)
    # An empty icon keeps browsers from asking for one.
    assert all((folder / link).is_file() for link in page.links if link != "data:,"), page.links
    assert {image["src"] for image in page.images} == {path.name for path in folder.glob("*.png")}
    for image in page.images:
        assert len(image["alt"] or "") > 40
        assert int(image["width"] or 0) > 0
    record = json.loads((folder / "results.json").read_text())
    assert record["command"] in text


def test_demo_without_figures_needs_no_matplotlib(demo_run, monkeypatch, tmp_path):
    for module in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    refused = invoke("demo", *TINY, "--out", str(tmp_path))
    assert refused.exit_code == 2
    assert "pip install 'graphrf[plot]'" in refused.stderr

    from graphrf.cli.demo import run

    karate = graphrf.datasets.load("karate")
    monkeypatch.setattr(run, "run", lambda settings, progress: [run.estimate_pagerank(karate, settings)])
    result = invoke("demo", *TINY, "--no-figures", "--out", str(tmp_path))
    assert result.exit_code == 0, result.output
    assert {path.name for path in tmp_path.iterdir()} == {"report.html", "results.json"}
    assert "<img" not in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dataset", "karat"], "did you mean 'karate'"),
        (["--mesh", "generated-grid"], "`--mesh` must be a triangle mesh"),
        (["--mesh", "uci-wine-cellar"], "`name` must be one of"),
        (["--walks", "7"], "`--walks` must be even"),
        (["--repeats", "1"], "`--repeats` must be at least 2"),
        (["--p-halt", "1.5"], "`--p-halt` must be in"),
        (["--walks", "many"], "--walks"),
    ],
)
def test_bad_arguments_are_one_line_and_exit_code_2(arguments, message, tmp_path):
    result = invoke("demo", "--out", str(tmp_path / "out"), *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.output
    assert result.stdout == ""
    assert not (tmp_path / "out").exists()
    if arguments[1] != "many":  # that one is typer's own, with a frame
        assert result.stderr.startswith("graphrf: ")
        assert result.stderr.count("\n") == 1


def test_missing_data_says_where_to_put_it(offline, tmp_path):
    for option in (["--dataset", "cora"], ["--mesh", "torus"], ["--traffic"]):
        result = invoke("demo", "--out", str(tmp_path / "out"), *option)
        assert result.exit_code == 2
        assert "GRAPHRF_DATA_DIR" in result.stderr
        assert result.stderr.count("\n") == 1
        assert result.stdout == ""


def test_a_file_in_the_way_of_the_folder_is_refused_at_once(tmp_path):
    (tmp_path / "out").write_text("mine")
    result = invoke("demo", "--out", str(tmp_path / "out"))
    assert result.exit_code == 2
    assert "must be a folder" in result.stderr
    assert (tmp_path / "out").read_text() == "mine"


def test_interrupt_exits_130_without_a_traceback(monkeypatch, tmp_path):
    from graphrf.cli.demo import run

    def interrupted(settings, progress):
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "run", interrupted)
    result = invoke("demo", "--out", str(tmp_path / "out"))
    assert result.exit_code == 130
    assert result.stderr == "graphrf: interrupted\n"
    assert not (tmp_path / "out").exists()


def test_defaults_are_those_of_the_settings(monkeypatch, tmp_path):
    from graphrf.cli.demo import run
    from graphrf.cli.demo.parts import Settings

    seen = []
    monkeypatch.setattr(run, "run", lambda settings, progress: seen.append(settings) or [])
    assert invoke("demo", "--no-figures", "--out", str(tmp_path)).exit_code == 0
    assert seen == [Settings()]


def test_kernels_in_messages_stay_kernels_with_four_digits():
    with plain_messages():
        text = warnings.formatwarning(
            "the inverse of Matern(nu=3.0, lengthscale=46.812038531852785, laplacian='combinatorial') is off; "
            "pass laplacian='normalized'", UserWarning, "file.py", 3,
        )  # fmt: skip
    kernel = "Matern(nu=3.0, lengthscale=46.81, laplacian='combinatorial')"
    assert text == f"graphrf: warning: the inverse of {kernel} is off; pass --laplacian normalized\n"


def test_warnings_are_one_plain_line_and_the_format_comes_back():
    before = warnings.formatwarning
    with plain_messages():
        text = warnings.formatwarning("walks are short", UserWarning, "file.py", 3)
    assert text == "graphrf: warning: walks are short\n"
    assert warnings.formatwarning is before


# -- datasets ------------------------------------------------------------------------------------------------


def test_datasets_lists_every_name_with_its_size_and_whereabouts(offline):
    result = invoke("datasets")
    assert result.exit_code == 0
    lines = {line.split()[0]: line for line in result.stdout.splitlines() if line}
    assert set(graphrf.datasets.names()) <= set(lines)
    assert re.search(r"karate\s+graph\s+34\s+78\s+built in\s+BSD-3-Clause", lines["karate"])
    assert re.search(r"cora\s+graph\s+2,708\s+5,278\s+to fetch", lines["cora"])
    assert re.search(r"uci-wine\s+table\s+178\s+-\s", lines["uci-wine"])


def test_datasets_sees_files_in_the_data_folder(offline, monkeypatch, tmp_path):
    (tmp_path / "graphs").mkdir()
    (tmp_path / "graphs" / "dolphins.gml").write_text("graph []")
    monkeypatch.setenv(data_files.DATA_VARIABLE, str(tmp_path))
    assert re.search(r"dolphins .* data folder", invoke("datasets").stdout)
    assert re.search(r"polbooks .* to fetch", invoke("datasets").stdout)


def test_datasets_shows_a_card():
    result = invoke("datasets", "cora")
    assert result.exit_code == 0
    assert result.stdout == graphrf.datasets.describe("cora")


def test_unknown_card_is_exit_code_2():
    result = invoke("datasets", "coro")
    assert result.exit_code == 2
    names = "`NAME` must be one of what `graphrf datasets` lists"
    assert result.stderr == f"graphrf: {names}, got 'coro'; did you mean 'cora'?\n"


# -- the command itself --------------------------------------------------------------------------------------


def test_version_and_help():
    assert invoke("--version").stdout == f"graphrf {graphrf.__version__}\n"
    text = invoke("--help").stdout
    assert "demo" in text
    assert "datasets" in text


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nfrom graphrf.cli import app\n"
        "try: app(['--help'])\nexcept SystemExit as stop: assert stop.code == 0\n"
        "heavy = {'numpy', 'scipy', 'numba', 'torch', 'matplotlib', 'networkx', 'sklearn'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300, capture_output=True)


def test_command_is_installed():
    command = Path(sys.executable).with_name("graphrf")
    if not command.exists():
        pytest.skip("graphrf is not installed in this environment")
    done = subprocess.run([command, "demo", "--walks", "3"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("graphrf: `--walks` must be")
