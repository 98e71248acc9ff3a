r"""The Tweedie likelihood: values of which many are 0 and the others positive.

A sum of a Poisson number of gamma values has a density that is a series over that number j,

.. math:: p(y \mid \mu) = \frac{1}{y} \sum_{j \ge 1} W_j
          \exp\Big(\frac{1}{\varphi} \Big(\frac{y \mu^{1 - p}}{1 - p} - \frac{\mu^{2 - p}}{2 - p}
          \Big)\Big), \quad
          W_j = \frac{y^{-j a} (p - 1)^{j a}}{\varphi^{j (1 - a)} (2 - p)^j \, j! \,
          \Gamma(-j a)}, \quad a = \frac{2 - p}{1 - p},

for y > 0, and P(y = 0) is the exponential without y. The largest term is near
:math:`j = y^{2 - p} / (\varphi (2 - p))`.

Source: Dunn and Smyth 2005, "Series evaluation of Tweedie exponential dispersion model densities",
Sec. 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from scipy.special import gammainc, gammaln, ndtr

from graphrf._base import checks
from graphrf._base.rows import slices
from graphrf.gp.likelihoods.likelihood import LogLink, known

# Terms whose logarithm is this far below the largest are rounding.
_NEGLIGIBLE = 40.0
# Above so many gamma values the saddlepoint approximation has six digits, and its error falls.
_MANY = 2e5
# Terms that are summed at once.
_TERMS = 4_000_000
# Observations with nearly the same number of terms are summed together.
_GROUP = 256
# Deviations from the mean that are near it.
_NEAR = 0.03
# Deviations of a Poisson number that are summed over.
_SPREAD = 12.0


@dataclass(frozen=True)
class Tweedie(LogLink):
    r"""Catches, rain, claims: 0, or positive, with mean m = exposure exp(f) and variance
    dispersion m^power.

    Parameters
    ----------
    dispersion : float, optional
        In units of y^(2 - power); None trains it.
    power : float, optional
        Between 1 (Poisson numbers) and 2 (gamma values); None trains it.

    Examples
    --------
    >>> import numpy as np, graphrf as grf
    >>> catch = grf.gp.Tweedie(dispersion=2.0, power=1.5)
    >>> catch.log_density(np.array([0.0, 1.0]), np.zeros(2)).round(4)
    array([-1.    , -1.5359])
    """

    dispersion: float | None = None
    power: float | None = None
    priors = MappingProxyType({"dispersion": (1.0, 30.0), "power": (1.5, 1.2)})
    ranges = MappingProxyType({"dispersion": (1e-3, 1e4), "power": (1.01, 1.99)})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.power is not None and not 1 < self.power < 2:
            raise checks.value_error(
                "power",
                f"must be between 1 and 2, neither of them, got {self.power:g}: take Poisson() for "
                "1 and Gamma() for 2",
            )

    def checked(self, y: np.ndarray, trials: np.ndarray | None) -> np.ndarray:
        y = super().checked(y, trials)
        if (y < 0).any():
            worst = int(np.argmin(y))
            raise checks.value_error(
                "y", f"must be 0 or more for likelihood='tweedie', got {y[worst]:g} at {worst}"
            )
        return y

    def log_density(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        phi, p = known(self.dispersion), known(self.power)
        with np.errstate(over="ignore", invalid="ignore"):
            # for y = 0 the first part is 0 however far down f is
            exponent = np.where(y > 0, y * np.exp((1 - p) * f) / (1 - p), 0.0)
            exponent = exponent - np.exp((2 - p) * f) / (2 - p)
        return np.asarray(exponent / phi + log_series(np.asarray(y), phi, p))

    def variance(self, f: np.ndarray) -> np.ndarray:
        return np.asarray(known(self.dispersion) * np.exp(known(self.power) * np.asarray(f)))

    def sample(self, f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        rate, shape, scale = self._compound(f)
        number = rng.poisson(rate)
        return np.asarray(np.where(number, scale * rng.gamma(np.maximum(number, 1) * shape), 0.0))

    def is_atom(self, y: np.ndarray) -> np.ndarray:
        return np.asarray(y) == 0

    def distribution(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        """P(Y < y | f) + P(Y = y | f) / 2."""
        y, f = np.broadcast_arrays(np.asarray(y, dtype=np.float64), np.asarray(f, dtype=np.float64))
        rate, shape, scale = (np.broadcast_to(x, y.shape).ravel() for x in self._compound(f))
        result, values = 0.5 * np.exp(-rate), y.ravel()
        result[values < 0] = 0.0
        many = np.flatnonzero((values > 0) & (rate > _MANY))
        result[many] = self._saddlepoint(values[many], f.ravel()[many])

        few = np.flatnonzero((values > 0) & (rate <= _MANY))
        half = _SPREAD * np.sqrt(rate[few]) + _SPREAD
        width = int(2 * half.max(initial=0.0)) + 2
        for part in slices(few.size, max(1, _TERMS // width)):
            at = few[part]
            first = np.maximum(1, np.floor(rate[at] - half[part]))
            j, mean = first[:, None] + np.arange(width), rate[at, None]
            with np.errstate(under="ignore"):
                chance = np.exp(j * np.log(mean) - mean - gammaln(j + 1.0))
                below = gammainc(shape[at, None] * j, (values[at] / scale[at])[:, None])
                result[at] = np.exp(-rate[at]) + (chance * below).sum(axis=1)
        return np.minimum(result, 1.0).reshape(y.shape)

    def _saddlepoint(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        """P(Y < y | f) where it is a sum of many gamma values.

        Source: Lugannani and Rice 1980, "Saddle point approximation for the distribution of the sum
        of independent random variables".
        """
        phi, p = known(self.dispersion), known(self.power)
        mean = np.exp(f)
        ratio = y / mean
        unit = np.sqrt(mean ** (2 - p) / phi)
        deviance = ratio ** (2 - p) / ((1 - p) * (2 - p)) - ratio / (1 - p) + 1 / (2 - p)
        r = unit * np.sign(ratio - 1) * np.sqrt(2 * np.maximum(deviance, 0.0))
        u = unit * (ratio ** (1 - p) - 1) / (1 - p) * ratio ** (0.5 * p)
        # Near the mean both denominators vanish, and their difference is the skewness over 6.
        near = np.abs(ratio - 1) * unit < _NEAR
        r = np.where(near, unit * (ratio - 1), r)
        safe_r, safe_u = np.where(near, 1.0, r), np.where(near, 1.0, u)
        change = np.where(near, p / (6 * unit), 1 / safe_r - 1 / safe_u)
        return np.asarray(ndtr(r) + np.exp(-0.5 * r * r) / math.sqrt(2 * math.pi) * change)

    def _compound(self, f: np.ndarray) -> tuple[np.ndarray, float, np.ndarray]:
        """The mean number of gamma values, their shape, and their scale."""
        phi, p, f = known(self.dispersion), known(self.power), np.asarray(f)
        rate = np.exp((2 - p) * f) / (phi * (2 - p))
        return rate, (2 - p) / (p - 1), phi * (p - 1) * np.exp((p - 1) * f)


def log_series(y: np.ndarray, phi: float, p: float) -> np.ndarray:
    """log (sum_j W_j / y), 0 for y = 0, elementwise."""
    result = np.zeros(y.shape)
    positive = np.flatnonzero(y.ravel() > 0)
    values = y.ravel()[positive]
    a = (2 - p) / (1 - p)
    top = values ** (2 - p) / (phi * (2 - p))
    log_z = -a * np.log(values) + a * math.log(p - 1) - (1 - a) * math.log(phi) - math.log(2 - p)

    log_sums = np.empty(values.size)
    many = top > _MANY
    # The normal density around y in the scale of the deviance, whose exponent at f = log y is 0.
    log_sums[many] = -0.5 * np.log(2 * math.pi * phi * values[many] ** p) + values[many] ** (
        2 - p
    ) / (phi * (1 - p) * (p - 2))
    # log W_j falls from its largest value by (1 - a) (j - top)^2 / (2 top), nearly.
    half = np.sqrt(2 * _NEGLIGIBLE * (top + 1) / (1 - a)) + _NEGLIGIBLE
    few = np.flatnonzero(~many)
    few = few[np.argsort(top[few], kind="stable")]
    start = 0
    while start < few.size:
        width = int(2 * half[few[min(start + _GROUP, few.size) - 1]]) + 2
        group = few[start : start + _GROUP]
        first = np.maximum(1, np.floor(top[group] - half[group]))
        j = first[:, None] + np.arange(width)
        terms = j * log_z[group, None] - gammaln(1 + j) - gammaln(-a * j)
        highest = terms.max(axis=1)
        sums = np.exp(terms - highest[:, None]).sum(axis=1)
        log_sums[group] = highest + np.log(sums) - np.log(values[group])
        start += _GROUP
    result.ravel()[positive] = log_sums
    return result
