"""Graphs of maps: roads that meet at their ends, and areas that share a border, as geopandas holds them."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphrf._base import checks
from graphrf._base.files.foreign import listed
from graphrf.graph.edges import positions_of_names
from graphrf.graph.files.text_files import EdgeList
from graphrf.graph.notices import is_weight

_LINES = {"LineString", "MultiLineString", "LinearRing"}


def is_map(source: Any) -> bool:
    """True if an object has geometries and a coordinate system, as those of geopandas do."""
    return all(hasattr(source, name) for name in ("geometry", "geom_type", "crs", "explode"))


def edges_of_map(source: Any, weight: str | int | None) -> EdgeList:
    """The edges of lines, which join their ends, or of polygons that share a border of positive length.

    Ends of lines are named by their coordinates (x, y), polygons by their index. The weights of lines are a
    column, or their lengths where weight="length" and no column has that name.
    """
    kinds = _kinds(source)
    if kinds <= _LINES:
        return _of_lines(source.explode(ignore_index=True), weight)
    if kinds <= {"Polygon", "MultiPolygon"}:
        if weight is not None:
            raise checks.value_error("weight", f"belongs to lines, not to polygons, got {weight!r}")
        return _of_areas(source)
    raise checks.value_error(
        "source", f"must have lines only, which become roads, or polygons only, got {listed(sorted(kinds))}"
    )


def _kinds(source: Any) -> set[str]:
    """The kinds of the geometries of a map, each row of which has one."""
    if source.geometry.isna().any() or source.geometry.is_empty.any():
        raise checks.value_error("source", "must have a geometry in each row; drop rows without one (dropna)")
    return set(source.geom_type)


def parts_of_lines(source: Any) -> tuple[np.ndarray, EdgeList]:
    """The row of each part of the lines of a map, and the edges that these parts are, without weights."""
    kinds = _kinds(source)
    if not kinds <= _LINES:
        raise checks.value_error("source", f"must have lines only with on='edges', got {listed(sorted(kinds))}")
    parts = source.geometry.reset_index(drop=True).explode()
    return parts.index.to_numpy(), _of_lines(parts.reset_index(drop=True), None)


def _of_lines(source: Any, weight: str | int | None) -> EdgeList:
    lines = source.geometry
    corners = lines.get_coordinates()
    rows, places = corners.index.to_numpy(), corners.to_numpy()
    ends = np.empty((2 * len(lines), 2))
    ends[0::2] = places[np.searchsorted(rows, np.arange(len(lines)))]
    ends[1::2] = places[np.searchsorted(rows, np.arange(len(lines)), side="right") - 1]
    positions, nodes = positions_of_names(list(map(tuple, (ends + 0.0).tolist())))
    values, title, others = weights_of_lines(source, weight)
    return EdgeList(positions[0::2], positions[1::2], values, nodes, np.arange(len(lines)), title, others)


def weights_of_lines(source: Any, weight: str | int | None) -> tuple[Any, str | None, dict[str, Any]]:
    """The values of a column, or lengths, with their title; the other columns where none is asked for."""
    titles = [str(title) for title in getattr(source, "columns", ())]
    values, others = None, {}
    if weight is None:
        others = {title: list(source[title]) if is_weight(title) else [] for title in titles}
    elif weight in titles:
        values = np.asarray(source[weight]).astype(np.float64)
    elif weight == "length":
        if source.crs is not None and source.crs.is_geographic:
            raise checks.value_error("weight", "= 'length' is in degrees here; project the map first (to_crs)")
        values = np.asarray(source.geometry.length)
    else:
        raise checks.value_error("weight", f"must be a column ({listed(titles)}) or 'length', got {weight!r}")
    return values, None if weight is None else str(weight), others


def _of_areas(source: Any) -> EdgeList:
    areas = source.geometry.reset_index(drop=True)
    first, second = areas.sindex.query(areas, predicate="intersects")
    first, second = first[first < second], second[first < second]
    here, there = (areas.boundary.iloc[side].reset_index(drop=True) for side in (first, second))
    shared = np.asarray(here.intersection(there).length) > 0
    names = source.index.tolist() if source.index.is_unique else list(range(len(areas)))
    rows = np.arange(int(shared.sum()))
    return EdgeList(first[shared], second[shared], None, names, rows, None, {})
