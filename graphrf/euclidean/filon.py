r"""Filon's rule for the Fourier integral of a spectral density: a kernel without features."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from graphrf._base import checks
from graphrf._base.warn import warn
from graphrf.euclidean.frequencies.quadrature import spectral_cutoff
from graphrf.euclidean.kernels import StationaryKernel, stationary_kernel

# Taylor series of alpha, beta and gamma / theta^3 in theta^2. The closed forms lose three powers of
# theta to cancellation; below 1/2 these terms are exact to rounding, and above it the closed forms
# keep 13 digits.
_SERIES_BELOW = 0.5
# The weights decrease like 1 / theta; cubes of larger numbers overflow.
_LARGEST = 1e100
_ALPHA = (4 / 3, -2 / 15, 1 / 210, -1 / 11_340, 1 / 997_920, -1 / 129_729_600, 1 / 23_351_328_000)
_BETA = (
    2 / 3,
    2 / 15,
    -4 / 105,
    2 / 567,
    -4 / 22_275,
    4 / 675_675,
    -8 / 58_046_625,
    2 / 834_978_375,
    -4 / 123_743_795_175,
)
_GAMMA = (
    2 / 45,
    -2 / 315,
    2 / 4_725,
    -8 / 467_775,
    4 / 8_513_505,
    -2 / 212_837_625,
    2 / 13_956_067_125,
    -16 / 9_280_784_638_125,
)


def filon_coefficients(theta: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """alpha, beta and gamma of Filon's rule at theta = h t, for nodes h apart; any shape.

        alpha = 4 (sin theta - theta cos theta) / theta^3
        beta  = 2 (theta (1 + cos^2 theta) - 2 cos theta sin theta) / theta^3
        gamma = (theta^2 + theta cos theta sin theta - 2 sin^2 theta) / theta^3

    They are 4/3, 2/3 and 0 at theta = 0, the weights of Simpson's rule. Below theta = 1/2, where
    these forms cancel to the third order, Taylor series are summed.

    Source: "Numerical methods for improved decoupled sampling of Gaussian processes", Eq. A.32 and
    the series below it.

    Examples
    --------
    >>> [round(float(c), 6) for c in filon_coefficients(0.0)]
    [1.333333, 0.666667, 0.0]
    >>> [round(float(c), 6) for c in filon_coefficients(1.0)]
    [1.204675, 0.765258, 0.038502]
    """
    theta = np.asarray(theta, dtype=np.float64)
    small = np.abs(theta) < _SERIES_BELOW
    square = np.where(small, theta, 0.0) ** 2
    safe = np.where(small, 1.0, np.clip(theta, -_LARGEST, _LARGEST))
    sine, cosine = np.sin(safe), np.cos(safe)
    alpha = 4 * (sine - safe * cosine) / safe**3
    beta = 2 * (safe * (1 + cosine**2) - 2 * cosine * sine) / safe**3
    gamma = (safe**2 + safe * cosine * sine - 2 * sine**2) / safe**3
    polyval = np.polynomial.polynomial.polyval
    return (
        np.where(small, polyval(square, _ALPHA), alpha),
        np.where(small, polyval(square, _BETA), beta),
        np.where(small, np.where(small, theta, 0.0) ** 3 * polyval(square, _GAMMA), gamma),
    )


def filon(values: Any, low: float, high: float, t: Any) -> np.ndarray:
    """Integral of g(w) cos(w t) over [low, high], from g at an odd number of equidistant nodes.

    On each pair of intervals g is replaced by a parabola, whose product with the cosine is
    integrated exactly:

        h (alpha S_odd + beta S_even + gamma (g(high) sin(high t) - g(low) sin(low t))),

    where S_odd sums f(w) = g(w) cos(w t) over odd nodes and S_even over even ones, the two ends
    halved. At t = 0 it is Simpson's rule. Cost: O(L) time and numbers for each entry of `t`, with 2
    L + 1 nodes.

    ValueError if the number of nodes is even or below 3, the interval is empty, or an entry is not
    finite.

    Source: Filon 1928; "Numerical methods for improved decoupled sampling of Gaussian processes",
    Eqs. A.29 to A.32. The unnumbered form between A.31 and A.32 should read sum_i gamma_i f(w_i) +
    h gamma (...): with f rather than g, and with h.

    Examples
    --------
    The integral of w^2 cos(w) over [0, pi] is -2 pi.

    >>> w = np.linspace(0, np.pi, 3)
    >>> float((filon(w**2, 0, np.pi, 1.0) / np.pi).round(12))
    -2.0
    """
    g = checks.array("values", values, np.float64)
    if g.ndim != 1 or g.size < 3 or g.size % 2 == 0:
        raise checks.value_error(
            "values", f"must hold an odd number of values, at least 3, got {checks.describe(g)}"
        )
    checks.finite("values", g)
    low = checks.number("low", low)
    high = checks.number("high", high, low=low, include_low=False)
    t = checks.finite("t", checks.array("t", t, np.float64))
    nodes = np.linspace(low, high, g.size)
    h = (high - low) / (g.size - 1)
    f = g * np.cos(t[..., None] * nodes)
    odd = f[..., 1::2].sum(axis=-1)
    even = f[..., ::2].sum(axis=-1) - (f[..., 0] + f[..., -1]) / 2
    alpha, beta, gamma = filon_coefficients(h * t)
    ends = g[-1] * np.sin(high * t) - g[0] * np.sin(low * t)
    return h * (alpha * odd + beta * even + gamma * ends)


def filon_kernel(
    t: ArrayLike,
    n_nodes: int = 33,
    *,
    kernel: str | StationaryKernel = "gaussian",
    lengthscale: float = 1.0,
    max_frequency: float | None = None,
) -> np.ndarray:
    """A stationary kernel on the line by Filon's rule for its spectral density; shape of `t`.

    k(t) is the integral of p(w) cos(w t / l), taken over [-max_frequency, max_frequency]. It has no
    feature map: the weights depend on t, so the sum does not factor into a function of x times one
    of x', and the matrix over a set of points need not be positive semi-definite. Cost: O(n_nodes)
    time and numbers for each entry of `t`.

    At distances below pi/h lengthscales Simpson's rule on the same nodes (`QuadratureFeatures`) is
    better: parabolas have an error of order h^4, sums of equidistant values of a smooth decaying
    density a far smaller one (Gaussian kernel, t up to 4, max_frequency 6, 65 nodes: 4.4e-5 and
    2.0e-9). From pi/h on Simpson's rule is periodic, and Filon's decays.

    Source: "Numerical methods for improved decoupled sampling of Gaussian processes", Sec. A.3.3.4,
    Eqs. A.28 to A.32, Figs. A.5 and A.6.

    Parameters
    ----------
    t : array_like of float
        Differences x - x'.
    n_nodes : int
        Nodes on the interval, an odd number of at least 3; ValueError for others.
    kernel : str or StationaryKernel
        "gaussian", "matern12", "matern32", "matern52" or "laplace".
    lengthscale : float
        l > 0, in the units of `t`.
    max_frequency : float, optional
        End of the interval, in units of 1/l. Default: the frequency that |w| exceeds with
        probability 1e-4.

    Warns
    -----
    UserWarning
        If k(0) is off by more than 1 %. With the default interval that is so for Matern 1/2, whose
        spectrum has so heavy a tail that it ends at 6,366.

    Examples
    --------
    >>> filon_kernel([0.0, 1.0, 2.0], 257, max_frequency=6.0).round(5)
    array([1.     , 0.60653, 0.13534])
    >>> filon_kernel([0.0, 0.5, 1.0], 257, max_frequency=6.0, lengthscale=0.5).round(5)
    array([1.     , 0.60653, 0.13534])
    """
    n_nodes = checks.integer("n_nodes", n_nodes, low=3)
    if n_nodes % 2 == 0:
        raise checks.value_error(
            "n_nodes", f"must be odd for Filon's rule, got {n_nodes}: use {n_nodes + 1}"
        )
    spectrum = stationary_kernel(kernel)
    lengthscale = checks.number("lengthscale", lengthscale, low=0, include_low=False)
    if max_frequency is None:
        max_frequency = spectral_cutoff(spectrum)
    end = checks.number("max_frequency", max_frequency, low=0, include_low=False)
    density = spectrum.spectral_density(np.linspace(-end, end, n_nodes)[:, None])
    at_zero = float(filon(density, -end, end, 0.0))
    if abs(at_zero - 1) > 0.01:
        warn(
            f"the rule gives k(0) = {at_zero:.3g} in place of 1: {n_nodes} nodes are "
            f"{2 * end / (n_nodes - 1):.3g} apart: raise `n_nodes` or lower `max_frequency`, wide "
            "for heavy tails"
        )
    return filon(density, -end, end, checks.array("t", t, np.float64) / lengthscale)
