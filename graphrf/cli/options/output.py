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
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphrf._base.version import __version__
from graphrf.cli.options.messages import visible
from graphrf.cli.options.running import Talking

if TYPE_CHECKING:
    import numpy as np

# Titles may repeat, as those of the columns of a kernel matrix.
Columns = Sequence[tuple[str, "Sequence[Any] | np.ndarray"]]
ENDINGS = (".csv", ".npz", ".json")
OutputPath = Annotated[
    str | None,
    typer.Option(
        "-o", "--output", metavar="FILE", rich_help_panel="Output", show_default=False,
        help="A .csv, .npz or .json file, overwritten if it exists (missing folders are created); - for csv on "
        "standard output.",
    ),
]  # fmt: skip


@dataclass(frozen=True)
class Result:
    """Result of a command.

    `columns` are the columns of a csv file, titles and cells, all of one length; `arrays` go into npz files and
    JSON in their place where there are any. `facts` are metadata. `summary` is for people,
    where no output is named.
    """

    command: str
    columns: Columns
    facts: Mapping[str, Any]
    arrays: Mapping[str, Any] = field(default_factory=dict)
    summary: Callable[[], str] | None = None

    @property
    def record(self) -> dict[str, Any]:
        """The metadata: who made it, of what, with which settings."""
        return {"graphrf": __version__, "command": self.command, **self.facts}


def check_output(output: str | None, inputs: Sequence[str] = (), endings: Sequence[str] = ENDINGS) -> None:
    """Raise, before any work is done, where the output cannot be written or is one of the inputs."""
    if output is None or (output == "-" and ".csv" in endings):
        return
    from graphrf._base.files.atomic import file_path, require_writable

    path = file_path(output, "-o")
    if path.suffix.lower() not in endings:
        raise ValueError(f"`-o` must end in {' or '.join(endings)}, got {output!r}")
    for place in inputs:
        if path.exists() and os.path.exists(place) and os.path.samefile(path, place):
            raise ValueError(f"`-o` must be different from the input file {place!r}")
    require_writable(path.parent, "-o")


def deliver(result: Result, output: str | None, talking: Talking) -> None:
    """Write a result to its file, and print what is printed: JSON, csv, or the summary."""
    if output is not None and output != "-":
        _write(result, Path(output))
        talking.remark(f"written to {output}")
    if talking.json:
        echo(_json(result))
    elif output == "-" or (output is None and result.summary is None):
        echo(_csv(result.columns))
    elif result.summary is not None:
        echo(result.summary())


def echo(text: str) -> None:
    """Print on standard output, all at once and flushed, so that a closed pipe shows here and not at the end."""
    typer.echo(visible(text) if sys.stdout.isatty() else text, nl=False)


def _write(result: Result, path: Path) -> None:
    from graphrf._base.files.atomic import atomic_write
    from graphrf._base.files.npz import write_arrays

    with atomic_write(path, "-o") as file:
        kind = path.suffix.lower()
        if kind == ".npz":
            import numpy as np

            arrays = {name: _array(array) for name, array in (result.arrays or dict(result.columns)).items()}
            arrays["metadata"] = np.array(json.dumps(result.record))
            write_arrays(file, arrays, compressed=True)
        else:
            text = _json(result) if kind == ".json" else _csv(result.columns)
            file.write(text.encode())


def _json(result: Result) -> str:
    content = {name: _plain(array) for name, array in (result.arrays or dict(result.columns)).items()}
    return json.dumps({**result.record, "result": content}, allow_nan=False) + "\n"


def _array(value: Any) -> np.ndarray:
    """Cells as an array of numbers or text, which needs no pickle: what is missing is NaN."""
    import numpy as np

    if isinstance(value, Sequence) and not isinstance(value, str) and None in value:
        value = [np.nan if cell is None else cell for cell in value]
    return np.asarray(value)


def _csv(columns: Columns) -> str:
    """A table with titles; numbers with all digits that they have."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([title for title, _ in columns])
    writer.writerows(zip(*(_cells(column) for _, column in columns), strict=True))
    return text.getvalue()


def _cells(column: Sequence[Any] | np.ndarray) -> Sequence[Any]:
    # Of float32 the shortest text that gives the number back; Python's floats have that by themselves.
    if isinstance(column, Sequence):
        return column
    return [str(value) for value in column] if column.dtype == "float32" else list(column.tolist())


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value


def aligned(titles: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """A table for people: the first `left` columns begin in line, the others end in line."""
    widths = [max(len(row[column]) for row in (titles, *rows)) for column in range(len(titles))]
    lines = []
    for row in (titles, *rows):
        cells = [
            cell.ljust(width) if number < left else cell.rjust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return visible("\n".join(lines) + "\n")
