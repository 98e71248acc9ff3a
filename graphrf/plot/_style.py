"""Style shared by the figures: colours, type, frames, labels."""

from __future__ import annotations

import math
import sys
import textwrap
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np

from graphrf._base import checks, lazy
from graphrf.plot._given import finite_range

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Colours of lines and marks, distinct to colour-blind readers (Okabe and Ito 2008), the strongest
#: first.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
#: The colour map of values.
VALUES = "viridis"
#: The colour map of standard deviations, unlike that of values.
DEVIATIONS = "plasma"
MARKERS = "osD^vPX"
#: Of nodes, faces and roads without a value.
UNOBSERVED = (0.93, 0.93, 0.93, 1.0)
GREY = "#6b6b6b"
GRID = "#ececec"
#: Of lines without a value.
PALE = "#b5b5b5"
# Inches: narrower axes have fewer ticks.
_SMALL = 2.4
# Inches: the length of a colour bar of several axes.
_BAR = 2.6
# The greatest share of the width of a map that its scale bar takes.
_SCALE = 0.35
# How high maps are drawn at least and at most, as a share of their width.
_LOWEST, _HIGHEST = 0.3, 1.6
# A layout moves what the one before it measured.
_LAYOUTS = 3


def require_matplotlib() -> None:
    """Raise `ImportError` with the way out if figures cannot be drawn."""
    lazy.need("matplotlib.figure", "a figure")


def style(width: float | None = None) -> AbstractContextManager[None]:
    """The look of graphrf's figures, in a `with` block: small type, open frames, pale grid.

    Parameters
    ----------
    width : float, optional
        In inches: for figures that are printed in this size, such as 3.3 for a column of a paper.
        New figures have this width and text of 7.5 to 8.5 points; bitmaps have 300 dots per inch;
        pdf files hold TrueType fonts, as publishers ask. Default: figures for a screen, of a width
        that suits what they show.

    Returns
    -------
    context manager
        Within it `matplotlib.rcParams` are changed, for all threads; after it they are as before,
        so that `savefig` belongs in the block.

    Raises
    ------
    ValueError
        If the width is not between 1 and 30.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from graphrf.plot import COLOURS, plot_reliability, style
    >>> with style():
    ...     ax = Figure(figsize=(4, 3)).add_subplot(xlabel="walks")
    ...     line, = ax.plot([1, 2], [3, 4], label="error")
    >>> line.get_color() == COLOURS[0], ax.spines["top"].get_visible()
    (True, False)
    >>> with style(width=3.3):
    ...     ax = plot_reliability({"classifier": [[0.6, 0.55], [0.9, 0.92]]})
    >>> float(ax.figure.get_figwidth())
    3.3
    """
    require_matplotlib()
    from matplotlib import rc_context
    from matplotlib.rcsetup import cycler

    text = {"font": 9.0, "title": 10.0, "ticks": 8.5}
    own: dict[str, Any] = {"savefig.dpi": 120.0}

    if width is not None:
        width = checks.number("width", width, low=1, high=30)
        text = {"font": 8.0, "title": 8.5, "ticks": 7.5}
        own = {"savefig.dpi": 300.0, "pdf.fonttype": 42, "figure.figsize": (width, 0.75 * width)}

    settings: dict[str, Any] = {
        "font.size": text["font"],
        "axes.titlesize": text["title"],
        "axes.labelsize": text["font"],
        "xtick.labelsize": text["ticks"],
        "ytick.labelsize": text["ticks"],
        "legend.fontsize": text["ticks"],
        "figure.titlesize": text["title"],
        "figure.labelsize": text["font"],
        "figure.constrained_layout.use": True,
        "legend.frameon": False,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.linewidth": 0.8,
        "axes.grid": True,
        "grid.color": GRID,
        "axes.axisbelow": True,
        "lines.linewidth": 1.4,
        "lines.markersize": 4.5,
        "errorbar.capsize": 2.0,
        "axes.prop_cycle": cycler(color=COLOURS),
        "image.cmap": VALUES,
        **own,
    }
    return rc_context(settings)  # type: ignore[arg-type]


def wanted_width(usual: float) -> float:
    """The width of a new figure in inches: of `rcParams["figure.figsize"]` if changed."""
    from matplotlib import rcParams, rcParamsDefault

    size, default = rcParams["figure.figsize"], rcParamsDefault["figure.figsize"]
    return usual if list(size) == list(default) else float(size[0])


