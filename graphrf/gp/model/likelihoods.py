r"""Likelihoods of observations of a latent function on a graph: counts, proportions, outliers, positive values.

A likelihood is log p(y | f) of one observation y and the latent value f at its node, and the expectation of y
there. Inference (`graphrf.gp.posterior.approximation`) needs nothing else.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import expit, gammaln, log_expit

from graphrf._base import checks

# Points and weights of Gauss-Hermite quadrature, for means over a normal distribution.
_POINTS, _WEIGHTS = np.polynomial.hermite_e.hermegauss(40)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
# Largest count: above it float64 does not distinguish neighbouring ones.
_LARGEST_COUNT = 2.0**53
# Shares of 0 and of all stand for a little more and a little less.
_LITTLE = 0.5
# Of observations whose scale is trained, in their own units.
_LARGEST_SPREAD = 1e10
# Beyond it no expected observation is sought.
_LARGEST_LATENT = 1e150
_BISECTIONS = 100

Pair = tuple[np.ndarray, np.ndarray]


class Likelihood:
    r"""Distribution of an observation given the latent value at its node; base class of your own likelihoods.

    A subclass is a frozen dataclass whose fields are its parameters: positive numbers, or None for those to be
    trained. It defines `log_density` and `mean`; with `variance` and `sample` it can also predict and draw
    observations. All work element by element on arrays that broadcast.

    Attributes
    ----------
    log_link : bool
        Whether `mean` is proportional to exp(f), so that `exposure` may multiply it.
    log_concave : bool
        Whether log p(y | f) is concave in f for all y. `LatentGaussianModel` asks.
    priors : mapping of str to (float, float)
        For each parameter, the median and the factor of a log-normal prior, as in `HyperparameterPrior`; without
        an entry (1, 10). `prior=None` of the regressor drops them.
    ranges : mapping of str to (float, float)
        Search range of each parameter; without an entry, from 1e-4 to 1e4.

    Examples
    --------
    Waiting times with mean exp(f), a likelihood that graphrf does not have:

    >>> from dataclasses import dataclass
    >>> import numpy as np, graphrf as grf
    >>> @dataclass(frozen=True)
    ... class Exponential(grf.gp.Likelihood):
    ...     log_link = True
    ...     def log_density(self, y, f):
    ...         return -f - y * np.exp(-f)
    ...     def mean(self, f):
    ...         return np.exp(f)
    ...     def variance(self, f):
    ...         return np.exp(2 * f)
    ...     def sample(self, f, rng):
    ...         return rng.exponential(np.exp(f))
    >>> graph = grf.datasets.load("generated-grid").graph
    >>> rng = np.random.default_rng(0)
    >>> f = grf.apply_root(graph, grf.Diffusion(4.0), 3 * rng.standard_normal(900))
    >>> gp = grf.GraphGPRegressor(graph, kernel="diffusion", likelihood=Exponential(), seed=0)
    >>> gp = gp.fit(np.arange(200), rng.exponential(np.exp(f[:200])))
    >>> low, middle, high = gp.predict(quantiles=(0.025, 0.5, 0.975)).T
    >>> bool(np.mean((low < np.exp(f)) & (np.exp(f) < high)) > 0.85)
    True
    """

    log_link: ClassVar[bool] = False
    log_concave: ClassVar[bool] = True
    priors: ClassVar[Mapping[str, tuple[float, float]]] = MappingProxyType({})
    ranges: ClassVar[Mapping[str, tuple[float, float]]] = MappingProxyType({})

    def log_density(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        """log p(y | f)."""
        raise NotImplementedError

    def mean(self, f: np.ndarray) -> np.ndarray:
        """The expected observation given f: a monotone function of it."""
        raise NotImplementedError

    def variance(self, f: np.ndarray) -> np.ndarray:
        """The variance of an observation given f."""
        raise NotImplementedError(f"{type(self).__name__} has no `variance`, which predicted observations need")

    def sample(self, f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """An observation for each f."""
        raise NotImplementedError(f"{type(self).__name__} has no `sample`, which draws of observations need")

    # -- what has a default ------------------------------------------------------------------------

    def latent_at(self, value: float) -> float:
        """The f whose expected observation is `value`; infinite beyond all expected observations."""
        sign = 1.0 if self.mean(np.array(1.0)) >= self.mean(np.array(-1.0)) else -1.0
        if math.isinf(value):
            return sign * value

        def is_less(f: float) -> bool:
            with np.errstate(over="ignore"):
                return bool(self.mean(np.array(sign * f)) < value)

        low, high = -1.0, 1.0
        while low > -_LARGEST_LATENT and not is_less(low):
            low *= 2
        while high < _LARGEST_LATENT and is_less(high):
            high *= 2
        if not is_less(low) or is_less(high):
            return sign * math.copysign(math.inf, low if not is_less(low) else high)
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if is_less(middle) else (low, middle)
        return sign * 0.5 * (low + high)

    def checked(self, y: np.ndarray, trials: np.ndarray | None) -> np.ndarray:
        """Observations, shape (n,), as the other methods take them: of this shape, or (k, n) where each is several
        numbers. ValueError for those that cannot be.
        """
        if trials is not None:
            raise checks.value_error("trials", f"is for likelihood='binomial', got it with {self!r}")
        return y

    def start(self, y: np.ndarray, offset: np.ndarray) -> float:
        """About the constant c with observations like y at f = c + offset; the middle of c's prior."""
        return (
            float(np.log(max(float(np.mean(y)), 1e-12) / float(np.mean(np.exp(offset))))) if self.log_link else 0.0
        )

    def unit(self, y: np.ndarray) -> float:
        """The unit of the latent function: its variance is measured in squares of that."""
        return 1.0

    def parameter_unit(self, name: str, unit: float) -> float:
        """The unit of a parameter, from that of the latent function."""
        return 1.0

    @property
    def unknown(self) -> tuple[str, ...]:
        """The parameters that are to be trained: those that are None."""
        return tuple(field.name for field in _fields(self) if getattr(self, field.name) is None)

    def replace(self, **parameters: float) -> Self:
        """A copy with other parameters."""
        return dataclasses.replace(self, **parameters)  # type: ignore[type-var]

    def moments(self, mean: np.ndarray, variance: np.ndarray) -> Pair:
        """The mean and the variance of `mean(f)` for normal f, by Gauss-Hermite quadrature."""
        value = normal_average(self.mean, mean, variance)
        square = normal_average(lambda f: np.square(self.mean(f) - value[..., None]), mean, variance)
        return value, square


