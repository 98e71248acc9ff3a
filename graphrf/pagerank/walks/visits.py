r"""Scores from visits: p_halt for each visit of a walk, its start included.

.. math:: \hat x_i = p v_i + \frac{p}{M} \#\{\text{steps of the } M \text{ walks that lead to } i\}.

Every visit halts with probability p, so this is the conditional expectation of the end points given the paths:
mostly 4 to 7 times less variance at p = 0.15 from the same walks. The visits of all starts are known, so they
carry no noise, however the walks are dealt to the sources.

The sum is right only in expectation. It obeys sum(x) + (1 - p) / p sum(x over dangling nodes) = 1 (every walk
halts or is lost), so the estimate's defect e has mean zero, and e b is added for a fixed vector b: this keeps
the mean and takes out the noise of the walks' lengths. Dividing by the sum instead would be biased. Without
dangling nodes b sums to 1, which restores the identity. With them a walk that is lost puts 1 / p times its visit
into e, and sum(x) may be as small as p: there b sums to about sum(x), or the noise of e would drown x.

Source: Avrachenkov, Litvak, Nemirovsky and Osipova, "Monte Carlo methods in PageRank computation: when one
iteration is sufficient", SIAM J. Numer. Anal. 45(2), 2007 (complete path).
"""

from __future__ import annotations

import numpy as np

from graphrf.pagerank.problem import RankingProblem


def control_vector(problem: RankingProblem) -> np.ndarray:
    """The fixed vector b, shape (N,): where a walk's surplus of steps is likely to be.

    The degrees on undirected graphs without personalisation, else the start, always without dangling nodes
    (where walks take no further steps), so that sum(x) stays at least p_halt. All zero if only dangling nodes
    can be started from: then nothing is random.

    Its sum is p / (p + (1 - p) q), which is that of x where every visit is lost with probability q, taken from the
    first two visits of a walk: 1 without dangling nodes.
    """
    local = problem.graph.directed or problem.personalized
    control = np.array(problem.start if local else problem.graph.degrees, dtype=np.float64)
    control[problem.dangling] = 0.0
    control = np.ldexp(control, -np.frexp(control.max())[1])  # exact; the sum of huge degrees would overflow
    if control.max() > 1e300 / control.size:  # their sum may overflow
        control /= control.max()
    total = control.sum()
    return control * (_kept_share(problem) / total) if total > 0 else control


def _kept_share(problem: RankingProblem) -> float:
    """p / (p + (1 - p) q), with q the share of dangling nodes among the first two visits of walks."""
    graph, walk = problem.graph, 1 - problem.p_halt
    lost = np.zeros(graph.n_nodes)
    lost[problem.dangling] = 1.0
    if not lost.any():
        return 1.0
    onward = np.divide(graph.adjacency @ lost, graph.degrees, out=np.zeros_like(lost), where=lost == 0)
    first = float(problem.start @ lost)
    q = (first + walk * float(problem.start @ onward)) / (1 + walk * (1 - first))
    return problem.p_halt / (problem.p_halt + walk * q)


def visit_measure(
    counts: np.ndarray, n_walks: int, share: float, problem: RankingProblem, control: np.ndarray
) -> np.ndarray:
    """The estimate of x (`RankingProblem`) from counts of steps, shape (N,).

    `counts` may be a part of the steps of `n_walks` walks: `share` of these walks; the function is linear in
    (counts, share), so that the measures of all parts add up to that of the whole.
    """
    p = problem.p_halt
    measure = share * p * problem.start + (p / n_walks) * counts
    defect = share - measure.sum() - (1 - p) / p * measure[problem.dangling].sum()
    measure += defect * control
    return measure


def end_point_measure(counts: np.ndarray, n_walks: int) -> np.ndarray:
    """Estimate of x (`RankingProblem`) from counts of end points of some of `n_walks` walks; linear in them."""
    return counts / n_walks
