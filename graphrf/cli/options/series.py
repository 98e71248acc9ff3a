"""Tables of readings through time: a column for each node, or a line for each reading."""

from __future__ import annotations

import dataclasses
import datetime
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphrf.cli.options.nodes import NodeNames
from graphrf.cli.options.observations import ObservedColumns
from graphrf.cli.options.standard_input import input_file
from graphrf.cli.options.tables import NODE_TITLES, TARGET_TITLES, TextTable, number_in, read_table

if TYPE_CHECKING:
    import numpy as np

TIME_TITLES = ("time", "times", "date", "datetime", "timestamp", "hour", "hours")
_GAPS = ("", "nan", "na", "null", "none")
Stamp = float | datetime.datetime


@dataclass(frozen=True)
class TimeTable:
    """Readings of a file.

    Attributes
    ----------
    table : TextTable
        With titles.
    time, targets : int, list of int
        The column of times, and those of readings: one for each node, or one where `long`.
    long : bool
        Whether each line is one reading, of the node in a column of nodes.
    nodes : ndarray of int64
        Positions: of the columns of readings, or of each line.
    times : list
        Hours or dates, of each line.
    values : ndarray
        NaN in gaps: shape (lines, columns of readings), or (lines,).
    """

    table: TextTable
    time: int
    targets: list[int]
    long: bool
    nodes: np.ndarray
    times: list[Any]
    values: np.ndarray

    def fitted(self, gp: Any) -> Any:
        """A regressor on graph and time, fitted to the readings."""
        if self.long:
            return gp.fit(self.nodes, self.times, self.values)
        return gp.fit(self.values, times=self.times, nodes=self.nodes)

    def with_cells(self, gaps: np.ndarray, observed: str | None = None) -> list[tuple[str, list[str]]]:
        """Titles and cells of the file, with numbers in its gaps; what was observed as it is, or as `observed`."""
        titles = self.table.titles or []
        columns = {number: self.table.column(number) for number in range(self.table.width)}
        for position, number in enumerate(self.targets):
            known = self.values if self.long else self.values[:, position]
            new = gaps if self.long else gaps[:, position]
            columns[number] = [
                repr(float(filled)) if math.isnan(value) else cell if observed is None else observed
                for cell, value, filled in zip(columns[number], known, new, strict=True)
            ]
        return [(title, columns[number]) for number, title in enumerate(titles)]


def read_series(file: str, time: str | None, observed: ObservedColumns, names: NodeNames) -> TimeTable:
    """The readings of a file; `time` is the column of times, by default one that is called so, or the first."""
    import numpy as np

    from graphrf.graph.names import known_positions

    path = Path(input_file(file))
    if not path.is_file():
        raise FileNotFoundError(f"OBSERVATIONS must be a file, got {file!r}, which does not exist")
    table = _titled(read_table(path))
    number = table.first_of(TIME_TITLES) or 0 if time is None else table.number_of(time, "--time")
    times = [_stamp(cell, f"{path}, line {line}") for cell, line in _cells(table, number)]
    _require_one_kind(times, path, table.lines)
    node = table.first_of(NODE_TITLES)
    if observed.node_column is not None:
        node = table.number_of(observed.node_column, "--node-column")
    if node is None:
        if observed.target_column is not None:
            raise ValueError(
                f"`--target-column` needs a column of nodes (`--node-column`): {path} has a column for each node"
            )
        targets = [column for column in range(table.width) if column != number]
        if not targets:
            raise ValueError(f"{path}: only one column; one of times and one for each node are needed")
        titles = table.titles or []
        found = [names.position(titles[column], f"{path}, the title of column {column}") for column in targets]
        columns = [_readings(table, column) for column in targets]
        nodes = known_positions(np.array(found, dtype=np.int64))
        return TimeTable(table, number, targets, False, nodes, times, np.array(columns).T)
    target = _target(table, node, number, observed.target_column)
    cells = _cells(table, node)
    found = [names.position(cell, f"{path}, line {line}") for cell, line in cells]
    nodes = known_positions(np.array(found, dtype=np.int64))
    return TimeTable(table, number, [target], True, nodes, times, np.array(_readings(table, target)))


