"""Scores of the rows of a node table, and the best of them, for compiled loops."""

from __future__ import annotations

import numpy as np

from graphrf._base.compiled import njit

# Independent batches of walks behind each standard error.
N_BATCHES = 16


@njit(nogil=True)
def row_score(table, row, scale, p_halt):  # type: ignore[no-untyped-def]
    """Score of a row: its reserve, the residual's part that halts at once, and visits."""
    score = table.mass[row, 1] + p_halt * table.mass[row, 0]
    return score + scale * table.visits[row, 2] if scale > 0 else score


@njit(nogil=True)
def standard_error(table, row, scale):  # type: ignore[no-untyped-def]
    if scale == 0:  # no walks
        return 0.0
    total = table.visits[row, 2]
    variance = (N_BATCHES * table.visits[row, 3] - total * total) / (N_BATCHES - 1)
    return scale * np.sqrt(max(variance, 0.0))


@njit(nogil=True)
def rank(table, used, scale, query, best_scores, best_rows):  # type: ignore[no-untyped-def]
    """The rows of the k best scores, best first, ties by node; returns their number.

    They are kept in a heap with the worst of them on top.
    """
    k = query.k
    n = 0
    nodes = table.nodes
    for row in range(used):
        score = row_score(table, row, scale, query.p_halt)
        if n < k:
            n += 1
            hole = n - 1
            while hole > 0:
                parent = (hole - 1) >> 1
                if _better(best_scores[parent], nodes[best_rows[parent]], score, nodes[row]):
                    best_scores[hole] = best_scores[parent]
                    best_rows[hole] = best_rows[parent]
                    hole = parent
                else:
                    break
            best_scores[hole] = score
            best_rows[hole] = row
        elif _better(score, nodes[row], best_scores[0], nodes[best_rows[0]]):
            _sink(best_scores, best_rows, nodes, n, score, row)
    for last in range(n - 1, 0, -1):
        score = best_scores[last]
        row = best_rows[last]
        best_scores[last] = best_scores[0]
        best_rows[last] = best_rows[0]
        _sink(best_scores, best_rows, nodes, last, score, row)
    return n


@njit(nogil=True)
def _better(score, node, other_score, other_node):  # type: ignore[no-untyped-def]
    return score > other_score or (score == other_score and node < other_node)


@njit(nogil=True)
def _sink(best_scores, best_rows, nodes, n, score, row):  # type: ignore[no-untyped-def]
    """Replace the top of a heap of n entries."""
    hole = 0
    while True:
        child = 2 * hole + 1
        if child >= n:
            break
        if child + 1 < n and _better(
            best_scores[child],
            nodes[best_rows[child]],
            best_scores[child + 1],
            nodes[best_rows[child + 1]],
        ):
            child += 1
        if _better(best_scores[child], nodes[best_rows[child]], score, nodes[row]):
            break
        best_scores[hole] = best_scores[child]
        best_rows[hole] = best_rows[child]
        hole = child
    best_scores[hole] = score
    best_rows[hole] = row
