"""Columns of a data frame as the numbers or categories that a formula and terms read."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from graphrf._base import checks
from graphrf._base.lazy import missing
from graphrf.graph.labels import Lookup

# What reads the column of the observations, for `require_columns`.
RESPONSE = "the response of the formula"
_NUMBERS = (int, float, Decimal, Fraction, np.number, np.bool_)


def as_pandas_frame(frame: Any) -> Any:
    """A data frame of pandas, from one of any library that narwhals knows, such as polars."""
    if hasattr(frame, "iloc") and hasattr(frame, "columns"):
        return frame
    try:
        import narwhals
    except ModuleNotFoundError as error:
        raise missing(error, "data frames of other libraries than pandas") from None
    try:
        return narwhals.from_native(frame, eager_only=True).to_pandas()
    except TypeError:
        raise checks.type_error(
            "frame",
            "must be a data frame with the columns that formula and terms name, got "
            f"{checks.describe(frame)}; pandas.DataFrame(...) makes one",
        ) from None


def require_columns(frame: Any, names: Iterable[str], reader: str) -> None:
    """ValueError for columns that a frame lacks, has twice or in part; `reader` reads them."""
    columns = [str(label) for label in frame.columns]
    for name in sorted(names):
        if name not in frame.columns:
            near = checks.did_you_mean(name, columns)
            shown = ", ".join(map(repr, columns[:8])) + (", ..." if len(columns) > 8 else "")
            raise checks.value_error(
                "frame",
                f"has no column {name!r}, which {reader} reads; it has "
                f"{shown}{near and '; '}{near}",
            )

        column = frame[name]
        if hasattr(column, "columns"):
            raise checks.value_error(
                "frame",
                f"has {column.shape[1]} columns named {name!r}, which {reader} reads: "
                "frame.loc[:, ~frame.columns.duplicated()] keeps the first of each name",
            )

        lacking = np.flatnonzero(column.isna().to_numpy())
        if lacking.size:
            raise checks.value_error(
                name,
                f"has no value in {lacking.size} of {len(frame)} rows, the first of them "
                f"{row(frame, lacking[0])}: leave these out, frame[frame[{name!r}].notna()]"
                f"{', and predict them after the fit' if reader == RESPONSE else ''}",
            )


def require_no_responses(y: None) -> None:
    """TypeError for responses beside the frame, where scikit-learn's pipelines pass None."""
    if y is not None:
        raise checks.type_error(
            "y",
            f"must be None, got {checks.describe(y)}: the response is a column of the frame, which "
            "the formula names; pass `frame.assign(y=y)` as the frame, and formula='y ~ ...'",
        )


def row(frame: Any, place: int) -> str:
    """A row as messages name it: by its number, and by its label if that is another one."""
    label = plain_label(frame.index[place])
    same = isinstance(label, int) and label == place
    return str(place) if same else f"{place} (labelled {label!r})"


def plain_label(label: Any) -> Any:
    """A label of numpy as Python's own, for messages."""
    return label.item() if isinstance(label, np.generic) else label


def plain(frame: Any, name: str) -> np.ndarray:
    """A column as float64 numbers, or as an array of the labels that it holds."""
    column = frame[name]
    kind = getattr(column.dtype, "kind", "O")
    if kind in "biuf":
        return np.asarray(column, dtype=np.float64)
    if kind == "c":
        raise checks.type_error(
            name, "must hold real numbers or text for the formula, got complex numbers"
        )
    if kind in "mM" or column.dtype.name.startswith("period"):
        raise checks.type_error(
            name,
            "must hold numbers or text for the formula, got dates or spans of time: compute "
            f"numbers, such as (frame[{name!r}] - frame[{name!r}].min()) / pandas.Timedelta('1D'), "
            f"or take Steps({name!r}, ...) as a term",
        )

    values = np.empty(len(column), dtype=object)
    values[:] = column.tolist()
    if hasattr(column, "cat"):
        return values

    numeric = np.array([isinstance(value, _NUMBERS) for value in values], dtype=bool)
    if numeric.all():
        return values.astype(np.float64)

    text = np.array([isinstance(value, str) for value in values], dtype=bool)
    if not text.all():
        other = np.flatnonzero(~text)[0]
        raise checks.type_error(
            name,
            f"must hold numbers or text for the formula, got {checks.describe(values[other])} in "
            f"row {row(frame, other)}" + (" and text in others" if text.any() else ""),
        )
    return values


def numbers(frame: Any, name: str) -> np.ndarray:
    """A column as float64 numbers; TypeError for text and categories."""
    values = plain(frame, name)
    if values.dtype == object:
        raise checks.type_error(
            name,
            "must hold numbers where the formula computes with it, got "
            f"{checks.describe(values[0])}; of one category, (frame[{name!r}] == {values[0]!r})"
            ".astype(int) is a column of 0 and 1",
        )
    return values


def require_finite(frame: Any, text: str, values: np.ndarray) -> np.ndarray:
    """Numbers that part of a formula has for each row, once they are finite."""
    lost = np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))
    if lost.size:
        raise checks.value_error(
            "frame",
            f"gives {text!r} of the formula no finite value in {lost.size} of {len(frame)} rows, "
            f"the first {row(frame, lost[0])}: leave these rows out, or compute another column",
        )
    return values


def codes(
    frame: Any, text: str, values: np.ndarray, levels: list[Hashable], column: str | None
) -> np.ndarray:
    """The position of each row's label among levels; ValueError for labels that are none of them.

    The labels are those of a column, or values of the expression `text`.
    """
    table = Lookup((level, place) for place, level in enumerate(levels))
    found = np.array([table.get(value, -1) for value in values.tolist()], dtype=np.int64)

    unknown = np.flatnonzero(found < 0)
    if unknown.size:
        shown = ", ".join(map(repr, levels[:6])) + (", ..." if len(levels) > 6 else "")
        label = values[unknown[0]] if column is None else frame[column].iloc[unknown[0]]
        hint = f"; as a term, Groups({column!r}) or Steps({column!r}, ...), it may have new levels"
        raise checks.value_error(
            "frame",
            f"has {plain_label(label)!r} in {column or text!r}, row {row(frame, unknown[0])}, "
            f"which the fit has not seen: it knows {shown}{hint if column else ''}",
        )
    return found
