"""Places as users have them: arrays, columns of data frames, and geometries of shapely and
geopandas with their coordinate reference systems.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from graphrf._base import checks, lazy
from graphrf.graph.tables import is_table

# Words in titles of columns that say which coordinate they hold.
_AXES = (
    {"x", "lon", "long", "lng", "longitude", "east", "easting", "eastings"},
    {"y", "lat", "latitude", "north", "northing", "northings"},
    {"z", "height", "elevation", "altitude"},
)
_DEGREES = {"lon", "long", "lng", "longitude", "lat", "latitude"}


@dataclass(frozen=True)
class Geometries:
    """Geometries of shapely, shape (n,), none of them missing or empty, and their coordinate
    reference system.
    """

    values: np.ndarray
    reference: Any = None  # a CRS of pyproj

    def __len__(self) -> int:
        return len(self.values)

    def at(self, rows: np.ndarray) -> Geometries:
        """Some of them."""
        return Geometries(self.values[rows], self.reference)

    @property
    def are_points(self) -> np.ndarray:
        """True for each that is a point."""
        import shapely

        return np.asarray(shapely.get_type_id(self.values) == shapely.GeometryType.POINT)

    def coordinates(self, name: str, dimension: int) -> np.ndarray:
        """The coordinates of points, (n, 2), or (n, 3) where heights are asked for or vary."""
        import shapely

        others = np.flatnonzero(~self.are_points)
        if others.size:
            raise checks.value_error(
                name, f"must be points, got geometries of type {self.values[others[0]].geom_type}"
            )
        array = np.asarray(shapely.get_coordinates(self.values, include_z=True)).reshape(-1, 3)
        has_heights = len(array) > 0 and bool(shapely.has_z(self.values).all())
        if has_heights and (dimension == 3 or np.ptp(array[:, 2]) > 0):
            return array
        return array[:, :2]


def geometries_of(places: Any, name: str) -> Geometries | None:
    """The geometries of a GeoSeries or GeoDataFrame, a column, array or list; None for others.

    ValueError for missing and empty ones.
    """
    if isinstance(places, Geometries):
        return places
    column = getattr(places, "geometry", places)
    if not (hasattr(column, "__len__") and hasattr(column, "__getitem__")) or is_table(column):
        return None
    first = next((each for each in column if each is not None), None)
    if not hasattr(first, "geom_type") and not hasattr(column, "geom_type"):
        return None
    shapely = lazy.need("shapely", "geometries")
    values = np.empty(len(column), dtype=object)
    values[:] = list(column)
    wrong = ~shapely.is_geometry(values) | shapely.is_empty(values)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        came = "an empty one" if shapely.is_geometry(values[row]) else checks.describe(values[row])
        raise checks.value_error(
            name,
            f"must have a geometry that is not empty in every row, got {came} in row {row} "
            f"({int(wrong.sum())} of {len(values)} such rows): leave these out",
        )
    return Geometries(values, getattr(column, "crs", None))


def coordinates(
    places: Any, name: str, dimension: int = 2, reference: Any = None, *, degrees: bool = False
) -> np.ndarray:
    """Points as an array of shape (n, 2) or (n, 3), from arrays, data frames and geometries.

    `reference` is that of the mesh, and `degrees` are meant on a sphere.
    """
    geometries = geometries_of(places, name)
    if geometries is not None:
        check_reference(geometries.reference, name, reference, degrees=degrees)
        return checks.finite(name, geometries.coordinates(name, dimension))
    table = _as_table(places)
    if table is None:
        array = checks.array(name, places)
        if array.dtype == object and len({np.size(each) for each in array}) == 1:
            array = np.array(array.tolist())  # an index of tuples
        array = _numbers(name, array, "") if array.ndim == 2 else array
    else:
        titles = list(table.columns)
        check_order(titles, name, f"frame[{in_order(titles)!r}]")
        columns = [_numbers(name, np.asarray(table[each]), f" in {each!r}") for each in titles]
        array = np.column_stack(columns) if columns else np.zeros((len(table), 0))
    if array.ndim != 2 or array.shape[1] not in (2, 3) or array.dtype.kind not in "iuf":
        raise checks.value_error(
            name, f"must have the shape (n, 2) or (n, 3), got {checks.describe(places)}"
        )
    return checks.finite(name, array.astype(np.float64))


def titles_of(places: Any) -> tuple[str, ...] | None:
    """The titles of the columns of a data frame with coordinates, or levels of an index, if all of
    them are text; None for geometries and arrays.
    """
    table = None if geometries_of(places, "places") is not None else _as_table(places)
    if table is None or not all(isinstance(title, str) for title in table.columns):
        return None
    return tuple(table.columns)


def check_order(titles: Sequence[Any], name: str, way_out: str) -> None:
    """Refuse columns whose titles say that they are in another order: y before x, and so on."""
    axes = [axis for axis in map(_axis, titles) if axis is not None]
    if axes != sorted(axes):
        order = "x, y" if len(titles) < 3 else "x, y, z"
        raise checks.value_error(
            name,
            f"are read in the order {order} (longitude, latitude; easting, northing), but the "
            f"columns are {', '.join(map(repr, titles))}: pass {way_out}",
        )


def check_titles(points: Any, name: str) -> None:
    """Refuse columns whose titles say that they are degrees, for a planar mesh."""
    titles = titles_of(points) or ()
    degrees = [title for title in titles if set(re.findall("[a-z]+", title.lower())) & _DEGREES]
    if degrees:
        raise checks.value_error(
            name,
            f"must be in metres or kilometres, got {', '.join(map(repr, degrees))} in degrees: "
            "points = geopandas.GeoSeries.from_xy(longitude, latitude, crs=4326), then "
            "points.to_crs(points.estimate_utm_crs())",
        )


def in_order(titles: Sequence[Any]) -> list[Any]:
    """Titles in the order of the coordinates that they name."""
    return sorted(titles, key=lambda title: -1 if (axis := _axis(title)) is None else axis)


def _axis(title: Any) -> int | None:
    """The number of the coordinate that a title names; None where it names none or several."""
    words = set(re.findall("[a-z]+", str(title).lower()))
    found = [number for number, names in enumerate(_AXES) if words & names]
    return found[0] if len(found) == 1 else None


def _as_table(places: Any) -> Any:
    """A data frame, also of the levels of an index; None for anything else."""
    if getattr(places, "nlevels", 1) > 1 and hasattr(places, "to_frame"):
        return places.to_frame(index=False)
    return places if is_table(places) else None


def _numbers(name: str, array: np.ndarray, where: str) -> np.ndarray:
    """An array of numbers, also from cells that are Python's; TypeError for text."""
    if array.dtype.kind == "O" and not any(isinstance(each, str | bytes) for each in array.flat):
        try:
            return array.astype(np.float64)
        except (TypeError, ValueError):
            pass
    if array.dtype.kind not in "iuf":
        text = "text or other objects{}; pandas.to_numeric makes numbers of text"
        kind = text if array.dtype.kind in "OUST" else f"dtype {array.dtype}{{}}"
        raise checks.type_error(name, f"must be numbers, got {kind.format(where)}")
    return array


