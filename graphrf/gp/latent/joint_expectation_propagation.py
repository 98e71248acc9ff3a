r"""Expectation propagation for all variables: their moments, the evidence, and its gradient.

The evidence is stationary in the sites, so that with the means z and covariances S of all variables

.. math:: d \log Z = \tfrac12 \big( d \log |Q| - z^\top dQ\, z - \mathrm{tr}(S\, dQ) \big),

and a change of the mean of eta by an offset has the slope b - W \eta of the sites.

Source: Minka 2001; Rasmussen and Williams 2006, Sec. 5.5.2. See
`graphrf.gp.posterior.approximation.expectation_propagation`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from graphrf.gp.latent.data import Data
from graphrf.gp.likelihoods.likelihood import Likelihood
from graphrf.gp.posterior.approximation.expectation_propagation import (
    Approximation,
    Normal,
    Sites,
    approximate,
    independent_sites,
)
from graphrf.gp.terms.joint import Joint, JointFactor, JointPrecision

# The smallest precision of a site that rounds begin with, beside the largest.
_LEAST = 1e-6
# The change of the evidence below which a search ends the rounds.
_ENOUGH = 1e-3


class JointPrior:
    """The prior of eta = A z at the observations, as expectation propagation conditions it."""

    def __init__(self, joint: Joint, prior: JointPrecision) -> None:
        self._joint, self._prior = joint, prior
        self.mean: np.ndarray
        self.factor: JointFactor

    def condition(self, precision: np.ndarray, shift: np.ndarray) -> Normal:
        a = self._joint.a
        self.factor = self._joint.posterior(self._prior, precision)
        self.mean = self.factor.solve(a.T @ shift)
        volume = self.factor.log_determinant - self._prior.log_determinant
        return Normal(
            a @ self.mean, np.maximum(self.factor.variances(self._joint.observed), 1e-300), volume
        )


class JointMoments(NamedTuple):
    """The normal approximation for known hyperparameters."""

    z: np.ndarray
    factor: JointFactor
    approximation: Approximation

    @property
    def log_evidence(self) -> float:
        return self.approximation.log_evidence

    @property
    def settled(self) -> bool:
        """True if the rounds ended and the evidence is a number."""
        return self.approximation.ended and bool(np.isfinite(self.log_evidence))

    def sites(self, joint: Joint) -> Sites:
        """The sites."""
        return self.approximation.sites


def approximation(
    joint: Joint,
    data: Data,
    likelihood: Likelihood,
    vector: np.ndarray,
    before: JointMoments | None = None,
    *,
    sites: Sites | None = None,
    enough: float = _ENOUGH,
) -> JointMoments:
    """The approximation at a vector of coordinates, from the sites of another, or those given."""
    if sites is None:
        sites = independent_sites(data.responses, likelihood, 3 * data.unit)
        if before is not None:
            sites = before.approximation.sites
    sites = Sites(np.maximum(sites.precision, _LEAST * sites.precision.max()), sites.shift)
    prior = JointPrior(joint, joint.prior(vector))
    result = approximate(prior, data.responses, likelihood, sites, enough=enough)
    return JointMoments(prior.mean, prior.factor, result)


def gradient(
    joint: Joint, data: Data, likelihood: Likelihood, vector: np.ndarray, at: JointMoments
) -> np.ndarray:
    """The slopes of the evidence in the coordinates of terms, then of the likelihood."""
    slopes = [
        0.5
        * (
            each.log_determinant
            - float(at.z @ (each.precision @ at.z))
            - at.factor.trace(each.precision)
        )
        for each in joint.slopes(vector)
    ]
    slopes += [
        at.approximation.slope(data.responses, likelihood, each.name) for each in data.parameters()
    ]
    return np.array(slopes)


def coefficient_gradient(joint: Joint, design: np.ndarray, at: JointMoments) -> np.ndarray:
    """The slopes of the evidence in coefficients b whose part X b of eta is in the offset."""
    return np.asarray(design.T @ at.approximation.weights)
