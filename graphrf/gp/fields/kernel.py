r"""Whittle-Matern fields by their range and order.

.. math:: (\kappa^2 - \Delta)^{\alpha/2} u = W / \tau, \quad \nu = \alpha - d/2, \quad
          \kappa = \sqrt{8 \nu} / \mathrm{range}, \quad
          \mathrm{sd}^2 = \frac{\Gamma(\nu)}{\Gamma(\alpha) (4 \pi)^{d/2} \kappa^{2 \nu} \tau^2}

in d dimensions. On a domain without border u is a Gaussian process with the Matern covariance of
smoothness nu; at the distance `range` its correlation is about .14 (nu = 1).

Source: Lindgren, Rue and Lindström 2011, "An explicit link between Gaussian fields and Gaussian
Markov random fields", Eq. 2 and 4.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import ClassVar

# For alpha = 1 in the plane nu is 0 and no variance finite: the range is that of this smoothness,
# as in R-INLA, and the standard deviation a nominal one.
_LEAST_SMOOTHNESS = 0.5


@dataclass(frozen=True)
class FieldKernel:
    """The covariance of a field of standard deviation 1 on a domain without border."""

    range: float  # in the unit of the coordinates
    alpha: float
    dimension: int  # 1 along edges, 2 in the plane and on surfaces
    proportions: ClassVar[tuple[str, ...]] = ()

    @property
    def hyperparameters(self) -> dict[str, float]:
        """The range, by name."""
        return {"range": self.range}

    @property
    def nu(self) -> float:
        """The smoothness alpha - d/2, at least 1/2."""
        return max(self.alpha - 0.5 * self.dimension, _LEAST_SMOOTHNESS)

    @property
    def excess(self) -> float:
        """alpha - d/2: tau^2 goes as kappa to the power of minus twice that, whatever the unit."""
        return self.alpha - 0.5 * self.dimension

    @property
    def kappa(self) -> float:
        """The inverse length of the equation."""
        return math.sqrt(8 * self.nu) / self.range

    @property
    def log_tau_squared(self) -> float:
        """log tau^2, by which the standard deviation is 1."""
        nu, d = self.nu, self.dimension
        gammas = math.lgamma(nu) - math.lgamma(nu + 0.5 * d)
        return gammas - 0.5 * d * math.log(4 * math.pi) - 2 * self.excess * math.log(self.kappa)

    def replace(self, *, range: float) -> FieldKernel:
        """A copy with another range."""
        return dataclasses.replace(self, range=range)
