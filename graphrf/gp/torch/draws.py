"""Posterior draws of a kernel on a device as whole functions: Matheron's rule, in torch."""

from __future__ import annotations

import os
import threading
import warnings
from dataclasses import dataclass

import torch
from torch import Tensor

from graphrf._base import checks
from graphrf._base.warn import warn
from graphrf.gp.posterior.by_rows import SolverWarning
from graphrf.gp.torch.kernel import GRFKernel
from graphrf.gp.torch.operator import FactorOperator

# isort: split
# After operator.py, which imports linear_operator without a warning of torch's.
import gpytorch
from linear_operator import settings
from linear_operator.operators import DiagLinearOperator
from linear_operator.utils.warnings import NumericalWarning

# Settings of linear_operator and filters of warnings are the process's: threads take turns.
_one_solve = threading.Lock()


def _forked() -> None:
    """A new lock in a forked child, where the thread that held the old one is gone."""
    global _one_solve
    _one_solve = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


@dataclass(frozen=True, repr=False)
class PathwiseDraws:
    """Draws of f - m given observations, as functions: coefficients in the features.

    Made by `pathwise_draws`.

    Attributes
    ----------
    coefficients : Tensor, shape (N, s)
        g' of s draws: f - m is F g' at any nodes, now or later.
    residual : float
        The largest relative residual |b - A x| / |b| of the draws' solves.
    seed : int
        What they were drawn with.
    """

    coefficients: Tensor
    residual: float
    seed: int
    _kernel: GRFKernel
    _modulation: Tensor

    def __repr__(self) -> str:
        size, draws = self.coefficients.shape
        place = f"{self.coefficients.dtype} on {self.coefficients.device}"
        end = f"residual={self.residual:.2g}, seed={self.seed}"
        return f"PathwiseDraws({draws} draws, {size} coefficients, {place}, {end})"

    def at(self, x: Tensor) -> Tensor:
        """f - m at nodes (q,) or (q, 1), shape (s, q): one product with their rows of features."""
        return self._kernel.root_rows(x).apply(self._modulation, self.coefficients).T


def pathwise_draws(
    kernel: gpytorch.kernels.Kernel,
    x: Tensor,
    residual: Tensor,
    noise: Tensor | float,
    *,
    n_samples: int,
    tol: float = 1e-4,
    max_iterations: int = 1_000,
    seed: int | None = None,
) -> PathwiseDraws:
    r"""Draws of functions f ~ GP(m, K) given y = f(x) + eps, eps ~ N(0, noise), on a device.

    .. math:: g' = g + F_x^\top A^{-1} (y - m - \varepsilon - F_x g), \quad
              A = F_x F_x^\top + \mathrm{diag}(noise),

    with K = F F^T and fresh g ~ N(0, I) and eps for every draw: F g' is a draw of f - m on the
    whole graph. All draws are right-hand sides of one block solve, by linear_operator: Cholesky up
    to its `max_cholesky_size`, preconditioned conjugate gradients above. Everything stays on the
    kernel's device, and nothing of the size m x m or q x q is formed.

    Examples
    --------
    >>> import torch, graphrf as grf
    >>> graph = grf.from_edges([0, 1, 2, 3], [1, 2, 3, 4])
    >>> kernel = grf.gp.GRFKernel(graph, grf.Diffusion(lengthscale=1.0))
    >>> y = torch.tensor([1.0, -1.0])
    >>> draws = grf.gp.pathwise_draws(kernel, torch.tensor([0, 4]), y, 1e-4, n_samples=100, seed=0)
    >>> values = draws.at(torch.arange(5))
    >>> values.shape
    torch.Size([100, 5])
    >>> bool((values[:, [0, 4]] - y).abs().max() < 0.1)  # all pass close to the observations
    True

    Parameters
    ----------
    kernel : GRFKernel, or a ScaleKernel of one
        Kernel of a trained model; its hyperparameters are fixed, without gradients.
    x : Tensor, shape (m,) or (m, 1)
        Observed nodes; repeats are repeated observations.
    residual : Tensor, shape (m,)
        y - m, of the kernel's dtype and device.
    noise : float or Tensor of shape (), (1,) or (m,)
        Variances, > 0.
    n_samples : int
        s.
    tol : float
        Largest |b - A x| / |b| of a draw's solve.
    max_iterations : int
        Maximum number of conjugate-gradient iterations, in each of at most five rounds.
    seed : int, optional
        The same seed gives the same draws on one kind of device.

    Raises
    ------
    TypeError, ValueError
        If the kernel is another one, or shapes, devices or values do not fit.

    Warns
    -----
    SolverWarning
        When a draw has not reached the tolerance.

    Notes
    -----
    Variances estimated from s draws have the relative error sqrt(2 / s). Cost: one product with F_x
    and one with F_x^T on s columns for every iteration and round; memory: 2 N s numbers and about
    ten times m s. Threads solve in turn.

    Source: Wilson et al. 2020, "Efficiently Sampling Functions from Gaussian Process Posteriors".
    """
    base, scale = _scaled(kernel)
    n_samples = checks.integer("n_samples", n_samples, low=1)
    tol = checks.number("tol", tol, low=0, high=1, include_low=False, include_high=False)
    max_iterations = checks.integer("max_iterations", max_iterations, low=1)
    seed = checks.seed(seed)
    with torch.no_grad():
        rows, f = base.root_rows(x), base.root_modulation()
        f = f * scale.to(f).sqrt()
        size, n_nodes = rows.shape
        _check_like("residual", residual, f, size)
        variances = _variances(noise, f, size)

        normal = torch.Generator(device=f.device).manual_seed(seed)
        coefficients = f.new_empty(n_nodes, n_samples).normal_(generator=normal)
        errors = (
            f.new_empty(size, n_samples).normal_(generator=normal).mul_(variances.sqrt()[:, None])
        )
        observed = residual[:, None] - rows.apply(f, coefficients) - errors
        matrix = FactorOperator(f, rows=rows, cols=rows) + DiagLinearOperator(variances)
        solution, worst = _solved(matrix, observed, tol, max_iterations)
        coefficients += rows.apply_t(f, solution)

    if not worst <= tol:  # nor is NaN
        warn(
            f"conjugate gradients for the draws stopped at a relative residual of {worst:.2g}: "
            "raise `max_iterations` or `tol`, or the noise, or use a float64 model",
            SolverWarning,
        )
    return PathwiseDraws(coefficients, worst, seed, base, f)


