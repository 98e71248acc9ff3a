"""Posteriors at the extremes: small variances, units of y, weights and covariates."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import graphrf as grf
from graphrf.gp.posterior.by_rows import SolverWarning
from graphrf.operators.solvers import nystrom_preconditioner
from tests.numerics.extremes import graphs

GRAPHS = dict(graphs())
SIZE = 12
RING = np.roll(np.eye(SIZE), 1, axis=1) + np.roll(np.eye(SIZE), -1, axis=1)
NODES = np.arange(0, SIZE, 2)
Y = np.cos(NODES) + 0.1 * np.arange(NODES.size)
LONG = np.roll(np.eye(40), 1, axis=1) + np.roll(np.eye(40), -1, axis=1)
SEEN = np.arange(0, 40, 2)
WAVE = np.cos(SEEN * np.pi / 10) + 0.1 * np.sin(37.0 * SEEN)


def fitted(way, graph, nodes, y, sampler=None, **settings):
    method, _, solver = way.partition("-")
    gp = grf.GraphGPRegressor(
        graph,
        method=method,
        seed=0,
        numerics=grf.gp.Numerics(sampler=sampler, solver=solver or "auto", n_threads=1),
        **settings,
    )
    return gp.fit(nodes, y)


@pytest.mark.parametrize("length", [10.0, 100.0])
@pytest.mark.parametrize("noise", [1e-14, 1e-10, 1e-6, 1e-2])
@pytest.mark.parametrize("way", ["series-cholesky", "series-cg", "features-cholesky"])
def test_covariances_have_no_negative_eigenvalue_but_for_their_own_rounding(way, noise, length):
    # Of a prior of norm 12 little more than the noise is
    # left: its rounding alone would be a tenth of that.
    settings = {
        "kernel": grf.Diffusion(length),
        "optimize": False,
        "output_scale": 1.0,
        "noise": noise,
    }
    if way.startswith("features"):
        settings["sampler"] = grf.sampling.ExactPowers(16)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of series that end early
        try:
            gp = fitted(
                way,
                grf.Graph(RING),
                np.r_[NODES, 1, 3, 5, 0],
                np.r_[Y, 0.0, 1.0, 2.0, 0.0],
                **settings,
            )
            covariance = gp.predict(return_cov=True)[1]
            deviations = gp.predict(return_std=True)[1]
        except ValueError as error:
            if noise >= 1e-6 or not (
                "cannot be factored" in str(error) or "numerically singular" in str(error)
            ):
                raise
            return
    eigenvalues = np.linalg.eigvalsh(covariance)
    assert eigenvalues[0] >= -1e-8 * eigenvalues[-1]
    assert (np.diagonal(covariance) >= 0).all()
    assert (deviations >= 0).all()


def test_a_plain_difference_would_have_negative_eigenvalues():
    prior = grf.Diffusion(100.0).dense(grf.Graph(RING))
    prior /= prior[0, 0]
    root = np.linalg.cholesky(prior + 1e-14 * np.eye(SIZE))
    half = np.linalg.solve(root, prior)
    eigenvalues = np.linalg.eigvalsh(prior - half.T @ half)
    assert eigenvalues[0] < -1e-8 * eigenvalues[-1]


@pytest.mark.parametrize("way", ["series", "features"])
@pytest.mark.parametrize("factor", [1e-12, 1e3])
def test_training_finds_combinatorial_kernels_in_all_units_of_the_weights(way, factor):
    # The lengthscale has the unit of 1 / sqrt(weight): a
    # fixed range of it would hold constants or noise only.
    found = []
    for weights in (1.0, factor):
        kernel = grf.Diffusion(float(weights**-0.5), laplacian="combinatorial")
        gp = fitted(way, grf.Graph(weights * LONG), SEEN, WAVE, kernel=kernel)
        found.append(
            (gp.kernel_.lengthscale * weights**0.5, gp.log_marginal_likelihood_, *gp.predict())
        )
    np.testing.assert_allclose(found[1], found[0], rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize(
    "way", ["series-cholesky", "series-cg", "features-cholesky", "features-cg"]
)
@pytest.mark.parametrize("scale", [1e-12, 1e12, 1e120])
@pytest.mark.parametrize("name", ["scaled by 1e-12", "weights from 1e-12 to 1e12"])
def test_draws_scatter_as_the_deviations_say(name, scale, way):
    graph = grf.Graph(GRAPHS[name])
    settings = {
        "kernel": grf.Diffusion(1.0),
        "optimize": False,
        "output_scale": scale,
        "noise": 0.01 * scale,
    }
    if way.startswith("features"):
        settings["sampler"] = grf.sampling.ExactPowers(16)
    gp = fitted(way, graph, [0, 2, 2], np.sqrt(scale) * np.array([1.0, -1.0, 0.5]), **settings)
    mean, deviation = gp.predict(return_std=True)
    draws = gp.sample(n_samples=1000, seed=1)
    assert np.isfinite(draws).all()
    # 6 standard errors of a mean of 1000, and 6 of their mean square
    assert np.abs((draws - mean).mean(axis=0) / deviation).max() < 6 / np.sqrt(1000)
    assert np.abs(np.square((draws - mean) / deviation).mean(axis=0) - 1).max() < 6 * np.sqrt(
        2 / 1000
    )


@pytest.mark.parametrize(
    ("method", "solver", "unit"),
    [
        ("series", "cholesky", 1e139),
        ("series", "cg", 1e-139),
        ("features", "cholesky", 1e-139),
        ("features", "cg", 1e139),
        ("series", "cholesky", 1e12),
    ],
)
def test_training_is_the_same_in_all_units_of_y(method, solver, unit):
    # Norms of the covariance's columns are of the size of the variances, whose squares may leave
    # float64: one that underflowed was taken for solved.
    found = []
    for factor in (1.0, unit):
        gp = fitted(f"{method}-{solver}", grf.Graph(LONG), SEEN, factor * WAVE)
        mean, deviation = gp.predict(return_std=True)
        diagonal = np.diagonal(gp.predict(return_cov=True)[1])
        parts = [[gp.noise_**0.5], mean, deviation, np.sqrt(diagonal), gp.sample(seed=0)[0]]
        found.append(np.append(np.concatenate(parts) / factor, gp.kernel_.lengthscale))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-3, atol=1e-3)


def test_conjugate_gradients_that_do_not_converge_say_what_they_reached():
    graph = grf.Graph(GRAPHS["scaled by 1"])
    numerics = grf.gp.Numerics(solver="cg", max_iterations=1, tol=1e-12)
    settings = {"kernel": grf.Diffusion(2.0), "optimize": False, "output_scale": 1e12, "noise": 1.0}
    for method in ("series", "features"):
        gp = grf.GraphGPRegressor(graph, method=method, numerics=numerics, seed=0, **settings)
        with pytest.warns(
            SolverWarning, match=r"stopped after 1 iterations at a relative residual of \d"
        ):
            gp.fit([0, 1, 2, 3], [1.0, -1.0, 1.0, 0.0])
        assert not gp.converged_
        assert gp.residual_ > 1e-12


def test_the_preconditioner_of_a_covariance_that_is_rounding_is_the_noise():
    columns = np.array([[-1e-30, 0.0], [0.0, -1e-30]])
    precondition = nystrom_preconditioner(columns, np.arange(2), np.array([2.0, 4.0]))
    np.testing.assert_array_equal(precondition(np.ones((2, 1))), [[0.5], [0.25]])


@pytest.mark.parametrize(
    ("covariate", "message"),
    [
        (np.linspace(0, 1e151, SIZE), r"`mean` must hold covariates of at most 1e\+150 in size"),
        (
            np.where(np.arange(SIZE) < 11, 1e-12 * np.arange(SIZE), 1e149),
            "within 1e\\+150 times their spread",
        ),
    ],
)
def test_covariates_whose_squares_leave_float64_are_refused(covariate, message):
    with pytest.raises(ValueError, match=message):
        fitted("series", grf.Graph(RING), NODES, Y, mean=covariate)


def test_huge_covariates_are_scaled():
    covariate = 1e149 * np.sin(np.arange(SIZE))
    settings = {"kernel": grf.Diffusion(1.0), "optimize": False, "output_scale": 1.0, "noise": 0.1}
    gp = fitted(
        "series", grf.Graph(RING), NODES, 1e-149 * covariate[NODES] + Y, mean=covariate, **settings
    )
    small = fitted(
        "series",
        grf.Graph(RING),
        NODES,
        1e-149 * covariate[NODES] + Y,
        mean=1e-149 * covariate,
        **settings,
    )
    np.testing.assert_allclose(gp.predict(), small.predict(), rtol=1e-9)


@pytest.mark.parametrize(
    ("name", "method", "predictive"),
    [
        ("scaled by 1e-12", "series", "mode"),
        ("weights from 1e-12 to 1e12", "series", "integrated"),
        ("self-loops of 1e12 on edges of 1e-12", "features", "integrated"),
    ],
)
def test_classes_have_probabilities_at_all_latent_scales(name, method, predictive):
    graph = grf.Graph(GRAPHS[name])
    for scale in (1e-70, 1.0, 1e70):
        for length in (1e-12, 1.0, 1e2):
            classifier = grf.GraphGPClassifier(
                graph,
                kernel=grf.Diffusion(length),
                method=method,
                sampler=_powers(method),
                output_scale=scale,
                optimize=False,
                predictive=predictive,
                seed=0,
                n_threads=1,
            )
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                try:
                    found = classifier.fit([0, 1, 2, 2, 3], [0, 1, 0, 1, 1]).predict_proba()
                except ValueError as error:
                    if "cannot be factored" not in str(error):
                        raise
                    continue
            assert not any(issubclass(warning.category, RuntimeWarning) for warning in said)
            assert np.isfinite(found).all()
            assert (found >= 0).all()
            np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-12)
            assert classifier.converged_ or any(
                issubclass(warning.category, SolverWarning) for warning in said
            )


def _powers(method):
    return grf.sampling.ExactPowers(12) if method == "features" else None


@pytest.mark.parametrize("scale", [1e-71, 1e71])
def test_latent_scales_whose_fourth_powers_leave_float64_are_refused(scale):
    with pytest.raises(ValueError, match="`output_scale` must be in"):
        grf.GraphGPClassifier(grf.Graph(RING), output_scale=scale).fit([0, 5], [0, 1])
