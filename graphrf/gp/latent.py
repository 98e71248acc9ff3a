"""Regression with other likelihoods than normal noise: from observations to the latent function's posterior."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp, ndtr, ndtri

from graphrf._base import checks
from graphrf._base.blas import linear_algebra
from graphrf._base.memory import require_memory
from graphrf._base.warn import warn
from graphrf.gp.conditioning import Conditions
from graphrf.gp.inference.covariance import Covariance
from graphrf.gp.inference.local.dense import LatentMode, nearest_dense, with_mean
from graphrf.gp.inference.local.precision import nearest_sparse
from graphrf.gp.inference.local.responses import Responses
from graphrf.gp.inference.mean_function import MeanFunction, observed_with
from graphrf.gp.inference.mixture import MixturePosterior
from graphrf.gp.inference.observations import Observations
from graphrf.gp.inference.posterior import N_DRAWS, SolverWarning
from graphrf.gp.likelihoods import Likelihood, normal_average
from graphrf.gp.method_choice import (
    affordable_training,
    cheaper_precision,
    choose_solver,
    factored_precision,
    reached_share,
)
from graphrf.gp.progress import step_bar
from graphrf.gp.settings import (
    checked_hyperprior,
    checked_settings,
    checked_targets,
    drawing,
    with_diffusion,
)
from graphrf.gp.training.fitting import normaliser
from graphrf.gp.training.grid import GridCell
from graphrf.gp.training.laplace_training import (
    SCOUTED,
    LaplaceTrained,
    LaplaceTraining,
    warn_of_likelihoods_ends,
)
from graphrf.gp.training.precision_search import affords_exact_likelihood, affords_precision_grams
from graphrf.kernels.precision.areal import precision_of
from graphrf.kernels.precision.contract import KernelPrecision

# The prior deviation of the constant, and of the trend's coefficients in deviations of a covariate, in units of f.
# With a larger one large rates would be probable where all counts are zero.
_SPREAD = 3.0
# Fewer observed nodes do not determine the hyperparameters, which are then averaged over by default.
_FEW = 30
# Predictive densities are integrated over so many deviations of f on either side, by so many points; then over so
# many steps on either side of the largest integrand, by as many points, and so on: levels in all. Rows at once.
_REACH, _POINTS, _ZOOM, _LEVELS, _ROWS = 40.0, 129, 8.0, 6, 2_000
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

        p(y | f) may be far narrower than the distribution of f, and far from its mean: the trapezoidal rule has
        ever finer points round the largest integrand.
        """
        blocks = range(0, self.mean.size, _ROWS)
        parts = [
            self.at(np.arange(first, min(first + _ROWS, self.mean.size)))._log_means(
                y[..., first : first + _ROWS], offset[first : first + _ROWS]
            )
            for first in blocks
        ]
        return np.concatenate(parts) if parts else np.zeros(0)

    def _log_means(self, y: np.ndarray, offset: np.ndarray) -> np.ndarray:
        """The logarithm of the mean of p(y | f)."""
        std = np.sqrt(self.variance)[:, None]
        z = np.broadcast_to(np.linspace(-_REACH, _REACH, _POINTS), (self.mean.size, _POINTS))
        found, values = [], []
        for _ in range(_LEVELS):
            with np.errstate(over="ignore", invalid="ignore"):
                density = self.likelihood.log_density(y[..., None], (self.mean + offset)[:, None] + std * z)
            density = np.where(np.isnan(density), -np.inf, density) - 0.5 * z**2
            found.append(z)
            values.append(density)
            step = (z[:, 1] - z[:, 0])[:, None]
            top = np.take_along_axis(z, density.argmax(axis=1)[:, None], axis=1)
            z = top + step * np.linspace(-_ZOOM, _ZOOM, _POINTS)
        points, density = np.concatenate(found, axis=1), np.concatenate(values, axis=1)
        order = np.argsort(points, axis=1)
        points, density = np.take_along_axis(points, order, axis=1), np.take_along_axis(density, order, axis=1)
        gaps = np.diff(points, axis=1, prepend=points[:, :1], append=points[:, -1:])
        with np.errstate(divide="ignore"):  # points that stand twice
            weights = np.log(0.5 * (gaps[:, 1:] + gaps[:, :-1]))
        return np.asarray(logsumexp(density + weights, axis=1) - 0.5 * math.log(2 * math.pi))

    def quantiles(self, levels: np.ndarray) -> np.ndarray:
        """Of f, shape (q, levels)."""
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
    precision = None
    if gp._asked_method() == "precision":
        precision, kernels = factored_precision(gp.graph, kernels)
    positions, y, covariates = observed_with(gp.graph, nodes, y, x)
    mean = MeanFunction.of(gp.mean, gp.graph.n_nodes, np.unique(positions), covariates)
    responses, middle, unit = _responses(likelihood, mean, positions, y, exposure, trials)
    distinct = responses.nodes
    seed = checks.seed(gp.seed)
    share = reached_share(gp.graph, distinct, gp.max_train)
    method = gp._choose_method(distinct.size, share)
    kernels = with_diffusion(gp, kernels, method)
    integrate = gp.hyperparameters == "integrate" or (gp.hyperparameters == "auto" and distinct.size < _FEW)
    if precision is not None and affords_precision_grams(precision, min(distinct.size, gp.max_train)):
        method = "precision"
    with step_bar("training", gp.progress) as bar:
        training = LaplaceTraining(
            gp.graph, responses, likelihood, _SPREAD * unit, unit,
            output_scale=None if gp.output_scale is None else float(gp.output_scale), normalize=gp.normalize,
            prior=checked_hyperprior(gp.prior), n_train=affordable_training(gp.graph, method, gp.max_train, share),
            share=share, method=method, precision=precision, sampler=gp.sampler, seed=seed, n_threads=gp.n_threads,
            exact=precision is not None and affords_exact_likelihood(precision),
            step=bar.update if gp.progress else None,
        )  # fmt: skip
        trained, precision = _trained(gp, training, kernels, precision, integrate)
    warn_of_likelihoods_ends(trained)
    if trained.best.point.size and distinct.size < _FEW and not integrate:
        warn(
            f"{distinct.size} observed nodes do not determine the hyperparameters, and only the most probable "
            "ones are used: intervals may be too narrow; average over them (hyperparameters='integrate'), or fix "
            "what is known (optimize=False, output_scale, parameters of the likelihood)",
        )
    best = trained.best
    mean_variance = normaliser(gp.graph, best.kernel, seed, precision) if gp.normalize else 1.0
    output_scale = best.amplitude * mean_variance if gp.output_scale is None else float(gp.output_scale)
    given = Conditions(
        observations=Observations.of(distinct, np.zeros((distinct.size, 1)), mean.basis),
        offset=np.array([middle]), single=True, kernel=best.kernel,
        output_scale=output_scale, noise=1.0, mean_variance=mean_variance, sampler=trained.sampler, seed=seed,
        log_marginal_likelihood=best.value, trained=best.converged, candidates=trained.candidates,
        sparse=precision is not None, mean_precision=1 / (_SPREAD * unit) ** 2, likelihood=best.model.likelihood,
        covariates=covariates,
    )  # fmt: skip
    mode = _mode(gp, given, responses, best.model.likelihood, precision)
    if not mode.converged:
        warn(
            f"the posterior mode was not reached: Newton's method ended at {mode.residual:.2g} of the first "
            "gradient; fix a smaller `output_scale`",
            SolverWarning,
        )
    given = given._replace(observations=mode.observations(responses), trained=given.trained and mode.converged)
    if integrate and trained.best.point.size:
        given = given._replace(points=_points(gp, given, responses, trained, precision))
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
        """Of the mixture, shape (q, levels): bisection between the smallest and the largest of the parts'."""
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
    gp: Any, given: Conditions, responses: Responses, trained: LaplaceTrained, precision: KernelPrecision | None
) -> list[GridCell]:
    """The points averaged over, each with the observations that give its approximation."""
    with linear_algebra(responses.nodes.size, gp.n_threads):
        cells = trained.points()
    points = []
    for cell in cells:
        own = None if precision is None else precision.with_kernel(cell.kernel)
        by = normaliser(gp.graph, cell.kernel, given.seed, own) if gp.normalize else 1.0
        scale = cell.amplitude * by if gp.output_scale is None else float(gp.output_scale)
        cell = cell._replace(amplitude=scale / by, output_scale=scale)
        assert cell.likelihood is not None
        mode = _mode(gp, given.at(cell), responses, cell.likelihood, own)
        if not mode.converged:
            warn(
                f"the posterior mode of {cell.kernel!r}, one of those averaged over, was not reached: Newton's "
                f"method ended at {mode.residual:.2g} of the first gradient; fix a smaller `output_scale`",
                SolverWarning,
            )
        points.append(cell._replace(observations=mode.observations(responses)))
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


