r"""Exact means of products of two coupled random features, by quadrature and series.

A pair of frequencies has norms a, b and a fixed cosine c between their directions, or independent
directions (c is None). Its norms are independent, "opposite" (u and 1 - u, negative monotone) or
"equal". Every estimator variance of `theory` is a sum over such pairs. Absolute errors in float64
are below 1e-10, mostly near 1e-14, except for Matern kernels in two dimensions: 1e-5 (nu = 1/2) and
1e-8.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy import special
from scipy.interpolate import CubicSpline

from graphrf.euclidean.kernels import StationaryKernel

_PANEL_X, _PANEL_W = np.polynomial.legendre.leggauss(16)


def laplace_pair(v: float, dimension: int, cosine: float | None, norms: str) -> float:
    """log E[exp((w_i + w_j) . x)] for Gaussian w and a vector x of norm v."""
    if norms == "independent":
        if cosine is None:
            return v * v
        phi, weight = _angles(dimension)
        terms = _log_confluent(dimension, v * v / 2 * (1 + cosine * np.sin(phi)))
        return float(special.logsumexp(terms, b=weight))
    if norms == "equal" and cosine is not None:
        return (1 + cosine) * v * v  # w_i + w_j is sqrt(2 + 2c) times a Gaussian vector

    gaussian = StationaryKernel("gaussian", None)
    # The product grows like exp(2 v r), which shifts
    # the mass of the integrand outwards by up to 2 v.
    a, b, log_weight = _coupled_norms(
        gaussian, dimension, norms, top=np.sqrt(dimension) + 2 * v + 12
    )

    if cosine is None:
        terms = log_sphere_mean((a * v / 2) ** 2, dimension) + log_sphere_mean(
            (b * v / 2) ** 2, dimension
        )
    else:
        terms = log_sphere_mean(resultant_square(a, b, cosine) * (v / 2) ** 2, dimension)
    return float(special.logsumexp(log_weight + terms))


def fourier_pair(
    z: float, dimension: int, cosine: float | None, norms: str, kernel: StationaryKernel
) -> float:
    """E[cos(w_i . x) cos(w_j . x)] for a vector x of norm z, at lengthscale 1."""
    if norms == "independent":
        if cosine is None:
            return float(kernel(z)) ** 2
        return float(np.mean([_independent(z, dimension, c, kernel) for c in _both(cosine)]))
    if norms == "equal" and cosine is not None:
        # w_i +- w_j is sqrt(2 +- 2c) times a vector distributed as w.
        return float(kernel(z * np.sqrt(2 + 2 * cosine)) + kernel(z * np.sqrt(2 - 2 * cosine))) / 2
    a, b, log_weight = _coupled_norms(kernel, dimension, norms, top=None)
    if cosine is None:
        values = sphere_mean(a * z, dimension) * sphere_mean(b * z, dimension)
    else:
        radii = [z * np.sqrt(resultant_square(a, b, c)) for c in _both(cosine)]
        values = np.mean([sphere_mean(radius, dimension) for radius in radii], axis=0)
    return float(np.exp(log_weight) @ values)


def _both(cosine: float) -> tuple[float, ...]:
    """Cosines of w_i with w_j and with -w_j, once if they are the same."""
    return (cosine, -cosine) if cosine else (0.0,)


def resultant_square(a: np.ndarray, b: np.ndarray, cosine: float) -> np.ndarray:
    """|w_i + w_j|^2 by the law of cosines; not below 0 after rounding at antiparallel ones."""
    return np.maximum((a - b) ** 2 + 2 * a * b * (1 + cosine), 0.0)


def sphere_mean(x: np.ndarray, dimension: int) -> np.ndarray:
    r"""E[cos(x t)] for a coordinate t of a uniform point of the sphere, 0F1(; d/2; -x^2/4), d >= 2.

    It is computed as a Bessel function of the first kind, or by its power series if that would
    underflow.
    """
    half = dimension / 2
    x = np.asarray(x, dtype=np.float64)
    log_scale = special.gammaln(half) + (1 - half) * np.log(np.maximum(x, 1e-300) / 2)
    # The function is at most 1, so the Bessel function is
    # at most exp(-log_scale), which must be representable.
    bessel = (log_scale < 600) & (x > 1e-3)
    value = np.ones_like(x)
    value[bessel] = np.exp(log_scale[bessel]) * special.jv(half - 1, x[bessel])
    small = ~bessel
    s = -((x[small] / 2) ** 2)
    term, total = np.ones_like(s), np.ones_like(s)
    # Terms are at most (x^2 / 2d)^k / k!, with a ratio
    # below 2 for d up to 1000 where the series is needed.
    for k in range(1, 80):
        term = term * s / (k * (half + k - 1))
        total += term
    value[small] = np.where(x[small] ** 2 < 20 * dimension, total, 0.0)
    return value


def log_sphere_mean(s: np.ndarray, dimension: int) -> np.ndarray:
    """log 0F1(; d/2; s) for s >= 0, by its positive series, far past the largest term."""
    half = dimension / 2
    s = np.atleast_1d(np.asarray(s, dtype=np.float64))
    largest = np.sqrt(s.max() + half**2 / 4)  # no term above this index is the largest
    k = np.arange(int(largest + 12 * np.sqrt(largest) + 40))
    log_coefficient = -special.gammaln(k + 1) - (special.gammaln(k + half) - special.gammaln(half))
    return special.logsumexp(special.xlogy(k, s[:, None]) + log_coefficient, axis=1)


def resultant_density(r: np.ndarray, dimension: int, cosine: float | None) -> np.ndarray:
    """Density of |w_i + w_j| for two Gaussian frequencies with independent norms."""
    r = np.asarray(r, dtype=np.float64)
    half = dimension / 2

    if cosine is None:
        log_density = (
            special.xlogy(dimension - 1, r)
            - r * r / 4
            - (dimension - 1) * np.log(2)
            - special.gammaln(half)
        )
        return np.exp(log_density)

    phi, weight = _angles(dimension)
    # Given the angle phi of the pair of norms, r^2 is
    # (1 + c sin phi) times a chi-square of 2 d degrees.
    share = 1 + cosine * np.sin(phi)
    log_density = (
        special.xlogy(2 * dimension - 1, r)[..., None]
        - r[..., None] ** 2 / (2 * share)
        - dimension * np.log(share)
        - (dimension - 1) * np.log(2)
        - special.gammaln(dimension)
    )
    return np.exp(log_density) @ weight


def log_norm_density(r: np.ndarray, dimension: int, kernel: StationaryKernel) -> np.ndarray:
    """log of the density of |w| at r > 0."""
    half = dimension / 2
    if kernel.nu is None:
        return (
            (1 - half) * np.log(2) - special.gammaln(half) + (dimension - 1) * np.log(r) - r * r / 2
        )
    constant = np.log(2) - special.betaln(half, kernel.nu) - half * np.log(2 * kernel.nu)
    return (
        constant
        + (dimension - 1) * np.log(r)
        - (kernel.nu + half) * np.log1p(r * r / (2 * kernel.nu))
    )


def _angles(dimension: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes phi in (0, pi) and weights for the density proportional to sin(phi)^(d-1)."""
    x, weight = np.polynomial.legendre.leggauss(48)
    reach = min(np.pi / 2, 10 / np.sqrt(dimension))
    phi = np.pi / 2 + reach * x
    weight = weight * np.sin(phi) ** (dimension - 1)
    return phi, weight / weight.sum()


