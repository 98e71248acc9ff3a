"""The documentation: what is public stands in the reference, once; what is shown is there."""

from __future__ import annotations

import importlib.util
import inspect
import json
import re
from pathlib import Path

import pytest

import graphrf

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
PACKAGES = (
    "bridges",
    "couplings",
    "datasets",
    "distributed",
    "euclidean",
    "features",
    "gp",
    "kernels",
    "pagerank",
    "plot",
    "sampling",
)
# Modules, constants, and names that the reference shows elsewhere.
ELSEWHERE = {
    "__version__",
    *PACKAGES,
    "gp.metrics",
    "euclidean.theory",
    "plot.COLOURS",
    "plot.DEVIATIONS",
    "plot.VALUES",
    "datasets.KINDS",
    "datasets.PAPER_GRAPHS",
}


def shown() -> list[str]:
    """The dotted names that the pages of the reference take from docstrings."""
    pages = sorted((DOCS / "reference").glob("*.md"))
    return [
        name
        for page in pages
        for name in re.findall(r"^::: graphrf\.(\S+)", page.read_text(), re.MULTILINE)
    ]


def public() -> set[str]:
    """The dotted names that packages list in `__all__`, where their extras are installed."""
    names = set(graphrf.__all__)
    for package in (
        *PACKAGES,
        "gp.metrics",
        "bridges.geometric",
        "gp.time",
        "pyg",
        "bridges.pymc",
        "bridges.numpyro",
    ):
        try:
            module = importlib.import_module(f"graphrf.{package}")
        except ImportError:  # an extra that is not installed
            continue
        own = [
            name
            for name in vars(module)
            if getattr(vars(module)[name], "__module__", "") == module.__name__
        ]
        listed = getattr(module, "__all__", [name for name in own if not name.startswith("_")])
        names |= {f"{package}.{name}" for name in listed}
    return names


def test_what_is_public_stands_in_the_reference():
    # A name of the top level may be shown with its package, or without.
    entries = set(shown()) | ELSEWHERE
    last = {name.rpartition(".")[2] for name in entries}
    top = set(graphrf.__all__)
    missing = {name for name in public() - entries if name.rpartition(".")[2] not in top & last}
    assert missing == set()
    assert {"gp.GraphGPRegressor", "gp.GraphGPClassifier"} <= set(shown())


def test_nothing_stands_twice_in_the_reference():
    names = shown()
    assert sorted(names) == sorted(set(names))


def test_the_arguments_of_the_regressor_are_grouped_once_each():
    page = (DOCS / "reference" / "gaussian_processes.md").read_text()
    table = page[page.index("| purpose |") : page.index("\n\n::: ")]
    # This one is deprecated.
    arguments = set(inspect.signature(graphrf.GraphGPRegressor).parameters) - {"sample_features"}
    assert sorted(re.findall(r"`(\w+)`", table)) == sorted(arguments)


def test_a_name_that_is_not_shown_is_found(monkeypatch):
    monkeypatch.setattr(graphrf, "__all__", [*graphrf.__all__, "forgotten"])
    assert "forgotten" in public() - set(shown()) - ELSEWHERE


@pytest.mark.parametrize(
    "page",
    sorted(str(path.relative_to(ROOT)) for path in [*DOCS.rglob("*.md"), ROOT / "README.md"]),
)
def test_scripts_that_a_page_names_are_there(page):
    text = (ROOT / page).read_text()
    named = set(re.findall(r"\b((?:examples|benchmarks|checks)/\w+\.py)", text))
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []


def test_scripts_and_pages_that_the_package_names_are_there():
    named = {
        name
        for path in (ROOT / "graphrf").rglob("*.py")
        for name in re.findall(
            r"\b((?:examples|benchmarks|checks|docs)/[\w/]+\.(?:py|md))", path.read_text("utf-8")
        )
    }
    assert len(named) > 10
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []


def test_every_picture_in_the_folder_is_shown():
    text = "".join(path.read_text() for path in [*DOCS.rglob("*.md"), ROOT / "README.md"])
    unused = [
        path.name
        for path in sorted((DOCS / "figures").iterdir())
        if f"figures/{path.name}" not in text
    ]
    assert unused == []


def test_pictures_are_light():
    heavy = {
        path.name: size
        for path in (DOCS / "figures").iterdir()
        if (size := path.stat().st_size) > 250_000
    }
    assert heavy == {}


def hook(name: str):
    """A hook of the site as a module."""
    found = importlib.util.spec_from_file_location(name, DOCS / "_site" / f"{name}.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def notebooks():
    pytest.importorskip("mkdocs")
    return hook("notebooks")


def test_the_notebook_of_a_page_has_its_examples_without_prompts_and_results(notebooks):
    page = "---\ntags: [a]\n---\n# Title\n\nWords.\n\n"
    page += "```pycon\n>>> for i in range(2):\n...     i\n0\n1\n\n```\nMore.\n"
    cells = json.loads(notebooks.of_page(page))["cells"]
    assert [cell["source"] for cell in cells] == [
        "# Title\n\nWords.",
        "for i in range(2):\n    i",
        "More.",
    ]


@pytest.mark.parametrize("script", ["examples/mean_and_deviation.py", "examples/overview.py"])
def test_the_notebook_of_a_script_brings_its_helpers_and_all_its_code(notebooks, script):
    path = ROOT / script
    cells = json.loads(notebooks.of_script(path, ["--out", "x.png"]))["cells"]
    sources = [cell["source"] for cell in cells if cell["cell_type"] == "code"]
    assert any(source.startswith("%%writefile _figures.py") for source in sources)
    assert f"sys.argv = ['{path.name}', '--out', 'x.png']" in sources[-2]
    written = "\n".join(source for source in sources if not source.startswith("%%"))
    for name in re.findall(r"^def (\w+)", path.read_text(), re.MULTILINE):
        assert f"def {name}(" in written


def test_every_card_of_the_gallery_has_a_page(notebooks):
    gallery = (DOCS / "gallery.md").read_text()
    cards = list(notebooks._CARD.finditer(gallery))
    assert len(cards) == gallery.count("\n-   [![") > 20
    page = notebooks._page_of(cards[0], ROOT / cards[0]["script"], "road_posterior")
    for name in ("mean_and_deviation", "_figures", "_options"):  # a copy can import what it needs
        assert (
            f'title="examples/{name}.py"\n'
            f"{(ROOT / 'examples' / name).with_suffix('.py').read_text()}" in page
        )