def _trained(
    gp: Any, training: LaplaceTraining, kernels: Any, precision: KernelPrecision | None, integrate: bool
) -> tuple[LaplaceTrained, KernelPrecision | None]:
    """What training finds, and the sparse precision of the posterior if it is to have one."""
    part, searched = None, gp._asked_method() == "auto" and not integrate
    if searched and len(kernels) == 1:
        sparse = cheaper_precision(gp.graph, [kernels[0][0]], training.responses.nodes.size)
        if sparse is not None and affords_exact_likelihood(sparse):  # a rough start is enough
            precision, training = sparse, replace(training, n_train=min(training.n_train, SCOUTED), exact=True)
    if precision is not None and not affords_exact_likelihood(precision):
        part = training.on_part()
    if part is not None:
        trained = part.run(kernels)
        trained = part.exactly(trained, precision_of(part.graph, trained.best.kernel))
    else:
        trained = training.run(kernels)
        if searched and precision is None:
            precision = cheaper_precision(gp.graph, [trained.best.kernel], training.responses.nodes.size)
        if precision is not None and training.responses.nodes.size > training.n_train:
            trained = training.exactly(trained, precision)
    if precision is not None:
        precision = precision.with_kernel(trained.best.kernel)
        precision.warn_of_rounding()
        trained = trained._replace(sampler=None)
    return trained, precision


