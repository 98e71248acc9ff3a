"""New levels of each term, alone and in products: their law, reach, and effects."""

from __future__ import annotations

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
    **{
        kind: (lambda kind=kind: Steps("c", kind), range(8))
        for kind in ("iid", "ar1", "rw1", "rw2", "matern")
    },
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
    model = LatentGaussianModel(
        "y ~ 1", TERMS[kind][0](), hyperparameters="mode", seed=0, **settings
    )
    return model.fit(data), data


@every_term
def test_effects_have_the_labels_of_levels_and_are_the_predictions_at_these(kind):
    model, data = fitted(kind, [*TERMS[kind][1]] * 3)
    effects = model.effects(0)
    assert list(effects.index) == list(TERMS[kind][1])
    total = effects["mean"] + model.summary().loc["Intercept", "mean"]
    np.testing.assert_allclose(total, model.predict(data[:8]), atol=1e-8)


@pytest.mark.parametrize("kind", ["iid", "ar1", "rw1", "rw2", "matern", "Groups"])
def test_new_levels_have_the_law_that_a_fit_with_them_would_have_given(kind):
    """Conditional on what is known; walks are compared by differences, which keep scale."""
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
        with pytest.raises(
            MemoryError, match=r"forecasts of .* levels of `c` needs .*; predict nearer levels"
        ):
            own.extension(frame([ahead]), starts(own))
    else:
        later = own.extension(frame([ahead]), starts(own))
        assert np.isfinite(later.old.toarray()).all()
        assert np.isfinite(later.precision.toarray()).all()


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
    joint = Joint([own], np.zeros((0, 0)), [own.rows(data)])
    alone = joint.posterior(
        joint.prior(joint.vector(list(starts(own).values()))), np.zeros(len(data))
    )
    expected = known @ alone.solve(known) / starts(own)["sd(c:g)"] ** 2
    assert (later.new @ inverse @ later.new.T)[0, 0] == pytest.approx(expected, rel=1e-8)


def test_new_levels_in_both_columns_of_a_product_are_refused():
    data = pandas.DataFrame({"c": np.repeat(range(4), 3), "g": np.tile([1, 2, 3], 4)})
    own = BoundTerm.of(Steps("c", "rw1") * Groups("g"), data, 0, 1.0)
    with pytest.raises(ValueError, match="`c:g` has new levels in both columns"):
        own.extension(pandas.DataFrame({"c": [4], "g": [4]}), {})


@pytest.mark.parametrize("kind", ["ar1", "rw1", "matern"])
@pytest.mark.parametrize("unit", [5e-17, 1e-3, 1e9])
def test_the_unit_of_a_column_changes_nothing(kind, unit):
    """Such as milliseconds, or seconds since 1970, under the default priors."""
    fits = [fitted(kind, [scale * k for k in range(8)] * 3)[0] for scale in (1.0, unit)]
    ours, theirs = (each.log_marginal_likelihood_ for each in fits)
    assert theirs == pytest.approx(ours, abs=1e-3)
