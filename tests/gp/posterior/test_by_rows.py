"""Deviations by rows where the coefficients of the mean have a proper prior."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphrf as grf
from graphrf.gp.methods.series import SeriesMethod

GRAPH = grf.datasets.load("generated-grid").graph
# Few counts, which hardly inform the constant.
NODES, COUNTS = np.array([31, 450, 455, 868]), [0, 2, 1, 0]
QUERIED = np.array([0, 31, 300, 450, 899])


def fitted(**settings: Any) -> grf.GraphGPRegressor:
    gp = grf.GraphGPRegressor(
        GRAPH,
        kernel=grf.Diffusion(2.0),
        likelihood="poisson",
        output_scale=0.5,
        optimize=False,
        seed=0,
        **settings,
    )
    return gp.fit(NODES, COUNTS)


def joint_error_covariance(gp: grf.GraphGPRegressor, queried: np.ndarray) -> np.ndarray:
    """The covariance of the errors of the predictor by sampled rows, under the exact prior.

    The predictor is the best one for y = H beta + F g + noise, of f = H beta + E g, where beta is
    N(0, I / p) and g is N(0, I).
    """
    posterior: Any = gp._posterior
    n, precision = GRAPH.n_nodes, gp._fitted.mean_precision
    at_observed = posterior._rows.apply(np.eye(n))
    exact = posterior.covariance.exact_rows(np.arange(n)).apply(np.eye(n))
    basis, noise = posterior._basis / precision**0.5, np.diag(posterior._diagonal)

    modelled = np.hstack([basis[NODES], at_observed])
    true = np.hstack([basis, exact])
    weights = np.linalg.solve(modelled @ modelled.T + noise, modelled @ true[queried].T)
    errors = true[queried] - weights.T @ true[NODES]
    return np.asarray(errors @ errors.T + weights.T @ noise @ weights)


def test_deviations_by_sampled_rows_hold_the_prior_of_the_constant() -> None:
    gp = fitted(method="features", numerics=grf.gp.Numerics(sampler=grf.RandomWalks(8)))
    expected = joint_error_covariance(gp, QUERIED)
    _, std = gp.predict(QUERIED, return_std=True, latent=True)
    np.testing.assert_allclose(std**2, np.diagonal(expected), rtol=1e-8)
    _, covariance = gp.predict(QUERIED, return_cov=True, latent=True)
    np.testing.assert_allclose(covariance, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("mean", ["constant", "zero"])
def test_deviations_by_conjugate_gradients_are_those_by_cholesky(mean: str) -> None:
    direct, iterative = (
        fitted(
            mean=mean,
            method="series",
            numerics=grf.gp.Numerics(solver=solver, std_method="exact", tol=1e-10),
        )
        for solver in ("cholesky", "cg")
    )
    # The same artificial observations: those of conjugate gradients are found by draws.
    iterative._condition(direct._fitted, direct._mean_function, SeriesMethod(GRAPH, None))
    for asked in ({"return_std": True}, {"return_cov": True}):
        expected, answer = (
            gp.predict(QUERIED, latent=True, **asked)[1] for gp in (direct, iterative)
        )
        np.testing.assert_allclose(answer, expected, rtol=1e-6, atol=1e-9)
