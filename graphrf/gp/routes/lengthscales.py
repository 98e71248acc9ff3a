"""The longest lengthscale that a route serves."""

from __future__ import annotations

import math
from collections.abc import Callable

from graphrf.kernels.kernel import Kernel
from graphrf.kernels.lengthscales import LENGTHSCALES


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
