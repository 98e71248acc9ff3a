"""Places of ordered labels on a line (dates in days), the usual step, and levels apart."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Sequence
from datetime import UTC, date, datetime, tzinfo
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from graphrf._base import checks
from graphrf._base.warn import warn
from graphrf.gp.model.dates import refuse_written_dates

# How near to each other levels of one grid are read as one, and how near to the grid they must be,
# in steps.
NEAR = 1e-3
# The same for levels that are not on a grid: nearer ones make the precision numerically singular in
# float64.
SAME = 1e-6


class Ruler(NamedTuple):
    """The numbers of ordered labels, from the first label of a fit on."""

    column: str
    dates: bool
    origin: Any  # a number, or a day
    zone: tzinfo | None  # that of the clock on which dates with zones are read
    rounding: float  # of places

    @classmethod
    def of(cls, column: str, labels: Sequence[Hashable]) -> Ruler:
        """The ruler of the labels of a fit.

        Dates with zones count in UTC; where all show the same time of day on one clock, they are
        days of this clock, of which one lasts 23 hours and another one 25.
        """
        dates, zone = isinstance(labels[0], date | np.datetime64), None
        if not dates:
            values = [_number(column, each) for each in labels]
            refuse_written_dates(column, labels, f"frame[{column!r}]")
            # Integers are exact.
            largest = max((abs(each) for each in values if isinstance(each, float)), default=0.0)
            rounding = 16 * float(np.finfo(float).eps) * largest
            return cls(column, dates, values[0], zone, rounding)

        clocks = {(str(each.tzinfo), each.time()) for each in labels if isinstance(each, datetime)}
        if getattr(labels[0], "tzinfo", None) is not None:
            zone = labels[0].tzinfo if len(clocks) == 1 else UTC  # type: ignore[attr-defined]

        made = cls(column, dates, np.datetime64(0, "D"), zone, 0.0)
        return made._replace(origin=made._instant(labels[0]).astype("datetime64[D]"))

    def places(self, labels: Sequence[Hashable]) -> np.ndarray:
        """Places of labels, shape (len(labels),): differences from the origin, dates in days."""
        if not self.dates:
            values = [_number(self.column, each) - self.origin for each in labels]
            return checks.finite(self.column, np.array(values, dtype=np.float64))

        instants = [self._instant(each) for each in labels]
        days = [each.astype("datetime64[D]") for each in instants]
        rest = [
            (each - day) / np.timedelta64(1, "D") for each, day in zip(instants, days, strict=True)
        ]
        return (np.array(days) - self.origin).astype(np.float64) + np.array(rest)

    def _instant(self, label: Any) -> np.datetime64:
        """A date as numpy has it, in its own unit."""
        if not isinstance(label, date | np.datetime64):
            raise checks.type_error(
                self.column, f"must hold dates in all rows, got {checks.describe(label)}"
            )

        aware = getattr(label, "tzinfo", None) is not None
        if aware != (self.zone is not None):
            raise checks.type_error(
                self.column,
                f"must hold dates with a time zone in all rows or in none, got {label}: take "
                ".dt.tz_localize",
            )
        if aware:
            label = label.astimezone(self.zone).replace(tzinfo=None)  # type: ignore[union-attr]

        own: np.datetime64 = (
            label.to_datetime64() if hasattr(label, "to_datetime64") else np.datetime64(label)
        )
        return own


class Spacing(NamedTuple):
    """Levels on a line: increasing `places` in units of a `step`, and the level of each label."""

    step: float
    equal: bool  # places are whole numbers
    places: np.ndarray
    level: np.ndarray
    first: float  # the place of the first level, in the units of the column
    # Levels that are not on a grid are one where they are nearer to each other than this, in steps.
    same: float

    @classmethod
    def of(cls, ruler: Ruler, places: np.ndarray, *, finest: bool, same: float) -> Spacing:
        """The levels of places that increase.

        The step is the lower quartile of the gaps, or the `finest` gap; gaps that are below a
        thousandth of the upper quartile have no part in it, so that a reading a second late among
        daily ones does not change it. Levels nearer than `NEAR` to each other on a grid of this
        step are one.
        """
        gaps = np.diff(places)
        apart = gaps[gaps > ruler.rounding]
        if not apart.size:
            return cls(
                1.0, True, np.zeros(1), np.zeros(places.size, dtype=int), float(places[0]), same
            )

        wide = apart[apart > NEAR * np.quantile(apart, 0.75, method="lower")]
        step = float(wide.min() if finest else np.quantile(wide, 0.25, method="lower"))

        grid = np.concatenate([[0.0], np.cumsum(np.round(gaps / step))])
        fitted = float(places[-1] - places[0]) / max(grid[-1], 1.0)
        if (np.abs(places - places[0] - fitted * grid) <= NEAR * fitted).all():
            step, in_steps, equal, new = fitted, grid, True, np.diff(grid) > 0
        else:
            in_steps, equal = (places - places[0]) / step, False
            new = gaps > max(same * step, ruler.rounding)

        if merged := int((~new & (gaps > max(SAME * step, ruler.rounding))).sum()):
            warn(
                f"`{ruler.column}`: {merged} of {places.size} levels are within a thousandth of a "
                "step from others, and are read as one with these; round the column to have other "
                "levels"
            )

        level = np.concatenate([[0], np.cumsum(new)]).astype(int)
        return cls(
            step, equal, in_steps[np.concatenate([[True], new])], level, float(places[0]), same
        )

    def on(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Places in steps, and the level that each is read as, or -1."""
        own = (places - self.first) / self.step
        whole = np.round(own)
        if self.equal:
            own = np.where(np.abs(own - whole) <= NEAR, whole, own)

        after = np.clip(np.searchsorted(self.places, own), 1, self.places.size - 1)
        nearest = after - (own - self.places[after - 1] < self.places[after] - own)
        known = np.abs(own - self.places[nearest]) <= (SAME if self.equal else self.same)
        return own, np.where(known, nearest, -1)


def _number(column: str, label: Any) -> Any:
    """A label as a number of Python, integers exactly."""
    if not isinstance(label, Real | Decimal):
        hint = "; pandas.to_datetime makes dates of text" if isinstance(label, str) else ""
        raise checks.type_error(
            column, f"must hold numbers or dates for Steps, got {label!r}{hint}"
        )
    value = int(label) if isinstance(label, Integral) else float(label)
    if not abs(value) <= sys.float_info.max:
        raise checks.value_error(column, f"must be finite, got {checks.describe(label)}")
    return value