def normal_average(function: Any, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """The mean of a function of f over N(mean, variance), elementwise; f gets an axis of points at the end."""
    f = np.asarray(mean)[..., None] + np.sqrt(np.asarray(variance))[..., None] * _POINTS
    with np.errstate(over="ignore"):
        return np.asarray(function(f) @ _WEIGHTS)


def _fields(likelihood: Likelihood) -> tuple[Any, ...]:
    return dataclasses.fields(likelihood) if dataclasses.is_dataclass(likelihood) else ()


class _LogLink(Likelihood):
    """Likelihoods whose mean is exp(f)."""

    log_link = True

    def mean(self, f: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return np.exp(f)

    def moments(self, mean: np.ndarray, variance: np.ndarray) -> Pair:
        with np.errstate(over="ignore"):
            value = np.exp(mean + 0.5 * variance)
            return value, value * value * np.expm1(variance)


@dataclass(frozen=True)
class Poisson(_LogLink):
    r"""Counts: y is Poisson with mean exposure exp(f).

    Examples
    --------
    >>> import graphrf as grf
    >>> round(float(grf.gp.Poisson().log_density(3.0, 0.0)), 3)
    -2.792
    """

    def checked(self, y: np.ndarray, trials: np.ndarray | None) -> np.ndarray:
        return _counts("y", super().checked(y, trials))

    def start(self, y: np.ndarray, offset: np.ndarray) -> float:
        return _log_rate(y, offset)

    def log_density(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return np.asarray(y * f - np.exp(f) - gammaln(y + 1.0))

    def variance(self, f: np.ndarray) -> np.ndarray:
        return self.mean(f)

    def sample(self, f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return _poisson(self.mean(f), rng)


@dataclass(frozen=True)
class NegativeBinomial(_LogLink):
    r"""Counts that vary more than Poisson counts: mean m = exposure exp(f), variance m + dispersion m^2.

    Parameters
    ----------
    dispersion : float, optional
        None trains it; in the limit 0 the distribution is Poisson.
    """

    dispersion: float | None = None
    priors = MappingProxyType({"dispersion": (0.2, 4.0)})
    ranges = MappingProxyType({"dispersion": (1e-4, 1e2)})

    def __post_init__(self) -> None:
        _check_parameters(self)

    def checked(self, y: np.ndarray, trials: np.ndarray | None) -> np.ndarray:
        return _counts("y", super().checked(y, trials))

    def start(self, y: np.ndarray, offset: np.ndarray) -> float:
        return _log_rate(y, offset)

    def log_density(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        a = _known(self.dispersion)
        size, logit = 1 / a, f + math.log(a)
        combinations = gammaln(y + size) - gammaln(size) - gammaln(y + 1.0)
        return np.asarray(combinations + y * log_expit(logit) + size * log_expit(-logit))

    def variance(self, f: np.ndarray) -> np.ndarray:
        rate = self.mean(f)
        return rate + _known(self.dispersion) * rate * rate

    def sample(self, f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        a = _known(self.dispersion)
        return _poisson(self.mean(f) * a * rng.gamma(1 / a, size=np.shape(f)), rng)


@dataclass(frozen=True)
class Gamma(_LogLink):
    r"""Positive values: gamma with mean m = exposure exp(f) and variance m^2 / shape.

    Parameters
    ----------
    shape : float, optional
        None trains it; 1 is the exponential distribution.
    """

    shape: float | None = None
    priors = MappingProxyType({"shape": (2.0, 2.5)})
    ranges = MappingProxyType({"shape": (1e-2, 1e5)})

    def __post_init__(self) -> None:
        _check_parameters(self)

    def checked(self, y: np.ndarray, trials: np.ndarray | None) -> np.ndarray:
        y = super().checked(y, trials)
        if (y <= 0).any():
            raise checks.value_error("y", f"must be greater than 0 for likelihood='gamma', got {y.min():g}")
        return y

    def start(self, y: np.ndarray, offset: np.ndarray) -> float:
        return float(np.mean(np.log(y) - offset))

    def log_density(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        k = _known(self.shape)
        return np.asarray(k * (math.log(k) - f + np.log(y) - y * np.exp(-f)) - gammaln(k) - np.log(y))

    def variance(self, f: np.ndarray) -> np.ndarray:
        return np.square(self.mean(f)) / _known(self.shape)

    def sample(self, f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        k = _known(self.shape)
        return np.asarray(self.mean(f) / k * rng.gamma(k, size=np.shape(f)))


@dataclass(frozen=True)
class Binomial(Likelihood):
    r"""Successes among trials, each with the probability 1 / (1 + exp(-f))."""

    def checked(self, y: np.ndarray, trials: np.ndarray | None) -> np.ndarray:
        if trials is None:
            raise checks.value_error(
                "trials", "must be given for likelihood='binomial': one number, or one for each observation"
            )
        y, trials = _counts("y", y), _counts("trials", trials)
        if (trials < 1).any():
            raise checks.value_error("trials", f"must be at least 1, got {trials.min():g}")
        if (y > trials).any():
            worst = int(np.argmax(y - trials))
            raise checks.value_error(
                "trials", f"must be at least the successes `y`, got {trials[worst]:g} for {y[worst]:g} at {worst}"
            )
        return np.stack([y, trials])

    def start(self, y: np.ndarray, offset: np.ndarray) -> float:
        share = (float(y[0].sum()) + _LITTLE) / (float(y[1].sum()) + 2 * _LITTLE)
        return math.log(share / (1 - share))

    def log_density(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        k, n = _successes(y)
        combinations = gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)
        return np.asarray(combinations + k * log_expit(f) + (n - k) * log_expit(-f))

    def mean(self, f: np.ndarray) -> np.ndarray:
        return np.asarray(expit(f))

    def variance(self, f: np.ndarray) -> np.ndarray:
        return np.asarray(expit(f) * expit(-f))

    def sample(self, f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return (rng.random(np.shape(f)) < expit(f)).astype(np.float64)


@dataclass(frozen=True)
class Bernoulli(Binomial):
    r"""Binary outcomes: 1 with probability 1 / (1 + exp(-f)), else 0."""

    def checked(self, y: np.ndarray, trials: np.ndarray | None) -> np.ndarray:
        Likelihood.checked(self, y, trials)
        if not np.isin(y, (0.0, 1.0)).all():
            raise checks.value_error("y", "must be 0 or 1, or booleans, for likelihood='bernoulli'")
        return super().checked(y, np.ones(y.size))


@dataclass(frozen=True)
class StudentT(Likelihood):
    r"""Values with outliers: y = f + scale t, with Student's t of df degrees of freedom.

    Parameters
    ----------
    scale : float, optional
        In units of y; None trains it.
    df : float, optional
        Degrees of freedom, above 1: 4 is robust; large values approach normal noise. None trains it.

    Notes
    -----
    The density is not log-concave: the posterior may have several maxima, which one normal distribution covers.

    Source: Jylänki, Vanhatalo and Vehtari 2011, "Robust Gaussian process regression with a Student-t likelihood".
    """

    scale: float | None = None
    df: float | None = 4.0
    log_concave = False
    priors = MappingProxyType({"scale": (0.3, 3.0), "df": (5.0, 2.0)})
    ranges = MappingProxyType({"scale": (1e-3, 10.0), "df": (1.5, 200.0)})

    def __post_init__(self) -> None:
        _check_parameters(self)
        if self.df is not None and self.df <= 1:
            raise checks.value_error("df", f"must be greater than 1, so that y has a mean, got {self.df:g}")

    def checked(self, y: np.ndarray, trials: np.ndarray | None) -> np.ndarray:
        spread = self.unit(super().checked(y, trials))
        if self.scale is None and not 1 / _LARGEST_SPREAD <= spread <= _LARGEST_SPREAD:
            raise checks.value_error(
                "y",
                f"must have a spread from {1 / _LARGEST_SPREAD:g} to {_LARGEST_SPREAD:g} with {self!r}, got "
                f"{spread:.3g}; change its units",
            )
        return y

    def start(self, y: np.ndarray, offset: np.ndarray) -> float:
        return float(np.median(y))

    def unit(self, y: np.ndarray) -> float:
        spread = 1.4826 * float(np.median(np.abs(y - np.median(y))))
        return spread or float(np.std(y)) or 1.0

    def parameter_unit(self, name: str, unit: float) -> float:
        return unit if name == "scale" else 1.0

    def log_density(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        s, v = _known(self.scale), _known(self.df)
        constant = math.lgamma(0.5 * v + 0.5) - math.lgamma(0.5 * v) - 0.5 * math.log(v * math.pi) - math.log(s)
        return np.asarray(constant - (0.5 * v + 0.5) * np.log1p(np.square((y - f) / s) / v))

    def mean(self, f: np.ndarray) -> np.ndarray:
        return np.asarray(f)

    def moments(self, mean: np.ndarray, variance: np.ndarray) -> Pair:
        return np.asarray(mean), np.asarray(variance)

    def variance(self, f: np.ndarray) -> np.ndarray:
        s, v = _known(self.scale), _known(self.df)
        return np.full(np.shape(f), s * s * v / (v - 2) if v > 2 else np.inf)

    def sample(self, f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return np.asarray(f + _known(self.scale) * rng.standard_t(_known(self.df), size=np.shape(f)))


@dataclass(frozen=True)
class NormalNoise(Likelihood):
    r"""Values with normal noise: y = f + scale e.

    Parameters
    ----------
    scale : float, optional
        The standard deviation of the noise, in units of y; None trains it.
    """

    scale: float | None = None
    priors = MappingProxyType({"scale": (0.3, 4.0)})
    ranges = MappingProxyType({"scale": (1e-4, 10.0)})

    def __post_init__(self) -> None:
        _check_parameters(self)

    def start(self, y: np.ndarray, offset: np.ndarray) -> float:
        return float(np.mean(y))

    def unit(self, y: np.ndarray) -> float:
        return float(np.std(y)) or 1.0

    def parameter_unit(self, name: str, unit: float) -> float:
        return unit

    def log_density(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        s = _known(self.scale)
        return np.asarray(-0.5 * np.square((y - f) / s) - math.log(s) - 0.5 * math.log(2 * math.pi))

    def mean(self, f: np.ndarray) -> np.ndarray:
        return np.asarray(f)

    def moments(self, mean: np.ndarray, variance: np.ndarray) -> Pair:
        return np.asarray(mean), np.asarray(variance)

    def variance(self, f: np.ndarray) -> np.ndarray:
        return np.full(np.shape(f), _known(self.scale) ** 2)

    def sample(self, f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return np.asarray(f + _known(self.scale) * rng.standard_normal(np.shape(f)))


LIKELIHOODS: dict[str, type[Likelihood]] = {
    "poisson": Poisson,
    "negative_binomial": NegativeBinomial,
    "binomial": Binomial,
    "bernoulli": Bernoulli,
    "student_t": StudentT,
    "gamma": Gamma,
}


def checked_likelihood(likelihood: Any) -> Likelihood | None:
    """The likelihood that a name or an object stands for; None for normal noise."""
    if isinstance(likelihood, str):
        name = checks.choice("likelihood", likelihood, ("gaussian", *LIKELIHOODS))
        return None if name == "gaussian" else LIKELIHOODS[name]()
    if not isinstance(likelihood, Likelihood):
        raise checks.type_error(
            "likelihood",
            f"must be one of 'gaussian', {', '.join(map(repr, LIKELIHOODS))}, or a graphrf.gp.Likelihood, got "
            f"{checks.describe(likelihood)}",
        )
    return likelihood


def _successes(y: np.ndarray) -> Pair:
    """Successes and trials of observations as `Binomial.checked` returns them."""
    return y[0], y[1]


def _known(value: float | None) -> float:
    assert value is not None, "the likelihood's parameters are not known yet"
    return value


def _check_parameters(likelihood: Likelihood) -> None:
    for field in _fields(likelihood):
        value = getattr(likelihood, field.name)
        if value is not None:
            checks.number(field.name, value, low=0, high=1e12, include_low=False)


def _counts(name: str, values: np.ndarray) -> np.ndarray:
    """Non-negative whole numbers as float64."""
    if (values < 0).any():
        raise checks.value_error(name, f"must hold counts, 0 or more, got {values.min():g}")
    if (values > _LARGEST_COUNT).any():
        raise checks.value_error(name, f"must hold counts of at most 2^53, got {values.max():g}")
    broken = np.flatnonzero(values != np.floor(values))
    if broken.size:
        way_out = {
            "y": "for rates pass the counts and their `exposure` or `trials`, for positive values use "
            "likelihood='gamma'",
            "trials": "where these are amounts and y counts events, use likelihood='poisson' with `exposure`",
        }[name]
        raise checks.value_error(
            name, f"must hold counts, whole numbers, got {values[broken[0]]:g} at {broken[0]}: {way_out}"
        )
    return values


def _log_rate(y: np.ndarray, offset: np.ndarray) -> float:
    """The logarithm of counts over exposures; half a count stands for none."""
    largest = float(offset.max())
    return math.log(max(float(y.sum()), _LITTLE)) - largest - math.log(float(np.exp(offset - largest).sum()))


def _poisson(rate: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Poisson counts as float64; beyond what integers hold, normal ones of the same mean and variance."""
    small = np.minimum(rate, 1e15)
    counts = rng.poisson(small).astype(np.float64)
    large = rate > small
    if large.any():
        counts[large] = rate[large] + np.sqrt(rate[large]) * rng.standard_normal(int(large.sum()))
    return counts
