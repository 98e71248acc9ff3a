"""Reading a table of text, such as observations: cells with the numbers of their lines."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

# Titles of a column of nodes, and of one of targets, in the order in which they are looked for.
NODE_TITLES = ("node", "nodes", "name", "id", "vertex", "face")
TARGET_TITLES = ("target", "y", "value", "label", "class")


@dataclass(frozen=True)
class TextTable:
    """Cells of a file, row after row; `titles` is None where its first line has none."""

    path: Path
    titles: list[str] | None
    rows: list[list[str]]
    lines: list[int]

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.rows[0])

    def first_of(self, titles: Sequence[str]) -> int | None:
        """The column that has the first of these titles, whatever their case; None where no column has one."""
        own = [title.lower() for title in self.titles or []]
        return next((own.index(title) for title in titles if title in own), None)

    def number_of(self, column: str, option: str) -> int:
        """A column given by title, or by position from 0."""
        if column in (self.titles or []):
            return (self.titles or []).index(column)
        if column.isascii() and column.isdigit() and int(column) < self.width:
            return int(column)
        have = "it has no titles" if self.titles is None else f"its columns are {', '.join(self.titles)}"
        raise ValueError(
            f"`{option}` must be a column of {self.path}, got {column!r}; {have}, and columns may be given by "
            f"position, 0 to {self.width - 1}"
        )

    def column(self, number: int) -> list[str]:
        """The cells of a column."""
        return [row[number] for row in self.rows]

    def numbers(self, number: int) -> list[float]:
        """The cells of a column as finite numbers; ValueError with the line of the first that is none."""
        values = []
        for cell, line in zip(self.column(number), self.lines, strict=True):
            value = number_in(cell)
            if value is None or not math.isfinite(value):
                came = "an empty cell" if not cell else repr(cell[:60])
                raise ValueError(
                    f"{self.path}, line {line}: the target must be a finite number, got {came}; leave the line "
                    "out if nothing was observed"
                )
            values.append(value)
        return values


def read_table(path: Path, is_node: Callable[[str], bool] | None = None, *, spaces: bool = True) -> TextTable:
    """The table of a file: cells parted by tabs, commas, semicolons or (with `spaces`) white space.

    The first line decides by what. Blank lines are skipped, and comments: lines that begin with # and a space, or
    above all others with # and no name of a node. The first line holds
    titles where it has no number in some column that holds numbers in all other lines, where one of its cells is
    such a title as node or target, or where a column holds nodes in all other lines and none of its cells is found
    again below; but not where it has a node in a column of nodes. `is_node` says what is a node. The file is
    bounded by the memory that is left.
    """
    from graphrf.graph.files import text_files

    text = text_files.read_text(path)
    text_files.require_room(path, text, None)
    kept: list[tuple[int, str]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not _is_comment(line, above=not kept, is_node=is_node):
            kept.append((number, line))
    if not kept:
        raise ValueError(f"{path} has only blank lines and comments; a line for each node is needed")
    mark = next((mark for mark in "\t,;" if mark in kept[0][1]), None)
    rows: list[list[str]] = []
    for number, line in kept:
        try:
            cells = (
                line.split()
                if mark is None and spaces
                else next(csv.reader([line], delimiter=mark or "\t", strict=True))
            )
        except csv.Error as error:
            raise ValueError(f"{path}, line {number}: quotation marks do not match ({error})") from None
        if rows and len(cells) != len(rows[0]):
            raise ValueError(
                f"{path}, line {number}: {len(cells)} columns where the lines above have {len(rows[0])}"
            )
        rows.append([cell.strip() for cell in cells])
    lines = [number for number, _ in kept]
    if (is_node is not None and _has_node(rows, is_node)) or not _has_titles(rows, is_node):
        return TextTable(path, None, rows, lines)
    if len(rows) == 1:
        raise ValueError(f"{path} has titles but no other line; a line for each node is needed")
    return TextTable(path, rows[0], rows[1:], lines[1:])


def _is_comment(line: str, *, above: bool, is_node: Callable[[str], bool] | None) -> bool:
    """True for a comment; what begins with # without a space may be a node's name."""
    line = line.lstrip()
    if not line.startswith("#"):
        return False
    name = re.split(r"[\s,;]", line, maxsplit=1)[0]
    return (
        not line.lstrip("#").strip()
        or line.lstrip("#")[0].isspace()
        or (above and not (is_node and is_node(name)))
    )


def _has_node(rows: list[list[str]], is_node: Callable[[str], bool]) -> bool:
    """True if some column has a node both in the first row and in the second, if there is one."""
    return any(
        is_node(cell) and is_node(rows[1][column] if rows[1:] else cell) for column, cell in enumerate(rows[0])
    )


def _has_titles(rows: list[list[str]], is_node: Callable[[str], bool] | None) -> bool:
    if any(cell.lower() in (*NODE_TITLES, *TARGET_TITLES) for cell in rows[0]):
        return True
    others = rows[1:]
    if not others:
        return False
    if any(
        cell and number_in(cell) is None and all(number_in(row[column]) is not None for row in others)
        for column, cell in enumerate(rows[0])
    ):
        return True
    # A node that is misspelt has a label that other nodes have, and a target that is a number.
    if is_node is None or any(not cell or number_in(cell) is not None for cell in rows[0]):
        return False
    columns = list(zip(*others, strict=True))
    return any(all(map(is_node, column)) for column in columns) and not any(
        cell in column for cell, column in zip(rows[0], columns, strict=True)
    )


def number_in(cell: str) -> float | None:
    """The number that a cell holds, NaN and infinity among them."""
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None
