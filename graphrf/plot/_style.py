"""What the figures share: colours, type, frames, labels."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np

from graphrf._base import lazy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Colours of lines and marks, distinct to colour-blind readers (Okabe and Ito 2008), the strongest first.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
#: The colour map of values.
VALUES = "viridis"
#: The colour map of standard deviations, told from that of values at a glance.
DEVIATIONS = "plasma"
MARKERS = "osD^vPX"
#: Of nodes, faces and roads without a value.
UNOBSERVED = (0.87, 0.87, 0.87, 1.0)
GREY = "#6b6b6b"
GRID = "#ececec"


def require_matplotlib() -> None:
    """Raise `ImportError` with the way out if figures cannot be drawn."""
    lazy.need("matplotlib.figure", "a figure")


def style() -> AbstractContextManager[None]:
    """The look of graphrf's own figures, for the time of a `with` block: small type, open frames, a pale grid.

    Returns
    -------
    context manager
        Within it `matplotlib.rcParams` are changed, for all threads; after it they are as before.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from graphrf.plot import COLOURS, style
    >>> with style():
    ...     ax = Figure(figsize=(4, 3)).add_subplot(xlabel="walks")
    ...     line, = ax.plot([1, 2], [3, 4], label="error")
    >>> line.get_color() == COLOURS[0], ax.spines["top"].get_visible()
    (True, False)
    """
    require_matplotlib()
    from matplotlib import rc_context
    from matplotlib.rcsetup import cycler

    return rc_context(
        {
            "font.size": 9.0,
            "axes.titlesize": 10.0,
            "axes.labelsize": 9.0,
            "xtick.labelsize": 8.5,
            "ytick.labelsize": 8.5,
            "legend.fontsize": 8.5,
            "figure.titlesize": 10.0,
            "figure.labelsize": 9.0,
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
            "savefig.dpi": 120.0,
        }
    )


def new_axes(ax: Axes | None, size: tuple[float, float]) -> Any:
    """`ax`, or the axes of a new figure that pyplot does not know of."""
    if ax is not None:
        return ax
    require_matplotlib()
    from matplotlib.figure import Figure

    return Figure(figsize=size, layout="constrained").add_subplot()


def finite_range(values: np.ndarray) -> tuple[float, float]:
    finite = values[np.isfinite(values)]
    return (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)


def beyond(values: np.ndarray, low: float, high: float) -> str:
    """Which ends of a colour bar values lie beyond, as matplotlib's `extend` has it."""
    below, above = bool((values < low).any()), bool((values > high).any())
    return {(False, False): "neither", (True, False): "min", (False, True): "max", (True, True): "both"}[
        below, above
    ]


def colour_bar(mappable: Any, ax: Axes, label: str, extend: str) -> None:
    """A thin bar below the axes."""
    from matplotlib.ticker import MaxNLocator

    bar = ax.figure.colorbar(
        mappable, ax=ax, orientation="horizontal", shrink=0.8, pad=0.04, aspect=32, label=label, extend=extend,
        extendfrac=0.03,
    )  # fmt: skip
    bar.outline.set_visible(False)
    bar.locator = MaxNLocator(4)


def plain_log_labels(axis: Any) -> None:
    """Numbers as they are said, 0.02 and not 2 x 10^-2, at 1, 2 and 5 times the powers of ten."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(lambda value, _: f"{value:.10g}")
    axis.set_minor_formatter(NullFormatter())


def open_frame(ax: Axes) -> None:
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
