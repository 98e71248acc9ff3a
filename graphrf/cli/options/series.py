"""Readings through time in a table: a column for each node, or a line for each reading."""

from __future__ import annotations

import dataclasses
import datetime
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphrf.cli.options.nodes import NodeNames
from graphrf.cli.options.observations import ObservedColumns
from graphrf.cli.options.table import TIME_TITLES
from graphrf.cli.options.tables import TextTable, listed, number_in, read_observations, way_out_of

if TYPE_CHECKING:
    import numpy as np

_GAPS = ("", "nan", "na", "null", "none")
Stamp = float | datetime.datetime


@dataclass(frozen=True)
class Readings:
    """The readings of a table, in long form: a node, a time and a value for each cell.

    Attributes
    ----------
    table : TextTable
        With titles.
    targets : list of int
        The columns of readings; cells follow one another column by column.
    nodes : ndarray of int64
        Positions.
    times : list
        Hours or dates.
    values : ndarray
        NaN in gaps.
    """

    table: TextTable
    targets: list[int]
    nodes: np.ndarray
    times: list[Any]
    values: np.ndarray

    def filled(
        self, in_gaps: np.ndarray, observed: float | None = None
    ) -> list[tuple[str, list[Any]]]:
        """Titles and cells of the file, numbers in its gaps; readings as they are or `observed`."""
        columns: list[list[Any]] = [self.table.column(number) for number in range(self.table.width)]
        n_lines = len(self.table.rows)
        numbers = iter(in_gaps.tolist())
        for part, target in enumerate(self.targets):
            values = self.values[part * n_lines : (part + 1) * n_lines]
            columns[target] = [
                next(numbers) if math.isnan(value) else text if observed is None else observed
                for text, value in zip(columns[target], values, strict=True)
            ]
        return list(zip(self.table.titles or [], columns, strict=True))


def read_series(
    file: str, time: str | None, observed: ObservedColumns, names: NodeNames
) -> Readings:
    """The readings of a file; `time` is the column of times, by default the titled or first one."""
    import numpy as np

    table = _titled(read_observations(file))
    number = table.first_of(TIME_TITLES) or 0 if time is None else table.number_of(time, "--time")
    times = [stamp(*cell) for cell in table.cells(number)]
    _require_one_kind(times, table)

    node, target = observed.numbers(table)
    titles = table.titles or []
    if node is not None:
        targets = [_target(table, node, number, target)]
        nodes = names.positions(table.cells(node))
    else:
        if observed.target_column is not None:
            raise ValueError(
                f"`--target-column` needs a column of nodes (`--node-column`): {table.path} has a "
                "column for each node"
            )

        targets = [column for column in range(table.width) if column != number]
        if not targets:
            raise ValueError(
                f"{table.path}: only one column; one of times and one for each node are needed"
            )
        nodes = names.positions(
            [(titles[column], f"{table.path}, the title of column {column}") for column in targets]
        )
        if len(set(nodes.tolist())) < len(targets):
            raise ValueError(
                f"{table.path} has several columns for one node; its columns are {table.names}"
            )
        nodes = nodes.repeat(len(table.rows))

    values = [_reading(*cell) for column in targets for cell in table.cells(column)]
    return Readings(table, targets, nodes, times * len(targets), np.array(values))


def chosen_times(given: str) -> tuple[list[str], list[Stamp]]:
    """The times of the option `--times` as text and as times: a column of a file, or A,B,C."""
    cells = listed(given, "--times", "times", TIME_TITLES)
    stamps = [stamp(*cell) for cell in cells]
    if len({isinstance(each, float) for each in stamps}) > 1:
        raise ValueError("`--times` must be hours or dates, got both")
    return [text for text, _ in cells], stamps


def stamp(text: str, place: str) -> Stamp:
    """A number of hours, or a date."""
    number = number_in(text)
    found = number if number is not None and math.isfinite(number) else _date(text)
    if found is None:
        raise ValueError(
            f"{place}: a time must be a number of hours, or a date such as 2024-05-06 07:30, got "
            f"{text[:60]!r}"
        )
    return found


def _titled(table: TextTable) -> TextTable:
    """The table with its first line as titles, though gaps make these resemble readings."""
    if table.titles is not None:
        return table
    first = table.rows[0]
    if len(table.rows) == 1 or all(
        number_in(text) is not None or text.lower() in _GAPS or _date(text) for text in first
    ):
        raise ValueError(
            f"{table.path} has no titles: the first line must contain the names of the columns"
        )
    return dataclasses.replace(table, titles=first, rows=table.rows[1:], lines=table.lines[1:])


def _target(table: TextTable, node: int, time: int, target: int | None) -> int:
    rest = [column for column in range(table.width) if column not in (node, time)]
    if target is None and len(rest) == 1:
        target = rest[0]
    if target is None:
        raise ValueError(
            f"`--target-column` is needed: which column of {table.path} contains the values, of "
            f"{table.names}"
        )
    if len({node, time, target}) < 3:
        raise ValueError(f"times, nodes and values must be three different columns of {table.path}")
    return target


def _reading(text: str, place: str) -> float:
    value = math.nan if text.lower() in _GAPS else number_in(text)
    if value is None or math.isinf(value):
        way_out = f"; {way_out_of(text)}" if any(sign.isdigit() for sign in text) else ""
        raise ValueError(
            f"{place}: a reading must be a finite number, or empty, got {text[:60]!r}{way_out}"
        )
    return value


def _date(text: str) -> datetime.datetime | None:
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError:
        return None


def _require_one_kind(times: list[Stamp], table: TextTable) -> None:
    for time, line in zip(times, table.lines, strict=True):
        if isinstance(time, float) != isinstance(times[0], float):
            kind = "a number (hours)" if isinstance(time, float) else "a date"
            raise ValueError(
                f"{table.path}, line {line}: the time is {kind}, those above are not; write all "
                "times in the same form"
            )
