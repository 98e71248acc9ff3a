"""One number against another: quantiles that a coupling matches, estimated scores and exact ones."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from graphrf._base import checks
from graphrf.plot._style import COLOURS, GREY, GRID, MARKERS, new_axes, open_frame, plain_log_labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from graphrf.sampling.walks.coupling import Coupling


def plot_permutation(coupling: Coupling, *, ax: Axes | None = None) -> Axes:
    """Which quantile of one walk's length is matched with which quantile of the next walk's.

    Parameters
    ----------
    coupling : Coupling
        Its first permutation is drawn.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    permutation = coupling.permutation
    order = coupling.order
    ax = new_axes(ax, (4.8, 4.6))
    ax.plot([0.5, order + 0.5], [order + 0.5, 0.5], color=GREY, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    ax.plot(np.arange(1, order + 1), permutation + 1, "s", color=COLOURS[0], markersize=130 / order, zorder=2)
    ax.set_xlim(0.5, order + 0.5)
    ax.set_ylim(0.5, order + 0.5)
    ax.set_aspect("equal")
    ticks = np.unique(np.linspace(1, order, 6).round().astype(int))
    labels = [_tile_label(int(tick), order, coupling.p_halt) for tick in ticks]
    ax.set_xticks(ticks, labels)
    ax.set_yticks(ticks, labels)
    what = "number of the quantile" if coupling.p_halt is None else "steps, spaced by quantile"
    ax.set_xlabel(f"length of the first walk ({what})")
    ax.set_ylabel(f"length of the second walk ({what})")
    ax.annotate("dashed: shortest\nwith longest", (0.03, 0.03), xycoords="axes fraction", fontsize=8, color=GREY)
    open_frame(ax)
    return ax


def plot_pagerank(exact: Any, estimates: Mapping[str, Any], *, ax: Axes | None = None) -> Axes:
    """Estimated PageRank scores against the exact ones, on logarithmic axes.

    Parameters
    ----------
    exact : array_like, shape (N,)
    estimates : mapping of labels to array_like of shape (N,)
        At most seven. Estimates of zero are left out: nodes that no walk visited.
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.axes.Axes
    """
    exact = np.asarray(exact, dtype=np.float64)
    ax = new_axes(ax, (5.2, 4.8))
    ends = float(exact[exact > 0].min()), float(exact.max())
    ax.plot(ends, ends, color=GREY, linewidth=1, zorder=1, label="exact")
    for number, (label, scores) in enumerate(estimates.items()):
        scores = np.asarray(scores, dtype=np.float64)
        if scores.shape != exact.shape:
            raise checks.value_error(
                "estimates", f"must have shape {exact.shape} each, got {scores.shape} for {label!r}"
            )
        seen = scores > 0
        ax.plot(
            exact[seen], scores[seen], MARKERS[number], color=COLOURS[number], label=label, alpha=0.75,
            markersize=max(2.5, 6 - 0.9 * math.log10(exact.size)), markeredgewidth=0, zorder=2,
        )  # fmt: skip
    ax.set_xscale("log")
    ax.set_yscale("log")
    for axis in (ax.xaxis, ax.yaxis):
        plain_log_labels(axis, np.array(ends))
    ax.set_xlabel("exact PageRank score")
    ax.set_ylabel("estimated PageRank score")
    ax.grid(which="major", color=GRID, linewidth=0.8)
    ax.set_axisbelow(True)
    ax.legend(frameon=False, loc="upper left")
    open_frame(ax)
    return ax


def _tile_label(tile: int, order: int, p_halt: float | None) -> str:
    if p_halt is None:
        return str(tile)
    steps = math.floor(math.log1p(-(tile - 0.5) / order) / math.log1p(-p_halt))
    return str(steps)
