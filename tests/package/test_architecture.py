"""The architecture: packages of few files, each with a sentence and in CONTRIBUTING.md."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import graphrf

PACKAGE = Path(graphrf.__file__).parent
CONTRIBUTING = Path(__file__).parents[2] / "CONTRIBUTING.md"
FOLDERS = sorted(path.parent for path in PACKAGE.rglob("__init__.py"))
MOST_FILES = 16


def test_the_package_itself_holds_packages_alone():
    files = {path.name for path in PACKAGE.iterdir() if path.is_file()}
    assert files == {"__init__.py", "__main__.py", "py.typed"}


@pytest.mark.parametrize(
    "folder", FOLDERS, ids=lambda path: path.relative_to(PACKAGE.parent).as_posix()
)
def test_a_package_has_few_files_and_a_sentence(folder):
    assert len([path for path in folder.glob("*.py") if path.name != "__init__.py"]) <= MOST_FILES
    sentence = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))
    assert sentence
    assert sentence.split("\n\n")[0].endswith(".")


@pytest.mark.skipif(not CONTRIBUTING.is_file(), reason="there is no checkout here")
def test_every_package_stands_in_the_architecture():
    text = CONTRIBUTING.read_text(encoding="utf-8")
    drawing = text.partition("```")[2].partition("```")[0]
    rows = set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))
    top = {path.name for path in FOLDERS if path.parent == PACKAGE}
    assert rows == top
    assert top <= set(re.findall(r"\w+", drawing))
    below = {
        path.relative_to(PACKAGE).as_posix() for path in FOLDERS if path.parent.parent == PACKAGE
    }
    assert not {path for path in below if f"`{path.partition('/')[2]}/`" not in text}
