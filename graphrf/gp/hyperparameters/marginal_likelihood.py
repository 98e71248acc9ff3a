"""The marginal likelihood of a Gaussian process, its mean profiled out, and its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.linalg.lapack import dpotri

from graphrf.gp.model.observations import Observations
from graphrf.gp.posterior.generalised_mean import least_squares_mean


class MarginalLikelihood(NamedTuple):
    """The log marginal likelihood, coefficients of the mean (b, p), and derivatives in log scale
    and log noise.

    `parameters` are those in what the derivatives of the matrices were taken in.
    """

    value: float
    mean: np.ndarray
    log_scale: float
    log_noise: float
    parameters: np.ndarray


def log_marginal_likelihood(
    matrices: Sequence[np.ndarray],
    blocks: Sequence[Observations],
    *,
    scale: float,
    noise: float,
    derivatives: Sequence[Sequence[np.ndarray]] = (),
) -> MarginalLikelihood:
    r"""log p(y) for y = H b + f + noise with f ~ N(0, scale K), summed over outputs, by Cholesky.

    With A = scale K + noise diag(1 / counts) and r = y_bar - H b, each output contributes

    .. math:: -\tfrac12 r^\top A^{-1} r - \tfrac12 \log |A| - \tfrac m2 \log 2\pi

    and the terms of repeated observations (`Observations`). The coefficients b maximise the
    likelihood, so they do not enter the gradient: with M = (sum over outputs of a a^T - A^-1) / 2,
    a = A^-1 r, a change dA adds <M, dA>. Several blocks share b and count as otherwise independent
    (a composite likelihood). `matrices` (m, m) and their `derivatives` are those of each block;
    without derivatives there is no gradient. LinAlgError if an A is singular to rounding. Cost:
    about m^3 multiply-adds a block.

    Source: Rasmussen and Williams 2006, Eqs. 2.30, 2.42, 5.8 and 5.9; Varin, Reid and Firth 2011,
    "An overview of composite likelihood methods".
    """
    factors, halves = [], []
    for matrix, block in zip(matrices, blocks, strict=True):
        a = scale * matrix
        a[np.diag_indices_from(a)] += noise / block.counts
        factors.append(cholesky(a.T, lower=True, overwrite_a=True, check_finite=False))
        sides = np.column_stack([block.basis, block.means])
        halves.append(solve_triangular(factors[-1], sides, lower=True, check_finite=False))

    products, b = sum(half.T @ half for half in halves), blocks[0].basis.shape[1]
    mean = least_squares_mean(products[:b, :b], products[:b, b:])

    value = log_scale = log_noise = 0.0
    slopes = np.zeros(len(derivatives[0]) if derivatives else 0)
    for k, (matrix, block, factor, half) in enumerate(
        zip(matrices, blocks, factors, halves, strict=True)
    ):
        p, residual = block.n_outputs, half[:, b:] - half[:, :b] @ mean
        log_determinant = 2 * float(np.log(np.diagonal(factor)).sum())
        value += block.log_likelihood(float(np.vdot(residual, residual)), log_determinant, noise)
        if not derivatives:
            continue

        solved = solve_triangular(factor, residual, lower=True, trans="T", check_finite=False)
        # of A^-1, with zeros below its diagonal
        triangle = dpotri(factor, lower=1, overwrite_c=1)[0].T
        triangle[np.diag_indices_from(triangle)] *= 0.5
        moved = [
            scale * float(0.5 * np.vdot(solved, change @ solved) - p * np.vdot(triangle, change))
            for change in (matrix, *derivatives[k])
        ]

        log_scale += moved[0]
        slopes += moved[1:]
        weights = 0.5 * np.square(solved).sum(axis=1) - p * np.diagonal(triangle)
        extra = p * (block.n_total - block.nodes.size)
        log_noise += noise * float(weights @ (1 / block.counts)) + 0.5 * (
            block.within / noise - extra
        )

    return MarginalLikelihood(value, mean, log_scale, log_noise, slopes)
