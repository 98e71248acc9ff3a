"""Bad or extreme input: a clear error, or finite and sound answers; never NaN."""

from __future__ import annotations

import numpy as np
import pytest

import graphrf as grf
from tests.support.dense_gp import dense_posterior, no_mean

NODES = np.arange(0, 144, 3)
Y = np.sin(NODES / 12) + 0.1 * np.random.default_rng(0).standard_normal(48)
METHODS = ["series", "features"]
# Default rows for walks hold the kernel's series but for a thousandth.
ACCURACY = {"series": 1e-9, "features": 4e-3}


def _fit(graph, nodes, y, **settings):
    """A regressor, after everything that it can say was looked at for soundness."""
    gp = grf.GraphGPRegressor(graph, **{"seed": 0, **settings}).fit(nodes, y)
    mean, std = gp.predict(return_std=True)
    joint = gp.predict(return_cov=True)[1]
    said = [mean, std, joint, gp.sample(n_samples=2, seed=0), gp.prior_covariance()]
    if gp.solver_ == "cholesky":
        said.append(gp.log_marginal_likelihood_)
    said += [gp.output_scale_, gp.noise_, gp.mean_, gp.residual_, gp.truncation_error_]
    assert all(np.isfinite(part).all() for part in said)
    assert (std >= 0).all()
    prior = gp.prior_covariance()
    largest = np.sqrt(np.diagonal(prior).max())
    if gp.n_points_ > 1:
        # Over all hyperparameters that are likely, whose means differ by as much as y at most.
        largest = np.sqrt(max(_largest_variance(graph, point) for point in gp._fitted.points))
        noise = max(point.noise for point in gp._fitted.points)
        assert std.max() <= 2 * largest + np.sqrt(noise) + np.ptp(np.asarray(y, float))
    elif (gp.method_, gp.solver_) == ("series", "cholesky"):
        basis = no_mean(graph.n_nodes) if gp.mean == "zero" else None
        root = gp.kernel_.dense_root(graph) * np.sqrt(gp.output_scale_ / gp.mean_variance_)
        positions = np.asarray(nodes, int).ravel()
        expected = dense_posterior(root, positions, y, gp.noise_, basis=basis)[1]
        np.testing.assert_allclose(
            std, np.sqrt(np.diagonal(expected)), rtol=1e-3, atol=1e-4 * largest
        )
    else:
        # Walks are off, deviations beside conjugate gradients are sampled, and the mean of y tells
        # the constant as well as its best estimate does, or worse.
        unknown = 0.0 if gp.mean == "zero" else 2 * largest + np.sqrt(gp.noise_)
        assert std.max() <= 2.0 * (largest + unknown)
    return gp


def _largest_variance(graph, point):
    return point.amplitude * np.diagonal(point.kernel.dense(graph)).max()


# -- y -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("method", "unit"), [("series", 1e-130), ("features", 1e130)])
def test_units_of_y_change_only_the_units(grid, method, unit):
    one, other = (
        _fit(grid, NODES, scale * Y, kernel="diffusion", method=method) for scale in (1.0, unit)
    )
    np.testing.assert_allclose(other.predict() / unit, one.predict(), atol=1e-3)
    np.testing.assert_allclose(other.noise_ / unit / unit, one.noise_, rtol=0.02)


@pytest.mark.parametrize(
    ("method", "offset", "atol"), [("features", 1e6, 1e-4), ("series", -1e12, 2e-3)]
)
def test_an_offset_of_y_changes_only_the_mean(grid, method, offset, atol):
    one, other = (
        _fit(grid, NODES, shift + Y, kernel="diffusion", method=method) for shift in (0.0, offset)
    )
    np.testing.assert_allclose(other.predict() - offset, one.predict(), atol=atol)
    np.testing.assert_allclose(other.noise_, one.noise_, rtol=0.02)
    np.testing.assert_allclose(
        other.predict(return_std=True)[1], one.predict(return_std=True)[1], atol=atol
    )


