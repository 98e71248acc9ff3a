"""Polygons that are filled, or within which a field is drawn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from graphrf._base import checks

if TYPE_CHECKING:
    from matplotlib.path import Path


class Region:
    """Polygons with holes, each a list of rings of which the first is the exterior.

    Parameters
    ----------
    boundary : Polygon or MultiPolygon of shapely, GeoSeries, GeoDataFrame, or array_like
        An array is one ring, shape (n, 2).
    """

    def __init__(self, boundary: Any) -> None:
        # The index and the other columns of a frame are no part of its region.
        shape = getattr(getattr(boundary, "geometry", boundary), "__geo_interface__", None)
        if shape is None:
            self.polygons = [[_ring(boundary)]]
        else:
            self.polygons = [[_ring(ring) for ring in rings] for rings in _polygons(shape)]

        if not self.polygons:
            raise checks.value_error("boundary", "must hold at least one polygon, got none")

    @property
    def corners(self) -> np.ndarray:
        """The corners of all rings, shape (n, 2)."""
        return np.concatenate([ring for rings in self.polygons for ring in rings])

    def contains(self, points: np.ndarray) -> np.ndarray:
        """True for points, shape (n, 2), within a polygon and outside its holes."""
        from matplotlib.path import Path

        within = np.zeros(len(points), dtype=bool)
        for exterior, *holes in self.polygons:
            inside = Path(exterior).contains_points(points)
            for hole in holes:
                inside &= ~Path(hole).contains_points(points)
            within |= inside
        return within

    def rings(self) -> list[np.ndarray]:
        """All rings, closed, exteriors of one direction and holes of the other.

        Renderers fill what winds around a point in sum, so that holes stay open also where polygons
        overlap.
        """
        return [
            _closed(ring[:: 1 if (_signed_area(ring) > 0) == (number == 0) else -1])
            for polygon in self.polygons
            for number, ring in enumerate(polygon)
        ]

    def path(self) -> Path:
        """All rings as one path to fill or to clip with."""
        from matplotlib.path import Path

        return Path.make_compound_path(*(Path(ring, closed=True) for ring in self.rings()))


def _polygons(shape: Any) -> Iterator[Any]:
    """The coordinates of the polygons of a GeoJSON object."""
    kind = shape["type"]
    if kind == "FeatureCollection":
        for feature in shape["features"]:
            yield from _polygons(feature["geometry"])
    elif kind == "Polygon":
        # An empty polygon has no ring.
        yield from [shape["coordinates"]] if len(shape["coordinates"]) else []
    elif kind == "MultiPolygon":
        yield from shape["coordinates"]
    else:
        raise checks.value_error("boundary", f"must hold polygons alone, got a {kind}")


def _ring(corners: Any) -> np.ndarray:
    try:
        ring = np.asarray(corners, dtype=np.float64)
    except (TypeError, ValueError):
        ring = np.empty(0)
    if ring.ndim != 2 or ring.shape[1] not in (2, 3) or len(ring) < 3:
        raise checks.value_error(
            "boundary",
            "must be a polygon of shapely or geopandas, or the corners of one, shape (n, 2), got "
            f"{checks.describe(corners)}",
        )
    if not np.isfinite(ring).all():
        raise checks.value_error("boundary", "must have finite corners, got NaN or infinity")
    return ring[:, :2]


def _closed(ring: np.ndarray) -> np.ndarray:
    return np.concatenate([ring, ring[:1]])


def _signed_area(ring: np.ndarray) -> float:
    x, y = (ring - ring[0]).T
    return float(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2
