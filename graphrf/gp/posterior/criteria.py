r"""Leave-one-out densities and information criteria, from the fitted posterior alone.

For known hyperparameters the latent value of an observation given all others is normal: with normal
noise exactly, with other likelihoods by removing a site of expectation propagation.

Sources: Rasmussen and Williams 2006, Eqs. 5.10-5.12; Vehtari et al. 2016, "Bayesian leave-one-out
cross-validation approximations for Gaussian latent variable models"; Watanabe 2010; Gelman, Hwang
and Vehtari 2014, "Understanding predictive information criteria for Bayesian models".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.special import logsumexp, ndtr

from graphrf._base import checks
from graphrf._base.memory import needs_memory
from graphrf._base.warn import warn
from graphrf.gp.likelihoods.likelihood import Likelihood, normal_average
from graphrf.gp.model.fitted_model import FittedModel
from graphrf.gp.model.observations import Observations, SeparateObservations
from graphrf.gp.model.responses import Responses
from graphrf.gp.posterior.approximation.expectation_propagation import Sites
from graphrf.gp.posterior.approximation.integrals import Tilted, monotone_average, tilted
from graphrf.gp.posterior.marginals import Marginals

# The number of observations that are shown; the variance of a row's log density above which WAIC
# may mislead (Vehtari, Gelman and Gabry 2017).
_WORST, _UNRELIABLE = 3, 0.4
# The largest fraction of an observation's precision due to its own site: above it nothing else is
# known.
_ALONE = 1 - 1e-9
# Pairs of observations of one node whose densities are computed at once.
_PAIRS = 20_000


class LeaveOneOut(NamedTuple):
    """Each observation given all others; printed in five lines.

    Attributes
    ----------
    log_density : ndarray, shape (m,)
        log p(y_i | y_-i), the logarithm of CPO.
        Of several outputs, that of all values of a row, which are left out together.
    pit : ndarray, shape (m,) or (m, p), or None
        P(Y_i < y_i | y_-i) + u_i P(Y_i = y_i | y_-i) with a random u_i in [0, 1), uniform for a
        calibrated model, also of counts (Czado et al. 2009); NaN for censored times, None for a
        user-defined likelihood without `distribution`.
    total : float
        The sum of log densities (elpd).
    index : Index or list
        The labels of the rows; where they have none, the nodes or places.
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
        rows = ", ".join(
            f"{_short(self.index[row])} ({self.log_density[row]:.1f})" for row in worst
        )
        return (
            "leave-one-out cross-validation, without refits\n"
            f"log predictive density  {self.total:.1f}\n"
            f"standard error          {self.standard_error:.1f}\n"
            f"observations            {self.log_density.size}\n"
            f"the least expected      {rows}"
        )


def _short(label: Any) -> str:
    """A label as it is printed: of coordinates four digits."""
    if isinstance(label, tuple) and all(isinstance(each, float) for each in label):
        return f"({', '.join(f'{each:.4g}' for each in label)})"
    return str(label)


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


class Pointwise(NamedTuple):
    """Log densities of each of n observations over the posterior of its latent value, shape (n,)
    each.
    """

    log_mean: np.ndarray  # the logarithm of the mean density
    mean: np.ndarray  # the mean of the log density
    square: np.ndarray  # the mean of its square


class PredictedRows(Protocol):
    """Observations and the distributions of their latent values, for known hyperparameters."""

    def left_out(self, u: np.ndarray | float) -> tuple[np.ndarray, np.ndarray | None]:
        """Log densities given all other observations, shape (n,), and probability integral
        transforms, (n,) or (n, p), at the shares u of the probabilities of observations.
        """
        ...

    def given_all(self) -> Pointwise:
        """Log densities over the posterior."""
        ...


class Evaluation(NamedTuple):
    """Predicted observations at points that represent the posterior of hyperparameters.

    `temper` is the power of the likelihood in that posterior, in which all observations together
    have a bounded amount of information; `index` labels the observations.
    """

    rows: Sequence[PredictedRows]
    probabilities: np.ndarray
    index: Any
    temper: float = 1.0


