"""Gaussian processes over rows that live elsewhere give what rows at hand give."""

from __future__ import annotations

import inspect
from functools import partial

import numpy as np
import pytest

import graphrf as grf
from graphrf.gp.covariance.rows import RootRows
from graphrf.operators import factor as factor_module
from tests.gp.remote import Elsewhere, PlainFactor, RemoteFactor, Travels

KERNEL = grf.Diffusion(1.5)
SAMPLER = grf.RandomWalks(16, grf.sampling.Truncated(10))
NODES = np.random.default_rng(0).permutation(144)[:100]
SIGNAL = np.sin(np.arange(144) / 12)
Y = SIGNAL[NODES] + 0.1 * np.random.default_rng(1).standard_normal(100)
TIGHT = {
    "kernel": KERNEL,
    "optimize": False,
    "noise": 0.05,
    "output_scale": 1.0,
    "numerics": grf.gp.Numerics(tol=1e-12),
    "seed": 4,
}


def _features(graph, nodes=NODES, seed=5):
    return grf.sample_features(graph, SAMPLER, nodes=nodes, seed=seed, n_threads=1, dtype="float64")


def _rows(factor):
    return RootRows(factor, KERNEL.modulation(11), 1.7)


# -- the covariance --------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [PlainFactor, RemoteFactor])
@pytest.mark.parametrize("right_is_remote", [False, True])
def test_columns_and_their_diagonal_come_from_narrow_panels(
    grid, monkeypatch, factor, right_is_remote
):
    narrow = partial(factor_module.panels, numbers=3 * 144 + 5)
    monkeypatch.setattr(factor_module, "panels", narrow)
    travels = Travels()
    features, others = _features(grid), _features(grid, np.arange(40), seed=6)
    left, right = features.factor(n_threads=1), others.factor(n_threads=1)
    expected, diagonal = _rows(left).columns(_rows(right))
    remote = factor(features, travels)
    found = _rows(remote).columns(_rows(factor(others, travels) if right_is_remote else right))
    np.testing.assert_allclose(found[0], expected, rtol=0, atol=1e-14)
    np.testing.assert_allclose(found[1], diagonal, rtol=1e-14)
    assert travels.widest("apply", "apply_t") == 3
    assert travels.count("apply") == 14
    assert travels.count("apply_t") == (14 if right_is_remote else 0)


def test_no_number_of_the_graphs_size_travels_in_a_product_with_the_covariance(grid):
    travels = Travels()
    x = np.random.default_rng(2).standard_normal((100, 6))
    local = _rows(_features(grid).factor(n_threads=1))
    remote = _rows(RemoteFactor(_features(grid), travels))
    # Equal to the bit, as two products.
    np.testing.assert_array_equal(local.gram(x), local.apply(local.apply_t(x)))
    np.testing.assert_allclose(remote.gram(x), local.gram(x), rtol=0, atol=1e-13)
    assert travels == [("gram_apply", 6, 2 * x.size)]


# -- the regressor ---------------------------------------------------------------------------------


def _results(gp):
    some = np.arange(0, 144, 5)
    return [
        *gp.predict(return_std=True),
        *gp.predict(some, return_cov=True),
        gp.sample(n_samples=3, seed=1),
        gp.predict([4, 5], return_std="observation")[1],
    ]


def _largest_difference(one, other):
    return max(
        float(np.abs(a - b).max()) for a, b in zip(_results(one), _results(other), strict=True)
    )


@pytest.mark.parametrize("deviations", ["exact", "sampled"])
@pytest.mark.parametrize("factor", [PlainFactor, RemoteFactor])
def test_conjugate_gradients_over_rows_elsewhere_predict_and_draw_as_over_rows_at_hand(
    grid, factor, deviations
):
    settings = {
        **TIGHT,
        "numerics": grf.gp.Numerics(tol=1e-12, sampler=SAMPLER, solver="cg", std_method=deviations),
    }
    local = grf.GraphGPRegressor(grid, **settings).fit(NODES, Y)
    elsewhere = Elsewhere(factor=factor)
    remote = (
        grf.GraphGPRegressor(grid, **settings)
        .set_params(numerics__feature_sampler=elsewhere)
        .fit(NODES, Y)
    )
    assert remote.converged_
    assert remote.kernel_ == local.kernel_  # trained at hand
    assert _largest_difference(remote, local) < 1e-9
    # Only the rows of observed nodes were drawn elsewhere, and once.
    assert len(elsewhere.drawn) == 1
    np.testing.assert_array_equal(elsewhere.drawn[0], np.sort(NODES))
    wrong = grf.GraphGPRegressor(grid, **settings).set_params(
        numerics__feature_sampler=Elsewhere(factor=factor, error=1.01)
    )
    assert _largest_difference(wrong.fit(NODES, Y), local) > 1e-4


