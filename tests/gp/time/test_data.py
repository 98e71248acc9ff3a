"""Times of `GraphTimeGPRegressor`: dates of any unit and zone, and numbers of no hours."""

import datetime
import warnings
import zoneinfo

import numpy as np
import pytest

from graphrf.gp.time.data import clock_of

pandas = pytest.importorskip("pandas")

NEW_YEARS = ["1600-01-01", "1970-01-01", "2026-01-01", "2500-01-01", "20000-01-01"]
HOURS = [
    24.0 * (np.datetime64(each) - np.datetime64(NEW_YEARS[0])).astype(int) for each in NEW_YEARS
]


@pytest.mark.parametrize("unit", ["Y", "M", "D", "h", "m", "s", "ms", "us"])
def test_dates_of_any_year_and_unit_are_hours_since_the_first(unit):
    dates = np.array(NEW_YEARS, dtype=f"datetime64[{unit}]")
    clock = clock_of(dates)
    np.testing.assert_array_equal(clock.hours(dates), HOURS)
    np.testing.assert_array_equal(clock.times(clock.hours(dates)), dates.astype("datetime64[us]"))
    assert clock.as_index(clock.hours(dates))[0].year == 1600


def test_dates_are_hours_to_the_nanosecond():
    steps = np.random.default_rng(0).integers(0, 10**18, 1_000)
    dates = np.sort(np.datetime64("1990-01-01T00", "ns") + steps.astype("timedelta64[ns]"))
    first = dates[0].astype("datetime64[D]").astype("datetime64[ns]")
    np.testing.assert_array_equal(
        clock_of(dates).hours(dates), (dates - first) / np.timedelta64(1, "h")
    )


@pytest.mark.parametrize(
    "dates",
    [[datetime.date(1600, 1, 1)], [datetime.datetime(1600, 1, 1)]],
    ids=["date", "datetime"],
)
def test_dates_of_python_may_be_of_any_year(dates):
    later = [dates[0], dates[0].replace(year=2600)]
    clock = clock_of(later)
    assert clock.times(clock.hours(later)).astype("datetime64[Y]").astype(str).tolist() == [
        "1600",
        "2600",
    ]


@pytest.mark.parametrize(
    "zone", ["Europe/Berlin", zoneinfo.ZoneInfo("America/New_York"), "UTC"], ids=str
)
@pytest.mark.parametrize("form", [lambda i: i, pandas.Series, list, lambda i: i.to_pydatetime()])
def test_hours_pass_evenly_where_clocks_change(zone, form):
    """Two days on which clocks are set, in autumn (twice an hour) and spring (none)."""
    for day in ("2024-10-27", "2024-11-03", "2024-03-10", "2024-03-31"):
        index = pandas.date_range(day, periods=30, freq="h", tz=zone)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            clock = clock_of(form(index))
            hours = clock.hours(form(index))
        np.testing.assert_array_equal(np.diff(hours), 1.0)
        assert clock.as_index(hours).equals(index)


def test_the_two_hours_of_an_autumn_night_are_one_hour_apart():
    zone = zoneinfo.ZoneInfo("Europe/Berlin")
    twice = [datetime.datetime(2024, 10, 27, 2, 30, tzinfo=zone, fold=fold) for fold in (0, 1)]
    assert np.diff(clock_of(twice).hours(twice)) == 1.0


@pytest.mark.parametrize(
    "written", ["202601", "20260131", "2026013112", "202601311230", "20260131123059"]
)
@pytest.mark.parametrize("form", [list, np.asarray, pandas.Index])
def test_dates_written_as_numbers_are_refused_with_what_reads_them(written, form):
    times = form([int(written), int(f"{int(written[:4]) - 1}{written[4:]}")])
    with pytest.raises(
        ValueError, match=r"`times` must be dates, or numbers .* looks like a date"
    ) as caught:
        clock_of(times)
    way_out = str(caught.value).split(": pass ")[1]
    read = eval(way_out, {"pandas": pandas, "times": times})
    assert read[0] == pandas.Timestamp(
        datetime.datetime(2026, 1, int(written[6:8] or 1), *_clock(written))
    )


def _clock(written):
    """Hour, minute and second of a written date."""
    return [int(written[k : k + 2]) for k in range(8, len(written), 2)]


@pytest.mark.parametrize(
    "hours", [np.arange(20260131.0, 20260180.0), [20260131.5], [202601.0, 202602.0], []]
)
def test_other_numbers_are_hours(hours):
    np.testing.assert_array_equal(clock_of(hours).hours(hours), hours)
