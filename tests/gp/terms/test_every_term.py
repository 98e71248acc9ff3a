"""What every term does alike: levels, new levels, weights in cells, products, labels and the order of rows."""

from __future__ import annotations

import copy
import datetime
from itertools import pairwise

import numpy as np
import pytest

import graphrf as grf
from graphrf.gp import Groups, LatentGaussianModel, Nodes, Steps
from graphrf.gp.terms.joint import Joint
from graphrf.gp.terms.term import BoundTerm

pandas = pytest.importorskip("pandas")
pytest.importorskip("formulaic")

NODES = list("abcdefgh")
GRAPH = grf.load_graph([*pairwise(NODES), ("a", "d")])
# The term of a column, and the labels of eight levels.
TERMS = {
    "ICAR": (lambda: Nodes(GRAPH, grf.ICAR(), by="c"), NODES),
    "BYM2": (lambda: Nodes(GRAPH, grf.BYM2(0.4), by="c"), NODES),
    "Matern": (lambda: Nodes(GRAPH, grf.Matern(2.0, 2.0), by="c"), NODES),
    **{kind: (lambda kind=kind: Steps("c", kind), range(8)) for kind in ("iid", "ar1", "rw1", "rw2", "matern")},
    "seasonal": (lambda: Steps("c", "seasonal", period=3), range(8)),
    "Groups": (lambda: Groups("c"), NODES),
}
STEPS = ["iid", "ar1", "rw1", "rw2", "matern", "seasonal"]
every_term = pytest.mark.parametrize("kind", TERMS)
every_kind_of_steps = pytest.mark.parametrize("kind", STEPS)


def frame(cells):
    """A data frame with one column of cells of any class."""
    return pandas.DataFrame({"c": pandas.Series(list(cells), dtype=object)})


def bound(kind, cells=None):
    make, labels = TERMS[kind]
    return BoundTerm.of(make(), frame(labels if cells is None else cells), 0, 1.0)


def starts(own):
    return {each.name: each.start for each in own.parameters}


def fitted(kind, cells, **settings):
    data = frame(cells)
    data["y"] = np.sin(np.arange(len(data)))
    model = LatentGaussianModel("y ~ 1", TERMS[kind][0](), hyperparameters="mode", seed=0, **settings)
    return model.fit(data), data


@every_term
def test_levels_are_those_of_the_column_and_each_has_a_row(kind):
    own, labels = bound(kind), list(TERMS[kind][1])
    assert own.levels == labels
    np.testing.assert_array_equal(own.level_rows().toarray(), own.rows(frame(labels)).toarray())
    assert own.rows(frame(labels)).toarray()[:, :8].tolist() == np.eye(8).tolist()


@every_term
def test_a_list_is_the_mean_of_its_levels_and_a_dictionary_their_weighted_sum(kind):
    own, (one, two, *_) = bound(kind), TERMS[kind][1]
    first, second, mean, difference = own.rows(frame([one, two, [one, two], {one: 2.0, two: -0.5}])).toarray()
    np.testing.assert_allclose(mean, 0.5 * (first + second))
    np.testing.assert_allclose(difference, 2.0 * first - 0.5 * second)


@every_term
def test_levels_of_a_fit_may_stand_in_lists_and_dictionaries_alone(kind):
    labels = list(TERMS[kind][1])
    own = bound(kind, [labels[:3], dict.fromkeys(labels[3:6], 1.0), labels[6], labels[7]])
    assert own.levels == labels


@every_term
def test_the_order_of_rows_changes_nothing(kind):
    labels = [*TERMS[kind][1], *TERMS[kind][1]][:13]
    order = np.random.default_rng(0).permutation(13)
    own, other = bound(kind, labels), bound(kind, [labels[k] for k in order])
    places = [own.levels.index(level) for level in other.levels]
    values = starts(own)
    here, there = own.structure.precision(values).toarray(), other.structure.precision(values).toarray()
    if kind == "Groups":  # whose levels are in the order of the data
        assert sorted(places) == list(range(8))
    else:
        assert places == list(range(8))
    np.testing.assert_allclose(there, here, atol=1e-12)


@every_term
def test_effects_have_the_labels_of_levels_and_are_the_predictions_at_these(kind):
    model, data = fitted(kind, [*TERMS[kind][1]] * 3)
    effects = model.effects(0)
    assert list(effects.index) == list(TERMS[kind][1])
    total = effects["mean"] + model.summary().loc["Intercept", "mean"]
    np.testing.assert_allclose(total, model.predict(data[:8]), atol=1e-8)


