"""The prior covariance among observed and query nodes, by the rows of its features at
any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from graphrf._base.cached import cached_property
from graphrf._base.memory import NoRoomError
from graphrf.features.bounds import tail_error
from graphrf.features.error import warn_of_diagonal
from graphrf.features.factor import FeatureFactor
from graphrf.gp.covariance.root_series import root_series
from graphrf.gp.covariance.rows import RootRows
from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import Kernel
from graphrf.operators.factor import Factor
from graphrf.operators.precision.factor import PrecisionFactor
from graphrf.operators.precision.protocol import KernelPrecision
from graphrf.operators.series.chebyshev_sums import ChebyshevSum, shared_blocks, shared_diagonals
from graphrf.operators.series.series_factor import SeriesFactor
from graphrf.sampling.sample import sample_features

# The way out where sampled rows do not fit into memory.
WITHOUT_ROWS = (
    "observe fewer nodes, pass a `sampler` of a smaller budget, or method='series', or on roads "
    "and meshes method='precision'"
)
# Time of a moment of the recurrence for diagonals relative to a step of that for columns: 0.6 to
# 0.85 measured on graphs of 3 to 15 neighbours per node.
_MOMENT = 0.75
# Numbers in the matrices of several covariances that are made together, 512 MB.
_SHARED_NUMBERS = 64_000_000


class FactorSource(Protocol):
    """Source of the factor's rows of any nodes."""

    height: int  # intermediate values of a dense column of the covariance

    def __call__(self, nodes: np.ndarray) -> Factor:
        """The rows of nodes; the same rows for a node every time."""
        ...


class SeriesSource:
    """Exact rows, never formed: they are applied by sparse products over the whole graph, however
    few they are.
    """

    def __init__(
        self, graph: Graph, kernel: Kernel, n_threads: int | None = None, warns: bool = True
    ) -> None:
        self._all, self.modulation, self.error, self.lacks = root_series(
            graph, kernel, n_threads, warns
        )
        self.laplacian: str = kernel.laplacian
        self.height: int = graph.n_nodes

    def __call__(self, nodes: np.ndarray) -> SeriesFactor:
        return self._all.take(nodes)

    def rough(self, tol: float) -> ChebyshevSum:
        """F among all nodes, with an error of `tol` at most in operator norm."""
        return self._all.rough(self.modulation, tol)

    @cached_property
    def square(self) -> ChebyshevSum:
        """K among all nodes, before the amplitude multiplies it."""
        return self._all.square(self.modulation)


class PrecisionSource:
    """Exact rows R with R R^T = K, of a sparse Cholesky factor of K^-1: a modulation of one
    coefficient, 1.
    """

    def __init__(self, precision: KernelPrecision) -> None:
        self._cholesky = precision.factor()
        self.height: int = precision.n_nodes

    def __call__(self, nodes: np.ndarray) -> PrecisionFactor:
        return PrecisionFactor(self._cholesky, nodes)


class SampledSource:
    """Sampled rows, which depend on the seed and their node only; `feature_sampler` may make them
    elsewhere.

    The last requested rows are kept, since kernels of one Laplacian share them.
    """

    height = 0

    def __init__(
        self,
        graph: Graph,
        sampler: Any,
        seed: int,
        n_threads: int | None = None,
        feature_sampler: Callable[..., Any] | None = None,
    ) -> None:
        self.graph = graph
        self.sampler = sampler
        self._seed = seed
        self._n_threads = n_threads
        self._sample_features = sample_features if feature_sampler is None else feature_sampler
        self._last: tuple[np.ndarray, Factor] | None = None

    def __call__(self, nodes: np.ndarray) -> Factor:
        last = self._last  # read once and replaced whole: another thread may be doing the same
        if last is None or not np.array_equal(last[0], nodes):
            try:
                features = self._sample_features(
                    self.graph,
                    self.sampler,
                    nodes=self.graph.positions(nodes),
                    seed=self._seed,
                    n_threads=self._n_threads,
                    dtype="float64",
                )
            except NoRoomError as error:
                raise NoRoomError(f"{error}; for a Gaussian process, {WITHOUT_ROWS}") from None

            last = nodes.copy(), features.factor(n_threads=self._n_threads)
            self._last = last
        return last[1]


