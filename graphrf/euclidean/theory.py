r"""Exact variances of kernel estimates from coupled random features, for comparison with samples.

Frequencies come in independent blocks of d. So the mean squared error of an estimate from m
frequencies is that of one frequency divided by m, plus the covariances of the pairs within blocks
divided by m^2 (see `pair_means`). Arguments that are not as described raise TypeError or
ValueError.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphrf._base import checks
from graphrf.euclidean import pair_means
from graphrf.euclidean.frequencies.norms import NORMS
from graphrf.euclidean.kernels import StationaryKernel, lengthscales, stationary_kernel

DIRECTIONS = ("iid", "orthogonal", "simplex")


def rf_conformity(v: Any, dimension: int, *, directions: str | float = "orthogonal") -> np.ndarray:
    r"""RF-conformity rho of positive features: the mean of exp((w_i + w_j) . x), |x| = v.

    .. math:: \rho_\theta(v) = \sum_k \frac{v^{2k}}{2^k k!} \frac{(d)_k}{(d/2)_k}
        E_\phi (1 + \sin\phi \cos\theta)^k,

    with the density of phi in (0, pi) proportional to sin(phi)^(d-1). It is exp(v^2) for
    independent directions, and infinite if it exceeds float64. Cost: O(v^2) terms at each of 48
    nodes of a Gauss-Legendre rule.

    Source: Reid et al. 2023, "Simplex random features", Eqs. 19, 21, 23 and 24.

    Parameters
    ----------
    v : array_like
        Norms of x + y in lengthscales, any shape, not negative.
    dimension : int
        d, at least 2 for a fixed angle.
    directions : {"iid", "orthogonal", "simplex"} or float
        The coupling of the pair, or the cosine of its angle in [-1, 1].

    Examples
    --------
    >>> [
    ...     round(float(rf_conformity(1.0, 6, directions=name)), 4)
    ...     for name in ("iid", "orthogonal", "simplex")
    ... ]
    [2.7183, 2.5796, 2.1818]
    """
    v = _nonnegative("v", v)
    cosine = _cosine(directions, checks.integer("dimension", dimension, low=1))
    _check_angle(cosine, dimension)
    logs = [pair_means.laplace_pair(value, dimension, cosine, "independent") for value in v.ravel()]
    with np.errstate(over="ignore"):
        return np.exp(np.reshape(logs, v.shape))


def ensemble_conformity(v: Any, frequencies: Any) -> float:
    """The RF-conformity of given frequencies: the mean of 0F1(; d/2; v^2 |w_i + w_j|^2 / 4).

    It is the mean of exp((w_i + w_j) . x) over a joint random rotation of the frequencies. Cost:
    O(m^2 (d + K)) for a series of K terms, K near v max |w| / 2 plus 40. Source: Reid et al. 2023,
    "Simplex random features", Eq. 12.

    Parameters
    ----------
    v : float
        Norm of x + y in lengthscales.
    frequencies : array_like, shape (m, d)
        m and d at least 2.

    Examples
    --------
    >>> round(ensemble_conformity(1.0, 2 * np.eye(3)), 4)
    2.9804
    """
    v = checks.number("v", v, low=0)
    w = checks.array("frequencies", frequencies, np.float64)
    if w.ndim != 2 or w.shape[0] < 2 or w.shape[1] < 2:
        raise checks.value_error(
            "frequencies",
            f"must have shape (m, d), m and d at least 2, got {checks.describe(frequencies)}",
        )
    checks.finite("frequencies", w)
    gram = w @ w.T
    first, second = np.triu_indices(len(w), 1)
    square = np.maximum(gram[first, first] + gram[second, second] + 2 * gram[first, second], 0.0)
    return float(np.exp(pair_means.log_sphere_mean(square * v * v / 4, w.shape[1])).mean())


def pair_norm_density(
    r: Any, dimension: int, *, directions: str | float = "orthogonal"
) -> np.ndarray:
    r"""Density of |w_i + w_j| for Gaussian frequencies with independent norms.

    It is that of sqrt(2) chi_d for independent directions and chi_2d for orthogonal ones; for an
    angle theta,

    .. math:: p(r) = \frac{r^{2d-1}}{2^{d-2} \Gamma(d/2)^2} \int_0^{\pi/2} (\sin\phi \cos\phi)^{d-1}
        \frac{\exp(-r^2 / 2(1 + \sin 2\phi \cos\theta))}{(1 + \sin 2\phi \cos\theta)^d} d\phi.

    Cost: 48 nodes of a Gauss-Legendre rule for each r. Source: Reid et al. 2023, "Simplex random
    features", Eqs. 18, 20 and 58.

    Parameters
    ----------
    r : array_like
        Any shape, not negative.
    dimension : int
        d, at least 2 for a fixed angle.
    directions : {"iid", "orthogonal", "simplex"} or float
        The coupling of the pair, or the cosine of its angle, greater than -1 (d = 2 has an
        antiparallel simplex, whose density near 0 the rule does not resolve).

    Examples
    --------
    >>> pair_norm_density([2.0, 4.0], 6, directions="orthogonal").round(4)
    array([0.0722, 0.3664])
    """
    r = _nonnegative("r", r)
    cosine = _cosine(directions, checks.integer("dimension", dimension, low=1))
    _check_angle(cosine, dimension)
    if cosine == -1:
        raise checks.value_error(
            "directions", "must not be antiparallel (cosine -1, the simplex of d = 2)"
        )
    return pair_means.resultant_density(r, dimension, cosine)


def laplace_mse(
    x: Any,
    y: Any,
    n_frequencies: int,
    *,
    directions: str = "orthogonal",
    norms: str = "pnc",
    antithetic: bool = True,
    lengthscale: Any = 1.0,
) -> np.ndarray:
    r"""Exact mean squared error of a Gaussian kernel value from random Laplace (positive) features.

    With z = |x - y| and v = |x + y| in lengthscales, and m independent directions of a single sign,

    .. math:: \mathrm{MSE} = \frac{e^{-2|x|^2 - 2|y|^2}}{m^2} \Big( m (e^{2v^2} - e^{v^2})
        + \sum_{i \ne j} (E e^{(w_i + w_j) \cdot (x + y)} - e^{v^2}) \Big),

    over ordered pairs within blocks of d frequencies. Antithetic frequencies, +w and -w, replace
    exp(w . (x + y)) by the hyperbolic cosine and m by m/2. It is infinite where it exceeds float64.
    Cost: a few milliseconds for each pair of points. "simplex+" has no closed form, as its angles
    depend on the norms.

    Source: Reid et al. 2023, "Simplex random features", Theorem 3.2 (Eq. 11); Reid et al. 2024,
    "Variance-reducing couplings for random features", Eqs. 14 and 15. Several blocks and antithetic
    frequencies are our extension.

    Parameters
    ----------
    x, y : array_like, shapes (d,) or (n, d)
        Points, broadcast against each other.
    n_frequencies : int
        m, including antithetic ones, then even; any number of blocks, the last one may be partial.
    directions : {"iid", "orthogonal", "simplex"}
        The simplex needs d >= 2.
    norms : {"iid", "pnc", "pm"}
        Coupling of the norms within each block of d.
    antithetic : bool
        The second half of the frequencies are the negatives of the first.
    lengthscale : float or array_like of shape (d,)

    Examples
    --------
    >>> x, y = [0.3, 0.1, 0.0, 0.2], [0.2, 0.0, 0.3, 0.1]
    >>> [f"{laplace_mse(x, y, 8, norms=name):.3e}" for name in ("iid", "pnc")]
    ['1.220e-02', '9.827e-03']
    """
    a, b = (np.atleast_1d(_real(name, value)) for name, value in (("x", x), ("y", y)))
    if a.shape[-1] != b.shape[-1]:
        raise checks.value_error(
            "y", f"must have {a.shape[-1]} coordinates like `x`, got {checks.describe(b)}"
        )
    d = a.shape[-1]
    scale = lengthscales(lengthscale, d)
    cosine = _cosine(checks.choice("directions", directions, DIRECTIONS), d)
    pairs = _block_pairs(n_frequencies, d, norms, 2 if checks.flag("antithetic", antithetic) else 1)
    v = np.linalg.norm((a + b) / scale, axis=-1)
    log_scale = (
        2 * v * v - 2 * np.sum((a / scale) ** 2, axis=-1) - 2 * np.sum((b / scale) ** 2, axis=-1)
    )
    relative = np.array(
        [_laplace_variance(value, d, cosine, pairs, antithetic) for value in v.ravel()]
    )
    with np.errstate(over="ignore"):
        return np.exp(log_scale) * relative.reshape(v.shape)


def fourier_mse(
    distance: Any,
    dimension: int,
    n_frequencies: int,
    *,
    kernel: str | StationaryKernel = "gaussian",
    directions: str = "orthogonal",
    norms: str = "pnc",
    readout: str = "paired",
) -> np.ndarray:
    r"""Exact mean squared error of a kernel value from random Fourier features, at distance z.

    .. math:: \mathrm{MSE} = \frac{1}{m} \Big( \frac{1 + k(2z)}{2} - k(z)^2 \Big)
        + \frac{1}{m^2} \sum_{i \ne j} (E \cos(w_i \cdot z) \cos(w_j \cdot z) - k(z)^2),

    over ordered pairs within blocks of d frequencies. For orthogonal Gaussian frequencies with
    independent norms a pair has mean 1F1(d; d/2; -z^2/2). The phased readout adds 1/(2m).

    Cost: milliseconds for each distance with the Gaussian kernel, hundredths of a second with
    Matern kernels. Absolute errors are below 1e-10, except for Matern kernels with d = 2, where
    they reach 1e-5.

    Source: Reid et al. 2023, "Simplex random features", Eqs. 26 and 74 to 76; Reid et al. 2024,
    "Variance-reducing couplings for random features", Eqs. 16 to 19 (18 corrected: the second
    Bessel term is in |w_i - w_j| throughout); Sutherland and Schneider 2015, "On the error of
    random Fourier features", Sec. 2, for the phased readout. Fixed angles other than 90 degrees
    and kernels other than the Gaussian are our extension.

    Parameters
    ----------
    distance : array_like
        z = |x - y| in lengthscales, any shape, not negative.
    dimension : int
        d.
    n_frequencies, directions, norms
        As for `laplace_mse`.
    kernel : str or StationaryKernel
    readout : {"paired", "phased"}
        [cos, sin], or one cosine with a random phase.

    Examples
    --------
    >>> [f"{fourier_mse(1.0, 8, 8, norms=name):.4e}" for name in ("iid", "pnc", "pm")]
    ['6.0679e-03', '3.4161e-03', '2.4974e-02']
    >>> f"{fourier_mse(1.0, 8, 8, directions='iid', norms='iid'):.4e}"
    '2.4974e-02'
    """
    z = _nonnegative("distance", distance)
    d = checks.integer("dimension", dimension, low=1)
    chosen = stationary_kernel(kernel)
    cosine = _cosine(checks.choice("directions", directions, DIRECTIONS), d)
    pairs = _block_pairs(n_frequencies, d, norms, 1)
    if checks.choice("readout", readout, ("paired", "phased")) == "phased":
        extra = 0.5 / n_frequencies
    else:
        extra = 0.0
    values = [_fourier_variance(value, d, cosine, pairs, chosen) for value in z.ravel()]
    return np.reshape(values, z.shape) + extra


_Pairs = tuple[int, dict[str, int]]


def _block_pairs(n_frequencies: int, dimension: int, norms: str, copies: int) -> _Pairs:
    """Number of frequencies without negatives, and of ordered pairs in blocks by coupling."""
    m = checks.integer("n_frequencies", n_frequencies, low=1)
    if m % copies:
        raise checks.value_error("n_frequencies", f"must be even with `antithetic`, got {m}")
    m //= copies
    norms = checks.choice("norms", norms, NORMS)
    count = {"independent": 0, "opposite": 0, "equal": 0}
    for size, blocks in ((dimension, m // dimension), (m % dimension, 1)):
        ordered = size * (size - 1)
        coupled = {"iid": 0, "pnc": 2 * (size // 2), "pm": ordered}[norms]
        count["opposite" if norms == "pnc" else "equal"] += blocks * coupled
        count["independent"] += blocks * (ordered - coupled)
    return m, count


def _laplace_variance(
    v: float, d: int, cosine: float | None, pairs: _Pairs, antithetic: bool
) -> float:
    """Variance of the mean of exp(w . x), or of cosh(w . x), for |x| = v, divided by exp(2 v^2)."""
    m, count = pairs
    square = v * v
    single = -np.expm1(-square)
    total = m * (single**2 / 2 if antithetic else single)
    for norms, number in count.items():
        if number and not (cosine is None and norms == "independent"):
            signs = (1, -1) if antithetic else (1,)
            logs = [
                pair_means.laplace_pair(v, d, None if cosine is None else s * cosine, norms)
                for s in signs
            ]
            covariance = np.mean([_scaled_expm1(log - square, -square) for log in logs])
            total += number * covariance
    return float(total) / m**2


def _scaled_expm1(a: float, log_scale: float) -> float:
    """exp(log_scale) (exp(a) - 1), without overflow of exp(a), or cancellation at small a."""
    return float(
        np.exp(log_scale) * np.expm1(a) if a < 1 else np.exp(log_scale + a) - np.exp(log_scale)
    )


def _fourier_variance(
    z: float, d: int, cosine: float | None, pairs: _Pairs, kernel: StationaryKernel
) -> float:
    """Variance of the mean of cos(w . x) for |x| = z."""
    m, count = pairs
    value = float(kernel(z))
    total = m * ((1 + float(kernel(2 * z))) / 2 - value**2)
    for norms, number in count.items():
        if number and not (cosine is None and norms == "independent"):
            total += number * (pair_means.fourier_pair(z, d, cosine, norms, kernel) - value**2)
    return max(total, 0.0) / m**2


def _cosine(directions: str | float, dimension: int) -> float | None:
    """The cosine between two directions of a block; None if they are independent."""
    if not isinstance(directions, str):
        return checks.number("directions", directions, low=-1, high=1)
    name = checks.choice("directions", directions, DIRECTIONS)
    if name == "iid":
        return None
    if name == "orthogonal":
        return 0.0
    if dimension == 1:
        raise checks.value_error("directions", "of a simplex need at least 2 dimensions, got 1")
    return -1 / (dimension - 1)


def _check_angle(cosine: float | None, dimension: int) -> None:
    """Raise for a fixed angle in one dimension, where two directions are 0 or 180 degrees apart."""
    if cosine is not None and dimension == 1:
        raise checks.value_error(
            "directions", "at a fixed angle need a `dimension` of at least 2, got 1"
        )


def _nonnegative(name: str, value: Any) -> np.ndarray:
    array = _real(name, value)
    if (array < 0).any():
        raise checks.value_error(name, f"must be at least 0, got {array.min():g}")
    return array


def _real(name: str, value: Any) -> np.ndarray:
    array = checks.array(name, value)
    if array.dtype.kind not in "fiu" or array.size == 0:
        raise checks.type_error(name, f"must hold numbers, got {checks.describe(value)}")
    return checks.finite(name, array.astype(np.float64))
