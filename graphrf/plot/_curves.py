"""Errors against walks and cost, probabilities against shares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from graphrf._base import checks
from graphrf.plot._style import COLOURS, GREY, GRID, MARKERS, new_axes, open_frame, plain_log_labels

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_error_against_walks(
    curves: Mapping[str, Any],
    *,
    ax: Axes | None = None,
    ylabel: str = "relative error of the Gram matrix",
    guide: bool = True,
) -> Axes:
    r"""Errors against numbers of walks on logarithmic axes, one line for each method.

    Parameters
    ----------
    curves : mapping of labels to array_like of shape (n, 2) or (n, 3)
        Columns: walks, error, and (optional) the error's standard error, drawn as a bar of two each way.
    ax : matplotlib.axes.Axes, optional
    ylabel : str
    guide : bool
        Draw the slope of independent walks, error ~ walks^(-1/2), through the first point of the first curve.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from graphrf.plot import plot_error_against_walks
    >>> ax = plot_error_against_walks({"independent": [[4, 0.2, 0.01], [16, 0.1, 0.01]]})
    >>> ax.get_xscale()
    'log'
    """
    lines = _curves("curves", curves)
    ax = new_axes(ax, (6.4, 4.4))
    if guide:
        first = next(iter(lines.values()))
        walks = np.unique(np.concatenate([line[:, 0] for line in lines.values()]))
        ax.plot(
            walks, first[0, 1] * np.sqrt(first[0, 0] / walks), color=GREY, linestyle=(0, (4, 3)), linewidth=1,
            label="slope of independent walks, $-1/2$", zorder=1,
        )  # fmt: skip
    _draw(ax, lines)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    plain_log_labels(ax.yaxis, np.concatenate([line[:, 1] for line in lines.values()]))
    ax.set_xlabel("walks from each node")
    ax.set_ylabel(ylabel)
    ax.grid(which="major", color=GRID, linewidth=0.8)
    ax.set_axisbelow(True)
    ax.legend(frameon=False)
    open_frame(ax)
    return ax


def plot_front(
    methods: Mapping[str, Any],
    *,
    ax: Axes | None = None,
    xlabel: str = "operations from each node",
    ylabel: str = "relative error",
) -> Axes:
    """Errors against cost on logarithmic axes, one line for each method, over the front that they reach together.

    The front, in grey, is the least error of any method at no more than each cost: what lies on it is beaten by
    none in both.

    Parameters
    ----------
    methods : mapping of labels to array_like of shape (n, 2) or (n, 3)
        Columns: cost, error, and (optional) the error's standard error, drawn as a bar of two each way. Rows may
        come in any order.
    ax : matplotlib.axes.Axes, optional
    xlabel, ylabel : str
        The cost and the error, with their units.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> from graphrf.plot import plot_front
    >>> ax = plot_front({"walks": [[10, 0.3], [40, 0.15]], "powers": [[20, 0.05]]})
    >>> ax.get_lines()[0].get_xydata().tolist()                               # "walks" of cost 40 are beaten
    [[10.0, 0.3], [20.0, 0.05], [40.0, 0.05]]
    """
    lines = _curves("methods", methods)
    ax = new_axes(ax, (6.4, 4.4))

    every = np.concatenate([line[:, :2] for line in lines.values()])
    every = every[np.lexsort((every[:, 1], every[:, 0]))]
    least = np.minimum.accumulate(every[:, 1])
    turns = np.diff(least, prepend=np.inf) < 0
    turns[-1] = True  # the front goes on to the largest cost
    ax.plot(
        every[turns, 0],
        least[turns],
        color="#dedede",
        linewidth=7,
        drawstyle="steps-post",
        zorder=1,
        label="Pareto front: the lowest error at each cost",
    )
    _draw(ax, {label: line[np.argsort(line[:, 0], kind="stable")] for label, line in lines.items()})
    ax.set_xscale("log")
    ax.set_yscale("log")
    for axis, values in ((ax.xaxis, every[:, 0]), (ax.yaxis, every[:, 1])):
        plain_log_labels(axis, values)
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    ax.grid(visible=False)
    ax.legend(frameon=False)
    open_frame(ax)
    return ax


def plot_reliability(
    curves: Mapping[str, Any],
    *,
    ax: Axes | None = None,
    xlabel: str = "probability of the predicted class",
    ylabel: str = "accuracy",
) -> Axes:
    """A reliability diagram: observed frequencies against predicted probabilities, one line for each method.

    Parameters
    ----------
    curves : mapping of labels to array_like of shape (n, 2) or (n, 3)
        Columns: the probability, the share, both in [0, 1], and (optional) the share's standard error, drawn as a
        bar of two each way. `metrics.reliability` gives them for classes, `metrics.coverage` for intervals.
    ax : matplotlib.axes.Axes, optional
    xlabel, ylabel : str

    Returns
    -------
    matplotlib.axes.Axes
        With the diagonal, on which calibrated probabilities lie. Above it they are too small, below it too large.

    Examples
    --------
    >>> from graphrf.plot import plot_reliability
    >>> ax = plot_reliability({"classifier": [[0.6, 0.55], [0.9, 0.92]]})
    >>> ax.get_xlabel(), ax.get_aspect()
    ('probability of the predicted class', 1.0)
    """
    lines = _curves("curves", curves, probabilities=True)
    ax = new_axes(ax, (4.8, 4.6))
    ax.plot([0, 1], [0, 1], color=GREY, linestyle=(0, (4, 3)), linewidth=1, zorder=1, label="calibrated")
    _draw(ax, lines)
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel=xlabel, ylabel=ylabel)
    ax.set_aspect("equal")
    ax.grid(color=GRID, linewidth=0.8)
    ax.set_axisbelow(True)
    ax.legend(frameon=False, loc="upper left")
    open_frame(ax)
    return ax


def _draw(ax: Axes, lines: Mapping[str, np.ndarray]) -> None:
    """Marks joined by a line for each label, with bars of two standard errors each way where there are any."""
    for number, (label, line) in enumerate(lines.items()):
        ax.errorbar(
            line[:, 0], line[:, 1], yerr=2 * line[:, 2] if line.shape[1] == 3 else None, label=label,
            color=COLOURS[number % len(COLOURS)], marker=MARKERS[(number + number // len(COLOURS)) % len(MARKERS)],
            markersize=5, linewidth=1.6, elinewidth=1, capsize=2, zorder=2,
        )  # fmt: skip


def _curves(name: str, curves: Mapping[str, Any], probabilities: bool = False) -> dict[str, np.ndarray]:
    """The curves as arrays: of positive numbers, or of probabilities."""
    if not curves:
        raise checks.value_error(name, "must hold at least one curve, got none")
    arrays = {label: np.asarray(curve, dtype=np.float64) for label, curve in curves.items()}
    for label, array in arrays.items():
        if array.ndim != 2 or array.shape[1] not in (2, 3) or not len(array):
            raise checks.value_error(
                name, f"must have shape (n, 2) or (n, 3) each, got {array.shape} for {label!r}"
            )
        numbers = array[:, :2]
        if probabilities and not ((numbers >= 0) & (numbers <= 1)).all():
            raise checks.value_error(name, f"must have probabilities and shares in [0, 1], unlike {label!r}")
        if not probabilities and not (numbers > 0).all():
            raise checks.value_error(name, f"must have positive numbers for logarithmic axes, unlike {label!r}")
    return arrays
