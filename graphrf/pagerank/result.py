"""Results of PageRank: scores with the record of their computation."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from graphrf._base import checks, html
from graphrf.sampling.walks.coupling import Coupling

if TYPE_CHECKING:
    from graphrf.graph.graph import Graph

# Rounding error of an iteration of power iteration in L1 norm; smaller changes are rounding errors.
ITERATION_ROUNDING = 2.0**-50


def iteration_bound(change: Any, p_halt: float) -> Any:
    """A bound on the L1 error of scores after an iteration with this change (or changes)."""
    with np.errstate(over="ignore"):  # of p_halt near the least number
        return np.minimum(((1 - p_halt) * change + ITERATION_ROUNDING) / p_halt, 2.0)


@dataclass(frozen=True, eq=False, repr=False)
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
    nodes: Sequence[Hashable]

    def __post_init__(self) -> None:
        self.scores.setflags(write=False)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()  # pickle drops read-only flags

    def top(self, k: int = 10) -> Any:
        """The `k` largest scores with nodes' names, largest first; ties in the nodes' order.

        A list of pairs (name, score); a list of such lists for several personalisation vectors.
        """
        k = min(checks.integer("k", k, low=0), self.scores.shape[-1])
        if self.scores.ndim == 2:
            return [self._top(row, k) for row in self.scores]
        return self._top(self.scores, k)

    def _top(self, scores: np.ndarray, k: int) -> list[tuple[Hashable, float]]:
        order = _largest(scores, k).tolist()
        return [(self.nodes[position], float(scores[position])) for position in order]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._facts()}, {self._leader()})"

    def _repr_html_(self) -> str:
        """A table of the top nodes for notebooks, with standard errors where there are any."""
        header, rows = self._top_shown()
        return html.table(f"{type(self).__name__}: {self._facts()}", rows, header)

    def _top_shown(self) -> tuple[list[str], list[list[Any]]]:
        """Header and rows of that table: ten nodes, or three of each of the first five."""
        single = self.scores.ndim == 1
        errors = getattr(self, "stderr", None)
        rows: list[list[Any]] = []
        for number, scores in enumerate(self.scores[None] if single else self.scores[:5]):
            for position in _largest(scores, 10 if single else 3).tolist():
                row: list[Any] = [] if single else [str(number)]
                row += [html.short_name(self.nodes[position]), float(scores[position])]
                if errors is not None:
                    row.append(float(np.atleast_2d(errors)[number, position]))
                rows.append(row)
        header = [] if single else ["vector"]
        return [*header, "node", "score", *([] if errors is None else ["standard error"])], rows

    def _facts(self) -> str:
        """Facts about the result for its representation."""
        return self._size()

    def _size(self) -> str:
        """The graph's size, and the number of vectors if there are several."""
        size = f"{self.scores.shape[-1]} nodes"
        return size if self.scores.ndim == 1 else f"{len(self.scores)} vectors on {size}"

    def _leader(self) -> str:
        if self.scores.ndim == 2 and len(self.scores) == 0:
            return "no scores"
        scores = self.scores if self.scores.ndim == 1 else self.scores[0]
        best = int(np.argmax(scores))
        return f"top {reprlib.repr(self.nodes[best])} {scores[best]:.4g}"


def _largest(scores: np.ndarray, k: int) -> np.ndarray:
    """Positions of the k largest of N scores, largest first, ties in order: O(N + k log k)."""
    if k < scores.size:
        least = np.partition(scores, scores.size - k)[scores.size - k] if k else np.inf
        found = np.flatnonzero(scores >= least)
    else:
        found = np.arange(scores.size)
    return found[np.argsort(-scores[found], kind="stable")[:k]]


def expected_l1_error(
    stderr: np.ndarray, n_batches: int, estimated: np.ndarray | None = None
) -> float:
    r"""The expected L1 error of scores with standard errors of `n_batches` batches.

    .. math:: E \sum_i |\hat\rho_i - \rho_i| = \sqrt{2 / \pi} \sum_i \sigma_i

    for normal errors; the mean bias c_4(n) of an estimated standard deviation is divided out.
    Errors of rare nodes are not normal: the estimated part of score i, `estimated[i]`, over its
    standard error is the root of its number of visits k_i, and a node with a single visit
    represents as much mass of nodes without one (Good and Turing), and is itself too large by
    nearly its score, 2 sigma_i in all. This has the weight k_i^-3, and the normal error the rest;
    the mean over Poisson counts is right for rare and for common nodes, and at most 1.5 times too
    large between.

    Source: Good, Biometrika 40 (1953).
    """
    half = n_batches / 2
    bias = math.sqrt(1 / (half - 0.5)) * math.exp(math.lgamma(half) - math.lgamma(half - 0.5))
    normal = math.sqrt(2 / math.pi) / bias
    if estimated is None:
        return normal * float(stderr.sum())
    # (sigma / estimated)^6, at most 1
    ratio = np.divide(
        stderr, np.abs(estimated), out=np.ones_like(stderr), where=np.abs(estimated) > stderr
    )
    return float(stderr @ (normal + (2.0 - normal) * ratio**6))


