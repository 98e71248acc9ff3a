"""Seconds of the processor that a fit and the deviations of all nodes would take, by method, before
anything is trained (`benchmarks/plan.py` compares them with those measured).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphrf.gp.covariance.root_series import root_series
from graphrf.gp.methods.costs import TRAINED, choose_deviations, choose_solver, column_products
from graphrf.gp.methods.protocol import TrainedKernel
from graphrf.gp.posterior.mixture import LEAST_DRAWS
from graphrf.gp.posterior.single import N_DRAWS
from graphrf.gp.posterior.spectral_solver import evenly_observed
from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import Kernel
from graphrf.kernels.lengthscales import lengthscale_unit
from graphrf.kernels.named import Diffusion
from graphrf.operators.precision.markov import SparsePrecision
from graphrf.operators.series.apply import apply_kernel

# The lengthscale that costs are those of where it is trained, in units: costs of the series are
# proportional to it, and most of its posteriors are within a factor of three.
_TYPICAL = 10.0
# Sparse factors with one power of the Laplacian that training takes for each Laplacian.
_RESOLVENTS = 30
# Factors and selected inverses, each as long as a factor, of a search for a mode.
_EVALUATIONS = 100
# Multiply-adds a second of a core: of products of the series with many columns, with few, of sums
# of their terms for several kernels, and of dense factorisations.
_MANY, _FEW, _SUMS, _DENSE = 3e9, 1e9, 1e9, 1e10
# Prior variances take half of the products of a column.
_DIAGONAL = 0.5
# Steps of conjugate gradients, and those of draws; each takes a product with K of two columns. With
# the filter of evenly observed graphs a step takes half of that.
_STEPS, _DRAWN_STEPS, _FILTERED = 130, 60, 0.5


def precision_seconds(
    precision: SparsePrecision, served: Sequence[TrainedKernel], n_points: int
) -> float:
    """Seconds of factors: resolvents for training, Q and its selected inverse for each set."""
    graph = precision.graph
    laplacians = len({kernel.laplacian for kernel, _ in served})
    factor = max(
        precision.with_kernel(_typical(graph, kernel, names)).seconds for kernel, names in served
    )
    result = 2 * n_points * factor + laplacians * _RESOLVENTS * precision.elimination(1).seconds
    if n_points == 1 and any(names for _, names in served):  # the mode is sought by factors of Q
        result += _EVALUATIONS * factor
    return result


def series_seconds(
    graph: Graph, served: Sequence[TrainedKernel], nodes: np.ndarray, n_points: int
) -> float:
    """Seconds of products: tables for training, solves, and columns of K or draws."""
    n, nnz = nodes.size, graph.adjacency.nnz
    laplacians = len({kernel.laplacian for kernel, _ in served})
    degree = float(
        np.mean([_degree(graph, _typical(graph, kernel, names)) for kernel, names in served])
    )
    training = laplacians * column_products(graph, min(n, TRAINED)) / _MANY

    dense = choose_solver(graph, "series", n) == "cholesky"
    product = degree * nnz
    if dense:
        solves = n * degree * (nnz / _MANY + n_points * n / _SUMS) + n_points * n**3 / 6 / _DENSE
    else:
        share = _FILTERED if _are_even(graph, nodes) else 1.0
        solves = share * n_points * _STEPS * 4 * product / _FEW

    if choose_deviations(graph, "series", graph.n_nodes, n, n_points) == "exact":
        size, columns = graph.n_nodes, min(graph.n_nodes, n)
        deviations = columns * degree * (nnz / _MANY + n_points * size / _SUMS)
        deviations += size * degree * _DIAGONAL * nnz / _MANY + n_points * size * n**2 / _DENSE
    else:
        steps = 0.0 if dense else share * 2 * _DRAWN_STEPS
        deviations = max(N_DRAWS, LEAST_DRAWS * n_points) * (3 + steps) * product / _MANY
    return training + solves + deviations


def _typical(graph: Graph, kernel: Kernel, names: Sequence[str]) -> Kernel:
    """A kernel as it is, or with a typical lengthscale if that is trained."""
    if "lengthscale" not in names:
        return kernel
    return kernel.replace(lengthscale=_TYPICAL * lengthscale_unit(graph, kernel.laplacian))


def _degree(graph: Graph, kernel: Kernel) -> int:
    """Products of the root of a kernel."""
    root = root_series(graph, kernel, warns=False)
    return root.factor.n_products(root.modulation)


def _are_even(graph: Graph, nodes: np.ndarray) -> bool:
    """True if the observed nodes are spread evenly over distances of a typical lengthscale."""

    def smooth(x: np.ndarray) -> np.ndarray:
        return apply_kernel(graph, Diffusion(_TYPICAL), x, tol=1e-3)

    return evenly_observed(smooth, nodes, graph.n_nodes)
