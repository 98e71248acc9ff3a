"""Series with their bands and gaps, and maps that move."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="figures need the extra `plot`")

from graphrf import plot

TIMES = np.arange(6.0)
MEAN = TIMES**2
READINGS = np.array([np.nan, 1.0, np.nan, np.nan, 16.0, np.nan])
PLACES, ROADS = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]]), [[0, 1], [1, 2]]
SPEEDS = 30 + np.arange(12.0).reshape(4, 3)


def labelled(ax, label):
    return next(artist for artist in ax.get_children() if artist.get_label() == label)


def drawn(ax) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    FigureCanvasAgg(ax.figure).draw()


def test_a_series_shows_mean_band_readings_and_gaps():
    truth = MEAN + 0.5
    ax = plot.plot_series(
        TIMES, MEAN, np.full(6, 2.0), observed=READINGS, truth=truth, label="speed (mph)"
    )
    np.testing.assert_array_equal(labelled(ax, "mean").get_ydata(), MEAN)
    (band,) = labelled(ax, "95 % interval").get_paths()
    assert band.vertices[:, 1].max() == pytest.approx(25 + 1.96 * 2, abs=1e-3)
    np.testing.assert_array_equal(labelled(ax, "reading").get_xydata(), [[1, 1], [4, 16]])
    np.testing.assert_array_equal(labelled(ax, "held back").get_xdata(), [0, 2, 3, 5])
    spans = [(patch.get_x(), patch.get_x() + patch.get_width()) for patch in ax.patches]
    assert spans == [(0, 1), (1, 4), (4, 5)]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("time (hours)", "speed (mph)")
    drawn(ax)


def test_a_series_of_dates_without_readings():
    dates = np.datetime64("2024-05-06T00") + np.arange(6)
    ax = plot.plot_series(dates, MEAN)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["mean"]
    assert not ax.patches
    drawn(ax)
    assert ax.get_xlabel() == ""
    assert any(
        "06:00" in text.get_text() or "May" in text.get_text() for text in ax.get_xticklabels()
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"times": TIMES[::-1]}, "`times` must increase"),
        ({"times": list("abcdef")}, "hours or dates"),
        ({"deviation": np.ones(5)}, r"`deviation` must have a value for each time, shape \(6,\)"),
        ({"observed": np.ones((6, 1))}, "`observed`"),
    ],
)
def test_bad_series(arguments, message):
    with pytest.raises(ValueError, match=message):
        plot.plot_series(**{"times": TIMES, "mean": MEAN, **arguments})


def test_an_animation_has_a_frame_for_each_time(tmp_path):
    from PIL import Image

    path = tmp_path / "speeds.gif"
    plot.animate_map(
        path, PLACES, ROADS, SPEEDS, titles=list("abcd"), frames_per_second=10, size=(3, 2.5)
    )
    assert [file.name for file in tmp_path.iterdir()] == ["speeds.gif"]
    with Image.open(path) as image:
        assert (image.n_frames, image.size, image.info["duration"]) == (4, (300, 250), 100)
        frames = []
        for number in range(4):
            image.seek(number)
            frames.append(np.asarray(image.convert("RGB")).astype(int))
    assert all(np.abs(one - two).max() > 50 for one, two in itertools.pairwise(frames))


def test_colours_of_a_frame_are_those_of_its_values(tmp_path):
    """The last frame, all of the largest value, holds its colour, not the smallest's."""
    from matplotlib import colormaps
    from PIL import Image

    values = np.array([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    plot.animate_map(tmp_path / "a.gif", PLACES, ROADS, values, size=(3, 2.5))
    with Image.open(tmp_path / "a.gif") as image:
        for number in range(2):
            image.seek(number)
            pixels = np.asarray(image.convert("RGB")).astype(int)[:180]  # without the colour bar
            near = [
                (
                    np.abs(pixels - np.array(colormaps["viridis"](end)[:3]) * 255).max(axis=2) < 12
                ).sum()
                for end in (0.0, 1.0)
            ]
            assert near[number] > 50 > near[1 - number]


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("a.png", {}, "`path` must end in .gif or .mp4"),
        ("missing/a.gif", {}, "existing folder"),
        ("a.gif", {"values": np.where(SPEEDS > 40, np.nan, SPEEDS)}, "`values` must be finite"),
        ("a.gif", {"values": SPEEDS[0]}, r"shape \(T, N\)"),
        ("a.gif", {"values": SPEEDS[:, :2]}, "one entry per node"),
        ("a.gif", {"titles": ["a"]}, "`titles` must have one for each of 4"),
        ("a.gif", {"frames_per_second": 0}, "`frames_per_second`"),
    ],
)
def test_bad_animations(tmp_path, name, arguments, message):
    with pytest.raises(ValueError, match=message):
        plot.animate_map(
            tmp_path / name, **{"coordinates": PLACES, "edges": ROADS, "values": SPEEDS} | arguments
        )
    assert not list(tmp_path.iterdir())


