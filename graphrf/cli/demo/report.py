"""The results of `graphrf demo`: tables as text, an HTML page with figures, and JSON.

The page contains no scripts and loads nothing from the network; its figures are in the same folder.
"""

from __future__ import annotations

import html
import json
import os
import platform
import shlex
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields, is_dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from graphrf._base.files.atomic import atomic_write
from graphrf._base.version import __version__
from graphrf.cli.demo.parts import GramPart, InterpolationPart, PageRankPart, Part, Settings, TimePart
from graphrf.cli.demo.words import Section, section

if TYPE_CHECKING:
    from graphrf.cli.demo.pictures import Picture

_WIDTH = 96
_LIBRARIES = ("numpy", "scipy", "numba", "torch", "gpytorch", "scikit-learn", "matplotlib")
_KINDS: dict[type, str] = {
    GramPart: "kernel",
    InterpolationPart: "interpolation",
    TimePart: "time",
    PageRankPart: "pagerank",
}
_DOTS_PER_INCH = 150


def as_text(part: Part) -> str:
    """A part for the terminal: the question, how to read the numbers, the table, the findings."""
    content = section(part)
    lines = [content.title, "=" * len(content.title)]
    lines += [*textwrap.wrap(content.question, _WIDTH), ""]
    indent = 2 + max(len(term) for term, _ in content.reading)
    for term, meaning in content.reading:
        lines += textwrap.wrap(
            meaning, _WIDTH, initial_indent=term.ljust(indent), subsequent_indent=" " * indent,
            break_on_hyphens=False,
        )  # fmt: skip
    lines += ["", *_table(content), ""]
    for finding in content.findings:
        lines += textwrap.wrap(
            finding, _WIDTH, initial_indent="-> ", subsequent_indent="   ", break_on_hyphens=False
        )
    return "\n".join(lines) + "\n"


def write(
    parts: Sequence[Part], settings: Settings, folder: Path, *, seconds: float, with_figures: bool = True
) -> list[Path]:
    """Write the page, the numbers and the figures into `folder`, each file atomically.

    Parameters
    ----------
    parts : the parts from `graphrf.cli.demo.run.run`
    settings : the settings of that run
    folder : created if necessary
    seconds : total duration
    with_figures : whether to draw figures, which needs matplotlib

    Returns
    -------
    list of paths: `report.html`, `results.json`, then the figures.
    """
    figures: list[list[Picture]] = [[] for _ in parts]
    if with_figures:
        from graphrf.cli.demo.pictures import pictures

        figures = [pictures(part) for part in parts]
    record = _record(parts, settings, seconds)
    page, numbers = folder / "report.html", folder / "results.json"
    written = [page, numbers]
    for picture in (picture for group in figures for picture in group):
        written.append(folder / picture.file)
        with atomic_write(written[-1], "folder") as file:
            picture.figure.savefig(file, format="png", dpi=_DOTS_PER_INCH)
    with atomic_write(numbers, "folder") as file:
        file.write((json.dumps(record, indent=1, allow_nan=False) + "\n").encode())
    with atomic_write(page, "folder") as file:
        file.write(_page(parts, figures, record).encode())
    return written


def command(settings: Settings) -> str:
    """The command line that reproduces these results."""
    words = ["graphrf", "demo", "--dataset", settings.dataset, "--mesh", settings.mesh]
    words += ["--traffic"] if settings.traffic else []
    words += ["--walks", str(settings.n_walks), "--repeats", str(settings.repeats)]
    words += ["--p-halt", str(settings.p_halt), "--seed", str(settings.seed)]
    return shlex.join(words)


# -- text --------------------------------------------------------------------------------------------------


