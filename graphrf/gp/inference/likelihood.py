"""The marginal likelihood of a Gaussian process, its mean profiled out, and its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.linalg.blas import dsymm
from scipy.linalg.lapack import dpotri

from graphrf.gp.inference.observations import Observations

# Eigenvalues of the scaled M below this share of the largest count as 0.
_UNTOLD = 1e-12
# What is added to the diagonal of a covariance that cannot be factored, in multiples of its mean.
_JITTERS = (0.0, 1e-9, 1e-8, 1e-7, 1e-6)


class Likelihood(NamedTuple):
    """The log marginal likelihood and its gradient.

    Attributes
    ----------
    value : float
        Summed over the outputs and blocks.
    mean : ndarray, shape (b, p)
        Coefficients of the mean's basis for each output: their maximum-likelihood values.
    log_scale, log_noise : float
        Derivatives in the logarithms of the output scale and of the noise variance.
    parameters : ndarray, shape (d,)
        Derivatives in what the derivatives of the matrices were taken in.
    information : ndarray, shape (d + 2, d + 2)
        See `average_information`: an approximation of minus the second derivatives in the parameters, in the
        logarithm of the output scale, and in that of the noise.
    """

    value: float
    mean: np.ndarray
    log_scale: float
    log_noise: float
    parameters: np.ndarray
    information: np.ndarray


def average_information(moved: np.ndarray, solved: np.ndarray, within: float) -> np.ndarray:
    r"""The average information of some coordinates, the last of them the logarithm of the noise.

    .. math:: \tfrac12 \, a^\top \partial_i A \, A^{-1} \, \partial_j A \, a, \qquad a = A^{-1} r,

    summed over outputs. For a known mean, and where A is linear in the coordinates, it is the mean of the observed
    and the expected information: their traces cancel, so that it costs no product of matrices. `moved` and
    `solved` hold dA_i a and A^-1 dA_i a, shape (d, m, p); `within` is what repeated observations add.

    Source: Gilmour, Thompson and Cullis 1995, "Average information REML", Biometrics 51.
    """
    found = 0.5 * np.tensordot(moved, solved, axes=((1, 2), (1, 2)))
    found[-1, -1] += within
    return np.asarray(found)


def mean_root(precision: np.ndarray) -> np.ndarray:
    """A matrix B with B B^T = M^-1, shape (b, b) or less, for M = H^T A^-1 H of a basis H.

    What the observations do not tell of the basis is left out, as in `least_squares_mean`.
    """
    scale = 1 / np.sqrt(np.maximum(np.diagonal(precision), np.finfo(np.float64).tiny))
    scaled = precision * scale * scale[:, None]
    eigenvalues, vectors = np.linalg.eigh(0.5 * (scaled + scaled.T))
    told = eigenvalues > _UNTOLD * eigenvalues.max(initial=0.0)
    return np.asarray(scale[:, None] * vectors[:, told] / np.sqrt(eigenvalues[told]))


def least_squares_mean(inner: np.ndarray, outer: np.ndarray) -> np.ndarray:
    r"""The generalised least-squares coefficients (H^T A^-1 H)^-1 H^T A^-1 y, from these two products.

    `inner` has shape (b, b), `outer` shape (b, p). A basis that the observations do not tell apart (a trend that
    is constant at the observed nodes) gets its smallest coefficients.
    """
    scale = 1 / np.sqrt(np.maximum(np.diagonal(inner), np.finfo(np.float64).tiny))
    solved = np.linalg.lstsq(inner * scale * scale[:, None], outer * scale[:, None], rcond=_UNTOLD)[0]
    return np.asarray(solved * scale[:, None])


def log_marginal_likelihood(
    matrices: Sequence[np.ndarray],
    blocks: Sequence[Observations],
    *,
    scale: float,
    noise: float,
    derivatives: Sequence[Sequence[np.ndarray]] = (),
) -> Likelihood:
    r"""log p(y) for y = H b + f + noise with f ~ N(0, scale K), summed over outputs, by Cholesky.

    With A = scale K + noise diag(1 / counts) and r = y_bar - H b, each output contributes

    .. math:: -\tfrac12 r^\top A^{-1} r - \tfrac12 \log |A| - \tfrac m2 \log 2\pi

    and the terms of repeated observations (`Observations`). The coefficients b of the mean's basis H maximise
    the likelihood, so they do not enter the gradient; with M = (sum over outputs of a a^T - A^-1) / 2,
    a = A^-1 r, the derivative in anything that moves A by dA is <M, dA>.

    Several blocks of observations count as independent of each other but for b, which they share: their sum
    is then a composite likelihood, not the density of all.

    Parameters
    ----------
    matrices : sequence of ndarray, shape (m, m) each
        K at the distinct observed nodes of each block.
    blocks : sequence of Observations
    scale, noise : float
        Output scale and noise variance, > 0.
    derivatives : for each block a sequence of ndarray, shape (m, m) each
        Derivatives of its matrix.

    Raises
    ------
    numpy.linalg.LinAlgError
        If an A is not positive definite, even with a millionth of its mean diagonal added to that.

    Notes
    -----
    Cost: about m^3 multiply-adds a block; source: Rasmussen and Williams 2006, Eqs. 2.30, 2.42, 5.8 and 5.9;
    Varin, Reid and Firth 2011, "An overview of composite likelihood methods" (independent blocks).
    """
    factors = []
    inner = outer = np.zeros(())
    for matrix, block in zip(matrices, blocks, strict=True):
        factors.append(_factor(matrix, scale, noise / block.counts))
        half = solve_triangular(factors[-1], block.basis, lower=True, check_finite=False)
        rest = solve_triangular(factors[-1], block.means, lower=True, check_finite=False)
        inner, outer = inner + half.T @ half, outer + half.T @ rest
    mean = least_squares_mean(inner, outer)

    outputs = blocks[0].n_outputs
    value = log_scale = log_noise = 0.0
    slopes = np.zeros(len(derivatives[0]) if derivatives else 0)
    information = np.zeros((slopes.size + 2, slopes.size + 2))
    for k, (matrix, block, factor) in enumerate(zip(matrices, blocks, factors, strict=True)):
        extra = block.n_total - block.nodes.size
        residual = block.means - block.basis @ mean
        solved = _solve(factor, residual)
        value += (
            -0.5 * float(np.vdot(residual, solved))
            - outputs * float(np.log(np.diagonal(factor)).sum() + 0.5 * np.log(block.counts).sum())
            + float(block.log_constant(noise))
        )
        if not derivatives:
            continue
        inverse, _ = dpotri(factor, lower=1, overwrite_c=1)  # its lower triangle, and zeros

        def slope(change: np.ndarray, solved: np.ndarray = solved, inverse: np.ndarray = inverse) -> float:
            """<M, s dK>."""
            return 0.5 * scale * (float(np.vdot(solved, change @ solved)) - outputs * _trace(inverse, change))

        log_scale += slope(matrix)
        weight = np.square(solved).sum(axis=1) - outputs * np.diagonal(inverse)
        log_noise += 0.5 * (noise * float(weight @ (1 / block.counts)) - outputs * extra + block.within / noise)
        slopes += [slope(change) for change in derivatives[k]]
        moved = [scale * (change @ solved) for change in (*derivatives[k], matrix)]
        moved.append(noise * solved / block.counts[:, None])
        columns = np.split(dsymm(1.0, inverse, np.hstack(moved), lower=1), len(moved), axis=1)
        information += average_information(np.array(moved), np.array(columns), 0.5 * block.within / noise)
    return Likelihood(value, mean, log_scale, log_noise, slopes, information)


def _factor(matrix: np.ndarray, scale: float, noise: np.ndarray) -> np.ndarray:
    """The Cholesky factor of A, or of A with a little more on its diagonal where rounding left it indefinite.

    A search would be ended by points that cannot be factored; the likelihood with the least jitter is a good
    stand-in for theirs. The factor has zeros above its diagonal and is stored by columns, as LAPACK has it.
    """
    diagonal = np.diag_indices_from(matrix)
    for jitter in _JITTERS:
        a = scale * matrix
        a[diagonal] += noise
        a[diagonal] += jitter * float(a[diagonal].mean())
        try:
            return np.asarray(cholesky(a.T, lower=True, overwrite_a=True, check_finite=False))
        except np.linalg.LinAlgError:
            continue
    raise np.linalg.LinAlgError("the covariance of the observations is not positive definite")


def _trace(lower: np.ndarray, other: np.ndarray) -> float:
    """trace(S B) of symmetric S, given by its lower triangle, and B, in whatever order these lie in memory."""
    both = float(np.dot(lower.ravel(order="K"), other.ravel(order="K")))
    return 2.0 * both - float(np.diagonal(lower) @ np.diagonal(other))


def _solve(factor: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    half = solve_triangular(factor, rhs, lower=True, check_finite=False)
    return np.asarray(solve_triangular(factor, half, lower=True, trans="T", check_finite=False))
