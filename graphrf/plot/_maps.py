"""Values on graphs in the plane, such as maps of roads."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from graphrf.plot._given import finite_range, links, node_values, places
from graphrf.plot._style import GREY, VALUES, beyond, colour_bar, new_axes, open_frame, shrunk

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
    edges : Graph, or array_like of int of shape (E, 2)
        Pairs of positions; of a graph its own edges.
    values : array_like of float, shape (N,)
        NaN draws no mark: the node has no value.
    ax : matplotlib.axes.Axes, optional
        Default: those of a new figure.
    label : str
        Label of the colour bar, with the unit.
    cmap : str
    limits : (low, high), optional
        Values at the ends of the colour bar, which is pointed where values lie beyond. Default: the finite range.
    marked : array_like of int, optional
        Positions of nodes to draw a ring around, such as those observed.
    geographic : bool
        Whether coordinates are degrees: a degree of longitude is then drawn cos(latitude) as long.

    Returns
    -------
    matplotlib.axes.Axes

    See Also
    --------
    interactive_map : the same to zoom, with the value of each node under the pointer.

    Examples
    --------
    >>> import graphrf as grf
    >>> from graphrf.plot import plot_graph_signal
    >>> town = grf.from_edges([0, 1], [1, 2])
    >>> ax = plot_graph_signal([[0, 0], [1, 0], [1, 1]], town, [30.0, 35.0, 40.0], label="speed (km/h)")
    >>> _ = ax.set_title("Monday")
    """
    coordinates = places(coordinates)
    edges = links(edges, len(coordinates))
    values = node_values(values, len(coordinates))
    low, high = limits if limits is not None else finite_range(values)
    x, y = coordinates.T
    ax = new_axes(ax, (6.0, 5.0))
    small = shrunk(ax)
    from matplotlib.collections import LineCollection

    # Edges between two valued nodes carry the mean of the two, so that roads read as lines and not as beads.
    means = values[edges].mean(axis=1) if len(edges) else np.empty(0)
    known = np.isfinite(means)
    # The coloured ones have a grey rim, without which the light end of the colours is lost on white.
    colours, widths = np.where(known, GREY, "#b5b5b5"), np.where(known, 3.0, 0.8) * small
    ax.add_collection(LineCollection(list(coordinates[edges]), colors=colours, linewidths=widths, zorder=1))
    lines = LineCollection(list(coordinates[edges[known]]), cmap=cmap, linewidths=2.2 * small, zorder=2)
    lines.set_array(means[known])
    lines.set_clim(low, high)
    ax.add_collection(lines)
    shown = np.flatnonzero(np.isfinite(values))
    size = small**2 * float(np.clip(4000 / max(1, shown.size), 7, 50))
    points = ax.scatter(
        x[shown],
        y[shown],
        c=values[shown],
        cmap=cmap,
        vmin=low,
        vmax=high,
        s=size,
        edgecolors=GREY,
        linewidths=0.4 * small,
        zorder=3,
    )
    if marked is not None:
        ringed = np.asarray(marked)
        ax.scatter(
            x[ringed],
            y[ringed],
            s=2.2 * size,
            facecolors="none",
            edgecolors="black",
            linewidths=0.8 * small,
            zorder=4,
        )
    if geographic:
        ax.set_aspect(1 / math.cos(math.radians(float(coordinates[:, 1].mean()))))
        ax.set_xlabel("longitude (°)")
        ax.set_ylabel("latitude (°)")
        ax.locator_params(axis="x", nbins=3 if small == 1 else 2)
        ax.locator_params(axis="y", nbins=4 if small == 1 else 3)
        ax.grid(visible=False)
        open_frame(ax)
    else:
        ax.set_aspect("equal", adjustable="datalim")
        ax.set_axis_off()
    colour_bar(points, ax, label, beyond(values[shown], low, high))
    return ax
