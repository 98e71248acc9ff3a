"""Files of which one may be "-", standard input."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

# What standard input is called in messages, and the
# file that it was written to: readers look twice.
NAME = "standard input"
_held: list[tuple[tempfile.TemporaryDirectory[str], Path]] = []


def input_file(given: str) -> str:
    """The path of a file to read: as given, or of a temporary file with standard input for "-"."""
    if given != "-":
        return given
    if _held:
        raise ValueError("`-`, standard input, can stand for one file only")
    folder = tempfile.TemporaryDirectory(prefix="graphrf-")
    path = Path(folder.name) / "input.csv"
    path.write_bytes(sys.stdin.buffer.read())
    _held.append((folder, path))
    return str(path)


def named(text: str) -> str:
    """The text with `standard input` in place of the temporary file."""
    for _, path in _held:
        text = text.replace(str(path), NAME)
    return text


def forget() -> None:
    """Remove the temporary file at the end of a command."""
    while _held:
        _held.pop()[0].cleanup()
