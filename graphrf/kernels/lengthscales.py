"""Lengthscales: their unit on a graph, ranges, where they are sought, and the longest that fits."""

from __future__ import annotations

import math
from collections.abc import Callable

from graphrf._base import checks
from graphrf.graph.graph import Graph, require_graph
from graphrf.kernels.kernel import Kernel, require_kernel
from graphrf.kernels.named import Diffusion

# Lengthscales, in the graph's unit of them.
LENGTHSCALES = (0.1, 100.0)


def lengthscale_unit(graph: Graph, laplacian: str) -> float:
    """The unit of lengthscales: 1, or one over the root of the geometric mean weight.

    The latter is for the combinatorial Laplacian, which has the units of the weights.
    """
    return 1.0 if laplacian == "normalized" else graph.geometric_mean_weight**-0.5


def longest_lengthscale(kernel: Kernel, fits: Callable[[Kernel], bool], unit: float = 1.0) -> float:
    """The largest lengthscale up to 100 units at which the kernel fits, by bisection."""
    low, high = (end * unit for end in LENGTHSCALES)
    if fits(kernel.replace(lengthscale=high)):
        return high
    while high > 1.02 * low:
        middle = math.sqrt(low * high)
        if fits(kernel.replace(lengthscale=middle)):
            low = middle
        else:
            high = middle
    return low


def correlation_range(kernel: Kernel, graph: Graph, dimension: int = 2) -> float:
    r"""The number of edges over which correlations fall to about 0.14, for `Diffusion`, `Matern`
    and `RegularizedLaplacian`.

    .. math:: \sqrt{\frac{8 \, (\nu - d/2)}{\kappa} \cdot \frac{m}{2 d}}, \quad
              K \propto (\kappa I + L)^{-\nu},

    with m = 1 for the normalized Laplacian, and the mean degree for the combinatorial one, since L
    is then about -m h^2 / (2 d) times the Laplace operator, h being the length of an edge. This is
    the range of R-INLA, sqrt(8 smoothness) / kappa.

    Parameters
    ----------
    kernel : Diffusion, Matern or RegularizedLaplacian
    graph : Graph
        About regular, as grids, meshes, maps of areas and roads are, with weights near 1.
    dimension : int
        2 for what fills the plane or a surface, 1 for what resembles a line, as roads between
        towns do.

    Returns
    -------
    float
        NaN where the smoothness is not positive, as that of Matern(nu=1) in the plane.

    Examples
    --------
    >>> import networkx as nx, graphrf as grf
    >>> grid = grf.load_graph(nx.grid_2d_graph(21, 21))
    >>> kernel = grf.Matern(nu=2.0, lengthscale=6.0)
    >>> round(grf.kernels.correlation_range(kernel, grid), 1)
    4.2
    >>> K = kernel.dense(grid)
    >>> middle, four_away = grid.index([(10, 10), (10, 14)])
    >>> bool(0.1 < K[middle, four_away] / K[middle, middle] < 0.2)
    True
    """
    require_kernel(kernel)
    dimension = checks.integer("dimension", dimension, low=1, high=3)
    if isinstance(kernel, Diffusion):
        squared = 4 * kernel.lengthscale**2
    elif kernel.inverse_power is not None and "lengthscale" in kernel.hyperparameters:
        c, t, q = kernel.inverse_power
        squared = 8 * (q - dimension / 2) * t / c
    else:
        raise checks.value_error(
            "kernel", f"must be Diffusion, Matern or RegularizedLaplacian, got {kernel!r}"
        )
    rate = 1.0 if kernel.laplacian == "normalized" else float(require_graph(graph).degrees.mean())
    return math.sqrt(squared * rate / (2 * dimension)) if squared > 0 else math.nan
