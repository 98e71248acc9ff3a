"""Normal priors of a latent function at the observed nodes, by a matrix or by products with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from scipy.linalg import cholesky, lapack

from graphrf.gp.posterior.approximation.expectation_propagation import Normal
from graphrf.operators.solvers import ConjugateGradients

Product = Callable[[np.ndarray], np.ndarray]
Draws = Callable[[], Iterable[tuple[np.ndarray, np.ndarray]]]

# Residuals to which conjugate gradients solve for means, and for the draws that give variances.
_MEANS, _VARIANCES = 1e-8, 1e-4
_MAX_CONJUGATE = 2_000


def with_mean(matrix: np.ndarray, basis: np.ndarray, prior_std: float) -> np.ndarray:
    """K of f + H b, where b has a normal prior of this standard deviation."""
    return matrix + (prior_std * basis) @ (prior_std * basis).T if basis.shape[1] else matrix


class DensePrior:
    """N(0, K) by the matrix K, shape (m, m): m^3 / 3 multiply-adds for a condition."""

    def __init__(self, matrix: np.ndarray) -> None:
        self._matrix = matrix

    def condition(self, precision: np.ndarray, shift: np.ndarray) -> Normal:
        """Posterior for sites W and b: with M = (K + W^-1)^-1, variances are (W - M_ii) / W^2."""
        half, log_volume = self._half(precision)
        weights = half.T @ (half @ (shift / precision))
        lost = np.square(half).sum(axis=0)
        diagonal = np.diagonal(self._matrix)
        least = 1e-9 * np.minimum(diagonal, 1 / precision)  # where rounding leaves nothing
        variance = np.maximum((precision - lost) / np.square(precision), least)
        return Normal(self._matrix @ weights, np.minimum(variance, diagonal), log_volume)

    def slope(self, precision: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """(a a^T - M) / 2: a change dK (symmetric) of K changes the evidence by <slope, dK>."""
        half, _ = self._half(precision)
        return np.asarray(0.5 * (np.outer(weights, weights) - half.T @ half))

    def _half(self, precision: np.ndarray) -> tuple[np.ndarray, float]:
        """The triangle H with H^T H = M, and log |I + W K|."""
        root = np.sqrt(precision)
        volume = root[:, None] * self._matrix * root
        volume[np.diag_indices_from(volume)] += 1.0
        factor = cholesky(volume, lower=True, overwrite_a=True, check_finite=False)
        log_volume = 2 * float(np.log(np.diagonal(factor)).sum())
        inverse, _ = lapack.dtrtri(factor, lower=1, overwrite_c=1)
        return np.tril(inverse) * root, log_volume


class ProductPrior:
    """N(0, K) by products with columns: means by conjugate gradients, variances by draws, no
    determinant.

    `draws` returns the same blocks of draws from N(0, K) and N(0, I), shape (m, s) each, at every
    call.
    """

    def __init__(self, product: Product, draws: Draws) -> None:
        self._product = product
        self._draws = draws

    def condition(self, precision: np.ndarray, shift: np.ndarray) -> Normal:
        """A draw less its mean given noisy observations of it is a draw of the posterior about its
        mean.
        """
        root = np.sqrt(precision)[:, None]

        def solved(rhs: np.ndarray, tol: float) -> np.ndarray:
            system = ConjugateGradients(
                lambda x: x + root * self._product(root * x),
                lambda r: r.copy(),
                tol=tol,
                max_iterations=_MAX_CONJUGATE,
            )
            return root * system.solve(rhs).value

        mean = self._product(solved(shift[:, None] / root, _MEANS))[:, 0]
        squares, count = np.zeros(precision.size), 0
        for f, noise in self._draws():
            rest = f - self._product(solved(root * f + noise, _VARIANCES))
            squares += np.square(rest).sum(axis=1)
            count += f.shape[1]
        return Normal(mean, squares / count, np.nan)
