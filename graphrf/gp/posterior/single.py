"""A posterior for one set of hyperparameters, which may be a part of a mixture."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np

from graphrf.gp.posterior.protocol import Law, Posterior

# Draws whose squares estimate variances, with a relative standard error of at most sqrt(2 / 64);
# that of deviations is half of it, 9 %.
N_DRAWS = 64


class SinglePosterior(Posterior):
    """Laws and draws from the other methods of `Posterior`, and variances of several posteriors
    from the same observations at once.
    """

    @classmethod
    @abstractmethod
    def variances_of(
        cls, parts: Sequence[Self], nodes: np.ndarray, bar: Any, n_threads: int | None
    ) -> list[np.ndarray]:
        """The variances of several posteriors, by what they share."""

    @abstractmethod
    def sampled_variances(
        self, rng: np.random.Generator, bar: Any = None, n_draws: int = N_DRAWS
    ) -> np.ndarray:
        """Variances at all N nodes, by so many draws where exact ones cost more."""

    @classmethod
    @abstractmethod
    def sampled_variances_of(
        cls, parts: Sequence[Self], numbers: Sequence[int], rng: np.random.Generator, bar: Any
    ) -> list[np.ndarray]:
        """The sampled variances of several posteriors, by a number of draws for each."""

    @abstractmethod
    def draw_blocks(
        self, nodes: np.ndarray, n_samples: int, rng: np.random.Generator
    ) -> Iterator[tuple[slice, np.ndarray]]:
        """Joint draws of f + H beta, a few at a time, (these, q, p).

        A draw is one function on the whole graph: `rng` advances alike for all nodes.
        """

    def laws(
        self, nodes: np.ndarray, rng: np.random.Generator | None, bar: Any = None
    ) -> list[Law]:
        """The distribution at each node, of probability 1; with `rng`, of sampled variances."""
        means = self.means(nodes)
        if rng is None:
            return [Law(1.0, means, self.variances(nodes, bar))]
        return [Law(1.0, means, self.sampled_variances(rng, bar)[nodes])]

    def draws_and_parts(
        self, nodes: np.ndarray, n_samples: int, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Joint draws, (n_samples, q, p), all of them of the part 0."""
        draws = np.empty((n_samples, nodes.size, self.n_outputs))
        for numbers, block in self.draw_blocks(nodes, n_samples, rng):
            draws[numbers] = block
        return draws, np.zeros(n_samples, dtype=np.int64)
