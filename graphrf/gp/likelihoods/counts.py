"""Likelihoods of counts: Poisson, negative binomial, and both with more zeros."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from scipy.special import betainc, betaln, expit, gammaincc, gammaln, log_expit

from graphrf._base import checks
from graphrf.gp.likelihoods.likelihood import LogLink, known

# Largest count: above it float64 does not distinguish neighbouring ones.
_LARGEST_COUNT = 2.0**53
# The number of counts that replaces none in logarithms.
_LITTLE = 0.5
# Prior and range of the probability of zeros beside those of the distribution.
_ZERO_PRIOR, _ZERO_RANGE = (0.2, 3.0), (1e-4, 0.99)


class _Counts(LogLink):
    """Likelihoods of counts whose mean is a factor times exp(f)."""

    whole = True

    def checked(self, y: np.ndarray, trials: np.ndarray | None) -> np.ndarray:
        return counts("y", super().checked(y, trials))

    def start(self, y: np.ndarray, offset: np.ndarray) -> float:
        return log_rate(y, offset)


@dataclass(frozen=True)
class Poisson(_Counts):
    r"""Counts: y is Poisson with mean exposure exp(f).

    Examples
    --------
    >>> import graphrf as grf
    >>> round(float(grf.gp.Poisson().log_density(3.0, 0.0)), 3)
    -2.792
    """

    def log_density(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return np.asarray(y * f - np.exp(f) - gammaln(y + 1.0))

    def variance(self, f: np.ndarray) -> np.ndarray:
        return self.mean(f)

    def sample(self, f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return _poisson(self.mean(f), rng)

    def distribution(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        less = np.where(y > 0, gammaincc(np.maximum(y, 1.0), self.mean(f)), 0.0)
        return np.asarray(less + 0.5 * np.exp(self.log_density(y, f)))


@dataclass(frozen=True)
class NegativeBinomial(_Counts):
    r"""Counts of mean m = exposure exp(f) and variance m + dispersion m^2, more than Poisson ones.

    Parameters
    ----------
    dispersion : float, optional
        None trains it; in the limit 0 the distribution is Poisson.
    """

    dispersion: float | None = None
    priors = MappingProxyType({"dispersion": (0.2, 4.0)})
    ranges = MappingProxyType({"dispersion": (1e-4, 1e2)})

    def log_density(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        a = known(self.dispersion)
        size, logit = 1 / a, f + math.log(a)
        # differences of gammaln would cancel in counts above 1e10
        combinations = -betaln(size, y + 1.0) - np.log(y + size)
        return np.asarray(combinations + y * log_expit(logit) + size * log_expit(-logit))

    def variance(self, f: np.ndarray) -> np.ndarray:
        rate = self.mean(f)
        return rate + known(self.dispersion) * rate * rate

    def sample(self, f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        a = known(self.dispersion)
        return _poisson(self.mean(f) * a * rng.gamma(1 / a, size=np.shape(f)), rng)

    def distribution(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        a = known(self.dispersion)
        less = np.where(y > 0, betainc(1 / a, np.maximum(y, 1.0), expit(-f - math.log(a))), 0.0)
        return np.asarray(less + 0.5 * np.exp(self.log_density(y, f)))


class _ZeroInflated(_Counts):
    """Counts with additional zeros, and else those of another likelihood."""

    zero_probability: float | None
    log_concave = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.zero_probability is not None and self.zero_probability >= 1:
            raise checks.value_error(
                "zero_probability",
                f"must be less than 1, got {self.zero_probability:g}; None trains it",
            )

    @property
    def others(self) -> Poisson | NegativeBinomial:
        """The distribution of counts without the additional zeros."""
        raise NotImplementedError

    @property
    def factor(self) -> float:
        return 1 - known(self.zero_probability)

    def start(self, y: np.ndarray, offset: np.ndarray) -> float:
        probability = self.zero_probability
        probability = self.priors["zero_probability"][0] if probability is None else probability
        return super().start(y, offset) - math.log1p(-probability)

    def log_density(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        p = known(self.zero_probability)
        own = math.log1p(-p) + self.others.log_density(y, f)
        return np.where(y == 0, np.logaddexp(math.log(p), own), own)

    def distribution(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        p = known(self.zero_probability)
        return np.asarray(np.where(y == 0, 0.5 * p, p) + (1 - p) * self.others.distribution(y, f))

    def variance(self, f: np.ndarray) -> np.ndarray:
        p, rate = known(self.zero_probability), self.others.mean(f)
        return np.asarray((1 - p) * (self.others.variance(f) + p * rate * rate))

    def sample(self, f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        kept = rng.random(np.shape(f)) >= known(self.zero_probability)
        return np.asarray(kept * self.others.sample(f, rng))


@dataclass(frozen=True)
class ZeroInflatedPoisson(_ZeroInflated):
    r"""Counts with additional zeros: 0 with probability pi, else Poisson, m = exposure exp(f).

    .. math:: P(y = 0) = \pi + (1 - \pi) e^{-m}, \quad
              P(y) = (1 - \pi) \, e^{-m} m^y / y! \ \text{ for } y > 0 .

    The expected count is (1 - pi) m.

    Parameters
    ----------
    zero_probability : float in (0, 1), optional
        pi; None trains it.

    Examples
    --------
    >>> import numpy as np, graphrf as grf
    >>> visits = grf.gp.ZeroInflatedPoisson(zero_probability=0.3)
    >>> np.exp(visits.log_density(np.array([0.0, 1.0]), np.log(2.0))).round(3)
    array([0.395, 0.189])

    Source: Lambert 1992, "Zero-inflated Poisson regression, with an application to defects in
    manufacturing".
    """

    zero_probability: float | None = None
    priors = MappingProxyType({"zero_probability": _ZERO_PRIOR})
    ranges = MappingProxyType({"zero_probability": _ZERO_RANGE})

    @property
    def others(self) -> Poisson:
        return Poisson()


@dataclass(frozen=True)
class ZeroInflatedNegativeBinomial(_ZeroInflated):
    r"""Counts with additional zeros: 0 with probability pi, else as in `NegativeBinomial`.

    .. math:: P(y = 0) = \pi + (1 - \pi) \, p(0), \quad P(y) = (1 - \pi) \, p(y) \ \text{ for } y >
        0

    The expected count is (1 - pi) m.

    Parameters
    ----------
    zero_probability : float in (0, 1), optional
        pi; None trains it.
    dispersion : float, optional
        None trains it. Both parameters make zeros frequent, and samples of small counts hardly
        distinguish them.

    Examples
    --------
    >>> import numpy as np, graphrf as grf
    >>> catches = grf.gp.ZeroInflatedNegativeBinomial(zero_probability=0.3, dispersion=0.5)
    >>> np.exp(catches.log_density(np.array([0.0, 1.0]), np.log(2.0))).round(3)
    array([0.475, 0.175])
    """

    zero_probability: float | None = None
    dispersion: float | None = None
    priors = MappingProxyType({"zero_probability": _ZERO_PRIOR, **NegativeBinomial.priors})
    ranges = MappingProxyType({"zero_probability": _ZERO_RANGE, **NegativeBinomial.ranges})

    @property
    def others(self) -> NegativeBinomial:
        return NegativeBinomial(self.dispersion)


def counts(name: str, values: np.ndarray) -> np.ndarray:
    """Non-negative whole numbers as float64."""
    if (values < 0).any():
        raise checks.value_error(name, f"must hold counts, 0 or more, got {values.min():g}")
    if (values > _LARGEST_COUNT).any():
        raise checks.value_error(name, f"must hold counts of at most 2^53, got {values.max():g}")

    broken = np.flatnonzero(values != np.floor(values))
    if broken.size:
        way_out = {
            "y": (
                "for rates pass the counts and their `exposure` or `trials`, for positive values "
                "use likelihood='gamma'"
            ),
            "trials": (
                "where these are amounts and y counts events, use likelihood='poisson' with "
                "`exposure`"
            ),
        }[name]
        raise checks.value_error(
            name,
            f"must hold counts, whole numbers, got {values[broken[0]]:g} at {broken[0]}: {way_out}",
        )

    return values


def log_rate(y: np.ndarray, offset: np.ndarray) -> float:
    """The logarithm of counts over exposures, with at least half a count."""
    largest = float(offset.max())
    return (
        math.log(max(float(y.sum()), _LITTLE))
        - largest
        - math.log(float(np.exp(offset - largest).sum()))
    )


def _poisson(rate: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Poisson counts as float64; above the range of integers, normal ones of equal moments."""
    small = np.minimum(rate, 1e15)
    counts = rng.poisson(small).astype(np.float64)
    large = rate > small
    if large.any():
        counts[large] = rate[large] + np.sqrt(rate[large]) * rng.standard_normal(int(large.sum()))
    return counts