@pytest.mark.parametrize("y", [1e141 * Y, 1e300 * Y, 1e-150 * Y])
def test_y_whose_squares_leave_float64_is_refused(grid, y):
    with pytest.raises(ValueError, match="multiply it by a constant"):
        grf.GraphGPRegressor(grid).fit(NODES, y)


@pytest.mark.parametrize(
    ("value", "method"),
    [(0.0, "series"), (0.1, "features"), (1e12, "series"), (1e-100, "features")],
)
def test_constant_y_is_continued_with_a_warning(grid, value, method):
    with pytest.warns(UserWarning, match="`y` does not vary about its mean"):
        gp = _fit(grid, NODES, np.full(48, value), method=method)
    np.testing.assert_allclose(gp.predict(), value, rtol=1e-12)
    np.testing.assert_allclose(gp.mean_, value, rtol=1e-12)


def test_what_is_left_of_rounding_is_no_variation(grid):
    y = 1e15 + 0.125 * (np.arange(48) % 2)  # one unit in the last place
    with pytest.warns(UserWarning, match="`y` does not vary about its mean"):
        gp = _fit(grid, NODES, y)
    np.testing.assert_allclose(gp.predict(), 1e15, rtol=1e-14)


@pytest.mark.parametrize("kind", ["int64", "uint8", "bool", "float32", "float16"])
def test_y_of_any_kind_of_number_is_taken_as_float64(grid, kind):
    y = Y > 0 if kind == "bool" else np.round(10 * Y + 20).astype(kind)
    settings = {
        "kernel": grf.Diffusion(2.0),
        "optimize": False,
        "output_scale": 1.0,
        "noise": 0.01,
        "seed": 0,
    }
    want, found = (
        grf.GraphGPRegressor(grid, **settings).fit(NODES, own) for own in (y.astype(np.float64), y)
    )
    assert found.predict().dtype == np.float64
    np.testing.assert_array_equal(found.predict(), want.predict())


@pytest.mark.parametrize(
    ("y", "error", "message"),
    [
        (
            np.where(np.arange(48) == 5, np.nan, Y),
            ValueError,
            "`y` must be finite, got nan at position 5",
        ),
        (
            np.where(np.arange(48) == 5, np.inf, Y),
            ValueError,
            "`y` must be finite, got inf at position 5",
        ),
        (Y[:-1], ValueError, r"`y` must have shape \(48,\) or \(48, p\), .* got \(47,\)"),
        (Y[None], ValueError, r"`y` must have shape \(48,\)"),
        (Y[:, None, None], ValueError, r"`y` must have shape \(48,\)"),
        (np.zeros((48, 0)), ValueError, r"`y` must have shape \(48,\)"),
        (3.0, ValueError, r"`y` must have shape \(48,\)"),
        (None, TypeError, "`y` must be given, unless `nodes` is a dictionary"),
        (Y + 1j, TypeError, "`y` must be real numbers"),
        (
            Y.astype(object),
            TypeError,
            r"`y` must be real numbers, got .*asarray\(y, float\) makes numbers",
        ),
        (Y.astype(str), TypeError, "`y` must be real numbers"),
        ([[1.0], [1.0, 2.0]] * 24, ValueError, r"`y` must have shape \(48,\)"),
    ],
)
def test_bad_y_is_refused(grid, y, error, message):
    with pytest.raises(error, match=message):
        grf.GraphGPRegressor(grid).fit(NODES, y)


# -- nodes ---------------------------------------------------------------------------------------


