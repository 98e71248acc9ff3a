"""The likelihoods that have names, for `likelihood=`."""

from __future__ import annotations

from typing import Any

from graphrf._base import checks
from graphrf.gp.likelihoods.counts import (
    NegativeBinomial,
    Poisson,
    ZeroInflatedNegativeBinomial,
    ZeroInflatedPoisson,
)
from graphrf.gp.likelihoods.likelihood import Likelihood
from graphrf.gp.likelihoods.point_process import PointProcess
from graphrf.gp.likelihoods.positive import Gamma, LogNormal, Weibull
from graphrf.gp.likelihoods.proportions import Bernoulli, Beta, Binomial
from graphrf.gp.likelihoods.real import StudentT
from graphrf.gp.likelihoods.tweedie import Tweedie

LIKELIHOODS: dict[str, type[Likelihood]] = {
    "poisson": Poisson,
    "negative_binomial": NegativeBinomial,
    "binomial": Binomial,
    "bernoulli": Bernoulli,
    "student_t": StudentT,
    "gamma": Gamma,
    "log_normal": LogNormal,
    "weibull": Weibull,
    "beta": Beta,
    "tweedie": Tweedie,
    "point_process": PointProcess,
    "zero_inflated_poisson": ZeroInflatedPoisson,
    "zero_inflated_negative_binomial": ZeroInflatedNegativeBinomial,
}


def checked_likelihood(likelihood: Any) -> Likelihood | None:
    """The likelihood of a name or an object; None for normal noise."""
    if isinstance(likelihood, str):
        name = checks.choice("likelihood", likelihood, ("gaussian", *LIKELIHOODS))
        return None if name == "gaussian" else LIKELIHOODS[name]()
    if not isinstance(likelihood, Likelihood):
        raise checks.type_error(
            "likelihood",
            f"must be one of 'gaussian', {', '.join(map(repr, LIKELIHOODS))}, or a "
            f"graphrf.gp.Likelihood, got {checks.describe(likelihood)}",
        )
    return likelihood
