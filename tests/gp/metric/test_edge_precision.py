"""The field along edges: closed forms on paths, circles and stars, cuts, and its precision."""

import copy

import numpy as np
import pytest

from graphrf.gp import MetricGraph
from graphrf.gp.fields.kernel import FieldKernel
from graphrf.gp.metric.edge_precision import EdgePrecision

LENGTH = 0.8
KNOWN = {"range": 2 * LENGTH, "sd": 2**0.5}


def _field(graph, places, ends="stationary", **settings):
    graph = copy.copy(graph)
    graph.ends = ends
    return graph.covariance(places, **KNOWN, **settings)


@pytest.fixture(scope="module")
def path():
    """Four edges in a row, one of them listed backwards, and the places of their nodes."""
    return MetricGraph([0, 2, 2, 3], [1, 1, 3, 4], [1.0, 0.3, 2.0, 0.7]), np.array(
        [0.0, 1.0, 1.3, 3.3, 4.0]
    )


@pytest.fixture(scope="module")
def town():
    """A small network with a dead end, parallel edges, a loop and two components."""
    src, dst = [0, 1, 2, 3, 1, 3, 4, 4, 6], [1, 2, 3, 0, 3, 1, 3, 4, 7]
    return MetricGraph(
        src, dst, [1.0, 2.0, 1.5, 0.4, 3.0, 2.2, 0.9, 1.7, 1.1], nodes=[0, 1, 2, 3, 4, 6, 7]
    )


def test_a_path_is_the_ornstein_uhlenbeck_process(path):
    graph, t = path
    np.testing.assert_allclose(
        _field(graph, None), 2 * np.exp(-np.abs(t[:, None] - t) / LENGTH), rtol=1e-12
    )


def test_free_ends_have_no_slope_and_twice_the_variance(path):
    graph, t = path
    low, high = np.minimum(t[:, None], t), np.maximum(t[:, None], t)
    expected = (
        4 * np.cosh(low / LENGTH) * np.cosh((t[-1] - high) / LENGTH) / np.sinh(t[-1] / LENGTH)
    )
    np.testing.assert_allclose(_field(graph, None, ends="free"), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("src", "dst", "length"), [([0], [0], [3.0]), ([0, 1], [1, 0], [1.0, 2.0])]
)
def test_a_circle_is_the_process_on_the_circle(src, dst, length):
    graph = MetricGraph(src, dst, length)
    places = [0, (0, 0.25), (0, 0.75), (len(src) - 1, 1.5)]
    t = np.array([0.0, 0.25, 0.75, 1.5 if len(src) == 1 else 2.5])
    around = np.abs(t[:, None] - t)
    expected = 2 * np.cosh((1.5 - around) / LENGTH) / np.sinh(1.5 / LENGTH)
    np.testing.assert_allclose(_field(graph, places), expected, rtol=1e-12)


def test_a_star_of_endless_edges(path):
    # three legs; the covariance of an endless star follows from reflection in its centre
    graph = MetricGraph([0, 2, 0], [1, 0, 3], [1.0, 2.0, 3.0])
    leg, t = np.array([0, 0, 0, 1, 2, 2]), np.array([0.0, 0.4, 1.0, 1.2, 0.1, 3.0])
    places = [(0, 0.0), (0, 0.4), 1, (1, 0.8), (2, 0.1), (2, 3.0)]
    outward = np.exp(-(t[:, None] + t) / LENGTH)
    same = (leg[:, None] == leg) & (t[:, None] * t > 0)
    along = np.where(same, np.exp(-np.abs(t[:, None] - t) / LENGTH) - outward, 0.0)
    np.testing.assert_allclose(_field(graph, places), 2 * (along + 2 / 3 * outward), rtol=1e-12)


@pytest.mark.parametrize("ends", ["stationary", "free"])
def test_cutting_edges_changes_nothing_elsewhere(town, ends):
    rng = np.random.default_rng(0)
    edges = rng.integers(town.n_edges, size=30)
    places = np.column_stack([edges, rng.random(30) * town.length[edges]])
    nodes = [(0, 0.0), (3, 0.0), (2, 0.0), (8, 1.1)]
    whole = _field(town, nodes, ends=ends)
    cut = _field(town, [*nodes, *map(tuple, places)], ends=ends)
    np.testing.assert_allclose(cut[:4, :4], whole, rtol=1e-11)
    assert np.linalg.eigvalsh(cut).min() > 0
    # a coarser cut agrees with a finer one, along edges too
    np.testing.assert_allclose(_field(town, places[::3], ends=ends), cut[4::3, 4::3], rtol=1e-11)


def test_draws_have_this_covariance(town):
    places = [(0, 0.5), (1, 1.0), (4, 2.0), (4, 2.9), (7, 0.5), (8, 0.3)]
    draws = town.sample(places, **KNOWN, n_samples=20_000, seed=1)
    expected = _field(town, places)
    found = draws.T @ draws / 20_000
    deviation = np.sqrt(
        (expected**2 + np.outer(np.diagonal(expected), np.diagonal(expected))) / 20_000
    )
    assert np.abs((found - expected) / deviation).max() < 6  # false alarms: 21 x 2e-9
    wrong = _field(town, places, ends="free")
    assert np.abs((found - wrong) / deviation).max() > 6
    first = town.sample(places, **KNOWN, n_samples=2, seed=1)
    np.testing.assert_allclose(first, draws[:2], rtol=1e-12)


@pytest.mark.parametrize("alpha", [1, 2])
@pytest.mark.parametrize("ends", ["stationary", "free"])
def test_derivative_and_determinant_of_the_precision(town, ends, alpha):
    pieces = town.subdivide(town.places([(0, 0.25), (4, 1.0), (7, 0.2)]), alpha)
    precision = EdgePrecision(pieces, FieldKernel(2 * LENGTH, alpha, 1), ends)
    dense = precision.matrix.toarray()
    step = 1e-5
    near = [
        precision.with_kernel(FieldKernel(2 * LENGTH + side * step, alpha, 1)) for side in (1, -1)
    ]
    ahead, behind = (own.matrix.toarray() for own in near)
    change = precision.derivative("range").toarray()
    np.testing.assert_allclose(change, (ahead - behind) / (2 * step), atol=1e-7 * abs(change).max())
    assert precision.log_determinant() == pytest.approx(np.linalg.slogdet(dense)[1], rel=1e-12)
    expected = np.trace(np.linalg.solve(dense, change))
    assert precision.trace_of_derivative("range") == pytest.approx(expected, rel=1e-10)


def test_edges_far_longer_than_the_lengthscale_are_independent_ends():
    graph = MetricGraph([0, 1], [1, 2], [1e4, 1.0])
    covariance = graph.covariance(range=2.0)
    assert covariance[0, 1] == 0.0
    assert covariance[0, 0] == pytest.approx(1.0)


def test_a_precision_that_is_singular_to_rounding_is_refused():
    graph = MetricGraph([0, 1], [1, 2], [1e-9, 1.0])
    with pytest.raises(
        ValueError, match="numerically singular: pieces of edges are 1e-09 to 1 long"
    ):
        graph.covariance(range=2e6)