def new_figure(size: tuple[float, float]) -> Figure:
    """A new figure: pyplot's where the caller has imported it, which is not done here."""
    require_matplotlib()
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None:
        from matplotlib.figure import Figure

        return Figure(figsize=size, layout="constrained")
    figure: Figure = pyplot.figure(figsize=size, layout="constrained")
    return figure


def new_axes(ax: Axes | None, size: tuple[float, float]) -> Any:
    """`ax`, or new axes in the proportions of `size`, in a narrow figure not too flat."""
    if ax is not None:
        return ax
    require_matplotlib()
    width = wanted_width(size[0])
    height = size[1] if width == size[0] else width * max(0.65, size[1] / size[0])
    return new_figure((width, height)).add_subplot()


def inches(ax: Axes) -> float:
    """About how wide the axes are."""
    return float(ax.get_window_extent().width / ax.figure.dpi)


def spacing(ax: Axes, coordinates: np.ndarray, stretch: float, n: int) -> tuple[float, float]:
    """The distance between n marks on a map, and the length of its unit of height, in points.

    A unit of width is 1 / `stretch` as long.
    """
    box = ax.get_window_extent()
    room = 72 / ax.figure.dpi * np.array([box.width, box.height])
    size = np.ptp(coordinates, axis=0) / (stretch, 1) if len(coordinates) else np.zeros(2)
    with np.errstate(divide="ignore", invalid="ignore"):
        unit = float(np.nanmin(room / size)) if size.any() else 1.0
    drawn = size * unit
    return max(float(np.sqrt(drawn.prod() / max(1, n))), float(drawn.max()) / max(1, n)), unit


def stretch_of(coordinates: np.ndarray, degrees: bool) -> float:
    """The ratio of a unit of height to one of width: of degrees 1 / cos(latitude), else 1."""
    latitude = float(np.nanmean(coordinates[:, 1])) if degrees and len(coordinates) else 0.0
    return 1 / math.cos(math.radians(min(89.0, abs(latitude))))


def map_frame(ax: Axes, stretch: float, degrees: bool, unit: str = "") -> None:
    """The aspect and the axes of a map in degrees; of others a scale bar, if they have a unit."""
    if not degrees:
        ax.set_aspect("equal", adjustable="datalim")
        ax.set_axis_off()
        scale_bar(ax, unit)
        return
    small = inches(ax) < _SMALL
    ax.set_aspect(stretch)
    ax.set_xlabel("longitude (°)")
    ax.set_ylabel("latitude (°)")
    ax.locator_params(axis="x", nbins=2 if small else 3)
    ax.locator_params(axis="y", nbins=3 if small else 4)
    ax.ticklabel_format(useOffset=False)
    ax.grid(visible=False)
    open_frame(ax)


def scale_bar(ax: Axes, unit: str) -> None:
    """A bar of a round length below the axes, in a unit of the coordinates; none without one."""
    if not unit:
        return
    from matplotlib import rcParams
    from matplotlib.font_manager import FontProperties
    from mpl_toolkits.axes_grid1.anchored_artists import AnchoredSizeBar

    longest = _SCALE * float(np.ptp(ax.dataLim.get_points()[:, 0])) or 1.0
    size = 10 ** math.floor(math.log10(longest))
    length = max(times * size for times in (1, 2, 5) if times * size <= longest)
    text = f"{length / 1000:g} km" if unit == "m" and length >= 1000 else f"{length:g} {unit}"
    bar = AnchoredSizeBar(
        ax.transData,
        length,
        text,
        "upper left",
        pad=0.2,
        borderpad=0,
        sep=2,
        frameon=False,
        color="black",
        size_vertical=0,
        fontproperties=FontProperties(size=rcParams["xtick.labelsize"]),
        bbox_to_anchor=(0, 0),
        bbox_transform=ax.transAxes,
    )
    ax.add_artist(bar)


def scaled(
    values: np.ndarray, limits: tuple[float, float] | None, norm: str
) -> tuple[np.ndarray, Any]:
    """Values as they are coloured, and their scale between limits, by default their finite range.

    On a logarithmic scale values up to 0 are below all others.
    """
    require_matplotlib()
    from matplotlib.colors import LogNorm, Normalize

    known, ends = in_scale(values, limits, norm)
    return known, (Normalize if norm == "linear" else LogNorm)(*ends)


