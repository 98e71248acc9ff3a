"""Values of areas, such as districts: a map of filled polygons."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from graphrf._base import checks
from graphrf.graph.other_graphs import in_degrees as crs_in_degrees
from graphrf.plot._given import in_degrees, in_order, unit_of
from graphrf.plot._planes import Region
from graphrf.plot._style import (
    GREY,
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

_POLYGONS = ("Polygon", "MultiPolygon")
# From so many areas on they are a bitmap in vector files.
_MANY = 20_000
# Points: the lines of a hatch.
_HATCH = 0.4


class Areas(NamedTuple):
    """Polygons with holes, and the names of the areas that they are."""

    regions: list[Region | None]  # None for an area without a geometry
    names: Sequence[Hashable] | None
    crs: Any

    @property
    def corners(self) -> np.ndarray:
        """The corners of all, shape (n, 2)."""
        corners = [region.corners for region in self.regions if region is not None]
        return np.concatenate(corners) if corners else np.empty((0, 2))

    @property
    def drawn(self) -> np.ndarray:
        """True for areas with a geometry."""
        return np.array([region is not None for region in self.regions], dtype=bool)

    def paths(self, chosen: np.ndarray) -> list[Any]:
        """The outlines of some areas."""
        pairs = zip(self.regions, chosen.tolist(), strict=True)
        return [region.path() for region, some in pairs if some and region is not None]


def plot_areas(
    areas: Any,
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
    """A map of areas, such as districts, filled with the colours of their `values`.

    Parameters
    ----------
    areas : GeoDataFrame, GeoSeries, or sequence of polygons of shapely
        N polygons, with holes and of several parts.
    values : array_like of float, shape (N,)
        In the order of the areas; a Series of pandas is matched by its index with that of the map,
        and may lack some. Areas without a value (NaN) are hatched.
    ax, label, cmap, limits
        See `plot_graph_signal`.
    norm, unit, geographic
        See `plot_edges`.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    TypeError, ValueError
        For geometries that are no polygons, and values that do not belong to the areas.

    See Also
    --------
    plot_map_posterior : the mean beside the standard deviation.

    Examples
    --------
    >>> import shapely
    >>> from graphrf.plot import plot_areas
    >>> districts = [shapely.box(0, 0, 10, 10), shapely.box(10, 0, 20, 10)]
    >>> ax = plot_areas(districts, [1.2, 0.8], label="relative risk", unit="km")
    >>> _ = ax.set_title("2020")
    """
    found = areas_of(areas)
    known, scale = scaled(in_order(values, len(found.regions), found.names, "area"), limits, norm)

    new, ax = ax is None, new_axes(ax, (6.0, 5.0))
    corners = found.corners
    degrees = in_degrees(corners, crs_in_degrees(found.crs) if geographic is None else geographic)
    stretch = stretch_of(corners, degrees)
    apart, _ = spacing(ax, corners, stretch, len(found.regions))

    from matplotlib.collections import PathCollection

    valued = np.isfinite(known)
    # Borders of many areas would hide their colours.
    drawn: dict[str, Any] = {
        "edgecolors": GREY,
        "linewidths": float(np.clip(0.02 * apart, 0.05, 0.5)),
        "rasterized": len(found.regions) > _MANY,
        "zorder": 1,
    }
    # In print the grey of a missing value could be a colour, but hatches are none.
    bare = PathCollection(found.paths(~valued), facecolors="white", hatch="/////", **drawn)
    if hasattr(bare, "set_hatch_linewidth"):  # from matplotlib 3.10 on
        bare.set_hatch_linewidth(_HATCH)
    ax.add_collection(bare)
    shapes = PathCollection(found.paths(valued), cmap=cmap, norm=scale, **drawn)
    shapes.set_array(known[valued & found.drawn])
    ax.add_collection(shapes)

    ax.autoscale_view()
    map_frame(ax, stretch, degrees, unit_of(found.crs) if unit is None else unit)
    colour_bar(shapes, ax, label, extended_ends(known[valued], scale.vmin, scale.vmax))
    if new:
        fit_maps([ax])
    return ax


def are_areas(source: Any) -> bool:
    """True for maps and sequences that hold a polygon of shapely."""
    shapes = getattr(source, "geometry", source)
    if isinstance(shapes, str | bytes | np.ndarray) or not hasattr(shapes, "__iter__"):
        return False
    return any(getattr(shape, "geom_type", "") in _POLYGONS for shape in shapes)


def areas_of(source: Any) -> Areas:
    """The polygons of a map or a sequence, with the names of the areas."""
    if hasattr(source, "geometry") and hasattr(source, "crs"):
        shapes, names, crs = list(source.geometry), list(source.index), source.crs
    elif are_areas(source):
        shapes, names, crs = list(source), None, None
    else:
        raise checks.type_error(
            "areas",
            "must be a GeoDataFrame or a sequence of polygons of shapely, got "
            f"{checks.describe(source)}",
        )
    for number, shape in enumerate(shapes):
        kind = getattr(shape, "geom_type", None)
        if shape is not None and kind not in _POLYGONS:
            name = number if names is None else names[number]
            raise checks.value_error(
                "areas",
                f"must have polygons only, got {kind or checks.describe(shape)} at "
                f"{name!r}: `plot_edges` draws lines, `plot_graph_signal` points",
            )
    regions = [None if shape is None or shape.is_empty else Region(shape) for shape in shapes]
    return Areas(regions, names, crs)
