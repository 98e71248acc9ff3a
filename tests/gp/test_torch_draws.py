"""Posterior draws on a device: their exact law, their rule, solves, inputs."""

from __future__ import annotations

import numpy as np
import pytest

import graphrf as grf

torch = pytest.importorskip("torch", reason="device_draws needs the extra `gp`")
gpytorch = pytest.importorskip("gpytorch", reason="device_draws needs the extra `gp`")

from graphrf.gp import GRFKernel, SolverWarning  # noqa: E402
from graphrf.gp.torch_draws import device_draws  # noqa: E402

LENGTH = 9
KERNEL = grf.Diffusion(1.5)
# Seen nodes, one of them twice, values, and the noise of each.
X = torch.tensor([0, 5, 5, 33, 16])
Y = torch.tensor([1.0, -0.4, -0.9, 2.0, 0.3], dtype=torch.float64)
NOISE = torch.tensor([0.1, 0.2, 0.3, 0.1, 0.5], dtype=torch.float64)
DRAWS = 4_000


@pytest.fixture(autouse=True)
def _float64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def features_of(graph):
    features = grf.sample_features(graph, grf.RandomWalks(16, grf.Truncated(LENGTH)), seed=3, dtype="float64")
    return features._with_tensors(torch.device("cpu"))


def kernel_over(source, graph, outputscale=1.0):
    scaled = gpytorch.kernels.ScaleKernel(GRFKernel(graph if source == "graph" else features_of(graph), KERNEL))
    scaled.outputscale = outputscale
    return scaled


def moments(prior):
    """The exact posterior mean and covariance at all nodes."""
    x = X.numpy()
    solved = np.linalg.solve(prior[np.ix_(x, x)] + np.diag(NOISE.numpy()), np.c_[Y.numpy(), prior[x]])
    return prior[:, x] @ solved[:, 0], prior - prior[:, x] @ solved[:, 1:]


def deviations(draws, mean, covariance):
    """The largest distances of the draws' means and covariances from the exact ones, in standard errors."""
    n = len(draws)
    variance = np.diagonal(covariance)
    of_mean = np.abs(draws.mean(0) - mean) / np.sqrt(variance / n)
    centred = draws - mean
    error = np.sqrt((np.outer(variance, variance) + covariance**2) / n)
    return of_mean.max(), (np.abs(centred.T @ centred / n - covariance) / error).max()


@pytest.mark.parametrize("cholesky", [True, False])
@pytest.mark.parametrize("source", ["graph", "features"])
def test_draws_have_the_mean_and_covariance_of_the_posterior(source, cholesky, karate):
    kernel = kernel_over(source, karate, 1.7)
    every = torch.arange(34)
    mean, covariance = moments(kernel(every).to_dense().detach().numpy())
    with gpytorch.settings.max_cholesky_size(800 if cholesky else 0):
        draws = device_draws(kernel, X, Y, NOISE, n_samples=DRAWS, seed=0)
    assert draws.residual <= 1e-4
    values = draws.at(every).numpy()
    assert values.shape == (DRAWS, 34)
    assert max(deviations(values, mean, covariance)) < 6
    # negative controls: the prior's covariance, and a mean that is a tenth too large
    assert deviations(values, mean, kernel(every).to_dense().detach().numpy())[1] > 10
    assert deviations(values, 1.1 * mean, covariance)[0] > 6


def test_draws_have_the_law_of_the_regressors_posterior(karate):
    regressor = grf.GraphGPRegressor(
        karate, kernel=KERNEL, optimize=False, mean="zero", method="series", output_scale=1.7, noise=0.2, seed=0
    )
    mean, covariance = regressor.fit(X.numpy(), Y.numpy()).predict(return_cov=True)
    draws = device_draws(kernel_over("graph", karate, 1.7), X, Y, 0.2, n_samples=DRAWS, seed=0)
    assert max(deviations(draws.at(torch.arange(34)).numpy(), mean, covariance)) < 6


