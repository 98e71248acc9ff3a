"""The examples of the first pages run after their own install command, no extra beside."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGES = ("README.md", "docs/index.md", "docs/start.md")
pytestmark = pytest.mark.skipif(not (ROOT / "graphrf").is_dir(), reason="there is no checkout here")

# Imports of what is absent fail as if it were not
# installed; no data set is at hand, none can be fetched.
RUN = """
import doctest, json, sys

absent = set(json.loads(sys.argv[1]))

class Absent:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent)
print("failed:", *(doctest.testfile(page, module_relative=False).failed for page in sys.argv[2:]))
"""


def _named(line: str) -> tuple[str, list[str]]:
    """The distribution that a line of requirements asks for, and the extras of it."""
    name, extras = re.match(r"([\w.-]+)(?:\[([\w,-]+)\])?", line).groups()
    return name.lower().replace("_", "-"), (extras or "").split(",")


def _installed(lines: list[str], extras: dict[str, list[str]], found: set[str]) -> set[str]:
    """Names of all distributions that lines of requirements bring; `extras` are our own."""
    for line in lines:
        name, own = _named(line)
        if name == "graphrf":
            _installed([line for extra in own for line in extras[extra]], extras, found)
        elif name not in found:
            found |= {name, *own} - {""}  # dask[distributed] brings distributed
            try:
                needed = metadata.requires(name) or []
            except metadata.PackageNotFoundError:
                continue
            _installed([line for line in needed if "extra ==" not in line], extras, found)
    return found


def _absent(extras: str) -> set[str]:
    """Modules that other extras ask for, and those named (with commas) do not bring."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional = project["optional-dependencies"]
    installed = _installed([*project["dependencies"], f"graphrf[{extras}]"], optional, {"graphrf"})
    asked_for = [_named(line) for lines in optional.values() for line in lines]
    others = {each for name, own in asked_for for each in (name, *own)} - installed
    return {
        module
        for module, distributions in metadata.packages_distributions().items()
        if others & {name.lower().replace("_", "-") for name in distributions}
    }


def _run(pages: list[Path], extras: str, folder: Path) -> subprocess.CompletedProcess[str]:
    without_data = {name: value for name, value in os.environ.items() if name != "GRAPHRF_DATA_DIR"}
    settings = {"GRAPHRF_CACHE_DIR": str(folder), "PYTHONPATH": str(ROOT), "MPLBACKEND": "agg"}
    command = [sys.executable, "-c", RUN, json.dumps(sorted(_absent(extras))), *map(str, pages)]
    return subprocess.run(
        command,
        env={**without_data, **settings},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def _installed_by(page: str) -> str:
    """The extras of the first install command of a page."""
    return re.search(r"pip install '\.\[([\w,]+)\]'", (ROOT / page).read_text(encoding="utf-8"))[1]


def test_the_first_examples_run_after_the_install_command_of_their_page_alone(tmp_path):
    (extras,) = {_installed_by(page) for page in PAGES}
    (tmp_path / "part.stl").write_text("OFF")
    uses = (">>> grf.from_mesh('part.stl')", ">>> import plotly", ">>> import pandas")
    (tmp_path / "page.md").write_text("\n".join([">>> import graphrf as grf", *uses, ""]))
    done = _run([*(ROOT / page for page in PAGES), tmp_path / "page.md"], extras, tmp_path)
    assert done.stdout.splitlines()[-1] == f"failed: 0 0 0 {len(uses)}", done.stdout + done.stderr
    assert len(re.findall(r"(?:Import|ModuleNotFound)Error: ", done.stdout)) >= len(uses)
