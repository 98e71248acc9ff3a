"""Values on edges that have their own geometry, such as streets."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from graphrf._base import checks, lazy
from graphrf.graph.other_graphs import in_degrees as crs_in_degrees
from graphrf.plot._given import in_degrees, in_order, unit_of
from graphrf.plot._style import (
    PALE,
    VALUES,
    colour_bar,
    extended_ends,
    fit_maps,
    map_frame,
    new_axes,
    scaled,
    spacing,
    stretch_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# From so many lines on they are a bitmap in vector files.
_MANY = 5_000


class EdgeLines(NamedTuple):
    """E edges as lines, of which an edge may have several."""

    parts: list[np.ndarray]  # vertices, (n, 2) each
    edge: np.ndarray  # the edge that each part belongs to
    names: Sequence[Hashable] | None
    crs: Any

    @property
    def n(self) -> int:
        """The number of edges."""
        return int(self.edge.max(initial=-1)) + 1 if self.names is None else len(self.names)


def plot_edges(
    lines: Any,
    values: ArrayLike,
    *,
    ax: Axes | None = None,
    label: str = "",
    cmap: str = VALUES,
    limits: tuple[float, float] | None = None,
    norm: str = "linear",
    unit: str | None = None,
    geographic: bool | None = None,
) -> Axes:
    """Edges drawn with their own geometry and coloured by `values`, such as the speeds of streets.

    Parameters
    ----------
    lines : GeoDataFrame, GeoSeries, networkx graph, or sequence
        E edges: a map of lines, such as the edges of `osmnx.graph_to_gdfs`; a graph whose nodes
        have x and y, and whose edges may have a `geometry`, as OSMnx's have, also as text, as
        GraphML has it; lines of shapely; or coordinates, an array of shape (n, 2) for each edge.
    values : array_like of float, shape (E,)
        In the order of the edges; a Series of pandas is matched by its index with the names of the
        edges, and may lack some. Edges without a value (NaN) are grey.
    ax, label, cmap, limits
        See `plot_graph_signal`.
    norm : {"linear", "log"}
        The scale of the colours: "log" for values such as traffic, of which few are large; values
        up to 0 have the lowest colour.
    unit : str, optional
        The unit of the coordinates, for a scale bar. Default: that of the coordinate system `crs`.
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
    found = lines_of(lines)
    known, scale = scaled(in_order(values, found.n, found.names, "edge"), limits, norm)

    new, ax = ax is None, new_axes(ax, (6.0, 5.0))
    corners = np.concatenate(found.parts) if found.parts else np.empty((0, 2))
    degrees = in_degrees(corners, crs_in_degrees(found.crs) if geographic is None else geographic)
    stretch = stretch_of(corners, degrees)
    apart, points = spacing(ax, corners, stretch, len(found.parts))
    width = float(np.clip(0.3 * apart, 0.3, 2.6))
    shown = _beside(found.parts, 0.6 * width / points, stretch)

    from matplotlib.collections import LineCollection

    own = known[found.edge]
    valued = np.isfinite(own)
    drawn = {"capstyle": "round", "rasterized": len(shown) > _MANY}
    grey = [line for line, some in zip(shown, valued, strict=True) if not some]
    ax.add_collection(
        LineCollection(grey, colors=PALE, linewidths=min(0.8, width), zorder=1, **drawn)
    )

    lines = [line for line, some in zip(shown, valued, strict=True) if some]
    coloured = LineCollection(lines, cmap=cmap, norm=scale, linewidths=width, zorder=2, **drawn)
    coloured.set_array(own[valued])
    ax.add_collection(coloured)

    ax.autoscale_view()
    map_frame(ax, stretch, degrees, unit_of(found.crs) if unit is None else unit)
    colour_bar(coloured, ax, label, extended_ends(own[valued], scale.vmin, scale.vmax))
    if new:
        fit_maps([ax])
    return ax


def are_lines(source: Any) -> bool:
    """True for maps, graphs of networkx, and sequences of lines of shapely."""
    if hasattr(source, "is_multigraph") or (hasattr(source, "geometry") and hasattr(source, "crs")):
        return True
    if isinstance(source, str | bytes | np.ndarray) or not hasattr(source, "__iter__"):
        return False
    return any("Line" in getattr(shape, "geom_type", "") for shape in source)


def lines_of(source: Any) -> EdgeLines:
    """The lines of a map, a networkx graph or a sequence, with the names of the edges."""
    if hasattr(source, "is_multigraph") and hasattr(source, "graph"):
        return _of_network(source)
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
    return EdgeLines([part for part, _ in parts], edges, names, crs)


def _of_network(graph: Any) -> EdgeLines:
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
    return EdgeLines(parts, np.array(edges, dtype=np.int64), names, graph.graph.get("crs"))


def _parts(shape: Any, edge: int) -> Iterator[np.ndarray]:
    """The lines that a geometry of shapely, coordinates, or well-known text, as in GraphML, are
    made of.
    """
    if isinstance(shape, str):
        shape = _read(shape, edge)
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


def _read(text: str, edge: int) -> Any:
    shapely = lazy.need("shapely", "geometry as text")
    try:
        return shapely.from_wkt(text)
    except shapely.errors.GEOSException:
        raise checks.value_error(
            "lines",
            "must have a geometry of shapely, coordinates or well-known text for each edge, got "
            f"{checks.describe(text)} at edge {edge}",
        ) from None


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