@pytest.mark.parametrize("cholesky", [True, False])
def test_coefficients_follow_matherons_rule(cholesky, karate):
    kernel = kernel_over("features", karate, 1.7)
    base = kernel.base_kernel
    with gpytorch.settings.max_cholesky_size(800 if cholesky else 0):
        draws = device_draws(kernel, X, Y, NOISE, n_samples=3, tol=1e-10, seed=7)
    normal = torch.Generator().manual_seed(7)
    g, e = torch.randn(34, 3, generator=normal), torch.randn(5, 3, generator=normal)
    f = base.root_modulation().detach() * 1.7**0.5
    root = base.root_rows(X).apply(f, torch.eye(34))
    solved = torch.linalg.solve(
        root @ root.T + torch.diag(NOISE), Y[:, None] - root @ g - NOISE.sqrt()[:, None] * e
    )
    torch.testing.assert_close(draws.coefficients, g + root.T @ solved, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(draws.at(X[:, None]), (root @ draws.coefficients).T)


def test_a_draw_is_one_function_of_its_seed_whatever_comes_later(karate):
    kernel = kernel_over("features", karate)
    draws = device_draws(kernel, X, Y, 0.1, n_samples=2, seed=3)
    every = draws.at(torch.arange(34))
    assert torch.equal(device_draws(kernel, X, Y, 0.1, n_samples=2, seed=3).at(torch.arange(34)), every)
    assert not torch.equal(device_draws(kernel, X, Y, 0.1, n_samples=2, seed=4).at(torch.arange(34)), every)
    assert device_draws(kernel, X, Y, 0.1, n_samples=2).seed != draws.seed
    torch.testing.assert_close(draws.at(torch.tensor([7, 2])), every[:, [7, 2]])
    kernel.base_kernel.lengthscale = 0.3  # training goes on
    torch.testing.assert_close(draws.at(torch.arange(34)), every)


def test_solves_that_end_early_say_so(grid):
    x = torch.arange(0, 144, 2)
    with (
        gpytorch.settings.max_cholesky_size(0),
        pytest.warns(SolverWarning, match="stopped at a relative residual of"),
    ):
        draws = device_draws(kernel_over("graph", grid), x, torch.ones(72), 1e-6, n_samples=2, max_iterations=1)
    assert draws.residual > 1e-4


def test_float32_kernels_draw_in_float32(karate):
    kernel = kernel_over("features", karate).float()
    draws = device_draws(kernel, X, Y.float(), NOISE.float(), n_samples=2, seed=0)
    assert draws.coefficients.dtype == torch.float32


def test_inputs_are_checked(karate):
    kernel = kernel_over("graph", karate)
    good = {"kernel": kernel, "x": X, "residual": Y, "noise": 0.1, "n_samples": 2}
    for change, error, message in (
        ({"kernel": kernel + kernel}, TypeError, "GRFKernel or a ScaleKernel of one, got AdditiveKernel"),
        ({"x": X[None, :, None]}, ValueError, r"`x` must have shape \(n,\) or \(n, 1\), got \(1, 5, 1\)"),
        ({"residual": Y.numpy()}, TypeError, "`residual` must be a tensor"),
        ({"residual": Y[:3]}, ValueError, r"`residual` must be a tensor of shape \(5,\)"),
        ({"residual": Y.float()}, ValueError, "as the kernel is, got a Tensor of shape"),
        ({"residual": Y * float("nan")}, ValueError, "`residual` must be finite"),
        ({"noise": 0.0}, ValueError, "`noise` must be greater than 0"),
        ({"noise": NOISE - 0.1}, ValueError, "`noise` must be finite and greater than 0"),
        ({"noise": NOISE[:2]}, ValueError, "`noise` must be one variance or 5"),
        ({"n_samples": 0}, ValueError, "`n_samples` must be at least 1"),
        ({"tol": 1.0}, ValueError, "`tol` must be in"),
        ({"max_iterations": 0}, ValueError, "`max_iterations` must be at least 1"),
    ):
        with pytest.raises(error, match=message):
            device_draws(**{**good, **change})
