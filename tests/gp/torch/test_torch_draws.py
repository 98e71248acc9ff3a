"""Posterior draws on a device: their exact law, their rule, solves, inputs."""

from __future__ import annotations

import numpy as np
import pytest

import graphrf as grf

torch = pytest.importorskip("torch", reason="pathwise_draws needs the extra `gp`")
gpytorch = pytest.importorskip("gpytorch", reason="pathwise_draws needs the extra `gp`")

from linear_operator import settings  # noqa: E402
from linear_operator.operators import AddedDiagLinearOperator, DiagLinearOperator  # noqa: E402

from graphrf.gp import GRFKernel, SolverWarning  # noqa: E402
from graphrf.gp.torch import draws as torch_draws  # noqa: E402
from graphrf.gp.torch.draws import pathwise_draws  # noqa: E402
from graphrf.gp.torch.operator import FactorOperator  # noqa: E402
from tests.support.same_features import with_tensors  # noqa: E402

pytestmark = pytest.mark.usefixtures("torch_float64")

LENGTH = 9
KERNEL = grf.Diffusion(1.5)
# Seen nodes, one of them twice, values, and the noise of each.
X = torch.tensor([0, 5, 5, 33, 16])
Y = torch.tensor([1.0, -0.4, -0.9, 2.0, 0.3], dtype=torch.float64)
NOISE = torch.tensor([0.1, 0.2, 0.3, 0.1, 0.5], dtype=torch.float64)
DRAWS = 4_000


def features_of(graph):
    features = grf.sample_features(
        graph, grf.RandomWalks(16, grf.sampling.Truncated(LENGTH)), seed=3, dtype="float64"
    )
    return with_tensors(features)


def kernel_over(source, graph, outputscale=1.0):
    scaled = gpytorch.kernels.ScaleKernel(
        GRFKernel(graph if source == "graph" else features_of(graph), KERNEL)
    )
    scaled.outputscale = outputscale
    return scaled


def moments(prior):
    """The exact posterior mean and covariance at all nodes."""
    x = X.numpy()
    solved = np.linalg.solve(
        prior[np.ix_(x, x)] + np.diag(NOISE.numpy()), np.c_[Y.numpy(), prior[x]]
    )
    return prior[:, x] @ solved[:, 0], prior - prior[:, x] @ solved[:, 1:]


def deviations(draws, mean, covariance):
    """The largest distances of draws' means and covariances from exact ones, in errors."""
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
        draws = pathwise_draws(kernel, X, Y, NOISE, n_samples=DRAWS, seed=0)
    assert draws.residual <= 1e-4
    values = draws.at(every).numpy()
    assert values.shape == (DRAWS, 34)
    assert max(deviations(values, mean, covariance)) < 6
    # negative controls: the prior's covariance, and a mean that is a tenth too large
    assert deviations(values, mean, kernel(every).to_dense().detach().numpy())[1] > 10
    assert deviations(values, 1.1 * mean, covariance)[0] > 6


@pytest.mark.parametrize("cholesky", [True, False])
def test_coefficients_follow_matherons_rule(cholesky, karate):
    kernel = kernel_over("features", karate, 1.7)
    base = kernel.base_kernel
    with gpytorch.settings.max_cholesky_size(800 if cholesky else 0):
        draws = pathwise_draws(kernel, X, Y, NOISE, n_samples=3, tol=1e-10, seed=7)
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
    draws = pathwise_draws(kernel, X, Y, 0.1, n_samples=2, seed=3)
    every = draws.at(torch.arange(34))
    assert torch.equal(
        pathwise_draws(kernel, X, Y, 0.1, n_samples=2, seed=3).at(torch.arange(34)), every
    )
    assert not torch.equal(
        pathwise_draws(kernel, X, Y, 0.1, n_samples=2, seed=4).at(torch.arange(34)), every
    )
    assert pathwise_draws(kernel, X, Y, 0.1, n_samples=2).seed != draws.seed
    torch.testing.assert_close(draws.at(torch.tensor([7, 2])), every[:, [7, 2]])
    kernel.base_kernel.lengthscale = 0.3  # training goes on
    torch.testing.assert_close(draws.at(torch.arange(34)), every)


def test_solves_that_end_early_say_so(grid):
    x = torch.arange(0, 144, 2)
    with (
        gpytorch.settings.max_cholesky_size(0),
        pytest.warns(SolverWarning, match="stopped at a relative residual of"),
    ):
        draws = pathwise_draws(
            kernel_over("graph", grid), x, torch.ones(72), 1e-6, n_samples=2, max_iterations=1
        )
    assert draws.residual > 1e-4


def noisy_matrix(graph):
    """A badly conditioned A = K + noise."""
    module = GRFKernel(graph, grf.Diffusion(4.0))
    rows = module.root_rows(torch.arange(144))
    matrix = FactorOperator(module.root_modulation().detach(), rows=rows, cols=rows)
    return matrix + DiagLinearOperator(torch.full((144,), 1e-6))


def counted_solves(monkeypatch, solve):
    made = []
    monkeypatch.setattr(
        AddedDiagLinearOperator, "solve", lambda self, b: (made.append(b), solve(self, b))[1]
    )
    return made