def _solved(
    matrix: DiagLinearOperator, rhs: Tensor, tol: float, max_iterations: int
) -> tuple[Tensor, float]:
    """A^-1 b, and a column's largest relative residual, from b - A x, by at most five solves.

    linear_operator reaches about 1e-5 only: the residual is solved for again, as long as that
    halves the largest one. A step d of a column is taken if d (r + r') > 0, with r and r' the
    residuals before and after, so that it lowers the error's A-norm.
    """
    # squares of columns of any size must not overflow: first to a sum of 1, then to a norm of 1
    tiny = torch.finfo(rhs.dtype).tiny
    sizes = rhs.abs().sum(0).clamp_(min=tiny)
    unit = rhs / sizes
    norms = unit.norm(dim=0)
    unit /= norms.clamp(min=tiny)
    sizes *= norms

    left, solution = unit, torch.zeros_like(unit)
    norms = left.norm(dim=0)
    worst = float(norms.max())
    for _ in range(5):
        if not worst > tol:
            break
        with (
            _one_solve,
            warnings.catch_warnings(),
            settings.fast_computations(),  # botorch turns them off for all: Cholesky at any size
            settings.cg_tolerance(max(tol / worst, 1e-4)),
            settings.max_cg_iterations(max_iterations),
            # They must not exceed those of conjugate gradients.
            settings.max_lanczos_quadrature_iterations(1),
        ):
            warnings.simplefilter("ignore", NumericalWarning)
            step = matrix.solve(left)

        after = unit - matrix @ (solution + step)
        taken = (norms > tol) & ((step * (left + after)).sum(0) > 0)
        solution = torch.where(taken, solution + step, solution)
        left = torch.where(taken, after, left)
        norms = left.norm(dim=0)
        before, worst = worst, float(norms.max())
        if not worst <= 0.5 * before:
            break
    return solution * sizes, worst


def _scaled(kernel: gpytorch.kernels.Kernel) -> tuple[GRFKernel, Tensor]:
    """The graph's kernel, and the variance that it is multiplied by."""
    if isinstance(kernel, GRFKernel):
        return kernel, torch.ones(())
    if isinstance(kernel, gpytorch.kernels.ScaleKernel) and isinstance(
        kernel.base_kernel, GRFKernel
    ):
        if kernel.outputscale.numel() != 1:
            raise checks.value_error(
                "kernel",
                f"must have one outputscale, got {kernel.outputscale.numel()}: draw from each "
                "kernel of a batch apart",
            )
        return kernel.base_kernel, kernel.outputscale.detach().reshape(())
    raise checks.type_error(
        "kernel",
        f"must be a GRFKernel or a ScaleKernel of one, got {type(kernel).__name__}: sums and "
        "products have no single factor to draw from",
    )


def _check_like(name: str, tensor: Tensor, f: Tensor, size: int) -> None:
    if not isinstance(tensor, Tensor):
        raise checks.type_error(
            name, f"must be a tensor of shape ({size},), got {checks.describe(tensor)}"
        )
    if tensor.shape != (size,) or tensor.dtype != f.dtype or tensor.device != f.device:
        raise ValueError(
            f"`{name}` must be a tensor of shape ({size},), {f.dtype} on {f.device} as the kernel "
            f"is, got {checks.describe(tensor)} on {tensor.device}"
        )
    if not bool(torch.isfinite(tensor).all()):
        raise checks.value_error(name, "must be finite")


def _variances(noise: Tensor | float, f: Tensor, size: int) -> Tensor:
    """The noise of each observation."""
    if not isinstance(noise, Tensor):
        noise = torch.tensor(
            checks.number("noise", noise, low=0, include_low=False), dtype=f.dtype, device=f.device
        )
    if noise.numel() != 1 and noise.shape != (size,):
        raise checks.value_error(
            "noise", f"must be one variance or {size}, got {checks.describe(noise)}"
        )
    variances = noise.detach().to(f).reshape(-1).expand(size)
    if not bool((torch.isfinite(variances) & (variances > 0)).all()):
        raise checks.value_error("noise", "must be finite and greater than 0")
    return variances
