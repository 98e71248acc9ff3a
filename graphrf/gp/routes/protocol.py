"""A route: one way to compute with a kernel, in training and in the posterior."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from graphrf.gp.routes.gram import Gram
from graphrf.kernels.kernel import Kernel
from graphrf.operators.precision.protocol import KernelPrecision

Trained = tuple[Kernel, tuple[str, ...]]
"""A kernel, and the names of its hyperparameters that are trained."""


class Grams(NamedTuple):
    """K among the nodes of some blocks, for any kernel with one Laplacian."""

    each: Sequence[Gram]  # one for each block
    longest: Callable[[Kernel], float]  # the longest lengthscale of a kernel that they serve
    sampler: Any = None  # of sampled rows
    check: Callable[[Kernel], None] = lambda kernel: None  # warns where they are far from a kernel

    def many(self, kernels: Sequence[Kernel]) -> list[np.ndarray]:
        """K of several kernels for each block, shape (kernels, m, m)."""
        return [gram.many(kernels) for gram in self.each]


class Route(Protocol):
    """The series, the sparse precision or sampled features."""

    name: str

    @property
    def precision(self) -> KernelPrecision | None:
        """The sparse precision of the posterior, of any of its kernels."""
        ...

    @property
    def largest_block(self) -> int:
        """The most nodes among which training may have K."""
        ...

    def grams(
        self, members: Sequence[Trained], blocks: Sequence[np.ndarray], seed: int
    ) -> Iterator[Grams]:
        """K for training on some blocks, of kernels that share their Laplacian.

        Each `Grams` serves longer lengthscales, at a higher cost, than the one before; most routes
        have one.
        """
        ...

    def exact_grams(
        self, like: Grams, kernel: Kernel, blocks: Sequence[np.ndarray], seed: int
    ) -> Grams:
        """K of a kernel with derivatives in all of its hyperparameters; `like` has the sampler of
        its rows.
        """
        ...

    def check(self, kernel: Kernel, sampler: Any, observed: np.ndarray, seed: int) -> None:
        """Warn where the posterior's rows are not near to a kernel of which nothing is trained."""
        ...

    def sampler_for(self, kernels: Sequence[Kernel], n_observed: int, trained: Any) -> Any:
        """The sampler of the posterior's rows, if there are any; `trained` is that of training, or
        None.
        """
        ...

    def limitation(self, kernel: Kernel) -> str:
        """Why lengthscales end, and which route serves longer ones."""
        ...
