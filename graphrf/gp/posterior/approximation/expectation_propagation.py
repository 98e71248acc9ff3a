r"""Expectation propagation: the posterior of a latent function by a normal distribution, and its
evidence.

With f ~ N(0, K) at m observed nodes (the mean function with its normal prior is part of K), the
likelihood of node i is replaced by a site

.. math:: t_i(f) = \exp(b_i f - \tfrac12 W_i f^2), \quad
          q(f) \propto N(f; 0, K) \prod_i t_i(f_i) = N(f; m, \Sigma),

such that mean and variance of q at each node are those of the tilted distribution :math:`q(f_i) \,
p(y_i \mid f_i) / t_i(f_i)`, a one-dimensional integral. The posterior is then that of observations
b / W with normal noise of variances 1 / W. The evidence

.. math:: \log Z = -\tfrac12 a^\top m - \tfrac12 \log |I + W K|
                   + \sum_i \log E_{q_i}\!\left[p(y_i \mid f_i) \, e^{-a_i (f_i - m_i)
                   + \frac12 W_i (f_i - m_i)^2}\right], \quad a = b - W m = K^{-1} m,

is stationary in the sites, so that few rounds give it, and only what depends on K directly enters
its gradient.

Sources: Minka 2001, "Expectation propagation for approximate Bayesian inference"; Rasmussen and
Williams 2006, "Gaussian Processes for Machine Learning", Sec. 3.6 and 5.5.2; Jylänki, Vanhatalo and
Vehtari 2011, "Robust Gaussian process regression with a Student-t likelihood", where the posterior
may have several maxima.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import numpy as np

from graphrf.gp.likelihoods.likelihood import Likelihood
from graphrf.gp.model.observations import Observations
from graphrf.gp.model.responses import Responses
from graphrf.gp.posterior.approximation.integrals import Tilted, tilted

# Deviations of q at which its tilted distributions are summed, and the logarithms of their normal
# probabilities.
_GRID = np.linspace(-7.5, 7.5, 61)
_LOG_NORMAL = -0.5 * np.square(_GRID) - math.log(float(np.exp(-0.5 * np.square(_GRID)).sum()))
# Rounds at most, the damping factor of a step, and the change of means in deviations, and of the
# logarithms of variances, that ends them. Where only the evidence is wanted its change ends them:
# the rest is a fifth of it.
_ROUNDS, _DAMPING, _SETTLED, ENOUGH = 30, 0.8, 0.02, 0.05
# The smallest precision of a site beside that of q: sites of densities that are not log-concave may
# have none.
_LEAST = 1e-6


class Normal(NamedTuple):
    """q for some sites: means and variances at the observed nodes, and log |I + W K|."""

    mean: np.ndarray
    variance: np.ndarray
    log_volume: float


class LatentPrior(Protocol):
    """f ~ N(0, K), and how it is conditioned."""

    def condition(self, precision: np.ndarray, shift: np.ndarray) -> Normal:
        """q for sites W and b, shape (m,) each; LinAlgError where it cannot be had."""
        ...


class Sites(NamedTuple):
    """W and b, shape (m,) each."""

    precision: np.ndarray
    shift: np.ndarray


class Approximation(NamedTuple):
    """The sites, q, its tilted distributions, and the evidence."""

    sites: Sites
    normal: Normal
    points: np.ndarray  # (m, T) values of f
    probabilities: np.ndarray  # (m, T) tilted probabilities of the points
    log_evidence: float  # NaN without log |I + W K|
    change: float  # of means in deviations, or of log variances, in the last round
    ended: bool  # whether the last round changed as little as was asked for

    @property
    def settled(self) -> bool:
        """True if the last round changed almost nothing."""
        return self.change <= _SETTLED

    @property
    def weights(self) -> np.ndarray:
        """a = K^-1 m."""
        return self.sites.shift - self.sites.precision * self.normal.mean

    def observations(self, responses: Responses) -> Observations:
        """Artificial observations with normal noise of variances 1 / counts, whose
        posterior is q.
        """
        targets = self.sites.shift / self.sites.precision
        return Observations(
            responses.nodes,
            self.sites.precision,
            targets[:, None],
            0.0,
            responses.basis,
            responses.place.size,
        )

    def slope(self, responses: Responses, likelihood: Likelihood, name: str) -> float:
        """The derivative of the evidence in the logarithm of a parameter of the likelihood, by
        differences.
        """
        step, value = 1e-4, float(getattr(likelihood, name))
        after, before = (
            responses.log_density(
                likelihood.replace(**{name: value * math.exp(sign * step)}), self.points
            )
            for sign in (1, -1)
        )
        possible = self.probabilities > 0
        change = np.where(possible, after, 0.0) - np.where(possible, before, 0.0)
        return float((self.probabilities * change).sum()) / (2 * step)


def independent_sites(responses: Responses, likelihood: Likelihood, prior_std: float) -> Sites:
    """Sites to begin with: exact ones if the values of f were independent, with this prior
    deviation each.
    """
    nothing = np.zeros(responses.nodes.size)
    moments = tilted(lambda f: responses.log_density(likelihood, f), nothing, nothing + prior_std)
    precision = np.maximum(
        1 / np.maximum(moments.variance, 1e-30) - prior_std**-2, _LEAST * prior_std**-2
    )
    return Sites(precision, (precision + prior_std**-2) * moments.mean)


def approximate(
    prior: LatentPrior,
    responses: Responses,
    likelihood: Likelihood,
    sites: Sites,
    *,
    enough: float = 0.0,
) -> Approximation:
    """Rounds of parallel expectation propagation, until the evidence changes by less than `enough`.

    Cost: some five rounds, each what conditioning costs and 61 log densities for each observation.
    """

    def evaluated() -> tuple[Approximation, Tilted]:
        q = prior.condition(*sites)
        points, probabilities, moments = _tilted(q, sites, responses, likelihood)
        inner = float((sites.shift - sites.precision * q.mean) @ q.mean)
        evidence = float(moments.log_mass.sum()) - 0.5 * (inner + q.log_volume)
        return Approximation(sites, q, points, probabilities, evidence, math.inf, False), moments

    result, moments = evaluated()
    damping = _DAMPING
    for _ in range(_ROUNDS):
        q, before = result.normal, result
        sites = _moved(sites, q, moments, damping)
        result, moments = evaluated()
        change = max(
            float((np.abs(result.normal.mean - q.mean) / np.sqrt(q.variance)).max()),
            float(np.abs(np.log(result.normal.variance / q.variance)).max()),
        )
        result = result._replace(change=change)
        if change > before.change:  # it would go to and fro
            damping = max(0.6 * damping, 0.1)
        if result.settled or abs(result.log_evidence - before.log_evidence) < enough:
            return result._replace(ended=True)
    return result


def _moved(sites: Sites, q: Normal, moments: Tilted, damping: float) -> Sites:
    """Sites nearer to those that give q the tilted means and variances."""
    precision = sites.precision + damping * (1 / moments.variance - 1 / q.variance)
    shift = sites.shift + damping * (moments.mean / moments.variance - q.mean / q.variance)
    least = _LEAST / q.variance
    shift = np.where(
        precision < least, shift + (least - precision) * moments.mean, shift
    )  # which keeps the mean
    return Sites(np.maximum(precision, least), shift)


def _tilted(
    q: Normal, sites: Sites, responses: Responses, likelihood: Likelihood
) -> tuple[np.ndarray, np.ndarray, Tilted]:
    """Points, their tilted probabilities, and the tilted distributions."""
    away = np.sqrt(q.variance)[:, None] * _GRID
    points = q.mean[:, None] + away
    log = responses.log_density(likelihood, points) + _LOG_NORMAL
    log += (
        0.5 * sites.precision[:, None] * away - (sites.shift - sites.precision * q.mean)[:, None]
    ) * away
    top = log.max(axis=1, keepdims=True)
    possible = np.isfinite(top)  # else q itself takes the place of its tilted distribution
    probabilities = np.exp(np.where(possible, log, _LOG_NORMAL) - np.where(possible, top, 0.0))
    mass = probabilities.sum(axis=1)
    probabilities /= mass[:, None]
    log_mass = np.log(mass) + top[:, 0]
    mean = (probabilities * points).sum(axis=1)
    variance = (probabilities * np.square(points - mean[:, None])).sum(axis=1)
    return points, probabilities, Tilted(log_mass, mean, np.maximum(variance, 1e-6 * q.variance))
