"""Number of steps that a kernel needs."""

from __future__ import annotations

from graphrf.kernels.kernel import Kernel

_TAIL = 1e-3

# Terms of the modulation that enter derivatives without a closed form and, at most, the factor of
# the series: reached only by kernels whose series decays slowly, where the rest is far below
# statistical error.
LONGEST_SERIES = 20_000


def series_length(kernel: Kernel, scale: float, tol: float) -> int:
    """`kernel.truncation_length(tol)`, or `LONGEST_SERIES` where that is smaller."""
    if kernel.modulation_tail(LONGEST_SERIES, scale) > tol * kernel.modulation_tail(-1, scale):
        return LONGEST_SERIES
    return kernel.truncation_length(tol, scale)


def steps_needed(kernel: Kernel, scale: float) -> int:
    """Steps after which a thousandth of sum |f_k| is left: K is off by at most 0.2 %."""
    return series_length(kernel, scale, _TAIL)
