"""Values on graphs in the plane, such as maps of roads."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from graphrf._base import checks
from graphrf.plot._style import VALUES, beyond, colour_bar, finite_range, new_axes, open_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_graph_signal(
    coordinates: Any,
    edges: Any,
    values: Any,
    *,
    ax: Axes | None = None,
    label: str = "",
    cmap: str = VALUES,
    limits: tuple[float, float] | None = None,
    marked: Any = None,
    geographic: bool = False,
) -> Axes:
    """A graph drawn in the plane, its nodes coloured by `values`, its edges by the mean of their ends.

    Parameters
    ----------
    coordinates : array_like, shape (N, 2)
        Horizontal and vertical places of the nodes: (longitude, latitude) for maps.
    edges : array_like of int, shape (E, 2)
    values : array_like of float, shape (N,)
        NaN draws no mark: the node has no value.
    ax : matplotlib.axes.Axes, optional
    label : str
        Of the colour bar, with the unit.
    cmap : str
    limits : (low, high), optional
        Values at the ends of the colour bar, which is pointed where values lie beyond. Default: the finite range.
    marked : array_like of int, optional
        Positions of nodes to dot in white, such as those observed.
    geographic : bool
        Whether coordinates are degrees: a degree of longitude is then drawn cos(latitude) as long.

    Returns
    -------
    matplotlib.axes.Axes
    """
    coordinates = np.asarray(coordinates, dtype=np.float64)
    edges = np.asarray(edges, dtype=np.int64).reshape(-1, 2)
    values = np.asarray(values, dtype=np.float64)
    if coordinates.ndim != 2 or coordinates.shape[1] != 2:
        raise checks.value_error("coordinates", f"must have shape (N, 2), got {coordinates.shape}")
    if values.shape != (len(coordinates),):
        raise checks.value_error(
            "values", f"must have one entry a node, shape ({len(coordinates)},), got {values.shape}"
        )
    low, high = limits if limits is not None else finite_range(values)
    x, y = coordinates.T
    ax = new_axes(ax, (6.0, 5.0))
    from matplotlib.collections import LineCollection

    # Edges between two valued nodes carry the mean of the two, so that roads read as lines and not as beads.
    means = values[edges].mean(axis=1) if len(edges) else np.empty(0)
    known = np.isfinite(means)
    ax.add_collection(LineCollection(list(coordinates[edges[~known]]), colors="#b5b5b5", linewidths=0.8, zorder=1))
    lines = LineCollection(list(coordinates[edges[known]]), cmap=cmap, linewidths=2.2, zorder=2)
    lines.set_array(means[known])
    lines.set_clim(low, high)
    ax.add_collection(lines)
    shown = np.flatnonzero(np.isfinite(values))
    size = float(np.clip(4000 / max(1, shown.size), 7, 50))
    points = ax.scatter(
        x[shown], y[shown], c=values[shown], cmap=cmap, vmin=low, vmax=high, s=size, linewidths=0, zorder=3
    )
    if marked is not None:
        dotted = np.asarray(marked)
        ax.scatter(x[dotted], y[dotted], s=0.5 * size, color="white", edgecolors="black", linewidths=0.5, zorder=4)
    if geographic:
        ax.set_aspect(1 / math.cos(math.radians(float(coordinates[:, 1].mean()))))
        ax.set_xlabel("longitude (degrees)")
        ax.set_ylabel("latitude (degrees)")
        ax.locator_params(axis="x", nbins=3)
        ax.locator_params(axis="y", nbins=4)
        ax.grid(visible=False)
        open_frame(ax)
    else:
        ax.set_aspect("equal")
        ax.set_axis_off()
    colour_bar(points, ax, label, beyond(values[shown], low, high))
    return ax
