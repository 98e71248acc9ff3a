"""Likelihoods of proportions: successes among trials, binary outcomes, and shares."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from scipy.special import betainc, betaln, expit, gammaln, log_expit, logit, xlog1py, xlogy

from graphrf._base import checks
from graphrf.gp.likelihoods.counts import counts
from graphrf.gp.likelihoods.likelihood import Likelihood, Pair, known

# Counts that are added to successes and to failures, so that their log odds are finite.
_LITTLE = 0.5


@dataclass(frozen=True)
class Binomial(Likelihood):
    r"""Successes among trials, each with the probability 1 / (1 + exp(-f))."""

    support = (0.0, 1.0)  # of one trial
    whole = True

    def checked(self, y: np.ndarray, trials: np.ndarray | None) -> np.ndarray:
        if trials is None:
            raise checks.value_error(
                "trials",
                "must be given for likelihood='binomial': one number, or one for each observation",
            )

        y, trials = counts("y", y), counts("trials", trials)
        if (trials < 1).any():
            raise checks.value_error("trials", f"must be at least 1, got {trials.min():g}")
        if (y > trials).any():
            worst = int(np.argmax(y - trials))
            raise checks.value_error(
                "trials",
                f"must be at least the successes `y`, got {trials[worst]:g} for {y[worst]:g} at "
                f"{worst}",
            )
        return np.stack([y, trials])

    def in_form(self, y: np.ndarray) -> np.ndarray:
        return np.stack([y, np.ones(np.shape(y))])

    def start(self, y: np.ndarray, offset: np.ndarray) -> float:
        proportion = (float(y[0].sum()) + _LITTLE) / (float(y[1].sum()) + 2 * _LITTLE)
        return math.log(proportion / (1 - proportion))

    def log_density(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        k, n = _successes(y)
        combinations = gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)
        return np.asarray(combinations + k * log_expit(f) + (n - k) * log_expit(-f))

    def mean(self, f: np.ndarray) -> np.ndarray:
        return np.asarray(expit(f))

    def variance(self, f: np.ndarray) -> np.ndarray:
        return np.asarray(expit(f) * expit(-f))

    def sample(self, f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return (rng.random(np.shape(f)) < expit(f)).astype(np.float64)

    def distribution(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        k, n = _successes(y)
        less = np.where(k > 0, betainc(n - k + 1.0, np.maximum(k, 1.0), expit(-f)), 0.0)
        return np.asarray(less + 0.5 * np.exp(self.log_density(y, f)))


@dataclass(frozen=True)
class Successes(Binomial):
    """New observations of a known number of trials, where those of `Binomial` are of one."""

    trials: float = 1.0

    @property
    def support(self) -> tuple[float, float]:  # type: ignore[override]
        return 0.0, self.trials

    def in_form(self, y: np.ndarray) -> np.ndarray:
        return np.stack([y, np.full(np.shape(y), self.trials)])

    def mean(self, f: np.ndarray) -> np.ndarray:
        return self.trials * super().mean(f)

    def variance(self, f: np.ndarray) -> np.ndarray:
        return self.trials * super().variance(f)

    def sample(self, f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return rng.binomial(int(self.trials), expit(f)).astype(np.float64)


@dataclass(frozen=True)
class Bernoulli(Binomial):
    r"""Binary outcomes: 1 with probability 1 / (1 + exp(-f)), else 0."""

    def checked(self, y: np.ndarray, trials: np.ndarray | None) -> np.ndarray:
        Likelihood.checked(self, y, trials)
        if not np.isin(y, (0.0, 1.0)).all():
            raise checks.value_error("y", "must be 0 or 1, or booleans, for likelihood='bernoulli'")
        return super().checked(y, np.ones(y.size))


@dataclass(frozen=True)
class Beta(Likelihood):
    r"""Shares between 0 and 1 that are no ratios of counts: beta with mean m = 1 / (1 + exp(-f)).

    .. math:: p(y) = y^{\phi m - 1} (1 - y)^{\phi (1 - m) - 1} / \mathrm{B}\big(\phi m, \phi (1 -
        m)\big)

    with the precision :math:`\phi`.

    Parameters
    ----------
    precision : float, optional
        None trains it.

    Examples
    --------
    >>> import graphrf as grf
    >>> cover = grf.gp.Beta(precision=4.0)  # at f = 0: beta with parameters 2 and 2
    >>> round(float(cover.variance(0.0)), 3), round(float(cover.log_density(0.5, 0.0)), 3)
    (0.05, 0.405)

    Source: Ferrari and Cribari-Neto 2004, "Beta regression for modelling rates and proportions".
    """

    precision: float | None = None
    log_concave = False
    support = (0.0, 1.0)
    priors = MappingProxyType({"precision": (10.0, 5.0)})
    ranges = MappingProxyType({"precision": (1e-2, 1e5)})

    def checked(self, y: np.ndarray, trials: np.ndarray | None) -> np.ndarray:
        y = super().checked(y, trials)
        outside = np.flatnonzero((y <= 0) | (y >= 1))
        if outside.size:
            raise checks.value_error(
                "y",
                "must be between 0 and 1, neither of them, for likelihood='beta', got "
                f"{y[outside[0]]:g} at {outside[0]}: for successes among trials use "
                "likelihood='binomial', and move measured shares y of 0 or 1 inwards, as (y (n - "
                "1) + 1/2) / n of n observations",
            )
        return y

    def start(self, y: np.ndarray, offset: np.ndarray) -> float:
        return float(logit(np.mean(y)))

    def log_density(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        a, b = self._powers(f)
        return np.asarray(xlogy(a - 1, y) + xlog1py(b - 1, -y) - betaln(a, b))

    def distribution(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        return np.asarray(betainc(*self._powers(f), y))

    def mean(self, f: np.ndarray) -> np.ndarray:
        return np.asarray(expit(f))

    def variance(self, f: np.ndarray) -> np.ndarray:
        return np.asarray(expit(f) * expit(-f) / (1 + known(self.precision)))

    def sample(self, f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return rng.beta(*self._powers(f))

    def _powers(self, f: np.ndarray) -> Pair:
        """The two parameters of the beta distribution, positive however large f is."""
        phi = known(self.precision)
        return np.maximum(phi * expit(f), 1e-300), np.maximum(phi * expit(-f), 1e-300)


def _successes(y: np.ndarray) -> Pair:
    """Successes and trials of observations as `Binomial.checked` returns them."""
    return y[0], y[1]