class Covariance:
    """K = amplitude F F^T over nodes, or D K D with D_ii = 1 / |F_i| if `normalize`, by the rows of
    F.

    `f` is the modulation, `error` an operator-norm bound of what the truncated F F^T lacks, and
    `exact` the covariance of the exact rows, where those of the source are sampled.
    """

    def __init__(
        self,
        source: FactorSource,
        f: np.ndarray,
        amplitude: float,
        *,
        error: float = 0.0,
        normalize: bool = False,
        exact: Covariance | None = None,
    ) -> None:
        self._source = source
        self._f = f
        self.amplitude = amplitude
        self._normalize = normalize

        self._exact = self if exact is None else exact
        self.error = error
        self.lacks: tuple[np.ndarray, np.ndarray] | None = None
        self._sampled_kernel: tuple[Kernel, float] | None = None

    @classmethod
    def by_series(
        cls,
        graph: Graph,
        kernel: Kernel,
        amplitude: float,
        *,
        n_threads: int | None,
        normalize: bool = False,
        warns: bool = True,
    ) -> Covariance:
        """The covariance of a kernel by its series; one that lacks a hundredth is warned of if
        `warns`.
        """
        series = SeriesSource(graph, kernel, n_threads, warns)
        result = cls(series, series.modulation, amplitude, error=series.error, normalize=normalize)
        result.lacks = series.lacks
        return result

    @classmethod
    def by_samples(
        cls, sampled: SampledSource, kernel: Kernel, exact: Covariance, *, warns: bool = True
    ) -> Covariance:
        """The covariance of a kernel by sampled rows, beside the exact one by its series."""
        scale = sampled.graph.laplacian_scale(kernel.laplacian)
        length = sampled.sampler.survival.max_length
        f, error = kernel.modulation(length + 1, scale), tail_error(kernel, length, scale)
        normalize = exact._normalize
        result = cls(sampled, f, exact.amplitude, error=error, normalize=normalize, exact=exact)
        if warns:
            result._sampled_kernel = kernel, scale
        return result

    @classmethod
    def by_precision(
        cls, precision: KernelPrecision, amplitude: float, *, normalize: bool = False
    ) -> Covariance:
        """The covariance of a kernel by a factor of its sparse precision."""
        return cls(PrecisionSource(precision), np.ones(1), amplitude, normalize=normalize)

    def cut(self, noise: float) -> float:
        """Largest change, relative to K + noise, that cutting the exact root's series makes to an
        eigenvalue.
        """
        if self._exact.lacks is None:
            return 0.0
        values, lack = self._exact.lacks
        return float(
            (self.amplitude * np.abs(lack) / (self.amplitude * np.maximum(values, 0) + noise)).max()
        )

    @property
    def exact(self) -> bool:
        """True if the rows are the exact ones."""
        return self._exact is self

    @property
    def series(self) -> SeriesSource | None:
        """Source of the rows, if they are of an exact series that is neither cut nor normalised;
        else None.
        """
        whole = self.exact and self.lacks is None and not self._normalize
        return self._source if whole and isinstance(self._source, SeriesSource) else None

    def block(self, rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
        """K[rows, cols] of a `series`, dense, by the columns of whichever are fewer."""
        assert self.series is not None
        block = self.series.square.block(rows, cols)
        block *= self.amplitude
        return block

    def rows(self, nodes: np.ndarray) -> RootRows:
        """The rows of some nodes; of sampled ones, with a warning where a variance is larger than
        any can be.
        """
        factor = self._source(nodes)
        if self._sampled_kernel is not None:
            diagonal = factor.diagonal(self._f)
            if warn_of_diagonal(nodes, diagonal, *self._sampled_kernel):
                self._sampled_kernel = None  # once is enough
        return RootRows(
            factor, self._f, self.amplitude, normalize=self._normalize, height=self._source.height
        )

    def exact_rows(self, nodes: np.ndarray) -> RootRows:
        """The exact rows of some nodes."""
        return self._exact.rows(nodes)

    def rough_root(self, tol: float) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        """`root_values` for sorted distinct nodes; of sampled rows with an operator-norm error of
        `tol`.
        """
        exact = self._exact
        if self.exact or exact._normalize or not isinstance(exact._source, SeriesSource):
            return self.root_values
        rough, root = exact._source.rough(tol), np.sqrt(exact.amplitude)

        def values(nodes: np.ndarray, x: np.ndarray) -> np.ndarray:
            every = rough(x)
            # In double precision, as squares of values may not fit into single precision.
            return np.multiply(
                root, every if nodes.size == x.shape[0] else every[nodes], dtype=np.float64
            )

        return values

    def root_values(self, nodes: np.ndarray, x: np.ndarray) -> np.ndarray:
        """E_q x at any nodes, with their exact rows E_q, for x of shape (N, p)."""
        return self.exact_rows(nodes).apply(x)


def shared_matrices(
    covariances: Sequence[Covariance], nodes: np.ndarray
) -> list[np.ndarray | None]:
    """K among distinct nodes, dense, by one recurrence or one `RowPairs` for all series of one
    Laplacian.

    None for a covariance that shares with no other, and for all where they would take more than 512
    MB.
    """
    result: list[np.ndarray | None] = [None] * len(covariances)
    if len(covariances) * nodes.size**2 > _SHARED_NUMBERS:
        return result
    source = covariances[0]._source
    drawn = source(nodes) if len(covariances) > 1 and isinstance(source, SampledSource) else None
    if isinstance(drawn, FeatureFactor):
        pairs = drawn.pairs()
        return [each.amplitude * pairs(each._f, ())[0] for each in covariances]
    for numbers, sums in _of_one_laplacian(covariances):
        if len(numbers) > 1:
            for number, block in zip(numbers, shared_blocks(sums, nodes, nodes), strict=True):
                block *= covariances[number].amplitude
                result[number] = block
    return result


def shared_variances(
    covariances: Sequence[Covariance], nodes: np.ndarray, n_observed: int
) -> list[np.ndarray | None]:
    """Prior variances of distinct nodes, by one recurrence for all series of one Laplacian.

    None where columns of K at the nodes, which hold them, take fewer products.
    """
    result: list[np.ndarray | None] = [None] * len(covariances)
    for numbers, sums in _of_one_laplacian(covariances):
        degrees = [each.degree for each in sums]
        if n_observed * sum(degrees) + _MOMENT * nodes.size * max(degrees) < nodes.size * sum(
            degrees
        ):
            for number, diagonal in zip(numbers, shared_diagonals(sums, nodes), strict=True):
                result[number] = covariances[number].amplitude * diagonal
    return result


def _of_one_laplacian(
    covariances: Sequence[Covariance],
) -> list[tuple[list[int], list[ChebyshevSum]]]:
    """Positions of the covariances that have a `series`, and their K as Chebyshev sums, for each
    Laplacian.
    """
    result: dict[str, tuple[list[int], list[ChebyshevSum]]] = {}
    for number, covariance in enumerate(covariances):
        if covariance.series is not None:
            numbers, sums = result.setdefault(covariance.series.laplacian, ([], []))
            numbers.append(number)
            sums.append(covariance.series.square)
    return list(result.values())
