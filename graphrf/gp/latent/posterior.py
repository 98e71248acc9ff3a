"""The posterior of all variables: normal for known hyperparameters, and a mixture of these."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from graphrf.gp.latent.data import Data
from graphrf.gp.model.likelihoods import Likelihood
from graphrf.gp.posterior.approximation.expectation import Approximation, Normal, Sites, approximate
from graphrf.gp.terms.joint import Joint, JointFactor, Prior

# The smallest precision of a site that expectation propagation begins with, beside the largest.
_LEAST = 1e-6


class Gaussian(NamedTuple):
    """z ~ N(mean, S), for known hyperparameters.

    Attributes
    ----------
    mean : ndarray, shape (n,)
    factor : JointFactor
        Of S^-1.
    vector : ndarray
        Coordinates of all hyperparameters.
    likelihood : Likelihood
    sites : Sites
        Precisions and shifts of the rows of A.
    fitted : Normal
        Means and variances of eta at the observations.
    log_evidence : float
    settled : bool
    """

    mean: np.ndarray
    factor: JointFactor
    vector: np.ndarray
    likelihood: Likelihood
    sites: Sites
    fitted: Normal
    log_evidence: float
    settled: bool


class JointPrior:
    """The prior of eta = A z at the observations, as expectation propagation conditions it."""

    def __init__(self, joint: Joint, prior: Prior) -> None:
        self._joint, self._prior = joint, prior
        self.mean: np.ndarray
        self.factor: JointFactor

    def condition(self, precision: np.ndarray, shift: np.ndarray) -> Normal:
        a = self._joint.a
        self.factor = self._joint.posterior(self._prior, precision)
        self.mean = self.factor.solve(a.T @ shift)
        volume = self.factor.log_determinant - self._prior.log_determinant
        return Normal(a @ self.mean, np.maximum(self.factor.variances(self._joint.observed), 1e-300), volume)


def conditioned(
    joint: Joint, data: Data, vector: np.ndarray, start: Sites, *, rounds: bool
) -> Gaussian:
    """The posterior at coordinates of hyperparameters, from some sites; they stay as they are without `rounds`."""
    n = len(joint.parameters)
    likelihood = data.known(vector[n:])
    prior = JointPrior(joint, joint.prior(vector[:n]))
    sites = Sites(np.maximum(start.precision, _LEAST * start.precision.max()), start.shift)
    if not rounds:
        fitted = prior.condition(*start)
        return Gaussian(prior.mean, prior.factor, vector, likelihood, start, fitted, np.nan, True)
    found: Approximation = approximate(prior, data.responses, likelihood, sites)
    return Gaussian(
        prior.mean, prior.factor, vector, likelihood, found.sites, found.normal, found.log_evidence, found.settled
    )


def rows_of(joint: Joint, parts: list[sp.csr_array | None], design: np.ndarray | None, m: int) -> sp.csr_array:
    """Rows for all variables from those of each term, and of the coefficients; None is 0."""
    blocks = [
        sp.csr_array((m, term.structure.size)) if part is None else part
        for term, part in zip(joint.terms, parts, strict=True)
    ]
    own = np.zeros((m, joint.n - int(joint.starts[-1]))) if design is None else design
    return sp.csr_array(sp.hstack([*blocks, sp.csr_array(own)], format="csr"))
