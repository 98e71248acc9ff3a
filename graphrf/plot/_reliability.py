"""Reliability diagrams: observed frequencies against predicted probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from graphrf._base import checks
from graphrf.plot._style import COLOURS, GREY, GRID, MARKERS, new_axes, open_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_reliability(
    curves: Mapping[str, ArrayLike],
    *,
    ax: Axes | None = None,
    xlabel: str = "probability of the predicted class",
    ylabel: str = "accuracy",
) -> Axes:
    """A reliability diagram: observed frequencies against probabilities, a line a method.

    Parameters
    ----------
    curves : mapping of labels to array_like of shape (n, 2) or (n, 3)
        Columns: the probability, the share, both in [0, 1], and (optional) the share's standard
        error, drawn as a bar of two each way. `metrics.reliability` gives them for classes,
        `metrics.coverage` for intervals.
    ax : matplotlib.axes.Axes, optional
    xlabel, ylabel : str

    Returns
    -------
    matplotlib.axes.Axes
        With the diagonal, on which calibrated probabilities lie. Above it they are too small, below
        it too large.

    Examples
    --------
    >>> from graphrf.plot import plot_reliability
    >>> ax = plot_reliability({"classifier": [[0.6, 0.55], [0.9, 0.92]]})
    >>> ax.get_xlabel(), ax.get_aspect()
    ('probability of the predicted class', 1.0)
    """
    lines = _checked_curves(curves)
    ax = new_axes(ax, (4.8, 4.6))
    ax.plot(
        [0, 1], [0, 1], color=GREY, linestyle=(0, (4, 3)), linewidth=1, zorder=1, label="calibrated"
    )

    for number, (label, line) in enumerate(lines.items()):
        ax.errorbar(
            line[:, 0],
            line[:, 1],
            yerr=2 * line[:, 2] if line.shape[1] == 3 else None,
            label=label,
            color=COLOURS[number % len(COLOURS)],
            marker=MARKERS[(number + number // len(COLOURS)) % len(MARKERS)],
            markersize=5,
            linewidth=1.6,
            elinewidth=1,
            capsize=2,
            zorder=2,
        )

    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel=xlabel, ylabel=ylabel)
    ax.set_aspect("equal")
    ax.grid(color=GRID, linewidth=0.8)
    ax.set_axisbelow(True)
    ax.legend(frameon=False, loc="upper left")
    open_frame(ax)
    return ax


def _checked_curves(curves: Mapping[str, ArrayLike]) -> dict[str, np.ndarray]:
    if not curves:
        raise checks.value_error("curves", "must hold at least one curve, got none")
    arrays = {label: np.asarray(curve, dtype=np.float64) for label, curve in curves.items()}
    for label, array in arrays.items():
        if array.ndim != 2 or array.shape[1] not in (2, 3) or not len(array):
            raise checks.value_error(
                "curves", f"must have shape (n, 2) or (n, 3) each, got {array.shape} for {label!r}"
            )
        if not ((array[:, :2] >= 0) & (array[:, :2] <= 1)).all():
            raise checks.value_error(
                "curves", f"must have probabilities and shares in [0, 1], unlike {label!r}"
            )
    return arrays