def _independent(z: float, dimension: int, cosine: float, kernel: StationaryKernel) -> float:
    """E[cos((w_i + w_j) . x)] for independent norms.

    A Student frequency is a normal one times sqrt(nu / x), x ~ Gamma(nu). Given the two factors and
    the ratio of the two chi norms, the mean is a confluent function, so nothing under the integrals
    oscillates.
    """
    phi, weight = _angles(dimension)
    if kernel.nu is None:
        return float(weight @ _confluent(dimension, z * z / 2 * (1 + cosine * np.sin(phi))))

    # Trapezoidal rule in log x; below the lower end the mean is negligible, or the weight is.
    low = max(np.log(z * z * kernel.nu / 1e5 + 1e-300), -36 / kernel.nu)
    # In two dimensions antiparallel frequencies of
    # like norm nearly cancel, which takes finer steps.
    nodes = 160 if dimension == 2 else max(80, int((4.0 - low) / 0.35))
    log_x, step = np.linspace(low, 4.0, nodes, retstep=True)
    mass = step * np.exp(kernel.nu * log_x - np.exp(log_x) - special.gammaln(kernel.nu))
    scale = z * np.sqrt(kernel.nu / 2) * np.exp(-log_x / 2)

    # phi and pi - phi exchange the two frequencies.
    phi, weight = phi[phi < np.pi / 2], 2 * weight[phi < np.pi / 2]
    first = scale[:, None, None] * np.cos(phi / 2)
    second = scale[None, :, None] * np.sin(phi / 2)
    y = resultant_square(first, second, cosine)

    # Very many values of one smooth function: splined in sqrt(y), to 1e-11.
    root = np.linspace(0.0, 10.0, 4001)
    values = CubicSpline(root, _confluent(dimension, root**2))(np.sqrt(np.minimum(y, 100.0)))
    far = y > 100.0
    values[far] = _confluent_far(dimension / 2, y[far])
    return float(mass @ (values @ weight) @ mass)


