"""The report of the demo: one HTML page that contains its figures."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from graphrf._base.files.atomic import atomic_write
from graphrf._base.version import __version__
from graphrf.cli.demo.parts import Part

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_STYLE = """\
:root { color-scheme: light; }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 48rem; margin: 0 auto; padding: 1rem;
  color: #222; background: #fff; }
h1, h2 { line-height: 1.2; }
h2 { margin-top: 2.5rem; }
.figure { overflow-x: auto; }
img { width: 100%; min-width: 38rem; height: auto; }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: left; font-weight: normal; padding: .3rem .5rem .3rem 0;
  border-bottom: 1px solid #ddd; }
td { font-variant-numeric: tabular-nums; }
footer { margin-top: 3rem; color: #555; font-size: .9rem; }
"""
_INTRODUCTION = (
    "Each example below generates its data, so the truth is known. A model sees part of them and "
    "predicts the rest with intervals. An interval of 95 % should contain the truth in about 95 % "
    "of cases. RMSE is the root-mean-square error."
)


def write(parts: Sequence[Part], folder: Path, seed: int, seconds: float) -> Path:
    """Write `report.html` into a folder, which is created if necessary."""
    page = folder / "report.html"
    with atomic_write(page, "--out") as file:
        file.write(_page(parts, seed, seconds).encode())
    return page


def _page(parts: Sequence[Part], seed: int, seconds: float) -> str:
    sections = "\n".join(map(_section, parts))
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>What graphrf does</title>
<style>
{_STYLE}</style>
</head>
<body>
<h1>What graphrf does</h1>
<p>{escape(_INTRODUCTION)}</p>
{sections}
<footer>
  graphrf {escape(__version__)}, <code>graphrf demo --seed {seed}</code>, {seconds:.0f} seconds.
</footer>
</body>
</html>
"""


def _section(part: Part) -> str:
    rows = "\n".join(
        f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>'
        for name, value in part.numbers.items()
    )
    return f"""<section>
<h2>{escape(part.title)}</h2>
<p>{escape(part.question)}</p>
<p>{escape(part.answer)}</p>
<div class="figure" role="region" aria-label="Figure: {escape(part.title)}" tabindex="0">
<img alt="{escape(part.shown)}" src="data:image/png;base64,{_png(part.figure)}">
</div>
<table>
{rows}
</table>
</section>"""


def _png(figure: Figure) -> str:
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=150)
    return base64.b64encode(image.getvalue()).decode()
