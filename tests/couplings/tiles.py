"""Tiles of distributions of lengths for tests of couplings: modulations, and values."""

from __future__ import annotations

import numpy as np

import graphrf as grf
from graphrf.couplings.quantiles import tile_modulations, tile_spectra
from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import Kernel
from graphrf.operators.series.density_of_states import density_of_states

KERNEL = grf.RegularizedLaplacian(1.0, 2)


def tiles_of(graph: Graph, p_halt: float, order: int, kernel: Kernel = KERNEL) -> np.ndarray:
    """The modulation of each tile."""
    survival = grf.sampling.Survival.geometric(p_halt)
    scale = graph.laplacian_scale(kernel.laplacian)
    return tile_modulations(kernel.modulation(survival.table.size, scale), survival, order)


def spectra_of(
    graph: Graph, p_halt: float, order: int, kernel: Kernel = KERNEL
) -> tuple[np.ndarray, np.ndarray]:
    """h_q of each tile at the eigenvalues of a graph's walk matrix, and their weights."""
    points, weights = density_of_states(graph, kernel.laplacian, np.random.default_rng(0))
    return tile_spectra(tiles_of(graph, p_halt, order, kernel), points), weights
