"""Values on graphs in the plane, such as maps of roads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from graphrf.plot._given import finite_range, in_degrees, links, node_values, places
from graphrf.plot._planes import Lattice
from graphrf.plot._style import (
    GREY,
    PALE,
    UNOBSERVED,
    VALUES,
    colour_bar,
    extended_ends,
    fit_maps,
    map_frame,
    new_axes,
    spacing,
    stretch_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from graphrf.graph.graph import Graph

# Nodes from which a lattice is drawn as cells, and the least share of its places that they fill:
# streets of a few blocks are lines.
_FEW, _FILLED = 100, 0.5
# The area of a mark of few nodes, in those of one where all have a value.
_LARGER = 6.0


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
    unit: str = "",
    geographic: bool | None = None,
) -> Axes:
    """A graph in the plane, nodes coloured by `values`, edges by the mean of their ends.

    Nodes that fill a lattice, and are joined to their neighbours in it alone, are drawn as its
    cells.

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
    unit : str
        The unit of the coordinates, such as "km", for a scale bar.
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
    plot_areas : districts as filled polygons.
    plot_edges : streets with their own geometry.
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
    new = ax is None
    ax, _ = drawn_signal(
        coordinates, edges, values, ax, label, cmap, limits, marked, geographic, unit
    )
    if new:
        fit_maps([ax])
    return ax


def drawn_signal(
    coordinates: ArrayLike,
    edges: Graph | ArrayLike,
    values: ArrayLike,
    ax: Axes | None,
    label: str,
    cmap: str,
    limits: tuple[float, float] | None,
    marked: ArrayLike | None,
    geographic: bool | None,
    unit: str,
) -> tuple[Axes, Callable[[np.ndarray], None]]:
    """The axes of `plot_graph_signal`, and a function that gives the nodes other values."""
    coordinates = places(coordinates)
    edges = links(edges, len(coordinates))
    values = node_values(values, len(coordinates))
    low, high = limits if limits is not None else finite_range(values)

    x, y = coordinates.T
    ax = new_axes(ax, (6.0, 5.0))
    degrees = in_degrees(coordinates, geographic)
    stretch = stretch_of(coordinates, degrees)
    apart, _ = spacing(ax, coordinates, stretch, len(coordinates))
    size = np.clip(0.24 * apart, 0.7, 7.0) ** 2
    cells = _cells(coordinates, edges)
    if cells is None:
        shown, change = _draw_network(ax, coordinates, edges, values, cmap, apart)
    else:
        shown, change = _draw_cells(ax, cells, values, cmap)
    shown.set_clim(low, high)
    change(values)

    if marked is not None:
        ringed = np.asarray(marked)
        ax.scatter(
            x[ringed],
            y[ringed],
            s=2.2 * size,
            facecolors="none",
            edgecolors="black",
            linewidths=np.clip(0.08 * apart, 0.3, 0.8),
            zorder=4,
        )

    map_frame(ax, stretch, degrees, unit)
    colour_bar(shown, ax, label, extended_ends(values[np.isfinite(values)], low, high))
    return ax, change


def _cells(coordinates: np.ndarray, edges: np.ndarray) -> Lattice | None:
    """The lattice whose cells nodes are, if they fill it, and edges join neighbours in it alone."""
    if len(coordinates) < _FEW or not np.isfinite(coordinates).all():
        return None
    try:
        lattice = Lattice(coordinates)
    except ValueError:
        return None
    cells = np.column_stack([lattice.rows, lattice.columns])
    sides = cells.max(axis=0) + 1
    full = len(coordinates) >= _FILLED * sides.prod() and sides.min() > 1
    near = np.abs(cells[edges[:, 0]] - cells[edges[:, 1]]).max(initial=0) <= 1
    return lattice if full and near else None


def _draw_cells(
    ax: Axes, lattice: Lattice, values: np.ndarray, cmap: str
) -> tuple[Any, Callable[[np.ndarray], None]]:
    """Cells as an image, those without a value in grey, and a function that changes it."""
    from matplotlib.colors import ListedColormap

    ones, box = lattice.image(np.ones(values.size), lattice.box, (1, 1))
    shared: dict[str, Any] = {
        "extent": box,
        "origin": "lower",
        "interpolation": "nearest",
        "aspect": "auto",
    }
    ax.imshow(ones, cmap=ListedColormap([UNOBSERVED]), **shared, zorder=1)
    image = ax.imshow(ones, cmap=cmap, **shared, zorder=2)

    def change(some: np.ndarray) -> None:
        image.set_data(lattice.image(some, lattice.box, (1, 1))[0])

    return image, change


def _draw_network(
    ax: Axes,
    coordinates: np.ndarray,
    edges: np.ndarray,
    values: np.ndarray,
    cmap: str,
    apart: float,
) -> tuple[Any, Callable[[np.ndarray], None]]:
    """Edges and nodes, and a function that changes the colours of those that have one."""
    from matplotlib.collections import LineCollection

    width, size = np.clip(0.22 * apart, 0.3, 2.2), np.clip(0.24 * apart, 0.7, 7.0) ** 2
    # Edges between two valued nodes carry the mean of the
    # two, so that roads read as lines and not as beads.
    known = np.isfinite(values[edges].mean(axis=1)) if len(edges) else np.empty(0, dtype=bool)
    # The coloured ones have a grey rim, without which
    # the light end of the colours is lost on white.
    colours, widths = np.where(known, GREY, PALE), np.where(known, 1.4 * width, min(0.8, width))
    ax.add_collection(
        LineCollection(list(coordinates[edges]), colors=colours, linewidths=widths, zorder=1)
    )
    lines = LineCollection(list(coordinates[edges[known]]), cmap=cmap, linewidths=width, zorder=2)
    ax.add_collection(lines)

    shown = np.flatnonzero(np.isfinite(values))
    # Few readings on a map of many nodes are larger.
    size *= min(_LARGER, values.size / max(1, shown.size))
    x, y = coordinates[shown].T
    points = ax.scatter(
        x, y, c=values[shown], cmap=cmap, s=size, edgecolors=GREY, linewidths=0.18 * width, zorder=3
    )

    def change(some: np.ndarray) -> None:
        lines.set_clim(*points.get_clim())
        lines.set_array(some[edges[known]].mean(axis=1) if known.any() else np.empty(0))
        points.set_array(some[shown])

    return points, change