def _table(content: Section) -> list[str]:
    cells = [content.columns, *content.rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(content.columns))]

    def line(row: Iterable[str]) -> str:
        aligned = [
            cell.ljust(width) if column < content.n_words else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return "  ".join(aligned).rstrip()

    rule = "  ".join("-" * width for width in widths)
    rows = [line(row) + ("  best" if number in content.best else "") for number, row in enumerate(content.rows)]
    return [line(content.columns), rule, *rows]


# -- JSON --------------------------------------------------------------------------------------------------


def _record(parts: Sequence[Part], settings: Settings, seconds: float) -> dict[str, Any]:
    versions = {"graphrf": __version__, "python": platform.python_version()}
    for library in _LIBRARIES:
        try:
            versions[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            continue
    return {
        "format": "graphrf demo 1",
        "command": command(settings),
        "settings": asdict(settings),
        "seconds": seconds,
        "versions": versions,
        "machine": {"system": platform.platform(), "processor": platform.machine(), "cores": os.cpu_count()},
        # Fields that repr hides are arrays for the figures, too long for this file.
        "parts": [
            {"kind": _KINDS[type(part)], **{f.name: _plain(getattr(part, f.name)) for f in fields(part) if f.repr}}
            for part in parts
        ],
    }


def _plain(value: Any) -> Any:
    """`value` in the types of JSON; numbers that are not finite become null."""
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(entry) for entry in value]
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    return int(value) if isinstance(value, np.integer) else value


# -- the page ----------------------------------------------------------------------------------------------

_STYLE = """
:root { color: #1b1b1b; background: #fff; }
body { font: 1.05rem/1.55 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem 1.1rem 3rem; }
h1 { font-size: 1.7rem; line-height: 1.25; }
h2 { font-size: 1.3rem; line-height: 1.3; margin-top: 2.6rem; }
.findings { border-left: 4px solid #0072b2; padding: 0.1rem 0 0.1rem 1rem; margin: 1.2rem 0; list-style: none; }
.table { overflow-x: auto; }
caption { text-align: left; color: #444; font-size: 0.85rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 0.95rem; }
th, td { padding: 0.28rem 1.1rem 0.28rem 0.3rem; text-align: right; white-space: nowrap; font-weight: 400; }
.word { text-align: left; }
thead th { border-bottom: 2px solid #1b1b1b; vertical-align: bottom; font-weight: 600; }
tbody tr { border-bottom: 1px solid #ddd; }
.best { background: #e8f1f8; }
.best th, .best td { font-weight: 600; }
.reading, figcaption { color: #444; font-size: 0.95rem; }
.reading dt { float: left; clear: left; margin: 0 0.6rem 0 0; }
.reading dd { margin-bottom: 0.2rem; }
figure { margin: 1.8rem 0; }
img { max-width: 100%; height: auto; }
code { background: #f1f1f1; padding: 0.1rem 0.3rem; overflow-wrap: anywhere; }
dt { font-weight: 600; margin-top: 0.5rem; }
dd { margin-left: 0; }
"""


def _page(parts: Sequence[Part], figures: Sequence[Sequence[Picture]], record: dict[str, Any]) -> str:
    body = "\n".join(_html_section(section(part), group) for part, group in zip(parts, figures, strict=True))
    sources = {part.source.name: part.source for part in parts}
    about = "\n".join(
        f"<dt>{_text(source.name)}</dt><dd>{_text(source.description)} Licence: {_text(source.licence)}.</dd>"
        for source in sources.values()
    )
    versions = ", ".join(f"{name} {version}" for name, version in record["versions"].items())
    machine = record["machine"]
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>graphrf demo</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
<h1>Predictions on graphs, with uncertainty</h1>
<p>graphrf predicts values at all nodes of a graph, a mesh or a road network from values at some of them, with
standard deviations; it computes PageRank, and graph random features for graphs too large for exact methods. This
page compares each with the truth or with an exact computation.</p>
{body}
<section>
<h2>How to reproduce this page</h2>
<p><code>{_text(record["command"])}</code></p>
<dl>
<dt>Seed</dt>
<dd>{record["settings"]["seed"]}. The same command gives the same numbers, except for times.</dd>
<dt>Time</dt>
<dd>{record["seconds"]:.0f} seconds in total, on {machine["cores"]} cores ({_text(machine["system"])}). Times in
the tables exclude compilation.</dd>
<dt>Versions</dt>
<dd>{_text(versions)}</dd>
<dt>Numbers</dt>
<dd>All numbers are in <a href="results.json">results.json</a>.</dd>
</dl>
<h2>Data</h2>
<dl>
{about}
</dl>
</section>
</main>
</body>
</html>
"""


def _html_section(content: Section, figures: Sequence[Picture]) -> str:
    title = _text(content.title)
    head = "".join(
        f'<th scope="col"{_align(column, content)}>{_text(name)}</th>'
        for column, name in enumerate(content.columns)
    )
    rows = "\n".join(_html_row(row, number in content.best, content) for number, row in enumerate(content.rows))
    findings = "".join(f"<li>{_text(finding)}</li>" for finding in content.findings)
    reading = "".join(f"<dt>{_text(term)}</dt><dd>{_text(meaning)}</dd>" for term, meaning in content.reading)
    images = "\n".join(_html_figure(picture) for picture in figures)
    return f"""<section>
<h2>{title}</h2>
<p>{_text(content.question)}</p>
<ul class="findings">{findings}</ul>
{images}
<div class="table" role="region" aria-label="Table: {title}" tabindex="0">
<table>
<caption>{_text(content.caption)}</caption>
<thead><tr>{head}</tr></thead>
<tbody>
{rows}
</tbody>
</table>
</div>
<dl class="reading">{reading}</dl>
</section>"""


def _html_row(row: tuple[str, ...], best: bool, content: Section) -> str:
    first, *others = row
    cells = f'<th scope="row"{_align(0, content)}>{_text(first)}</th>'
    cells += "".join(f"<td{_align(column, content)}>{_text(cell)}</td>" for column, cell in enumerate(others, 1))
    return f'<tr class="best">{cells}</tr>' if best else f"<tr>{cells}</tr>"


def _html_figure(picture: Picture) -> str:
    width, height = (round(100 * inches) for inches in picture.figure.get_size_inches())
    return (
        f'<figure><img src="{picture.file}" alt="{_text(picture.alt)}" width="{width}" height="{height}">'
        f"<figcaption>{_text(picture.caption)}</figcaption></figure>"
    )


def _align(column: int, content: Section) -> str:
    return ' class="word"' if column < content.n_words else ""


def _text(text: str) -> str:
    return html.escape(text, quote=True)
