"""Regression with other likelihoods than normal noise: from observations to the latent function's posterior."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp, ndtr, ndtri

from graphrf._base import checks
from graphrf._base.blas import linear_algebra
from graphrf._base.memory import require_memory
from graphrf._base.warn import warn
from graphrf.gp.hyperparameters.explore import POINTS
from graphrf.gp.hyperparameters.explore_latent import LatentProblem, explore_latent
from graphrf.gp.model.hyperparameters import Hyperparameters
from graphrf.gp.model.likelihoods import Likelihood, normal_average
from graphrf.gp.model.mean_function import MeanFunction, observed_with
from graphrf.gp.model.observations import Observations
from graphrf.gp.model.progress import step_bar
from graphrf.gp.model.settings import checked_hyperprior, checked_settings, checked_targets
from graphrf.gp.posterior.approximation.expectation import (
    Approximation,
    Prior,
    approximate,
    independent_sites,
)
from graphrf.gp.posterior.approximation.integrals import tilted
from graphrf.gp.posterior.approximation.priors import DensePrior, ProductPrior, with_mean
from graphrf.gp.posterior.approximation.responses import Responses
from graphrf.gp.posterior.approximation.sparse import SparsePrior
from graphrf.gp.posterior.by_rows import N_DRAWS
from graphrf.gp.posterior.condition import Conditions
from graphrf.gp.posterior.mixture import MixturePosterior
from graphrf.gp.routes.costs import choose_solver
from graphrf.gp.routes.covariance import Covariance
from graphrf.gp.routes.normaliser import normaliser
from graphrf.gp.routes.plan import make_plan
from graphrf.operators.precision.protocol import KernelPrecision

# The prior deviation of the constant, and of the trend's coefficients in deviations of a covariate, in units of f.
# With a larger one large rates would be probable where all counts are zero.
_SPREAD = 3.0
# Nodes whose predictive densities are integrated at once.
_ROWS = 2_000
# Posterior draws that are held at once for variances at observed nodes.
_DRAWN = 16
# Halvings of the interval that holds a mixture's quantile.
_BISECTIONS = 60


class Marginals(NamedTuple):
    """The normal distribution of f at each of q nodes.

    Attributes
    ----------
    mean, variance : ndarray, shape (q,)
    likelihood : Likelihood or None
        None for normal noise.
    """

    mean: np.ndarray
    variance: np.ndarray
    likelihood: Any

    def at(self, positions: np.ndarray) -> Marginals:
        """Those at some of the nodes, repeats included."""
        return Marginals(self.mean[positions], self.variance[positions], self.likelihood)

    def response(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the expected observation at each node."""
        mean, variance = self.likelihood.moments(self.mean, self.variance)
        return mean, variance

    def observation_variance(self) -> np.ndarray:
        """The mean of an observation's variance given f."""
        return normal_average(self.likelihood.variance, self.mean, self.variance)

    def log_density(self, y: np.ndarray, offset: np.ndarray) -> np.ndarray:
        """The predictive log densities of an observation at each node.

        p(y | f) may be far narrower than the distribution of f, and far from its mean.
        """
        result = np.empty(self.mean.size)
        for first in range(0, self.mean.size, _ROWS):
            rows = np.arange(first, min(first + _ROWS, self.mean.size))

            def log_density(f: np.ndarray, rows: np.ndarray = rows) -> np.ndarray:
                return self.likelihood.log_density(y[..., rows, None], f + offset[rows, None])

            std = np.sqrt(self.variance[rows])
            result[rows] = tilted(log_density, self.mean[rows], std, points=129).log_mass
        return result

    def quantiles(self, levels: np.ndarray) -> np.ndarray:
        """Quantiles of f, shape (q, levels)."""
        return np.asarray(self.mean[:, None] + np.sqrt(self.variance)[:, None] * ndtri(levels))


def checked_levels(quantiles: Any) -> np.ndarray:
    """Levels of quantiles, in (0, 1)."""
    levels = checks.finite("quantiles", np.atleast_1d(checks.array("quantiles", quantiles, np.float64)))
    if levels.ndim != 1 or not levels.size or (levels <= 0).any() or (levels >= 1).any():
        raise checks.value_error("quantiles", f"must be levels between 0 and 1, got {checks.describe(quantiles)}")
    return levels


