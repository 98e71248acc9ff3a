"""Observations of a latent Gaussian model, and the parameters of their likelihood."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from graphrf.gp.likelihoods.likelihood import Likelihood
from graphrf.gp.model.responses import Responses
from graphrf.gp.search.coordinates import (
    Coordinates,
    Parameter,
    likelihood_at,
    likelihood_parameters,
)


@dataclass(frozen=True)
class Data:
    """m observations y of eta + offset."""

    y: np.ndarray  # (m,) or (k, m), as the likelihood takes them
    offset: np.ndarray  # the logarithm of the exposure
    likelihood: Likelihood  # its unknown parameters are trained
    unit: float  # the unit of eta
    # Stated priors of the likelihood's parameters, by name.
    priors: Mapping[str, Any] = field(default_factory=dict)

    @property
    def responses(self) -> Responses:
        """The observations as expectation propagation takes them."""
        m = self.offset.size
        every = np.arange(m)
        return Responses(every, every, self.y, self.offset, np.zeros((m, 0)))

    def parameters(self) -> tuple[Parameter, ...]:
        """The unknown parameters of the likelihood."""
        return likelihood_parameters(self.likelihood, self.unit, priors=self.priors)

    def likelihood_at(self, coordinates: np.ndarray) -> Likelihood:
        """The likelihood at coordinates of its unknown parameters."""
        return likelihood_at(self.likelihood, Coordinates(self.parameters()).values(coordinates))
