"""FieldGPRegressor along edges: against dense algebra, likelihood, intervals, and bad input."""

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from graphrf.gp import FieldGPRegressor, MetricGraph
from graphrf.gp.fields.kernel import FieldKernel
from graphrf.gp.model.observations import Observations
from graphrf.gp.space.priors import FieldPriors
from graphrf.gp.space.training import FieldHyperparameters, averaged, best
from graphrf.gp.terms import PenalisedDeviation
from graphrf.operators.sparse.ordering import Elimination

FIXED = {"range": 3.0, "sd": 3.0**0.5, "noise": 0.2}


def _network(side, seed):
    """A grid of streets of random lengths, of which a quarter is gone."""
    rng = np.random.default_rng(seed)
    place = np.arange(side * side).reshape(side, side)
    src = np.concatenate([place[:, :-1].ravel(), place[:-1].ravel()])
    dst = np.concatenate([place[:, 1:].ravel(), place[1:].ravel()])
    kept = rng.random(src.size) < 0.75
    src, dst = src[kept], dst[kept]
    nodes = np.unique([src, dst])
    return MetricGraph(
        np.searchsorted(nodes, src), np.searchsorted(nodes, dst), rng.uniform(0.2, 2.0, src.size)
    )


def _anywhere(graph, n, rng):
    edges = rng.choice(graph.n_edges, n, p=graph.length / graph.length.sum())
    return np.column_stack([edges, rng.random(n) * graph.length[edges]])


@pytest.fixture(scope="module")
def observed():
    """A network of two components, 40 observations, repeats on the first; places to predict."""
    graph = MetricGraph([0, 1, 1, 2, 4], [1, 2, 3, 0, 5], [2.0, 3.0, 1.0, 1.5, 2.5])
    rng = np.random.default_rng(0)
    edges = rng.integers(4, size=36)
    places = [
        *zip(edges.tolist(), rng.random(36) * graph.length[edges], strict=True),
        0,
        0,
        3,
        (0, 2.0),
    ]
    y = (
        4.0
        + graph.sample(places, range=3.0, sd=3.0**0.5, seed=1)[0]
        + 0.4 * rng.standard_normal(40)
    )
    return graph, places, y, [(0, 0.1), 2, (3, 0.7), places[5], (4, 1.0), 0, (0, 0.1)]


def _with_ends(graph, ends):
    """A copy whose dead ends are of this kind."""
    other = copy.copy(graph)
    other.ends = ends
    return other


def _dense(graph, places, asked, y, alpha=1, mean="constant", **given):
    """Posterior mean and covariance by the textbook."""
    whole = graph.covariance([*places, *asked], range=given["range"], sd=given["sd"], alpha=alpha)
    n = len(places)
    a, cross, own = whole[:n, :n] + given["noise"] * np.eye(n), whole[n:, :n], whole[n:, n:]
    basis = np.ones((n, 1 if mean == "constant" else 0))
    solved = np.linalg.solve(a, np.column_stack([cross.T, basis, y]))
    by_cross, by_basis, by_y = solved[:, : len(asked)], solved[:, len(asked) : -1], solved[:, -1]
    m = np.linalg.inv(basis.T @ by_basis)
    beta = m @ (basis.T @ by_y)
    left = np.ones((len(asked), basis.shape[1])) - cross @ by_basis
    return cross @ by_y + left @ beta, own - cross @ by_cross + left @ m @ left.T


@pytest.mark.parametrize("ends", ["stationary", "free"])
@pytest.mark.parametrize("settings", [{}, {"mean": "zero"}, {"alpha": 2}])
def test_the_posterior_is_that_of_dense_algebra(observed, settings, ends):
    graph, places, y, asked = observed
    graph = _with_ends(graph, ends)
    gp = FieldGPRegressor(graph, **FIXED, **settings).fit(places, y)
    mean, covariance = gp.predict(asked, return_cov=True)
    expected, spread = _dense(graph, places, asked, y, **FIXED, **settings)
    np.testing.assert_allclose(mean, expected, rtol=1e-8)
    np.testing.assert_allclose(covariance, spread, rtol=1e-8, atol=1e-8)
    again, std = gp.predict(asked, return_std=True)
    np.testing.assert_allclose(again, expected, rtol=1e-8)
    np.testing.assert_allclose(std, np.sqrt(np.diagonal(spread)), rtol=1e-6)
    _, of_new = gp.predict(asked, return_std="observation")
    np.testing.assert_allclose(of_new**2, std**2 + 0.2, rtol=1e-9)
    assert gp.n_observed_places_ == 39
    assert gp.converged_


def test_the_likelihood_is_that_of_the_observations(observed):
    graph, places, y, _ = observed
    gp = FieldGPRegressor(graph, **FIXED, mean="zero").fit(places, y)
    a = 3.0 * graph.covariance(places, range=3.0) + 0.2 * np.eye(40)
    expected = multivariate_normal(np.zeros(40), a).logpdf(y)
    assert gp.log_marginal_likelihood_ == pytest.approx(expected, rel=1e-10)
    gp = FieldGPRegressor(graph, **FIXED).fit(places, y)
    assert gp.log_marginal_likelihood_ == pytest.approx(
        multivariate_normal(np.full(40, gp.mean_), a).logpdf(y), rel=1e-10
    )


