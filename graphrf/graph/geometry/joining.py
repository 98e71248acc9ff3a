"""Places that are one but for rounding: ends of roads, and corners of meshes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from graphrf._base import checks
from graphrf._base.memory import require_memory

# The default tolerance as a share of the median length: 1 cm for streets of 100 m. Coordinates in
# single precision are off by 6e-8 of their size, which is below it unless a mesh has a thousand
# sides from end to end.
SHARE = 1e-4
# Places at the ends of one side are joined with others only within this share of its length, so
# that no side shrinks to a point.
_OF_SIDE = 0.25


class Joined(NamedTuple):
    """Places in groups: the first of each (positions, ascending), and each place's group.

    `n_moved` places are not exactly at the first of their group, and `n_left` groups lie near
    another one, but apart.
    """

    first: np.ndarray
    group: np.ndarray
    n_moved: int
    n_left: int


def checked_tolerance(tolerance: Any, lengths: np.ndarray, what: str) -> float:
    """The tolerance given, or `SHARE` of the median length; a quarter of that is refused."""
    positive = lengths[lengths > 0]
    median = float(np.median(positive)) if positive.size else 0.0
    if tolerance is None:
        return SHARE * median
    tolerance = checks.number("tolerance", tolerance, low=0.0)
    if tolerance and tolerance >= median / 4:
        raise checks.value_error(
            "tolerance",
            f"must be below a quarter of the median length of {what}, which is {median:.3g} here, "
            f"in the unit of the coordinates, got {tolerance:g}",
        )
    return tolerance


def join_places(
    places: np.ndarray, sides: np.ndarray, tolerance: float, loose: np.ndarray | None = None
) -> Joined:
    """Groups of places, (n, d), that are within a tolerance of each other, or through others.

    Places that are not `loose` are joined with equal ones only. No group is wider than twice the
    tolerance, and none has both ends of a side (positions, shape (m, 2)) unless these coincide:
    there the tolerance is smaller.
    """
    # Adding zero turns -0.0 into 0.0, so that the two are one place.
    _, first, group = np.unique(places + 0.0, axis=0, return_index=True, return_inverse=True)
    group = np.ravel(group)
    n_left = n_moved = 0
    if tolerance > 0 and len(first) > 1:
        free = np.ones(len(first), dtype=bool)
        if loose is not None:
            np.logical_and.at(free, group, loose)
        wider, n_left = _groups(places[first], group[sides], tolerance, np.flatnonzero(free))
        n_moved = len(first) - int(wider.max()) - 1
        starts = np.full(int(wider.max()) + 1, len(places))
        np.minimum.at(starts, wider, first)
        first, group = starts, wider[group]
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return Joined(first[order], rank[group], n_moved, n_left)


def _groups(
    places: np.ndarray, sides: np.ndarray, tolerance: float, free: np.ndarray
) -> tuple[np.ndarray, int]:
    """The group of each distinct place, and how many groups are within the tolerance of another.

    Only the `free` places (positions) are joined or counted.
    """
    n_places = len(places)
    pairs = free[_near(places[free], tolerance)]
    if not len(pairs):
        return np.arange(n_places), 0
    sides = sides[sides[:, 0] != sides[:, 1]]
    reach = np.full(n_places, tolerance)
    lengths = np.linalg.norm(places[sides[:, 0]] - places[sides[:, 1]], axis=1)
    for end in sides.T:
        np.minimum.at(reach, end, _OF_SIDE * lengths)
    apart = np.linalg.norm(places[pairs[:, 0]] - places[pairs[:, 1]], axis=1)
    while True:
        kept = pairs[apart <= reach[pairs].min(axis=1)]
        links = coo_array((np.ones(len(kept)), tuple(kept.T)), shape=(n_places, n_places))
        n_groups, groups = connected_components(links, directed=False)
        wrong = np.zeros(n_groups, dtype=bool)
        wrong[groups[sides[groups[sides[:, 0]] == groups[sides[:, 1]], 0]]] = True
        wrong |= _widths(places, groups, n_groups) > 2 * tolerance
        if not wrong.any():
            return groups, np.unique(groups[pairs[groups[pairs[:, 0]] != groups[pairs[:, 1]]]]).size
        reach[wrong[groups]] /= 4


def _near(places: np.ndarray, tolerance: float) -> np.ndarray:
    """Pairs of places within a tolerance of each other, shape (p, 2)."""
    from scipy.spatial import cKDTree

    if len(places) < 2:
        return np.zeros((0, 2), dtype=np.int64)
    limit = np.nextafter(tolerance, np.inf)
    nearest = cKDTree(places).query(places, k=2, distance_upper_bound=limit)[0][:, 1]
    some = np.flatnonzero(np.isfinite(nearest))
    if not some.size:
        return np.zeros((0, 2), dtype=np.int64)
    tree: Any = cKDTree(places[some])
    require_memory(
        64.0 * tree.count_neighbors(tree, tolerance),
        f"joining places within {tolerance:g}",
        "lower `tolerance`",
    )
    return some[tree.query_pairs(tolerance, output_type="ndarray")]


def _widths(places: np.ndarray, groups: np.ndarray, n_groups: int) -> np.ndarray:
    """The diagonal of the box around each group."""
    low, high = (np.full((n_groups, places.shape[1]), sign * np.inf) for sign in (1, -1))
    np.minimum.at(low, groups, places)
    np.maximum.at(high, groups, places)
    return np.linalg.norm(high - low, axis=1)
