"""The exact root F of a kernel as a series, of which priors are made, and what it lacks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.polynomial.chebyshev import chebval

from graphrf._base.warn import warn
from graphrf.features.bounds import tail_error
from graphrf.graph.graph import Graph
from graphrf.kernels.chebyshev import chebyshev_coefficients
from graphrf.kernels.kernel import Kernel
from graphrf.kernels.truncation import LONGEST_SERIES, series_length
from graphrf.operators.series.series_factor import SeriesFactor

# Share of sum |f_k|, or of the norm of F, that a series which need not be cut may lack.
_TAIL = 1e-11
# How much larger than their sum the terms of the series may be: 4 of 16 digits are lost to
# rounding.
_CANCELS = 1e4
# Share that roots may lack which are singular at the end of the spectrum: they converge like 1 /
# terms.
_SINGULAR = 1e-4
# Shares of a root's norm that its series may lack without a warning, and without an error.
_WITHOUT_WARNING = 0.01
_WITHOUT_ERROR = 0.5
# Points of the spectrum at which the series is compared with the function.
_COMPARED = 1_000


class RootSeries(NamedTuple):
    """The root F of a kernel on a graph."""

    factor: SeriesFactor  # at all nodes
    modulation: np.ndarray
    error: float  # operator-norm bound of the error of F F^T
    # values of K over the spectrum and of K - F F^T, where the series of F is truncated
    lacks: tuple[np.ndarray, np.ndarray] | None = None


def root_series(
    graph: Graph, kernel: Kernel, n_threads: int | None = None, warns: bool = True
) -> RootSeries:
    """The root of a kernel by its power series, or the Chebyshev series of F where that is
    inaccurate.

    Kernels that have only a power series are truncated after `LONGEST_SERIES` terms: ValueError if
    half of the root's norm may be lacking, a warning if a hundredth and `warns`.
    """
    scale = graph.laplacian_scale(kernel.laplacian)
    length = series_length(kernel, scale, _TAIL)
    f = kernel.modulation(length + 1, scale)
    factor = SeriesFactor(graph, kernel.laplacian, max_length=length, n_threads=n_threads)
    total = kernel.modulation_tail(-1, scale)
    lost = kernel.modulation_tail(length, scale) / total if total > 0 else 0.0
    has_root = type(kernel).root_spectral_function is not Kernel.root_spectral_function
    if not has_root or (lost <= _TAIL and kernel.cancellation(scale) <= _CANCELS):
        _check_share(kernel, f"{length} terms of the series", lost, warns)
        return RootSeries(factor, f, tail_error(kernel, length, scale))
    coefficients, lost = _chebyshev_root(kernel, scale, factor.width)
    _check_share(kernel, f"{coefficients.size - 1} Chebyshev terms", lost, warns)
    factor.know(f, coefficients)
    lacks = _lacks(kernel, scale, factor.width, coefficients) if lost > _TAIL else None
    return RootSeries(factor, f, lost * (2 + lost) * kernel.root_norm(scale) ** 2, lacks)


def _lacks(
    kernel: Kernel, scale: float, width: float, coefficients: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Values of K, and of K less the square of the series of F, over the interval of
    the spectrum.
    """
    t = np.cos(np.linspace(0.0, np.pi, _COMPARED))
    exact = kernel.spectrum(scale * 0.5 * width * (1 - t), scale)
    return exact, exact - chebval(t, coefficients) ** 2


def _chebyshev_root(kernel: Kernel, scale: float, width: float) -> tuple[np.ndarray, float]:
    """Chebyshev coefficients of F, and a bound on what they lack relative to its norm."""

    def coefficients(tol: float) -> tuple[np.ndarray, float]:
        c, lost = chebyshev_coefficients(
            lambda gap: kernel.root_spectrum(scale * gap, scale),
            width,
            tol=tol,
            max_degree=LONGEST_SERIES,
            cut=True,
        )
        assert c is not None
        return c, lost

    best, lost = coefficients(_TAIL)
    if lost > _TAIL:
        enough, lacking = coefficients(_SINGULAR)
        if 2 * enough.size < best.size:
            return enough, lacking
    return best, lost


def _check_share(kernel: Kernel, terms: str, lost: float, warns: bool) -> None:
    """Refuse kernels of whose root hardly anything is left, and warn of those that lose a part of
    it.
    """
    if lost <= _WITHOUT_WARNING:
        return
    message = f"{terms} of {kernel!r} leave out up to {lost:.2g} of the norm of its root: "
    if lost > _WITHOUT_ERROR:
        raise ValueError(
            f"{message}shorten the lengthscale of `kernel` (K is nearly constant on components)"
        )
    if warns:
        warn(
            f"{message}variances are too small by up to twice that share; shorten the lengthscale "
            "of `kernel`"
        )
