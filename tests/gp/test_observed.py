"""What was observed, as a dictionary or by the index of a Series."""

from __future__ import annotations

import numpy as np
import pytest

import graphrf as grf

GRAPH = grf.from_edges([10, 20, 30], [20, 30, 40], nodes=[10, 20, 30, 40])
GIVEN = {40: 1.0, 10: 2.0, 20: 4.0}


class Series:
    """As far as it is looked at."""

    def __init__(self, data: dict) -> None:
        self.index, self._values = list(data), np.array(list(data.values()))

    def to_numpy(self) -> np.ndarray:
        return self._values


def series_of(kind: str, data: dict):
    return {"dict": lambda: data, "own": lambda: Series(data)}.get(
        kind, lambda: pytest.importorskip("pandas").Series(data)
    )()


@pytest.mark.parametrize("kind", ["dict", "own", "pandas"])
def test_keys_and_indices_are_names_of_nodes(kind):
    settings = {"kernel": grf.Diffusion(1.0), "optimize": False, "noise": 0.1, "output_scale": 1.0, "seed": 0}
    wanted = grf.GraphGPRegressor(GRAPH, **settings).fit(GRAPH.index(list(GIVEN)), list(GIVEN.values()))
    found = grf.GraphGPRegressor(GRAPH, **settings).fit(series_of(kind, GIVEN))
    np.testing.assert_array_equal(found.predict(), wanted.predict())
    plain = grf.GraphGPRegressor(grf.from_edges([0, 1], [1, 2]), **settings).fit(series_of(kind, {2: 1.0, 0: 3.0}))
    assert plain.predict()[0] > plain.predict()[2]

    settings = {"kernel": grf.Diffusion(1.0), "optimize": False, "output_scale": 1.0, "seed": 0}
    words = {node: "low" if value < 3 else "high" for node, value in GIVEN.items()}
    named = grf.GraphGPClassifier(GRAPH, **settings).fit(GRAPH.index(list(words)), list(words.values()))
    other = grf.GraphGPClassifier(GRAPH, **settings).fit(series_of(kind, words))
    np.testing.assert_array_equal(other.predict_proba(), named.predict_proba())


def test_unknown_names_and_nodes_without_values_are_refused():
    with pytest.raises(ValueError, match="must be nodes of the graph, got 11"):
        grf.GraphGPRegressor(GRAPH).fit({11: 1.0, 20: 2.0})
    with pytest.raises(TypeError, match="`y` must be given, unless `nodes` is a dictionary or a Series"):
        grf.GraphGPRegressor(GRAPH).fit([10, 20])
    with pytest.raises(TypeError, match="`labels` must be given, unless `nodes` is a dictionary"):
        grf.GraphGPClassifier(GRAPH).fit(np.array([10, 20]))