class WithCriteria:
    """An estimator that compares models by its own observations: it has `_evaluated`."""

    @needs_memory("fit fewer observations")
    def loo(self: Any, *, seed: int | None = None) -> LeaveOneOut:
        """Densities of each observation given all others, and probability integral transforms,
        without refits.

        Rows are the observations, in the order of `fit`: repeated ones are left out one at a time,
        those with a `sample_weight` of 0 are none, and a row of several outputs is left out whole.

        Parameters
        ----------
        seed : int, optional
            Of the numbers that make `pit` uniform for counts. Default: that of the fit.

        Returns
        -------
        LeaveOneOut

        Raises
        ------
        ValueError
            With conjugate gradients, which do not have the variances at observed nodes.

        Warns
        -----
        UserWarning
            If densities are not finite.

        Examples
        --------
        >>> import graphrf as grf
        >>> line = grf.from_edges(range(5), range(1, 6))
        >>> known = {"output_scale": 1.0, "noise": 0.1, "optimize": False}
        >>> nodes, y = [0, 1, 2, 4, 5], [1.0, 0.8, 0.1, -0.7, -0.9]
        >>> for kernel in (grf.Diffusion(0.2), grf.Diffusion(2.0)):
        ...     gp = grf.GraphGPRegressor(line, kernel=kernel, **known).fit(nodes, y)
        ...     print(round(gp.loo().total, 2))  # larger is better
        -7.0
        -3.11
        """
        self._check_fitted()
        seed = checks.seed(getattr(self, "seed_", None) if seed is None else seed)
        # A child, since users may have drawn their data by the same seed.
        (rng,) = np.random.default_rng(seed).spawn(1)
        evaluation = self._evaluated()
        return leave_one_out(evaluation, rng.random(len(evaluation.index)))

    @needs_memory("fit fewer observations")
    def waic(self: Any) -> Waic:
        """The widely applicable information criterion, of the rows of `loo`.

        Raises
        ------
        ValueError
            With conjugate gradients, as `loo`.

        Warns
        -----
        UserWarning
            If the log density of an observation has a variance above 0.4 over the posterior: use
            `loo`.
        """
        self._check_fitted()
        return waic(self._evaluated())


def leave_one_out(evaluation: Evaluation, u: np.ndarray | float) -> LeaveOneOut:
    r"""Densities given all other observations, also of those that the hyperparameters learned from.

    Transforms are those at the shares u, 0 to 1, of the probabilities of observations. Without
    observation i the weights :math:`w_k \propto p(\theta_k) \, p(y | \theta_k)^t` of the
    hyperparameters lose a factor:

    .. math:: p(y_i | y_{-i}) = \sum_k w_k \, p(y_i | y_{-i}, \theta_k)^{1 - t} \Big/
              \sum_k w_k \, p(y_i | y_{-i}, \theta_k)^{-t}.
    """
    parts = [rows.left_out(u) for rows in evaluation.rows]
    density = np.array([part for part, _ in parts])
    transforms = [part for _, part in parts if part is not None]
    temper, probabilities = evaluation.temper, evaluation.probabilities[:, None]

    total = logsumexp(-temper * density, axis=0, b=probabilities)
    log_density = -total
    if temper < 1:
        log_density = log_density + logsumexp((1 - temper) * density, axis=0, b=probabilities)
    with np.errstate(invalid="ignore"):
        weights = probabilities * np.exp(-temper * density - total)
    pit = None
    if len(transforms) == len(parts):
        shares = weights.reshape(weights.shape + (1,) * (transforms[0].ndim - 1))
        pit = (shares * np.array(transforms)).sum(axis=0)

    broken = np.flatnonzero(~np.isfinite(log_density))
    if broken.size:
        warn(
            f"the log density of {broken.size} of {log_density.size} observations given all others "
            f"is not finite, as that of row {evaluation.index[broken[0]]!s}: they are impossible "
            "under the model, or alone determine a coefficient or level"
        )
    return LeaveOneOut(log_density, pit, float(log_density.sum()), evaluation.index)


def waic(evaluation: Evaluation) -> Waic:
    r"""The criterion from means and variances of the log densities over the posterior.

    .. math:: \mathrm{WAIC} = -2 \sum_i \big( \log \mathrm{E}\, p(y_i \mid \eta_i)
              - \mathrm{var} \log p(y_i \mid \eta_i) \big)
    """
    probabilities = evaluation.probabilities
    parts = [rows.given_all() for rows in evaluation.rows]
    log_means = np.array([part.log_mean for part in parts])
    total = float(logsumexp(log_means, axis=0, b=probabilities[:, None]).sum())
    mean = probabilities @ np.array([part.mean for part in parts])
    variances = probabilities @ np.array([part.square for part in parts]) - mean**2
    far = int((variances > _UNRELIABLE).sum())
    if far:
        warn(
            f"WAIC may mislead here: the log density of {far} of {variances.size} observations has "
            f"a variance above {_UNRELIABLE} over the posterior (up to {variances.max():.2g}); use "
            "loo()"
        )
    n_effective = float(variances.sum())
    return Waic(-2 * (total - n_effective), n_effective)