def fit_latent(
    gp: Any, likelihood: Likelihood, nodes: Any, y: Any, exposure: Any, trials: Any, x: Any = None
) -> Any:
    """Fit a `GraphGPRegressor` whose likelihood is not normal."""
    kernels = checked_settings(gp)
    if gp.noise is not None:
        raise checks.value_error(
            "noise", f"is for likelihood='gaussian'; {likelihood!r} has parameters of its own"
        )
    for kernel, _ in kernels:
        kernel.check_graph(gp.graph)
    positions, y, covariates = observed_with(gp.graph, nodes, y, x)
    mean = MeanFunction.of(gp.mean, gp.graph.n_nodes, np.unique(positions), covariates)
    responses, middle, unit = _responses(likelihood, mean, positions, y, exposure, trials)
    averages, seed = gp.hyperparameters == "average", checks.seed(gp.seed)
    plan = make_plan(
        gp.graph, kernels, responses.nodes.size, method=gp._asked_method(), automatic=gp._is_automatic,
        sampler=gp.sampler, n_points=POINTS if averages else 1, n_threads=gp.n_threads,
    )  # fmt: skip
    route, precision = plan.route, plan.route.precision
    problem = LatentProblem(
        gp.graph, plan.kernels, responses, likelihood, _SPREAD * unit, unit,
        output_scale=None if gp.output_scale is None else float(gp.output_scale), normalize=gp.normalize,
        prior=checked_hyperprior(gp.prior), averages=averages, max_train=gp.max_train, seed=seed,
        n_threads=gp.n_threads,
    )  # fmt: skip
    with step_bar("training", gp.progress) as bar:
        found = explore_latent(problem, route, bar.update if gp.progress else None)
    best = found.best
    assert best.likelihood is not None
    if precision is not None:
        precision = precision.with_kernel(best.kernel)
        precision.warn_of_rounding()
    mean_variance = normaliser(gp.graph, best.kernel, seed, precision) if gp.normalize else 1.0
    output_scale = best.amplitude * mean_variance if gp.output_scale is None else float(gp.output_scale)
    given = Conditions(
        observations=Observations.of(responses.nodes, np.zeros((responses.nodes.size, 1)), mean.basis),
        offset=np.array([middle]), single=True, kernel=best.kernel,
        output_scale=output_scale, noise=1.0, mean_variance=mean_variance, sampler=found.sampler, seed=seed,
        log_marginal_likelihood=None, trained=found.converged, candidates=found.compared,
        sparse=precision is not None, mean_precision=1 / (_SPREAD * unit) ** 2, likelihood=best.likelihood,
        covariates=covariates,
    )  # fmt: skip
    approximation = _approximation(gp, given, responses, best.likelihood, precision)
    given = given._replace(
        observations=approximation.observations(responses), trained=given.trained and approximation.settled,
        log_marginal_likelihood=approximation.log_evidence,
    )  # fmt: skip
    if found.points:
        given = given._replace(points=_points(gp, given, responses, found.points, precision))
    return gp._condition(given, mean, precision)


