"""What PageRank returns: scores with the record of how they were found."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from graphrf import _checks
from graphrf.lengths import Coupling

# What rounding adds to an iteration of power iteration, in L1 norm; changes below it are rounding alone.
ITERATION_ROUNDING = 2.0**-50


def iteration_bound(change: Any, p_halt: float) -> Any:
    """A bound on the L1 error of scores that the last iteration changed by so much (a number or an array)."""
    return np.minimum(((1 - p_halt) * change + ITERATION_ROUNDING) / p_halt, 2.0)


@dataclass(frozen=True, eq=False)
class Ranking:
    """Scores of the nodes, which sum to 1; base of the results below.

    Attributes
    ----------
    scores : ndarray, shape (N,), float64, read-only; (n, N) for several personalisation vectors
    p_halt : float
    nodes : sequence of N names, the positions if the graph has none
    """

    scores: np.ndarray
    p_halt: float
    nodes: Sequence[Hashable] = field(repr=False)

    def __post_init__(self) -> None:
        self.scores.setflags(write=False)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()  # pickles forget that arrays are read-only

    def top(self, k: int = 10) -> Any:
        """The `k` largest scores with their nodes' names, largest first; ties in the order of the nodes.

        A list of pairs (name, score); a list of such lists for several personalisation vectors.
        """
        k = min(_checks.integer("k", k, low=0), self.scores.shape[-1])
        if self.scores.ndim == 2:
            return [self._top(row, k) for row in self.scores]
        return self._top(self.scores, k)

    def _top(self, scores: np.ndarray, k: int) -> list[tuple[Hashable, float]]:
        order = np.argsort(-scores, kind="stable")[:k]
        return [(self.nodes[position], float(scores[position])) for position in order.tolist()]

    def _size(self) -> str:
        """The graph's size, and the number of vectors where there are several."""
        size = f"{self.scores.shape[-1]} nodes"
        return size if self.scores.ndim == 1 else f"{len(self.scores)} vectors on {size}"

    def _leader(self) -> str:
        if self.scores.ndim == 2 and len(self.scores) == 0:
            return "no scores"
        name, score = self._top(self.scores if self.scores.ndim == 1 else self.scores[0], 1)[0]
        return f"top {name!r} {score:.4g}"


def expected_l1_error(stderr: np.ndarray, n_batches: int) -> float:
    r"""The expected L1 error of scores whose standard errors were estimated from `n_batches` batches.

    .. math:: E \sum_i |\hat\rho_i - \rho_i| = \sqrt{2 / \pi} \sum_i \sigma_i

    for normal errors; a standard deviation estimated with n - 1 degrees of freedom is too small by the factor
    c_4(n) = sqrt(2 / (n - 1)) Gamma(n / 2) / Gamma((n - 1) / 2) on average, which is divided out.
    """
    half = n_batches / 2
    bias = math.sqrt(1 / (half - 0.5)) * math.exp(math.lgamma(half) - math.lgamma(half - 0.5))
    return math.sqrt(2 / math.pi) * float(stderr.sum()) / bias


@dataclass(frozen=True, eq=False, repr=False)
class PageRankResult(Ranking):
    """Scores estimated by walks; see `graphrf.pagerank.pagerank`.

    Attributes
    ----------
    scores, p_halt, nodes : as in `Ranking`
    stderr : ndarray, shape (N,), float64, read-only, or None
        Standard error of each score from independent batches of walks, None with a single batch. Shape (n, N)
        for several personalisation vectors.
    l1_error : float, or ndarray of shape (n,), or None
        The expected L1 error of the scores, stated from `stderr`.
    walks, steps : int
        Walks started and steps taken, in all.
    seed : int
        Reproduces the result.
    estimator : str
    coupling : str or Coupling
    exact_steps : int
        First steps that all walks took at once, exactly; not counted in `steps`.
    n_batches : int
        Independent batches; `stderr` has n_batches - 1 degrees of freedom. The fewest of several vectors.
    """

    stderr: np.ndarray | None
    l1_error: float | np.ndarray | None
    walks: int
    steps: int
    seed: int
    estimator: str
    coupling: str | Coupling
    exact_steps: int
    n_batches: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stderr is not None:
            self.stderr.setflags(write=False)

    def __repr__(self) -> str:
        return (
            f"PageRankResult({self._size()}, {self.estimator}, {self.coupling}, "
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
        """Bound on the L1 error of the scores: ((1 - p_halt) residual + 9e-16) / p_halt, the last for rounding.

        2 at most, which no two vectors of scores exceed.
        """
        return float(iteration_bound(self.residual, self.p_halt))

    def __repr__(self) -> str:
        state = "converged" if self.converged else "NOT converged"
        return (
            f"PowerIterationResult({self._size()}, p_halt={self.p_halt:g}, {state} after "
            f"{self.iterations} iterations, error below {self.error_bound:.2g}, {self._leader()})"
        )