def test_float_nodes_are_positions_where_they_are_integral(grid):
    gp = grf.GraphGPRegressor(grid, kernel=grf.Diffusion(2.0), optimize=False, noise=0.1, seed=0)
    expected = gp.fit(NODES, Y).predict()
    found = gp.fit(NODES.astype(np.float32)[:, None], Y).predict(np.arange(144.0))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("nodes", "error", "message"),
    [
        ([0, 144], ValueError, r"`nodes` must be positions in \[0, 143\], got 144"),
        ([0, -1], ValueError, r"`nodes` must be positions in \[0, 143\], got -1"),
        (
            [0, 0.5],
            TypeError,
            "`nodes` must be integer positions or names of nodes, got the float 0.5",
        ),
        (
            [0, np.nan],
            TypeError,
            "`nodes` must be integer positions or names of nodes, got the float nan",
        ),
        ([0, 2.0**24], TypeError, "integral floats are accepted below"),
        (["a", "b"], ValueError, "`nodes`"),
        (
            np.array(["n1", np.nan], dtype=object),
            TypeError,
            "got float nan at position 1; this graph has no names",
        ),
        ([True, False], TypeError, "`nodes` must be integer positions"),
        ([None, 1], TypeError, "`nodes` must be integer positions"),
        ([(0, 0), (0, 1)], ValueError, r"`nodes` must have shape \(n,\) or \(n, 1\)"),
        ([], ValueError, "`nodes` must hold at least one node"),
    ],
)
def test_unknown_nodes_are_refused(grid, nodes, error, message):
    with pytest.raises(error, match=message):
        grf.GraphGPRegressor(grid).fit(nodes, [0.0, 1.0])


@pytest.mark.parametrize("method", METHODS)
def test_one_and_two_observations_have_sound_answers(grid, method):
    with pytest.warns(UserWarning, match="does not vary"):
        np.testing.assert_allclose(_fit(grid, [7], [2.0], method=method).predict(), 2.0)
    fixed = {"kernel": grf.Diffusion(2.0), "optimize": False, "output_scale": 1.0, "noise": 0.01}
    mean, std = _fit(grid, [7], [2.0], method=method, mean="zero", **fixed).predict(return_std=True)
    assert mean[7] > 1.9 > mean[100]
    assert std[7] < 0.2 < std[100]
    two = _fit(grid, [7, 100], [2.0, -2.0], method=method)
    assert np.abs(two.predict()).max() < 2.1
    two = _fit(grid, [7, 100], [2.0, -2.0], method=method, **fixed)
    assert two.predict([7])[0] > 1.5 > -1.5 > two.predict([100])[0]


@pytest.mark.parametrize("method", METHODS)
def test_contradictory_repeats_are_averaged_whatever_the_noise(grid, method):
    settings = {
        "kernel": grf.Diffusion(2.0),
        "optimize": False,
        "output_scale": 1.0,
        "method": method,
    }
    for noise in (1e-12, 1e-3):
        gp = _fit(grid, [3, 3, 4, 90], [1.0, -5.0, 2.0, 1.0], noise=noise, **settings)
        np.testing.assert_allclose(gp.predict([3]), -2.0, atol=0.05)
    trained = _fit(grid, [3, 3, 4, 90], [1.0, -5.0, 2.0, 1.0], kernel="diffusion", method=method)
    assert trained.noise_ > 1


# -- graphs --------------------------------------------------------------------------------------


@pytest.mark.parametrize("laplacian", ["normalized", "combinatorial"])
@pytest.mark.parametrize(("method", "loop"), [("series", 0.0), ("features", 2.0)])
def test_a_graph_of_one_node(method, laplacian, loop):
    graph = grf.Graph(np.array([[loop]]))
    kernel = grf.Diffusion(1.0, laplacian=laplacian)
    gp = _fit(graph, [0, 0, 0], [1.0, 2.0, 3.0], kernel=kernel, method=method)
    np.testing.assert_allclose(gp.predict(), 2.0)
    gp = _fit(
        graph, [0], [3.0], kernel=kernel, method=method, mean="zero", output_scale=2.0, noise=1.0
    )
    mean, std = gp.predict(return_std=True)
    np.testing.assert_allclose([mean[0], std[0] ** 2], [2.0, 2 / 3], rtol=ACCURACY[method])


