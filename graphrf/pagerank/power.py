"""PageRank exactly, by power iteration: the reference, and the better choice for one vector on one machine."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from graphrf import _checks
from graphrf.graph import Graph
from graphrf.pagerank.problem import Problem, pose
from graphrf.pagerank.result import PowerIterationResult


def power_iteration(
    graph: Graph,
    *,
    p_halt: float = 0.15,
    personalization: Any = None,
    tol: float = 1e-12,
    max_iter: int | None = None,
) -> PowerIterationResult:
    r"""PageRank by power iteration, with a bound on its error; p_halt = 1 - alpha of networkx.

    .. math:: \rho \leftarrow p v + (1 - p) (P^T \rho + \delta v), \qquad
              \delta = \sum_{i\ \text{dangling}} \rho_i.

    One product with a sparse matrix an iteration: a global vector of a graph that fits into memory is best
    found this way. Walks (`pagerank`) serve where the graph is too large or changes, for many
    personalisations, or for a rough answer about a few nodes.

    Parameters
    ----------
    graph : Graph
        Directed or not, weighted or not; from a node without edges the chain jumps to v, as in networkx.
    p_halt : float in (0, 1)
        Probability of a jump to v before every step.
    personalization : mapping of nodes to values, or array_like of shape (N,), optional
        The vector v, up to a factor: finite, not negative, not all zero. Keys are the nodes' names; positions
        if the graph has no names or none that is an integer. Default: uniform.
    tol : float
        Bound on the L1 error of the scores. The map contracts L1 distances by 1 - p, so the error after an
        iteration is at most (1 - p) / p times the change; iteration stops when that is at most `tol`.
    max_iter : int, optional
        Default: as many as the contraction may need, log(tol p / 2) / log(1 - p).

    Returns
    -------
    PowerIterationResult
        scores (N,), converged, iterations, residual, error_bound; `.top(k)`.

    Warns
    -----
    UserWarning
        If `tol` was not reached; the result has `converged=False`.

    Raises
    ------
    TypeError, ValueError
        For arguments that are out of range.

    Notes
    -----
    Cost: O(nnz) a iteration, at most 187 iterations at the defaults; memory one copy of the matrix.

    Examples
    --------
    >>> import graphrf as grf
    >>> from graphrf.pagerank import power_iteration
    >>> star = grf.Graph([[0, 1, 1], [1, 0, 0], [1, 0, 0]], nodes=["hub", "a", "b"])
    >>> result = power_iteration(star)
    >>> result.converged
    True
    >>> [(node, round(score, 6)) for node, score in result.top(2)]
    [('hub', 0.486486), ('a', 0.256757)]
    """
    problem = pose(graph, p_halt, personalization)
    tol = _checks.number("tol", tol, low=0, include_low=False)
    p = problem.p_halt
    if max_iter is None:
        limit = math.ceil(math.log(min(tol, 1.0) * p / 2) / math.log1p(-p))
    else:
        limit = _checks.integer("max_iter", max_iter, low=1)
    step = _transposed_transitions(problem)
    v = problem.start
    scores = v
    residual = math.inf
    iterations = 0
    while iterations < limit and residual * (1 - p) / p > tol:
        jump = p + (1 - p) * float(scores[problem.dangling].sum())
        following = (1 - p) * (step @ scores) + jump * v
        following /= following.sum()  # rounding only: the map keeps the sum
        residual = float(np.abs(following - scores).sum())
        scores = following
        iterations += 1
    converged = residual * (1 - p) / p <= tol
    if not converged:
        warnings.warn(
            f"power iteration reached an error below {residual * (1 - p) / p:.2g} after {iterations} iterations, "
            f"not tol={tol:g}; raise `max_iter`, or `tol` if that is near rounding",
            UserWarning,
            stacklevel=2,
        )
    return PowerIterationResult(
        scores=np.array(scores),
        p_halt=p,
        nodes=graph.nodes,
        converged=converged,
        iterations=iterations,
        residual=residual,
    )


def _transposed_transitions(problem: Problem) -> sp.csr_array:
    """P^T as a CSR array, P with zero rows at dangling nodes."""
    adjacency, degrees = problem.graph.adjacency, problem.graph.degrees
    rows = np.repeat(degrees, np.diff(adjacency.indptr))
    transitions = sp.csr_array((adjacency.data / rows, adjacency.indices, adjacency.indptr), shape=adjacency.shape)
    return sp.csr_array(transitions.T)
