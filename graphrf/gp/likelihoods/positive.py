"""Likelihoods of positive values: gamma, log-normal, and Weibull with censored times."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from scipy.special import gamma, gammainc, gammaln, ndtr

from graphrf._base import checks
from graphrf.gp.likelihoods.likelihood import LogLink, Pair, known


@dataclass(frozen=True)
class Gamma(LogLink):
    r"""Positive values: gamma with mean m = exposure exp(f) and variance m^2 / shape.

    Parameters
    ----------
    shape : float, optional
        None trains it; 1 is the exponential distribution.
    """

    shape: float | None = None
    priors = MappingProxyType({"shape": (2.0, 2.5)})
    ranges = MappingProxyType({"shape": (1e-2, 1e5)})

    def checked(self, y: np.ndarray, trials: np.ndarray | None) -> np.ndarray:
        return _positive("gamma", super().checked(y, trials))

    def start(self, y: np.ndarray, offset: np.ndarray) -> float:
        return float(np.mean(np.log(y) - offset))

    def log_density(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        k = known(self.shape)
        return np.asarray(
            k * (math.log(k) - f + np.log(y) - y * np.exp(-f)) - gammaln(k) - np.log(y)
        )

    def variance(self, f: np.ndarray) -> np.ndarray:
        return np.square(self.mean(f)) / known(self.shape)

    def sample(self, f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        k = known(self.shape)
        return np.asarray(self.mean(f) / k * rng.gamma(k, size=np.shape(f)))

    def distribution(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        k = known(self.shape)
        return np.asarray(gammainc(k, k * y * np.exp(-f)))


@dataclass(frozen=True)
class LogNormal(LogLink):
    r"""Positive values whose logarithms are normal: log y = f + log(exposure) + scale e.

    .. math:: p(y) = \frac{1}{y \sigma \sqrt{2 \pi}} e^{-(\log y - f)^2 / (2 \sigma^2)}, \quad
              \mathrm{E}(y) = e^{f + \sigma^2 / 2}, \quad \mathrm{var}(y) = (e^{\sigma^2} - 1) \,
              \mathrm{E}(y)^2 .

    Parameters
    ----------
    scale : float, optional
        The standard deviation of log y, sigma; None trains it.

    Examples
    --------
    >>> import graphrf as grf
    >>> prices = grf.gp.LogNormal(scale=0.5)
    >>> round(float(prices.mean(0.0)), 3), round(float(prices.log_density(1.0, 0.0)), 3)
    (1.133, -0.226)
    """

    scale: float | None = None
    priors = MappingProxyType({"scale": (0.3, 4.0)})
    ranges = MappingProxyType({"scale": (1e-3, 5.0)})

    @property
    def factor(self) -> float:
        return float(np.exp(0.5 * known(self.scale) ** 2))

    def checked(self, y: np.ndarray, trials: np.ndarray | None) -> np.ndarray:
        return _positive("log_normal", super().checked(y, trials))

    def start(self, y: np.ndarray, offset: np.ndarray) -> float:
        return float(np.mean(np.log(y) - offset))

    def log_density(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        s = known(self.scale)
        z = (np.log(y) - f) / s
        return np.asarray(-0.5 * z * z - np.log(y) - math.log(s) - 0.5 * math.log(2 * math.pi))

    def distribution(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return np.asarray(ndtr((np.log(y) - f) / known(self.scale)))

    def variance(self, f: np.ndarray) -> np.ndarray:
        return np.asarray(np.expm1(known(self.scale) ** 2) * np.square(self.mean(f)))

    def sample(self, f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return np.asarray(np.exp(f + known(self.scale) * rng.standard_normal(np.shape(f))))


@dataclass(frozen=True)
class Weibull(LogLink):
    r"""Times until an event, some of them right-censored: Weibull with hazard k t^(k-1) exp(-k f).

    .. math:: P(y > t) = \exp\big(-(t / e^f)^k\big), \quad p(t) = \frac{k}{t} (t / e^f)^k \, P(y >
        t), \quad
              \mathrm{E}(y) = e^f \, \Gamma(1 + 1 / k).

    A time that is censored, because the event had not occurred by then, contributes P(y > t). The
    argument `event` of `LatentGaussianModel` marks observed times (1) and censored ones (0);
    without it, as in `GraphGPRegressor`, all are observed. exp(f) is the time by which 63 % have
    had the event. A change of f by d multiplies all times by exp(d), and the hazard by exp(-k d).
    `distribution` is NaN for censored times.

    Parameters
    ----------
    shape : float, optional
        k: above 1 the hazard grows with time, and 1 is the exponential distribution. None trains
        it.

    Examples
    --------
    >>> import numpy as np, graphrf as grf
    >>> times = grf.gp.Weibull(shape=1.5)
    >>> y = times.with_events(np.array([2.0, 2.0]), np.array([1.0, 0.0]))  # observed, and censored
    >>> times.log_density(y, np.array([1.0, 1.0])).round(3)
    array([-1.379, -0.631])
    """

    shape: float | None = None
    priors = MappingProxyType({"shape": (1.0, 2.0)})
    ranges = MappingProxyType({"shape": (0.05, 50.0)})

    @property
    def factor(self) -> float:
        return float(gamma(1 + 1 / known(self.shape)))

    def checked(self, y: np.ndarray, trials: np.ndarray | None) -> np.ndarray:
        return self.in_form(_positive("weibull", super().checked(y, trials)))

    def in_form(self, y: np.ndarray) -> np.ndarray:
        return np.stack([y, np.ones(np.shape(y))])

    def with_events(self, y: np.ndarray, event: np.ndarray) -> np.ndarray:
        wrong = np.flatnonzero(~np.isin(event, (0.0, 1.0)))
        if wrong.size:
            raise checks.value_error(
                "event",
                "must be 1 where the event was observed and 0 where the time is censored, or "
                f"booleans, got {event[wrong[0]]:g} at {wrong[0]}",
            )
        if not event.any():
            raise checks.value_error(
                "event",
                "must be 1 somewhere: times that are all censored set no upper bound to expected "
                "times",
            )
        return np.stack([self.checked(y, None)[0], event])

    def start(self, y: np.ndarray, offset: np.ndarray) -> float:
        time, event = _events(y)
        return float(np.log(np.sum(time * np.exp(-offset)) / np.sum(event)))

    def log_density(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        k, (time, event) = known(self.shape), _events(y)
        z = k * (np.log(time) - f)
        return np.asarray(event * (math.log(k) - np.log(time) + z) - np.exp(z))

    def distribution(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        time, event = _events(y)
        z = known(self.shape) * (np.log(time) - f)
        return np.where(event == 1, -np.expm1(-np.exp(z)), np.nan)

    def variance(self, f: np.ndarray) -> np.ndarray:
        ratio = gamma(1 + 2 / known(self.shape)) / self.factor**2 - 1
        return np.asarray(ratio * np.square(self.mean(f)))

    def sample(self, f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return np.asarray(np.exp(f) * rng.weibull(known(self.shape), size=np.shape(f)))


def _positive(name: str, y: np.ndarray) -> np.ndarray:
    """Observations that must be positive with the likelihood of this name."""
    if (y <= 0).any():
        worst = int(np.argmin(y))
        raise checks.value_error(
            "y",
            f"must be greater than 0 for likelihood={name!r}, got {y[worst]:g} at {worst}; leave "
            "such values out",
        )
    return y


def _events(y: np.ndarray) -> Pair:
    """Times, and whether each is observed, as `Weibull.checked` returns them."""
    return y[0], y[1]
