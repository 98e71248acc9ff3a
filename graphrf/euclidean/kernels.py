r"""Stationary kernels of R^d, their spectra, and the distribution of a frequency's norm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special
from scipy.spatial.distance import cdist

from graphrf._base import checks

KERNELS = ("gaussian", "matern12", "matern32", "matern52", "laplace")


@dataclass(frozen=True)
class StationaryKernel:
    """A kernel k(r) of the distance r = |x - y| / l, with k(0) = 1, and its spectral distribution.

    Made by `stationary_kernel` from its name. Bochner's theorem writes k as the mean of cos(w . (x
    - y)) over a random angular frequency w, whose direction is uniform on the sphere and
    independent of its norm.

    ===========  ===================================  =======================  =====================
    name         k(r)                                 w in R^d                 norm of w
    ===========  ===================================  =======================  =====================
    gaussian     exp(-r^2 / 2)                        normal                   chi_d
    matern12     exp(-r)                              Student t, 1 d.o.f.      sqrt(d F(d, 1))
    matern32     (1 + a) exp(-a), a = sqrt(3) r       Student t, 3 d.o.f.      sqrt(d F(d, 3))
    matern52     (1 + a + a^2/3) exp(-a), a = √5 r    Student t, 5 d.o.f.      sqrt(d F(d, 5))
    laplace      exp(-r), another name of matern12    multivariate Cauchy      sqrt(d F(d, 1))
    ===========  ===================================  =======================  =====================

    The Laplace kernel is the isotropic one, exp(-|x - y|_2 / l). A product of Cauchy distributions
    would give exp(-|x - y|_1 / l) instead.

    Source: Rasmussen and Williams 2006, "Gaussian Processes for Machine Learning", Sec. 4.2; Reid
    et al. 2024, "Variance-reducing couplings for random features", App. G. Its Eq. 84 is over
    ordinary frequency; here w is angular, 2 pi times it.

    Attributes
    ----------
    name : str
    nu : float or None
        Smoothness of a Matern kernel; None for the Gaussian kernel.

    Examples
    --------
    >>> kernel = stationary_kernel("matern32")
    >>> kernel.nu, round(float(kernel(1.0)), 4)
    (1.5, 0.4834)
    """

    name: str
    nu: float | None

    def __post_init__(self) -> None:
        if self.nu not in (None, 0.5, 1.5, 2.5):
            raise checks.value_error(
                "nu", f"must be 0.5, 1.5, 2.5 or None, for the Gaussian kernel, got {self.nu}"
            )

    def __call__(self, distance: Any) -> np.ndarray:
        """k(r) for distances r >= 0 in lengthscales, any shape."""
        r = checks.array("distance", distance, np.float64)
        if self.nu is None:
            return np.exp(-0.5 * r * r)
        a = np.minimum(np.sqrt(2 * self.nu) * r, 1e3)  # exp(-1e3) is 0, and infinity times 0 is not
        if self.nu == 0.5:
            return np.exp(-a)
        if self.nu == 1.5:
            return (1 + a) * np.exp(-a)
        return (1 + a + a * a / 3) * np.exp(-a)

    def gram(self, x: Any, y: Any = None, *, lengthscale: Any = 1.0) -> np.ndarray:
        """The exact kernel matrix of two sets of points, shape (n, m), float64: O(n m d) time.

        Parameters
        ----------
        x : array_like, shape (n, d)
        y : array_like, shape (m, d), optional
            Default: `x`.
        lengthscale : float or array_like of shape (d,)

        Examples
        --------
        >>> stationary_kernel("gaussian").gram([[0.0, 0.0], [3.0, 4.0]], lengthscale=5.0).round(4)
        array([[1.    , 0.6065],
               [0.6065, 1.    ]])
        """
        a = points("x", x)
        b = a if y is None else points("y", y)
        if a.shape[1] != b.shape[1]:
            raise checks.value_error(
                "y", f"must have {a.shape[1]} columns as `x` has, got {checks.describe(b)}"
            )
        scale = lengthscales(lengthscale, a.shape[1])
        return self(cdist(a / scale, b / scale))

    def norm_quantile(self, u: np.ndarray, dimension: int) -> np.ndarray:
        """Norms r of frequencies with P(|w| <= r) = u, for u in (0, 1) and lengthscale 1.

        Quantiles of the F distribution follow from those of the beta distributions of
        w^2 / (w^2 + 2 nu) and of its complement, so that neither tail loses digits.
        """
        half = dimension / 2
        if self.nu is None:
            return np.sqrt(2 * special.gammaincinv(half, u))
        share, rest = special.betaincinv(half, self.nu, u), special.betainccinv(self.nu, half, u)
        return np.sqrt(2 * self.nu * share / rest)

    def norm_cdf(self, r: Any, dimension: int) -> np.ndarray:
        """P(|w| <= r) for lengthscale 1, the inverse of `norm_quantile`."""
        square = np.square(np.asarray(r, dtype=np.float64))
        if self.nu is None:
            return special.gammainc(dimension / 2, square / 2)
        total = square + 2 * self.nu
        low = special.betainc(dimension / 2, self.nu, square / total)
        # Exact where the first share is 1.
        high = special.betaincc(self.nu, dimension / 2, 2 * self.nu / total)
        return np.where(square < 2 * self.nu, low, high)

    def spectral_density(self, frequencies: Any) -> np.ndarray:
        """Density of w at angular frequencies (n, d) for lengthscale 1, shape (n,); integral 1."""
        w = np.atleast_2d(np.asarray(frequencies, dtype=np.float64))
        half, square = w.shape[1] / 2, np.sum(w * w, axis=1)
        if self.nu is None:
            return np.exp(-square / 2 - half * np.log(2 * np.pi))
        log_constant = (
            special.gammaln(self.nu + half)
            - special.gammaln(self.nu)
            - half * np.log(2 * np.pi * self.nu)
        )
        return np.exp(log_constant - (self.nu + half) * np.log1p(square / (2 * self.nu)))


_NU = {"gaussian": None, "matern12": 0.5, "matern32": 1.5, "matern52": 2.5, "laplace": 0.5}


def stationary_kernel(kernel: str | StationaryKernel) -> StationaryKernel:
    """The kernel of a name, "gaussian", "matern12", "matern32", "matern52" or "laplace".

    TypeError or ValueError if it is neither.

    Examples
    --------
    >>> stationary_kernel("laplace")([0.0, 1.0]).round(4)
    array([1.    , 0.3679])
    """
    if isinstance(kernel, StationaryKernel):
        return kernel
    name = checks.choice("kernel", kernel, KERNELS)
    return StationaryKernel(name, _NU[name])


def points(name: str, value: Any) -> np.ndarray:
    """`value` as finite float64 points, one a row."""
    array = checks.array(name, value)
    if array.dtype.kind not in "fiub":
        raise checks.type_error(name, f"must hold numbers, got {checks.describe(value)}")
    array = array.astype(np.float64, copy=False)
    if array.ndim != 2 or array.shape[1] == 0:
        raise checks.value_error(
            name, f"must have shape (n, d), one point per row, got {checks.describe(value)}"
        )
    return checks.finite(name, array)


def lengthscales(value: Any, dimension: int) -> np.ndarray:
    """`value` as positive lengthscales: a number, or one for each of `dimension` coordinates."""
    array = checks.array("lengthscale", value)
    if array.dtype.kind not in "fiu":
        raise checks.type_error(
            "lengthscale", f"must be a number or {dimension} of them, got {checks.describe(value)}"
        )
    array = array.astype(np.float64)
    if array.shape not in ((), (1,), (dimension,)):
        raise checks.value_error(
            "lengthscale",
            f"must be one number or one for each of the {dimension} coordinates, got "
            f"{checks.describe(array)}",
        )
    if not (np.isfinite(array).all() and (array > 0).all()):
        raise checks.value_error("lengthscale", f"must be finite and greater than 0, got {value}")
    return array
