"""Reading a table of text, such as observations: cells with the numbers of their lines."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from graphrf._base.warn import warn
from graphrf.cli.options.standard_input import input_file
from graphrf.cli.options.table import NODE_TITLES, TARGET_TITLES, TIME_TITLES

# Numbers below a million whose points may part thousands.
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}\.\d{3}")
# The text of a cell, and its place in the words of messages.
Cell = tuple[str, str]


@dataclass(frozen=True)
class TextTable:
    """Cells of a file, row after row; `titles` is None where its first line has none."""

    path: Path
    titles: list[str] | None
    rows: list[list[str]]
    lines: list[int]
    mark: str | None = None  # between cells; None for white space

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.rows[0])

    @property
    def names(self) -> str:
        """Titles, or positions, of the columns."""
        return ", ".join(self.titles or map(str, range(self.width)))

    def first_of(self, titles: Sequence[str]) -> int | None:
        """The column that has the first of these titles, whatever their case; None if none has."""
        own = [title.lower() for title in self.titles or []]
        return next((own.index(title) for title in titles if title in own), None)

    def number_of(self, column: str, option: str) -> int:
        """A column given by title, or by position from 0."""
        if column in (self.titles or []):
            return (self.titles or []).index(column)
        if column.isascii() and column.isdigit() and int(column) < self.width:
            return int(column)
        have = "it has no titles" if self.titles is None else f"its columns are {self.names}"
        raise ValueError(
            f"`{option}` must be a column of {self.path}, got {column!r}; {have}, and columns may "
            f"be given by position, 0 to {self.width - 1}"
        )

    def column(self, number: int) -> list[str]:
        """The text of a column."""
        return [row[number] for row in self.rows]

    def cells(self, number: int) -> list[Cell]:
        """The text of a column, with places."""
        return [
            (text, f"{self.path}, line {line}")
            for text, line in zip(self.column(number), self.lines, strict=True)
        ]

    def numbers(self, number: int, what: str) -> list[float]:
        """The cells of a column as finite numbers; ValueError with the line of the first other."""
        values = []
        for text, place in self.cells(number):
            value = number_in(text)
            if value is None or not math.isfinite(value):
                came = "an empty cell" if not text else repr(text[:60])
                raise ValueError(
                    f"{place}: the {what} must be a finite number, got {came}; {way_out_of(text)}"
                )
            values.append(value)
        if (
            self.mark == ";"
            and len(values) > 1
            and all(map(_THOUSANDS.fullmatch, self.column(number)))
        ):
            warn(
                f"{self.path}: the {what} is read with decimal points, {self.rows[0][number]} as "
                f"{values[0]:g}; if its points part thousands, as in many files with semicolons, "
                "remove them"
            )
        return values


def listed(
    given: str,
    option: str,
    what: str,
    titles: Sequence[str],
    is_node: Callable[[str], bool] | None = None,
) -> list[Cell]:
    """The values of an option: a column of a file, by its title or the first, or A,B,C."""
    path = Path(input_file(given))
    if path.is_file():
        table = read_table(path, is_node, spaces=False)
        return table.cells(table.first_of(titles) or 0)
    place = f"`{option}` must be a file (there is none named {given[:60]!r}) or {what}, A,B,C"
    return [(text.strip(), place) for text in given.split(",")]


def read_observations(
    file: str, is_node: Callable[[str], bool] | None = None, argument: str = "OBSERVATIONS"
) -> TextTable:
    """The table of the argument OBSERVATIONS, or of an option's file."""
    path = Path(input_file(file))
    if not path.is_file():
        raise FileNotFoundError(f"{argument} must be a file, got {file!r}, which does not exist")
    return read_table(path, is_node)


