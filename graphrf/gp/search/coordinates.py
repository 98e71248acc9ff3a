"""Trained hyperparameters as the bounded coordinates of a search, with their priors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit

from graphrf._base.cached import cached_property
from graphrf.gp.likelihoods.likelihood import PRIOR, RANGE, Likelihood
from graphrf.gp.model.prior import log_prior_density

# Points of the table by which quantiles of a prior are interpolated.
_TABLE = 1_001
NO_PRIORS: Mapping[str, Any] = MappingProxyType({})


class Parameter(NamedTuple):
    """A trained hyperparameter.

    Its coordinate is log x for a positive number, log(x / (1 - x)) for a proportion, the same of
    (1 + x) / 2 for a correlation, and x itself for a real number.
    """

    name: str
    kind: str  # "positive", "proportion", "correlation" or "real"
    start: float
    low: float  # the range of the search is (low, high)
    high: float
    prior: Any  # of the coordinate, as `log_prior_density` takes it
    key: Any = None  # parameters of terms with equal keys are one

    def coordinate(self, value: float) -> float:
        """The coordinate of a value."""
        if self.kind == "real":
            return value
        if self.kind == "positive":
            return math.log(value)
        return float(logit(value if self.kind == "proportion" else 0.5 * (1 + value)))

    def value(self, coordinate: float) -> float:
        """The value at a coordinate."""
        if self.kind == "real":
            return float(coordinate)
        if self.kind == "positive":
            return float(np.exp(coordinate))
        proportion = float(expit(coordinate))
        return proportion if self.kind == "proportion" else 2 * proportion - 1

    def within(self, value: float) -> float:
        """The value, or the end of the range that it steps over."""
        return float(np.clip(value, self.low, self.high))

    def derivative(self, value: float) -> float:
        """The derivative of the value in its coordinate."""
        if self.kind == "correlation":
            return 0.5 * (1 - value * value)
        return {"real": 1.0, "positive": value, "proportion": value * (1 - value)}[self.kind]

    def log_prior(self, coordinate: Any) -> tuple[Any, Any]:
        """Log prior density of coordinates, and its derivative, elementwise; 0 without a prior."""
        return log_prior_density(self.prior, coordinate)


@dataclass(frozen=True)
class Coordinates:
    """The vector of some hyperparameters' coordinates."""

    parameters: tuple[Parameter, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each coordinate."""
        return tuple(parameter.name for parameter in self.parameters)

    @cached_property
    def box(self) -> np.ndarray:
        """The range of each coordinate, shape (p, 2)."""
        ends = [
            [parameter.coordinate(parameter.low), parameter.coordinate(parameter.high)]
            for parameter in self.parameters
        ]
        return np.array(ends, dtype=np.float64).reshape(-1, 2)

    @property
    def start(self) -> np.ndarray:
        """The values with which a search may begin."""
        return self.vector([parameter.start for parameter in self.parameters])

    def clipped(self, vector: np.ndarray) -> np.ndarray:
        """A vector, or the point of the box nearest to it."""
        return np.asarray(np.clip(vector, *self.box.T))

    def vector(self, values: Sequence[float]) -> np.ndarray:
        """The coordinates of one value for each parameter, within the box."""
        pairs = zip(self.parameters, values, strict=True)
        result = [parameter.coordinate(parameter.within(value)) for parameter, value in pairs]
        return np.array(result, dtype=np.float64)

    def values(self, vector: np.ndarray) -> list[float]:
        """The values at a vector."""
        pairs = zip(self.parameters, vector, strict=True)
        # rounding in exp(log(bound)) may step over a bound
        return [parameter.within(parameter.value(x)) for parameter, x in pairs]

    def log_prior(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """The log prior density at a vector, up to a constant, and its gradient."""
        pairs = [
            parameter.log_prior(float(x))
            for parameter, x in zip(self.parameters, vector, strict=True)
        ]
        values, slopes = np.array(pairs, dtype=np.float64).reshape(-1, 2).T
        return float(values.sum()), slopes

    def quantiles(self, levels: np.ndarray) -> np.ndarray:
        """Vectors at quantiles of the prior within the box, for levels of shape (n, p)."""
        result = np.empty(levels.shape)
        for k, ((low, high), parameter) in enumerate(zip(self.box, self.parameters, strict=True)):
            values = np.linspace(low, high, _TABLE)
            log = np.broadcast_to(parameter.log_prior(values)[0], values.shape)
            density = np.exp(log - log.max())
            mass = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]))])
            result[:, k] = np.interp(levels[:, k], mass / mass[-1], values)
        return result


def likelihood_parameters(
    likelihood: Likelihood,
    unit: float,
    *,
    flat: bool = False,
    priors: Mapping[str, Any] = NO_PRIORS,
) -> tuple[Parameter, ...]:
    """The unknown parameters of a likelihood whose latent function has this unit; `flat` drops
    their priors, and `priors` are stated ones.
    """
    result = []
    for name in likelihood.unknown:
        by = likelihood.parameter_unit(name, unit)
        median, factor = likelihood.priors.get(name, PRIOR)
        low, high = likelihood.ranges.get(name, RANGE)
        prior = None if flat else priors.get(name, (median * by, factor))
        key = ("likelihood", name)
        result.append(Parameter(name, "positive", median * by, low * by, high * by, prior, key))
    return tuple(result)


def likelihood_at(likelihood: Likelihood, values: Sequence[float]) -> Likelihood:
    """The likelihood with values of its unknown parameters."""
    named = dict(zip(likelihood.unknown, values, strict=True))
    return likelihood.replace(**named) if named else likelihood
