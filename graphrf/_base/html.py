"""Small tables for notebooks: what the `_repr_html_` of graphs, features and results returns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import numpy as np

# Inline, since notebooks drop style sheets; in the
# colours of the page, readable on white and on black.
_TABLE = "border-collapse:collapse;margin:0.3em 0"
# Above the table and no caption, which would be broken to the table's width.
_TITLE = "font-weight:bold;padding:0.2em 0"
_CELL = "text-align:left;vertical-align:top;padding:0.2em 1.2em 0.2em 0;border:0"
_LABEL = f"{_CELL};white-space:nowrap"
_VALUE = f"{_CELL};max-width:44em;white-space:normal;overflow-wrap:anywhere"
_LINE = ";border-bottom:1px solid rgba(128,128,128,0.6)"
# Characters of a cell and of a name: names of nodes may be as long as a file.
_LONGEST, _LONGEST_NAME = 600, 60


def table(title: str, rows: Iterable[Sequence[Any]], header: Sequence[str] = ()) -> str:
    """A titled table, escaped: facts (label, value) but those of None, or columns with a header."""
    if header:
        first, kept = "td", [tuple(row) for row in rows]
    else:
        first, kept = "th", [tuple(row) for row in rows if row[1] is not None]
    head = "".join(f'<th scope="col" style="{_CELL}{_LINE}">{_text(name)}</th>' for name in header)
    body = "".join(_row(first, row) for row in kept)
    return (
        f'<div><div style="{_TITLE}">{_text(title)}</div><table style="{_TABLE}">'
        f"{f'<thead><tr>{head}</tr></thead>' if header else ''}<tbody>{body}</tbody></table></div>"
    )


def short_name(name: Any) -> str:
    """A node's name as text of at most 60 characters."""
    text = name[: _LONGEST_NAME + 1] if isinstance(name, str) else str(name)
    return text if len(text) <= _LONGEST_NAME else f"{text[: _LONGEST_NAME - 3]}..."


def first_names(names: Sequence[Any]) -> str:
    """The first three names of nodes."""
    return ", ".join(map(short_name, names[:3])) + (", ..." if len(names) > 3 else "")


def memory(n_bytes: int) -> str:
    """A number of bytes in the largest unit of which there is one at least."""
    size, unit = float(n_bytes), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:.0f} {unit}" if unit == "bytes" or size >= 100 else f"{size:.3g} {unit}"


def count(number: int, noun: str) -> str:
    """ "1 source", "2 sources"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _row(first: str, row: tuple[Any, ...]) -> str:
    scope = ' scope="row"' if first == "th" else ""
    label = f'<{first}{scope} style="{_LABEL}">{_text(row[0])}</{first}>'
    values = "".join(f'<td style="{_VALUE}">{_text(value)}</td>' for value in row[1:])
    return f"<tr>{label}{values}</tr>"


def _text(value: Any) -> str:
    if isinstance(value, bool | np.bool_):
        text = "yes" if value else "no"
    elif isinstance(value, int | np.integer):
        text = f"{int(value):,}"
    elif isinstance(value, float | np.floating):
        text = f"{float(value):.4g}"
    else:
        text = str(value)
    return escape(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}...")
