"""Places at which planar fields have values, the vertices of a triangle mesh or a lattice, and the
polygons within which they are drawn.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from graphrf._base import checks, lazy
from graphrf._base.cached import cached_property
from graphrf.plot._given import places

if TYPE_CHECKING:
    from matplotlib.path import Path

# Distances between columns of a lattice below this share of its extent are rounding, and so are
# shares of a step.
_ROUNDING, _OFF_LATTICE = 1e-6, 1e-2
# Places are no lattice if it would have more cells than this for each of them: they are scattered.
_MOST_CELLS = 100

Box = tuple[float, float, float, float]


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


class Plane(Protocol):
    """Places that carry the values of a planar field."""

    places: np.ndarray

    @property
    def box(self) -> Box:
        """Left, right, bottom and top."""

    def image(self, values: np.ndarray, box: Box, pixels: tuple[int, int]) -> tuple[Any, Box]:
        """A picture of a box in rows from the bottom, and the box of that picture."""

    def seen(self, values: np.ndarray, region: Region) -> np.ndarray:
        """Values within a region, with their least and largest."""


class PlanarMesh:
    """Values at the vertices of triangles, within which a field is linear."""

    def __init__(self, vertices: np.ndarray, triangles: np.ndarray) -> None:
        self.places, self.triangles = vertices, triangles

    @property
    def box(self) -> Box:
        return box_of(self.places)

    def image(
        self, values: np.ndarray, box: Box, pixels: tuple[int, int]
    ) -> tuple[np.ndarray, Box]:
        """The field at the centres of pixels.

        Renderers that are given triangles interpolate colours between vertices, which are then not
        those of the colour bar. Here the values are interpolated.
        """
        (columns, rows), (left, right, bottom, top) = pixels, box
        x = left + (right - left) * (np.arange(columns) + 0.5) / columns
        y = bottom + (top - bottom) * (np.arange(rows) + 0.5) / rows
        return self._at(values, np.column_stack([a.ravel() for a in np.meshgrid(x, y)])).reshape(
            rows, columns
        ), box

    def seen(self, values: np.ndarray, region: Region) -> np.ndarray:
        inside = values[region.contains(self.places)]
        return np.concatenate([inside, self._at(values, region.corners)])

    def _at(self, values: np.ndarray, points: np.ndarray) -> np.ndarray:
        """The field at points, NaN outside the mesh."""
        from matplotlib.tri import LinearTriInterpolator

        field = LinearTriInterpolator(self._triangulation, values)
        return np.ma.filled(field(*points.T), np.nan)

    @cached_property
    def _triangulation(self) -> Any:
        from matplotlib.tri import Triangulation

        x, y = self.places.T
        return Triangulation(x, y, self.triangles)


class Lattice:
    """Values of the cells of a lattice, of which some may be missing."""

    def __init__(self, centres: np.ndarray) -> None:
        self.places = centres
        (self.columns, left, self._width), (self.rows, bottom, self._height) = (
            _steps(axis) for axis in centres.T
        )
        self._start = left - self._width / 2, bottom - self._height / 2
        self._shape = int(self.rows.max()) + 1, int(self.columns.max()) + 1
        if self._shape[0] * self._shape[1] > _MOST_CELLS * (len(centres) + 1):
            raise _no_lattice()

        cells = self.rows * self._shape[1] + self.columns
        if np.unique(cells).size < cells.size:
            raise checks.value_error(
                "domain",
                f"must have each place of a lattice once, got {cells.size} places in "
                f"{np.unique(cells).size} cells: pass those of one year, or the like",
            )

    @property
    def box(self) -> Box:
        (left, bottom), (rows, columns) = self._start, self._shape
        return left, left + columns * self._width, bottom, bottom + rows * self._height

    def image(
        self, values: np.ndarray, box: Box, pixels: tuple[int, int]
    ) -> tuple[np.ndarray, Box]:
        """A pixel for each cell, whatever the box."""
        picture = np.full(self._shape, np.nan)
        picture[self.rows, self.columns] = values
        return picture, self.box

    def seen(self, values: np.ndarray, region: Region) -> np.ndarray:
        return values[region.contains(self.places)]


def plane_of(domain: Any) -> Plane:
    """A planar mesh, or places of a lattice."""
    if hasattr(domain, "triangles"):
        return PlanarMesh(*triangulation_of(domain, "domain"))
    lazy.need("matplotlib.figure", "a figure")
    try:
        centres = np.asarray(domain, dtype=np.float64)
    except (TypeError, ValueError):
        centres = np.empty(0)
    if centres.ndim != 2 or centres.shape[1] != 2 or not np.isfinite(centres).all():
        raise checks.value_error(
            "domain",
            "must be a TriangleMesh, or the finite places of a lattice, shape (n, 2), got "
            f"{checks.describe(domain)}",
        )
    return Lattice(centres)


def triangulation_of(mesh: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The vertices and triangles of a mesh."""
    try:
        return np.asarray(mesh.vertices, dtype=np.float64), np.asarray(mesh.triangles)
    except AttributeError:
        raise checks.value_error(
            name, f"must be a TriangleMesh, got {checks.describe(mesh)}"
        ) from None


def box_of(points: np.ndarray) -> Box:
    """Left, right, bottom and top of points."""
    (left, bottom), (right, top) = points.min(axis=0), points.max(axis=0)
    return float(left), float(right), float(bottom), float(top)


def points_of(points: ArrayLike) -> np.ndarray:
    """Points on top of a planar field, shape (n, 2)."""
    series = getattr(points, "geometry", None)
    if series is not None and hasattr(series, "x"):
        points = np.column_stack([series.x, series.y])
    try:
        return places(points)
    except (TypeError, ValueError):
        raise checks.value_error(
            "points", f"must be numbers of shape (n, 2), got {checks.describe(points)}"
        ) from None


def _steps(axis: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Positions on an axis as whole numbers of steps, their start, and the step."""
    gaps = np.diff(np.unique(axis))
    gaps = gaps[gaps > _ROUNDING * np.ptp(axis)]
    step, start = float(gaps.min(initial=np.inf)), float(axis.min())
    if not gaps.size:
        return np.zeros(axis.size, dtype=np.int64), start, 1.0
    number = np.round((axis - start) / step)
    # The smallest gap is inexact where coordinates are rounded.
    step = float((axis.max() - start) / number.max())
    off = np.abs((axis - start) / step - np.round((axis - start) / step)).max()
    if off > _OFF_LATTICE:
        raise _no_lattice()
    return np.round((axis - start) / step).astype(np.int64), start, step


def _no_lattice() -> ValueError:
    return checks.value_error(
        "domain",
        "must be a TriangleMesh, or the places of a lattice of equal steps, got scattered places: "
        "predict at the vertices of a mesh to draw a field between them, or pass the coordinates "
        "in which they are a lattice (longitudes and latitudes with geographic=True)",
    )
