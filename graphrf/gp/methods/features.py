"""The method by the rows of sampled features."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

from graphrf._base.memory import NoRoomError, require_memory
from graphrf._base.warn import warn
from graphrf.features.features import Features
from graphrf.gp.covariance.covariance import WITHOUT_ROWS, Covariance, SampledSource
from graphrf.gp.methods.default_rows import LENGTHS, default_sampler, excess, long_enough, shortened
from graphrf.gp.methods.gram import SampledGram
from graphrf.gp.methods.protocol import Grams, TrainedKernel
from graphrf.gp.methods.rows import RowsMethod, longest
from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import Kernel
from graphrf.kernels.lengthscales import lengthscale_unit, longest_lengthscale
from graphrf.kernels.truncation import steps_needed
from graphrf.operators.factor import Factor
from graphrf.sampling.sample import sample_features

# How much larger than K_ii the squared norms of rows may be: training takes the rest for a signal
# that differs at every node, and its noise and intervals come out too small.
MOST_EXCESS = 0.25
# Nodes at which rows are drawn twice, to see how much of their norm is sampling error.
_DRAWN_TWICE = 128


class FeaturesMethod(RowsMethod):
    """K = F F^T by sampled rows F of the observed nodes.

    `sampler` None takes compressed powers of increasing length. The posterior holds the rows of
    `n_held` observed nodes, 0 where they are elsewhere.
    """

    name = "features"

    def __init__(self, graph: Graph, sampler: Any, n_threads: int | None, n_held: int) -> None:
        super().__init__(graph, n_threads)
        self._n_held = n_held
        # resolved once: the kernel that is trained does not change its lengths
        self.sampler = sampler.resolved(graph) if hasattr(sampler, "resolved") else sampler
        self._ended = ""

    @property
    def largest_block(self) -> int:
        """No limit."""
        return sys.maxsize

    def grams(
        self, members: Sequence[TrainedKernel], blocks: Sequence[np.ndarray], seed: int
    ) -> Iterator[Grams]:
        """K by rows of the given sampler, or by default rows that double their length while they
        fit.

        Kernels whose lengthscale is not trained have rows of the length that they need. NoRoomError
        if the shortest rows do not fit.
        """
        n_trained = sum(block.size for block in blocks)
        samplers = [self.sampler]
        if self.sampler is None and not any("lengthscale" in names for _, names in members):
            samplers = [self.sampler_for([kernel for kernel, _ in members], n_trained, None)]
        elif self.sampler is None:
            samplers = [
                default_sampler(members[0][0].laplacian, length, n_trained) for length in LENGTHS
            ]

        for sampler in samplers:
            sampled = self._sampled(sampler, blocks, seed)
            try:
                self._require_rows(sampled)
            except NoRoomError:
                if sampler is samplers[0]:
                    raise
                self._ended = ", as longer ones do not fit into memory"
                return
            yield self._grams(sampler, blocks, sampled, seed)

    def exact_grams(
        self, trained: Grams, kernel: Kernel, blocks: Sequence[np.ndarray], seed: int
    ) -> Grams:
        """Gram matrices from rows of the same sampler."""
        sampled = self._sampled(trained.sampler, blocks, seed)
        return self._grams(trained.sampler, blocks, sampled, seed)

    def check(self, kernel: Kernel, sampler: Any, observed: np.ndarray, seed: int) -> None:
        """Warn where rows end too early, or vary too much."""
        some = observed[
            np.linspace(0, observed.size - 1, min(observed.size, _DRAWN_TWICE)).astype(np.int64)
        ]
        sampled = self._sampled(sampler, [some], seed)
        self._require_rows(sampled)
        self._grams(sampler, [some], sampled, seed).check(kernel)

    def sampler_for(self, kernels: Sequence[Kernel], n_observed: int, trained: Any) -> Any:
        """The given one, or default rows that end where none of the kernels goes on."""
        if self.sampler is not None:
            return self.sampler
        laplacian = kernels[0].laplacian
        scale = self._graph.laplacian_scale(laplacian)
        if trained is None:
            length = max(steps_needed(kernel, scale) for kernel in kernels)
            return default_sampler(laplacian, min(length, LENGTHS[-1]), n_observed)
        return shortened(trained, kernels, scale)

    def covariances(
        self,
        kernels: Sequence[tuple[Kernel, float]],
        sampler: Any,
        seed: int,
        *,
        feature_sampler: Callable[..., Any] | None = None,
        normalize: bool = False,
        warns: bool = True,
    ) -> list[Covariance]:
        """Covariances by shared rows of the sampler; the exact rows are those of the series."""
        sampled = SampledSource(self._graph, sampler, seed, self._n_threads, feature_sampler)
        exact = super().covariances(kernels, sampler, seed, normalize=normalize, warns=warns)
        last = longest([kernel for kernel, _ in kernels])
        return [
            Covariance.by_samples(sampled, kernel, covariance, warns=warns and number == last)
            for number, ((kernel, _), covariance) in enumerate(zip(kernels, exact, strict=True))
        ]

    def limitation(self, kernel: Kernel) -> str:
        """The length and the variance of rows."""
        return (
            f"the longest that sampled rows support{self._ended}; pass a longer `sampler` or one "
            "with a larger budget, or method='series' (or 'precision' on a road network or a mesh)"
        )

    def _sampled(self, sampler: Any, blocks: Sequence[np.ndarray], seed: int) -> list[Features]:
        """Rows of all blocks, drawn at once, as binding a sampler to a large graph takes longer
        than a block.
        """
        every = blocks[0] if len(blocks) == 1 else np.unique(np.concatenate(blocks))
        features = self._draw(sampler, every, seed)
        return [features] if len(blocks) == 1 else [features.take(block) for block in blocks]

    def _draw(self, sampler: Any, nodes: np.ndarray, seed: int) -> Features:
        positions = self._graph.positions(nodes)
        return sample_features(
            self._graph,
            sampler,
            nodes=positions,
            seed=seed,
            n_threads=self._n_threads,
            dtype="float64",
        )

    def _require_rows(self, sampled: Sequence[Features]) -> None:
        """Raise NoRoomError if rows like these of all observed nodes, and their matrix, do not fit
        into memory.
        """
        held = sum(each.nbytes + each.nnz * each.dtype.itemsize for each in sampled)
        drawn = sum(each.shape[0] for each in sampled)
        require_memory(
            held * self._n_held / drawn,
            f"holding the sampled rows of {self._n_held} observed nodes",
            WITHOUT_ROWS,
        )

    def _grams(
        self, sampler: Any, blocks: Sequence[np.ndarray], sampled: Sequence[Features], seed: int
    ) -> Grams:
        """K by rows that were drawn for some blocks."""
        graph, n_threads = self._graph, self._n_threads
        scale, unit = (
            graph.laplacian_scale(sampler.laplacian),
            lengthscale_unit(graph, sampler.laplacian),
        )
        some = np.linspace(0, blocks[0].size - 1, min(blocks[0].size, _DRAWN_TWICE)).astype(
            np.int64
        )

        @cache
        def twice() -> tuple[Factor, Factor]:
            others = self._draw(sampler, blocks[0][some], seed ^ 1).factor(n_threads=n_threads)
            return sampled[0].factor(n_threads=n_threads).take(some), others

        def serves(kernel: Kernel) -> bool:
            if not long_enough(sampler, kernel, scale):
                return False
            return (
                excess(*twice(), kernel.modulation(sampler.survival.table.size, scale))
                <= MOST_EXCESS
            )

        @cache
        def longest_served(kernel: Kernel) -> float:
            return longest_lengthscale(kernel, serves, unit)

        def check(kernel: Kernel) -> None:
            sampled[0].matrix(
                kernel, n_threads=n_threads
            )  # which warns where rows and kernel do not fit
            share = excess(*twice(), kernel.modulation(sampler.survival.table.size, scale))
            if share > MOST_EXCESS and long_enough(sampler, kernel, scale):
                warn(
                    f"the sampled rows of {sampler!r} have squared norms that exceed the prior "
                    f"variances of {kernel!r} by {100 * share:.0f} % on average. This excess is "
                    "sampling variance, which the Gaussian process takes for a signal that differs "
                    "at every node, so that noise and intervals come out too small; pass a "
                    "`sampler` with a larger budget or more walks, a kernel of shorter range, or "
                    "method='series'"
                )

        grams = [SampledGram(features.factor(n_threads=n_threads), scale) for features in sampled]
        return Grams(grams, longest_served, sampler, check)
