r"""The first steps of all walks, computed exactly, so that only later ones are estimated.

.. math:: x = p \sum_{k < n} y_k + |y_n| \, x', \qquad y_k = ((1 - p) P^T)^k v,

where x' is the measure of walks that start from y_n / |y_n| (`RankingProblem`). Every step multiplies the error of
the walks by 1 - p, at the cost of one product with a sparse matrix.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from graphrf.pagerank.power import walked
from graphrf.pagerank.problem import RankingProblem


def take_exact_steps(
    problem: RankingProblem, n_steps: int, n_threads: int
) -> tuple[np.ndarray, RankingProblem | None, float]:
    """The part of x from the first `n_steps` steps, shape (N,); the problem of the rest, and its mass |y_n|.

    The problem is None if all walks were lost at dangling nodes.
    """
    measure = np.zeros(problem.graph.n_nodes)
    if n_steps == 0:
        return measure, problem, 1.0
    standing = problem.start
    for following in walked(problem, n_steps, n_threads):
        measure += problem.p_halt * standing
        standing = following
    mass = float(standing.sum())
    if mass == 0.0:
        return measure, None, 0.0
    return measure, dataclasses.replace(problem, start=standing / mass), mass
