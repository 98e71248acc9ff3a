"""Levels and cells, alike for all terms: labels, lists, orders of rows, errors, copies."""

from __future__ import annotations

import copy
import warnings
from datetime import date, timedelta
from itertools import pairwise

import numpy as np
import pytest
from sklearn.base import clone

import graphrf as grf
from graphrf.gp import Groups, LatentGaussianModel, Nodes, Steps
from graphrf.gp.terms.term import BoundTerm

pandas = pytest.importorskip("pandas")

LABELS = {
    "integers": list(range(9)),
    "text": list("abcdefghi"),
    "tuples": [(k // 3, k % 3) for k in range(9)],
    "dates": [date(2024, 1, 1) + timedelta(k) for k in range(9)],
}


def path(labels):
    return grf.load_graph(list(pairwise(labels)))


STEPS = ("iid", "ar1", "rw1", "rw2", "matern")
TERMS = {
    "Groups": lambda labels: Groups("g"),
    "ICAR": lambda labels: Nodes(path(labels), grf.ICAR(), by="g"),
    "BYM2": lambda labels: Nodes(path(labels), grf.BYM2(0.4), by="g"),
    "Matern": lambda labels: Nodes(path(labels), grf.Matern(2.0, 1.5), by="g"),
    **{kind: lambda labels, kind=kind: Steps("g", kind) for kind in STEPS},
    "seasonal": lambda labels: Steps("g", "seasonal", period=3),
}
NAMED = {"Groups": tuple(LABELS), **dict.fromkeys((*STEPS, "seasonal"), ("integers", "dates"))}
CASES = [(name, kind) for name in TERMS for kind in NAMED.get(name, ("integers", "text", "tuples"))]


def frame_of(cells):
    return pandas.DataFrame({"g": pandas.Series(list(cells), dtype=object)})


def bound(name, labels, cells=None):
    return BoundTerm.of(TERMS[name](labels), frame_of(labels if cells is None else cells), 0, 1.0)


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_each_label_reads_its_own_variable(name, kind):
    labels = LABELS[kind]
    term = bound(name, labels)
    rows = term.rows(frame_of(labels)).toarray()
    assert list(term.levels) == labels
    np.testing.assert_array_equal(rows[:, :9], np.eye(9))
    np.testing.assert_array_equal(rows, term.level_rows().toarray())
    np.testing.assert_array_equal(
        rows, term.extension(frame_of(labels), term.structure.starts).old.toarray()
    )


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_cells_may_be_means_and_weighted_sums_of_levels(name, kind):
    a, b, c, *rest = LABELS[kind]
    pair = np.empty(2, dtype=object)
    pair[:] = [b, b]
    # The levels of a fit may be in lists and dictionaries alone.
    cells = [[a, b], {a: 2.0, c: -1.0}, pair, {}, *rest]
    term = bound(name, LABELS[kind], cells)
    expected = np.zeros((4, 9))
    expected[0, :2] = 0.5
    expected[1, [0, 2]] = 2.0, -1.0
    expected[2, 1] = 1.0
    for rows in (
        term.rows(frame_of(cells)),
        term.extension(frame_of(cells), term.structure.starts).old,
    ):
        np.testing.assert_array_equal(rows.toarray()[:4, :9], expected)


@pytest.mark.parametrize("name", TERMS)
def test_the_order_of_rows_changes_nothing(name):
    labels = LABELS["integers"]
    shuffled = [labels[k] for k in np.random.default_rng(0).permutation(9)]
    term, other = bound(name, labels), bound(name, labels, shuffled)
    assert list(other.levels) == (shuffled if name == "Groups" else labels)
    values = term.structure.starts
    here, there = (each.structure.precision(values).toarray() for each in (term, other))
    np.testing.assert_array_equal(here, there)


@pytest.mark.parametrize("name", TERMS)
@pytest.mark.parametrize("missing", [None, float("nan"), pandas.NA, pandas.NaT])
def test_missing_labels_are_refused_with_their_row(name, missing):
    term = bound(name, LABELS["integers"])
    for cell in (missing, [0, missing], {0: 1.0, missing: 1.0}):
        with pytest.raises(ValueError, match="`g` has no value in row 2"):
            term.extension(frame_of([0, 1, cell]), term.structure.starts)


@pytest.mark.parametrize("name", ["Groups", "ICAR", "BYM2"])
def test_text_for_numbers_is_refused_and_named(name):
    match = "holds text, such as '0', where the fit had numbers, such as 0: convert the column"
    with pytest.raises((ValueError, TypeError), match=match):
        bound(name, LABELS["integers"]).extension(frame_of(["0", "1"]), {})
    with pytest.raises(
        (ValueError, TypeError), match="holds numbers, such as 3, where the fit had text"
    ):
        bound(name, LABELS["text"]).extension(frame_of([3]), {})


def test_unknown_nodes_are_refused_with_the_nearest_name():
    with pytest.raises(
        ValueError, match=r"`g` holds 'n91', and the graph has no such node; did you mean 'n9'"
    ):
        bound("ICAR", [f"n{k}" for k in range(12)]).extension(frame_of(["n3", "n91"]), {})


@pytest.mark.parametrize("copied", [clone, copy.deepcopy])
def test_copies_keep_a_kernel_that_terms_share(copied):
    kernel, graph = grf.CAR(0.8), path(LABELS["integers"])
    nodes = Nodes(graph, kernel, by="g")
    made = copied(
        LatentGaussianModel("y ~ 1", [nodes, Nodes(graph, kernel, by="h"), nodes * Groups("h")])
    )
    first, second, product = made.terms
    assert first.kernel is second.kernel is product.first.kernel
    assert first.parameters()[0].key == second.parameters()[0].key
    apart = copied(LatentGaussianModel("y ~ 1", [nodes, Nodes(graph, grf.CAR(0.8), by="h")]))
    assert apart.terms[0].kernel is not apart.terms[1].kernel


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
        bound("Groups", LABELS["integers"]).rows(frame_of([0, cell]))


@pytest.mark.parametrize("name", TERMS)
def test_two_columns_of_one_name_are_refused(name):
    one = frame_of(range(9)).assign(y=np.arange(9.0))
    two = pandas.concat([one[["g"]], one], axis=1)
    model = LatentGaussianModel("y ~ 1", TERMS[name](range(9)), hyperparameters="mode")
    with pytest.raises(
        ValueError, match="`frame` has 2 columns named 'g', which the term of 'g' reads"
    ):
        model.fit(two)
    with warnings.catch_warnings(action="ignore"):
        model.fit(one)
    with pytest.raises(
        ValueError, match="`frame` has 2 columns named 'g', which the term of 'g' reads"
    ):
        model.predict(two)


def test_new_groups_have_the_deviation_of_all_groups():
    ahead = bound("Groups", list("abc")).extension(
        frame_of(["b", "x", ["x", "y"], {"a": 1.0, "y": 2.0}]), {}
    )
    np.testing.assert_array_equal(ahead.old.toarray(), [[0, 1, 0], [0, 0, 0], [0, 0, 0], [1, 0, 0]])
    np.testing.assert_array_equal(ahead.new.toarray(), [[0, 0], [1, 0], [0.5, 0.5], [0, 2]])
    np.testing.assert_array_equal(ahead.precision.toarray(), np.eye(2))


def test_terms_add_to_lists():
    a, b, c = Groups("a"), Groups("b"), Groups("c")
    assert a + b == [a, b]
    assert a + b + c == [a, b, c]
    assert a + [b, c] == [a, b, c]
    assert (a * b).prior is a.prior
