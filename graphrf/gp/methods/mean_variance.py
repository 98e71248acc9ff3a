"""The mean prior variance of a kernel over the nodes, by which `normalize=True` divides it."""

from __future__ import annotations

import numpy as np

from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import Kernel
from graphrf.operators.precision.areal import precision_of
from graphrf.operators.precision.protocol import KernelPrecision
from graphrf.operators.series import apply
from graphrf.operators.series.density_of_states import density_of_states

# Probes for the mean variance: its error falls as 1 / sqrt(probes x nodes).
_PROBES = 64
_PROBE_NUMBERS = 4_000_000


def mean_variance(
    graph: Graph, kernel: Kernel, seed: int, precision: KernelPrecision | None = None
) -> float:
    """The mean variance: exact up to 1,000 nodes and by sparse precisions, else to about a
    thousandth.
    """
    if precision is None and not kernel.is_series:
        precision = precision_of(graph, kernel)
    if precision is not None:
        return precision.with_kernel(kernel).mean_variance()
    probes = int(np.clip(_PROBE_NUMBERS // graph.n_nodes, 2, _PROBES))
    return apply.mean_variance(graph, kernel, n_probes=probes, seed=seed).value


class RoughMeanVariance:
    """Mean variances of many kernels to some percent, by one quadrature for each Laplacian."""

    def __init__(self, graph: Graph, seed: int, precision: KernelPrecision | None) -> None:
        self._graph = graph
        self._seed = seed
        self._precision = precision
        self._densities: dict[str, tuple[np.ndarray, np.ndarray]] = {}

    def __call__(self, kernel: Kernel) -> float:
        """Mean variance of a kernel."""
        if not kernel.is_series:
            precision = self._precision or precision_of(self._graph, kernel)
            return precision.with_kernel(kernel).mean_variance()
        laplacian = kernel.laplacian
        if laplacian not in self._densities:
            rng = np.random.default_rng(self._seed)
            self._densities[laplacian] = density_of_states(self._graph, laplacian, rng)
        points, weights = self._densities[laplacian]
        scale = self._graph.laplacian_scale(laplacian)
        return float(weights @ kernel.spectrum(scale * (1 - points), scale))
