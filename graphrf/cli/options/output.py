"""Output of results: csv, npz or json files, chosen by their ending, or standard output."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from graphrf._base.version import __version__
from graphrf.cli.options.messages import Talking, brief, shortened, visible

if TYPE_CHECKING:
    import numpy as np

Columns = Sequence[tuple[str, "Sequence[Any] | np.ndarray"]]
ENDINGS = (".csv", ".npz", ".json")


@dataclass(frozen=True)
class Result:
    """Result of a command.

    `columns` are the columns of a csv file, titles and cells, all of one length; `arrays` go into
    npz files and JSON in their place where there are any. `facts` are metadata. `summary` is for
    people, if no output is named.
    """

    command: str
    columns: Columns
    facts: Mapping[str, Any]
    arrays: Mapping[str, Any] = field(default_factory=dict)
    summary: Callable[[], str] | None = None

    @property
    def record(self) -> dict[str, Any]:
        """The metadata: version, command and settings."""
        return {"graphrf": __version__, "command": self.command, **self.facts}

    def content(self) -> Mapping[str, Any]:
        """The arrays of npz files and JSON."""
        return self.arrays or dict(self.columns)


def check_output(
    output: str | None,
    inputs: Sequence[str] = (),
    endings: Sequence[str] = ENDINGS,
    option: str = "-o",
) -> None:
    """Raise, before any work, where the output cannot be written or is one of the inputs."""
    if output is None or (output == "-" and ".csv" in endings):
        return
    from graphrf._base.files.atomic import file_path, require_writable

    path = file_path(output, option)
    if path.suffix.lower() not in endings:
        raise ValueError(f"`{option}` must end in {' or '.join(endings)}, got {output!r}")
    for place in inputs:
        if path.exists() and os.path.exists(place) and os.path.samefile(path, place):
            raise ValueError(f"`{option}` must be different from the input file {place!r}")
    require_writable(path.parent, option)


def deliver(result: Result, output: str | None, talking: Talking) -> None:
    """Write a result to its file, and print what is printed: JSON, csv, or the summary."""
    if output is not None and output != "-":
        _write(result, Path(output))
        talking.remark(f"written to {output}")
    if talking.json:
        echo(_json(result))
    elif output == "-" or (output is None and result.summary is None):
        echo(_csv(result.columns, short=sys.stdout.isatty()))
    elif result.summary is not None:
        echo(result.summary())


def echo(text: str) -> None:
    """Print on standard output at once and flushed, so that a closed pipe shows here."""
    typer.echo(visible(text) if sys.stdout.isatty() else text, nl=False)


def _write(result: Result, path: Path) -> None:
    from graphrf._base.files.atomic import atomic_write

    with atomic_write(path, "-o") as file:
        kind = path.suffix.lower()
        if kind == ".npz":
            import numpy as np

            from graphrf._base.files.npz import write_arrays

            arrays = {name: np.asarray(array) for name, array in result.content().items()}
            arrays["metadata"] = np.array(json.dumps(result.record))
            write_arrays(file, arrays, compressed=True)
        else:
            text = _json(result) if kind == ".json" else _csv(result.columns)
            file.write(text.encode())


def _json(result: Result) -> str:
    content = {
        name: array.tolist() if hasattr(array, "tolist") else array
        for name, array in result.content().items()
    }
    return json.dumps({**result.record, "result": content}, allow_nan=False) + "\n"


def _csv(columns: Columns, short: bool = False) -> str:
    """A table with titles; numbers with all their digits, or for people with six."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([title for title, _ in columns])
    writer.writerows(zip(*(_cells(column, short) for _, column in columns), strict=True))
    return text.getvalue()


def _cells(column: Sequence[Any] | np.ndarray, short: bool) -> Sequence[Any]:
    cells = column if isinstance(column, Sequence) else list(column.tolist())
    if short:
        return [brief(cell) if isinstance(cell, float) else cell for cell in cells]
    # The shortest text of a float32 that gives the number
    # back; Python's floats have that by themselves.
    if getattr(column, "dtype", None) == "float32":
        return [str(value) for value in column]
    return cells


def aligned(
    titles: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] | None = None
) -> str:
    """A table for people, with the columns `right` aligned right; by default all but the first."""
    widths = [max(len(row[column]) for row in (titles, *rows)) for column in range(len(titles))]
    right = range(1, len(titles)) if right is None else right
    lines = []
    for row in (titles, *rows):
        cells = [
            cell.rjust(width) if number in right else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return visible("\n".join(lines) + "\n")


def facts_table(title: str, facts: Mapping[str, Any]) -> str:
    """Names and values for people, one in a line."""
    rows = [
        (name.replace("_", " "), brief(value) if type(value) is float else shortened(str(value)))
        for name, value in facts.items()
    ]
    return aligned((title, ""), rows, right=())