def in_scale(
    values: np.ndarray, limits: tuple[float, float] | None, norm: str
) -> tuple[np.ndarray, tuple[float, float]]:
    """Values as they are coloured, and those at the ends of the colours."""
    checks.choice("norm", norm, ("linear", "log"))
    if norm == "linear":
        return values, limits or finite_range(values)
    low, high = limits or finite_range(np.where(values > 0, values, np.nan))
    if not 0 < low < high:
        raise checks.value_error(
            "norm",
            f"must be 'linear' for colours between {low:g} and {high:g}: 'log' needs two "
            "positive numbers, the first of them smaller; pass limits=(low, high)",
        )
    known = np.where(values > 0, values, np.where(np.isnan(values), np.nan, low / 2))
    return known, (low, high)


def fit_height(axes: Sequence[Axes], ratio: float) -> None:
    """Make a new figure as high as its maps in their full width, and the text between them.

    Maps that do not fill their places mislead the layout, which then cuts off titles.
    """
    figure: Any = axes[0].figure
    place = axes[0].get_subplotspec()
    assert place is not None
    layout = figure.get_layout_engine()
    n_rows = place.get_gridspec().nrows

    for _ in range(_LAYOUTS):
        layout.execute(figure)
        width, height = figure.get_size_inches()
        slot = axes[0].get_position(original=True)
        wanted = slot.width * width * float(np.clip(ratio, _LOWEST, _HIGHEST))
        figure.set_figheight(height + n_rows * (wanted - slot.height * height))


def fit_maps(axes: Sequence[Axes]) -> None:
    """Make a new figure as high as its maps, whose coordinates have an aspect."""
    size = np.ptp(axes[0].dataLim.get_points(), axis=0)
    aspect = axes[0].get_aspect()
    fit_height(axes, float(aspect) * float(size[1] / (size[0] or 1.0)))


def extended_ends(values: np.ndarray, low: float, high: float) -> str:
    """The ends of a colour bar outside which values lie, as matplotlib's `extend` has it."""
    below, above = bool((values < low).any()), bool((values > high).any())
    return {
        (False, False): "neither",
        (True, False): "min",
        (False, True): "max",
        (True, True): "both",
    }[below, above]


def colour_bar(mappable: Any, ax: Axes | Sequence[Axes], label: str, extend: str) -> None:
    """A thin bar below the axes, or below all of several."""
    from matplotlib import rcParams
    from matplotlib.colors import LogNorm
    from matplotlib.font_manager import FontProperties
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

    axes = list(ax) if isinstance(ax, Sequence) else [ax]
    boxes = [one.get_window_extent() for one in axes]
    width = max(box.x1 for box in boxes) - min(box.x0 for box in boxes)
    width /= axes[0].figure.dpi
    # A letter is about half as wide as it is high.
    points = FontProperties(size=rcParams["axes.labelsize"]).get_size_in_points()
    letters = max(12, int(1.05 * 72 * width / (0.52 * points)))
    bar = axes[0].figure.colorbar(
        mappable,
        ax=axes,
        orientation="horizontal",
        shrink=0.8 if len(axes) == 1 else min(0.8, _BAR / width),
        # A share of the height of all axes, which is that of one for every row.
        pad=0.04 / len({box.y0 for box in boxes}),
        aspect=32,
        label=textwrap.fill(label, letters),
        extend=extend,
        extendfrac=0.03,
    )
    bar.outline.set_visible(False)
    bar.locator = MaxNLocator(4 if width > 2 else 3)
    if isinstance(mappable.norm, LogNorm):
        bar.locator = LogLocator(subs=log_steps(*mappable.get_clim()), numticks=5)
        bar.formatter = StrMethodFormatter("{x:g}")
        bar.ax.xaxis.set_minor_formatter(NullFormatter())


def log_steps(low: float, high: float) -> tuple[float, ...]:
    """Multiples of powers of ten that a logarithmic axis or colour bar counts."""
    decades = math.log10(high / low)
    return (1.0,) if decades > 3 else (1.0, 3.0) if decades > 1.5 else (1.0, 2.0, 5.0)


def log_ticks(low: float, high: float) -> list[float]:
    """The values between two that a logarithmic colour bar counts."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [times * 10.0**power for power in powers for times in log_steps(low, high)]
    return [tick for tick in ticks if low <= tick <= high]


def open_frame(ax: Axes) -> None:
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def legend_above(ax: Axes, width: float = 1.1) -> None:
    """A legend above the axes, in columns of about this width in inches."""
    ax.legend(
        frameon=False,
        ncols=max(2, int(inches(ax) / width)),
        loc="lower left",
        bbox_to_anchor=(0, 1),
        borderaxespad=0.2,
    )
