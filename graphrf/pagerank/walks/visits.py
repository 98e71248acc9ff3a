r"""Scores from visits: p_halt for each visit of a walk, its start included.

.. math:: \hat x_i = p v_i + \frac{p}{M} \#\{\text{steps of the } M \text{ walks that lead to } i\}.

Since every walk halts or is lost, sum(x) + (1 - p) / p sum(x over dangling nodes) = 1 in
expectation, so the defect e of an estimate has mean zero. Adding e b for a fixed vector b keeps the
mean and removes the noise of the walks' lengths, while dividing by the sum would be biased. Without
dangling nodes b sums to 1, which restores the identity. With them a lost walk adds 1 / p times its
visit to e, and sum(x) may be as small as p: then b sums to about sum(x), so that the noise of e
stays small.
"""

from __future__ import annotations

import numpy as np

from graphrf.pagerank.problem import RankingProblem


def control_vector(problem: RankingProblem) -> np.ndarray:
    """The fixed vector b, shape (N,): a guess of the nodes of a walk's surplus steps.

    It is proportional to the degrees on undirected graphs without personalisation, else to the
    start, without dangling nodes, so that sum(x) is at least p_halt. It is zero if all starts are
    dangling: then nothing is random. Its sum is p / (p + (1 - p) q), that of x if every visit is
    lost with probability q, estimated from the first two visits of a walk: 1 without dangling
    nodes.
    """
    local = problem.graph.directed or problem.personalized
    control = np.array(problem.start if local else problem.graph.degrees, dtype=np.float64)
    control[problem.dangling] = 0.0
    # This is exact; the sum of huge degrees would overflow.
    control = np.ldexp(control, -np.frexp(control.max())[1])
    if control.max() > 1e300 / control.size:  # their sum may overflow
        control /= control.max()
    total = control.sum()
    return control * (_kept_share(problem) / total) if total > 0 else control


def _kept_share(problem: RankingProblem) -> float:
    """p / (p + (1 - p) q), q the share of dangling nodes among walks' first two visits."""
    graph, walk = problem.graph, 1 - problem.p_halt
    lost = np.zeros(graph.n_nodes)
    lost[problem.dangling] = 1.0
    if not lost.any():
        return 1.0
    onward = np.divide(
        graph.adjacency @ lost, graph.degrees, out=np.zeros_like(lost), where=lost == 0
    )
    first = float(problem.start @ lost)
    q = (first + walk * float(problem.start @ onward)) / (1 + walk * (1 - first))
    return problem.p_halt / (problem.p_halt + walk * q)


def visit_measure(
    counts: np.ndarray, n_walks: int, share: float, problem: RankingProblem, control: np.ndarray
) -> np.ndarray:
    """The estimate of x (`RankingProblem`) from counts of steps, shape (N,).

    `counts` may be those of a `share` of `n_walks` walks; the function is linear in (counts,
    share), so that the measures of all parts add up to the total.
    """
    p = problem.p_halt
    measure = share * p * problem.start + (p / n_walks) * counts
    defect = share - measure.sum() - (1 - p) / p * measure[problem.dangling].sum()
    measure += defect * control
    return measure