def _confluent(dimension: int, y: np.ndarray) -> np.ndarray:
    """1F1(d; d/2; -y), y >= 0, by Kummer's exp(-y) 1F1(-d/2; d/2; y), to about 1e-15.

    The terms of exp(-y) times the series are at most 1. From y = 100 on, the asymptotic expansion
    is used.
    """
    half = dimension / 2
    y = np.asarray(y, dtype=np.float64)
    near = np.minimum(y, 100.0)
    term = np.exp(-near)
    total = term.copy()
    most = float(near.max())
    for k in range(int(most + 10 * np.sqrt(most) + 40)):
        term = term * ((k - half) / (half + k)) * near / (k + 1)
        total += term
    far = y > 100.0
    total[far] = _confluent_far(half, y[far])
    return total


def _confluent_far(half: float, y: np.ndarray) -> np.ndarray:
    # 1/Gamma(-d/2) is 0 for even d, where only terms below
    # exp(-y/2) remain; for large odd d it is negligible.
    if half == int(half) or half > 10:
        return np.zeros_like(y)
    term = special.gamma(half) * special.rgamma(-half) * y ** (-2 * half)
    total = term.copy()
    for k in range(8):
        term = term * (2 * half + k) * (half + 1 + k) / ((k + 1) * y)
        total += term
    return total


def _log_confluent(dimension: int, x: np.ndarray) -> np.ndarray:
    """log 1F1(d; d/2; x) for x >= 0, by its positive series, far past the largest term."""
    half = dimension / 2
    most = 2 * float(x.max())  # a ratio of terms is at most 2 x / k
    k = np.arange(int(most + 12 * np.sqrt(most) + 40))
    log_coefficient = (
        special.gammaln(k + dimension)
        - special.gammaln(dimension)
        - special.gammaln(k + half)
        + special.gammaln(half)
        - special.gammaln(k + 1)
    )
    return special.logsumexp(special.xlogy(k, x[:, None]) + log_coefficient, axis=1)


@lru_cache(maxsize=16)
def _coupled_norms(
    kernel: StationaryKernel, dimension: int, norms: str, top: float | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Nodes (a, b) of a deterministic coupling and the logs of their weights, which sum to 1.

    Gauss-Legendre panels in log a. Opposite norms are integrated over the half where a is the
    larger one, so that b comes from the upper tail of a without loss of digits; the integrands are
    symmetric in a and b.
    """
    opposite = norms == "opposite"
    low = float(kernel.norm_quantile(np.array(0.5 if opposite else 1e-18), dimension))
    if top is None:
        top = float(kernel.norm_quantile(np.array(1 - 1e-13), dimension))
    # Heavy tails span many decades, in which the integrand oscillates.
    edges = np.linspace(np.log(low), np.log(top), 81 if kernel.nu is None else 1601)
    middle, reach = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
    t = (middle[:, None] + reach[:, None] * _PANEL_X).ravel()
    a = np.exp(t)
    log_weight = (
        np.log((reach[:, None] * _PANEL_W).ravel()) + t + log_norm_density(a, dimension, kernel)
    )
    b = kernel.norm_quantile(_upper_tail(a, dimension, kernel), dimension) if opposite else a
    return a, b, log_weight - special.logsumexp(log_weight)


def _upper_tail(r: np.ndarray, dimension: int, kernel: StationaryKernel) -> np.ndarray:
    """P(|w| > r), exact far into the tail."""
    if kernel.nu is None:
        tail = special.gammaincc(dimension / 2, r * r / 2)
    else:
        tail = special.betainc(kernel.nu, dimension / 2, 2 * kernel.nu / (r * r + 2 * kernel.nu))
    return np.maximum(tail, 1e-300)
