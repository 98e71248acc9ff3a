"""Graphs of maps, as geopandas holds them: roads that meet, and areas that share a border."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np

from graphrf._base import checks
from graphrf._base.files.untrusted import listed, short
from graphrf.graph import notices
from graphrf.graph.files.text_files import EdgeList
from graphrf.graph.geometry.areas import borders, n_beside
from graphrf.graph.geometry.joining import SHARE, checked_tolerance, join_places
from graphrf.graph.graph import Graph

_LINES = {"LineString", "MultiLineString", "LinearRing"}
# There is a warning if ends of lines that were joined are more than this share of the nodes.
_MANY = 0.1
# Areas up to so many default tolerances apart, a hundredth of the median outline, are warned of.
_GAP = 100.0


class MapEdges(NamedTuple):
    """The edges of a map, what its nodes are called, warnings about it, and a way out.

    The way out is for few edges, or a largest part with less than a share `together` of the nodes.
    """

    edges: EdgeList
    what: str
    remarks: list[str]
    way_out: str
    together: float

    def notices(self, graph: Graph) -> list[str]:
        """All warnings about the graph that these edges make."""
        return [
            *self.remarks,
            notices.of_few_edges(self.what, graph, self.way_out, together=self.together),
        ]


def is_map(source: Any) -> bool:
    """True if an object has geometries and a coordinate system, as those of geopandas do."""
    return all(hasattr(source, name) for name in ("geometry", "geom_type", "crs", "explode"))


def edges_of_map(
    source: Any, weight: str | int | None, weight_is: str | None, tolerance: Any
) -> MapEdges:
    """The edges of lines, which join their ends, or of polygons by borders; see `load_graph`."""
    kinds = _kinds(source)
    if kinds <= _LINES:
        return _of_lines(source, weight, weight_is, tolerance)
    if kinds <= {"Polygon", "MultiPolygon"}:
        if weight is not None:
            raise checks.value_error("weight", f"belongs to lines, not to polygons, got {weight!r}")
        return _of_areas(source, tolerance)
    raise checks.value_error(
        "source",
        f"must have lines only, which become roads, or polygons only, got {listed(sorted(kinds))}",
    )


def _kinds(source: Any) -> set[str]:
    """The kinds of the geometries of a map, each row of which has one."""
    if source.geometry.isna().any() or source.geometry.is_empty.any():
        raise checks.value_error(
            "source", "must have a geometry in each row; drop rows without one (dropna)"
        )
    return set(source.geom_type)


class Lines(NamedTuple):
    """Lines without parts: row of the map, length and ends (positions in `nodes`) of each."""

    row: np.ndarray
    lengths: np.ndarray
    ends: np.ndarray
    nodes: list[Hashable]
    remarks: list[str]
    way_out: str


def lines_of_map(source: Any, tolerance: Any) -> Lines:
    """The lines of a map, and ends as nodes named by coordinates, one within the tolerance."""
    import shapely

    kinds = _kinds(source)
    if not kinds <= _LINES:
        raise checks.value_error(
            "source", f"must have lines only with on='edges', got {listed(sorted(kinds))}"
        )

    lines, row = shapely.get_parts(shapely.force_2d(np.asarray(source.geometry)), return_index=True)
    lengths = shapely.length(lines)
    corners, line = shapely.get_coordinates(lines, return_index=True)
    starts = np.searchsorted(line, np.arange(len(lines)))
    places = corners[np.stack([starts, np.r_[starts[1:], len(line)] - 1], axis=1)].reshape(-1, 2)
    reach = checked_tolerance(tolerance, lengths, "the lines")
    joined = join_places(places, np.arange(len(places)).reshape(-1, 2), reach)
    nodes: list[Hashable] = list(map(tuple, (places[joined.first] + 0.0).tolist()))

    remarks = []
    if tolerance is None and joined.n_moved > _MANY * len(nodes):
        remarks.append(
            f"{joined.n_moved:,} ends of lines were joined with others that are not at the same "
            f"coordinates, but within {reach:.2g}, {SHARE:g} of the median length of the lines: "
            f"pass tolerance={reach:.2g} to join them without this warning, tolerance=0 to keep "
            "them apart"
        )
    if tolerance is not None and joined.n_left:
        remarks.append(
            f"{joined.n_left:,} ends of lines stay apart although others are within "
            f"tolerance={reach:g}: lines that end there are shorter than four times that, or the "
            "ends are a long row"
        )

    way_out = (
        f"lines are joined at common ends, here within {reach:.2g}: pass tolerance= if ends miss "
        "each other by more, and split lines where they cross or end along another"
    )
    return Lines(row, lengths, joined.group.reshape(-1, 2), nodes, remarks, way_out)


def weights_of_lines(source: Any, weight: str | int | None) -> tuple[Any, dict[str, Any], str]:
    """The values of a column, or lengths, of each row, other columns if none, and a remark."""
    titles = [str(title) for title in getattr(source, "columns", ())]
    if weight is None:
        return (
            None,
            {title: list(source[title]) if notices.is_weight(title) else [] for title in titles},
            "",
        )
    if weight in titles:
        return np.asarray(source[weight]).astype(np.float64), {}, ""
    if weight == "length":
        degrees = _of_degrees(source.crs, source.geometry.get_coordinates().to_numpy())
        return source.geometry.length.to_numpy(), {}, degrees
    raise checks.value_error(
        "weight", f"must be a column ({listed(titles)}) or 'length', got {weight!r}"
    )


def _of_lines(
    source: Any, weight: str | int | None, weight_is: str | None, tolerance: Any
) -> MapEdges:
    lines = lines_of_map(source, tolerance)
    values, others, remark = weights_of_lines(source, weight)
    if weight == "length" and weight not in getattr(source, "columns", ()):
        values = lines.lengths
    elif values is not None:
        values, remark = _of_parts(values, lines, str(weight), weight_is)
    title = None if weight is None else str(weight)
    edges = EdgeList(
        lines.ends[:, 0], lines.ends[:, 1], values, lines.nodes, lines.row, title, others
    )
    return MapEdges(edges, "ends of lines", [*lines.remarks, remark], lines.way_out, 0.5)


def _of_parts(
    values: np.ndarray, lines: Lines, title: str, weight_is: str | None
) -> tuple[np.ndarray, str]:
    """Weights of lines without parts from those of rows: lengths and times are shared; a remark."""
    row, lengths = lines.row, lines.lengths
    values, several = values[row], np.bincount(row)[row] > 1
    if not several.any() or weight_is == "similarity":
        return values, ""
    if weight_is == "distance" or notices.sounds_like_distance(title):
        totals = np.bincount(row, weights=lengths)[row]
        return values * np.divide(
            lengths, totals, out=np.ones(len(row)), where=several & (totals > 0)
        ), ""
    return values, (
        f"each part of a MultiLineString ({np.unique(row[several]).size:,} of the "
        f"{int(row[-1]) + 1:,} lines) has the whole line's {short(title)}: weight_is='distance' "
        "shares lengths, times and costs among the parts, weight_is='similarity' ends this warning"
    )


def _of_degrees(crs: Any, places: np.ndarray) -> str:
    """Remark about lengths in degrees where the coordinate system is unknown; else an error."""
    if crs is not None and crs.is_geographic:
        raise checks.value_error(
            "weight", "= 'length' is in degrees here; project the map first (to_crs)"
        )
    if crs is None and notices.look_like_degrees(places):
        return notices.of_degrees(
            "'length'", "state the coordinate system and project: set_crs(4326).to_crs(...)"
        )
    return ""


def _of_areas(source: Any, tolerance: Any) -> MapEdges:
    import shapely

    areas = shapely.force_2d(np.asarray(source.geometry))
    index = source.index
    if not index.is_unique:
        again = index[index.duplicated()]
        raise checks.value_error(
            "source",
            f"must have an index of distinct names, one for each area, got {short(again[0])} more "
            f"than once ({len(again):,} of {len(areas):,} rows repeat an earlier one): "
            "reset_index() numbers the rows, set_index('column') names them, dissolve(by='column') "
            "makes one area of rows with the same name",
        )

    outlines = shapely.length(areas)
    reach = checked_tolerance(tolerance, outlines, "the outlines")
    found = borders(areas, reach, min(reach, checked_tolerance(None, outlines, "the outlines")))
    remarks = []
    way_out = (
        "pass tolerance=, the width of the gaps between areas in the unit of the map (here "
        f"{reach:.2g}), if they should have borders in common"
    )

    n_overlaps, n_found = int(found.overlap.sum()), len(found.first)
    if n_overlaps:
        remarks.append(
            f"{n_overlaps:,} of the {n_found:,} pairs of neighbours overlap by more than "
            f"tolerance={reach:.2g}, and are neighbours even if only their corners overlap: pass "
            "the width of such overlaps as tolerance="
        )

    gaps = n_beside(areas, found, _GAP * reach) if tolerance is None and reach > 0 else 0
    if gaps:
        alone = np.setdiff1d(np.arange(len(areas)), np.concatenate([found.first, found.second]))
        without = f"; without any neighbour: {listed(index[alone].tolist(), 3)}"
        remarks.append(
            f"{gaps:,} more pairs of areas run along each other within {_GAP * reach:.2g}, but are "
            f"no neighbours (there are {n_found:,} pairs of neighbours{without * bool(alone.size)})"
            f": {way_out}; to simplify a map, simplify_coverage keeps its borders in common"
        )
        way_out = ""

    rows = np.arange(n_found)
    edges = EdgeList(found.first, found.second, None, index.tolist(), rows, None, {})
    return MapEdges(edges, "areas", remarks, way_out, 0.0)
