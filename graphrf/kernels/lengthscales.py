"""Lengthscales: their unit on a graph, where they are sought, and the longest that fits."""

from __future__ import annotations

import math
from collections.abc import Callable

from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import Kernel

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
