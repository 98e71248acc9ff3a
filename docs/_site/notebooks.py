"""Notebooks to download, and a page for every picture of the gallery, made of scripts."""

import ast
import json
import re
import shlex
from pathlib import Path

from mkdocs.structure.files import File, InclusionLevel

_FENCE = re.compile(r"^```(?P<kind>pycon|python)\n(?P<code>.*?)^```\n", re.DOTALL | re.MULTILINE)
_CARD = re.compile(
    r"^-   \[!\[(?P<words>[^\]]*)\]\(figures/(?P<picture>[\w.]+)\)\]\(figures/[\w.]+\)\n\n"
    r"(?P<text>(?:    .*\n|\n)+?)\n    `(?P<command>python (?P<script>\S+\.py)[^`]*)`.*$",
    re.MULTILINE,
)
_LOCAL = re.compile(r"\]\((?!https?:|#)")


def on_files(files, config):
    """The site with pages and notebooks of the gallery, and a notebook for every tutorial."""
    for page in [
        file
        for file in files
        if file.src_uri.startswith("tutorials/") and file.is_documentation_page()
    ]:
        text = Path(page.abs_src_path).read_text(encoding="utf-8")
        _add(files, config, page.src_uri[:-3] + ".ipynb", of_page(text))
    gallery = Path(config.docs_dir, "gallery.md").read_text(encoding="utf-8")
    root = Path(config.docs_dir).parent
    for card in _CARD.finditer(gallery):
        script, name = root / card["script"], card["picture"].rpartition(".")[0]
        notebook = of_script(script, shlex.split(card["command"])[2:])
        _add(files, config, f"gallery/{name}.ipynb", notebook)
        _add(files, config, f"gallery/{name}.md", _page_of(card, script, name))
    return files


def on_page_markdown(markdown, page, **_):
    """The gallery with cards that lead to their pages; tutorials with a link to their notebooks."""
    source = page.file.src_uri
    if source == "gallery.md":
        return _CARD.sub(_leading_on, markdown)
    if source.startswith("tutorials/"):
        title, _, rest = markdown.partition("\n")
        name = source.rpartition("/")[2][:-3]
        return f"{title}\n\n[Download as a notebook]({name}.ipynb){{ .download }}\n{rest}"
    return markdown


def _leading_on(card):
    picture = card["picture"]
    return card[0].replace(
        f"](figures/{picture})\n", f"](gallery/{picture.rpartition('.')[0]}.md)\n", 1
    )


def of_page(text):
    """The notebook of a page: its prose, and its examples without prompts and results."""
    cells, end = [], 0
    text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL)
    for match in _FENCE.finditer(text):
        cells += [_words(text[end : match.start()]), _code(_typed(match["code"], match["kind"]))]
        end = match.end()
    return _notebook([*cells, _words(text[end:])])


def of_script(path, arguments):
    """The notebook of a script: its helpers, its parts, and a call with these arguments."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    cells = [_words(ast.get_docstring(tree) or path.name), _code("# %pip install 'graphrf[all]'")]
    cells += [
        _code(f"%%writefile {other.name}\n{other.read_text('utf-8')}")
        for other in _helpers(path, tree)
    ]
    lines, begin = text.splitlines(), tree.body[0].end_lineno
    for statement in tree.body[1:]:
        if isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test):
            cells.append(_code("\n".join(lines[begin : statement.lineno - 1])))
            break
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            cells.append(_code("\n".join(lines[begin : statement.end_lineno])))
            begin = statement.end_lineno
    pictures = [argument for argument in arguments if argument.endswith((".png", ".svg"))]
    call = f"import sys\n\nsys.argv = {[path.name, *arguments]!r}\nmain()"
    cells.append(_code(call))
    if pictures:
        shown = "SVG" if pictures[-1].endswith(".svg") else "Image"
        cells.append(_code(f"from IPython.display import {shown}\n\n{shown}({pictures[-1]!r})"))
    return _notebook(cells)


def _helpers(path, tree):
    """The scripts beside `path` that it imports, and theirs, each before it is needed."""
    found = []
    for node in ast.walk(tree):
        for name in [node.module] if isinstance(node, ast.ImportFrom) else []:
            beside = path.with_name(f"{name}.py")
            if name and beside.is_file() and beside not in found:
                inner = _helpers(beside, ast.parse(beside.read_text(encoding="utf-8")))
                found += [other for other in [*inner, beside] if other not in found]
    return found


def _page_of(card, script, name):
    text = re.sub(r"^    ", "", card["text"], flags=re.MULTILINE).strip()
    title, _, rest = text.removeprefix("**").partition("**")
    rest = _LOCAL.sub("](../", rest.strip())
    beside = _helpers(script, ast.parse(script.read_text(encoding="utf-8")))
    helpers = "".join(
        f'\n```python title="{script.parent.name}/{other.name}"\n{other.read_text("utf-8")}```\n'
        for other in beside
    )
    if helpers:
        helpers = "\n## Helpers\n\nA copy of the script needs these files beside it.\n" + helpers
    # The search finds the card instead of every word of its script.
    return (
        "---\nsearch:\n  exclude: true\n---\n\n"
        f"# {title.rstrip('.?')}\n\n{rest}\n\n![{card['words']}](../figures/{card['picture']})\n\n"
        f"    {card['command']}\n\n[Download as a notebook]({name}.ipynb){{ .download }}\n\n"
        f'```python title="{card["script"]}"\n{script.read_text(encoding="utf-8")}```\n' + helpers
    )


def _typed(code, kind):
    if kind == "python":
        return code
    lines = [
        line[4:]
        for line in code.splitlines()
        if line.startswith((">>> ", "... ")) or line in (">>>", "...")
    ]
    return "\n".join(line.replace("  # doctest: +ELLIPSIS", "") for line in lines)


def _words(text):
    return {"cell_type": "markdown", "metadata": {}, "source": text.strip()}


def _code(text):
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": [],
        "source": text.strip("\n"),
    }


def _notebook(cells):
    kept = [
        cell | {"id": f"cell-{number}"}
        for number, cell in enumerate(cells)
        if cell["source"].strip()
    ]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook = {
        "cells": kept,
        "metadata": {"kernelspec": kernel},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(notebook, indent=1)


def _add(files, config, address, content):
    files.append(
        File.generated(config, address, content=content, inclusion=InclusionLevel.NOT_IN_NAV)
    )
