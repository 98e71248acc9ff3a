"""Searches within a box, where there is no density in places, and warnings of its bounds."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from graphrf.gp.search.bounds import warn_of_bounds
from graphrf.gp.search.coordinates import Coordinates, Parameter
from graphrf.gp.search.maximum import Tolerances, maximised

BOX = np.array([[-10.0, 10.0]])


def cliff(vector):
    """A density that ends abruptly beyond its maximum."""
    (x,) = vector
    if x > 1.5:
        return -math.inf, np.zeros(1)
    return x - np.exp(8 * (x - 1)), np.array([1 - 8 * np.exp(8 * (x - 1))])


@pytest.mark.parametrize("scale", [None, 2.0])
def test_a_search_turns_back_where_there_is_no_density(scale):
    top = maximised(cliff, np.array([-4.0]), BOX, scale=scale)
    assert top.converged
    assert top.stopped
    assert top.vector[0] == pytest.approx(1 - math.log(8) / 8, abs=1e-3)
    assert top.value == pytest.approx(cliff(top.vector)[0])


def test_a_search_without_any_density_says_so():
    top = maximised(lambda x: (math.nan, np.zeros(1)), np.zeros(1), BOX)
    assert top.value == -math.inf
    assert not top.converged


def test_few_iterations_stop_a_search_before_it_converges():
    def narrow(vector):
        x, y = vector
        value = -((1 - x) ** 2) - 100 * (y - x * x) ** 2
        return value, np.array([2 * (1 - x) + 400 * x * (y - x * x), -200 * (y - x * x)])

    box, start = np.tile([-3.0, 3.0], (2, 1)), np.array([-1.2, 1.0])
    assert not maximised(narrow, start, box, tolerances=Tolerances(iterations=3)).stopped
    top = maximised(narrow, start, box, tolerances=Tolerances(change=1e-14, slope=1e-8))
    assert (top.stopped, top.converged) == (True, True)
    np.testing.assert_allclose(top.vector, 1.0, atol=1e-4)


def test_a_maximum_at_a_bound_is_converged_and_nothing_to_search_is_a_maximum():
    top = maximised(lambda x: (float(3 * x[0]), np.array([3.0])), np.zeros(1), BOX)
    assert (top.vector.tolist(), top.converged) == ([10.0], True)
    assert maximised(lambda x: (2.5, np.zeros(0)), np.zeros(0), np.zeros((0, 2))).value == 2.5


def searched(name, low=0.5, high=3.0):
    return Coordinates((Parameter(name, "positive", 1.0, low, high, None),))


@pytest.mark.parametrize(
    ("name", "end", "message"),
    [
        ("lengthscale", "largest", "largest lengthscale that is searched, 3: .* smoother than"),
        ("lengthscale", "smallest", "smallest lengthscale .* no information on y at neighbours"),
        ("output_scale", "smallest", "output_scale that is searched: only a mean and noise"),
        ("noise", "largest", "largest noise that is searched, 3: only noise"),
        ("noise", "smallest", "smallest noise .* narrow as without noise"),
        ("range(x)", "largest", r"largest range\(x\) .* 3: the data do not determine it"),
    ],
)
def test_a_hyperparameter_at_a_bound_is_warned_of(name, end, message):
    coordinates = searched(name)
    vector = coordinates.box[:, 1 if end == "largest" else 0]
    with pytest.warns(UserWarning, match=message):
        warn_of_bounds(coordinates, vector)


def test_others_are_not_warned_of():
    coordinates, fixed = searched("lengthscale"), searched("noise", 2.0, 2.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_bounds(coordinates, coordinates.start)
        warn_of_bounds(coordinates, coordinates.box[:, 1], without=("largest lengthscale",))
        warn_of_bounds(fixed, fixed.start)
        warn_of_bounds(searched("nu"), coordinates.box[:, 1])
