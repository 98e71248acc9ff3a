"""Values on edges that have their own geometry, such as streets."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from graphrf._base import checks
from graphrf.graph.other_graphs import in_degrees as crs_in_degrees
from graphrf.plot._given import finite_range, in_degrees
from graphrf.plot._style import (
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

# From so many lines on they are a bitmap in vector files.
_MANY = 5_000


class _Lines(NamedTuple):
    """E edges as lines, of which an edge may have several."""

    parts: list[np.ndarray]  # vertices, (n, 2) each
    edge: np.ndarray  # the edge that each part belongs to
    names: Sequence[Hashable] | None
    crs: Any


def plot_edges(
    lines: Any,
    values: ArrayLike,
    *,
    ax: Axes | None = None,
    label: str = "",
    cmap: str = VALUES,
    limits: tuple[float, float] | None = None,
    geographic: bool | None = None,
) -> Axes:
    """Edges drawn with their own geometry and coloured by `values`, such as the speeds of streets.

    Parameters
    ----------
    lines : GeoDataFrame, GeoSeries, networkx graph, or sequence
        E edges: a map of lines, such as the edges of `osmnx.graph_to_gdfs`; a graph whose nodes
        have x and y, and whose edges may have a `geometry`, as OSMnx's have; lines of shapely; or
        coordinates, an array of shape (n, 2) for each edge.
    values : array_like of float, shape (E,)
        In the order of the edges; a Series of pandas is matched by its index with the names of the
        edges. Edges without a value (NaN) are grey.
    ax, label, cmap, limits
        See `plot_graph_signal`.
    geographic : bool, optional
        Whether coordinates are degrees. Default: as the coordinate system `crs` has them, or
        guessed as by `plot_graph_signal`.

    Returns
    -------
    matplotlib.axes.Axes

    Notes
    -----
    Lines are the thinner, the more there are. Two edges that join the same places in opposite
    directions, such as the two directions of a street, are drawn beside one another, each to the
    right of its direction.

    Examples
    --------
    >>> from graphrf.plot import plot_edges
    >>> streets = [[[0, 0], [1, 0]], [[1, 0], [0, 0]], [[1, 0], [1.5, 0.5], [1, 1]]]
    >>> ax = plot_edges(streets, [30.0, 35.0, 50.0], label="speed (km/h)")
    >>> _ = ax.set_title("Monday")
    """
    found = _lines_of(lines)
    n = int(found.edge.max(initial=-1)) + 1 if found.names is None else len(found.names)
    known = _in_order(values, n, found.names)
    low, high = limits if limits is not None else finite_range(known)

    ax = new_axes(ax, (6.0, 5.0))
    corners = np.concatenate(found.parts) if found.parts else np.empty((0, 2))
    degrees = in_degrees(corners, crs_in_degrees(found.crs) if geographic is None else geographic)
    stretch = stretch_of(corners, degrees)
    apart, unit = spacing(ax, corners, stretch, len(found.parts))
    width = float(np.clip(0.3 * apart, 0.3, 2.6))
    shown = _beside(found.parts, 0.6 * width / unit, stretch)

    from matplotlib.collections import LineCollection

    own = known[found.edge]
    valued = np.isfinite(own)
    drawn = {"capstyle": "round", "rasterized": len(shown) > _MANY}
    grey = [line for line, some in zip(shown, valued, strict=True) if not some]
    ax.add_collection(
        LineCollection(grey, colors=PALE, linewidths=min(0.8, width), zorder=1, **drawn)
    )

    lines = [line for line, some in zip(shown, valued, strict=True) if some]
    coloured = LineCollection(lines, cmap=cmap, linewidths=width, zorder=2, **drawn)
    coloured.set_array(own[valued])
    coloured.set_clim(low, high)
    ax.add_collection(coloured)

    ax.autoscale_view()
    map_frame(ax, stretch, degrees)
    colour_bar(coloured, ax, label, extended_ends(own[valued], low, high))
    return ax


def _lines_of(source: Any) -> _Lines:
    """The lines of a map, a networkx graph or a sequence, with the names of the edges."""
    if hasattr(source, "is_multigraph") and hasattr(source, "graph"):
        return _lines_of_network(source)
    if hasattr(source, "geometry") and hasattr(source, "crs"):
        shapes, names, crs = list(source.geometry), list(source.index), source.crs
    elif (
        hasattr(source, "adjacency")
        or isinstance(source, str | bytes)
        or not hasattr(source, "__iter__")
    ):
        raise checks.type_error(
            "lines",
            "must be a GeoDataFrame of lines, a networkx graph whose nodes have x and y, or a "
            f"sequence of lines or of coordinates, got {checks.describe(source)}",
        )
    else:
        shapes, names, crs = list(source), None, None
    parts = [(part, edge) for edge, shape in enumerate(shapes) for part in _parts(shape, edge)]
    edges = np.array([edge for _, edge in parts], dtype=np.int64)
    return _Lines([part for part, _ in parts], edges, names, crs)


def _lines_of_network(graph: Any) -> _Lines:
    """The geometry of the edges of a networkx graph, and straight lines for those without."""
    places = {node: (data.get("x"), data.get("y")) for node, data in graph.nodes(data=True)}
    parts: list[np.ndarray] = []
    edges: list[int] = []
    names = list(graph.edges)
    for edge, (u, v, shape) in enumerate(graph.edges(data="geometry")):
        if shape is None:
            if None in places[u] + places[v]:
                raise checks.value_error(
                    "lines",
                    "must be a graph whose edges have a geometry, or whose nodes have x and y, but "
                    f"edge {names[edge]!r} has neither",
                )
            shape = [places[u], places[v]]
        own = list(_parts(shape, edge))
        parts += own
        edges += [edge] * len(own)
    return _Lines(parts, np.array(edges, dtype=np.int64), names, graph.graph.get("crs"))


def _parts(shape: Any, edge: int) -> Iterator[np.ndarray]:
    """The lines that a geometry of shapely, or coordinates, are made of."""
    if hasattr(shape, "geoms"):
        for part in shape.geoms:
            yield from _parts(part, edge)
        return
    kind = getattr(shape, "geom_type", "LineString")
    if kind not in ("LineString", "LinearRing") or shape is None:
        kind = getattr(shape, "geom_type", "no geometry")
        raise checks.value_error("lines", f"must have lines only, got {kind} at edge {edge}")
    corners = np.asarray(shape.coords if hasattr(shape, "coords") else shape, dtype=np.float64)
    if corners.ndim != 2 or corners.shape[1] not in (2, 3) or len(corners) < 2:
        raise checks.value_error(
            "lines",
            f"must have coordinates of shape (n, 2) for each edge, got {corners.shape} at edge "
            f"{edge}",
        )
    yield corners[:, :2]


def _in_order(values: ArrayLike, n: int, names: Sequence[Hashable] | None) -> np.ndarray:
    """Values in the order of the edges: those of a Series by its labels."""
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (n,):
        raise checks.value_error(
            "values", f"must have one entry per edge, shape ({n},), got {array.shape}"
        )

    index = getattr(values, "index", None)
    if names is None or index is None or callable(index):
        return array
    labels = list(index)
    if labels == list(names):
        return array

    table = dict(zip(labels, array.tolist(), strict=True))
    lacking = next((name for name in names if name not in table), None)
    if lacking is not None or len(table) < n:
        fault = f"no value for {lacking!r}" if len(table) == n else "labels that repeat"
        raise checks.value_error(
            "values",
            f"must have the labels of the edges, such as {names[0]!r}, got {fault} (labels such as "
            f"{labels[0]!r}); pass values.to_numpy() if they are in the order of the edges",
        )
    return np.array([table[name] for name in names])


def _beside(parts: list[np.ndarray], offset: float, stretch: float) -> list[np.ndarray]:
    """Lines, moved right by `offset` units of height where another joins their ends back."""
    ends = [(tuple(part[0].tolist()), tuple(part[-1].tolist())) for part in parts]
    known = set(ends)
    paired = np.array(
        [first != last and (last, first) in known for first, last in ends], dtype=bool
    )
    if not paired.any():
        return parts
    sizes = np.array([len(part) for part in parts])
    corners, last = np.concatenate(parts), np.cumsum(sizes)
    steps = np.diff(corners, axis=0) / (stretch, 1)
    steps[last[:-1] - 1] = 0.0  # from one line to the next
    right = _unit(np.column_stack([steps[:, 1], -steps[:, 0]]))
    nothing = np.zeros((1, 2))
    normals = _unit(np.vstack([nothing, right]) + np.vstack([right, nothing]))
    moved = corners + offset * np.repeat(paired, sizes)[:, None] * normals * (stretch, 1)
    return np.split(moved, last[:-1])


def _unit(vectors: np.ndarray) -> np.ndarray:
    """Vectors scaled to length 1, but for those of length 0."""
    length = np.hypot(*vectors.T)[:, None]
    return np.divide(vectors, length, out=np.zeros_like(vectors), where=length > 0)
