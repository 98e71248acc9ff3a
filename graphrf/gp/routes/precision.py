"""The route by the sparse precision of a kernel."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from graphrf.gp.routes.gram import PrecisionGram
from graphrf.gp.routes.protocol import Grams, Trained
from graphrf.gp.routes.resolvents import ResolventFit, resolvents_between
from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import Kernel
from graphrf.kernels.lengthscales import lengthscale_unit, longest_lengthscale
from graphrf.operators.precision.markov import SparsePrecision
from graphrf.operators.precision.protocol import KernelPrecision


class PrecisionRoute:
    """Sparse Cholesky factors of areal kernels and of Matern kernels of (half-)integer order."""

    name = "precision"

    def __init__(self, graph: Graph, precision: KernelPrecision, n_threads: int | None) -> None:
        self._graph = graph
        self.precision: KernelPrecision | None = precision
        self._own = precision
        self._n_threads = n_threads

    @property
    def largest_block(self) -> int:
        """No limit."""
        return sys.maxsize

    def grams(
        self, members: Sequence[Trained], blocks: Sequence[np.ndarray], seed: int
    ) -> Iterator[Grams]:
        """One: resolvents for functions of the Laplacian, else a factor for each set of
        hyperparameters.
        """
        (kernel, _), own = members[0], self._own
        if isinstance(own, SparsePrecision) and "lengthscale" in kernel.hyperparameters:
            unit = lengthscale_unit(self._graph, kernel.laplacian)
            fit = ResolventFit(self._graph, kernel.laplacian)
            tables = resolvents_between(own, fit, blocks, self._n_threads)

            def longest(kernel: Kernel) -> float:
                return longest_lengthscale(kernel, own.serves, unit)

            yield Grams(tables, longest)
            return
        yield Grams([PrecisionGram(own, block) for block in blocks], lambda kernel: np.inf)

    def exact_grams(
        self, like: Grams, kernel: Kernel, blocks: Sequence[np.ndarray], seed: int
    ) -> Grams:
        """Gram matrices from a factor for each set of hyperparameters."""
        return Grams([PrecisionGram(self._own, block) for block in blocks], like.longest)

    def check(self, kernel: Kernel, sampler: Any, observed: np.ndarray, seed: int) -> None:
        """The posterior itself warns where it is not exact."""

    def sampler_for(self, kernels: Sequence[Kernel], n_observed: int, trained: Any) -> None:
        """None: there are no sampled rows."""

    def limitation(self, kernel: Kernel) -> str:
        """Rounding."""
        return (
            "the longest at which the sparse precision is not numerically singular; pass "
            "method='series', or bring the weights closer together"
        )
