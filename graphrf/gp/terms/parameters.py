"""Priors of the hyperparameters of terms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from scipy.special import betainc, betaln, expit

from graphrf._base import checks
from graphrf.gp.model.prior import BetaPrior as BetaPrior
from graphrf.gp.model.prior import PenalisedDeviation as PenalisedDeviation
from graphrf.gp.model.prior import PenalisedMixing
from graphrf.gp.model.prior import PenalisedRange as PenalisedRange
from graphrf.gp.model.prior import RangePrior as RangePrior

# The largest median, in the hyperparameter's unit, and the largest factor: the prior is then as
# good as flat.
_LARGEST = 1e6


class PositiveCorrelation(BetaPrior):
    """The law of a positive correlation r, of which (1 + r) / 2 has this beta distribution."""

    def log_density(self, log_odds: float) -> tuple[float, float]:
        """Log density of the correlation's log odds, and its derivative."""
        r = float(expit(log_odds))
        rest, slope = float(expit(-log_odds)), r * float(expit(-log_odds))
        value = (self.a - 1) * math.log1p(r) + (self.b - 1) * math.log(rest) + math.log(slope)
        value -= (self.a + self.b - 1) * math.log(2) + float(betaln(self.a, self.b))
        # The probability of positive correlations.
        value -= math.log(float(betainc(self.b, self.a, 0.5)))
        return value, (self.a - 1) * slope / (1 + r) - (self.b - 1) * r + 1 - 2 * r


@dataclass(frozen=True)
class NormalPrior:
    """A normal distribution with mean 0 of a coefficient."""

    deviation: float

    def log_density(self, value: Any) -> tuple[Any, Any]:
        """Log density of the coefficient, and its derivative, elementwise."""
        z = value / self.deviation
        constant = math.log(self.deviation * math.sqrt(2 * math.pi))
        return -0.5 * z * z - constant, -z / self.deviation


ParameterPrior = (
    tuple[float, float] | PenalisedDeviation | BetaPrior | PenalisedMixing | PenalisedRange | None
)


def checked_prior(name: str, kind: str, prior: Any) -> ParameterPrior:
    """A prior that serves a parameter of this kind."""
    named: dict[str, tuple[type[Any], ...]] = {
        "sd": (PenalisedDeviation,),
        "mixing": (BetaPrior, PenalisedMixing),
        "range": (PenalisedRange,),
    }
    allowed = named.get(name, () if kind == "positive" else (BetaPrior,))

    if prior is None or isinstance(prior, allowed):
        return prior
    if not isinstance(prior, tuple | list) or len(prior) != 2:
        names = "".join(f" a {each.__name__}," for each in allowed)
        raise checks.type_error(
            "prior",
            f"of {name!r} must be (median, factor),{names} or None, got {checks.describe(prior)}",
        )

    median = checks.number(
        f"the median of {name}", prior[0], low=0, high=_LARGEST, include_low=False
    )
    factor = checks.number(
        f"the factor of {name}", prior[1], low=1, high=_LARGEST, include_low=False
    )
    return median, factor
