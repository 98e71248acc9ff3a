"""Polygons with a common border, which digitising, simplifying or projecting may have moved."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# A border is longer than so many tolerances: what only touches at a corner is near for one or two.
_LONGER = 4.0
# Rounding in lengths.
_ROUNDING = 1e-9


class Borders(NamedTuple):
    """Pairs of neighbours, positions `first` < `second`, and which overlap by more than allowed."""

    first: np.ndarray
    second: np.ndarray
    overlap: np.ndarray


def borders(areas: np.ndarray, tolerance: float, rounding: float = 0.0) -> Borders:
    """Pairs of shapely polygons with borders along each other, or of which one holds the other.

    Borders with coordinates in common are found exactly, if longer than `rounding`; others, and
    overlaps, within the tolerance.
    """
    import shapely

    first, second = _near(areas, tolerance)
    edges = shapely.boundary(areas)
    found = shapely.length(shapely.intersection(edges[first], edges[second])) > rounding
    overlap = np.zeros(len(first), dtype=bool)
    rest = np.flatnonzero(~found)
    if tolerance > 0:
        found[rest] = _run_along(edges, first[rest], second[rest], tolerance)
        rest = rest[~found[rest]]
    within, overlap[rest] = _covered(areas, edges, first[rest], second[rest], tolerance)
    found[rest] = within | overlap[rest]
    return Borders(first[found], second[found], overlap[found])


def n_beside(areas: np.ndarray, found: Borders, distance: float) -> int:
    """The number of pairs that are not neighbours, but run along each other farther apart.

    Pairs with other areas between them, as on both sides of a narrow one, are left out.
    """
    import shapely

    first, second = _near(areas, distance)
    new = ~np.isin(first * len(areas) + second, found.first * len(areas) + found.second)
    first, second = first[new], second[new]
    beside = _run_along(shapely.boundary(areas), first, second, distance)
    first, second = first[beside], second[beside]

    whole = shapely.make_valid(areas)
    a, b = whole[first], whole[second]
    strips = shapely.intersection(shapely.buffer(a, distance), shapely.buffer(b, distance))
    strips = shapely.difference(shapely.difference(strips, a), b)
    place, other = shapely.STRtree(whole).query(strips)
    third = (other != first[place]) & (other != second[place])
    place, other = place[third], other[third]
    covered = shapely.area(shapely.intersection(strips[place], whole[other]))
    filled = np.bincount(place, weights=covered, minlength=len(strips))
    return int((filled < 0.5 * shapely.area(strips)).sum())


def _near(areas: np.ndarray, tolerance: float) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of polygons within a tolerance of each other, in order."""
    import shapely

    tree = shapely.STRtree(areas)
    if tolerance > 0:
        first, second = tree.query(areas, predicate="dwithin", distance=tolerance)
    else:
        first, second = tree.query(areas, predicate="intersects")
    first, second = first[first < second], second[first < second]
    order = np.lexsort((second, first))
    return first[order], second[order]


def _needed(
    edges: np.ndarray, first: np.ndarray, second: np.ndarray, tolerance: float
) -> np.ndarray:
    """The least length of a border between each pair; infinite where boxes have no room for it."""
    import shapely

    lengths, boxes = shapely.length(edges), shapely.bounds(edges)
    needed = np.minimum(_LONGER * tolerance, 0.25 * np.minimum(lengths[first], lengths[second]))
    low = np.maximum(boxes[first, :2], boxes[second, :2])
    high = np.minimum(boxes[first, 2:], boxes[second, 2:])
    return np.where(np.linalg.norm(high - low + 2 * tolerance, axis=1) > needed, needed, np.inf)


def _run_along(
    edges: np.ndarray, first: np.ndarray, second: np.ndarray, tolerance: float
) -> np.ndarray:
    """True for pairs whose borders run along each other within a tolerance.

    Let L(t) be the length of the first border that is within t of the second. Along a common border
    it hardly depends on t from the tolerance on; where the two only touch or meet at an angle, it
    is proportional to t. So 2 L(t) - L(2 t) is the length of the common border alone.
    """
    needed = _needed(edges, first, second, tolerance)
    result = np.zeros(len(first), dtype=bool)
    rest = np.flatnonzero(np.isfinite(needed))
    if rest.size:
        near, wide = (
            _length_near(edges, first[rest], second[rest], times * tolerance) for times in (1, 2)
        )
        result[rest] = 2 * near - wide > needed[rest]
    return result


def _covered(
    areas: np.ndarray, edges: np.ndarray, first: np.ndarray, second: np.ndarray, tolerance: float
) -> tuple[np.ndarray, np.ndarray]:
    """True for pairs of which one polygon holds the other; true for other overlapping pairs."""
    import shapely

    within, overlap = np.zeros(len(first), dtype=bool), np.zeros(len(first), dtype=bool)
    rest = np.flatnonzero(np.isfinite(_needed(edges, first, second, tolerance)))
    rest = rest[shapely.intersects(areas[first[rest]], areas[second[rest]])]
    for here, there in ((first[rest], second[rest]), (second[rest], first[rest])):
        inside = shapely.length(shapely.intersection(edges[here], shapely.make_valid(areas[there])))
        length = shapely.length(edges[here])
        within[rest] |= inside > (1 - _ROUNDING) * length
        overlap[rest] |= inside > np.maximum(_LONGER * tolerance, _ROUNDING * length)
    return within, overlap & ~within & (tolerance > 0)