@pytest.mark.parametrize("kind", ["ICAR", "BYM2", "Matern"])
def test_nodes_that_are_not_in_the_graph_are_refused_with_the_nearest_name(kind):
    own = bound(kind)
    with pytest.raises(ValueError, match=r"`c` holds 'z'.* of which the fit knows nothing"):
        own.extension(frame(["a", "z"]), starts(own))


@pytest.mark.parametrize("kind", ["iid", "ar1", "rw1", "rw2", "matern", "Groups"])
def test_new_levels_have_the_law_that_a_fit_with_them_would_have_given(kind):
    """Conditional on what is known; walks are compared by differences, whose scale depends on the levels."""
    own, steps = bound(kind), kind != "Groups"
    known, new = list(TERMS[kind][1]), [8, 9] if steps else ["y", "z"]
    values = starts(own)
    later = own.extension(frame([*known, *new]), values)
    e = np.linalg.inv(later.precision.toarray())
    if kind in ("rw1", "rw2"):
        order = int(kind[-1])
        old = later.old.toarray()
        np.testing.assert_allclose(np.diff(old, order, axis=0)[8 - order :], 0.0, atol=1e-9)
        ahead = np.diff(later.new.toarray(), order, axis=0)[8 - order :]
        np.testing.assert_allclose(ahead @ e @ ahead.T * own.structure.scale, np.eye(2), atol=1e-9)
        return
    x = np.linalg.inv(own.structure.precision(values).toarray())
    found = later.old @ x @ later.old.T + later.new @ e @ later.new.T
    every = bound(kind, [*known, *new])
    rows = every.rows(frame([*known, *new])).toarray()
    names = {name: values[name] for name in starts(every)}
    if kind == "matern":  # starts with a tenth of the range
        (name,) = (each.name for each in own.structure.parameters)
        names[name] = values[name]
    expected = rows @ np.linalg.inv(every.structure.precision(names).toarray()) @ rows.T
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_a_season_goes_on_as_it_was():
    own = bound("seasonal")
    later = own.extension(frame([*range(8), 8, 9, 10, 11]), {})
    pattern = np.tile([1.0, -3.0, 2.0], 4)
    np.testing.assert_allclose(later.old @ pattern[:8], pattern, atol=1e-9)


@every_kind_of_steps
@pytest.mark.parametrize("ahead", [1e6, 1e12])
def test_forecasts_far_ahead_are_finite_or_refused_before_memory_is_taken(kind, ahead):
    own = bound(kind)
    if kind in ("rw2", "seasonal"):
        with pytest.raises(MemoryError, match=r"forecasts of .* levels of `c` needs .*; predict nearer levels"):
            own.extension(frame([ahead]), starts(own))
    else:
        later = own.extension(frame([ahead]), starts(own))
        assert np.isfinite(later.old.toarray()).all()
        assert np.isfinite(later.precision.toarray()).all()


@every_kind_of_steps
def test_a_level_between_steps_is_refused_where_it_has_no_meaning(kind):
    own = bound(kind)
    cell = frame([8.5])
    if kind in ("rw2", "seasonal", "ar1"):
        with pytest.raises(ValueError, match=r"`c` must be a whole number of steps .*got 8\.5"):
            own.extension(cell, starts(own))
    else:
        assert own.extension(cell, starts(own)).old.shape == (1, own.structure.size)


@every_kind_of_steps
def test_labels_may_be_integers_floats_decimals_dates_or_times(kind):
    day = datetime.date(2024, 2, 25)
    days = [day + datetime.timedelta(k) for k in range(8)]
    expected = bound(kind)
    values = starts(expected)
    for cells in (
        [float(k) for k in range(8)],
        [np.int64(k) for k in range(8)],
        days,
        [datetime.datetime(each.year, each.month, each.day) for each in days],
        list(pandas.date_range(day, periods=8)),
        list(pandas.date_range(day, periods=8, tz="Europe/Berlin")),
        list(np.array(days, dtype="datetime64[s]")),
    ):
        own = bound(kind, cells)
        assert own.levels == cells
        found = own.structure.precision(values).toarray()
        np.testing.assert_allclose(found, expected.structure.precision(values).toarray(), atol=1e-9)


