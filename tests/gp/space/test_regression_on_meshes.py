"""FieldGPRegressor on triangle meshes: dense algebra, resolutions, averages, files, bad input."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from scipy.spatial import ConvexHull
from scipy.stats import multivariate_normal
from sklearn.base import clone

from graphrf.gp import FieldGPRegressor, TriangleMesh
from graphrf.gp.fields.validity import check_distances
from graphrf.gp.model.observations import Observations
from graphrf.gp.space.priors import FieldPriors
from graphrf.gp.space.training import FieldHyperparameters, best
from graphrf.gp.terms import PenalisedDeviation, PenalisedRange

FIXED = {"range": 1.2, "sd": 1.5, "noise": 0.2}


def bumpy_sphere(subdivisions):
    """A sphere with bumps of a fifth of its radius."""
    mesh = TriangleMesh.sphere(subdivisions)
    x, y, z = mesh.vertices.T
    radius = 1 + 0.2 * np.sin(3 * x) * np.cos(2 * y) + 0.1 * np.sin(4 * z)
    return TriangleMesh(mesh.vertices * radius[:, None], mesh.triangles)


@pytest.fixture(scope="module")
def square():
    """A grid of right triangles, for whose long sides entries of the stiffness are zero."""
    ticks = np.linspace(0, 2, 11)
    vertices = np.array([(x, y) for x in ticks for y in ticks])
    corner = np.arange(121).reshape(11, 11)
    a, b, c, d = (
        part.ravel()
        for part in (corner[:-1, :-1], corner[1:, :-1], corner[1:, 1:], corner[:-1, 1:])
    )
    return TriangleMesh(vertices, np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)]))


@pytest.fixture(scope="module")
def observed(square):
    """Forty observations at 38 points, and points to predict, one of which was observed."""
    rng = np.random.default_rng(0)
    points = 2 * rng.random((40, 2))
    points[[5, 9]] = points[4]
    y = 3.0 + square.sample(points, range=1.2, sd=1.5, seed=1)[0] + 0.4 * rng.standard_normal(40)
    return points, y, np.concatenate([2 * rng.random((6, 2)), points[[4]], [[1.0, 1.0]]])


def dense(mesh, rows, n, y, alpha, basis):
    """Posterior mean and covariance by the textbook, of places after the first n."""
    precision = mesh.field_nodes(mesh.places(), alpha).precision(mesh.kernel(1.2, alpha))
    v = mesh.n_vertices  # the variables after these are hidden
    prior = np.linalg.inv(precision.matrix.toarray())[:v, :v]
    whole = 1.5**2 * rows @ prior @ rows.T
    a, cross = whole[:n, :n] + 0.2 * np.eye(n), whole[n:, :n]
    by_basis, by_y = np.linalg.solve(a, basis[:n]), np.linalg.solve(a, y)
    inverse = np.linalg.inv(basis[:n].T @ by_basis)
    beta, left = inverse @ (basis[:n].T @ by_y), basis[n:] - cross @ by_basis
    covariance = whole[n:, n:] - cross @ np.linalg.solve(a, cross.T) + left @ inverse @ left.T
    return cross @ by_y + left @ beta, covariance


@pytest.mark.parametrize("alpha", [1, 1.5, 2, 2.5, 3])
@pytest.mark.parametrize("with_x", [False, True])
def test_the_posterior_is_that_of_dense_algebra(square, observed, alpha, with_x):
    points, y, asked = observed
    everywhere = np.concatenate([points, asked])
    trend = everywhere[:, :1] ** 2
    basis = np.column_stack([np.ones(48), *([trend] if with_x else [])])
    x = {"x": trend[:40]} if with_x else {}
    gp = FieldGPRegressor(square, alpha=alpha, **FIXED).fit(points, y, **x)
    there = {"x": trend[40:]} if with_x else {}
    mean, covariance = gp.predict(asked, return_cov=True, **there)
    rows = square.weights(everywhere).toarray()
    expected, spread = dense(square, rows, 40, y, alpha, basis)
    np.testing.assert_allclose(mean, expected, rtol=1e-8)
    np.testing.assert_allclose(covariance, spread, rtol=1e-7, atol=1e-9)
    _, std = gp.predict(asked, return_std=True, **there)
    np.testing.assert_allclose(std**2, np.diagonal(spread), rtol=1e-7)
    assert gp.n_observed_places_ == 38
    a = square.covariance(points, range=1.2, sd=1.5, alpha=alpha) + 0.2 * np.eye(40)
    if not with_x:
        expected = multivariate_normal(np.full(40, gp.mean_), a).logpdf(y)
        assert gp.log_marginal_likelihood_ == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("prior", [None, "weak", {"sd": PenalisedDeviation(), "noise": (0.1, 3.0)}])
def test_the_search_climbs_with_the_right_gradient(square, observed, prior):
    points, y, _ = observed
    nodes = square.field_nodes(square.places(points), 2)
    observations = Observations.of(nodes.where, y[:, None], np.ones((nodes.n_nodes, 1)))
    precision, unknown = (
        nodes.precision(square.kernel(1.0, 2)),
        FieldHyperparameters(None, None, None),
    )
    priors = FieldPriors.of(prior, square)
    result = best(precision, nodes.readings, observations, unknown, priors, square.length_unit)
    point = np.log([0.8, 2.0, 0.3])
    _, slope = result.search.log_posterior(point)
    for axis in range(3):
        step = 3e-4 * np.eye(3)[axis]
        ahead, behind = (result.search.log_posterior(point + side * step)[0] for side in (1, -1))
        assert slope[axis] == pytest.approx((ahead - behind) / 6e-4, rel=1e-5, abs=1e-6)
    assert result.converged


def test_a_finer_mesh_of_a_surface_gives_the_same_answer():
    coarse, fine = bumpy_sphere(4), bumpy_sphere(5)
    rng = np.random.default_rng(3)
    points = coarse.vertices[rng.choice(coarse.n_vertices, 80, replace=False)]
    x, y, z = points.T
    times = 30 + 10 * np.sin(2 * x) + 5 * y * z + rng.standard_normal(80)
    models = [FieldGPRegressor(mesh).fit(points, times) for mesh in (coarse, fine)]
    assert models[0].range_ == pytest.approx(models[1].range_, rel=0.03)
    assert models[0].sd_ == pytest.approx(models[1].sd_, rel=0.03)
    # The vertices of the coarse mesh are vertices of the fine one.
    (mean, std), (other, of_other) = (gp.predict(coarse.vertices, return_std=True) for gp in models)
    np.testing.assert_allclose(std, of_other, rtol=0.06)
    assert np.abs(mean - other).max() < 0.1 * std.mean()


def test_observations_may_be_averages_over_polygons(square, observed):
    shapely = pytest.importorskip("shapely")
    geopandas = pytest.importorskip("geopandas")
    points, y, asked = observed
    boxes = [shapely.box(a, a, a + 0.7, 1.9) for a in (0.1, 0.6, 1.1)]
    places = geopandas.GeoSeries([*map(shapely.Point, points), *boxes])
    y = np.concatenate([y, [3.0, 4.0, 2.5]])
    gp = FieldGPRegressor(square, **FIXED).fit(places, y)
    every = np.concatenate([square.weights(places).toarray(), square.weights(asked).toarray()])
    expected, spread = dense(square, every, 43, y, 2, np.ones((51, 1)))
    mean, std = gp.predict(asked, return_std=True)
    np.testing.assert_allclose(mean, expected, rtol=1e-8)
    np.testing.assert_allclose(std**2, np.diagonal(spread), rtol=1e-7)
    # Averages of which the fit knows nothing, whose variables are no pattern's.
    new = geopandas.GeoSeries([shapely.box(0.3, 0.2, 1.8, 1.2), shapely.Point(1.0, 0.5)])
    mean, covariance = gp.predict(new, return_cov=True)
    again, std = gp.predict(new, return_std=True)
    np.testing.assert_allclose(again, mean)
    np.testing.assert_allclose(std**2, np.diagonal(covariance), rtol=1e-8)


def test_criteria_are_those_of_fits_without_an_observation(square, observed):
    points, y, _ = observed
    gp = FieldGPRegressor(square, **FIXED).fit(points, y)
    left_out = gp.loo().log_density
    for row in (0, 5, 20):
        others = np.arange(40) != row
        fitted = FieldGPRegressor(square, **FIXED).fit(points[others], y[others])
        expected = fitted.log_density(points[[row]], y[[row]])
        assert left_out[row] == pytest.approx(expected[0], rel=1e-8)
    with pytest.warns(UserWarning, match="WAIC may mislead here"):  # few observations, little noise
        assert gp.waic().n_effective > 5


def test_weights_count_observations(square, observed):
    points, y, asked = observed
    weights = np.where(np.arange(40) < 20, 2.0, 1.0)
    weights[7] = 0.0
    weighted = FieldGPRegressor(square, **FIXED).fit(points, y, weights)
    chosen = np.repeat(np.arange(40), weights.astype(int))
    repeated = FieldGPRegressor(square, **FIXED).fit(points[chosen], y[chosen])
    for ours, theirs in zip(
        weighted.predict(asked, return_std=True),
        repeated.predict(asked, return_std=True),
        strict=True,
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8)


def test_several_outputs_share_hyperparameters(square, observed):
    points, y, asked = observed
    both = FieldGPRegressor(square, **FIXED).fit(points, np.column_stack([y, 1 - 2 * y]))
    one = FieldGPRegressor(square, **FIXED).fit(points, y).predict(asked)
    np.testing.assert_allclose(both.predict(asked), np.column_stack([one, 1 - 2 * one]), rtol=1e-8)
    assert both.sample(asked, 3, seed=0).shape == (3, 8, 2)


@pytest.mark.filterwarnings("ignore:the field explains y no better")
def test_draws_probabilities_and_quantiles_agree(square, observed):
    points, y, asked = observed
    gp = FieldGPRegressor(square).fit(points, y)
    assert gp.n_points_ == 7
    draws = gp.sample(asked, 3_000, seed=3)
    mean, covariance = gp.predict(asked, return_cov=True)
    deviation = np.sqrt(np.diagonal(covariance))
    assert np.abs((draws.mean(axis=0) - mean) / deviation).max() * np.sqrt(3_000) < 6
    np.testing.assert_allclose(draws.std(axis=0), deviation, rtol=0.12)
    levels = gp.predict(asked, quantiles=[0.2, 0.9])
    np.testing.assert_allclose(gp.probability(asked, below=levels[3, 0])[3], 0.2, atol=1e-6)
    assert np.abs((draws < levels[:, 1]).mean(axis=0) - 0.9).max() < 0.04  # 7 deviations


def test_tables_keep_their_labels(square, observed):
    pandas = pytest.importorskip("pandas")
    points, y, asked = observed
    index = pandas.Index([f"station {k}" for k in range(40)], name="station")
    table = pandas.DataFrame(points, columns=["x", "y"], index=index)
    series = pandas.Series(y, index=index).sample(frac=1.0, random_state=0)
    gp = FieldGPRegressor(square, **FIXED).fit(table, series)
    expected = FieldGPRegressor(square, **FIXED).fit(points, y).predict(asked)
    np.testing.assert_array_equal(gp.predict(asked), expected)
    frame = gp.predict(table.iloc[:3], as_frame=True)
    assert frame.index.tolist() == ["station 0", "station 1", "station 2"]
    assert gp.predict(as_frame=True).shape == (121, 1)


def test_it_is_an_estimator_and_files_keep_it(square, observed, tmp_path):
    points, y, asked = observed
    prior = {"range": PenalisedRange(0.5), "sd": (1.0, 3.0)}
    gp = clone(FieldGPRegressor(square, prior=prior)).fit(points, y)
    expected = gp.predict(asked, return_std=True)
    gp.save(tmp_path / "gp.npz")
    gp.save(tmp_path / "alone.npz", graph=False)
    for other in (
        pickle.loads(pickle.dumps(gp)),
        FieldGPRegressor.load(tmp_path / "gp.npz"),
        FieldGPRegressor.load(tmp_path / "alone.npz", graph=square),
    ):
        np.testing.assert_array_equal(other.predict(asked, return_std=True), expected)
        assert other.range_ == gp.range_
    assert other.score(points, y) > 0.5
    sphere = FieldGPRegressor(TriangleMesh.sphere(1), **FIXED).fit([[10.0, 50.0], [0, 0]], [1, 2])
    sphere.save(tmp_path / "sphere.npz")
    loaded = FieldGPRegressor.load(tmp_path / "sphere.npz")
    assert loaded.predict([[170.0, -50.0]]) == sphere.predict([[170.0, -50.0]])
    with pytest.raises(ValueError, match="must be the graph that"):
        FieldGPRegressor.load(tmp_path / "alone.npz", graph=TriangleMesh.sphere(1))


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"alpha": 4}, "`alpha` must be 1, 1.5, 2, 2.5 or 3"),
        ({"alpha": 1.7}, "`alpha` must be"),
        ({"range": 0.0}, "`range` must be"),
        ({"prior": {"length": None}}, "must be one of 'range', 'sd', 'noise'"),
        ({"domain": [[0, 1]]}, "`domain` must be a TriangleMesh or a MetricGraph"),
    ],
)
def test_settings_that_cannot_be_are_refused(square, observed, settings, match):
    points, y, _ = observed
    with pytest.raises((ValueError, TypeError), match=match):
        FieldGPRegressor(**{"domain": square, **settings}).fit(points, y)


@pytest.mark.parametrize(
    ("points", "match"),
    [
        ([[0.5, 0.5], [9.0, 9.0]], "must lie in the mesh, but 1 of 2 do not"),
        ([[0.5, np.nan], [0.5, 0.5]], "`places`"),
        ([[0.5, 0.5, 1.0], [0.5, 0.5, 1.0]], "must have 2 coordinates"),
        ([], "must have the shape"),
    ],
)
def test_places_that_are_none_are_refused(square, points, match):
    with pytest.raises(ValueError, match=match):
        FieldGPRegressor(square).fit(points, np.arange(float(len(points))))


def test_parts_of_a_mesh_without_observations_are_warned_of():
    corners = np.array([[0, 0], [1, 0], [0, 1]], dtype=float)
    mesh = TriangleMesh(np.concatenate([corners, corners + 5]), [[0, 1, 2], [3, 4, 5]])
    gp = FieldGPRegressor(mesh, **{**FIXED, "range": 5.0})
    with pytest.warns(UserWarning, match="1 of 2 connected parts of the mesh have no data"):
        gp.fit([[0.2, 0.2], [0.5, 0.1]], [1.0, 2.0])
    _, std = gp.predict([[0.2, 0.2], [5.2, 5.2]], return_std=True)
    assert std[1] > std[0]


def test_a_summary_has_intervals_of_the_posterior_of_hyperparameters(square, observed):
    pandas = pytest.importorskip("pandas")
    points, y, _ = observed
    gp = FieldGPRegressor(square, noise=0.2).fit(points, y)
    table = gp.summary()
    assert list(table.index) == ["constant", "range", "sd", "noise sd"]
    pandas.testing.assert_frame_equal(table.iloc[:1], gp.coefficients_)
    assert table.loc["noise sd"].tolist() == pytest.approx([0.2**0.5, 0, *[0.2**0.5] * 3])
    low, middle, high = table.loc["range", ["0.025", "0.5", "0.975"]]
    assert low < gp.range_ < high
    assert low * high == pytest.approx(middle**2)
    # Twice as long coordinates have twice the range and the same deviations.
    twice = TriangleMesh(2 * square.vertices, square.triangles)
    other = FieldGPRegressor(twice, noise=0.2).fit(2 * points, y).summary()
    np.testing.assert_allclose(other.loc["range"], 2 * table.loc["range"], rtol=1e-3)
    np.testing.assert_allclose(other.loc["sd"], table.loc["sd"], rtol=1e-3)
    at_mode = FieldGPRegressor(square, hyperparameters="mode").fit(points, y)
    assert at_mode.summary().loc["range"].isna().tolist() == [False, True, True, False, True]
    assert at_mode.summary().loc["range", "0.5"] == pytest.approx(at_mode.range_)


def test_intervals_are_those_of_the_posterior_that_is_not_tempered(square):
    rng = np.random.default_rng(0)
    points = 2 * rng.random((100, 2))
    y = square.sample(points, range=0.6, seed=3)[0] + 0.1 * rng.standard_normal(100)
    gp = FieldGPRegressor(square).fit(points, y)
    logs = np.log([each.range for each, _ in gp._points])
    weights = np.array([weight for _, weight in gp._points])
    tempered = np.sqrt(weights @ np.square(logs - weights @ logs))
    low, high = np.log(gp.summary().loc["range", ["0.025", "0.975"]])
    # 100 observations count as 50 where predictions are averaged.
    assert (high - low) / (2 * 1.959964) == pytest.approx(tempered * np.sqrt(0.5))


def test_a_summary_of_several_outputs_has_hyperparameters_alone(square, observed):
    points, y, _ = observed
    table = FieldGPRegressor(square).fit(points, np.column_stack([y, 2 * y])).summary()
    assert list(table.index) == ["range", "sd", "noise sd"]


def test_printed_criteria_have_short_coordinates(square, observed):
    points, y, _ = observed
    found = FieldGPRegressor(square, **FIXED).fit(points, y).loo()
    least = repr(found).splitlines()[-1]
    x, z = points[np.argmin(found.log_density)]
    assert f"({x:.4g}, {z:.4g}) (" in least


def test_places_far_off_a_surface_are_named_in_fits_and_predictions():
    pandas = pytest.importorskip("pandas")
    ball = TriangleMesh.sphere(3)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((40, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    frame = pandas.DataFrame(x, columns=["x", "y", "z"], index=[f"site {k}" for k in range(40)])
    y = pandas.Series(ball.sample(x, range=1.0, seed=0)[0], frame.index)
    frame.loc["site 7"] *= 1.25
    with pytest.warns(UserWarning, match=r"1 of 40 .* than 0\.\d+, .*: row 'site 7' \(0\.2"):
        gp = FieldGPRegressor(ball, range=1.0, sd=1.0, noise=0.01).fit(frame, y)
    with pytest.warns(UserWarning, match=r"1 of 2 .*: row 'site 7' \(0\.2"):
        gp.predict(frame.loc[["site 1", "site 7"]])
    gp.predict(frame.loc[["site 1"]])


def test_places_that_are_all_a_little_off_a_fine_surface_are_not_named():
    ball = TriangleMesh.sphere(3)
    edge = np.median(ball.edge_lengths)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((60, 3))
    check_distances(x, np.linspace(0.5 * edge, 1.5 * edge, 60), ball)
    with pytest.warns(UserWarning, match="1 of 60 .* unlike others: row 59"):
        check_distances(x, np.append(np.full(59, 0.05 * edge), 1.5 * edge), ball)
    with pytest.warns(UserWarning, match="1 of 2 .*: row 1"):  # too few to tell how good they are
        check_distances(x[:2], np.array([0.2 * edge, 1.5 * edge]), ball)


def test_a_range_is_compared_with_the_largest_triangles_among_observations():
    u = np.random.default_rng(1).normal(size=(900, 3))
    u[:700] = 0.25 * u[:700] + [0, 0, 1]
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # obtuse triangles
        uneven = TriangleMesh(u, ConvexHull(u).simplices)
    places = uneven.places(np.random.default_rng(0).permutation(u)[:400])
    near = np.median(uneven.edge_lengths)
    with pytest.warns(UserWarning, match="short for edges .* the noise is too large"):
        uneven.warn_of_range(3.0 * near, places)
    fine = uneven.refined(near)
    fine.warn_of_range(3.0 * near, fine.places(u[:400]))


def test_means_by_area_of_a_surface_are_those_of_linear_functions():
    mesh = bumpy_sphere(2)
    x = mesh.vertices[::9]
    gp = FieldGPRegressor(mesh, **FIXED).fit(x, np.sin(2 * x[:, 2]))
    places, weights = mesh.quadrature()
    assert weights.sum() == pytest.approx(mesh.area)
    # each vertex stands for a third of its triangles
    assert gp.predict(places) @ weights == pytest.approx(gp.predict() @ mesh.elements.lumped_mass)
    upper = places[:, 2] > 0.5
    share = weights[upper] / weights[upper].sum()
    drawn = gp.sample(places[upper], 2000, seed=0) @ share
    sd = np.sqrt(share @ gp.predict(places[upper], return_cov=True)[1] @ share)
    assert abs(drawn.mean() - gp.predict(places[upper]) @ share) < 5 * sd / 2000**0.5
    assert drawn.std() == pytest.approx(sd, rel=0.1)
