"""Series or walks, Cholesky or conjugate gradients: which costs less, and how many nodes training can afford."""

from __future__ import annotations

from graphrf.gp.posterior import LARGEST_CHOLESKY
from graphrf.gp.walk_choice import FIRST_LENGTH, SMALLEST_BUDGET
from graphrf.graph import Graph

# Multiply-adds of exact sparse products up to which the series is taken whatever walks would cost (below a minute
# on two cores), and the typical number of products that a vector takes.
SERIES_BUDGET = 2e10
_SERIES_DEGREE = 40
# Numbers (nodes of the graph x training nodes) that training by the series may hold, twice: 1.6 GB.
_TRAINING_NUMBERS = 100_000_000
_FEWEST_TRAINED = 50


def choose_method(graph: Graph, n_observed: int, n_trained: int) -> str:
    """ "series" or "walks", from the cost of a fit.

    The series is exact, so it is taken where all its products stay affordable: 40 nnz(W) multiply-adds for every
    training node, and for every observed node where these are few enough for Cholesky (conjugate gradients take
    about as many). Beyond, one solver step costs n_observed z with sampled rows of z non-zeros, and 40 nnz(W)
    with the series, whatever n_observed is: the smaller one wins.
    """
    nnz = graph.adjacency.nnz
    columns = min(n_observed, LARGEST_CHOLESKY) + n_trained
    if _SERIES_DEGREE * nnz * columns <= SERIES_BUDGET:
        return "series"
    row = min(SMALLEST_BUDGET * FIRST_LENGTH, graph.n_nodes)
    return "walks" if n_observed * row < _SERIES_DEGREE * nnz else "series"


def choose_solver(graph: Graph, method: str, n_observed: int) -> str:
    """ "cholesky" or "cg": the first while the matrix is small, and its columns affordable by the series."""
    if n_observed > LARGEST_CHOLESKY:
        return "cg"
    columns = _SERIES_DEGREE * graph.adjacency.nnz * n_observed
    return "cg" if method == "series" and columns > SERIES_BUDGET else "cholesky"


def affordable_training(graph: Graph, method: str, max_train: int) -> int:
    """How many nodes training sees: fewer than `max_train` only by the series on graphs above 200,000 nodes."""
    if method == "walks":
        return max_train
    return min(max_train, max(_FEWEST_TRAINED, _TRAINING_NUMBERS // graph.n_nodes))
