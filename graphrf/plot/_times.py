"""Signals through time: a node's series with its uncertainty, and moving maps."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from graphrf._base import checks
from graphrf.plot._given import deviations, finite_range
from graphrf.plot._maps import drawn_signal
from graphrf.plot._style import (
    COLOURS,
    GREY,
    GRID,
    VALUES,
    inches,
    legend_above,
    new_axes,
    open_frame,
    require_matplotlib,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from graphrf.graph.graph import Graph

_DEVIATIONS = 1.959963984540054  # within which a Gaussian value is with probability 0.95
_GAP = "#f0f0f0"
_DAYS = 2  # of more, an axis of hours counts days


def plot_series(
    times: ArrayLike,
    mean: ArrayLike,
    deviation: ArrayLike | None = None,
    *,
    observed: ArrayLike | None = None,
    truth: ArrayLike | None = None,
    ax: Axes | None = None,
    label: str = "value",
) -> Axes:
    """The series of one node: posterior mean with 95 % band, readings, and gaps of these.

    Parameters
    ----------
    times : array_like, shape (T,)
        Hours or dates (datetime64), increasing; the axis shows more than two days of hours as days.
    mean, deviation : array_like of float, shape (T,)
        Use `predict(..., return_std="observation")` for bands that contain readings; no
        `deviation`, no band.
    observed : array_like of float, shape (T,), optional
        Readings as dots, NaN in gaps, which are shaded grey; so is what comes after the last
        reading.
    truth : array_like of float, shape (T,), optional
        What was held back in gaps, as open dots there.
    ax : matplotlib.axes.Axes, optional
    label : str
        Label of the vertical axis, with the unit.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import numpy as np
    >>> from graphrf.plot import plot_series
    >>> ax = plot_series(
    ...     np.arange(4.0), [1.0, 2.0, 3.0, 4.0], np.ones(4), observed=[1.1, np.nan, 2.9, np.nan]
    ... )
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['no reading', '95 % interval', 'mean', 'reading']
    """
    stamps = _increasing(times)
    arrays = {"mean": mean, "deviation": deviation, "observed": observed, "truth": truth}
    values = {
        name: np.asarray(some, dtype=np.float64)
        for name, some in arrays.items()
        if some is not None
    }

    for name, some in values.items():
        if some.shape != stamps.shape:
            raise checks.value_error(
                name, f"must have a value for each time, shape {stamps.shape}, got {some.shape}"
            )
    if deviation is not None:
        deviations(deviation, stamps.shape)

    ax = new_axes(ax, (7.2, 3.2))
    seen = ~np.isnan(values["observed"]) if observed is not None else np.ones(stamps.size, bool)
    _shade_gaps(ax, stamps, seen)
    if deviation is not None:
        low, high = (values["mean"] + sign * _DEVIATIONS * values["deviation"] for sign in (-1, 1))
        ax.fill_between(
            stamps,
            low,
            high,
            color=COLOURS[0],
            alpha=0.22,
            linewidth=0,
            label="95 % interval",
            zorder=1,
        )
    ax.plot(stamps, values["mean"], color=COLOURS[0], linewidth=1.4, label="mean", zorder=3)

    if observed is not None and seen.any():
        ax.plot(
            stamps[seen],
            values["observed"][seen],
            ".",
            color="black",
            markersize=3,
            label="reading",
            zorder=4,
        )

    if truth is not None:
        hidden = ~np.isnan(values["truth"]) & ~(
            seen if observed is not None else np.zeros_like(seen)
        )
        ax.plot(
            stamps[hidden],
            values["truth"][hidden],
            "o",
            color=COLOURS[1],
            markersize=3,
            fillstyle="none",
            markeredgewidth=0.7,
            label="held back" if hidden.any() else None,
            zorder=4,
        )

    _label_times(ax, stamps)
    ax.set_xlim(stamps[0], stamps[-1])
    ax.set_ylabel(label)
    _finish(ax)
    return ax


def plot_forecast(
    times: ArrayLike,
    quantiles: Any,
    *,
    levels: Sequence[float] | None = None,
    observed: ArrayLike | None = None,
    truth: ArrayLike | None = None,
    start: Any = None,
    ax: Axes | None = None,
    label: str = "value",
    xlabel: str = "",
) -> Axes:
    """A forecast as bands around its median, after the observations that it continues.

    Parameters
    ----------
    times : array_like, shape (T,)
        Years, other numbers or dates (datetime64), increasing.
    quantiles : DataFrame, or array_like of float, shape (T, q)
        As `predict(..., quantiles=..., as_frame=True)` returns them, say for the levels 0.025, 0.1,
        0.5, 0.9 and 0.975: pairs of levels are bands, and 0.5 is a line. With
        `return_std="observation"` the bands hold observations.
    levels : sequence of float, optional
        The levels of the columns. Default: the titles of the data frame.
    observed, truth : array_like of float, shape (T,), optional
        Observations as dots, NaN where there is none, and what came later, as open dots.
    start : number or date, optional
        The first time of the forecast, which a line separates from the fit. Default: the time after
        the last observation.
    ax : matplotlib.axes.Axes, optional
    label, xlabel : str
        Labels of the vertical axis, with the unit, and of that of times.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ValueError
        For shapes that do not match, and levels that are no pairs around 0.5.

    Examples
    --------
    >>> import numpy as np
    >>> from graphrf.plot import plot_forecast
    >>> years, middle = np.arange(2020, 2026), np.array([3.0, 4.0, 4.5, 5.0, 5.5, 6.0])
    >>> bands = middle[:, None] + np.outer([0.2, 0.2, 0.2, 0.5, 1.0, 1.5], [-2, -1.3, 0, 1.3, 2])
    >>> levels, cases = [0.025, 0.1, 0.5, 0.9, 0.975], [3.1, 3.8, 4.6, np.nan, np.nan, np.nan]
    >>> ax = plot_forecast(years, bands, levels=levels, observed=cases)
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['95 % interval', '80 % interval', 'median', 'observed']
    """
    stamps = _increasing(times)
    found = _levels(quantiles, levels)
    table = np.asarray(quantiles, dtype=np.float64)
    if table.shape != (stamps.size, len(found)):
        raise checks.value_error(
            "quantiles",
            f"must have a row for each time and a column for each level, shape ({stamps.size}, "
            f"{len(found)}), got {table.shape}",
        )
    points = {
        name: np.asarray(some, dtype=np.float64)
        for name, some in (("observed", observed), ("truth", truth))
        if some is not None
    }
    for name, some in points.items():
        if some.shape != stamps.shape:
            raise checks.value_error(
                name, f"must have a value for each time, shape {stamps.shape}, got {some.shape}"
            )

    ax = new_axes(ax, (5.2, 3.2))
    _draw_bands(ax, stamps, table, found)
    for name, some in points.items():
        own: dict[str, Any] = (
            {"color": "black"} if name == "observed" else {"color": COLOURS[1], "fillstyle": "none"}
        )
        title = "observed" if name == "observed" else "later"
        ax.plot(stamps, some, "o", markersize=3, markeredgewidth=0.7, label=title, zorder=4, **own)
    _mark_start(ax, stamps, points.get("observed"), start)

    if stamps.dtype.kind == "M":
        _label_times(ax, stamps)
    elif stamps.dtype.kind in "iu":
        from matplotlib.ticker import MaxNLocator

        ax.xaxis.set_major_locator(MaxNLocator(max(3, int(1.6 * inches(ax))), integer=True))
    ax.set(xlabel=xlabel, ylabel=label)
    # Points at the ends are whole.
    ax.margins(x=0.02)
    _finish(ax)
    return ax


def _draw_bands(ax: Axes, stamps: np.ndarray, table: np.ndarray, levels: list[float]) -> None:
    """Bands between pairs of quantiles, darker inside, and the median if there is one."""
    order = np.argsort(levels)
    pairs = [(order[k], order[-1 - k]) for k in range(len(levels) // 2)]
    for number, (low, high) in enumerate(pairs):
        ax.fill_between(
            stamps,
            table[:, low],
            table[:, high],
            color=COLOURS[0],
            alpha=0.16 + 0.10 * number,
            linewidth=0,
            label=f"{100 * (levels[high] - levels[low]):.3g} % interval",
            zorder=1,
        )
    if len(levels) % 2:
        middle = table[:, order[len(levels) // 2]]
        ax.plot(stamps, middle, color=COLOURS[0], linewidth=1.4, label="median", zorder=3)


def _levels(quantiles: Any, levels: Sequence[float] | None) -> list[float]:
    """The levels of columns: pairs around 0.5, and that one or not."""
    given = getattr(quantiles, "columns", ()) if levels is None else levels
    try:
        found = [float(level) for level in given]
    except (TypeError, ValueError):
        found = []
    ends = np.sort(found)
    if len(found) < 2 or (np.abs(ends + ends[::-1] - 1) > 1e-9).any() or ends[0] <= 0:
        name = "quantiles" if levels is None else "levels"
        raise checks.value_error(
            name,
            "must be of pairs of levels around 0.5, such as (0.025, 0.1, 0.5, 0.9, 0.975), got "
            f"{list(given)}: predict(..., quantiles=..., as_frame=True), or `levels` of an array",
        )
    return found


def _mark_start(ax: Axes, stamps: np.ndarray, observed: np.ndarray | None, start: Any) -> None:
    """A line between the fit and the forecast."""
    at = np.flatnonzero(~np.isnan(observed)) if observed is not None else np.empty(0, dtype=int)
    if start is None:
        if not at.size or at[-1] + 1 >= stamps.size:
            return
        here = stamps[at[-1]] + (stamps[at[-1] + 1] - stamps[at[-1]]) / 2
    else:
        here = np.asarray(start, dtype=stamps.dtype)[()] if stamps.dtype.kind == "M" else start
    ax.axvline(here, color=GREY, linestyle=(0, (4, 3)), linewidth=1, zorder=2)


def _finish(ax: Axes) -> None:
    """The grid, a legend above the axes, and an open frame."""
    ax.grid(color=GRID, linewidth=0.8)
    ax.set_axisbelow(True)
    legend_above(ax)
    open_frame(ax)


def _increasing(times: ArrayLike) -> np.ndarray:
    """The times, which must be hours or dates in order."""
    stamps = np.asarray(times)
    if stamps.ndim != 1 or not stamps.size or stamps.dtype.kind not in "iufM":
        raise checks.value_error(
            "times",
            f"must be hours or dates (datetime64), shape (T,), got {checks.describe(stamps)}",
        )
    if (stamps[1:] <= stamps[:-1]).any():
        raise checks.value_error("times", "must increase: sort them, and what belongs to them")
    return stamps


def _shade_gaps(ax: Axes, stamps: np.ndarray, seen: np.ndarray) -> None:
    """Shade times without readings, from reading to reading, and to the ends of the axis."""
    label: str | None = "no reading"
    for first, last in _runs(~seen):
        start, stop = stamps[max(first - 1, 0)], stamps[min(last + 1, stamps.size - 1)]
        ax.axvspan(start, stop, color=_GAP, linewidth=0, zorder=0, label=label)
        label = None


def _label_times(ax: Axes, stamps: np.ndarray) -> None:
    """Ticks of dates, days or hours."""
    if stamps.dtype.kind == "M":
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator = AutoDateLocator()
        ax.xaxis.set_major_locator(locator)
        ax.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    elif np.ptp(stamps) > _DAYS * 24:
        from matplotlib.ticker import MaxNLocator

        days = np.asarray(MaxNLocator(8, integer=True).tick_values(stamps[0] / 24, stamps[-1] / 24))
        ax.set_xticks(24 * days, [f"{day:g}" for day in days])
        ax.set_xlabel("time (days)")
    else:
        ax.set_xlabel("time (hours)")


def animate_map(
    path: str | os.PathLike[str],
    coordinates: ArrayLike,
    edges: Graph | ArrayLike,
    values: ArrayLike,
    *,
    titles: Sequence[str] | None = None,
    label: str = "",
    cmap: str = VALUES,
    limits: tuple[float, float] | None = None,
    marked: ArrayLike | None = None,
    geographic: bool = False,
    frames_per_second: int = 8,
    size: tuple[float, float] = (6.0, 5.0),
) -> None:
    """A map that moves through time, written as a GIF, or as an MP4 where ffmpeg is installed.

    Parameters
    ----------
    path : path
        Ends in .gif or .mp4. The file appears whole or not at all, and replaces what was there.
    coordinates, edges, label, cmap, marked, geographic
        See `plot_graph_signal`.
    values : array_like of float, shape (T, N)
        Finite: predictions at each time. One frame for each row.
    titles : sequence of str, shape (T,), optional
        Titles of the frames, such as their times.
    limits : (low, high), optional
        Range of colours for all frames. Default: the range of all values.
    frames_per_second : int
    size : (width, height)
        Inches, of 100 pixels each.

    Raises
    ------
    ValueError
        For values that are not finite, other endings, and .mp4 without ffmpeg.

    Notes
    -----
    A frame takes about 0.1 s for a thousand nodes, and an animation of 200 frames some MB.

    Examples
    --------
    >>> import numpy as np
    >>> from graphrf.plot import animate_map
    >>> places, roads = [[0, 0], [1, 0], [1, 1]], [[0, 1], [1, 2]]
    >>> speeds = 30 + np.arange(12.0).reshape(4, 3)
    >>> animate_map(
    ...     path, places, roads, speeds, titles=["6:00", "7:00", "8:00", "9:00"]
    ... )  # doctest: +SKIP
    """
    require_matplotlib()
    target = Path(checks.path("path", path))
    frames = np.asarray(values, dtype=np.float64)
    if frames.ndim != 2 or not frames.size:
        raise checks.value_error(
            "values", f"must have shape (T, N), neither of them 0, got {frames.shape}"
        )
    if not np.isfinite(frames).all():
        raise checks.value_error(
            "values", "must be finite: predictions, which have no gaps, not readings"
        )
    if titles is not None and len(titles) != len(frames):
        raise checks.value_error(
            "titles", f"must have one for each of {len(frames)} frames, got {len(titles)}"
        )

    rate = checks.integer("frames_per_second", frames_per_second, low=1, high=100)
    writer = _writer(target, rate)
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    ax = figure.add_subplot()
    ends = limits or finite_range(frames)
    _, change = drawn_signal(
        coordinates, edges, frames[0], ax, label, cmap, ends, marked, geographic, ""
    )

    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        whole = os.path.join(folder, target.name)
        with writer.saving(figure, whole, dpi=100):
            for number, frame in enumerate(frames):
                change(frame)
                if titles is not None:
                    ax.set_title(titles[number], color=GREY)
                writer.grab_frame()
                if number == 0:  # nothing moves but the colours
                    figure.set_layout_engine("none")
        os.replace(whole, target)


def _writer(path: Path, rate: int) -> Any:
    """Animation writer for the file's ending."""
    from matplotlib.animation import FFMpegWriter, PillowWriter

    kind = path.suffix.lower()
    if kind not in (".gif", ".mp4"):
        raise checks.value_error("path", f"must end in .gif or .mp4, got {str(path)!r}")
    if not path.parent.is_dir():
        raise checks.value_error("path", f"must be in an existing folder, got {str(path)!r}")
    if kind == ".gif":
        return PillowWriter(fps=rate)
    if not FFMpegWriter.isAvailable():
        raise checks.value_error(
            "path",
            "must end in .gif on this machine: .mp4 needs the program ffmpeg, which is not "
            "installed",
        )
    return FFMpegWriter(fps=rate)


def _runs(flags: np.ndarray) -> list[tuple[int, int]]:
    """First and last positions of the runs of True."""
    turns = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(int)))
    return [(int(first), int(after) - 1) for first, after in turns.reshape(-1, 2)]
