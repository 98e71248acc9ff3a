"""The base class of likelihoods: log p(y | f) of an observation y, and the mean of y.

Inference (`graphrf.gp.posterior.approximation`, `graphrf.gp.latent`) needs nothing else.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np

from graphrf._base import checks

# Default prior of a likelihood's parameters, the median and the factor of one standard deviation,
# and their range. It says little: `benchmarks/likelihoods.py coverage` draws parameters from it.
PRIOR, RANGE = (1.0, 10.0), (1e-4, 1e4)
# Points and weights of Gauss-Hermite quadrature, for means over a normal distribution.
_POINTS, _WEIGHTS = np.polynomial.hermite_e.hermegauss(40)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
# The largest f of the search for an expected observation.
_LARGEST_LATENT = 1e150
_BISECTIONS = 100

Pair = tuple[np.ndarray, np.ndarray]


class Likelihood:
    r"""The distribution of an observation given the latent value at its node: a base class.

    A subclass is a frozen dataclass whose fields are its parameters: positive numbers, or None for
    those to be trained. It defines `log_density` and `mean`; `variance` and `sample` are for
    deviations and draws of new observations, `distribution` for their quantiles and for the
    probability integral transforms of `loo`; `is_atom(y)` says which observations have a
    probability and no density, by default all if `whole`. All work element by element on arrays
    that broadcast.

    Attributes
    ----------
    log_link : bool
        Whether `mean` is proportional to exp(f), so that `exposure` may multiply it.
    log_concave : bool
        Whether log p(y | f) is concave in f for all y; `LatentGaussianModel` uses it.
    support : (float, float)
        The ends of the range of observations: quantiles of these lie between.
    whole : bool
        Whether observations are whole numbers.
    priors : mapping of str to (float, float)
        For each parameter, the median and the factor of a log-normal prior, as in
        `HyperparameterPrior`; without an entry (1, 10). `prior=None` of the regressor drops them.
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
    >>> graph = grf.from_edges(range(199), range(1, 200))
    >>> rng = np.random.default_rng(0)
    >>> f = grf.apply_root(graph, grf.Diffusion(4.0), 3 * rng.standard_normal(200))
    >>> gp = grf.GraphGPRegressor(graph, kernel="diffusion", likelihood=Exponential(), seed=0)
    >>> gp = gp.fit(np.arange(0, 200, 2), rng.exponential(np.exp(f[::2])))
    >>> low, middle, high = gp.predict(quantiles=(0.025, 0.5, 0.975)).T
    >>> bool(np.mean((low < np.exp(f)) & (np.exp(f) < high)) > 0.85)
    True
    """

    log_link: ClassVar[bool] = False
    log_concave: ClassVar[bool] = True
    support: tuple[float, float] = (-math.inf, math.inf)
    whole: ClassVar[bool] = False
    priors: ClassVar[Mapping[str, tuple[float, float]]] = MappingProxyType({})
    ranges: ClassVar[Mapping[str, tuple[float, float]]] = MappingProxyType({})

    def __post_init__(self) -> None:
        for field in _fields(self):
            value = getattr(self, field.name)
            if value is not None:
                checks.number(field.name, value, low=0, high=1e12, include_low=False)

    def log_density(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        """log p(y | f)."""
        raise NotImplementedError

    def mean(self, f: np.ndarray) -> np.ndarray:
        """The expected observation given f: a monotone function of it."""
        raise NotImplementedError

    def variance(self, f: np.ndarray) -> np.ndarray:
        """The variance of an observation given f."""
        raise NotImplementedError(
            f"{type(self).__name__} has no `variance`, which predicted observations need"
        )

    def sample(self, f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """An observation for each f."""
        raise NotImplementedError(
            f"{type(self).__name__} has no `sample`, which draws of observations need"
        )

    def distribution(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        """P(Y < y | f) + P(Y = y | f) / 2."""
        raise NotImplementedError(
            f"{type(self).__name__} has no `distribution`, which quantiles of observations need: "
            "define it, or take quantiles of observations drawn by `sample`"
        )

    # -- with a default ----------------------------------------------------------------------------

    @property
    def increases(self) -> bool:
        """True if the expected observation increases with f."""
        return bool(self.mean(np.array(1.0)) >= self.mean(np.array(-1.0)))

    def is_atom(self, y: np.ndarray) -> np.ndarray:
        """True for each observation with a probability of its own, where others have a density."""
        return np.asarray(self.whole)

    def at_most(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        """P(Y <= y | f) of a new observation, at exposure 1 and of one trial."""
        y = self.in_form(y)
        atoms, result = self.is_atom(y), self.distribution(y, f)
        if not np.any(atoms):
            return result
        return result + np.where(atoms, 0.5 * np.exp(self.log_density(y, f)), 0.0)

    def in_form(self, y: np.ndarray) -> np.ndarray:
        """New observations y, at exposure 1 and of one trial, as the other methods take them."""
        return y

    def latent_at(self, value: float) -> float:
        """The f whose expected observation is `value`; infinite outside the range of these."""
        sign = 1.0 if self.increases else -1.0
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
        """Observations, shape (n,), as the other methods take them; ValueError for invalid ones.

        The result has this shape, or (k, n) where each observation is several numbers.
        """
        if trials is not None:
            raise checks.value_error(
                "trials", f"is for likelihood='binomial', got it with {self!r}"
            )
        return y

    def with_events(self, y: np.ndarray, event: np.ndarray) -> np.ndarray:
        """Times, shape (n,), those with event 0 right-censored, as other methods take them."""
        raise checks.value_error(
            "event",
            f"is for times until an event, as likelihood='weibull', got it with {self!r}; leave it "
            "out",
        )

    def check_without_exposure(self) -> None:
        """ValueError if observations have no meaning without exposures."""

    def log_exposure(self, y: np.ndarray, exposure: np.ndarray) -> np.ndarray:
        """The logarithm of each observation's exposure, which is added to its f."""
        if not self.log_link:
            raise checks.value_error(
                "exposure",
                "is for likelihoods of rates, such as 'poisson', whose mean it multiplies, not "
                f"{self!r}",
            )
        if (exposure <= 0).any():
            worst = int(np.argmin(exposure))
            raise checks.value_error(
                "exposure",
                f"must be greater than 0, got {exposure[worst]:g} at {worst}; leave out what was "
                "not exposed",
            )
        return np.log(exposure)

    def latent_like(self, f: np.ndarray, other: Self) -> np.ndarray:
        """The latent values at which this likelihood expects what `other` expects at f.

        By default f itself: a subclass whose `mean` depends on parameters that are trained replaces
        it.
        """
        return f

    def start(self, y: np.ndarray, offset: np.ndarray) -> float:
        """About the constant c with observations like y at f = c + offset; its prior's middle."""
        if self.log_link:
            return float(np.log(max(float(np.mean(y)), 1e-12) / float(np.mean(np.exp(offset)))))
        return 0.0

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
        square = normal_average(
            lambda f: np.square(self.mean(f) - value[..., None]), mean, variance
        )
        return value, square