def _length_near(
    edges: np.ndarray, first: np.ndarray, second: np.ndarray, radius: float
) -> np.ndarray:
    """The length of the first border of each pair within a radius of the second."""
    import shapely

    used, numbers = np.unique(np.stack([first, second]), return_inverse=True)
    firsts, seconds = numbers.reshape(2, -1)
    parts, owner = shapely.get_parts(edges[used], return_index=True)
    corners, line = shapely.get_coordinates(parts, return_index=True)
    whole = (line[1:] == line[:-1]) & (corners[1:] != corners[:-1]).any(axis=1)
    starts, ends, owner = corners[:-1][whole], corners[1:][whole], owner[line[:-1][whole]]

    # Segments whose boxes are near, of borders that are a pair.
    low, high = np.minimum(starts, ends) - radius, np.maximum(starts, ends) + radius
    tree = shapely.STRtree(shapely.linestrings(np.stack([starts, ends], axis=1)))
    here, there = tree.query(shapely.box(*low.T, *high.T))

    known = firsts * len(used) + seconds
    order = np.argsort(known)
    asked = owner[here] * len(used) + owner[there]
    place = order[np.minimum(np.searchsorted(known[order], asked), len(known) - 1)]
    wanted = known[place] == asked
    here, there, pair = here[wanted], there[wanted], place[wanted]
    begin, end = _intervals(starts[here], ends[here], starts[there], ends[there], radius)

    # Intervals of one segment near one border may
    # overlap: each counts from where those before it end.
    order = np.lexsort((begin, here, pair))
    here, pair, begin, end = here[order], pair[order], begin[order], end[order]
    new = np.r_[True, (here[1:] != here[:-1]) | (pair[1:] != pair[:-1])]
    shift = np.cumsum(new) * 2 * end.max(initial=0.0)
    reached = np.maximum.accumulate(np.r_[0.0, end + shift])[:-1]
    lengths = np.maximum(end - np.where(new, begin, np.maximum(begin, reached - shift)), 0)
    return np.bincount(pair, weights=lengths, minlength=len(first))


def _intervals(
    starts: np.ndarray,
    ends: np.ndarray,
    other_starts: np.ndarray,
    other_ends: np.ndarray,
    radius: float,
) -> tuple[np.ndarray, np.ndarray]:
    """The part of each segment within a radius of another, as distances; an end < 0 for none.

    Near a segment is what is in the hull of two discs, and a box between them.
    """
    along, length = _directions(starts, ends)
    other_along, other_length = _directions(other_starts, other_ends)
    begin, end = np.full(len(starts), np.inf), np.full(len(starts), -np.inf)

    for centre in (other_starts, other_ends):
        middle, beside = _turned(centre - starts, along)
        half = np.sqrt(np.maximum(radius**2 - beside**2, 0))
        hit = np.abs(beside) <= radius
        begin = np.where(hit, np.minimum(begin, middle - half), begin)
        end = np.where(hit, np.maximum(end, middle + half), end)

    # The box in the frame of the other segment: from 0 to its length, and from -radius to radius.
    box_begin, box_end = np.zeros(len(starts)), length
    slopes, offsets = _turned(along, other_along), _turned(starts - other_starts, other_along)
    sides = ((np.zeros(len(starts)), other_length), (-radius, radius))
    for slope, offset, (lowest, highest) in zip(slopes, offsets, sides, strict=True):
        with np.errstate(divide="ignore", invalid="ignore"):
            hits = np.stack([(lowest - offset) / slope, (highest - offset) / slope])
        level = slope == 0
        inside = (lowest <= offset) & (offset <= highest)
        box_begin = np.maximum(
            box_begin, np.where(level, np.where(inside, -np.inf, np.inf), hits.min(axis=0))
        )
        box_end = np.minimum(
            box_end, np.where(level, np.where(inside, np.inf, -np.inf), hits.max(axis=0))
        )

    box = box_begin <= box_end
    begin = np.where(box, np.minimum(begin, box_begin), begin)
    end = np.where(box, np.maximum(end, box_end), end)
    return np.clip(begin, 0, length), np.clip(end, 0, length)


def _directions(starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors along segments, and their lengths."""
    length = np.linalg.norm(ends - starts, axis=1)
    return (ends - starts) / length[:, None], length


def _turned(vectors: np.ndarray, axis: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates of vectors along a direction, and beside it."""
    along = (vectors * axis).sum(axis=1)
    return along, axis[:, 0] * vectors[:, 1] - axis[:, 1] * vectors[:, 0]
