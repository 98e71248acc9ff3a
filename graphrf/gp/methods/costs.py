"""Costs of products, factors and solves, and the methods that they favour."""

from __future__ import annotations

from collections.abc import Sequence

from graphrf.gp.methods.default_rows import LENGTHS, SMALLEST_BUDGET
from graphrf.gp.methods.rings import boundary_share
from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import Kernel
from graphrf.operators.precision.areal import precision_of
from graphrf.operators.precision.protocol import KernelPrecision
from graphrf.operators.sparse.ordering import FactorTooLargeError, numbers_there

# Up to so many distinct observed nodes the covariance is factored: 0.8 GB with the inverse of its
# factor.
LARGEST_CHOLESKY = 7_000
# Multiply-adds of exact sparse products up to which the series is always used (some two minutes on
# two cores); its fraction where a few steps reach most nodes, as rows suit short kernels too; the
# factor by which features must be cheaper above the budget; and the products that a vector and a
# solve by conjugate gradients typically take.
SERIES_BUDGET = 5e10
_SHORT = 0.4
_MUCH_CHEAPER = 4
_SERIES_DEGREE = 40
_SOLVE_PRODUCTS = 5_000
# Steps of conjugate gradients on sampled rows.
_SAMPLED_STEPS = 100
# Up to so many nodes it takes no time to see what a sparse factor would cost. Of larger graphs,
# those whose balls of nodes have boundaries of a larger fraction are not tried: their factors fill
# up.
_QUICKLY_ORDERED = 5_000
_THICK = 0.2
# With the power of the Laplacian the entries of factors grow by at most so many times the factor by
# which those of the matrix grow: 1.33 times on random graphs with three neighbours per node, less
# than once on meshes, networks.
_MARGIN = 1.5
# Multiply-adds of the series a second (two cores).
SERIES_SPEED = 4e8
# The most observed nodes among which training has K.
TRAINED = 500


def series_or_features(graph: Graph, n_observed: int, n_trained: int) -> str:
    """ "series" or "features", from the cost of a fit.

    The exact series is taken where its products stay within a budget, which is smaller on graphs
    without small separators; above it sampled rows, where they cost a quarter at most.
    """
    series = column_products(graph, n_trained) + solve_products(graph, n_observed)
    if series <= _SHORT * SERIES_BUDGET or (series <= SERIES_BUDGET and not is_thick(graph)):
        return "series"
    row = min(SMALLEST_BUDGET * LENGTHS[0], graph.n_nodes)
    features = 2 * _SAMPLED_STEPS * n_observed * row
    return "features" if _MUCH_CHEAPER * features < series else "series"


def choose_solver(graph: Graph, method: str, n_observed: int) -> str:
    """ "cholesky" or "cg": the first while the matrix is small, and its columns affordable by the
    series.
    """
    if n_observed > LARGEST_CHOLESKY:
        return "cg"
    return (
        "cg"
        if method == "series" and column_products(graph, n_observed) > SERIES_BUDGET
        else "cholesky"
    )


def choose_deviations(
    graph: Graph, method: str, n_nodes: int, n_observed: int, n_points: int
) -> str:
    """ "exact" or "sampled", where the covariance is factored."""
    products = exact_products(graph, method, n_nodes, n_observed, n_points)
    return "sampled" if products > SERIES_BUDGET else "exact"


def exact_products(
    graph: Graph, method: str, n_nodes: int, n_observed: int, n_points: int
) -> float:
    """Multiply-adds of exact deviations at some nodes for some sets of hyperparameters.

    The series makes a column for every predicted or every observed node and set, whichever are
    fewer; sampled rows for predicted nodes, a sparse precision none.
    """
    if method == "precision":
        return 0.0
    columns = n_nodes * n_points
    if method == "series":
        columns = min(columns, n_observed * n_points + n_nodes)
    return column_products(graph, columns)


def column_products(graph: Graph, n_nodes: int) -> float:
    """Multiply-adds of as many columns of K by the series."""
    return float(_SERIES_DEGREE) * graph.adjacency.nnz * n_nodes


def solve_products(graph: Graph, n_nodes: int) -> float:
    """Multiply-adds of as many columns of K by the series, or of those of a solve by conjugate
    gradients.
    """
    return min(column_products(graph, n_nodes), float(_SOLVE_PRODUCTS) * graph.adjacency.nnz)


def factored_precision(
    graph: Graph,
    kernels: Sequence[tuple[Kernel, tuple[str, ...]]],
    precision: KernelPrecision | None = None,
) -> tuple[KernelPrecision, list[tuple[Kernel, tuple[str, ...]]]]:
    """The sparse precision that kernels share, and the (kernel, names) whose factors fit into
    memory.

    A fit has one factor at a time, and as many numbers to work with: a factor may take half of the
    memory. `precision` is one with known orders of elimination. FactorTooLargeError if no kernel
    fits.
    """
    precision = precision_of(graph, kernels[0][0]) if precision is None else precision

    kept, lacking = [], ""
    fits = 0.0  # so many entries has a matrix whose factor surely fits

    for kernel, names in kernels:
        with_kernel = precision.with_kernel(kernel)
        try:
            # an order of elimination is not found only to see what it costs
            if with_kernel.matrix.nnz > fits:
                elimination = with_kernel.own_elimination
                elimination.require_room()
                share = numbers_there() / (_MARGIN * elimination.n_entries)
                fits = with_kernel.matrix.nnz * share
            kept.append((kernel, names))
        except FactorTooLargeError as error:
            lacking = str(error).partition(";")[0]  # a fit has other ways out

    if not kept:
        raise FactorTooLargeError(
            f"{lacking}: graphs with hubs or without small separators have no small factor; use "
            "method='series' or 'features', or a kernel of smaller `nu`"
        )
    return precision.with_kernel(kept[0][0]), kept


def is_thick(graph: Graph) -> bool:
    """True for a large graph in which balls of nodes have such large boundaries that sparse factors
    fill up.
    """
    return graph.n_nodes > _QUICKLY_ORDERED and boundary_share(graph, _QUICKLY_ORDERED) > _THICK