def _mode(
    gp: Any, given: Conditions, responses: Responses, likelihood: Likelihood, precision: KernelPrecision | None
) -> LatentMode:
    """The normal distribution nearest to the posterior of the latent function at the observed nodes."""
    spread = given.mean_precision**-0.5
    if precision is not None:
        return nearest_sparse(precision, responses, likelihood, amplitude=given.amplitude, spread=spread)
    size = responses.nodes.size
    solver = choose_solver(gp.graph, given.method, size) if gp.solver == "auto" else gp.solver
    covariance = Covariance.of(
        gp.graph, given.kernel, given.amplitude, sampler=given.sampler, seed=given.seed, n_threads=gp.n_threads,
        draw=None if solver == "cholesky" else drawing(gp), tell=False,
    )  # fmt: skip
    basis = spread * responses.basis
    with linear_algebra(size, gp.n_threads):
        rows = covariance.rows(responses.nodes)
        if solver == "cholesky":
            require_memory(
                24.0 * size**2, f"the covariance matrix of {size} observed nodes", "pass solver='cg', or fewer"
            )
            matrix = rows.dense()
            matrix = with_mean(0.5 * (matrix + matrix.T), responses.basis, spread)
            return nearest_dense(matrix, responses, likelihood)

        def product(x: np.ndarray) -> np.ndarray:
            return np.asarray(rows.gram(x) + basis @ (basis.T @ x))

        def draws() -> Iterator[tuple[np.ndarray, np.ndarray]]:
            rng = np.random.default_rng([given.seed, 3])
            for _ in range(N_DRAWS // _DRAWN):
                shared, own = (rng.standard_normal((n, _DRAWN)) for n in (rows.shape[1], basis.shape[1]))
                yield rows.apply(shared) + basis @ own, rng.standard_normal((size, _DRAWN))

        return nearest_dense(product, responses, likelihood, draws)
