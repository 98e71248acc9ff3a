"""The coefficients of the mean function by generalised least squares, and their uncertainty."""

from __future__ import annotations

import numpy as np

# Eigenvalues of the scaled M below this fraction of the largest count as 0.
_UNDETERMINED = 1e-12
# The share of an observation's information that is not spent on coefficients, below which it alone
# determines one.
ALONE = 1e-10


class GeneralisedMean:
    """beta = M^-1 H^T A^-1 y with M = H^T A^-1 H + p I, whose covariance is M^-1.

    `basis` is H, `solved` A^-1 H, both (m, b), and the prior is N(0, I / p), flat for p = 0.
    Source: Rasmussen and Williams 2006, Sec. 2.7.
    """

    def __init__(self, basis: np.ndarray, solved: np.ndarray, prior: float = 0.0) -> None:
        self.basis = basis
        self.solved = solved
        self._prior = prior
        precision = basis.T @ solved
        if prior:
            precision[np.diag_indices_from(precision)] += prior
        self._precision = precision
        self._root = mean_root(precision)
        self.covariance: np.ndarray = self._root @ self._root.T  # of beta, shape (b, b)

    def fit(self, values: np.ndarray, solved: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients of values of shape (m, p), shape (b, p), and A^-1 (values - H beta), from
        A^-1 values.
        """
        coefficients = least_squares_mean(self._precision, self.solved.T @ values)
        return coefficients, solved - self.solved @ coefficients

    def prior_draws(self, n: int, rng: np.random.Generator) -> np.ndarray | None:
        """Draws of beta from its prior, shape (b, n), of a stream of their own; None where that is
        flat.
        """
        if not self._prior:
            return None
        (stream,) = rng.spawn(1)
        return np.asarray(stream.standard_normal((n, self.basis.shape[1])).T / np.sqrt(self._prior))

    @property
    def rank(self) -> int:
        """Number of directions of beta that the observations determine."""
        return int(self._root.shape[1])

    def draw(self, z: np.ndarray) -> np.ndarray:
        """beta - its estimate, shape (b, p), from standard normals of shape (rank, p)."""
        return np.asarray(self._root @ z)

    def half(self, unexplained: np.ndarray) -> np.ndarray:
        """R M^{-1/2} for R of shape (q, b): its rows' products are the covariance that
        beta adds.
        """
        return np.asarray(unexplained @ self._root)

    def lacking(self, missing: np.ndarray) -> np.ndarray:
        """Weights Z with H^T Z = missing^T, shape (m, q), for what a predictor lacks of a basis,
        shape (q, b).
        """
        return np.asarray(self.solved @ (self._root @ (missing @ self._root).T))

    def biases(self, missing: np.ndarray) -> np.ndarray:
        """Standard deviations that the prior of beta gives to what a predictor lacks of a basis,
        shape (q, b); without columns where the prior is flat, as nothing may lack there.
        """
        if not self._prior:
            return np.zeros((missing.shape[0], 0))
        return np.asarray(missing / np.sqrt(self._prior))

    def weights(self, unexplained: np.ndarray) -> np.ndarray:
        """A^-1 H M^-1 R^T, shape (m, q): what the predictor gains by the mean's coefficients."""
        return np.asarray(self.solved @ (self._root @ self.half(unexplained).T))


def mean_root(precision: np.ndarray) -> np.ndarray:
    """A matrix B with B B^T = M^-1, without directions that the observations do not determine."""
    scale = 1 / np.sqrt(np.maximum(np.diagonal(precision), np.finfo(np.float64).tiny))
    scaled = precision * scale * scale[:, None]
    eigenvalues, vectors = np.linalg.eigh(0.5 * (scaled + scaled.T))
    determined = eigenvalues > _UNDETERMINED * eigenvalues.max(initial=0.0)
    return np.asarray(scale[:, None] * vectors[:, determined] / np.sqrt(eigenvalues[determined]))


def least_squares_mean(inner: np.ndarray, outer: np.ndarray) -> np.ndarray:
    """The coefficients (H^T A^-1 H)^-1 H^T A^-1 y from these two products, (b, b) and (b, p).

    A basis that the observations do not determine has its smallest coefficients.
    """
    scale = 1 / np.sqrt(np.maximum(np.diagonal(inner), np.finfo(np.float64).tiny))
    solved = np.linalg.lstsq(
        inner * scale * scale[:, None], outer * scale[:, None], rcond=_UNDETERMINED
    )[0]
    return np.asarray(solved * scale[:, None])
