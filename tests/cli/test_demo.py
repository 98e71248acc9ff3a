"""The report of the demo: its numbers, its page, and what it refuses."""

from __future__ import annotations

import base64
import re
import sys
from html.parser import HTMLParser

import pytest
from typer.testing import CliRunner

from graphrf.cli import app
from graphrf.cli.demo import parts

# Elements of HTML that are never closed.
VOID = {"meta", "img", "link"}


def invoke(*arguments: str):
    return CliRunner().invoke(app, ["demo", *arguments])


@pytest.fixture(scope="module")
def demo_run(tmp_path_factory):
    """One run of the demo: the text of the page, and what was printed."""
    folder = tmp_path_factory.mktemp("demo") / "made" / "out"
    result = invoke("--out", str(folder), "--seed", "1")
    assert result.exit_code == 0, result.output
    assert [path.name for path in folder.iterdir()] == ["report.html"]
    assert str(folder / "report.html") in result.stderr
    return (folder / "report.html").read_text(encoding="utf-8"), result.stdout


class _Page(HTMLParser):
    """Checks that elements are closed in order, and collects what the page refers to."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.images: list[dict[str, str | None]] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag == "img":
            self.images.append(dict(attrs))
        for name, value in attrs:
            assert name not in ("src", "href") or value.startswith("data:")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_whole_and_needs_no_other_file(demo_run):
    text, _ = demo_run
    page = _Page()
    page.feed(text)
    page.close()
    assert page.open == []
    assert page.tags.count("h2") == page.tags.count("table") == len(page.images) == 4
    assert "script" not in page.tags
    assert 'name="viewport"' in text
    assert not re.search(r"url\(|@import|https?://", text)
    for image in page.images:
        assert len(image["alt"]) > 40
        content = base64.b64decode(image["src"].partition("base64,")[2])
        assert content.startswith(b"\x89PNG")
        assert len(content) > 10_000


def numbers(text: str, title: str) -> dict[str, list[float]]:
    """The numbers of each line of a printed part."""
    lines = text.partition(title)[2].partition("\n\n")[0].splitlines()[1:]
    cells = [re.split(r"  +", line.strip()) for line in lines]
    return {
        name: [float(n.replace(",", "")) for n in re.findall(r"[\d.,]*\d", value)]
        for name, value in cells
    }


def test_models_are_better_than_the_baselines_and_intervals_cover(demo_run):
    text, printed = demo_run
    roads, mesh = numbers(printed, "Roads"), numbers(printed, "Mesh")
    districts, series = numbers(printed, "Districts"), numbers(printed, "Time series")
    assert roads["RMSE"][0] < 0.75 * roads["RMSE of the baseline"][0]
    assert mesh["RMSE"][0] < 0.2 * mesh["RMSE of the baseline"][0]
    assert districts["RMSE of relative risks"][0] < 0.9 * districts["RMSE of cases / expected"][0]
    assert series["forecast: RMSE"][0] < 0.5 * series["forecast: RMSE of the mean"][0]
    assert series["gap: RMSE"][0] < 2
    for part in (roads, mesh, districts):
        assert 85 <= part["coverage of 95 % intervals"][0] <= 100
    assert 85 <= series["forecast: coverage of 95 % intervals"][0] <= 100
    flagged, right = districts["districts with P(risk > 1) > 0.95"][:2]
    assert right >= 0.9 * flagged > 0
    for value in re.findall(r"  +(\S+ km/h)$", printed, re.MULTILINE):
        assert f"<td>{value}</td>" in text


def test_what_the_demo_refuses(monkeypatch, tmp_path):
    (tmp_path / "out").write_text("mine")
    refused = invoke("--out", str(tmp_path / "out"))
    assert refused.exit_code == 2
    assert "must be a folder" in refused.stderr
    for module in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    refused = invoke("--out", str(tmp_path / "new"))
    assert refused.exit_code == 2
    assert "pip install 'graphrf[plot]'" in refused.stderr
    assert not (tmp_path / "new").exists()


def test_interrupt_exits_130_without_a_traceback(monkeypatch, tmp_path):
    def interrupted(seed):
        raise KeyboardInterrupt

    monkeypatch.setattr(parts, "PARTS", (interrupted,))
    result = invoke("--out", str(tmp_path / "out"))
    assert result.exit_code == 130
    assert result.stderr == "graphrf: interrupted\n"
    assert not (tmp_path / "out").exists()
