"""PageRank by growing batches of walks, with estimates of the error."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from graphrf.pagerank.walks.batches import BatchMean
from graphrf.pagerank.walks.runs import Walks
from graphrf.sampling.walks.lengths import Stratified

# Minimum number of batches for an estimate of the error: three degrees of freedom at every node.
_FEWEST = 4
# Maximum number of batches of one size, since a pool ten times as large costs little more.
_MOST = 16
# Maximum growth of the batches from one stage to the next.
_MOST_GROWTH = 64
# A Latin hypercube of fewer walks couples too little
# (measured: blocks of 4 lose nothing against 16).
FEWEST_STRATIFIED = 4


@dataclass(frozen=True)
class Estimate:
    """Scores and standard errors, (N,), of `n_batches` batches; L1 error; total cost."""

    scores: np.ndarray
    stderr: np.ndarray | None
    l1_error: float | None
    n_batches: int
    walks: int
    steps: int


def refinements(walks: Walks, n_walks: int, tol: float, max_walks: int) -> Iterator[Estimate]:
    """Estimates with decreasing error, with at most `max_walks` walks a source.

    Scores and errors are those of one stage of 4 to 16 batches of equal size, since weights of
    batches of different size would depend on the convergence of pools. The next stage has batches
    sized to reach `tol` with 4 of them if the error decreases like the inverse root of the walks
    (for pools, like the inverse), at most 64 times as large; 4 times if `tol` is 0.
    """
    law = walks.law
    group = FEWEST_STRATIFIED if isinstance(law, Stratified) else walks.group
    size = -(-n_walks // group) * group
    best = math.inf
    first_batch = used = all_steps = 0
    while True:
        mean = BatchMean(walks.problem.graph.n_nodes)
        n_batches, most, stage_steps = 0, _FEWEST, 0
        while n_batches < most:
            used += size
            if used > max_walks:
                return
            [(measure, weight, steps)] = walks.measures(
                size // walks.group, 1, first_batch=first_batch
            )
            mean.add(measure, weight)
            n_batches += 1
            first_batch += 1
            stage_steps += steps
            all_steps += steps
            if n_batches < _FEWEST:
                continue
            scores, stderr = mean.result()
            assert stderr is not None
            error = walks.l1_error(scores, stderr, n_batches, stage_steps)
            if error < best:
                best = error
                yield Estimate(scores, stderr, error, n_batches, used * walks.n_sources, all_steps)
            if tol > 0:
                needed = n_batches * (error / tol) ** 2
                most = math.ceil(needed) if needed <= _MOST else n_batches
        if tol > 0:
            # The error of pools is nearly inversely proportional to their size.
            ratio = error / tol
            growth = min(
                math.ceil(ratio if law is None else ratio**2 * n_batches / _FEWEST), _MOST_GROWTH
            )
        else:
            growth = 4
        size *= max(growth, 2)
