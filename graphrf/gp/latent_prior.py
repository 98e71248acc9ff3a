"""The prior covariance of a classifier's latent functions: a node kernel, scaled to one variance at all nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from graphrf.factor import Factor
from graphrf.gp.gram import product

# Numbers in a dense block of columns, of whole height with the series.
_BLOCK_NUMBERS = 8_000_000
_WIDEST_BLOCK = 1024
# Sparse rows that are made at once.
_ROWS_AT_ONCE = 4_096


class LatentPrior:
    r"""C = \sigma^2 F F^T, its variances divided out: \sigma^2 K_ij / sqrt(K_ii K_jj).

    One set of rows F serves labelled and queried nodes, so that C is positive semi-definite over both.

    Parameters
    ----------
    rows : callable
        The factor of any nodes; the same rows whenever a node is asked for again.
    f : ndarray
        The modulation.
    output_scale : float
        \sigma^2.
    normalize : bool
        Whether variances are divided out; else C = \sigma^2 K.
    """

    def __init__(
        self, rows: Callable[[np.ndarray], Factor], f: np.ndarray, output_scale: float, normalize: bool
    ) -> None:
        self.factor = rows
        self._f = f
        self._scale = output_scale
        self._normalize = normalize

    def weights(self, factor: Factor) -> np.ndarray:
        """What rows of F are multiplied by, so that C = weights F F^T weights, shape (n,)."""
        variances = factor.diagonal(self._f) if self._normalize else np.ones(factor.shape[0])
        return np.sqrt(self._scale / variances)

    def variances(self, factor: Factor) -> np.ndarray:
        """The diagonal of C at the factor's nodes."""
        return self._scale * (np.ones(factor.shape[0]) if self._normalize else factor.diagonal(self._f))

    def spread(self, factor: Factor, weights: np.ndarray, x: np.ndarray) -> np.ndarray:
        """F^T weights x, shape (N, p): `gather` at any nodes makes C x of it."""
        return factor.apply_t(self._f, weights[:, None] * x)

    def gather(self, factor: Factor, weights: np.ndarray, spread: np.ndarray) -> np.ndarray:
        """Weights F spread."""
        return weights[:, None] * factor.apply(self._f, spread)

    def product(self, factor: Factor, weights: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """C times a matrix of shape (n, p) among the factor's own nodes; sparse rows are made once."""
        if hasattr(factor, "matrix"):
            rows = factor.matrix(self._f).multiply(weights[:, None]).tocsr()
            columns = rows.T.tocsr()
            return lambda x: np.asarray(rows @ (columns @ x))
        return lambda x: self.gather(factor, weights, self.spread(factor, weights, x))

    def columns(
        self, left: Factor, left_weights: np.ndarray, right: Factor, right_weights: np.ndarray
    ) -> np.ndarray:
        """C[left, right], dense."""
        if hasattr(left, "matrix") and hasattr(right, "matrix"):
            inner = product(left.matrix(self._f), right.matrix(self._f))
        else:
            inner = left.apply(self._f, right.apply_t(self._f, np.eye(right.shape[0])))
        inner *= left_weights[:, None]
        inner *= right_weights
        return np.asarray(inner)

    def dense(self, factor: Factor, weights: np.ndarray) -> np.ndarray:
        """C among the factor's own nodes, dense and symmetric."""
        matrix = np.empty((factor.shape[0], factor.shape[0]))
        for block in self.blocks(factor.shape[0], factor):
            right = factor.take(np.arange(factor.shape[0])[block])
            matrix[:, block] = self.columns(factor, weights, right, weights[block])
        matrix += matrix.T.copy()
        matrix *= 0.5
        return matrix

    def blocks(self, n: int, left: Factor) -> Iterator[slice]:
        """Slices of n nodes so small that blocks of columns C[left, slice] stay within about 64 MB."""
        height = left.shape[0] if hasattr(left, "matrix") else left.shape[1]
        yield from _slices(n, min(_WIDEST_BLOCK, max(8, _BLOCK_NUMBERS // height)))

    def row_blocks(self, n: int) -> Iterator[slice]:
        """Slices of n nodes whose rows are made at once."""
        yield from _slices(n, _ROWS_AT_ONCE)


def _slices(n: int, size: int) -> Iterator[slice]:
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))