@pytest.mark.parametrize("laplacian", ["normalized", "combinatorial"])
@pytest.mark.parametrize("method", METHODS)
def test_a_graph_of_isolated_nodes_is_white_noise(method, laplacian):
    graph = grf.Graph(np.zeros((5, 5)))
    gp = _fit(
        graph,
        [0, 2, 2],
        [3.0, 1.0, 2.0],
        kernel=grf.Diffusion(2.0, laplacian=laplacian),
        method=method,
        mean="zero",
        output_scale=2.0,
        noise=1.0,
    )
    mean, std = gp.predict(return_std=True)
    np.testing.assert_allclose(mean, [2.0, 0.0, 1.2, 0.0, 0.0], rtol=ACCURACY[method])
    np.testing.assert_allclose(std**2, [2 / 3, 2.0, 0.4, 2.0, 2.0], rtol=ACCURACY[method])
    _fit(
        graph,
        np.arange(5),
        np.arange(5.0),
        kernel=grf.Diffusion(2.0, laplacian=laplacian),
        method=method,
    )


@pytest.mark.parametrize("method", METHODS)
def test_components_do_not_learn_from_each_other(weighted_graph, method):
    settings = {
        "kernel": grf.Diffusion(1.0),
        "optimize": False,
        "noise": 0.1,
        "output_scale": 1.0,
        "mean": "zero",
    }
    settings |= {"method": method}
    whole = _fit(weighted_graph, [0, 3, 4, 6], [1.0, 2.0, -1.0, 3.0], **settings)
    first = _fit(weighted_graph, [0, 3], [1.0, 2.0], **settings)
    second = _fit(weighted_graph, [4, 6], [-1.0, 3.0], **settings)
    np.testing.assert_allclose(whole.predict(np.arange(4)), first.predict(np.arange(4)), atol=1e-10)
    np.testing.assert_allclose(whole.predict([4, 5, 6]), second.predict([4, 5, 6]), atol=1e-10)
    np.testing.assert_allclose(whole.predict([7]), 0.0, atol=1e-12)  # nothing observed: the prior
    # A shared constant is what carries over.
    both = _fit(weighted_graph, [0, 3], [5.0, 6.0], kernel="diffusion", method=method)
    assert (both.predict([4, 5, 6, 7]) > 4).all()


# -- extreme settings ----------------------------------------------------------------------------


@pytest.mark.parametrize("laplacian", ["normalized", "combinatorial"])
@pytest.mark.parametrize(
    ("kernel", "method"), [(grf.Diffusion, "features"), (grf.Matern, "series")]
)
def test_tiny_lengthscales_are_white_noise_and_huge_ones_are_told(grid, kernel, laplacian, method):
    tiny = kernel(lengthscale=1e-6, laplacian=laplacian)
    gp = _fit(grid, NODES, Y, kernel=tiny, optimize=False, noise=0.01, method=method)
    rest = np.setdiff1d(np.arange(144), NODES)
    np.testing.assert_allclose(gp.predict(rest), gp.mean_, atol=1e-6)
    huge = kernel(lengthscale=1e6, laplacian=laplacian)
    gp = grf.GraphGPRegressor(grid, kernel=huge, optimize=False, noise=0.01, method=method, seed=0)
    with pytest.raises(
        (UserWarning, ValueError), match=r"cut the series|shorten (the|its) lengthscale"
    ):
        gp.fit(NODES, Y)


@pytest.mark.parametrize("solver", ["cholesky", "cg"])
def test_extreme_variances_have_sound_answers(grid, solver):
    settings = {
        "numerics": grf.gp.Numerics(solver=solver),
        "kernel": grf.Matern(1.5, 2.0),
        "optimize": False,
    }
    for unit in (1e-100, 1e-20, 1e20, 1e100):
        gp = _fit(grid, NODES, unit**0.5 * Y, output_scale=unit, noise=0.1 * unit, **settings)
        assert (gp.output_scale_, gp.noise_) == (unit, 0.1 * unit)
    for noise in (1e-9, 1e6):
        gp = _fit(grid, NODES, Y, noise=noise, **settings)
        assert gp.noise_ == noise


