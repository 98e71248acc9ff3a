"""A mean that is linear in covariates of the nodes, against dense generalised least squares."""

from __future__ import annotations

import numpy as np
import pytest

import graphrf as grf

COORDINATES = np.stack(np.divmod(np.arange(144), 12), axis=1).astype(float)
FIXED = {
    "numerics": grf.gp.Numerics(std_method="exact"),
    "kernel": grf.Diffusion(2.0),
    "optimize": False,
    "output_scale": 1.5,
    "noise": 0.2,
    "seed": 0,
}


def _observed(n_outputs=1, seed=0):
    rng = np.random.default_rng(seed)
    nodes = rng.choice(144, 60)  # repeats are repeated observations
    y = 3.0 + COORDINATES[nodes] @ np.array([[0.5, -1.0], [2.0, 0.0]])[:, :n_outputs]
    y += 2 * np.sin(COORDINATES[nodes].sum(axis=1, keepdims=True) / 2)  # what the graph explains
    return nodes, y + rng.standard_normal((60, n_outputs))


def _dense(graph, nodes, y, covariates):
    """Coefficients, posterior mean, covariance and log likelihood by textbook formulas."""
    kernel = grf.Diffusion(2.0).dense(graph)
    kernel *= 1.5 / np.diagonal(kernel).mean()
    a = kernel[np.ix_(nodes, nodes)] + 0.2 * np.eye(nodes.size)
    h = np.column_stack([np.ones(144), covariates])
    own = h[nodes]
    coefficients = np.linalg.solve(own.T @ np.linalg.solve(a, own), own.T @ np.linalg.solve(a, y))
    residual = y - own @ coefficients
    mean = h @ coefficients + kernel[:, nodes] @ np.linalg.solve(a, residual)
    covariance = kernel - kernel[:, nodes] @ np.linalg.solve(a, kernel[nodes])
    left = h - kernel[:, nodes] @ np.linalg.solve(a, own)  # Rasmussen and Williams 2006, Eq. 2.42
    covariance += left @ np.linalg.solve(own.T @ np.linalg.solve(a, own), left.T)
    value = -0.5 * (residual * np.linalg.solve(a, residual)).sum()
    value -= 0.5 * y.shape[1] * (np.linalg.slogdet(a)[1] + nodes.size * np.log(2 * np.pi))
    return coefficients, mean, covariance, value


@pytest.mark.parametrize("solver", ["cholesky", "cg"])
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_the_posterior_and_likelihood_are_those_of_dense_least_squares(grid, n_outputs, solver):
    nodes, y = _observed(n_outputs)
    gp = grf.GraphGPRegressor(
        grid,
        mean=COORDINATES,
        **FIXED | {"numerics": grf.gp.Numerics(std_method="exact", solver=solver, tol=1e-12)},
    ).fit(nodes, y)
    coefficients, mean, covariance, value = _dense(grid, nodes, y, COORDINATES)
    np.testing.assert_allclose(gp.mean_, coefficients[0], rtol=1e-8)
    np.testing.assert_allclose(gp.coefficients_["mean"].to_numpy()[1:], coefficients[1:], rtol=1e-8)
    # conjugate gradients have no determinant
    np.testing.assert_allclose(
        gp.log_marginal_likelihood_, value if solver == "cholesky" else np.nan, rtol=1e-8
    )
    found, std = gp.predict(return_std=True)
    np.testing.assert_allclose(found, mean, atol=1e-8)
    np.testing.assert_allclose(std[:, 0] ** 2, np.diagonal(covariance), atol=1e-8)
    some = [3, 140, 3]
    found, joint = gp.predict(some, return_cov=True)
    np.testing.assert_allclose(found, mean[some], atol=1e-8)
    np.testing.assert_allclose(joint, covariance[np.ix_(some, some)], atol=1e-8)


def test_units_and_origin_of_covariates_change_only_the_coefficients(grid):
    nodes, y = _observed()
    one = grf.GraphGPRegressor(grid, mean=COORDINATES, seed=0).fit(nodes, y[:, 0])
    far = grf.GraphGPRegressor(grid, mean=5e6 + 1e3 * COORDINATES, seed=0).fit(nodes, y[:, 0])
    np.testing.assert_allclose(far.predict(), one.predict(), atol=1e-6)
    np.testing.assert_allclose(
        far.coefficients_["mean"].to_numpy()[1:],
        one.coefficients_["mean"].to_numpy()[1:] / 1e3,
        rtol=1e-6,
    )
    np.testing.assert_allclose(
        far.mean_, one.mean_ - 5e3 * one.coefficients_["mean"].to_numpy()[1:].sum(), rtol=1e-6
    )


def test_an_exact_trend_is_continued_exactly(grid):
    nodes = np.arange(0, 100, 3)
    truth = 1e6 + 0.1 * COORDINATES[:, 0] - 7 * COORDINATES[:, 1]
    gp = grf.GraphGPRegressor(grid, mean=COORDINATES, seed=0)
    with pytest.warns(UserWarning, match="does not vary about its mean"):
        gp.fit(nodes, truth[nodes])
    np.testing.assert_allclose(gp.predict(), truth, rtol=1e-12)


@pytest.mark.parametrize(
    ("mean", "error", "message"),
    [
        (
            "linear",
            ValueError,
            "`mean` must be one of 'constant', 'zero', or an array of covariates",
        ),
        (None, TypeError, "`mean` must be 'constant', 'zero', or an array of covariates"),
        (["a"] * 144, TypeError, "`mean` must be 'constant', 'zero', or an array"),
        ([[1, 2], [3]], TypeError, "`mean` must be 'constant', 'zero', or an array"),
        (np.ones(143), ValueError, r"`mean` must hold covariates of shape \(144,\) or \(144, b\)"),
        (np.ones((144, 0)), ValueError, r"covariates of shape \(144,\) or \(144, b\)"),
        (np.ones((144, 1, 1)), ValueError, r"covariates of shape \(144,\) or \(144, b\)"),
        (
            np.where(np.arange(144) == 7, np.nan, 1.0),
            ValueError,
            "`mean` must be finite, got nan at position 7",
        ),
        (np.full(144, 1e5), ValueError, "vary over the observations, and column 0 does not"),
        (
            np.column_stack([COORDINATES, COORDINATES.sum(axis=1)]),
            ValueError,
            "not collinear over the observations.* where 'x0', 'x1', 'x2' are combinations",
        ),
    ],
)
def test_bad_means_are_refused(grid, mean, error, message):
    with pytest.raises(error, match=message):
        grf.GraphGPRegressor(grid, mean=mean).fit(*_observed())


def test_more_covariates_than_observed_nodes_can_tell_apart_are_refused(grid):
    with pytest.raises(ValueError, match="rank 2 at 2 places or nodes"):
        grf.GraphGPRegressor(grid, mean=COORDINATES).fit([0, 0, 20], [1.0, 2.0, 3.0])