class MarginalMixture(NamedTuple):
    """Distributions of f at each of q nodes under several sets of hyperparameters, with their probabilities."""

    parts: list[Marginals]
    probabilities: np.ndarray

    def at(self, positions: np.ndarray) -> MarginalMixture:
        """Those at some of the nodes, repeats included."""
        return MarginalMixture([part.at(positions) for part in self.parts], self.probabilities)

    def response(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the expected observation at each node."""
        means, variances = np.array([part.response() for part in self.parts]).swapaxes(0, 1)
        mean = self.probabilities @ means
        return mean, self.probabilities @ (variances + np.square(means - mean))

    def observation_variance(self) -> np.ndarray:
        """The mean of an observation's variance given f."""
        return np.asarray(self.probabilities @ [part.observation_variance() for part in self.parts])

    def log_density(self, y: np.ndarray, offset: np.ndarray) -> np.ndarray:
        """The predictive log densities of an observation at each node."""
        own = np.array([part.log_density(y, offset) for part in self.parts])
        return np.asarray(logsumexp(own, axis=0, b=self.probabilities[:, None]))

    def quantiles(self, levels: np.ndarray) -> np.ndarray:
        """Quantiles of the mixture, shape (q, levels), by bisection between the extreme quantiles of its parts."""
        mean = np.array([part.mean for part in self.parts])[..., None]
        std = np.sqrt([part.variance for part in self.parts])[..., None]
        each = mean + std * ndtri(levels)
        low, high = each.min(axis=0), each.max(axis=0)
        std = np.maximum(std, np.finfo(np.float64).tiny)
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            with np.errstate(over="ignore"):
                below = np.tensordot(self.probabilities, ndtr((middle - mean) / std), axes=1) < levels
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return np.asarray(0.5 * (low + high))


def marginals(gp: Any, nodes: np.ndarray, bar: Any = None) -> Marginals | MarginalMixture:
    """The distribution of f at distinct nodes, for one output."""
    posterior, likelihood = gp._posterior, getattr(gp, "likelihood_", None)
    if not isinstance(posterior, MixturePosterior):
        mean = posterior.means(nodes)[:, 0]
        return Marginals(mean, gp._variances(nodes, bar).reshape(mean.shape), likelihood)
    rng = None if gp._exact_deviations(nodes.size) else np.random.default_rng([gp.seed_, 2])
    laws = posterior.laws(nodes, rng, bar)
    parts = [
        Marginals(mean[:, 0], variance.reshape(-1), point.likelihood)
        for (_, mean, variance), point in zip(laws, gp._given.points, strict=True)
    ]
    return MarginalMixture(parts, np.array([probability for probability, *_ in laws]))


def _points(
    gp: Any,
    given: Conditions,
    responses: Responses,
    cells: Sequence[Hyperparameters],
    precision: KernelPrecision | None,
) -> list[Hyperparameters]:
    """The points averaged over, each with the observations that give its approximation."""
    points = []
    for cell in cells:
        own = None if precision is None else precision.with_kernel(cell.kernel)
        by = normaliser(gp.graph, cell.kernel, given.seed, own) if gp.normalize else 1.0
        scale = cell.amplitude * by if gp.output_scale is None else float(gp.output_scale)
        cell = cell._replace(amplitude=scale / by, output_scale=scale)
        assert cell.likelihood is not None
        found = _approximation(gp, given.at(cell), responses, cell.likelihood, own)
        points.append(cell._replace(observations=found.observations(responses)))
    return points


def _responses(
    likelihood: Likelihood, mean: MeanFunction, positions: np.ndarray, y: Any, exposure: Any, trials: Any
) -> tuple[Responses, float, float]:
    """Observations, the middle of the constant's prior, and the unit of f."""
    y, offset = checked_responses(likelihood, positions.size, y, exposure, trials)
    middle = likelihood.start(y, offset) if mean.basis.shape[1] else 0.0
    return Responses.of(positions, y, offset + middle, mean.basis), middle, likelihood.unit(y)


def checked_responses(
    likelihood: Likelihood, n: int, y: Any, exposure: Any, trials: Any
) -> tuple[np.ndarray, np.ndarray]:
    """n observations as the likelihood takes them, and the logarithms of their exposures."""
    values, single = checked_targets(y, n)
    if not single:
        raise checks.value_error(
            "y",
            f"must have shape ({n},) with {likelihood!r}, which has one output; fit one at a time",
        )
    y = likelihood.checked(values[:, 0], _for_each("trials", trials, n))
    offset = np.zeros(n)
    if exposure is not None:
        if not likelihood.log_link:
            raise checks.value_error(
                "exposure",
                f"is for likelihoods of rates, such as 'poisson', whose mean it multiplies, not {likelihood!r}",
            )
        factors = _for_each("exposure", exposure, n)
        assert factors is not None
        if (factors <= 0).any():
            raise checks.value_error(
                "exposure", f"must be greater than 0, got {factors.min():g}; leave out what was not exposed"
            )
        offset = np.log(factors)
    return y, offset


def _for_each(name: str, values: Any, n: int) -> np.ndarray | None:
    """A number for each observation, from one or as many."""
    if values is None:
        return None
    array = checks.finite(name, checks.array(name, values, np.float64))
    if array.ndim > 1 or array.shape not in ((), (n,), (1,)):
        raise checks.value_error(
            name, f"must be a number or have shape ({n},), one for each observation, got {array.shape}"
        )
    return np.broadcast_to(array.reshape(-1), (n,))


def _approximation(
    gp: Any, given: Conditions, responses: Responses, likelihood: Likelihood, precision: KernelPrecision | None
) -> Approximation:
    """The posterior of the latent function at the observed nodes with known hyperparameters."""
    sites = independent_sites(responses, likelihood, given.mean_precision**-0.5)
    with linear_algebra(responses.nodes.size, gp.n_threads):
        found = approximate(_prior(gp, given, responses, precision), responses, likelihood, sites)
    if not found.settled:
        warn(
            f"the normal approximation of the posterior with {given.kernel!r} had not settled: in the last round "
            f"a mean still moved by {found.change:.0%} of its deviation, or a deviation by half of that, and "
            "intervals there are as uncertain; is there an observation far from all others?"
        )
    return found


def _prior(gp: Any, given: Conditions, responses: Responses, precision: KernelPrecision | None) -> Prior:
    """Prior of the latent function at the observed nodes."""
    spread = given.mean_precision**-0.5
    if precision is not None:
        return SparsePrior(precision, given.amplitude, responses, spread)
    size = responses.nodes.size
    solver = choose_solver(gp.graph, given.method, size) if gp.solver == "auto" else gp.solver
    covariance = Covariance.of(
        gp.graph, given.kernel, given.amplitude, sampler=given.sampler, seed=given.seed, n_threads=gp.n_threads,
        draw=None if solver == "cholesky" else gp.draw, tell=False,
    )  # fmt: skip
    basis = spread * responses.basis
    rows = covariance.rows(responses.nodes)
    if solver == "cholesky":
        require_memory(
            24.0 * size**2, f"the covariance matrix of {size} observed nodes", "pass solver='cg', or fewer"
        )
        matrix = rows.dense()
        return DensePrior(with_mean(0.5 * (matrix + matrix.T), responses.basis, spread))

    def product(x: np.ndarray) -> np.ndarray:
        return np.asarray(rows.gram(x) + basis @ (basis.T @ x))

    def draws() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        rng = np.random.default_rng([given.seed, 3])
        for _ in range(N_DRAWS // _DRAWN):
            shared, own = (rng.standard_normal((n, _DRAWN)) for n in (rows.shape[1], basis.shape[1]))
            yield rows.apply(shared) + basis @ own, rng.standard_normal((size, _DRAWN))

    return ProductPrior(product, draws)
