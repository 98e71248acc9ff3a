"""Labels that differ in their Unicode form alone are one label."""

import unicodedata

import numpy as np
import pytest

import graphrf as grf
from graphrf.graph.labels import Lookup, canonical

COMPOSED = ["Ávila", "Győr", "Sør-Trøndelag", "Esk"]  # ø is a letter of its own
APART = [unicodedata.normalize("NFD", name) for name in COMPOSED]


def test_composed_and_decomposed_text_have_one_place():
    assert COMPOSED[0] != APART[0]
    for keys, asked in ((COMPOSED, APART), (APART, COMPOSED)):
        table = Lookup((key, place) for place, key in enumerate(keys))
        assert [table[label] for label in asked] == [0, 1, 2, 3]
        assert all(label in table for label in asked)
        assert table.get("Avila", -1) == table.get(3, -1) == -1
        assert "Avila" not in table
        with pytest.raises(KeyError):
            table["Ávilá"]
    pairs = Lookup({(COMPOSED[0], 3): 7})
    assert pairs[(APART[0], 3)] == 7
    assert (APART[0], 4) not in pairs
    assert canonical((APART[1], 2)) == (COMPOSED[1], 2)


def test_labels_that_both_exist_are_found_as_they_are():
    table = Lookup({COMPOSED[0]: 0, APART[0]: 1, "A": 2})
    assert (table[COMPOSED[0]], table[APART[0]]) == (0, 1)
    mixed = "A\u0301vila" + "\u0301"  # whose composed form none has
    assert mixed not in table
    three = Lookup({"\u1e69": 0, "s\u0323\u0307": 1})
    assert "s\u0307\u0323" not in three  # reads as both do


def test_nodes_and_values_are_found_in_any_form():
    line = grf.from_edges([0, 1, 2], [1, 2, 3])
    for own, other in ((COMPOSED, APART), (APART, COMPOSED)):
        graph = grf.Graph(line.adjacency, nodes=own)
        np.testing.assert_array_equal(graph.index(other), [0, 1, 2, 3])
        np.testing.assert_array_equal(graph.positions(other[::-1]), [3, 2, 1, 0])
        assert graph.index(other[1]) == 1
    both = grf.Graph(line.adjacency, nodes=[COMPOSED[0], APART[0], "Esk", "Dee"])
    np.testing.assert_array_equal(both.positions([APART[0], COMPOSED[0]]), [1, 0])


def test_fits_take_labels_in_any_form():
    pandas = pytest.importorskip("pandas")
    graph = grf.Graph(grf.from_edges([0, 1, 2], [1, 2, 3]).adjacency, nodes=COMPOSED)
    known = {"kernel": grf.Diffusion(1.0), "output_scale": 1.0, "noise": 0.1, "optimize": False}
    y = pandas.Series([1.0, 2.0, 3.0], index=COMPOSED[:3])
    expected = grf.GraphGPRegressor(graph, **known).fit(y).predict()
    for form in (y.set_axis(APART[:3]), y.set_axis(APART[:3]).iloc[::-1]):
        gp = grf.GraphGPRegressor(graph, **known)
        np.testing.assert_allclose(gp.fit(form).predict(APART), expected)
        np.testing.assert_allclose(gp.fit(COMPOSED[:3], form).predict(), expected)


def test_terms_and_categories_take_labels_in_any_form():
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("formulaic")
    from graphrf.gp import Groups, LatentGaussianModel, Nodes

    graph = grf.Graph(grf.from_edges([0, 1, 2], [1, 2, 3]).adjacency, nodes=APART)
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({"node": COMPOSED * 10, "kind": (COMPOSED + APART) * 5})
    frame["y"] = rng.standard_normal(40)
    terms = [Nodes(graph, grf.ICAR()), Groups("kind")]
    settings = {"coefficient_deviation": 2.0, "hyperparameters": "mode", "seed": 0}
    model = LatentGaussianModel("y ~ C(kind)", terms, **settings).fit(frame)
    assert len(model.coefficients_) == len(model.effects("kind")) == 4
    np.testing.assert_allclose(
        model.predict(frame.assign(node=APART * 10, kind=APART * 10)),
        model.predict(frame.assign(kind=COMPOSED * 10)),
    )
