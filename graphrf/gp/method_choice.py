"""Series, sparse precision or features, Cholesky or conjugate gradients, and how many nodes training affords."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphrf.gp.inference.posterior import LARGEST_CHOLESKY
from graphrf.gp.training.blocks import BLOCK, boundary_share, neighbourhood
from graphrf.gp.training.sampler_choice import FIRST_LENGTH, SMALLEST_BUDGET
from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import Kernel
from graphrf.kernels.precision.areal import precision_of
from graphrf.kernels.precision.contract import KernelPrecision
from graphrf.kernels.precision.ordering import FactorTooLargeError, numbers_there
from graphrf.kernels.precision.precision import has_sparse_precision

# Multiply-adds of exact sparse products up to which the series is taken whatever features would cost (some two
# minutes on two cores), by how much features must be cheaper beyond, and the products that a vector and a solve by
# conjugate gradients typically take. Where a few steps reach most nodes, kernels are short and rows serve them as
# well: there the budget is this share of it.
SERIES_BUDGET = 5e10
_SHORT = 0.4
_MUCH_CHEAPER = 4
_SERIES_DEGREE = 40
_SOLVE_PRODUCTS = 5_000
# Steps of conjugate gradients on sampled rows.
_SAMPLED_STEPS = 100
# Numbers (reached nodes of the graph x training nodes) that training by the series may hold, twice: 1.6 GB.
_TRAINING_NUMBERS = 100_000_000
_FEWEST_TRAINED = 50
# Up to so many nodes it takes no time to see what a sparse factor would cost. Of larger graphs, those whose balls
# of nodes have boundaries of a larger share are not tried: their factors fill up.
_QUICKLY_ORDERED = 5_000
_THICK = 0.2
# Fewer observed nodes are served by as many columns of the series as soon as by a factor.
_FEWEST_FACTORED = 100
# With the power of the Laplacian the entries of factors grow by at most so many times the factor by which those of
# the matrix grow: 1.33 times on random graphs with three neighbours per node, less than once on meshes, networks.
_MARGIN = 1.5
# Multiply-adds of the series, and of dense factorisations, a second (two cores).
_SERIES_SPEED, _DENSE_SPEED = 4e8, 1e10


def choose_method(graph: Graph, n_observed: int, n_trained: int, share: float = 1.0) -> str:
    """ "series" or "features", from the cost of a fit.

    The series is exact, so it is taken where all its products stay affordable: 40 for every training node, on the
    `share` of the graph that they reach, and for the posterior 40 for every observed node or those of a solve by
    conjugate gradients, whichever are fewer. Beyond, and sooner on graphs without small separators, sampled rows
    are taken where they cost a quarter at most.
    """
    nnz = graph.adjacency.nnz
    training = _SERIES_DEGREE * nnz * share * n_trained
    series = training + nnz * min(_SERIES_DEGREE * n_observed, _SOLVE_PRODUCTS)
    if series <= _SHORT * SERIES_BUDGET or (series <= SERIES_BUDGET and not _is_thick(graph)):
        return "series"
    row = min(SMALLEST_BUDGET * FIRST_LENGTH, graph.n_nodes)
    features = 2 * _SAMPLED_STEPS * n_observed * row
    return "features" if _MUCH_CHEAPER * features < series else "series"


def choose_solver(graph: Graph, method: str, n_observed: int) -> str:
    """ "cholesky" or "cg": the first while the matrix is small, and its columns affordable by the series."""
    if n_observed > LARGEST_CHOLESKY:
        return "cg"
    columns = _SERIES_DEGREE * graph.adjacency.nnz * n_observed
    return "cg" if method == "series" and columns > SERIES_BUDGET else "cholesky"


def choose_deviations(graph: Graph, method: str, n_nodes: int) -> str:
    """ "exact" or "sampled", where the covariance is factored.

    The series makes a column for every node; so does the error of predictors by sampled rows, whose rows at the
    nodes asked for are those of the series.
    """
    columns = _SERIES_DEGREE * graph.adjacency.nnz * n_nodes
    return "sampled" if method != "precision" and columns > SERIES_BUDGET else "exact"


def affordable_training(graph: Graph, method: str, max_train: int, share: float = 1.0) -> int:
    """How many nodes training sees: fewer than `max_train` only by the series where few steps reach most nodes."""
    if method == "features":
        return max_train
    return min(max_train, max(_FEWEST_TRAINED, int(_TRAINING_NUMBERS / (graph.n_nodes * share))))


def reached_share(graph: Graph, observed: np.ndarray, n_trained: int) -> float:
    """The share of the nodes that training's products reach: all, unless it sees blocks of near nodes."""
    if observed.size <= n_trained:
        return 1.0
    # the neighbourhood of one node that holds a block, and as many steps beyond as the products go
    n_nodes = graph.n_nodes
    block = neighbourhood(graph, observed[:1], n_nodes, BLOCK * n_nodes // observed.size)
    reached = neighbourhood(graph, block, _SERIES_DEGREE // 2, n_nodes)
    return reached.size / n_nodes


def factored_precision(
    graph: Graph, kernels: Sequence[tuple[Kernel, tuple[str, ...]]], precision: KernelPrecision | None = None
) -> tuple[KernelPrecision, list[tuple[Kernel, tuple[str, ...]]]]:
    """The sparse precision that kernels share, and those of them for whose factor there is room.

    Each comes with what is trained. `precision` is one whose orders of elimination are known.

    Raises
    ------
    FactorTooLargeError
        If there is room for none.
    """
    precision = precision_of(graph, kernels[0][0]) if precision is None else precision
    kept, lacking = [], ""
    fits = 0.0  # so many entries has a matrix whose factor surely fits
    for kernel, names in kernels:
        own = precision.with_kernel(kernel)
        try:
            if own.matrix.nnz > fits:  # an order of elimination is not found only to see what it costs
                fits = own.matrix.nnz * numbers_there() / (_MARGIN * own.own_elimination.n_entries)
            kept.append((kernel, names))
        except FactorTooLargeError as error:
            lacking = str(error)
    if not kept:
        raise FactorTooLargeError(
            f"{lacking}: graphs with hubs or without small separators have no sparse factor; use method='series' "
            "or 'features', or a kernel of smaller `nu`"
        )
    return precision.with_kernel(kept[0][0]), kept


def cheaper_precision(graph: Graph, kernels: Sequence[Kernel], n_observed: int) -> KernelPrecision | None:
    """The sparse precision of the first kernel, if those of all cost less than the series.

    Graphs whose factor would fill up are told by the boundary of balls of nodes, then by the order of elimination.
    """
    if n_observed < _FEWEST_FACTORED or not all(map(has_sparse_precision, kernels)):
        return None
    if _is_thick(graph):
        return None
    try:
        precision = precision_of(graph, kernels[0])
        seconds = max(precision.with_kernel(kernel).own_elimination.seconds for kernel in kernels)
    except (FactorTooLargeError, ImportError, ValueError):
        return None
    series = _SERIES_DEGREE * graph.adjacency.nnz * min(n_observed, _SOLVE_PRODUCTS // _SERIES_DEGREE)
    return precision if 2 * seconds < series / _SERIES_SPEED + n_observed**3 / 6 / _DENSE_SPEED else None


def _is_thick(graph: Graph) -> bool:
    """Whether balls of nodes have so many nodes at their boundary that a sparse factor would fill up."""
    return graph.n_nodes > _QUICKLY_ORDERED and boundary_share(graph, _QUICKLY_ORDERED) > _THICK
