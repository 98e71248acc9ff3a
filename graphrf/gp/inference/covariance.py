"""The prior covariance among observed and query nodes, as products with the rows of a factor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from graphrf.gp.inference.rows import product, rows_of, squared_norms
from graphrf.graph.graph import Graph
from graphrf.kernels.factor import Factor, GramFactor
from graphrf.kernels.series_factor import SeriesFactor
from graphrf.sampling.sample import sample_features

# Numbers in a dense block of columns (nodes x query nodes), and in a panel for rows that live elsewhere.
_BLOCK_NUMBERS = 8_000_000
_LARGEST_BLOCK = 1024
# What turns the seed of observed rows into that of queried ones.
_OTHER_SEED = 0x5851F42D4C957F2D


class Rows(Protocol):
    """Where the factor's rows of any nodes come from.

    `height` is how many numbers a dense column of the covariance passes through on its way.
    """

    height: int
    exact: bool

    def __call__(self, nodes: np.ndarray) -> Factor:
        """The rows of observed nodes; the same rows whenever a node is asked for again."""
        ...

    def queried(self, nodes: np.ndarray) -> Factor:
        """The rows of queried nodes, for deviations; the same rows whenever a node is asked for again."""
        ...

    def values(self, nodes: np.ndarray, x: np.ndarray) -> np.ndarray:
        """F_q x for x of shape (N, p), with exact rows F_q at the nodes, shape (q, p)."""
        ...


class SeriesRows:
    """Exact rows, never formed: they are applied by sparse products over the whole graph, however few they are."""

    exact = True

    def __init__(self, graph: Graph, laplacian: str, modulation: np.ndarray, n_threads: int | None = None) -> None:
        self._all = SeriesFactor(graph, laplacian, max_length=modulation.size - 1, n_threads=n_threads)
        self._modulation = modulation
        self.height: int = graph.n_nodes

    def __call__(self, nodes: np.ndarray) -> SeriesFactor:
        return self._all.take(nodes)

    queried = __call__

    def values(self, nodes: np.ndarray, x: np.ndarray) -> np.ndarray:
        return self(nodes).apply(self._modulation, x)


class SampledRows:
    """Sampled rows at observed nodes and where deviations are asked for; exact rows for values.

    A node's row depends on the seed and the node only, so it can be drawn when needed. Stacked, sampled rows F_u,
    exact rows F_q and rows of queried nodes sampled with another seed are the factor of one positive semi-definite
    covariance, whatever was sampled. Means and draws use exact rows at the queried nodes: that spares them the
    sampling error of their own rows, and the sampling. Deviations use sampled ones, independent of those observed:
    the sampling error of an observed row is no part of the function, and must not seem to be known.

    `draw` draws the rows of observed nodes, which may then live elsewhere; queried ones are few, and drawn here.
    """

    exact = False
    height = 0

    def __init__(
        self,
        graph: Graph,
        sampler: Any,
        seed: int,
        exact: SeriesRows,
        n_threads: int | None = None,
        draw: Callable[..., Any] = sample_features,
    ) -> None:
        self._graph = graph
        self._sampler = sampler
        self._seed = seed
        self._exact = exact
        self._n_threads = n_threads
        self._draw = draw

    def __call__(self, nodes: np.ndarray) -> Factor:
        return self._sampled(self._draw, nodes, self._seed)

    def queried(self, nodes: np.ndarray) -> Factor:
        return self._sampled(sample_features, nodes, self._seed ^ _OTHER_SEED)

    def _sampled(self, draw: Callable[..., Any], nodes: np.ndarray, seed: int) -> Factor:
        features = draw(
            self._graph, self._sampler, nodes=nodes, seed=seed, n_threads=self._n_threads, dtype="float64"
        )
        factor: Factor = features.factor(n_threads=self._n_threads)
        return factor

    def values(self, nodes: np.ndarray, x: np.ndarray) -> np.ndarray:
        return self._exact.values(nodes, x)


class Covariance:
    r"""amplitude F F^T over nodes, given by the rows of F.

    All that inference needs is a product with a vector, dense blocks of columns and the diagonal that belongs to
    them; variances come out of the same rows as the reductions taken from them, so they cannot be negative.

    Of a factor that has no `matrix`, because its rows are elsewhere, only products are asked: with panels of about
    64 MB where blocks of columns are formed, and by its `gram_apply` where it has that.

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

    def queried(self, nodes: np.ndarray) -> Factor:
        """The rows of some nodes whose deviations are asked for."""
        return self._rows.queried(nodes)

    @property
    def exact(self) -> bool:
        """Whether queried and observed rows of a node are the same, the exact ones."""
        return self._rows.exact

    def root_apply(self, factor: Factor, x: np.ndarray) -> np.ndarray:
        """R x with R = sqrt(amplitude) F, the features of the covariance."""
        return np.sqrt(self._amplitude) * factor.apply(self._f, x)

    def root_apply_t(self, factor: Factor, y: np.ndarray) -> np.ndarray:
        """R^T y, shape (N,) or (N, p)."""
        return np.sqrt(self._amplitude) * factor.apply_t(self._f, y)

    def root_values(self, nodes: np.ndarray, x: np.ndarray) -> np.ndarray:
        """R_q x at any nodes, with their exact rows."""
        return np.sqrt(self._amplitude) * self._rows.values(nodes, x)

    def apply(self, factor: Factor, x: np.ndarray) -> np.ndarray:
        """K x among the factor's own nodes."""
        if isinstance(factor, GramFactor):
            return self._amplitude * factor.gram_apply(self._f, x)
        return self.root_apply(factor, self.root_apply_t(factor, x))

    def columns(self, left: Factor, right: Factor) -> tuple[np.ndarray, np.ndarray]:
        """K[left, right], dense, and the diagonal of K[right, right]; the nodes of `right` are distinct."""
        if isinstance(left, SeriesFactor) and isinstance(right, SeriesFactor):
            block, diagonal = left.columns(self._f, right.nodes)
        elif not (hasattr(left, "matrix") or isinstance(left, SeriesFactor)):
            block, diagonal = self._spread(left, right)
        else:
            rows, columns = rows_of(left, self._f), rows_of(right, self._f)
            block, diagonal = product(rows, columns), squared_norms(columns)
        block *= self._amplitude
        return block, self._amplitude * diagonal

    def dense(self, factor: Factor) -> np.ndarray:
        """K among the factor's own nodes, dense; symmetric to rounding."""
        if isinstance(factor, GramFactor):
            return self.own_columns(factor, np.arange(factor.shape[0]))
        return self.columns(factor, factor)[0]

    def own_columns(self, factor: Factor, chosen: np.ndarray) -> np.ndarray:
        """The columns of K among the factor's own nodes, dense, that belong to distinct positions."""
        if isinstance(factor, GramFactor):
            units = (_units(factor.shape[0], chosen[part]) for part in _panels(chosen.size, factor))
            return np.hstack([self.apply(factor, panel) for panel in units])
        parts = self.blocks(chosen.size, factor)
        return np.hstack([self.columns(factor, factor.take(chosen[part]))[0] for part in parts])

    def _spread(self, left: Factor, right: Factor) -> tuple[np.ndarray, np.ndarray]:
        """F_l F_r^T from panels of F_r^T, whose squared norms are the diagonal."""
        block, diagonal = np.empty((left.shape[0], right.shape[0])), np.empty(right.shape[0])
        for part in _panels(right.shape[0], right):
            rows = np.arange(right.shape[0])[part]
            if hasattr(right, "matrix"):
                panel = right.matrix(self._f)[rows].T.toarray()
            else:
                panel = right.apply_t(self._f, _units(right.shape[0], rows))
            block[:, part] = left.apply(self._f, panel)
            diagonal[part] = np.einsum("ij,ij->j", panel, panel)
        return block, diagonal

    def blocks(self, n: int, left: Factor) -> Iterator[slice]:
        """Slices of n nodes so small that blocks of columns K[left, slice] stay within about 64 MB."""
        height = max(left.shape[0], self._rows.height)
        return slices(n, min(_LARGEST_BLOCK, max(8, _BLOCK_NUMBERS // height)))


def slices(n: int, size: int) -> Iterator[slice]:
    """0 .. n - 1 in slices of the given size."""
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def _panels(n: int, factor: Factor) -> Iterator[slice]:
    """Slices of n columns so small that a panel of them over all nodes of the graph stays within 64 MB."""
    return slices(n, max(1, _BLOCK_NUMBERS // factor.shape[1]))


def _units(n: int, positions: np.ndarray) -> np.ndarray:
    """The columns of the identity at some positions, shape (n, len(positions))."""
    units = np.zeros((n, positions.size))
    units[positions, np.arange(positions.size)] = 1.0
    return units
