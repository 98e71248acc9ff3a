"""The prior covariance of a classifier's latent functions: a node kernel, scaled to one variance at all nodes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from graphrf.gp.inference.covariance import Covariance, Rows, slices
from graphrf.kernels.factor import Factor

# Sparse rows that are made at once.
_ROWS_AT_ONCE = 4_096


class LatentPrior:
    r"""C = D K D with K = sigma^2 F F^T: sigma^2 F F^T itself, or with its variances divided out.

    One set of rows F serves labelled and queried nodes, so that C is positive semi-definite over both.

    Parameters
    ----------
    rows : Rows
    f : ndarray
        The modulation.
    output_scale : float
        sigma^2.
    normalize : bool
        Whether variances are divided out: D_ii = 1 / |F_i|; else D is the identity.
    """

    def __init__(self, rows: Rows, f: np.ndarray, output_scale: float, normalize: bool) -> None:
        self._covariance = Covariance(rows, f, output_scale)
        self._f = f
        self._scale = output_scale
        self._normalize = normalize

    def factor(self, nodes: np.ndarray) -> Factor:
        """The rows of some nodes; the same rows whenever a node is asked for again."""
        return self._covariance.factor(nodes)

    def weights(self, factor: Factor) -> np.ndarray:
        """The diagonal of D at the factor's nodes, shape (n,)."""
        return 1.0 / np.sqrt(factor.diagonal(self._f)) if self._normalize else np.ones(factor.shape[0])

    def variances(self, factor: Factor) -> np.ndarray:
        """The diagonal of C at the factor's nodes."""
        return self._scale * (np.ones(factor.shape[0]) if self._normalize else factor.diagonal(self._f))

    def spread(self, factor: Factor, weights: np.ndarray, x: np.ndarray) -> np.ndarray:
        """sigma F^T D x, shape (N, p): `gather` at any nodes makes C x of it."""
        return self._covariance.root_apply_t(factor, weights[:, None] * x)

    def gather(self, factor: Factor, weights: np.ndarray, spread: np.ndarray) -> np.ndarray:
        """sigma D F spread."""
        return weights[:, None] * self._covariance.root_apply(factor, spread)

    def product(self, factor: Factor, weights: np.ndarray, x: np.ndarray) -> np.ndarray:
        """C x among the factor's own nodes, x of shape (n, p)."""
        return self.gather(factor, weights, self.spread(factor, weights, x))

    def columns(
        self, left: Factor, left_weights: np.ndarray, right: Factor, right_weights: np.ndarray
    ) -> np.ndarray:
        """C[left, right], dense; the nodes of `right` are distinct."""
        block, _ = self._covariance.columns(left, right)
        block *= left_weights[:, None]
        block *= right_weights
        return block

    def dense(self, factor: Factor, weights: np.ndarray) -> np.ndarray:
        """C among the factor's own nodes, dense and symmetric."""
        matrix = self.columns(factor, weights, factor, weights)
        return 0.5 * (matrix + matrix.T)

    def blocks(self, n: int, left: Factor) -> Iterator[slice]:
        """Slices of n nodes so small that blocks of columns C[left, slice] stay within about 64 MB."""
        return self._covariance.blocks(n, left)

    def row_blocks(self, n: int) -> Iterator[slice]:
        """Slices of n nodes whose rows are made at once."""
        return slices(n, _ROWS_AT_ONCE)
