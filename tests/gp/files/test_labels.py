"""Labels of levels in files: what is written is read as it was, or refused when written."""

import datetime
import json
from decimal import Decimal

import numpy as np
import pytest

from graphrf.gp.files.labels import decoded_labels, encoded_labels

pandas = pytest.importorskip("pandas")

LABELS = [
    "text",
    "",
    "Köln",
    3,
    -1.5,
    True,
    None,
    10**30,
    Decimal("0.1"),
    ("a", 1),
    (("a", 2), "b"),
    [1, "b"],
    {"a": 0.25, ("b", 1): 0.75},
    datetime.date(1600, 2, 29),
    datetime.datetime(2024, 3, 31, 2, 30, 0, 5),
    np.datetime64("1600-01-01", "s"),
    np.datetime64("2024", "Y"),
    pandas.Timestamp("2024-03-31 01:30"),
    pandas.Timestamp("1600-01-01").as_unit("s"),
    pandas.Timestamp("2024-03-31 03:30", tz="Europe/Berlin"),
    pandas.Timestamp("2024-10-27 00:30", tz="UTC").tz_convert("Europe/Berlin"),
    pandas.Timestamp("2024-03-31 03:30:00.123456789", tz="UTC"),
    pandas.Timestamp("2024-03-31 03:30+02:00"),
]


@pytest.mark.parametrize("label", LABELS, ids=repr)
def test_labels_are_read_as_they_were_written(label):
    (found,) = decoded_labels(json.loads(json.dumps(encoded_labels("column", [label]))))
    assert found == label
    assert type(found) is type(label)
    if not isinstance(label, list | dict):
        assert hash(found) == hash(label)
    if hasattr(label, "tz"):
        assert (found.tz is None) == (label.tz is None)
        assert found.isoformat() == label.isoformat()


def test_numbers_of_numpy_are_those_of_python():
    assert encoded_labels("column", [np.int64(3), np.str_("a"), np.bool_(True)]) == [3, "a", True]


OTHERS = [object(), 1j, b"bytes", {1, 2}, datetime.time(3), pandas.Interval(0, 1)]


@pytest.mark.parametrize("label", OTHERS, ids=lambda own: type(own).__name__)
def test_other_labels_are_refused_with_their_column(label):
    with pytest.raises(
        TypeError, match="`district` must have levels that are text, numbers, dates or tuples"
    ):
        encoded_labels("district", [label])


@pytest.mark.parametrize(
    "label", [("a", np.nan), Decimal("1e999"), pandas.NaT, float("nan")], ids=repr
)
def test_labels_that_could_not_be_read_again_are_refused(label):
    with pytest.raises(
        (TypeError, ValueError), match=r"`district` (cannot be saved|must have levels)"
    ):
        encoded_labels("district", [label])


@pytest.mark.parametrize(
    "record",
    [
        {"lambda": "x"},
        {"tuple": 3},
        {"tuple": [], "list": []},
        {},
        [["a"]],
        {"decimal": "1e999999999"},
        {"decimal": "x"},
        {"date": "yesterday"},
        {"datetime64": ["2024", "fortnight"]},
        {"datetime64": ["x", "D"]},
        {"timestamp": [0, "s", "../../etc/passwd"]},
        {"timestamp": [0, "s", "dateutil//etc/passwd"]},
        {"timestamp": [2**70, "s", None]},
        {"timestamp": [-(2**63), "ns", None]},
        {"timestamp": [1.5, "s", None]},
        {"timestamp": [0, "parsec", None]},
        {"weights": [["a", "b"]]},
        float("nan"),
    ],
    ids=str,
)
def test_records_of_no_label_are_refused(record):
    with pytest.raises((ValueError, TypeError, ArithmeticError)):
        decoded_labels([record])


def test_levels_are_a_list():
    with pytest.raises(ValueError, match="no list"):
        decoded_labels({"text": "a"})
