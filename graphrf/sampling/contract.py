"""What makes a sampler: the contract between `sample_features` and the ways to sample."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from graphrf.graph.graph import Graph
from graphrf.sampling.joined import Block
from graphrf.sampling.walks.lengths import Survival


class Sampler(Protocol):
    """Settings of a way to estimate rows of F = sum_k f_k W^k: `RandomWalks`, `CompressedPowers` and its kin.

    A class with these two attributes and this method can be passed wherever they can. A sampler whose settings
    depend on the graph has a method `resolved(graph)` beside, which returns it with these settings fixed: a
    Gaussian process calls it once, so that training does not change them.
    """

    @property
    def laplacian(self) -> str:
        """Whose kernels the features will serve: "normalized" or "combinatorial"."""
        ...

    @property
    def survival(self) -> Survival:
        """S(k), by which what is recorded at step k is divided; its end says how long walks are."""
        ...

    def prepare(self, graph: Graph, seed: int) -> Prepared:
        """The sampler bound to a graph and a seed."""
        ...


class Prepared(Protocol):
    r"""A sampler bound to a graph and a seed: a function from source nodes to their records.

    A record holds c_ivk for source i, node v and step k, such that

    .. math:: \frac{E[c_{ivk}]}{m \, S(k)} \sqrt{\frac{d_i}{d_v}} = (W^k)_{iv}, \qquad m = \text{n_walks},

    so c_ivk / (m S(k)) estimates the probability that a random walk from i stands on v after k steps: of walks c
    counts those that do, of powers it is that probability, with m = S(k) = 1. d = `degrees`, all > 0, for the
    normalised Laplacian; for the combinatorial one W itself holds the probabilities, and `degrees` is None.
    A source's record depends on the seed and the source, not on other sources; `sample` may run in threads.
    """

    sampler: Any
    survival: Survival
    scale: float
    # d of every node, an isolated one having any positive number; None for the combinatorial Laplacian.
    degrees: np.ndarray | None
    # The type of c_ivk, uint16 or float32; bytes of a row beside the record; and what to lower, in words, when
    # memory does not suffice.
    counts_dtype: np.dtype[Any]
    row_bytes: int
    remedy: str

    @property
    def n_walks(self) -> int:
        """What counts are divided by."""
        ...

    @property
    def visits_per_row(self) -> float:
        """Expected work of a row: what sizes blocks."""
        ...

    @property
    def merged_per_row(self) -> tuple[float, float]:
        """Entries (nodes) and values (nodes and steps) of a row, expected or at most."""
        ...

    def working_bytes(self, n_rows: int) -> int:
        """Memory that `sample` takes for a block of rows."""
        ...

    def sample(self, sources: np.ndarray) -> Block:
        """The record of `sources`.

        Powers come with their multiply-adds. Where a row's nodes were left out, the others being exact, they come
        with the Euclidean norm of what that took from each row of W^k (not of the probabilities).
        """
        ...

    def describe(self) -> dict[str, Any]:
        """The sampler's settings, in types that JSON knows."""
        ...
