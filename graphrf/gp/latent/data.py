"""Observations of a latent Gaussian model, and the parameters of their likelihood."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphrf.gp.likelihoods.likelihood import PRIOR, RANGE, Likelihood
from graphrf.gp.model.responses import Responses
from graphrf.gp.terms.parameters import Parameter


@dataclass(frozen=True)
class Data:
    """m observations y of eta + offset."""

    y: np.ndarray  # (m,) or (k, m), as the likelihood takes them
    offset: np.ndarray  # the logarithm of the exposure
    likelihood: Likelihood  # its unknown parameters are trained
    unit: float  # the unit of eta

    @property
    def responses(self) -> Responses:
        """The observations as expectation propagation takes them."""
        m = self.offset.size
        every = np.arange(m)
        return Responses(every, every, self.y, self.offset, np.zeros((m, 0)))

    def parameters(self) -> tuple[Parameter, ...]:
        """The unknown parameters of the likelihood."""
        result = []
        for name in self.likelihood.unknown:
            unit = self.likelihood.parameter_unit(name, self.unit)
            median, factor = self.likelihood.priors.get(name, PRIOR)
            low, high = (end * unit for end in self.likelihood.ranges.get(name, RANGE))
            prior = median * unit, factor
            result.append(
                Parameter(name, "positive", prior[0], low, high, prior, ("likelihood", name))
            )
        return tuple(result)

    def known(self, coordinates: np.ndarray) -> Likelihood:
        """The likelihood at coordinates of its unknown parameters."""
        values = {
            each.name: each.value(x) for each, x in zip(self.parameters(), coordinates, strict=True)
        }
        return self.likelihood.replace(**values) if values else self.likelihood
