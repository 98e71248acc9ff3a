"""Where hyperparameters are sought: the ends of every search, in units that graph and observations give."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from graphrf.graph.graph import Graph
from graphrf.kernels.kernel import Kernel

# Lengthscales, in the graph's unit of them.
LENGTHSCALES = (0.1, 100.0)
# Output scale and noise, in multiples of the observations' variance.
OUTPUT_SCALES = (1e-3, 1e3)
NOISES = (1e-6, 10.0)
# Variances of a classifier's latent functions: at the lower end all classes are nearly as likely everywhere, at
# the upper end labels are nearly certain everywhere.
LATENT_SCALES = (1e-2, 1e4)
# Shares between 0 and 1.
SHARES = (1e-3, 1 - 1e-3)
# Smoothness and power are trained only when asked for; outside this range they say little.
_SHAPES = (0.25, 8.0)


def lengthscale_unit(graph: Graph, laplacian: str) -> float:
    """What lengthscales are measured in: 1, or for the combinatorial Laplacian, which has the weights' units,
    one over the root of their geometric mean.
    """
    weights = graph.adjacency.data
    if laplacian == "normalized" or not weights.size:
        return 1.0
    return math.exp(-0.5 * float(np.log(weights).mean()))


def hyperparameter_range(
    kernel: Kernel, name: str, scale: float, longest: float, unit: float = 1.0
) -> tuple[float, float]:
    """Where a hyperparameter is sought on a graph of this scale: lengthscales, in their unit, up to `longest`."""
    low = kernel.hyperparameter_bounds(scale)[name]
    if name == "lengthscale":
        return min(LENGTHSCALES[0] * unit, longest), longest
    if name in ("nu", "power"):
        return _SHAPES
    if name in kernel.shares:
        return SHARES
    if low == -math.inf:
        return -math.inf, math.inf
    return (low, 100.0 * low) if low > 0 else (1e-3, 1e3)


def longest_lengthscale(kernel: Kernel, fits: Callable[[Kernel], bool], unit: float = 1.0) -> float:
    """The largest lengthscale up to 100 units for which the kernel still fits, by bisection; 0.1 at least."""
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