class LogLink(Likelihood):
    """Likelihoods whose mean is a factor times exp(f)."""

    log_link = True
    support = (0.0, math.inf)

    @property
    def factor(self) -> float:
        """mean(f) / exp(f)."""
        return 1.0

    def mean(self, f: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return np.asarray(self.factor * np.exp(f))

    def latent_like(self, f: np.ndarray, other: Self) -> np.ndarray:
        return np.asarray(f + math.log(other.factor / self.factor))

    def moments(self, mean: np.ndarray, variance: np.ndarray) -> Pair:
        with np.errstate(over="ignore"):
            value = self.factor * np.exp(mean + 0.5 * variance)
            return value, value * value * np.expm1(variance)


def normal_average(function: Any, mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """The mean of a function of f over N(mean, variance), elementwise; f gets a last axis."""
    f = np.asarray(mean)[..., None] + np.sqrt(np.asarray(variance))[..., None] * _POINTS
    with np.errstate(over="ignore"):
        return np.asarray(function(f) @ _WEIGHTS)


def known(value: float | None) -> float:
    """A parameter that must have a value."""
    assert value is not None, "the likelihood's parameters are not known yet"
    return value


def _fields(likelihood: Likelihood) -> tuple[Any, ...]:
    return dataclasses.fields(likelihood) if dataclasses.is_dataclass(likelihood) else ()
