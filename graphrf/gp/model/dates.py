"""Dates that are written as integers, whose differences are no times."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from numbers import Real
from typing import Any

from graphrf._base import checks

# The forms of written dates, by their digits.
_FORMS = {6: "%Y%m", 8: "%Y%m%d", 10: "%Y%m%d%H", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}


def refuse_written_dates(name: str, values: Sequence[Any], spelling: str) -> None:
    """ValueError for numbers that are all dates such as 20260131; `spelling` is how the user names
    the values.

    Numbers of six digits are years and months if these are of several years.
    """
    texts = [
        str(int(float(x))) if isinstance(x, Real) and float(x).is_integer() else "" for x in values
    ]
    digits = len(texts[0]) if texts else 0
    form = _FORMS.get(digits)
    if form is None or not all(len(text) == digits and _is_date(text, form) for text in texts):
        return
    if digits > 6 or len({text[:4] for text in texts}) > 1:
        raise checks.value_error(
            name,
            f"must be dates, or numbers whose differences are times, got {texts[0]}, which looks "
            "like a date: "
            f'pass pandas.to_datetime([f"{{t:.0f}}" for t in {spelling}], format="{form}")',
        )


def _is_date(text: str, form: str) -> bool:
    try:
        return 1800 <= datetime.strptime(text, form).year < 2200
    except ValueError:
        return False
