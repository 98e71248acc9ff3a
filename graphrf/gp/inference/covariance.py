"""The prior covariance among observed and query nodes, by the rows of its features at any of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from graphrf.features.bounds import tail_error
from graphrf.gp.inference.root_series import root_series
from graphrf.gp.inference.rows import RootRows
from graphrf.graph.graph import Graph
from graphrf.kernels.factor import Factor
from graphrf.kernels.kernel import Kernel
from graphrf.kernels.series_factor import SeriesFactor
from graphrf.sampling.sample import sample_features

# What turns the seed of observed rows into that of queried ones.
_OTHER_SEED = 0x5851F42D4C957F2D


class FactorSource(Protocol):
    """Where the factor's rows of any nodes come from.

    `height` is how many numbers a dense column of the covariance passes through on its way; `exact` says whether
    queried and observed rows of a node are the same, the exact ones.
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


class SeriesSource:
    """Exact rows, never formed: they are applied by sparse products over the whole graph, however few they are."""

    exact = True

    def __init__(self, graph: Graph, kernel: Kernel, n_threads: int | None = None) -> None:
        self._all, self.modulation, self.error = root_series(graph, kernel, n_threads)
        self.height: int = graph.n_nodes

    def __call__(self, nodes: np.ndarray) -> SeriesFactor:
        return self._all.take(nodes)

    queried = __call__

    def values(self, nodes: np.ndarray, x: np.ndarray) -> np.ndarray:
        return self(nodes).apply(self.modulation, x)


class SampledSource:
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
        exact: SeriesSource,
        n_threads: int | None = None,
        draw: Callable[..., Any] | None = None,
    ) -> None:
        self._graph = graph
        self._sampler = sampler
        self._seed = seed
        self._exact = exact
        self._n_threads = n_threads
        self._draw = sample_features if draw is None else draw

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
    r"""K = amplitude F F^T over nodes, or D K D with D_ii = 1 / |F_i|, by the rows of F.

    Parameters
    ----------
    source : FactorSource
    f : ndarray
        The modulation.
    amplitude : float
        What multiplies F F^T.
    error : float
        A bound, in operator norm, on what F F^T lacks because the powers in F end.
    normalize : bool
        Whether variances are divided out.
    """

    def __init__(
        self,
        source: FactorSource,
        f: np.ndarray,
        amplitude: float,
        *,
        error: float = 0.0,
        normalize: bool = False,
    ) -> None:
        self._source = source
        self._f = f
        self._amplitude = amplitude
        self._normalize = normalize
        self.error = error

    @classmethod
    def of(
        cls,
        graph: Graph,
        kernel: Kernel,
        amplitude: float,
        *,
        sampler: Any,
        seed: int,
        n_threads: int | None,
        draw: Callable[..., Any] | None = None,
        normalize: bool = False,
    ) -> Covariance:
        """That of a kernel by the series, or where there is a sampler by the rows that it samples."""
        scale = graph.laplacian_scale(kernel.laplacian)
        exact = SeriesSource(graph, kernel, n_threads)
        if sampler is None:
            return cls(exact, exact.modulation, amplitude, error=exact.error, normalize=normalize)
        source = SampledSource(graph, sampler, seed, exact, n_threads, draw)
        length = sampler.survival.max_length
        f = kernel.modulation(length + 1, scale)
        return cls(source, f, amplitude, error=tail_error(kernel, length, scale), normalize=normalize)

    @property
    def exact(self) -> bool:
        """Whether queried and observed rows of a node are the same, the exact ones."""
        return self._source.exact

    def rows(self, nodes: np.ndarray) -> RootRows:
        """The rows of some nodes."""
        return self._of(self._source(nodes))

    def queried(self, nodes: np.ndarray) -> RootRows:
        """The rows of some nodes whose deviations are asked for."""
        return self._of(self._source.queried(nodes))

    def root_values(self, nodes: np.ndarray, x: np.ndarray) -> np.ndarray:
        """R_q x at any nodes, with their exact rows."""
        return np.asarray(np.sqrt(self._amplitude) * self._source.values(nodes, x))

    def _of(self, factor: Factor) -> RootRows:
        return RootRows(factor, self._f, self._amplitude, normalize=self._normalize, height=self._source.height)