@pytest.mark.parametrize(
    ("prior", "alpha"), [(None, 1), ("weak", 1), ("weak", 2), ({"sd": PenalisedDeviation()}, 1)]
)
def test_the_search_climbs_with_the_right_gradient(observed, prior, alpha):
    graph, places, y, _ = observed
    nodes = graph.field_nodes(graph.places(places), alpha)
    observations = Observations.of(nodes.where, y[:, None], np.ones((nodes.n_nodes, 1)))
    precision, unknown = (
        nodes.precision(graph.kernel(2.0, alpha)),
        FieldHyperparameters(*3 * [None]),
    )
    priors = FieldPriors.of(prior, graph)
    found = best(precision, nodes.readings, observations, unknown, priors, graph.length_unit)
    point = np.log([1.4, 2.0, 0.3])
    _, slope = found.search.log_posterior(point)
    for axis in range(3):
        step = 3e-4 * np.eye(3)[axis]
        ahead, behind = (found.search.log_posterior(point + side * step)[0] for side in (1, -1))
        assert slope[axis] == pytest.approx((ahead - behind) / 6e-4, rel=1e-5, abs=1e-6)
    assert found.converged
    nearby = found.point + 0.05 * np.random.default_rng(2).standard_normal((20, 3))
    here = found.search.log_posterior(found.point)[0]
    assert max(found.search.log_posterior(p)[0] for p in nearby) < here


def test_points_of_a_normal_posterior_have_its_moments():
    covariance = np.array([[0.3, 0.1, 0.0], [0.1, 0.2, -0.05], [0.0, -0.05, 0.4]])
    inner, mode = np.linalg.inv(covariance), np.array([0.5, -1.0, 0.2])

    class Normal:
        def __init__(self):
            self.space, self.box = self, np.tile([-np.inf, np.inf], (3, 1))
            self.elimination = Elimination.of(sp.eye_array(3, format="csr"))

        def log_posterior(self, point, gradient=True):
            return -0.5 * (point - mode) @ inner @ (point - mode), -inner @ (point - mode)

        def model(self, point):
            return FieldKernel(point[0], 1, 1), point[1], None, point[2]

    class Found:
        point, search = mode, Normal()

    points = averaged(Found(), 1.0)
    weights = np.array([weight for _, weight in points])
    values = np.array([point for point, _ in points])
    assert weights.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(weights @ values, mode, atol=1e-8)
    away = values - mode
    np.testing.assert_allclose((weights[:, None] * away).T @ away, covariance, rtol=1e-5, atol=1e-6)


def test_several_outputs_share_hyperparameters(observed):
    graph, places, y, asked = observed
    both = np.column_stack([y, -2 * y + 1])
    gp = FieldGPRegressor(graph, **FIXED).fit(places, both)
    mean, std = gp.predict(asked, return_std=True)
    expected, _ = _dense(graph, places, asked, y, **FIXED)
    np.testing.assert_allclose(mean, np.column_stack([expected, -2 * expected + 1]), rtol=1e-9)
    assert mean.shape == std.shape == (7, 2)
    assert gp.mean_[1] == pytest.approx(-2 * gp.mean_[0] + 1)
    assert gp.sample(asked, 3, seed=0).shape == (3, 7, 2)


# Some draws of so few values look so.
@pytest.mark.filterwarnings("ignore:the field explains y no better")
@pytest.mark.parametrize("hyperparameters", ["mode", "average"])
def test_draws_have_the_law_of_the_predictions(observed, hyperparameters):
    graph, places, y, asked = observed
    gp = FieldGPRegressor(graph, hyperparameters=hyperparameters).fit(places, y)
    assert gp.n_points_ == (7 if hyperparameters == "average" else 1)
    mean, covariance = gp.predict(asked[:5], return_cov=True)
    draws = gp.sample(asked[:5], 4_000, seed=3)
    deviation = np.sqrt(np.diagonal(covariance))
    z = (draws.mean(axis=0) - mean) / deviation * np.sqrt(4_000)
    assert np.abs(z).max() < 6  # false alarms: 5 x 2e-9
    # More than 6 deviations, tails included.
    np.testing.assert_allclose(draws.std(axis=0), deviation, rtol=0.12)
    np.testing.assert_array_equal(gp.sample(asked[:5], 2, seed=3), gp.sample(asked[:5], 2, seed=3))


