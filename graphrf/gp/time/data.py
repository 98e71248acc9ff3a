"""Signals on sensors and times: arrays with gaps, data frames and long form; times in hours."""

from __future__ import annotations

import datetime
from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from graphrf._base import checks
from graphrf._base.warn import warn
from graphrf.gp.model.answers import levels_of
from graphrf.gp.model.dates import refuse_written_dates
from graphrf.graph.alignment import Rows, labels_of, shown
from graphrf.graph.graph import Graph, given_nodes
from graphrf.graph.tables import index_of

_LARGEST = 1e140  # whose squares are safe in sums
_HOUR = 3_600_000_000_000  # nanoseconds
_DAY = 24 * _HOUR


class Clock(NamedTuple):
    """The form of a user's times: plain hours, or dates counted from an origin."""

    origin: int | None  # nanoseconds since 1970 that are hour 0; None where times are numbers
    zone: str | None  # of dates, which are counted in UTC

    def hours(self, times: Any) -> np.ndarray:
        """Times in hours, float64, shape (T,)."""
        values, dates, zone = _read(times)
        if dates != (self.origin is not None):
            kinds = ("numbers (hours)", "dates")
            raise checks.type_error(
                "times",
                f"must be {kinds[self.origin is not None]}, as in `fit`, got {kinds[dates]}",
            )
        if dates and (zone is None) != (self.zone is None):
            wanted = "no" if self.zone is None else "a"
            raise checks.value_error(
                "times", f"must have {wanted} time zone, as in `fit`: mixed ones are refused"
            )
        if self.origin is None:
            return values
        # by whole days, because nanoseconds since 1970 leave int64 before 1678 and after 2262
        days = values.astype("datetime64[D]")
        rest = (values - days.astype(values.dtype)).astype("timedelta64[ns]").astype(np.int64)
        return (
            np.asarray(float(_DAY) * (days.astype(np.int64) - self.origin // _DAY) + rest) / _HOUR
        )

    def as_index(self, hours: np.ndarray) -> Any:
        """Times as an index of pandas, dates in their own time zone."""
        import pandas

        index = pandas.Index(self.times(hours))
        return index if self.zone is None else index.tz_localize("UTC").tz_convert(self.zone)

    def times(self, hours: np.ndarray) -> np.ndarray:
        """Times of hours: numbers, or datetime64 in UTC, to the microsecond that hours resolve."""
        if self.origin is None:
            return hours.copy()
        return np.datetime64(self.origin // 1000, "us") + np.round(hours * 3.6e9).astype(
            "timedelta64[us]"
        )


class Columns(NamedTuple):
    """The nodes of a signal in the order of its columns, and the titles of its two axes."""

    nodes: np.ndarray
    times_title: Any = None
    nodes_titles: tuple[Any, ...] | None = None

    @classmethod
    def of(cls, nodes: np.ndarray, values: Any) -> Columns:
        """The columns of what was given to `fit`."""
        if is_frame(values):
            return cls(nodes, values.index.name, levels_of(values.columns))
        return cls(nodes)

    def frame(
        self,
        values: np.ndarray,
        graph: Graph,
        positions: np.ndarray,
        clock: Clock,
        times: Any,
        hours: np.ndarray,
    ) -> Any:
        """A data frame of values (t, q) at times, as given and in hours, with these titles."""
        import pandas

        is_index = hasattr(times, "rename") and hasattr(times, "nlevels")
        index = times if is_index else clock.as_index(hours)
        columns = index_of(
            [graph.nodes[position] for position in positions.tolist()], self.nodes_titles
        )
        return pandas.DataFrame(values, index=index.rename(self.times_title), columns=columns)

    def with_others(self, n_nodes: int) -> np.ndarray:
        """These nodes, and then all others of a graph."""
        return np.concatenate([self.nodes, np.setdiff1d(np.arange(n_nodes), self.nodes)])


class Grid(NamedTuple):
    """Observations: nodes (n,), times (T,) in hours, values (T, n) with NaN in gaps."""

    nodes: np.ndarray
    times: np.ndarray
    values: np.ndarray


def clock_of(times: Any) -> Clock:
    """The clock of the first times of a user: dates count from midnight before the first."""
    values, dates, zone = _read(times)
    if not dates:
        refuse_written_dates("times", values.tolist(), "times")
        if values.size and float(np.abs(values).max()) > 1e8:  # surely seconds or milliseconds
            raise checks.value_error(
                "times",
                f"must be hours, got numbers up to {float(np.abs(values).max()):.4g}: if they are "
                "seconds since 1970, pass np.array(times, dtype='datetime64[s]'); otherwise "
                "convert them to hours",
            )
        return Clock(None, None)
    if values.size == 0:
        raise checks.value_error("times", "must hold at least one time, got none")
    return Clock(int(values.min().astype("datetime64[D]").astype(np.int64)) * _DAY, zone)


def as_grid(graph: Graph, values: Any, times: Any, nodes: Any) -> tuple[Any, Any, np.ndarray]:
    """Node positions, times as given, and float64 values (T, n) of an array, frame or DataArray."""
    if is_frame(values):
        nodes = _frame_nodes(graph, values, nodes)
        times, values = _frame_times(values, times), _frame_numbers(values)
    elif _is_labelled(values):
        first, second = _axes(values)
        if times is None and first not in values.coords:
            raise checks.value_error(
                "times", f"must be given, because Y has no coordinates along {first!r}"
            )
        times = np.asarray(values.coords[first]) if times is None else times
        if nodes is None and second in values.coords:
            nodes = _labels(graph, np.asarray(values.coords[second]).tolist())
        values = np.asarray(values.transpose(first, second))
    elif getattr(getattr(values, "index", None), "nlevels", 1) > 1:
        raise checks.value_error(
            "Y",
            "must have a row for each time and a column for each node, got a Series with "
            f"{values.index.nlevels} levels in its index: pass Y.unstack() if the last level holds "
            "nodes, Y.unstack(0) if the first does",
        )
    elif times is None:
        raise checks.value_error(
            "times",
            "must be given, a time for each row of Y (hours, or dates); a data frame has them in "
            "its index",
        )

    array = np.asarray(checks.to_array_like("Y", values))
    if array.dtype.kind not in "biuf":
        raise checks.type_error(
            "Y",
            f"must be real numbers, with NaN for gaps, got {checks.describe(array)}; convert it by "
            "np.asarray(Y, dtype=float)",
        )
    if array.ndim != 2 or array.size == 0:
        raise checks.value_error(
            "Y", f"must have shape (times, nodes), neither of them 0, got {checks.describe(array)}"
        )
    return given_nodes(graph, nodes), times, array.astype(np.float64)


def grid_arguments(
    graph: Graph, Y: Any, times: Any, y: Any, nodes: Any
) -> tuple[Any, Any, np.ndarray]:
    """Positions, times and values of the arguments of `fit`."""
    if y is None:
        return as_grid(graph, Y, times, nodes)
    if nodes is not None:
        raise checks.value_error("nodes", "must be None in long form, fit(nodes, times, y)")
    return long_form(graph, Y, times, y)


def later_arguments(
    graph: Graph, columns: Columns, Y: Any, times: Any, y: Any, nodes: Any
) -> tuple[Any, Any, np.ndarray]:
    """The grid of values given after `fit`: columns without labels are those of `fit`."""
    if y is None and nodes is None and not has_labels(Y):
        nodes = graph.positions(columns.nodes)
        if np.ndim(Y) != 2 or np.shape(Y)[1] != nodes.size:
            raise checks.value_error(
                "Y",
                f"must have {nodes.size} columns, those of `fit`, or come with their `nodes`, got "
                f"shape {np.shape(Y)}",
            )
    return grid_arguments(graph, Y, times, y, nodes)


def values_of_sensors(
    graph: Graph, sensors: np.ndarray, positions: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Values (T, n) of nodes in the order of sensors; NaN for sensors without a column."""
    known, present = np.isin(positions, sensors), np.isin(sensors, positions)
    if not np.isnan(values[:, ~known]).all():
        unknown = [graph.nodes[node] for node in positions[~known].tolist()]
        raise checks.value_error(
            "Y",
            f"must have values at the nodes of `sensors_` only, got some at {shown(unknown)}: fit "
            "again to add sensors",
        )
    result = np.full((len(values), sensors.size), np.nan)
    order = np.argsort(positions)
    columns = order[np.searchsorted(positions, sensors[present], sorter=order)]
    result[:, present] = values[:, columns]
    return result


def restore_type(original: Any, values: np.ndarray) -> Any:
    """Values (T, n) with the type and labels of the original: array, data frame or DataArray."""
    if is_frame(original):
        return type(original)(values, index=original.index, columns=original.columns)
    if _is_labelled(original):
        return original.copy(data=values if original.dims == _axes(original) else values.T)
    return values


def has_labels(values: Any) -> bool:
    """True for data frames and arrays with named axes."""
    return is_frame(values) or _is_labelled(values)


def is_frame(values: Any) -> bool:
    """True for a data frame, as pandas has them."""
    return hasattr(values, "columns") and hasattr(values, "index")


def _frame_times(frame: Any, times: Any) -> Any:
    """The times of a data frame: its index, unless that only numbers the rows."""
    index = frame.index
    numbered = type(index).__name__ == "RangeIndex"
    if times is None:
        if numbered:
            warn(
                "the rows of `Y` are numbered, and the numbers are taken for hours: give it an "
                "index of times, or pass `times`"
            )
        return index
    if not numbered and not (len(times) == len(index) and list(times) == list(index)):
        raise checks.value_error(
            "times",
            f"must be None, or the index of `Y`: got {shown(list(times))}, and the index has "
            f"{shown(index)}; pass Y.to_numpy() to give it other times",
        )
    return times


def _frame_nodes(graph: Graph, frame: Any, nodes: Any) -> Any:
    """The nodes of a frame's columns: their labels, or the nodes given for other labels."""
    known = set(graph.nodes) if graph.has_names else set()
    if nodes is None:
        if known and known.isdisjoint(frame.columns) and known.issuperset(frame.index):
            raise checks.value_error(
                "Y",
                "must have a row for each time and a column for each node, got nodes in its index, "
                f"{shown(frame.index)}, and columns {shown(frame.columns)}: pass Y.T",
            )
        if title := _column_of_nodes(graph, frame):
            raise checks.value_error(
                "Y",
                "must have a row for each time and a column for each node, got a long table, where "
                f"{title!r} holds nodes: Y.pivot(index='time', columns={title!r}, "
                "values='reading'), with the names of your columns, makes one of the other, and "
                f"fit(Y[{title!r}], times, readings) takes it as it is",
            )
        return _labels(graph, frame.columns)

    positions = given_nodes(graph, nodes)
    names = [graph.nodes[position] for position in positions.tolist()]
    if (
        len(known)
        and any(label in known for label in frame.columns)
        and names != list(frame.columns)
    ):
        raise checks.value_error(
            "nodes",
            f"must be None where the columns of `Y` are nodes: got {shown(names)}, and the columns "
            f"are {shown(frame.columns)}; pass Y.to_numpy() to give them other nodes",
        )
    return nodes


def _column_of_nodes(graph: Graph, frame: Any) -> Any:
    """The title of the column that holds the nodes of a long table, or titles; None elsewhere."""

    def are_nodes(labels: Any) -> bool:
        try:
            return bool(len(graph.index(list(labels))))
        except (TypeError, ValueError):
            return False

    if len(frame.columns) < 2 or any(are_nodes([label]) for label in frame.columns):
        return None
    some, columns = frame.head(), list(frame.columns)
    first = graph.nodes[0]
    if not isinstance(first, tuple):
        return next((title for title in columns if are_nodes(some[title])), None)
    groups = (columns[k : k + len(first)] for k in range(len(columns) - len(first) + 1))
    rows = ((titles, some[titles].itertuples(index=False, name=None)) for titles in groups)
    return next((titles for titles, each in rows if are_nodes(each)), None)


def _labels(graph: Graph, columns: Any) -> Any:
    """Columns as nodes: they are names where the graph has names."""
    counted = Counter(columns)
    if len(counted) < len(columns):
        repeated = next(label for label in counted if counted[label] > 1)
        raise checks.value_error(
            "Y",
            f"must have one column for each node, got {counted[repeated]} of {repeated!r}: average "
            "them first, as by Y.T.groupby(level=0).mean().T",
        )
    return graph.index(columns, argument="Y") if graph.has_names else columns


def _frame_numbers(frame: Any) -> np.ndarray:
    columns = []
    for position, name in enumerate(frame.columns):
        own = frame.iloc[:, position]
        if getattr(own.dtype, "kind", "O") not in "biuf" and any(
            isinstance(value, str) for value in own
        ):
            raise checks.type_error(
                "Y", f"must have columns of numbers, with NaN for gaps, got text in {name!r}"
            )
        try:
            columns.append(own.to_numpy(dtype=np.float64, na_value=np.nan))
        except (TypeError, ValueError):
            raise checks.type_error(
                "Y",
                f"must have columns of numbers, with NaN for gaps, which column {name!r} is not",
            ) from None
    return np.column_stack(columns) if columns else np.empty((len(frame), 0))


def _is_labelled(values: Any) -> bool:
    """True for an array with named axes, as xarray has them."""
    return hasattr(values, "dims") and hasattr(values, "coords") and hasattr(values, "transpose")


def _axes(array: Any) -> tuple[Any, Any]:
    """The names of the axes of times and of nodes: time is the one called so, or the first."""
    if len(array.dims) != 2:
        raise checks.value_error(
            "Y", f"must have two axes, of times and of nodes, got {tuple(array.dims)}"
        )
    first, second = array.dims
    if str(second).lower() in ("time", "times", "date", "hour"):
        return (second, first)
    return (first, second)


def long_form(graph: Graph, nodes: Any, times: Any, y: Any) -> tuple[np.ndarray, Any, np.ndarray]:
    """The results of `as_grid` for one value for each (node, time)."""
    positions = given_nodes(graph, nodes)
    rows = Rows(positions.size, *labels_of(nodes), list)
    times, y = rows.taken("times", times), rows.taken("y", y)
    values = np.asarray(checks.to_array_like("y", y))
    if values.dtype.kind not in "biuf":
        raise checks.type_error("y", f"must be real numbers, got {checks.describe(values)}")

    stamps, dates, _ = _read(times)
    if not positions.shape == values.shape == stamps.shape or values.size == 0:
        raise checks.value_error(
            "y",
            f"must have one value for each node and time, got {values.shape} values, "
            f"{positions.shape} nodes and {stamps.shape} times",
        )

    distinct, row = np.unique(stamps, return_inverse=True)
    sensors, column = np.unique(positions, return_inverse=True)
    cells, counts = np.unique(row * sensors.size + column, return_counts=True)
    if counts.max() > 1:
        cell = int(cells[counts.argmax()])
        node = int(sensors[cell % sensors.size])
        raise checks.value_error(
            "times",
            f"must be distinct for each node, got node {node} {int(counts.max())} times at one "
            "time; average such values first",
        )

    grid = np.full((distinct.size, sensors.size), np.nan)
    grid[row, column] = values
    # One of the user's own times for each distinct one, so that dates stay dates.
    first = np.unique(stamps, return_index=True)[1]
    if hasattr(times, "iloc"):
        return sensors, times.iloc[first], grid
    return sensors, [times[i] for i in first] if dates else distinct, grid


def checked_grid(nodes: np.ndarray, hours: np.ndarray, values: np.ndarray) -> Grid:
    """The grid after `check_series`; empty rows and columns are dropped."""
    check_series(nodes, hours, values)
    seen = ~np.isnan(values)
    if not seen.any():
        raise checks.value_error("Y", "must hold at least one value, got gaps only")
    rows, columns = seen.any(axis=1), seen.any(axis=0)
    return Grid(nodes[columns], hours[rows], values[np.ix_(rows, columns)])


def check_series(nodes: np.ndarray, hours: np.ndarray, values: np.ndarray) -> None:
    """ValueError for unfit shapes, repeated nodes, times that do not increase, infinite values."""
    if values.shape != (hours.size, nodes.size):
        raise checks.value_error(
            "Y",
            f"must have shape ({hours.size}, {nodes.size}), a row for each time and a column for "
            f"each node, got {values.shape}",
        )
    if np.unique(nodes).size != nodes.size:
        raise checks.value_error(
            "nodes", "must be distinct, got some more than once; average their columns first"
        )

    falls = np.flatnonzero(np.diff(hours) <= 0)
    if falls.size:
        at = int(falls[0]) + 1
        what = "repeat" if hours[at] == hours[at - 1] else "fall"
        raise checks.value_error(
            "times",
            f"must increase, but they {what} at position {at}; sort them, and average what repeats",
        )

    if np.isinf(values).any():
        row, column = np.argwhere(np.isinf(values))[0]
        raise checks.value_error(
            "Y",
            f"must be finite, or NaN in gaps, got infinite values, the first in row {row}, column "
            f"{column}",
        )
    if (np.abs(values) > _LARGEST).any():
        raise checks.value_error("Y", f"must be at most {_LARGEST:g}, whose squares leave float64")


def _read(times: Any) -> tuple[np.ndarray, bool, str | None]:
    """Hours as float64, or dates as datetime64 in UTC; whether they are dates; their time zone."""
    zone: str | None = None
    index: Any = times if hasattr(times, "tz") else getattr(times, "dt", None)
    if getattr(index, "tz", None) is not None:  # pandas
        zone, utc = str(index.tz), index.tz_convert("UTC")
        times = np.asarray((utc if index is times else utc.dt).tz_localize(None))

    array = np.atleast_1d(np.asarray(times))
    if array.ndim != 1:
        raise checks.value_error("times", f"must have one axis, got {checks.describe(array)}")
    if array.dtype.kind == "O" and array.size:
        array, zone = _plain_dates(array)

    kind = array.dtype.kind
    if kind in "mM" and np.isnat(array).any():
        what = "dates" if kind == "M" else "durations"
        raise checks.value_error("times", f"must be {what}, got some that are not (NaT)")
    if kind == "M":
        return array, True, zone
    if kind == "m":
        return array / np.timedelta64(1, "h"), False, None
    if kind not in "iuf":
        raise checks.type_error(
            "times",
            f"must be numbers (hours) or dates, got {checks.describe(times)}; pandas.to_datetime, "
            "or np.array(times, dtype='datetime64[s]'), makes dates of text, and .to_timestamp() "
            "of periods",
        )
    return checks.finite("times", array.astype(np.float64)), False, None


def _plain_dates(array: np.ndarray) -> tuple[np.ndarray, str | None]:
    """Python's dates as datetime64 in UTC, and their time zone; other objects as they are."""
    if all(type(t) is datetime.date for t in array):
        return array.astype("datetime64[D]"), None
    if not all(isinstance(t, datetime.datetime) for t in array):
        return array, None
    zones = {None if t.tzinfo is None else str(t.tzinfo) for t in array}
    if len(zones) > 1:
        raise checks.value_error(
            "times",
            f"must be of one time zone, got {', '.join(sorted(map(str, zones)))}: convert them to "
            "one",
        )
    plain = [
        t if t.tzinfo is None else t.astimezone(datetime.UTC).replace(tzinfo=None) for t in array
    ]
    return np.array(plain, dtype="datetime64[us]"), zones.pop()
