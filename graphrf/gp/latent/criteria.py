"""Leave-one-out densities and information criteria, from the fitted posterior alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from graphrf._base.warn import warn
from graphrf.gp.latent.data import Data
from graphrf.gp.latent.posterior import Gaussian
from graphrf.gp.likelihoods.likelihood import normal_average
from graphrf.gp.posterior.approximation.integrals import monotone_average
from graphrf.gp.posterior.marginals import Marginals

# The number of observations that are shown; the variance of a row's log density above which WAIC
# may mislead (Vehtari, Gelman and Gabry 2017).
_WORST, _UNRELIABLE = 3, 0.4
# The largest fraction of an observation's precision due to its own site: above it nothing else is
# known.
_ALONE = 1 - 1e-9


class LeaveOneOut(NamedTuple):
    """Each observation given all others; printed in five lines.

    Attributes
    ----------
    log_density : ndarray, shape (m,)
        log p(y_i | y_-i), the logarithm of CPO.
    pit : ndarray, shape (m,), or None
        P(Y_i < y_i | y_-i) + P(Y_i = y_i | y_-i) / 2, uniform for a calibrated model; NaN for
        censored times, None for a user-defined likelihood without `distribution`.
    total : float
        The sum of log densities (elpd).
    index : Index
        The labels of the rows.
    """

    log_density: np.ndarray
    pit: np.ndarray | None
    total: float
    index: Any

    @property
    def standard_error(self) -> float:
        """The standard error of the total, sqrt(m) times the standard deviation of log
        densities.
        """
        with np.errstate(invalid="ignore"):
            return float(math.sqrt(self.log_density.size) * np.std(self.log_density, ddof=1))

    def __repr__(self) -> str:
        worst = np.argsort(self.log_density, kind="stable")[:_WORST].tolist()
        rows = ", ".join(f"{self.index[row]!s} ({self.log_density[row]:.1f})" for row in worst)
        return (
            "leave-one-out cross-validation, without refits\n"
            f"log predictive density  {self.total:.1f}\n"
            f"standard error          {self.standard_error:.1f}\n"
            f"observations            {self.log_density.size}\n"
            f"the least expected      {rows}"
        )


class Waic(NamedTuple):
    """The widely applicable information criterion.

    Attributes
    ----------
    value : float
        On the scale of deviances: smaller is better.
    n_effective : float
        The effective number of parameters.
    """

    value: float
    n_effective: float


def leave_one_out(
    points: Sequence[Gaussian], probabilities: np.ndarray, data: Data, index: Any
) -> LeaveOneOut:
    r"""Densities from cavity distributions: those of eta_i without the site of observation i.

    Over hyperparameters, :math:`1 / p(y_i | y_{-i}) = \sum_k w_k / p(y_i | y_{-i}, \theta_k)`.
    Source: Vehtari et al. 2016, "Bayesian leave-one-out cross-validation approximations for
    Gaussian latent variable models".
    """
    densities, transforms = [], []
    for point in points:
        law = _cavity(point)
        densities.append(law.log_density(data.y, data.offset))
        transforms.append(_transform(law, data))
    each = np.array(densities)
    log_density = -logsumexp(-each, axis=0, b=probabilities[:, None])
    with np.errstate(invalid="ignore"):
        weights = probabilities[:, None] * np.exp(log_density - each)
    pit = None if transforms[0] is None else (weights * np.array(transforms)).sum(axis=0)
    broken = np.flatnonzero(~np.isfinite(log_density))
    if broken.size:
        warn(
            f"the log density of {broken.size} of {log_density.size} observations given all others "
            f"is not finite, as that of row {index[broken[0]]!s}: they are impossible under the "
            "model, or alone determine a coefficient or level"
        )
    return LeaveOneOut(log_density, pit, float(log_density.sum()), index)


def waic(points: Sequence[Gaussian], probabilities: np.ndarray, data: Data) -> Waic:
    r"""The criterion from means and variances of the log densities over the posterior.

    .. math:: \mathrm{WAIC} = -2 \sum_i \big( \log \mathrm{E}\, p(y_i \mid \eta_i)
              - \mathrm{var} \log p(y_i \mid \eta_i) \big)

    Source: Watanabe 2010; Gelman, Hwang and Vehtari 2014, "Understanding predictive information
    criteria for Bayesian models".
    """
    density, first, second = [], [], []
    for point in points:
        law = Marginals(point.fitted.mean, point.fitted.variance, point.likelihood)
        density.append(law.log_density(data.y, data.offset))

        def log_density(f: np.ndarray, point: Gaussian = point) -> np.ndarray:
            return point.likelihood.log_density(data.y[..., None], f + data.offset[:, None])

        first.append(normal_average(log_density, law.mean, law.variance))
        second.append(
            normal_average(
                lambda f, density=log_density: np.square(density(f)), law.mean, law.variance
            )
        )
    total = float(logsumexp(np.array(density), axis=0, b=probabilities[:, None]).sum())
    mean = probabilities @ np.array(first)
    variances = probabilities @ np.array(second) - mean**2
    far = int((variances > _UNRELIABLE).sum())
    if far:
        warn(
            f"WAIC may mislead here: the log density of {far} of {variances.size} observations has "
            f"a variance above {_UNRELIABLE} over the posterior (up to {variances.max():.2g}); use "
            "loo()"
        )
    n_effective = float(variances.sum())
    return Waic(-2 * (total - n_effective), n_effective)


def _cavity(point: Gaussian) -> Marginals:
    """The distribution of eta_i without its site."""
    fitted, sites = point.fitted, point.sites
    fraction = np.minimum(sites.precision * fitted.variance, _ALONE)
    variance = fitted.variance / (1 - fraction)
    mean = variance * (fitted.mean / fitted.variance - sites.shift)
    return Marginals(mean, variance, point.likelihood)


def _transform(law: Marginals, data: Data) -> np.ndarray | None:
    """P(Y < y) + P(Y = y) / 2 under a likelihood, averaged over the law of eta."""

    def distribution(f: np.ndarray) -> np.ndarray:
        return law.likelihood.distribution(data.y[..., None], f + data.offset[:, None])

    try:
        return monotone_average(distribution, law.mean, np.sqrt(law.variance))
    except NotImplementedError:
        return None