@pytest.mark.parametrize(
    "labels",
    [[1, 2, 3], ["a", "b", "c"], [(0, 0), (0, 1), (1, 0)], [datetime.date(2024, 1, k) for k in (1, 2, 3)]],
    ids=["int", "str", "tuple", "date"],
)
def test_labels_of_nodes_and_groups_may_be_of_any_class(labels):
    cells = [labels[2], [labels[0], labels[1]], {labels[1]: 3.0}]
    terms = [Groups("c")]
    if not isinstance(labels[0], datetime.date):
        terms.append(Nodes(grf.from_edges(labels[:2], labels[1:], nodes=labels), grf.ICAR(), by="c"))
    for term in terms:
        own = BoundTerm.of(term, frame(cells), 0, 1.0)
        assert sorted(own.levels) == labels
        by_label = dict(zip(own.levels, own.level_rows().toarray(), strict=True))
        rows = own.rows(frame(cells)).toarray()
        np.testing.assert_allclose(rows[0], by_label[labels[2]])
        np.testing.assert_allclose(rows[1], 0.5 * (by_label[labels[0]] + by_label[labels[1]]))
        np.testing.assert_allclose(rows[2], 3.0 * by_label[labels[1]])


@pytest.mark.parametrize("kind", [kind for kind in TERMS if kind != "seasonal"])
def test_a_product_reads_pairs_of_levels_and_forecasts_those_of_one_column(kind):
    make, labels = TERMS[kind]
    data = pandas.DataFrame({"c": np.repeat(labels, 3), "g": np.tile([1, 2, 3], 8)})
    own = BoundTerm.of(make() * Groups("g"), data, 0, 1.0)
    assert own.levels == list(zip(data["c"].tolist(), data["g"].tolist(), strict=True))
    np.testing.assert_allclose(own.level_rows().toarray(), own.rows(data).toarray())
    later = own.extension(pandas.DataFrame({"c": [labels[0]], "g": [7]}), starts(own))
    inverse, held = np.linalg.inv(later.precision.toarray()), later.constraints.toarray()
    if len(held):
        inverse -= inverse @ held.T @ np.linalg.solve(held @ inverse @ held.T, held @ inverse)
    assert later.old.nnz == 0  # another group is independent of those of the fit
    (known,) = own.rows(data[:1]).toarray()
    joint = Joint([own], np.zeros(0), [own.rows(data)])
    alone = joint.posterior(joint.prior(joint.vector(list(starts(own).values()))), np.zeros(len(data)))
    expected = known @ alone.solve(known) / starts(own)["sd(c:g)"] ** 2
    assert (later.new @ inverse @ later.new.T)[0, 0] == pytest.approx(expected, rel=1e-8)


def test_new_levels_in_both_columns_of_a_product_are_refused():
    data = pandas.DataFrame({"c": np.repeat(range(4), 3), "g": np.tile([1, 2, 3], 4)})
    own = BoundTerm.of(Steps("c", "rw1") * Groups("g"), data, 0, 1.0)
    with pytest.raises(ValueError, match="`c:g` has new levels in both columns"):
        own.extension(pandas.DataFrame({"c": [4], "g": [4]}), {})


@every_term
@pytest.mark.parametrize("missing", [None, float("nan"), pandas.NA, pandas.NaT])
def test_missing_labels_are_refused_with_their_column_and_row(kind, missing):
    labels = list(TERMS[kind][1])
    for cell in (missing, [labels[0], missing], {labels[0]: 1.0, missing: 2.0}):
        with pytest.raises(ValueError, match=r"`c` .*row 8"):
            bound(kind, [*labels, cell]).rows(frame([*labels, cell]))


@pytest.mark.parametrize(
    ("labels", "others"), [([1, 2, 3], ["1", "2"]), (["1", "2"], [1]), ([(0, 1), (1, 1)], ["(0, 1)"])]
)
def test_groups_of_another_class_than_all_of_the_fit_are_refused(labels, others):
    own = BoundTerm.of(Groups("c"), frame(labels), 0, 1.0)
    with pytest.raises(TypeError, match=r"`c` holds .*, such as .*, where the fit had .*: convert the column"):
        own.extension(frame(others), {})


def test_copies_and_clones_keep_the_kernel_that_terms_share():
    kernel = grf.CAR(0.5)
    terms = [Nodes(GRAPH, kernel, by="c"), Nodes(GRAPH, kernel, by="c") * Groups("g")]
    model = LatentGaussianModel("y ~ 1", terms)
    clone = pytest.importorskip("sklearn.base").clone
    for other in (copy.deepcopy(model), clone(model)):
        assert other.terms[0].kernel is other.terms[1].first.kernel is kernel
    apart = clone(LatentGaussianModel("y ~ 1", [terms[0], Nodes(GRAPH, grf.CAR(0.5), by="c")]))
    assert apart.terms[0].kernel is not apart.terms[1].kernel