def read_table(
    path: Path, is_node: Callable[[str], bool] | None = None, *, spaces: bool = True
) -> TextTable:
    """The table of a file: cells parted by tabs, commas, semicolons or (with `spaces`) white space.

    The first line decides by what. Blank lines and comments are skipped: lines that begin with #
    and a space, and above all others those that begin with # and no name of a node. The first line
    holds titles where it has no number in some column that holds numbers in all other lines, where
    one of its cells is such a title as node or target, or where a column holds nodes in all other
    lines and none of its cells is repeated below; but not where it has a node in a column of nodes.
    The file is bounded by the memory that is left.
    """
    from graphrf.graph.files import text_files

    text = text_files.read_text(path)
    text_files.require_room(path, text, None)

    kept: list[tuple[int, str]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not _is_comment(line, above=not kept, is_node=is_node):
            kept.append((number, line))
    if not kept:
        raise ValueError(
            f"{path} has only blank lines and comments; a line for each node is needed"
        )

    mark = next((mark for mark in "\t,;" if mark in kept[0][1]), None)
    mark = None if mark is None and spaces else mark or "\t"
    rows = _rows(path, kept, mark)
    lines = [number for number, _ in kept]

    if (is_node is not None and _has_node(rows, is_node)) or not _has_titles(rows, is_node):
        return TextTable(path, None, rows, lines, mark)
    if len(rows) == 1:
        raise ValueError(f"{path} has titles but no other line; a line for each node is needed")
    return TextTable(path, rows[0], rows[1:], lines[1:], mark)


def _rows(path: Path, lines: Sequence[tuple[int, str]], mark: str | None) -> list[list[str]]:
    """The cells of numbered lines, as many in each; without a mark, white space parts them."""
    rows: list[list[str]] = []
    for number, line in lines:
        try:
            if mark is None:
                cells = line.split()
            else:
                cells = next(csv.reader([line], delimiter=mark, strict=True))
        except csv.Error as error:
            raise ValueError(
                f"{path}, line {number}: quotation marks do not match ({error})"
            ) from None
        if rows and len(cells) != len(rows[0]):
            raise ValueError(
                f"{path}, line {number}: {len(cells)} columns where the lines above have "
                f"{len(rows[0])}"
            )
        rows.append([cell.strip() for cell in cells])
    return rows


def _is_comment(line: str, *, above: bool, is_node: Callable[[str], bool] | None) -> bool:
    """True for a comment; # without a space may begin a node's name."""
    line = line.lstrip()
    if not line.startswith("#"):
        return False
    rest = line.lstrip("#")
    if not rest.strip() or rest[0].isspace():
        return True
    return above and not (is_node and is_node(re.split(r"[\s,;]", line, maxsplit=1)[0]))


def _has_node(rows: list[list[str]], is_node: Callable[[str], bool]) -> bool:
    """True if some column has a node both in the first row and in the second, if there is one."""
    return any(
        is_node(cell) and is_node(rows[1][column] if rows[1:] else cell)
        for column, cell in enumerate(rows[0])
    )


def _has_titles(rows: list[list[str]], is_node: Callable[[str], bool] | None) -> bool:
    first, others = rows[0], rows[1:]
    if any(cell.lower() in (*NODE_TITLES, *TARGET_TITLES, *TIME_TITLES) for cell in first):
        return True
    columns = list(zip(*others, strict=True))
    for cell, column in zip(first, columns, strict=False):
        if (
            cell
            and number_in(cell) is None
            and all(number_in(other) is not None for other in column)
        ):
            return True
    # A node that is misspelt has a label that other nodes have, and a target that is a number.
    if is_node is None or any(not cell or number_in(cell) is not None for cell in first):
        return False
    repeated = any(cell in column for cell, column in zip(first, columns, strict=False))
    return any(all(map(is_node, column)) for column in columns) and not repeated


def way_out_of(cell: str) -> str:
    """Advice on a cell that should hold a number."""
    if any(sign.isdigit() for sign in cell):
        return (
            "write numbers with a decimal point, without units and without marks between thousands"
        )
    return "leave the line out if nothing was observed"


def number_in(cell: str) -> float | None:
    """The number that a cell holds, NaN and infinity among them."""
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None