def test_films_are_written_by_ffmpeg(tmp_path, monkeypatch):
    from matplotlib import rc_context
    from matplotlib.animation import FFMpegWriter

    program = tmp_path / "ffmpeg"  # writes the raw pixels that it is given to its last argument
    program.write_text("#!/bin/sh\nfor last; do :; done\ncat > $last\n")
    program.chmod(0o755)
    with rc_context({"animation.ffmpeg_path": str(program)}):
        plot.animate_map(tmp_path / "a.mp4", PLACES, ROADS, SPEEDS, size=(3, 2))
    assert (tmp_path / "a.mp4").stat().st_size == 4 * 300 * 200 * 4
    monkeypatch.setattr(FFMpegWriter, "isAvailable", lambda: False)
    with pytest.raises(ValueError, match=r"must end in \.gif on this machine.*ffmpeg"):
        plot.animate_map(tmp_path / "b.mp4", PLACES, ROADS, SPEEDS)


def test_the_legend_names_what_is_drawn():
    gaps = np.full(4, np.nan)
    ax = plot.plot_series(np.arange(4.0), np.ones(4), observed=gaps, truth=gaps)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["no reading", "mean"]


def test_more_than_two_days_of_hours_are_shown_as_days():
    ax = plot.plot_series(np.arange(60.0, 169.0), np.ones(109))
    labels = {
        label.get_text(): tick
        for label, tick in zip(ax.get_xticklabels(), ax.get_xticks(), strict=True)
    }
    assert ax.get_xlabel() == "time (days)"
    assert (labels["3"], labels["7"]) == (72, 168)
    assert ax.get_xlim() == (60, 168)
    assert plot.plot_series(np.arange(48.0), np.ones(48)).get_xlabel() == "time (hours)"


YEARS = np.arange(2018, 2026)
BANDS = np.arange(8.0)[:, None] + np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
LEVELS = [0.025, 0.1, 0.5, 0.9, 0.975]


def test_a_forecast_has_nested_bands_and_begins_after_the_last_observation():
    seen = np.where(YEARS < 2023, np.arange(8.0), np.nan)
    ax = plot.plot_forecast(YEARS, BANDS, levels=LEVELS, observed=seen, truth=np.arange(8.0) + 1)
    wide, narrow = ax.collections
    assert [path.get_label() for path in (wide, narrow)] == ["95 % interval", "80 % interval"]
    for band, away in ((wide, 2), (narrow, 1)):
        vertices = band.get_paths()[0].vertices
        assert (vertices[:, 1].min(), vertices[:, 1].max()) == (-away, 7 + away)
    median, observed, later, start = ax.get_lines()
    np.testing.assert_array_equal(median.get_ydata(), np.arange(8.0))
    np.testing.assert_array_equal(observed.get_ydata(), seen)
    assert later.get_fillstyle() == "none"
    assert start.get_xdata() == [2022.5, 2022.5]


def test_the_levels_of_a_data_frame_are_its_titles():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(BANDS[:, [3, 2, 1]], columns=["0.9", "0.5", "0.1"])
    ax = plot.plot_forecast(YEARS, table, start=2024)
    np.testing.assert_array_equal(ax.get_lines()[0].get_ydata(), np.arange(8.0))
    assert ax.collections[0].get_label() == "80 % interval"
    assert ax.get_lines()[1].get_xdata() == [2024, 2024]


def test_forecasts_along_dates_have_ticks_of_dates():
    days = np.datetime64("2024-01-01") + np.arange(8)
    ax = plot.plot_forecast(days, BANDS, levels=LEVELS, start="2024-01-05")
    assert type(ax.xaxis.get_major_formatter()).__name__ == "ConciseDateFormatter"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"levels": [0.1, 0.5, 0.8]}, "`levels` must be of pairs of levels around 0.5"),
        ({"levels": None}, "`quantiles` must be of pairs of levels"),
        ({"levels": [0.1, 0.9]}, r"shape \(8, 2\), got \(8, 5\)"),
        ({"observed": [1.0]}, "`observed` must have a value for each time"),
    ],
)
def test_bad_forecasts(arguments, message):
    with pytest.raises(ValueError, match=message):
        plot.plot_forecast(YEARS, BANDS, **{"levels": LEVELS, **arguments})