def polygon_of(region: Any, name: str, reference: Any = None) -> Any:
    """A shapely polygon or multipolygon from one, or from the union of several.

    `reference` is the coordinate reference system of the mesh, if known.
    """
    shapely = lazy.need("shapely", "polygons")
    found = geometries_of([region] if isinstance(region, shapely.Geometry) else region, name)
    if found is None or not len(found):
        raise checks.type_error(
            name, f"must be polygons of shapely or geopandas, got {checks.describe(region)}"
        )
    check_reference(found.reference, name, reference)
    for each in found.values:
        if not isinstance(each, shapely.Polygon | shapely.MultiPolygon):
            raise checks.type_error(
                name,
                f"must be a polygon or polygons, got a {each.geom_type}: shapely.Polygon(line) "
                "makes one of a closed line",
            )
    check_valid(found.values, np.arange(len(found)), name)
    return shapely.union_all(found.values)


def check_valid(geometries: np.ndarray, rows: np.ndarray, name: str) -> None:
    """Refuse geometries in some rows that cross themselves, or have too few points."""
    import shapely

    wrong = rows[~shapely.is_valid(geometries[rows])]
    if wrong.size:
        raise checks.value_error(
            name,
            f"must be valid, but row {wrong[0]} is not "
            f"({shapely.is_valid_reason(geometries[wrong[0]])}): pass shapely.make_valid(...), and "
            "check the result on a map",
        )


