"""The inverse square root of a matrix as a chain of hidden layers with sparse precisions."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import ellipj, ellipkm1

# The largest error of a standard deviation, which is half that of a variance, relative to it: at
# most, 95 % intervals hold .944 to .956.
LARGEST_ERROR = 0.025
# Step of the fourth-order differences in log(high / low - 1): they are right to ten digits.
_STEP = 5e-3


class RootChain(NamedTuple):
    r"""A sum of resolvents that is near to 1 / sqrt(x) on an interval, and its tridiagonal matrix.

    .. math:: x^{-1/2} \approx \sum_{i=1}^m \frac{w_i}{x + s_i} = b \, e_1^\top (T + x I)^{-1} e_1,
              \quad T = C C^\top,

    with `poles` s_i and `weights` w_i > 0, `root` C, lower bidiagonal (shape (1, 0) for the inverse
    itself), and `scale` b. So the first of m layers of hidden variables with the joint precision (T
    (x) I + I (x) B) / b has a covariance near to B^{-1/2}. No sum of m resolvents has a smaller
    largest relative error (`error`), about 4 exp(-2 pi^2 m / log(16 high / low)). No variance has a
    larger one: it is a mean of values of this function, weighted by an eigenvector's squares.

    Sources: Zolotarev 1877; Hale, Higham and Trefethen 2008, method 3, for the poles; Golub and
    Kahan 1965 for C, by bidiagonalisation of diag(sqrt(s)) from sqrt(w), which keeps the digits of
    the smallest poles. A sum of the resolvents' fields in place of a chain: Bolin, Simas and Xiong
    2023, "Covariance-based rational approximations of fractional SPDEs".
    """

    poles: np.ndarray
    weights: np.ndarray
    root: np.ndarray
    scale: float
    error: float

    @classmethod
    def of(cls, low: float, high: float, size: int) -> RootChain:
        """The chain of `size` layers that is best between two positive numbers."""
        poles, weights, error = _best_resolvents(high / low, size)
        root, scale = _bidiagonal(poles, weights)
        return cls(
            low * poles,
            math.sqrt(low) * weights,
            math.sqrt(low) * root,
            math.sqrt(low) * scale,
            error,
        )

    @property
    def tridiagonal(self) -> np.ndarray:
        """T."""
        return np.asarray(self.root @ self.root.T)

    def slopes(
        self, low: float, high: float, d_low: float, d_high: float
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """Derivatives of s, T and log b where the ends of the interval change at these rates."""
        gap = high / low - 1
        relative = d_low / low
        poles, tridiagonal, log_scale = (
            relative * self.poles,
            relative * self.tridiagonal,
            relative / 2,
        )
        if gap > 0:
            rate = (d_high - d_low) / (high - low) - relative  # of log(gap)
            for steps, weight in ((1, 8 / 12), (-1, -8 / 12), (2, -1 / 12), (-2, 1 / 12)):
                chain = RootChain.of(1.0, 1 + gap * math.exp(steps * _STEP), self.poles.size)
                weight *= rate / _STEP
                poles = poles + low * weight * chain.poles
                tridiagonal = tridiagonal + low * weight * chain.tridiagonal
                log_scale += weight * math.log(chain.scale)
        return poles, tridiagonal, log_scale


INVERSE = RootChain(np.zeros(1), np.ones(1), np.zeros((1, 0)), 1.0, 0.0)
"""The chain of 1 / x itself, of one layer without hidden ones."""


def layers_needed(ratio: float, largest_error: float = LARGEST_ERROR) -> int:
    """The fewest layers with right standard deviations on an interval with this ratio."""
    size = 1
    while _best_resolvents(ratio, size)[2] > 2 * largest_error:
        size += 1
    return size


def _best_resolvents(ratio: float, size: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Poles, weights and largest relative error of the best sum of resolvents on [1, ratio].

    With the elliptic functions of modulus k' = sqrt(1 - 1 / ratio) and the period K',
    s_j = (sn / cn)^2 and w_j is proportional to dn / cn^2 at (j - 1/2) K' / m. The relative errors
    are equal and of alternating signs at 1 / dn^2 of multiples of K' / (2 m). The upper half
    follows from s_{m+1-j} = ratio / s_j, so that no digits are lost where cn is small.
    """
    modulus, period = 1 - 1 / ratio, float(ellipkm1(1 / ratio))
    j = np.arange(size)
    lower = 2 * j + 1 <= size
    sn, cn, dn, _ = ellipj((np.where(lower, j, size - 1 - j) + 0.5) * period / size, modulus)
    poles = np.where(lower, (sn / cn) ** 2, ratio * (cn / sn) ** 2)
    weights = np.where(lower, dn / cn**2, math.sqrt(ratio) * dn / sn**2)
    second = ellipj(period / (2 * size), modulus)[2] ** -2.0
    ends = np.array([(math.sqrt(x) * weights / (x + poles)).sum() for x in (1.0, second)])
    return poles, 2 * weights / ends.sum(), float(abs(ends[0] - ends[1]) / ends.sum())


def _bidiagonal(poles: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, float]:
    """C and b, by Golub and Kahan's bidiagonalisation with full orthogonalisation."""
    size, diagonal = poles.size, np.sqrt(poles)
    scale = float(weights.sum())
    right, left, root = np.zeros((size, size)), np.zeros((size, size)), np.zeros((size, size))
    right[0] = np.sqrt(weights / scale)
    for k in range(size):
        own = diagonal * right[k]
        own -= left[:k].T @ (left[:k] @ own)
        root[k, k] = np.linalg.norm(own)
        left[k] = own / root[k, k]
        if k + 1 < size:
            rest = diagonal * left[k]
            for _ in range(2):
                rest -= right[: k + 1].T @ (right[: k + 1] @ rest)
            root[k + 1, k] = np.linalg.norm(rest)
            right[k + 1] = rest / root[k + 1, k]
    return root, scale
