"""Rows of the features of a covariance at some nodes: a factor, its modulation and the output scale
as one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from graphrf._base.rows import slices
from graphrf.operators.factor import Factor

# Numbers in a dense block of columns (nodes x query nodes), and columns of one at most.
_BLOCK_NUMBERS = 8_000_000
_LARGEST_BLOCK = 1024


class RootRows:
    """Rows R = sqrt(amplitude) F(f) at n nodes, or D R with D_ii = 1 / |F_i| if `normalize`: of K =
    R R^T.

    Variances come from the same rows as the reductions subtracted from them, so they cannot be
    negative. `height` counts the intermediate values of a dense column, if more than n.
    """

    def __init__(
        self,
        factor: Factor,
        f: np.ndarray,
        amplitude: float,
        *,
        normalize: bool = False,
        height: int = 0,
    ) -> None:
        self._factor = factor
        self._f = f
        self._amplitude = amplitude
        self._root = np.sqrt(amplitude)
        self._height = height
        self._weights = 1.0 / np.sqrt(factor.diagonal(f)) if normalize else None
        self.shape: tuple[int, int] = factor.shape

    def apply(self, x: np.ndarray) -> np.ndarray:
        """R x for x of shape (N,) or (N, p)."""
        return self._weighted(self._root * self._factor.apply(self._f, x))

    def apply_t(self, y: np.ndarray) -> np.ndarray:
        """R^T y for y of shape (n,) or (n, p)."""
        return np.asarray(self._root * self._factor.apply_t(self._f, self._weighted(y)))

    def gram(self, x: np.ndarray) -> np.ndarray:
        """K x = R R^T x among the nodes."""
        return self._weighted(self._factor.gram_apply(self._f, self._weighted(x), self._amplitude))

    def variances(self) -> np.ndarray:
        """The diagonal of K, shape (n,)."""
        if self._weights is not None:
            return np.full(self.shape[0], self._amplitude)
        return self._amplitude * self.squared_norms()

    def squared_norms(self) -> np.ndarray:
        """|F_i|^2 of the factor's rows, before they are scaled, shape (n,)."""
        if self._weights is not None:
            return np.asarray(self._weights**-2)
        return self._factor.diagonal(self._f)

    def columns(self, other: RootRows) -> tuple[np.ndarray, np.ndarray]:
        """K between these nodes and distinct others, dense, and the variances of the others."""
        block, diagonal = self._factor.columns(self._f, other._factor)
        block *= self._amplitude
        if self._weights is None or other._weights is None:
            return block, self._amplitude * diagonal
        block *= self._weights[:, None]
        block *= other._weights
        return block, other.variances()

    def dense(self) -> np.ndarray:
        """K among the nodes, dense; symmetric to rounding."""
        return self.columns(self)[0]

    def own_columns(self, chosen: np.ndarray) -> np.ndarray:
        """The columns of K among the nodes, dense, that belong to distinct positions."""
        parts = [
            self._factor.gram_columns(self._f, chosen[part]) for part in self.blocks(chosen.size)
        ]
        block = self._amplitude * np.hstack(parts)
        return (
            block
            if self._weights is None
            else self._weights[:, None] * block * self._weights[chosen]
        )

    def some_columns(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Positions of at most n nodes, drawn at random, and the columns of K that
        belong to them.
        """
        size = self.shape[0]
        chosen = np.sort(rng.choice(size, min(n, size), replace=False))
        return chosen, self.own_columns(chosen)

    def take(self, rows: np.ndarray) -> RootRows:
        """The rows of some of the nodes, by position."""
        normalize = self._weights is not None
        factor = self._factor.take(rows)
        return RootRows(factor, self._f, self._amplitude, normalize=normalize, height=self._height)

    def blocks(self, n: int, whole: bool = True) -> Iterator[slice]:
        """Slices of n nodes for blocks of columns within about 64 MB; `whole` columns pass through
        all nodes.
        """
        if not whole:
            return slices(n, max(8, _BLOCK_NUMBERS // self.shape[0]))
        height = max(self.shape[0], self._height)
        return slices(n, min(_LARGEST_BLOCK, max(8, _BLOCK_NUMBERS // height)))

    def _weighted(self, x: np.ndarray) -> np.ndarray:
        return x if self._weights is None else self._weights.reshape(-1, *(1,) * (x.ndim - 1)) * x
