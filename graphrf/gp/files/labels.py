"""Labels of levels in files: text, numbers, dates, geometries, and tuples, lists and weights."""

from __future__ import annotations

import datetime
import functools
import re
import zoneinfo
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import numpy as np

from graphrf._base import checks, lazy

_OFFSET = re.compile(r"UTC([+-]\d\d:\d\d)?")
# Geometries that are places, without collections, which may be nested.
_GEOMETRIES = ("Point", "LineString", "LinearRing", "Polygon", "MultiLineString", "MultiPolygon")
_UNITS = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns")


def encoded_labels(column: str, labels: Iterable[Any]) -> list[Any]:
    """Labels as JSON knows them; an error with the column for those that are not."""
    records = [_encoded(column, label) for label in labels]
    try:
        decoded_labels(records)
    except ValueError as error:
        raise checks.value_error(column, f"cannot be saved: {error}; rename it") from None
    return records


def _encoded(column: str, label: Any) -> Any:
    if isinstance(label, np.generic) and not isinstance(label, np.datetime64):
        label = label.item()

    if label is None or isinstance(label, bool | int | float | str):
        return label
    if isinstance(label, tuple | list):
        return {type(label).__name__: encoded_labels(column, label)}
    if isinstance(label, dict):
        pairs = zip(encoded_labels(column, label), map(float, label.values()), strict=True)
        return {"weights": [list(pair) for pair in pairs]}

    dated = _encoded_date(label)
    if dated is not None:
        return dated
    shape = getattr(label, "__geo_interface__", {})
    if shape.get("type") in _GEOMETRIES:
        return {"geometry": [shape["type"], shape["coordinates"]]}

    raise checks.type_error(
        column,
        f"must have levels that are text, numbers, dates or tuples of these to be saved, "
        f"got {checks.describe(label)}; rename them",
    )


def _encoded_date(label: Any) -> dict[str, Any] | None:
    """A decimal number or a date as JSON knows it; None for other labels."""
    if isinstance(label, Decimal):
        return {"decimal": str(label)}
    if isinstance(label, np.datetime64):
        return {"datetime64": [str(label), np.datetime_data(label.dtype)[0]]}
    if hasattr(label, "to_datetime64") and hasattr(label, "unit"):
        zone = None if label.tz is None else str(label.tz)
        return {"timestamp": [int(label.asm8.astype(np.int64)), label.unit, zone]}
    if isinstance(label, datetime.datetime) and label.tzinfo is None:
        return {"datetime": label.isoformat()}
    if isinstance(label, datetime.date) and not isinstance(label, datetime.datetime):
        return {"date": label.isoformat()}
    return None


def decoded_labels(records: Any) -> list[Any]:
    """The labels that `encoded_labels` was given; an error for other records."""
    if not isinstance(records, list):
        raise ValueError("its levels are no list")
    return [_decoded(each) for each in records]


def _decoded(record: Any) -> Any:
    if not isinstance(record, dict):
        if isinstance(record, list) or (isinstance(record, float) and record != record):
            raise ValueError(f"it has a level {checks.describe(record)}")
        return record

    ((kind, value),) = record.items()
    if kind in ("tuple", "list"):
        return {"tuple": tuple, "list": list}[kind](decoded_labels(value))
    if kind == "weights":
        return {_decoded(label): checks.number("weight", weight) for label, weight in value}
    if kind == "decimal":
        made = Decimal(value)
        if not -400 <= made.adjusted() <= 400:
            raise ValueError("it has a number outside the range of float64")
        return made
    if kind == "datetime64":
        unit = checks.choice("unit", value[1], _UNITS)
        return np.array(value[0], dtype=f"datetime64[{unit}]")[()]
    if kind == "timestamp":
        return _timestamp(*value)
    if kind == "geometry":
        return _geometry(*value)
    if kind in ("datetime", "date"):
        return {"datetime": datetime.datetime, "date": datetime.date}[kind].fromisoformat(value)
    raise ValueError(f"it has a level of kind {kind!r}")


def _timestamp(number: Any, unit: Any, zone: Any) -> Any:
    """The date of pandas at a count of units since 1970."""
    import pandas

    unit = checks.choice("unit", unit, _UNITS[6:])
    count = np.array(checks.integer("timestamp", number)).astype(f"datetime64[{unit}]")[()]
    if np.isnat(count) or not (zone is None or _OFFSET.fullmatch(zone) or zone in _zones()):
        raise ValueError("it has a date or a time zone that is none")
    made = pandas.Timestamp(count).as_unit(unit)
    return made if zone is None else made.tz_localize("UTC").tz_convert(zone)


def _geometry(kind: Any, coordinates: Any) -> Any:
    """The geometry of shapely with these coordinates, once it is one."""
    shapely = lazy.need("shapely", "labels that are geometries")
    checks.choice("geometry", kind, _GEOMETRIES)
    try:
        made = shapely.geometry.shape({"type": kind, "coordinates": coordinates})
    except (TypeError, ValueError, LookupError, AttributeError, shapely.errors.ShapelyError):
        raise ValueError(f"it has a geometry that is none, of type {kind}") from None
    if made.is_empty or not np.isfinite(shapely.get_coordinates(made)).all():
        raise ValueError("it has a geometry without coordinates")
    return made


@functools.cache
def _zones() -> set[str]:
    """Names of time zones, since other texts can name files."""
    return zoneinfo.available_timezones()
