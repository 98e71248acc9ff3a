"""The prior covariance among observed and query nodes, as products with the rows of a factor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from graphrf.factor import Factor
from graphrf.gp.gram import product
from graphrf.graph import Graph
from graphrf.sampling.sample import sample_features
from graphrf.series import SeriesFactor

# Numbers in a dense block of columns (nodes x query nodes).
_BLOCK_NUMBERS = 8_000_000
_LARGEST_BLOCK = 1024


class Rows(Protocol):
    """Where the factor's rows of any nodes come from.

    `at_once` rows are worth making together; `column_height` is how many numbers a dense column of the covariance
    passes through on its way.
    """

    at_once: int

    @property
    def column_height(self) -> int: ...

    def __call__(self, nodes: np.ndarray) -> Factor:
        """The rows of some nodes; the same rows whenever a node is asked for again."""
        ...


class SeriesRows:
    """Exact rows, never formed: they are applied by sparse products over the whole graph, however few they are."""

    at_once = 2**31

    def __init__(self, graph: Graph, laplacian: str, max_length: int) -> None:
        self._all = SeriesFactor(graph, laplacian, max_length=max_length)
        self.column_height = graph.n_nodes

    def __call__(self, nodes: np.ndarray) -> Factor:
        return self._all.take(nodes)


class WalkRows:
    """Sampled rows. A node's row depends on the seed and the node only, so it can be drawn when needed."""

    at_once = 32_768
    column_height = 0

    def __init__(self, graph: Graph, sampler: Any, seed: int, n_threads: int | None) -> None:
        self._graph = graph
        self._sampler = sampler
        self._seed = seed
        self._n_threads = n_threads

    def __call__(self, nodes: np.ndarray) -> Factor:
        features = sample_features(
            self._graph, self._sampler, nodes=nodes, seed=self._seed, n_threads=self._n_threads, dtype="float64"
        )
        return features.factor(n_threads=self._n_threads)


class Covariance:
    r"""amplitude F F^T over nodes, given by the rows of F: one matrix for observed and query nodes alike.

    All that inference needs is a product with a vector, dense blocks of columns and the diagonal that belongs to
    them; variances come out of the same rows as the reductions taken from them, so they cannot be negative.

    Parameters
    ----------
    rows : Rows
    f : ndarray
        The modulation.
    amplitude : float
        What multiplies F F^T.
    """

    def __init__(self, rows: Rows, f: np.ndarray, amplitude: float) -> None:
        self._rows = rows
        self._f = f
        self._amplitude = amplitude

    def factor(self, nodes: np.ndarray) -> Factor:
        """The rows of some nodes."""
        return self._rows(nodes)

    def spread(self, factor: Factor, x: np.ndarray) -> np.ndarray:
        """amplitude F^T x, shape (N,) or (N, p): applied to any rows it gives K[those, these] x."""
        return self._amplitude * factor.apply_t(self._f, x)

    def gather(self, factor: Factor, spread: np.ndarray) -> np.ndarray:
        """F times what `spread` returned."""
        return factor.apply(self._f, spread)

    def apply(self, factor: Factor, x: np.ndarray) -> np.ndarray:
        """K x among the factor's own nodes."""
        return self.gather(factor, self.spread(factor, x))

    def columns(self, left: Factor, right: Factor) -> tuple[np.ndarray, np.ndarray]:
        """K[left, right], dense, and the diagonal of K[right, right]."""
        if hasattr(left, "matrix") and hasattr(right, "matrix"):
            rows, columns = left.matrix(self._f), right.matrix(self._f)
            diagonal = np.asarray(columns.multiply(columns).sum(axis=1)).ravel()
            return self._amplitude * product(rows, columns), self._amplitude * diagonal
        spread = right.apply_t(self._f, np.eye(right.shape[0]))
        return self._amplitude * left.apply(self._f, spread), self._amplitude * np.square(spread).sum(axis=0)

    def diagonal(self, factor: Factor) -> np.ndarray:
        """The diagonal of K at the factor's nodes."""
        return self._amplitude * factor.diagonal(self._f)

    def everywhere(self, factor: Factor) -> np.ndarray:
        """K[all nodes, the factor's own], dense, by blocks of columns."""
        every = self._rows(np.arange(factor.shape[1]))
        matrix = np.empty((factor.shape[1], factor.shape[0]))
        for block in self.blocks(factor.shape[0], every):
            matrix[:, block] = self.columns(every, factor.take(np.arange(factor.shape[0])[block]))[0]
        return matrix

    def dense(self, factor: Factor) -> np.ndarray:
        """K among the factor's own nodes, dense and symmetric; by blocks of columns unless the rows are sparse."""
        if hasattr(factor, "matrix"):
            return self.columns(factor, factor)[0]
        matrix = np.empty((factor.shape[0], factor.shape[0]))
        for block in self.blocks(factor.shape[0], factor):
            matrix[:, block] = self.columns(factor, factor.take(np.arange(factor.shape[0])[block]))[0]
        return 0.5 * (matrix + matrix.T)

    def blocks(self, n: int, left: Factor) -> Iterator[slice]:
        """Slices of n nodes so small that blocks of columns K[left, slice] stay within about 64 MB."""
        height = max(left.shape[0], self._rows.column_height)
        return slices(n, min(_LARGEST_BLOCK, max(8, _BLOCK_NUMBERS // height)))

    def row_blocks(self, n: int) -> Iterator[slice]:
        """Slices of n nodes whose rows are made at once."""
        return slices(n, self._rows.at_once)


def slices(n: int, size: int) -> Iterator[slice]:
    """0 .. n - 1 in slices of the given size."""
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))