def test_a_fit_and_deviations_ask_for_one_product_an_iteration_and_a_few_more(grid):
    elsewhere = Elsewhere()
    gp = grf.GraphGPRegressor(grid, **TIGHT).set_params(
        numerics__sampler=SAMPLER, numerics__feature_sampler=elsewhere, numerics__solver="cg"
    )
    travels = elsewhere.travels
    gp.fit(NODES, Y)
    iterations = gp._posterior.solution.iterations
    # A block of columns for the preconditioner, the
    # iterations, the true residual, the spread of the weights.
    assert travels.count("gram_apply") <= 1 + 2 * iterations + 4
    assert travels.count("apply_t") == 1
    assert {name for name, *_ in travels} == {"diagonal", "gram_apply", "apply_t"}
    travels.clear()
    gp.predict()
    assert travels == []  # means need the spread only
    gp.predict(np.arange(50), return_std=True)
    # A block of queried nodes, and what the observations leave of the constant.
    assert travels.count("apply") == 1
    assert travels.count("apply_t") == 1
    assert {name for name, *_ in travels} == {"gram_apply", "apply", "apply_t"}
    gp.predict(np.arange(50), return_std=True)
    assert travels.count("apply_t") == 1  # which is kept
    assert travels.widest("gram_apply") <= 64


def test_cholesky_draws_at_hand(grid):
    settings = {**TIGHT, "numerics": grf.gp.Numerics(tol=1e-12, sampler=SAMPLER)}
    local = grf.GraphGPRegressor(grid, **settings).fit(NODES, Y)
    elsewhere = Elsewhere(error=2.0)
    remote = (
        grf.GraphGPRegressor(grid, **settings)
        .set_params(numerics__feature_sampler=elsewhere)
        .fit(NODES, Y)
    )
    assert remote.solver_ == local.solver_ == "cholesky"
    assert elsewhere.drawn == []
    for found, expected in zip(_results(remote), _results(local), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_callable_means_features_and_is_refused_for_the_series(grid):
    settings = {"kernel": "diffusion", "optimize": False, "noise": 0.1, "seed": 0}
    gp = grf.GraphGPRegressor(grid, **settings).set_params(numerics__feature_sampler=Elsewhere())
    assert gp.fit(NODES, Y).method_ == "features"
    assert grf.GraphGPRegressor(grid, **settings).fit(NODES, Y).method_ == "series"
    with pytest.raises(ValueError, match="`feature_sampler` is for method='features'"):
        gp.set_params(method="series").fit(NODES, Y)
    with pytest.raises(TypeError, match=r"`feature_sampler` must be a callable .*, got int 3"):
        gp.set_params(method="auto", numerics__feature_sampler=3).fit(NODES, Y)


def test_the_public_function_is_such_a_callable(grid):
    settings = {**TIGHT, "numerics": grf.gp.Numerics(tol=1e-12, sampler=SAMPLER, solver="cg")}
    plain = grf.GraphGPRegressor(grid, **settings).fit(NODES, Y)
    given = (
        grf.GraphGPRegressor(grid, **settings)
        .set_params(numerics__feature_sampler=grf.sample_features)
        .fit(NODES, Y)
    )
    np.testing.assert_array_equal(given.predict(), plain.predict())
    names = set(inspect.signature(grf.sample_features).parameters)
    assert set(inspect.signature(Elsewhere.__call__).parameters) - {"self"} <= names


def test_a_saved_regressor_draws_at_hand_when_it_is_loaded(grid, tmp_path):
    elsewhere = Elsewhere()
    settings = {**TIGHT, "numerics": grf.gp.Numerics(tol=1e-12, sampler=SAMPLER, solver="cg")}
    gp = (
        grf.GraphGPRegressor(grid, **settings)
        .set_params(numerics__feature_sampler=elsewhere)
        .fit(NODES, Y)
    )
    gp.save(tmp_path / "gp.npz")
    loaded = grf.GraphGPRegressor.load(tmp_path / "gp.npz")
    assert loaded.numerics.feature_sampler is None
    assert len(elsewhere.drawn) == 1
    assert _largest_difference(loaded, gp) < 1e-9