def chosen_times(given: str, option: str) -> tuple[list[str], list[Any]]:
    """The times of an option as text and as times: a file with a column of them, or A,B,C."""
    path = Path(input_file(given))
    if path.is_file():
        table = read_table(path, spaces=False)
        cells = _cells(table, table.first_of(TIME_TITLES) or 0)
        if table.titles is None and cells[0][0].lower() in TIME_TITLES:
            cells = cells[1:]
        texts, places = [cell for cell, _ in cells], [f"{path}, line {line}" for _, line in cells]
    else:
        texts = [text.strip() for text in given.split(",")]
        places = [f"`{option}` must be a file (there is none named {given[:60]!r}) or times, A,B,C"] * len(texts)
    stamps = [_stamp(text, place) for text, place in zip(texts, places, strict=True)]
    if len({isinstance(stamp, float) for stamp in stamps}) > 1:
        raise ValueError(f"`{option}` must be hours or dates, got both")
    return texts, stamps


def _titled(table: TextTable) -> TextTable:
    """The table with its first line as titles, though with gaps in all columns they resemble readings."""
    if table.titles is not None:
        return table
    if len(table.rows) == 1:
        raise ValueError(f"{table.path} has only one line; titles and readings are needed")
    first = table.rows[0]
    if all(number_in(cell) is not None or cell.lower() in _GAPS or _date(cell) for cell in first):
        raise ValueError(f"{table.path} has no titles: the first line must contain the names of the columns")
    return dataclasses.replace(table, titles=first, rows=table.rows[1:], lines=table.lines[1:])


def _target(table: TextTable, node: int, time: int, given: str | None) -> int:
    target = table.first_of(TARGET_TITLES) if given is None else table.number_of(given, "--target-column")
    rest = [column for column in range(table.width) if column not in (node, time)]
    if target is None and len(rest) == 1:
        target = rest[0]
    if target is None:
        raise ValueError(
            f"`--target-column` is needed: which column of {table.path} contains the values, of "
            f"{', '.join(table.titles or [])}"
        )
    if len({node, time, target}) < 3:
        raise ValueError(f"times, nodes and values must be three different columns of {table.path}")
    return target


def _readings(table: TextTable, column: int) -> list[float]:
    readings = []
    for cell, line in _cells(table, column):
        value = math.nan if cell.lower() in _GAPS else number_in(cell)
        if value is None or math.isinf(value):
            raise ValueError(
                f"{table.path}, line {line}: a reading must be a finite number, or empty, got {cell[:60]!r}"
            )
        readings.append(value)
    return readings


def _cells(table: TextTable, column: int) -> list[tuple[str, int]]:
    return list(zip(table.column(column), table.lines, strict=True))


def _date(cell: str) -> datetime.datetime | None:
    try:
        return datetime.datetime.fromisoformat(cell)
    except ValueError:
        return None


def _stamp(cell: str, place: str) -> Stamp:
    number = number_in(cell)
    found = number if number is not None and math.isfinite(number) else _date(cell)
    if found is None:
        raise ValueError(
            f"{place}: a time must be a number of hours, or a date such as 2024-05-06 07:30, got {cell[:60]!r}"
        )
    return found


def _require_one_kind(times: list[Stamp], path: Path, lines: list[int]) -> None:
    kinds = [isinstance(time, float) for time in times]
    if kinds.count(kinds[0]) < len(kinds):
        first = kinds.index(not kinds[0])
        words = ("a date", "a number (hours)")
        raise ValueError(
            f"{path}, line {lines[first]}: the time is {words[kinds[first]]}, those above "
            "are not; write all times in the same form"
        )