@dataclass(frozen=True, eq=False, repr=False)
class PageRankEstimate(Ranking):
    """Scores estimated by walks; see `graphrf.pagerank.estimate`.

    Attributes
    ----------
    scores, p_halt, nodes : as in `Ranking`
    stderr : ndarray of the shape of scores, float64, read-only, or None
        Standard error of each score from independent batches of walks, None with a single batch.
    l1_error : float, or ndarray of shape (n,), or None
        The expected L1 error of the scores, from `stderr` and the numbers of visits: on average
        mostly 0.98 to 1.5 times the error, most if walks met many nodes just once. If no walk took
        a step it is the distance to the scores after one exact step.
    walks, steps : int
        Walks started and steps taken, in all; exact steps are not counted.
    seed : int
        Reproduces the result.
    estimator : str
    coupling : str or Coupling
    exact_steps : int
    n_batches : int
        Independent batches; `stderr` has n_batches - 1 degrees of freedom. The fewest of several
        vectors.
    follow : callable or None
        Function behind `updated`, if the walks were kept. It is not pickled.
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
    follow: Callable[..., PageRankEstimate] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "follow": None}

    def updated(self, graph: Graph, *, n_threads: int | None = None) -> PageRankEstimate:
        """The result on an edited graph, bit for bit that of new walks there.

        A walk changes only if it met a node whose edges changed. All walks of sources with such
        walks are repeated on the old graph, and subtracted from the counts, and on the new one. The
        result can be updated in turn.

        Parameters
        ----------
        graph : Graph
            The edited graph, with the same nodes in the same order: edges added or removed, weights
            changed.
        n_threads : int, optional
            Default: the cores that the process may use. The result does not depend on it.

        Raises
        ------
        TypeError, ValueError
            If the walks were not kept (`estimate(keep_walks=True)`), or the nodes of the graph
            differ.

        Notes
        -----
        Time: twice the walks of the sources whose walks met the edit, one pass over the edges of
        both graphs, and the scores of each batch, O(N). All walks are repeated if the edit makes
        equal weights unequal or the reverse, since walks then use their random bits differently.

        Examples
        --------
        >>> import numpy as np, graphrf as grf
        >>> from graphrf.pagerank import estimate
        >>> ring = np.arange(1000)
        >>> before = grf.from_edges(ring, (ring + 1) % 1000)
        >>> after = grf.from_edges(ring[1:], (ring[1:] + 1) % 1000)  # without the edge from 0 to 1
        >>> options = dict(coupling="stratified", seed=0)
        >>> updated = estimate(before, keep_walks=True, **options).updated(after)
        >>> bool((updated.scores == estimate(after, **options).scores).all())
        True
        """
        if self.follow is None:
            raise ValueError(
                "this result does not hold its walks: pass keep_walks=True to pagerank.estimate"
            )
        return self.follow(graph, n_threads)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stderr is not None:
            self.stderr.setflags(write=False)

    def _facts(self) -> str:
        return (
            f"{self._size()}, {self.estimator}, {self.coupling}, p_halt={self.p_halt:g}, "
            f"{self.walks} walks, {self.steps} steps"
        )


@dataclass(frozen=True, eq=False, repr=False)
class PageRankResult(Ranking):
    """Exact scores; see `graphrf.pagerank`.

    Attributes
    ----------
    scores, p_halt, nodes : as in `Ranking`
    converged : bool
        True if `error_bound` reached the tolerance.
    iterations : int
    residual : float
        L1 norm of the last change of the scores.
    """

    converged: bool
    iterations: int
    residual: float

    @property
    def error_bound(self) -> float:
        """Bound on the scores' L1 error: ((1 - p_halt) residual + 9e-16) / p_halt, at most 2."""
        return float(iteration_bound(self.residual, self.p_halt))

    def _facts(self) -> str:
        state = "converged" if self.converged else "NOT converged"
        return (
            f"{self._size()}, p_halt={self.p_halt:g}, {state} after {self.iterations} iterations, "
            f"error below {self.error_bound:.2g}"
        )
