"""Places that are one but for rounding: groups, chains, short sides, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from graphrf.graph.geometry.joining import SHARE, checked_tolerance, join_places

NONE = np.zeros((0, 2), dtype=int)


def groups(places, sides=NONE, tolerance=0.0, loose=None):
    """The group of each place, once the rest of the result is known to agree with it."""
    places = np.asarray(places, dtype=float)
    joined = join_places(places, np.asarray(sides), tolerance, loose)
    found = joined.group
    expected = [int(np.flatnonzero(found == group)[0]) for group in range(found.max() + 1)]
    assert joined.first.tolist() == expected == sorted(expected)
    distinct = len(np.unique(places + 0.0, axis=0))
    assert joined.n_moved == distinct - len(joined.first)
    return found.tolist()


def test_equal_places_are_one_and_keep_the_order_of_their_first():
    assert groups([[1, 1], [0, 0], [1, 1], [-0.0, 0.0]]) == [0, 1, 0, 1]
    assert groups([[1, 1], [0, 0], [1, 1 + 1e-15]]) == [0, 1, 2]


def test_places_within_the_tolerance_are_one_also_through_others():
    places = [[0, 0], [9, 9], [0.9, 0], [9, 9.5], [1.8, 0], [5, 5]]
    assert groups(places, tolerance=1.0) == [0, 1, 0, 1, 0, 2]
    assert groups(places, tolerance=0.5) == [0, 1, 2, 1, 3, 4]
    assert groups(places, tolerance=0.4) == [0, 1, 2, 3, 4, 5]


def test_no_group_is_wider_than_twice_the_tolerance():
    """A long row of places stays apart; a close pair elsewhere is still joined."""
    row = [[0.9 * at, 0.0] for at in range(30)]
    found = groups([*row, [50, 0], [50.5, 0]], tolerance=1.0)
    assert found == [*range(30), 30, 30]
    pairs = [[x + step, 0.0] for x in np.arange(20) * 0.9 for step in (0, 1e-6)]
    assert groups(pairs, tolerance=1.0) == [at // 2 for at in range(40)]


def test_no_side_vanishes():
    """The ends of a short side are joined with others only within a quarter of its length."""
    places = [[0, 0], [0.8, 0], [0.9, 0], [5, 0], [0.81, 0], [7, 7]]
    sides = [[0, 1], [2, 3], [4, 5]]
    assert groups(places, sides, tolerance=1.0) == [0, 1, 1, 2, 1, 3]
    joined = join_places(np.array(places, dtype=float), np.array(sides), 1.0)
    assert joined.n_left == 2
    # Through others, either.
    bridge = [[0, 0], [4.0, 0], [1, 0], [2, 0], [3, 0]]
    assert groups(bridge, [[0, 1]], tolerance=2.0)[0] != groups(bridge, [[0, 1]], tolerance=2.0)[1]
    # A closed line, whose ends coincide, has none to lose.
    assert groups([[0, 0], [0, 0], [0.1, 0]], [[0, 1]], tolerance=1.0) == [0, 0, 0]


def test_places_that_are_not_loose_are_joined_with_equal_ones_only():
    loose = np.array([True, False, True, True])
    assert groups([[0, 0], [0.1, 0], [0.2, 0], [0.1, 0]], tolerance=1.0, loose=loose) == [
        0,
        1,
        0,
        1,
    ]


def test_the_default_tolerance_is_a_share_of_the_median_length_and_a_quarter_is_refused():
    lengths = np.array([0.0, 1.0, 2.0, 400.0])
    assert checked_tolerance(None, lengths, "lines") == 2 * SHARE
    assert checked_tolerance(0.49, lengths, "lines") == 0.49
    with pytest.raises(
        ValueError, match=r"a quarter of the median length of lines, which is 2 here.*, got 0.5"
    ):
        checked_tolerance(0.5, lengths, "lines")
    with pytest.raises(TypeError, match="`tolerance` must be a number"):
        checked_tolerance("1 m", lengths, "lines")
    assert checked_tolerance(None, np.zeros(2), "lines") == 0
