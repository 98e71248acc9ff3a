"""The check of pages in a browser finds what is wrong with them: run by `make test-browser`."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip(
    "playwright", reason="the check of pages needs the extra `browser`: make test-browser"
)


def _load():
    path = Path(__file__).parents[2] / "checks" / "browser.py"
    spec = importlib.util.spec_from_file_location("checks_browser", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


browser_check = _load()
if browser_check.find_chromium() is None:
    pytest.skip("no Chromium on the PATH or in CHROMIUM", allow_module_level=True)

HEAD = (
    '<!DOCTYPE html><meta name="viewport" content="width=device-width">'
    '<link rel="icon" href="data:,">'
)
FAULTS = {
    "console": ("<script>console.error('alas')</script>", "console: alas"),
    "script": ("<script>undefined_name()</script>", "script: undefined_name is not defined"),
    "picture": ('<img alt="x" src="gone.png">', "404"),
    "words": (
        '<img src="data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAA=">',
        "picture without words",
    ),
    "elsewhere": (
        '<script src="http://192.0.2.1/x.js"></script>',
        "asks for http://192.0.2.1/x.js",
    ),
    "link": ('<a href="gone.txt">x</a>', "leads nowhere"),
    "page": ('<a href="gone.html">x</a>', "404"),
    "anchor": ('<a href="#gone">x</a>', "no such place"),
    "width": ('<div style="width: 900px">x</div>', "pixels wider than a telephone"),
}


@pytest.fixture(scope="module")
def chromium():
    with browser_check.chromium() as browser:
        yield browser


def _problems(chromium, folder: Path) -> list[str]:
    with browser_check.served(folder) as home:
        return browser_check.problems(chromium, home, ["index.html"])


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(chromium, tmp_path, fault):
    body, words = FAULTS[fault]
    (tmp_path / "index.html").write_text(f"{HEAD}<body>{body}")
    assert any(words in line for line in _problems(chromium, tmp_path))


def test_a_fault_on_another_page_is_found(chromium, tmp_path):
    (tmp_path / "index.html").write_text(f'{HEAD}<body><a href="other.html">x</a>')
    (tmp_path / "other.html").write_text(f"{HEAD}<body>{FAULTS['console'][0]}")
    assert any("other.html: console: alas" in line for line in _problems(chromium, tmp_path))


def test_a_sound_page_has_no_problem(chromium, tmp_path):
    (tmp_path / "other.txt").write_text("there")
    (tmp_path / "index.html").write_text(
        f'{HEAD}<body><p id="here"><a href="#here">x</a> <a href="other.txt">y</a>'
    )
    assert _problems(chromium, tmp_path) == []
