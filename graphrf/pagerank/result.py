"""What PageRank returns: scores with the record of how they were found."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np

from graphrf import _checks
from graphrf.lengths import Coupling


@dataclass(frozen=True, eq=False)
class Ranking:
    """Scores of the nodes, which sum to 1; base of the results below.

    Attributes
    ----------
    scores : ndarray, shape (N,), float64, read-only
    p_halt : float
    nodes : sequence of N names, the positions if the graph has none
    """

    scores: np.ndarray
    p_halt: float
    nodes: Sequence[Hashable] = field(repr=False)

    def __post_init__(self) -> None:
        self.scores.setflags(write=False)

    def top(self, k: int = 10) -> list[tuple[Hashable, float]]:
        """The `k` largest scores with their nodes' names, largest first; ties in the order of the nodes."""
        k = min(_checks.integer("k", k, low=0), self.scores.size)
        order = np.argsort(-self.scores, kind="stable")[:k]
        return [(self.nodes[position], float(self.scores[position])) for position in order.tolist()]

    def _leader(self) -> str:
        name, score = self.top(1)[0]
        return f"top {name!r} {score:.4g}"


@dataclass(frozen=True, eq=False, repr=False)
class PageRankResult(Ranking):
    """Scores estimated by walks; see `graphrf.pagerank.pagerank`.

    Attributes
    ----------
    scores, p_halt, nodes : as in `Ranking`
    stderr : ndarray, shape (N,), float64, read-only, or None
        Standard error of each score from independent batches of walks, None with a single batch.
    walks, steps : int
        Walks started and steps taken, in all.
    seed : int
        Reproduces the result.
    estimator : str
    coupling : str or Coupling
    n_batches : int
        Independent batches; `stderr` has n_batches - 1 degrees of freedom.
    """

    stderr: np.ndarray | None
    walks: int
    steps: int
    seed: int
    estimator: str
    coupling: str | Coupling
    n_batches: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stderr is not None:
            self.stderr.setflags(write=False)

    def __repr__(self) -> str:
        return (
            f"PageRankResult({self.scores.size} nodes, {self.estimator}, {self.coupling}, "
            f"p_halt={self.p_halt:g}, {self.walks} walks, {self.steps} steps, {self._leader()})"
        )


@dataclass(frozen=True, eq=False, repr=False)
class PowerIterationResult(Ranking):
    """Exact scores; see `graphrf.pagerank.power_iteration`.

    Attributes
    ----------
    scores, p_halt, nodes : as in `Ranking`
    converged : bool
        Whether `error_bound` reached the tolerance.
    iterations : int
    residual : float
        L1 norm of the last change of the scores.
    """

    converged: bool
    iterations: int
    residual: float

    @property
    def error_bound(self) -> float:
        """Bound on the L1 error of the scores: residual (1 - p_halt) / p_halt."""
        return self.residual * (1 - self.p_halt) / self.p_halt

    def __repr__(self) -> str:
        state = "converged" if self.converged else "NOT converged"
        return (
            f"PowerIterationResult({self.scores.size} nodes, p_halt={self.p_halt:g}, {state} after "
            f"{self.iterations} iterations, error below {self.error_bound:.2g}, {self._leader()})"
        )
