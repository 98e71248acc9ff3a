"""Cells without a meaning, columns of one name, new groups, and sums of terms."""

from __future__ import annotations

import numpy as np
import pytest

import graphrf as grf
from graphrf.gp import Groups, Nodes, Steps
from graphrf.gp.terms.term import BoundTerm

pandas = pytest.importorskip("pandas")

PATH = grf.from_edges(range(8), range(1, 9))
TERMS = {"Groups": Groups("g"), "ICAR": Nodes(PATH, grf.ICAR(), by="g"), "rw1": Steps("g", "rw1")}


def frame_of(cells):
    return pandas.DataFrame({"g": pandas.Series(list(cells), dtype=object)})


def bound(name, labels):
    return BoundTerm.of(TERMS[name], frame_of(labels), 0, 1.0)


@pytest.mark.parametrize(
    ("cell", "match"),
    [
        ([], "`g` has an empty list in row 1"),
        ({0: "half"}, "`g` has no weight of 0 in row 1: `weight` must be a number, got str 'half'"),
        ({0: np.nan}, "has no weight of 0 in row 1: `weight` must be finite"),
        ({0, 1}, "must hold labels, lists or dictionaries, got set .* in row 1"),
        ([[0]], r"must hold labels, lists or dictionaries, got list \[0\] in row 1"),
    ],
)
def test_cells_without_a_meaning_are_refused_with_their_row(cell, match):
    with pytest.raises((ValueError, TypeError), match=match):
        bound("Groups", range(9)).rows(frame_of([0, cell]))


@pytest.mark.parametrize("name", TERMS)
def test_two_columns_of_one_name_are_refused(name):
    two = pandas.concat([frame_of(range(9))] * 2, axis=1)
    with pytest.raises(ValueError, match="`g` names 2 columns of the frame"):
        BoundTerm.of(TERMS[name], two, 0, 1.0).rows(two)
    with pytest.raises(ValueError, match="`g` names 2 columns of the frame"):
        bound(name, range(9)).extension(two, {})


def test_new_groups_have_the_deviation_of_all_groups():
    ahead = bound("Groups", list("abc")).extension(frame_of(["b", "x", ["x", "y"], {"a": 1.0, "y": 2.0}]), {})
    np.testing.assert_array_equal(ahead.old.toarray(), [[0, 1, 0], [0, 0, 0], [0, 0, 0], [1, 0, 0]])
    np.testing.assert_array_equal(ahead.new.toarray(), [[0, 0], [1, 0], [0.5, 0.5], [0, 2]])
    np.testing.assert_array_equal(ahead.precision.toarray(), np.eye(2))


def test_terms_add_to_lists():
    a, b, c = Groups("a"), Groups("b"), Groups("c")
    assert a + b == [a, b]
    assert a + b + c == [a, b, c]
    assert a + [b, c] == [a, b, c]
    assert (a * b).prior is a.prior