def predicted_rows(
    moments: tuple[np.ndarray, np.ndarray],
    separate: SeparateObservations,
    point: FittedModel,
    *,
    single: bool,
) -> PredictedRows:
    """The observations, from means and variances of each node's latent value given all other
    nodes.
    """
    if point.likelihood is not None:
        return LatentRows.of(moments, point.observations, point.likelihood, separate)
    return NormalRows.of(moments, point.observations, point.noise, separate, single)


# -- normal noise ----------------------------------------------------------------------------------


class NormalRows(NamedTuple):
    """Observations with normal noise, and their latent values given all others."""

    y: np.ndarray  # (n, p)
    noise: np.ndarray  # (n,) variances
    mean: np.ndarray  # (n, p) without the observation itself
    variance: np.ndarray  # (n,); infinite where nothing else is known
    single: bool  # y had no axis of outputs

    @classmethod
    def of(
        cls,
        moments: tuple[np.ndarray, np.ndarray],
        observations: Observations,
        noise: float,
        separate: SeparateObservations,
        single: bool,
    ) -> NormalRows:
        """The rows, from means and variances of each node's latent value given all other nodes."""
        place, y, precisions = separate.place, separate.y, separate.precisions[:, None]
        counts = observations.counts[place, None]
        mean, variance = moments[0][place], moments[1][place, None]
        # the other observations of the node, as one
        others = np.where(separate.repeats[:, None] > 1, counts - precisions, 0.0)
        sums = np.where(others > 0, counts * observations.means[place] - precisions * y, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            precision = 1 / variance + others / noise
            prior = np.where(np.isfinite(variance), mean / variance, 0.0)
            mean = np.where(others > 0, (prior + sums / noise) / precision, mean)
            variance = np.where(others > 0, 1 / precision, variance)
        return cls(y, noise / separate.precisions, mean, variance[:, 0], single)

    def left_out(self, u: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
        total = (self.variance + self.noise)[:, None]
        with np.errstate(invalid="ignore"):
            z = (self.y - self.mean) / np.sqrt(total)
        density = -0.5 * (np.square(z) + np.log(2 * np.pi * total)).sum(axis=1)
        alone = np.isinf(self.variance)
        pit = np.where(alone[:, None], np.nan, ndtr(z))
        return np.where(alone, -np.inf, density), pit[:, 0] if self.single else pit

    def given_all(self) -> Pointwise:
        alone = np.isinf(self.variance)
        with np.errstate(invalid="ignore"):
            share = np.where(alone, 1.0, self.variance / (self.variance + self.noise))
        noise, variance = self.noise[:, None], (share * self.noise)[:, None]
        residual = np.where(alone[:, None], 0.0, (1 - share)[:, None] * (self.y - self.mean))
        square = np.square(residual)

        log_mean = -0.5 * (square / (variance + noise) + np.log(2 * np.pi * (variance + noise)))
        mean = -0.5 * ((square + variance) / noise + np.log(2 * np.pi * noise))
        # of the square of a normal variable
        spread = (0.5 * variance**2 + variance * square) / noise**2
        total = mean.sum(axis=1)
        return Pointwise(log_mean.sum(axis=1), total, spread.sum(axis=1) + total**2)


# -- other likelihoods -----------------------------------------------------------------------------


class LatentRows(NamedTuple):
    """Observations with any likelihood, and normal approximations of their latent values."""

    fitted: Marginals  # given all observations
    others: Marginals  # given all others
    y: np.ndarray  # (n,) or (k, n), as the likelihood takes them
    offset: np.ndarray
    # log densities given all others where observations share a node, so that the latent value
    # is not nearly normal, else NaN
    shared_density: np.ndarray | float = np.nan

    @classmethod
    def of(
        cls,
        moments: tuple[np.ndarray, np.ndarray],
        observations: Observations,
        likelihood: Likelihood,
        separate: SeparateObservations,
    ) -> LatentRows:
        """The rows, from means and variances of each node's latent value given all other nodes.

        `observations` are the sites of nodes.
        """
        mean, variance = moments[0][:, 0], moments[1]
        sites = Sites(observations.counts, observations.counts * observations.means[:, 0])
        total = 1 / variance + sites.precision
        fitted = Marginals((mean / variance + sites.shift) / total, 1 / total, likelihood)
        given_nodes = Marginals(mean, variance, likelihood).at(separate.place)
        others, shared_density = _beside_others(given_nodes, separate)
        return cls(fitted.at(separate.place), others, separate.y, separate.offset, shared_density)

    def left_out(self, u: np.ndarray | float) -> tuple[np.ndarray, np.ndarray | None]:
        law = self.others

        def distribution(f: np.ndarray) -> np.ndarray:
            return law.likelihood.distribution(self.y[..., None], f + self.offset[:, None])

        density = law.log_density(self.y, self.offset)
        density = np.where(np.isnan(self.shared_density), density, self.shared_density)
        try:
            middle = monotone_average(distribution, law.mean, np.sqrt(law.variance))
        except NotImplementedError:
            return density, None
        atoms = law.likelihood.is_atom(self.y)
        with np.errstate(over="ignore"):  # of densities, which are not taken
            mass = np.where(atoms, np.exp(density), 0.0)
        return density, np.clip(middle + (u - 0.5) * mass, 0.0, 1.0)

    def given_all(self) -> Pointwise:
        law = self.fitted

        def log_density(f: np.ndarray) -> np.ndarray:
            return law.likelihood.log_density(self.y[..., None], f + self.offset[:, None])

        return Pointwise(
            law.log_density(self.y, self.offset),
            normal_average(log_density, law.mean, law.variance),
            normal_average(lambda f: np.square(log_density(f)), law.mean, law.variance),
        )


def without_sites(fitted: Marginals, sites: Sites) -> Marginals:
    """The distribution of each latent value without its own site: its cavity."""
    fraction = np.minimum(sites.precision * fitted.variance, _ALONE)
    variance = fitted.variance / (1 - fraction)
    mean = variance * (fitted.mean / fitted.variance - sites.shift)
    return Marginals(mean, variance, fitted.likelihood)


def _beside_others(law: Marginals, separate: SeparateObservations) -> tuple[Marginals, np.ndarray]:
    """The latent value of each observation given all others, from that given all other nodes, and
    the log densities of observations that share a node, NaN for those that do not.

    The other observations of a node tilt the distribution of its latent value: the density is a
    quotient of two integrals, and mean and variance are those of the tilted distribution. Cost: k -
    1 densities for each of k observations of a node.
    """
    likelihood, repeats = law.likelihood, separate.repeats
    order = np.argsort(separate.place, kind="stable")
    first = np.searchsorted(separate.place[order], separate.place)
    mean, variance = law.mean.copy(), law.variance.copy()
    log_density = np.full(mean.size, np.nan)

    shared = np.flatnonzero(repeats > 1)
    ends = np.flatnonzero(np.diff(np.cumsum(repeats[shared]) // _PAIRS)) + 1
    for block in filter(np.size, np.split(shared, ends)):
        # the observations at the node of each, in `row` by their number in the block
        row = np.repeat(np.arange(block.size), repeats[block])
        start = np.cumsum(repeats[block]) - repeats[block]
        every = order[first[block][row] + np.arange(row.size) - start[row]]
        without = every != block[row]

        prior = law.at(block)
        total = _tilted(prior, row, every, separate)
        others = _tilted(prior, row[without], every[without], separate)
        log_density[block] = total.log_mass - others.log_mass
        mean[block], variance[block] = others.mean, others.variance

    return Marginals(mean, variance, likelihood), log_density


def _tilted(
    prior: Marginals, row: np.ndarray, chosen: np.ndarray, separate: SeparateObservations
) -> Tilted:
    """Normal distributions, tilted by some observations each: those chosen are of these rows."""
    y, offset = separate.y[..., chosen], separate.offset[chosen]
    numbers = np.arange(prior.mean.size)
    responses = Responses(numbers, row, y, offset, np.zeros((numbers.size, 0)))

    def log_density(f: np.ndarray) -> np.ndarray:
        return responses.log_density(prior.likelihood, f)

    return tilted(log_density, prior.mean, np.sqrt(prior.variance), points=129)