def check_overlap(own: ArrayLike, other: ArrayLike, name: str, whose: str) -> None:
    """Refuse what cannot overlap, or is in metres beside kilometres; each is two opposite corners
    of a box.
    """
    (low, high), (other_low, other_high) = boxes = [np.asarray(box, float) for box in (own, other)]
    sizes = [np.abs(box).max() or 1.0 for box in boxes]
    thousandfold = round(abs(float(np.log10(sizes[0] / sizes[1])))) == 3
    if thousandfold or (low > other_high).any() or (other_low > high).any():
        spans = ["x {:.7g} to {:.7g}, y {:.7g} to {:.7g}".format(*box.T.ravel()) for box in boxes]
        raise checks.value_error(
            name,
            f"must overlap the {whose}, but it spans {spans[0]}, and the {whose} {spans[1]}: "
            + ("is one in metres, the other in kilometres? " if thousandfold else "")
            + "bring both to one unit and zone: to_crs of both to one coordinate reference system",
        )


# -- coordinate reference systems ------------------------------------------------------------------


def name_of(reference: Any) -> str:
    """The name of a coordinate reference system, or its definition where it has none."""
    if reference.name != "unknown":
        return str(reference.name)
    with warnings.catch_warnings():  # that a text of PROJ leaves out parts of it
        warnings.simplefilter("ignore")
        return str(reference.to_proj4()) or f"one in {reference.axis_info[0].unit_name}"


def read_reference(crs: Any) -> Any:
    """A projected coordinate reference system of pyproj, from all that pyproj reads, or None."""
    made = _made(crs, "from_user_input")
    check_reference(made, "crs")
    return made


def from_wkt(text: Any) -> Any:
    """The system that a file describes; a description names no other file."""
    return _made(text, "from_wkt")


def _made(crs: Any, reader: str) -> Any:
    if crs is None:
        return None
    pyproj = lazy.need("pyproj", "the coordinate reference system of a mesh")
    try:
        return getattr(pyproj.CRS, reader)(crs)
    except (pyproj.exceptions.CRSError, TypeError) as error:
        raise checks.value_error(
            "crs", f"must be a coordinate reference system that pyproj knows: {error}"
        ) from None


def check_reference(
    given: Any, name: str, wanted: Any = None, whose: str = "mesh", *, degrees: bool = False
) -> None:
    """Refuse geometries in degrees, or on a sphere in others, and those in another system than the
    wanted one.
    """
    if given is None:
        return
    if degrees and not given.is_geographic:
        raise checks.value_error(
            name,
            f"must be longitudes and latitudes on a sphere, got {name_of(given)}: "
            "pass .to_crs(4326)",
        )
    if given.is_geographic and not degrees:
        raise checks.value_error(
            name,
            f"must be in metres or kilometres, got coordinates in degrees ({given.name}): pass "
            + ("frame.to_crs(frame.estimate_utm_crs())" if wanted is None else ".to_crs(mesh.crs)"),
        )
    if wanted is not None and not given.equals(wanted, ignore_axis_order=True):
        raise checks.value_error(
            name,
            f"must be in the coordinate reference system of the {whose}, {name_of(wanted)}, got "
            f"{name_of(given)}: pass {name}.to_crs({whose}.crs)",
        )
