"""Independent batches of walks: seeds, starts, and the mean with its standard error."""

from __future__ import annotations

import numpy as np
from numba import uint64

from graphrf._base import checks
from graphrf._base.compiled import njit
from graphrf.pagerank.problem import RankingProblem
from graphrf.sampling.walks.philox import Use, philox, unit

_USE_BATCH = np.uint64(Use.BATCH)
_U0 = np.uint64(0)
_U32 = np.uint64(32)


@njit(cache=True)
def batch_key(seed, batch, vector):  # type: ignore[no-untyped-def]
    """Key of a batch's random bits, and a uniform in [0, 1). Counters: (batch, vector, 0, BATCH).

    `vector` is the number of the personalisation vector among several.
    """
    w0, w1, w2, w3 = philox(uint64(batch), uint64(vector), _U0, _USE_BATCH, uint64(seed))
    return (w0 << _U32) | w1, unit(w2, w3)


def split(total: int, parts: int) -> list[int]:
    """`total` as a sum of `parts` integers that differ by at most one."""
    return [total // parts + (part < total % parts) for part in range(parts)]


def starts(problem: RankingProblem, groups: int, group: int, offset: float) -> np.ndarray:
    """Walks from each source, (n_sources,): multiples of `group`, `groups` a source on average.

    They are proportional to the personalisation vector, rounded to whole groups by systematic
    sampling with `offset`, uniform in [0, 1), without bias. Equal shares need no rounding.
    """
    n_sources = problem.sources.size
    if problem.evenly_started:
        return np.full(n_sources, groups * group, dtype=np.int64)
    cumulative = np.cumsum(problem.start[problem.sources])
    upto = np.floor(cumulative * (groups * n_sources / cumulative[-1]) + offset).astype(np.int64)
    upto[-1] = groups * n_sources
    return np.diff(np.minimum(upto, upto[-1]), prepend=0) * group


class BatchMean:
    r"""The total of independent measures, normalised, with standard error; O(N) memory.

    A batch adds z_b, its part of the measure, with E z_b = w_b x for its share w_b of the walks.
    The scores are z / s with z the total and s = sum(z). Their errors are the residuals
    z_b - (z / s) s_b, which have mean zero up to the bias of the ratio, and

    .. math:: \mathrm{stderr}^2 = \frac{\sum_b (z_b - (z / s) s_b)^2}{s^2 (1 - \sum_b w_b^2 /
        (\sum_b w_b)^2)}

    is unbiased for batches whose variance is proportional to their size. Squares are accumulated
    about the first batch's scores, to avoid cancellation.
    """

    def __init__(self, n_nodes: int) -> None:
        self._total = np.zeros(n_nodes)
        self._reference: np.ndarray | None = None
        self._square = np.zeros(n_nodes)
        self._cross = np.zeros(n_nodes)
        self._sum_square = 0.0
        self._weight = 0.0
        self._weight_square = 0.0
        self._n = 0

    def add(self, measure: np.ndarray, weight: float) -> None:
        """Add the measure of one batch, shape (N,), with its share of the walks."""
        size = float(measure.sum())
        if self._reference is None:
            self._reference = measure / size if size > 0 else measure
        deviation = measure - size * self._reference
        self._total += measure
        self._square += deviation**2
        self._cross += size * deviation
        self._sum_square += size**2
        self._weight += weight
        self._weight_square += weight**2
        self._n += 1

    def result(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Scores and standard errors, shape (N,) each; None for the latter after a single batch."""
        size = self._total.sum()
        if not size > 0:
            raise checks.value_error(
                "n_walks",
                "must be larger: every walk was lost at a node without an edge to follow, so there "
                "are no end points; or use estimator='visits'",
            )
        scores = self._total / size
        if self._n < 2 or self._reference is None:
            return scores, None
        shift = scores - self._reference
        residual = self._square - 2 * shift * self._cross + shift**2 * self._sum_square
        variance = np.maximum(residual, 0.0) / (
            size**2 * (1.0 - self._weight_square / self._weight**2)
        )
        return scores, np.sqrt(variance)
