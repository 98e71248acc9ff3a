"""Priors of the hyperparameters of a field over space, as a user states them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from graphrf._base import checks
from graphrf.gp.fields.domain import Domain
from graphrf.gp.model.prior import (
    HyperparameterPrior,
    PenalisedDeviation,
    PenalisedRange,
    RangePrior,
    checked_pair,
)

_NAMES = ("range", "sd", "noise")
# The weak prior of ranges along edges is log-normal: its median in units of lengths, and its
# factor.
_ALONG_EDGES = (3.0, 3.0)


@dataclass(frozen=True)
class VariancePrior:
    """The law of a variance whose root has a `PenalisedDeviation`."""

    prior: PenalisedDeviation

    def log_density(self, log_value: float) -> tuple[float, float]:
        """Log density of the variance's logarithm, and its derivative."""
        value, slope = self.prior.log_density(0.5 * log_value)
        return value - math.log(2), 0.5 * slope


class FieldPriors(NamedTuple):
    """Priors of the range, of the field's variance and of the noise variance.

    Variances are in units of the variance of y about its mean function; None leaves one without a
    prior.
    """

    range: tuple[float, float] | RangePrior | None
    output_scale: tuple[float, float] | PenalisedDeviation | None
    noise: tuple[float, float] | None

    @classmethod
    def of(cls, prior: Any, domain: Domain) -> FieldPriors:
        """The priors that a setting stands for."""
        if prior is None:
            return cls(None, None, None)
        if isinstance(prior, str):
            checks.choice("prior", prior, ("weak",))
            prior = {}
        if not isinstance(prior, Mapping):
            raise checks.type_error(
                "prior", f"must be 'weak', None or a mapping, got {checks.describe(prior)}"
            )
        for name in prior:
            checks.choice("the name of a prior", name, _NAMES)
        weak = HyperparameterPrior()
        result = cls(_weak_range(domain), weak.output_scale, weak.noise)
        if "range" in prior:
            result = result._replace(range=_checked_range(prior["range"], domain))
        if "sd" in prior:
            result = result._replace(output_scale=_checked_deviation(prior["sd"]))
        if "noise" in prior:
            result = result._replace(noise=checked_pair("noise", prior["noise"]))
        return result

    def scaled(self, unit: float) -> tuple[Any, Any, Any]:
        """The priors as `log_prior_density` takes them, for this variance of y."""
        scale: Any = self.output_scale
        if isinstance(scale, PenalisedDeviation):
            upper = math.sqrt(unit) * scale.upper
            scale = VariancePrior(PenalisedDeviation(upper, scale.probability))
        elif scale is not None:
            scale = scale[0] * unit, scale[1]
        noise = None if self.noise is None else (self.noise[0] * unit, self.noise[1])
        return self.range, scale, noise


def _weak_range(domain: Domain) -> Any:
    """The prior of the range where none is stated: of a field in the plane the penalised one."""
    unit = domain.length_unit
    if domain.field_dimension == 1:
        return _ALONG_EDGES[0] * unit, _ALONG_EDGES[1]
    return RangePrior(PenalisedRange(unit), domain.field_dimension)


def _checked_range(prior: Any, domain: Domain) -> Any:
    if isinstance(prior, PenalisedRange):
        return RangePrior(prior, domain.field_dimension)
    return checked_pair("range", prior, ", a PenalisedRange")


def _checked_deviation(prior: Any) -> Any:
    """The prior of a deviation as one of its square."""
    if isinstance(prior, PenalisedDeviation):
        return prior
    pair = checked_pair("sd", prior, ", a PenalisedDeviation")
    return None if pair is None else (pair[0] ** 2, pair[1] ** 2)