def test_solves_that_end_early_are_nearer_to_the_solution_than_nothing(grid, monkeypatch):
    matrix = noisy_matrix(grid)
    b = torch.randn(144, 3, generator=torch.Generator().manual_seed(0))
    dense = matrix.to_dense()
    exact = torch.linalg.solve(dense, b)
    made = counted_solves(monkeypatch, AddedDiagLinearOperator.solve)
    with settings.max_cholesky_size(0), torch.no_grad():
        solution, worst = torch_draws._solved(matrix, b, 1e-4, 4)
    assert worst == pytest.approx(float(((b - dense @ solution).norm(dim=0) / b.norm(dim=0)).max()))
    assert worst > 1  # though residuals have risen, errors have not
    error = solution - exact
    assert ((error * (dense @ error)).sum(0) < (exact * b).sum(0)).all()
    assert len(made) == 1  # another round would have gained little


@pytest.mark.parametrize("wrong", [-1.0, float("nan")])
def test_rounds_that_lead_away_are_not_taken(wrong, grid, monkeypatch):
    plain = AddedDiagLinearOperator.solve
    made = counted_solves(
        monkeypatch, lambda self, b: plain(self, b) * (1.0 if len(made) == 1 else wrong)
    )
    b = torch.randn(144, 2, generator=torch.Generator().manual_seed(0))
    matrix = noisy_matrix(grid)
    with settings.max_cholesky_size(0), torch.no_grad():
        solution, worst = torch_draws._solved(matrix, b, 1e-9, 500)
        assert len(made) == 2
        nothing, left = torch_draws._solved(matrix, b, 0.5, 500)
    assert 1e-9 < worst < 0.5
    assert worst == pytest.approx(
        float(((b - matrix @ solution).norm(dim=0) / b.norm(dim=0)).max()), rel=1e-3
    )
    assert torch.isfinite(solution).all()
    assert not nothing.any()
    assert left == pytest.approx(1.0)


@pytest.mark.parametrize("cholesky", [True, False])
@pytest.mark.parametrize(("dtype", "size"), [(torch.float64, 1e250), (torch.float32, 1e30)])
def test_values_whose_squares_overflow_are_solved_for(dtype, size, cholesky, karate):
    kernel = kernel_over("features", karate).to(dtype)
    with gpytorch.settings.max_cholesky_size(800 if cholesky else 0):
        draws = pathwise_draws(kernel, X, size * Y.to(dtype), 0.1, n_samples=2, seed=0)
    assert draws.residual <= 1e-4
    assert torch.isfinite(draws.coefficients).all()


def test_a_residual_that_is_no_number_is_warned_about(karate, monkeypatch):
    monkeypatch.setattr(
        torch_draws, "_solved", lambda matrix, b, *of: (torch.zeros_like(b), float("nan"))
    )
    with pytest.warns(SolverWarning, match="relative residual of nan"):
        pathwise_draws(kernel_over("features", karate), X, Y, 0.1, n_samples=2, seed=0)
    monkeypatch.undo()
    solution, worst = torch_draws._solved(
        DiagLinearOperator(torch.ones(2)), torch.full((2, 1), np.inf), 1e-4, 9
    )
    assert np.isnan(worst)
    assert solution.shape == (2, 1)


def test_columns_of_zeros_and_no_observations_need_no_solve(karate):
    solution, worst = torch_draws._solved(None, torch.zeros(4, 2), 1e-4, 9)
    assert worst == 0
    assert not solution.any()
    kernel = kernel_over("features", karate)
    draws = pathwise_draws(kernel, X[:0], Y[:0], 0.1, n_samples=2, seed=0)
    assert torch.equal(
        draws.coefficients, torch.randn(34, 2, generator=torch.Generator().manual_seed(0))
    )


def test_large_systems_take_conjugate_gradients_though_they_are_off_for_all(karate, monkeypatch):
    def refused(self, upper=False):
        raise AssertionError("Cholesky")

    monkeypatch.setattr(AddedDiagLinearOperator, "cholesky", refused)
    kernel = kernel_over("features", karate)
    # botorch has these settings.
    with settings.fast_computations(covar_root_decomposition=False, log_prob=False, solves=False):
        with settings.max_cholesky_size(4):
            assert pathwise_draws(kernel, X, Y, NOISE, n_samples=2, seed=0).residual <= 1e-4
        with settings.max_cholesky_size(5), pytest.raises(AssertionError, match="Cholesky"):
            pathwise_draws(kernel, X, Y, NOISE, n_samples=2, seed=0)
        assert settings.fast_computations.solves.off()


def test_a_noise_given_as_a_float_has_the_precision_of_the_kernel(karate):
    kernel = kernel_over("features", karate)
    torch.set_default_dtype(torch.float32)  # as most programs leave it
    draws = [
        pathwise_draws(kernel, X, Y, noise, n_samples=2, seed=0).coefficients
        for noise in (0.1, torch.tensor(0.1, dtype=torch.float64))
    ]
    assert torch.equal(*draws)


def test_inputs_are_checked(karate):
    kernel = kernel_over("graph", karate)
    batch = gpytorch.kernels.ScaleKernel(kernel.base_kernel, batch_shape=torch.Size([2]))
    good = {"kernel": kernel, "x": X, "residual": Y, "noise": 0.1, "n_samples": 2}
    for change, error, message in (
        (
            {"kernel": kernel + kernel},
            TypeError,
            "GRFKernel or a ScaleKernel of one, got AdditiveKernel",
        ),
        ({"kernel": batch}, ValueError, "`kernel` must have one outputscale, got 2"),
        (
            {"x": X[None, :, None]},
            ValueError,
            r"`x` must have shape \(n,\) or \(n, 1\), got \(1, 5, 1\)",
        ),
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
            pathwise_draws(**{**good, **change})
