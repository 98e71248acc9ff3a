"""The marginal likelihood of a Gaussian process, its constant mean profiled out, and its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.linalg.lapack import dpotri

from graphrf.gp.observations import Observations


class Likelihood(NamedTuple):
    """The log marginal likelihood and its gradient.

    Attributes
    ----------
    value : float
        Summed over the outputs.
    mean : ndarray, shape (p,)
        The constant mean of each output: its maximum-likelihood value, or 0.
    log_scale, log_noise : float
        Derivatives in the logarithms of the output scale and of the noise variance.
    parameters : ndarray, shape (len(derivatives),)
        Derivatives in what the derivatives of the matrix were taken in.
    """

    value: float
    mean: np.ndarray
    log_scale: float
    log_noise: float
    parameters: np.ndarray


def constant_mean(solved_ones: np.ndarray, values: np.ndarray) -> np.ndarray:
    r"""The generalised least-squares mean 1^T A^-1 y / 1^T A^-1 1 of each column of y; `solved_ones` is A^-1 1."""
    return np.asarray(solved_ones @ values / solved_ones.sum())


def log_marginal_likelihood(
    matrix: np.ndarray,
    observations: Observations,
    *,
    scale: float,
    noise: float,
    with_mean: bool,
    derivatives: Sequence[np.ndarray] = (),
) -> Likelihood:
    r"""log p(y) for y = c + f + noise with f ~ N(0, scale K), summed over outputs, by Cholesky.

    With A = scale K + noise diag(1 / counts) and r = \bar y - c, each output contributes

    .. math:: -\tfrac12 r^\top A^{-1} r - \tfrac12 \log |A| - \tfrac m2 \log 2\pi

    and the terms of repeated observations (`Observations`). The constant c maximises the likelihood, so it does
    not enter the gradient; with M = (sum over outputs of a a^T - A^-1) / 2, a = A^-1 r, the derivative in
    anything that moves A by dA is <M, dA>.

    Parameters
    ----------
    matrix : ndarray, shape (m, m)
        K at the distinct observed nodes.
    observations : Observations
    scale, noise : float
        Output scale and noise variance, > 0.
    with_mean : bool
        Whether there is a constant mean; else it is 0.
    derivatives : sequence of ndarray, shape (m, m) each
        Derivatives of `matrix`.

    Raises
    ------
    numpy.linalg.LinAlgError
        If A is not positive definite to rounding.

    Notes
    -----
    Cost: about m^3 multiply-adds, half of that without a gradient's inverse; source: Rasmussen and Williams
    2006, Eqs. 2.30, 5.8 and 5.9.
    """
    counts, values = observations.counts, observations.means
    size, outputs = values.shape
    extra = observations.n_total - size
    a = scale * matrix
    a[np.diag_indices(size)] += noise / counts
    factor = cholesky(a, lower=True, overwrite_a=True, check_finite=False)
    mean = np.zeros(outputs)
    if with_mean:
        mean = constant_mean(_solve(factor, np.ones(size)), values)
    residual = values - mean
    solved = _solve(factor, residual)
    value = (
        -0.5 * float(np.vdot(residual, solved))
        - outputs * float(np.log(np.diagonal(factor)).sum())
        - 0.5 * outputs * (size * np.log(2 * np.pi) + extra * np.log(2 * np.pi * noise) + np.log(counts).sum())
        - 0.5 * observations.within / noise
    )
    inverse, _ = dpotri(factor, lower=1, overwrite_c=1)
    inverse = np.tril(inverse)
    inverse += np.tril(inverse, -1).T
    weight = 0.5 * (solved @ solved.T - outputs * inverse)
    log_noise = noise * float(np.diagonal(weight) @ (1 / counts)) - 0.5 * outputs * extra
    return Likelihood(
        value=float(value),
        mean=mean,
        log_scale=scale * float(np.vdot(weight, matrix)),
        log_noise=log_noise + 0.5 * observations.within / noise,
        parameters=np.array([scale * float(np.vdot(weight, change)) for change in derivatives]),
    )


def _solve(factor: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    half = solve_triangular(factor, rhs, lower=True, check_finite=False)
    return np.asarray(solve_triangular(factor, half, lower=True, trans="T", check_finite=False))