@pytest.mark.parametrize("alpha", [1, pytest.param(2, marks=pytest.mark.more)])
def test_default_intervals_hold_on_draws(alpha):
    truth = {"range": 4.0, "sd": 2.0, "noise": 0.25}
    scores: dict[str, list[np.ndarray]] = {"default": [], "truth": []}
    for seed in range(8):
        graph = _network(6, seed)
        rng = np.random.default_rng(100 + seed)
        places = _anywhere(graph, 220, rng)
        f = 5.0 + graph.sample(places, range=4.0, sd=2.0, alpha=alpha, seed=seed)[0]
        y = f[:120] + 0.5 * rng.standard_normal(120)
        for name, known in (("default", {}), ("truth", truth)):
            gp = FieldGPRegressor(graph, alpha=alpha, **known).fit(places[:120], y)
            mean, std = gp.predict(places[120:], return_std=True)
            scores[name].append((f[120:] - mean) / std)
    inside = {name: np.mean(np.abs(z) < 1.96) for name, z in scores.items()}
    assert 0.91 < inside["truth"] < 0.98
    assert abs(inside["default"] - inside["truth"]) < 0.02
    narrow = np.mean(np.abs(scores["default"]) < 0.75 * 1.96)
    # Intervals of three quarters of the width would be seen.
    assert abs(narrow - inside["truth"]) > 0.04


def test_values_that_do_not_vary_say_nothing():
    graph = _network(3, 0)
    with pytest.warns(UserWarning, match="`y` does not vary about its mean"):
        gp = FieldGPRegressor(graph).fit([0, 1, (0, 0.1)], [2.0, 2.0, 2.0])
    mean, std = gp.predict(return_std=True)
    np.testing.assert_allclose(mean, 2.0)
    assert (std > 0).all()
    one = FieldGPRegressor(graph, **FIXED).fit([(0, 0.1)], [1.0])
    assert one.predict([0]) == pytest.approx(1.0)


def test_it_is_an_estimator(observed):
    graph, places, y, asked = observed
    gp = FieldGPRegressor(graph, noise=0.1, prior={"range": (2.0, 2.0)})
    with pytest.raises(NotFittedError, match="call fit"):
        gp.predict()
    gp.fit(places, y)
    assert clone(gp).get_params()["noise"] == 0.1
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(gp)).predict(asked), gp.predict(asked))
    assert gp.score(places, y) > 0.5
    assert gp.predict().shape == (graph.n_nodes,)
    assert gp.noise_ == pytest.approx(0.1)
    with pytest.raises(ValueError, match="`y` must have shape"):
        gp.fit(places, y[:3])
    assert not hasattr(gp, "noise_")  # nothing of the fit before is left


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"alpha": 3}, "`alpha` must be 1 or 2"),
        ({"alpha": 1e-10}, "not scikit-learn's noise variance"),
        ({"mean": "linear"}, "`mean` must be one of"),
        ({"range": -1.0}, "`range` must be"),
        ({"noise": 0.0}, "`noise` must be"),
        ({"sd": "big"}, "`sd` must be a number"),
        ({"hyperparameters": "best"}, "`hyperparameters` must be one of"),
        ({"prior": "strong"}, "`prior` must be"),
        ({"prior": 3.0}, "`prior` must be 'weak', None or a mapping"),
        ({"prior": {"lengthscale": None}}, "`the name of a prior` must be one of 'range', 'sd'"),
        ({"prior": {"sd": 2.0}}, "`sd` must be .median, factor., a PenalisedDeviation or None"),
        ({"range": 1e15}, "numerically singular"),
    ],
)
def test_settings_out_of_range_are_refused(observed, settings, said):
    graph, places, y, _ = observed
    with pytest.raises((ValueError, TypeError), match=said):
        FieldGPRegressor(graph, **settings).fit(places, y)


def test_other_ends_are_refused():
    with pytest.raises(ValueError, match="`ends` must be one of 'stationary', 'free'"):
        MetricGraph([0], [1], [1.0], ends="open")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"return_std": True, "return_cov": True}, "exclude each other"),
        ({"return_std": "noise"}, "must be True, False or 'observation'"),
        ({"places": [(0, 9.0)]}, "distances from 0 to the length"),
    ],
)
def test_predictions_that_cannot_be_are_refused(observed, asked, said):
    graph, places, y, _ = observed
    gp = FieldGPRegressor(graph, **FIXED).fit(places, y)
    with pytest.raises(ValueError, match=said):
        gp.predict(**asked)


def test_covariates_asked_for_at_observed_places_are_not_those_of_the_observations():
    roads = MetricGraph([0, 1, 1], [1, 2, 3], [2.0, 3.0, 1.0])
    rng = np.random.default_rng(0)
    edge = rng.integers(3, size=40)
    places = np.column_stack([edge, rng.random(40) * roads.length[edge]])
    x = rng.standard_normal(40)
    y = 3 * x + 0.1 * rng.standard_normal(40) + roads.sample(places, range=4.0, seed=0)[0]
    gp = FieldGPRegressor(roads, hyperparameters="mode").fit(places, y, x=x)
    first, further = tuple(places[0]), (0, 0.12345)
    alone = gp.predict([first], return_std=True, x=[[x[0] + 10]])
    beside = gp.predict([first, further], return_std=True, x=[[x[0] + 10], [0.0]])
    np.testing.assert_allclose([values[0] for values in beside], np.ravel(alone), rtol=1e-6)
