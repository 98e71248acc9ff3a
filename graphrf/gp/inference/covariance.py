"""The prior covariance among observed and query nodes, by the rows of its features at any of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from graphrf.gp.inference.rows import RootRows
from graphrf.graph.graph import Graph
from graphrf.kernels.factor import Factor
from graphrf.kernels.kernel import Kernel
from graphrf.kernels.series_factor import SeriesFactor
from graphrf.kernels.truncation import series_length
from graphrf.sampling.sample import sample_features

# What the cut of the series may lose of sum |f_k|.
SERIES_TAIL = 1e-11
# What the cut after the most terms that are held may lose unsaid.
UNSAID = 0.01


def lost_share(kernel: Kernel, scale: float) -> float:
    """The share of sum |f_k| that the series of a root leaves out after the most terms that are held."""
    length = series_length(kernel, scale, SERIES_TAIL)
    return float(kernel.modulation_tail(length, scale) / kernel.modulation_tail(-1, scale))


class FactorSource(Protocol):
    """Where the factor's rows of any nodes come from.

    `height` is how many numbers a dense column of the covariance passes through on its way.
    """

    height: int

    def __call__(self, nodes: np.ndarray) -> Factor:
        """The rows of nodes; the same rows whenever a node is asked for again."""
        ...


class SeriesSource:
    """Exact rows, never formed: they are applied by sparse products over the whole graph, however few they are."""

    def __init__(self, graph: Graph, laplacian: str, max_length: int, n_threads: int | None = None) -> None:
        self._all = SeriesFactor(graph, laplacian, max_length=max_length, n_threads=n_threads)
        self.height: int = graph.n_nodes

    def __call__(self, nodes: np.ndarray) -> SeriesFactor:
        return self._all.take(nodes)


class SampledSource:
    """Sampled rows. A node's row depends on the seed and the node only, so it can be drawn when needed.

    `draw` draws them; they may then live elsewhere.
    """

    height = 0

    def __init__(
        self,
        graph: Graph,
        sampler: Any,
        seed: int,
        n_threads: int | None = None,
        draw: Callable[..., Any] | None = None,
    ) -> None:
        self._graph = graph
        self._sampler = sampler
        self._seed = seed
        self._n_threads = n_threads
        self._draw = sample_features if draw is None else draw

    def __call__(self, nodes: np.ndarray) -> Factor:
        features = self._draw(
            self._graph,
            self._sampler,
            nodes=self._graph.positions(nodes),
            seed=self._seed,
            n_threads=self._n_threads,
            dtype="float64",
        )
        factor: Factor = features.factor(n_threads=self._n_threads)
        return factor


class Covariance:
    r"""K = amplitude F F^T over nodes, or D K D with D_ii = 1 / |F_i|, by the rows of F.

    Parameters
    ----------
    source : FactorSource
    f : ndarray
        The modulation.
    amplitude : float
        What multiplies F F^T.
    normalize : bool
        Whether variances are divided out.
    exact : Covariance, optional
        That of the exact rows, where those of the source are sampled.
    """

    def __init__(
        self,
        source: FactorSource,
        f: np.ndarray,
        amplitude: float,
        *,
        normalize: bool = False,
        exact: Covariance | None = None,
    ) -> None:
        self._source = source
        self._f = f
        self._amplitude = amplitude
        self._normalize = normalize
        self._exact = self if exact is None else exact

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
        f = kernel.modulation(series_length(kernel, scale, SERIES_TAIL) + 1, scale)
        source = SeriesSource(graph, kernel.laplacian, f.size - 1, n_threads)
        exact = cls(source, f, amplitude, normalize=normalize)
        if sampler is None:
            return exact
        f = kernel.modulation(sampler.survival.max_length + 1, scale)
        sampled = SampledSource(graph, sampler, seed, n_threads, draw)
        return cls(sampled, f, amplitude, normalize=normalize, exact=exact)

    @property
    def max_length(self) -> int:
        """The largest power of the walk matrix in F."""
        return self._f.size - 1

    @property
    def exact(self) -> bool:
        """Whether the rows are the exact ones."""
        return self._exact is self

    def rows(self, nodes: np.ndarray) -> RootRows:
        """The rows of some nodes."""
        return RootRows(
            self._source(nodes), self._f, self._amplitude, normalize=self._normalize, height=self._source.height
        )

    def exact_rows(self, nodes: np.ndarray) -> RootRows:
        """The exact rows of some nodes."""
        return self._exact.rows(nodes)

    def root_values(self, nodes: np.ndarray, x: np.ndarray) -> np.ndarray:
        """E_q x at any nodes, with their exact rows E_q, for x of shape (N, p)."""
        return self.exact_rows(nodes).apply(x)
