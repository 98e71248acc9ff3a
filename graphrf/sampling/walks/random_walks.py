"""The sampler of random walks: their number, lengths and directions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from graphrf._base import checks
from graphrf.graph.graph import LAPLACIANS, Graph
from graphrf.sampling.block import Block
from graphrf.sampling.protocol import PreparedSampler
from graphrf.sampling.walks.batches import MOST_TOGETHER, new_desk
from graphrf.sampling.walks.lengths import LengthLaw, Rule, Stratified, Survival
from graphrf.sampling.walks.loops import walk_block
from graphrf.sampling.walks.transitions import Transitions, graph_transitions, transitions

DIRECTIONS = ("independent", "stratified")
# Counts of visits are stored in 16 bits.
MOST_WALKS = 65_535
# Visits of sources whose walks advance together: 256 KiB.
_VISITS_TOGETHER = 32_768


class AdaptiveLengths(ABC):
    """Interface of `lengths` that depend on the graph, such as `AutoLengths`."""

    @property
    @abstractmethod
    def laplacian(self) -> str:
        """Laplacian of the walks for which lengths are chosen."""

    @abstractmethod
    def law(self, graph: Graph, sampler: RandomWalks) -> LengthLaw:
        """The law of lengths for a sampler on a graph: a deterministic function of both."""


@dataclass(frozen=True)
class RandomWalks:
    """Random walks from every node: the sampler of graph random features.

    Each walk is a simple random walk whose steps go from u to v with probability A_uv / d_u, and
    whose length follows `lengths`, for any coupling among the walks of one node, so features are
    unbiased. Walks of different nodes are independent.

    Source: the paper (Reid et al. 2024), Sec. 4; stratified directions after Reid et al.,
    "Repelling random walks", ICLR 2024, generalised to weighted graphs and any number of walks.

    Parameters
    ----------
    n_walks : int
        m, walks from each node, 1 to 65,535; even for lengths coupled in pairs.
    lengths : LengthLaw or AdaptiveLengths
        `Stratified(0.1)` by default, which serves kernels of short and long range
        (`docs/benchmarks.md`); `IID`, `Antithetic`, `SigmaCoupled`, `Truncated`; or
        `AutoLengths(kernel)`, which chooses a distribution for each graph (`resolved`).
    directions : {"stratified", "independent"}
        How the walks of one node that stand together choose neighbours: by systematic sampling
        (fewer walks repeat each other) or independently (as in the paper).
    laplacian : {"normalized", "combinatorial"}
        The Laplacian of the kernels for which the features will be used. On graphs with hubs,
        combinatorial walks mostly stay where they are: prefer the series there.

    Examples
    --------
    >>> import graphrf as grf
    >>> walks = grf.RandomWalks(16, grf.sampling.SigmaCoupled(0.1), directions="independent")
    >>> walks.lengths, walks.laplacian
    (SigmaCoupled(0.1), 'normalized')
    """

    n_walks: int = 32
    lengths: LengthLaw | AdaptiveLengths = Stratified(0.1)  # noqa: RUF009 (it is immutable)
    directions: str = field(default="stratified", kw_only=True)
    laplacian: str = field(default="normalized", kw_only=True)

    def __post_init__(self) -> None:
        n_walks = checks.integer("n_walks", self.n_walks, low=1, high=MOST_WALKS)
        # Integers of numpy become Python's, which JSON supports.
        object.__setattr__(self, "n_walks", n_walks)
        if not isinstance(self.lengths, LengthLaw | AdaptiveLengths):
            way_out = "; pass Stratified(table)" if isinstance(self.lengths, Survival) else ""
            raise checks.type_error(
                "lengths",
                "must be a distribution such as IID(0.1), SigmaCoupled(0.1), Stratified(0.1), "
                "Truncated(8) or AutoLengths(kernel), got "
                f"{checks.describe(self.lengths)}{way_out}",
            )
        checks.choice("directions", self.directions, DIRECTIONS)
        checks.choice("laplacian", self.laplacian, LAPLACIANS)
        if isinstance(self.lengths, LengthLaw):
            self.lengths.check_walks(self.n_walks)
        elif self.lengths.laplacian != self.laplacian:
            raise checks.value_error(
                "lengths",
                f"must be chosen for walks of the {self.laplacian} Laplacian, got {self.lengths!r} "
                f"for those of the {self.lengths.laplacian} one; pass "
                f"laplacian={self.lengths.laplacian!r}",
            )

    @property
    def survival(self) -> Survival:
        """The survival table of `lengths`; for `AdaptiveLengths`, defined once `resolved`."""
        if not isinstance(self.lengths, LengthLaw):
            raise ValueError(
                f"{self.lengths!r} has a table for each graph: use sampler.resolved(graph).survival"
            )
        return self.lengths.survival

    def resolved(self, graph: Graph) -> RandomWalks:
        """This sampler with the lengths of `AdaptiveLengths` for the graph."""
        if isinstance(self.lengths, LengthLaw):
            return self
        return replace(self, lengths=self.lengths.law(graph, self))

    def prepare(self, graph: Graph, seed: int) -> PreparedWalks:
        """The sampler bound to a graph and a seed."""
        return PreparedWalks(self.resolved(graph), graph, seed)


def walk_transitions(graph: Graph, laplacian: str) -> Transitions:
    """The arrays of walks for kernels of a Laplacian."""
    adjacency = graph.walk_adjacency(laplacian)
    return graph_transitions(graph) if adjacency is graph.adjacency else transitions(adjacency)


class PreparedWalks(PreparedSampler):
    """A sampler bound to a graph and a seed: a pure function from sources to their visits."""

    remedy = "lower n_walks, raise p_halt"

    def __init__(self, sampler: RandomWalks, graph: Graph, seed: int) -> None:
        super().__init__(sampler, graph, seed)
        law = sampler.lengths
        assert isinstance(law, LengthLaw)
        self.law = law
        self.n_walks = sampler.n_walks
        self.transitions = walk_transitions(graph, sampler.laplacian)
        self._key = np.uint64(seed)
        self._permutations = law.permutations(sampler.n_walks)

    @property
    def visits_per_row(self) -> float:
        """Expected number of visits of a node's walks, before equal ones are merged."""
        return self.sampler.n_walks * (1.0 + self.survival.mean_length)

    @property
    def merged_per_row(self) -> tuple[float, float]:
        """Upper bounds on the expected entries (nodes) and visits (nodes and steps) of a row."""
        n_nodes = self.transitions.indptr.size - 1
        most_visits = n_nodes * (1.0 + self.survival.max_length)
        return min(self.visits_per_row, n_nodes), min(self.visits_per_row, most_visits)

    def working_bytes(self, n_rows: int) -> int:
        """Memory that `sample` takes for a block of rows."""
        stratified = self.sampler.directions == "stratified"
        row = self.merged_per_row[1] if stratified else self.visits_per_row
        batch = min(self._batch, n_rows)
        return int(10 * self._capacity(n_rows) + batch * (20 * row + 100 * self.sampler.n_walks))

    @property
    def _batch(self) -> int:
        """Number of sources whose walks advance together."""
        return max(
            1,
            int(min(MOST_TOGETHER / self.sampler.n_walks, _VISITS_TOGETHER / self.visits_per_row)),
        )

    def _capacity(self, n_rows: int) -> int:
        # Approximate maximum; memory left untouched by merging costs nothing.
        return int(n_rows * self.merged_per_row[1]) + 1024

    def sample(self, sources: np.ndarray) -> Block:
        """The visits of the walks from `sources`; runs without the interpreter lock."""
        # This avoids compilation for other arrays.
        if not (sources.flags.writeable and sources.flags.c_contiguous):
            sources = sources.copy()
        batch = max(1, min(self._batch, sources.size))
        weighted = self.transitions.cumulative.size > 0
        rows, visits, nodes, per_entry, steps, counts, n_entries, n_visits = walk_block(
            *self.transitions,
            sources,
            self.sampler.n_walks,
            int(self.law.rule),
            self.survival.table,
            self._permutations,
            self.sampler.directions == "stratified",
            self._key,
            new_desk(batch, self.sampler.n_walks, self.survival.max_length, weighted),
            self._capacity(sources.size),
        )
        return Block(
            rows,
            visits,
            nodes[:n_entries],
            per_entry[:n_entries],
            steps[:n_visits],
            counts[:n_visits],
        )

    def describe(self) -> dict[str, Any]:
        """The sampler's settings, for the description of features."""
        sampler = self.sampler
        return {
            "sampler": type(sampler).__name__,
            "n_walks": sampler.n_walks,
            "lengths": repr(self.law),
            "rule": Rule(self.law.rule).name.lower(),
            "directions": sampler.directions,
        }
