"""The method by the exact series of the walk matrix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from graphrf._base.warn import warn
from graphrf.gp.covariance.covariance import Covariance
from graphrf.gp.covariance.rows import RootRows
from graphrf.gp.methods.costs import SERIES_SPEED, TRAINED, column_products, is_thick
from graphrf.gp.methods.gram import SeriesGram
from graphrf.gp.methods.protocol import Grams, TrainedKernel
from graphrf.gp.methods.resolvents import ResolventFit, resolvents_between
from graphrf.gp.methods.rows import RowsMethod
from graphrf.gp.model.fitted_model import FittedModel
from graphrf.gp.model.numerics import Numerics
from graphrf.gp.model.progress import Step
from graphrf.gp.posterior.spectral_solver import SpectralCG, evenly_observed
from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import Kernel
from graphrf.kernels.lengthscales import LENGTHSCALES, lengthscale_unit
from graphrf.operators.precision.markov import SparsePrecision
from graphrf.operators.solvers import IterativeSolver
from graphrf.operators.sparse.ordering import FactorTooLargeError

# Numbers that the tables of training may hold (512 MB), and the multiply-adds that they may cost
# (ten seconds on two cores), by which their largest degree is chosen between the fewest and the
# most.
_TABLE_NUMBERS = 64_000_000
_TABLE_PRODUCTS = 2e10
_FEWEST_DEGREES = 64
# Numbers in the columns of a block, and the fewest nodes that are trained on.
_COLUMN_NUMBERS, _FEWEST_NODES = 100_000_000, 50
_LARGEST_DEGREE = 1_000
# Factors by which tables have more degrees, while the data favour the longest lengthscale.
_LONGER = (1, 2, 4, 8)
# The fraction of the kernel's norm that tables may lack without a warning.
_MUCH_LOST = 1e-3


class SeriesMethod(RowsMethod):
    """K by Chebyshev polynomials of the walk matrix, or in training by resolvents where these cost
    less.
    """

    name = "series"

    @property
    def largest_block(self) -> int:
        """Nodes whose columns of products fit into 1.6 GB, twice."""
        return max(_FEWEST_NODES, _COLUMN_NUMBERS // self._graph.n_nodes)

    def grams(
        self, members: Sequence[TrainedKernel], blocks: Sequence[np.ndarray], seed: int
    ) -> Iterator[Grams]:
        """Tables of resolvents, or of Chebyshev polynomials of growing degree, at the nodes of each
        block.
        """
        graph, laplacian = self._graph, members[0][0].laplacian
        unit = lengthscale_unit(graph, laplacian)
        fit = ResolventFit(graph, laplacian)
        if all(fit.serves(kernel) for kernel in _extremes(members, unit)):
            precision = _cheap_precision(graph, fit)
            if precision is not None:
                tables = resolvents_between(precision, fit, blocks, self._n_threads)
                yield Grams(tables, lambda kernel: LENGTHSCALES[1] * unit)
                return
        yield from self._chebyshev(laplacian, blocks)

    def exact_grams(
        self, trained: Grams, kernel: Kernel, blocks: Sequence[np.ndarray], seed: int
    ) -> Grams:
        """Gram matrices from tables of Chebyshev polynomials."""
        held = [gram for gram in trained.each if isinstance(gram, SeriesGram)]
        if len(held) == len(blocks) and all(
            np.array_equal(gram.nodes, block) for gram, block in zip(held, blocks, strict=True)
        ):
            return trained
        least = max((gram.max_degree for gram in held), default=0)
        return next(self._chebyshev(kernel.laplacian, blocks, least))

    def _chebyshev(
        self, laplacian: str, blocks: Sequence[np.ndarray], least: int = 0
    ) -> Iterator[Grams]:
        """Tables of at least some degrees, or so many that they cost little, then the same with
        more and more, as far as there is room.
        """
        degree, most = (
            max(each, least) for each in (held_degrees(self._graph, blocks), _most_degrees(blocks))
        )
        unit = lengthscale_unit(self._graph, laplacian)
        tables = [
            SeriesGram(self._graph, laplacian, block, max_degree=degree, n_threads=self._n_threads)
            for block in blocks
        ]

        def check(kernel: Kernel) -> None:
            if (lost := tables[0].lost(kernel)) > _MUCH_LOST:
                warn(
                    f"training cut the series of {kernel!r} after {tables[0].max_degree} Chebyshev "
                    f"terms: its covariance is off by up to {lost:.1g} of the kernel's norm, which "
                    "may affect the hyperparameters; shorten the lengthscale, or bring the weights "
                    "closer together"
                )

        for longer in dict.fromkeys(min(times * degree, most) for times in _LONGER):
            for table in tables:
                table.extend(longer)
            yield Grams(tables, lambda kernel: tables[0].longest(kernel, unit), check=check)

    def check(self, kernel: Kernel, sampler: Any, observed: np.ndarray, seed: int) -> None:
        """The posterior itself warns where it is not exact."""

    def sampler_for(self, kernels: Sequence[Kernel], n_observed: int, trained: Any) -> None:
        """None: there are no sampled rows."""

    def _iterative_solver(
        self,
        part: FittedModel,
        covariance: Covariance,
        rows: RootRows,
        numerics: Numerics,
        step: Step | None,
    ) -> IterativeSolver:
        """Conjugate gradients on all nodes with a filter where they are observed evenly."""
        graph, nodes = self._graph, part.observations.nodes
        every = np.arange(graph.n_nodes)

        def smooth(x: np.ndarray) -> np.ndarray:
            return covariance.root_values(every, covariance.root_values(every, x))

        if not evenly_observed(smooth, nodes, graph.n_nodes):
            return super()._iterative_solver(part, covariance, rows, numerics, step)
        series = covariance.series
        return SpectralCG(
            graph,
            part.kernel,
            part.amplitude,
            rows,
            part.noise / part.observations.counts,
            nodes,
            rough=None if series is None else series.rough,
            step=step,
            tol=float(numerics.tol),
            max_iterations=int(numerics.max_iterations),
            n_threads=self._n_threads,
        )

    def limitation(self, kernel: Kernel) -> str:
        """The degree of the series."""
        return (
            "the longest that training by the series supports; pass method='precision' on a road "
            "network or a mesh, name a smoother kernel, bring the weights closer together, or fix "
            "the lengthscale (optimize=False)"
        )


def _cheap_precision(graph: Graph, fit: ResolventFit) -> SparsePrecision | None:
    """A sparse precision whose factors are cheaper than Chebyshev tables; None if there is none."""
    if is_thick(graph):
        return None
    try:
        precision = SparsePrecision(graph, fit.resolvents[-1])
        seconds = precision.own_elimination.seconds
    except (FactorTooLargeError, ImportError, ValueError):
        return None
    by_factors = len(fit.resolvents) * seconds
    return precision if by_factors < column_products(graph, TRAINED) / SERIES_SPEED else None


def held_degrees(graph: Graph, blocks: Sequence[np.ndarray]) -> int:
    """The largest degree of Chebyshev tables at some blocks of nodes that cost little."""
    products = sum(block.size for block in blocks) * max(graph.adjacency.nnz, 1)
    return min(_most_degrees(blocks), max(_FEWEST_DEGREES, int(_TABLE_PRODUCTS / products)))


def _most_degrees(blocks: Sequence[np.ndarray]) -> int:
    """The largest degree of tables at some blocks of nodes for which there is room."""
    pairs = sum(block.size * (block.size + 1) / 2 for block in blocks)
    return int(np.clip(_TABLE_NUMBERS / pairs, _FEWEST_DEGREES, _LARGEST_DEGREE))


def _extremes(members: Sequence[TrainedKernel], unit: float) -> Iterator[Kernel]:
    """Each kernel as it is, or with the shortest and the longest lengthscale if that is trained."""
    for kernel, names in members:
        if "lengthscale" in names:
            for end in LENGTHSCALES:
                yield kernel.replace(lengthscale=end * unit)
        else:
            yield kernel
