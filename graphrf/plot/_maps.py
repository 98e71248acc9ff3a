"""Values on graphs in the plane, such as maps of roads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from graphrf.plot._given import finite_range, in_degrees, links, node_values, places
from graphrf.plot._style import (
    GREY,
    PALE,
    VALUES,
    colour_bar,
    extended_ends,
    map_frame,
    new_axes,
    spacing,
    stretch_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from graphrf.graph.graph import Graph


def plot_graph_signal(
    coordinates: ArrayLike,
    edges: Graph | ArrayLike,
    values: ArrayLike,
    *,
    ax: Axes | None = None,
    label: str = "",
    cmap: str = VALUES,
    limits: tuple[float, float] | None = None,
    marked: ArrayLike | None = None,
    geographic: bool | None = None,
) -> Axes:
    """A graph in the plane, nodes coloured by `values`, edges by the mean of their ends.

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
        Values at the ends of the colour bar, which is pointed where values lie outside. Default:
        the finite range.
    marked : array_like of int, optional
        Positions of nodes to draw a ring around, such as those observed.
    geographic : bool, optional
        Whether coordinates are degrees: a degree of longitude is then drawn cos(latitude) as long,
        and the axes are labelled. By default coordinates are taken for degrees if they are within
        +-180 and +-90, not all whole numbers, and their middle is at least 10 degrees, and at least
        their height, from the equator.

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
    >>> ax = plot_graph_signal(
    ...     [[0, 0], [1, 0], [1, 1]], town, [30.0, 35.0, 40.0], label="speed (km/h)"
    ... )
    >>> _ = ax.set_title("Monday")
    """
    coordinates = places(coordinates)
    edges = links(edges, len(coordinates))
    values = node_values(values, len(coordinates))
    low, high = limits if limits is not None else finite_range(values)

    x, y = coordinates.T
    ax = new_axes(ax, (6.0, 5.0))
    degrees = in_degrees(coordinates, geographic)
    stretch = stretch_of(coordinates, degrees)
    apart, _ = spacing(ax, coordinates, stretch, len(coordinates))
    width, size = np.clip(0.22 * apart, 0.3, 2.2), np.clip(0.24 * apart, 0.7, 7.0) ** 2
    from matplotlib.collections import LineCollection

    # Edges between two valued nodes carry the mean of the
    # two, so that roads read as lines and not as beads.
    means = values[edges].mean(axis=1) if len(edges) else np.empty(0)
    known = np.isfinite(means)
    # The coloured ones have a grey rim, without which
    # the light end of the colours is lost on white.
    colours, widths = np.where(known, GREY, PALE), np.where(known, 1.4 * width, min(0.8, width))
    ax.add_collection(
        LineCollection(list(coordinates[edges]), colors=colours, linewidths=widths, zorder=1)
    )
    lines = LineCollection(list(coordinates[edges[known]]), cmap=cmap, linewidths=width, zorder=2)
    lines.set_array(means[known])
    lines.set_clim(low, high)
    ax.add_collection(lines)

    shown = np.flatnonzero(np.isfinite(values))
    points = ax.scatter(
        x[shown],
        y[shown],
        c=values[shown],
        cmap=cmap,
        vmin=low,
        vmax=high,
        s=size,
        edgecolors=GREY,
        linewidths=0.18 * width,
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
            linewidths=np.clip(0.36 * width, 0.3, 0.8),
            zorder=4,
        )

    map_frame(ax, stretch, degrees)
    colour_bar(points, ax, label, extended_ends(values[shown], low, high))
    return ax