@pytest.mark.parametrize("name", ["noise", "output_scale"])
@pytest.mark.parametrize("value", [0, -1.0, np.nan, np.inf, 1e-300, 1e300])
def test_variances_that_are_none_are_refused(grid, name, value):
    with pytest.raises(ValueError, match=f"`{name}` must be"):
        grf.GraphGPRegressor(grid, **{name: value}).fit(NODES, Y)


def test_a_fit_that_fails_leaves_nothing_of_the_one_before(grid):
    for settings, y in (
        ({}, np.full(48, np.nan)),
        ({"noise": -1.0}, Y),
        ({"kernel": grf.Diffusion(1e6), "optimize": False, "noise": 0.01}, Y),
    ):
        gp = grf.GraphGPRegressor(grid, kernel=grf.Diffusion(2.0), optimize=False, noise=0.1).fit(
            NODES, Y
        )
        kept = gp.get_params(deep=False)
        with pytest.raises((ValueError, UserWarning), match=r"must be|shorten"):
            gp.set_params(**settings).fit(NODES, y)
        assert not [name for name in vars(gp) if name.endswith("_")]
        assert set(vars(gp)) == set(kept)


def test_questions_that_would_be_ignored_are_refused(grid):
    gp = grf.GraphGPRegressor(
        grid, kernel=grf.Diffusion(2.0), optimize=False, output_scale=1.0, noise=0.1, seed=0
    )
    gp.fit([0, 1], [1.0, 0.0])
    for asked in ({"return_std": True}, {"return_cov": True}):
        with pytest.raises(ValueError, match="`quantiles` are returned alone"):
            gp.predict(quantiles=[0.5], **asked)
    with pytest.raises(ValueError, match="`exposure` is for counts"):
        gp.log_density([0], [1.0], exposure=2.0)
    with pytest.raises(TypeError, match="`latent`"):
        gp.predict(latent="yes")


DOMAINS = {
    "edges": (
        lambda: grf.gp.MetricGraph(range(8), range(1, 9), np.ones(8)),
        np.column_stack(np.divmod(np.linspace(0, 7.9, 48), 1)),
    ),
    "mesh": (
        lambda: grf.gp.TriangleMesh.sphere(2),
        np.column_stack([np.linspace(-170, 170, 48), np.full(48, 10.0)]),
    ),
}


@pytest.mark.parametrize("kind", DOMAINS)
@pytest.mark.parametrize("unit", [1e-120, 1e120])
def test_units_of_y_over_space_change_only_the_units(kind, unit):
    make, places = DOMAINS[kind]
    domain = make()
    one, other = (grf.gp.FieldGPRegressor(domain).fit(places, scale * Y) for scale in (1.0, unit))
    for ours, theirs in zip(
        one.predict(return_std=True), other.predict(return_std=True), strict=True
    ):
        np.testing.assert_allclose(theirs / unit, ours, atol=1e-4)
    assert other.range_ == pytest.approx(one.range_, rel=2e-3)  # where searches end


@pytest.mark.parametrize("kind", DOMAINS)
@pytest.mark.parametrize(
    ("y", "error", "message"),
    [
        (np.where(np.arange(48) == 3, np.nan, Y), ValueError, "`y` .*NaN|finite"),
        (Y[:-1], ValueError, "`y` must"),
        (Y.astype(str), TypeError, "`y` must be real numbers"),
        (1e200 * Y, ValueError, "whose squares leave float64"),
    ],
)
def test_bad_y_over_space_is_refused(kind, y, error, message):
    make, places = DOMAINS[kind]
    with pytest.raises(error, match=message):
        grf.gp.FieldGPRegressor(make()).fit(places, y)
