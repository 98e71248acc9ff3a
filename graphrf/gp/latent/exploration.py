"""The posterior of hyperparameters: the mode of Laplace's evidence times prior, and points around
it.

Points along a sequence that fills the space evenly have importance weights, and a few of them, by
systematic resampling, represent the posterior. Where groups have few binary observations each,
Laplace's evidence makes their deviations too small; that of expectation propagation, at some points
and interpolated, corrects the weights.

Sources: Rue, Martino and Chopin 2009, Sec. 3 and 6.5; Owen and Zhou 2000.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy import optimize
from scipy.special import logsumexp, ndtri

from graphrf._base.warn import warn
from graphrf.gp.hyperparameters.grid import systematic
from graphrf.gp.hyperparameters.importance import NormalProposal, evenly
from graphrf.gp.latent import joint_expectation_propagation, laplace
from graphrf.gp.latent.data import Data
from graphrf.gp.latent.posterior import Gaussian, conditioned
from graphrf.gp.likelihoods.likelihood import Likelihood
from graphrf.gp.likelihoods.real import NormalNoise
from graphrf.gp.model.progress import Step
from graphrf.gp.terms.joint import Joint
from graphrf.gp.terms.parameters import Parameter

# Sampled points and those that represent them, at least and at most; seconds for their evaluation;
# and the factor of the deviations of their distribution.
_SAMPLES, _POINTS, _SECONDS, _WIDER = (32, 192), (8, 24), 2.0, 1.3
# The squared length of the step that remains, in deviations of the posterior, at the end of a
# search.
_SETTLED = 0.02
# The step of differences of gradients, in coordinates.
_STEP = 0.02
# The largest deviation of a coordinate around the mode.
_WIDEST = 3.0
_IMPOSSIBLE = 1e25
# Prior variances of corrections of the evidence: of the constant, the linear and the quadratic
# coefficients, and the remainder; the variance of the differences that these interpolate; the
# logarithm of the smallest weight of a vector at which the first are taken; and how far beyond the
# outermost of them corrections change.
_VARIANCES, _NUGGET, _SLIGHT, _BEYOND = (10.0, 10.0, 1.0, 0.1), 1e-4, -15.0, 1.0


class JointApproximation(Protocol):
    """An approximation of the posterior for known hyperparameters: the module `laplace` or
    `joint_expectation_propagation`.
    """

    def approximation(
        self,
        joint: Joint,
        data: Data,
        likelihood: Likelihood,
        vector: np.ndarray,
        before: Any = None,
        /,
    ) -> Any: ...

    def gradient(
        self, joint: Joint, data: Data, likelihood: Likelihood, vector: np.ndarray, at: Any, /
    ) -> np.ndarray: ...

    def coefficient_gradient(self, joint: Joint, design: np.ndarray, at: Any, /) -> np.ndarray: ...


class Search:
    """Evidence times prior as a function of all coordinates: those of terms, then of the
    likelihood.
    """

    def __init__(self, joint: Joint, data: Data, *, flat: bool, step: Step | None = None) -> None:
        self.joint, self.data, self.step = joint, data, step
        self.parameters: tuple[Parameter, ...] = (*joint.parameters, *data.parameters())
        self.flat = flat
        # Laplace's approximation is the quicker one; its weights are no precisions where densities
        # are not log-concave.
        self.by: JointApproximation = (
            laplace if data.likelihood.log_concave else joint_expectation_propagation
        )
        # Laplace's approximation of normal noise is exact.
        self.exact = isinstance(data.likelihood, NormalNoise)
        self.corrected = self.by is laplace and not self.exact
        self._last: Any = None

    @property
    def start(self) -> np.ndarray:
        return np.array([each.coordinate(each.start) for each in self.parameters])

    @property
    def box(self) -> np.ndarray:
        ends = [[each.coordinate(each.low), each.coordinate(each.high)] for each in self.parameters]
        return np.array(ends).reshape(-1, 2)

    def at(self, vector: np.ndarray) -> Any:
        """The approximation at a vector: `LaplaceMode` or `JointMoments`."""
        if self.step is not None:
            self.step()
        n, before = len(self.joint.parameters), self._last
        likelihood = self.data.known(vector[n:])
        self._last = None  # a trial that fails leaves nothing to the next
        try:
            result = self.by.approximation(self.joint, self.data, likelihood, vector[:n], before)
            good = before is None or result.settled
        except np.linalg.LinAlgError:
            if before is None:
                raise
            good = False
        if not good:
            result = self.by.approximation(self.joint, self.data, likelihood, vector[:n])
        if result.settled:
            self._last = result
        return result

    def slopes(self, vector: np.ndarray, at: Any) -> np.ndarray:
        """The gradient of the log evidence."""
        n = len(self.joint.parameters)
        return self.by.gradient(self.joint, self.data, self.data.known(vector[n:]), vector[:n], at)

    def moved(self, offset: np.ndarray) -> Search:
        """The same with an offset of eta added; it begins where this one ended."""
        data = dataclasses.replace(self.data, offset=self.data.offset + offset)
        other = Search(self.joint, data, flat=self.flat, step=self.step)
        other._last = self._last
        return other

    def log_prior(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """Log prior density of the coordinates, and its gradient."""
        if self.flat:
            return 0.0, np.zeros(vector.size)
        terms = [
            parameter.log_prior(x) for parameter, x in zip(self.parameters, vector, strict=True)
        ]
        return sum(value for value, _ in terms), np.array([slope for _, slope in terms])

    def log_posterior(self, vector: np.ndarray) -> float:
        """Up to a constant; -inf where there is none."""
        try:
            value = self.at(vector).log_evidence + self.log_prior(vector)[0]
        except np.linalg.LinAlgError:
            return -math.inf
        return value if math.isfinite(value) else -math.inf

    def negative(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """The negative log posterior density, which a search minimises, and its gradient."""
        try:
            at = self.at(vector)
            slope = self.slopes(vector, at)
        except np.linalg.LinAlgError:
            return _IMPOSSIBLE, np.zeros(vector.size)
        prior, prior_slope = self.log_prior(vector)
        value = -at.log_evidence - prior
        return (
            (value, -slope - prior_slope)
            if math.isfinite(value)
            else (_IMPOSSIBLE, np.zeros(vector.size))
        )

    def warn_of_bounds(self, vector: np.ndarray) -> None:
        """Warn of hyperparameters at the ends of the search."""
        for each, x, (low, high) in zip(self.parameters, vector, self.box, strict=True):
            if min(x - low, high - x) < 1e-6:
                end = "smallest" if x - low < high - x else "largest"
                warn(
                    f"training ended with the {end} {each.name} that is searched, "
                    f"{each.value(x):.3g}: the observations do not determine it; state a prior, or "
                    "leave out the term"
                )


class Sample(NamedTuple):
    """Coordinates of hyperparameters, shape (n, p), and their posterior probabilities."""

    vectors: np.ndarray
    weights: np.ndarray


class SearchMaximum(NamedTuple):
    """The end of a search; `converged` if the remaining step is small in deviations of the
    posterior.
    """

    vector: np.ndarray
    value: float
    converged: bool


def maximised(search: Search) -> SearchMaximum:
    """The mode of the posterior of hyperparameters."""
    start = search.start
    if not start.size:
        return SearchMaximum(start, search.log_posterior(start), True)
    result = _maximum(search.negative, start, search.box)
    if result.value <= -_IMPOSSIBLE:
        raise ValueError(_refusal(search))
    return result


def _refusal(search: Search) -> str:
    """The reason that no hyperparameters that were tried have an approximation."""
    joint, n = search.joint, len(search.joint.parameters)
    try:
        joint.posterior(
            joint.prior(search.start[:n]), np.full(joint.a.shape[0], search.data.unit**-2)
        )
    except np.linalg.LinAlgError:
        return (
            "the posterior cannot be approximated: the precision of all variables cannot be "
            "factored. Is a term given twice, or is a fixed effect constant on the levels of a "
            "term that does not sum to zero?"
        )
    y, name = search.data.y, type(search.data.likelihood).__name__
    return (
        f"the posterior cannot be approximated under the likelihood {name}: numbers leave the "
        "range of float64 for all hyperparameters that were tried. The observations go from "
        f"{y.min():.3g} to {y.max():.3g}: use units in which they are nearer to 1, state priors, "
        "or take another likelihood"
    )


def _maximum(
    negative: Callable[[np.ndarray], Any], start: np.ndarray, box: np.ndarray
) -> SearchMaximum:
    """The maximum of a function, from its negative with the gradient, within a box.

    The function is divided by the norm of its gradient at the start: else the first step is as long
    as the gradient, and may end where no factorisation succeeds.
    """
    unit = max(1.0, float(np.linalg.norm(negative(start)[1])))

    def scaled(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = negative(x)
        return value / unit, slope / unit

    result = optimize.minimize(
        scaled,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=box,
        options={"maxiter": 200, "ftol": 1e-12, "gtol": 1e-4 / unit},
    )
    free = result.x - np.clip(result.x - result.jac, *box.T) != 0
    slope = np.where(free, result.jac, 0.0)
    converged = unit * float(slope @ (result.hess_inv @ slope)) < _SETTLED
    return SearchMaximum(result.x, -float(result.fun) * unit, converged)


class JointMaximum(NamedTuple):
    """The joint maximum over hyperparameters and coefficients."""

    vector: np.ndarray
    coefficients: np.ndarray
    at: Any
    value: float
    converged: bool


def maximum_likelihood(
    search: Search, design: np.ndarray, start: np.ndarray, scale: np.ndarray, precision: np.ndarray
) -> JointMaximum:
    """The joint maximum over hyperparameters and coefficients, whose first values have deviations
    `scale`.

    Coefficients have a normal prior of this precision, shape (p, p), which is 0 for maximum
    likelihood.
    """
    n = len(search.parameters)

    def negative(x: np.ndarray) -> tuple[float, np.ndarray]:
        moved = search.moved(design @ (x[n:] * scale))
        try:
            at = moved.at(x[:n])
            slope = moved.slopes(x[:n], at)
        except np.linalg.LinAlgError:
            return _IMPOSSIBLE, np.zeros(x.size)
        search._last = moved._last
        prior, prior_slope = moved.log_prior(x[:n])
        pull = precision @ (x[n:] * scale)
        more = (moved.by.coefficient_gradient(moved.joint, design, at) - pull) * scale
        prior -= 0.5 * float(pull @ (x[n:] * scale))
        return -at.log_evidence - prior, -np.concatenate([slope + prior_slope, more])

    box = np.vstack([search.box, np.tile([-np.inf, np.inf], (start.size, 1))])
    first = np.concatenate([search.start, start / scale])
    result = _maximum(negative, first, box)
    vector, coefficients = result.vector[:n], result.vector[n:] * scale
    at = search.moved(design @ coefficients).at(vector)
    return JointMaximum(vector, coefficients, at, result.value, result.converged)


class Exploration(NamedTuple):
    """The posterior of hyperparameters, and that of all variables at points that represent it."""

    points: list[Gaussian]
    probabilities: np.ndarray  # of the points
    sample: Sample
    log_integral: float


class _Correction:
    """The log evidence of expectation propagation less Laplace's, as a smooth function of the
    coordinates.

    The differences at some vectors are interpolated by a quadratic and a smooth remainder with
    normal priors, in standardised coordinates that stop little beyond the outermost of these
    vectors.
    """

    def __init__(self, vectors: np.ndarray, differences: np.ndarray) -> None:
        kept = np.isfinite(differences)
        self._vectors, self._differences = vectors[kept], differences[kept]
        if kept.any():
            k = self._covariance(self._vectors) + _NUGGET * np.eye(self._differences.size)
            self._weights = np.linalg.solve(k, self._differences - self._differences.mean())

    def at(self, vectors: np.ndarray) -> np.ndarray:
        """The correction at vectors of shape (n, p); 0 where there are no differences."""
        if not self._differences.size:
            return np.zeros(len(vectors))
        return np.asarray(self._differences.mean() + self._covariance(vectors) @ self._weights)

    def more(self, vectors: np.ndarray, differences: np.ndarray) -> _Correction:
        """The correction with further differences."""
        return _Correction(
            np.vstack([self._vectors, vectors]), np.concatenate([self._differences, differences])
        )

    def _covariance(self, vectors: np.ndarray) -> np.ndarray:
        own = self._vectors
        unit = np.maximum(own.std(axis=0), 1e-12)
        inside = np.clip(
            vectors, own.min(axis=0) - _BEYOND * unit, own.max(axis=0) + _BEYOND * unit
        )
        u, v = ((each - own.mean(axis=0)) / unit for each in (inside, own))
        away = np.square(u[:, None] - v).sum(axis=2)
        parts = np.ones(away.shape), u @ v.T, np.square(u) @ np.square(v).T, np.exp(-0.125 * away)
        return np.asarray(sum(size * part for size, part in zip(_VARIANCES, parts, strict=True)))


def explored(search: Search, top: SearchMaximum, seed: int) -> Exploration:
    """The posterior of hyperparameters by a weighted sample, and points that represent it.

    Half of the sample is drawn around the mode with its curvature, the other half from a normal
    distribution fitted to the first; both are weighted by the density of their mixture. Laplace's
    evidence is corrected to that of expectation propagation, taken at some vectors of the first
    half and at the points.
    """
    p = top.vector.size
    if not p:
        point = _conditioned(search, top.vector)
        total = point.log_evidence if math.isfinite(point.log_evidence) else top.value
        return Exploration([point], np.ones(1), Sample(top.vector[None], np.ones(1)), total)
    rng = np.random.default_rng([seed, 7])
    n_sample, n_points = _sizes(search)
    z = [ndtri(evenly(n_sample // 2, p, rng)) for _ in range(2)]
    first = NormalProposal(top.vector, _WIDER * _root(search, top))
    vectors = first.at(z[0])
    log = _log_posteriors(search, vectors)
    correction = _Correction(np.zeros((0, p)), np.zeros(0))
    if search.corrected:
        log_weights = log - first.log_density(vectors)
        order = _along(vectors, log_weights)
        order = order[log_weights[order] > log_weights.max() + _SLIGHT]
        tried = order[np.unique(np.linspace(0, order.size - 1, n_points // 2).astype(int))]
        own = _own_log_posteriors(search, [_conditioned(search, vectors[k]) for k in tried])
        correction = correction.more(vectors[tried], own - log[tried])
    log_weights = log + correction.at(vectors) - first.log_density(vectors)
    weights = np.exp(log_weights - logsumexp(log_weights))
    # wider where few of the points have most of the weight
    added = (float(np.square(weights).sum()) + 1e-3) * np.cov(vectors.T).reshape(p, -1)
    second = NormalProposal.fitted(vectors, weights, added, _WIDER)
    vectors = np.vstack([vectors, second.at(z[1])])
    log = np.concatenate([log, _log_posteriors(search, vectors[len(z[0]) :])])
    density = np.logaddexp(first.log_density(vectors), second.log_density(vectors)) - math.log(2)
    log_weights = log + correction.at(vectors) - density
    chosen, counts = systematic(log_weights, _along(vectors, log_weights), n_points)
    points = [_conditioned(search, vectors[k]) for k in chosen]
    before, own = log[chosen] + correction.at(vectors[chosen]), _own_log_posteriors(search, points)
    own = np.where(np.isfinite(own), own, before)
    log_probabilities = np.log(counts / n_points) + own - before
    if search.corrected:
        correction = correction.more(vectors[chosen], own - log[chosen])
    log_weights = log + correction.at(vectors) - density
    weights = np.exp(log_weights - logsumexp(log_weights))
    effective = 1 / float(np.square(weights).sum())
    if effective < 4.0 and p > 1:
        warn(
            f"the posterior of {p} hyperparameters is far from normal around its mode, and "
            f"{effective:.1f} of {weights.size} points carry nearly all of it: intervals may be "
            "too narrow; state priors, or leave out terms on which the data have little information"
        )
    return Exploration(
        points,
        np.exp(log_probabilities - logsumexp(log_probabilities)),
        Sample(vectors, weights),
        float(logsumexp(log_weights)) - math.log(log_weights.size),
    )


def _along(vectors: np.ndarray, log_weights: np.ndarray) -> np.ndarray:
    """The order of weighted vectors along their longest axis."""
    weights = np.exp(log_weights - logsumexp(log_weights))
    away = (vectors - weights @ vectors) * np.sqrt(weights)[:, None]
    axis = np.linalg.svd(away, full_matrices=False)[2][0]
    return np.argsort(vectors @ axis, kind="stable")


def _conditioned(search: Search, vector: np.ndarray) -> Gaussian:
    """The posterior of all variables at a vector, by expectation propagation where that is an
    approximation.
    """
    sites = search.at(vector).sites(search.joint)
    if not search.exact:
        try:
            return conditioned(search.joint, search.data, vector, sites, rounds=True)
        except (
            np.linalg.LinAlgError
        ):  # its rounds left the range of numbers: the first sites remain
            own = conditioned(search.joint, search.data, vector, sites, rounds=False)
            return own._replace(settled=False)
    return conditioned(search.joint, search.data, vector, sites, rounds=False)


def _own_log_posteriors(search: Search, points: list[Gaussian]) -> np.ndarray:
    """The log posterior densities of points by their own evidence; NaN where there is none."""
    return np.array([each.log_evidence + search.log_prior(each.vector)[0] for each in points])


def _sizes(search: Search) -> tuple[int, int]:
    """The numbers of sampled and of representing points: more where an evaluation is cheap."""
    seconds = 4 * search.joint.seconds
    n_sample = int(np.clip(_SECONDS / seconds, *_SAMPLES))
    return n_sample, int(np.clip(n_sample // 6, *_POINTS))


def _log_posteriors(search: Search, vectors: np.ndarray) -> np.ndarray:
    """The log posterior density at each vector; -inf outside of the box."""
    inside = (vectors == np.clip(vectors, *search.box.T)).all(axis=1)
    return np.array(
        [
            search.log_posterior(v) if ok else -math.inf
            for v, ok in zip(vectors, inside, strict=True)
        ]
    )


def _root(search: Search, top: SearchMaximum) -> np.ndarray:
    """A root of the covariance of a normal distribution with the curvature at the mode."""
    p, box = top.vector.size, search.box
    hessian = np.empty((p, p))
    for k in range(p):
        ahead, behind = top.vector.copy(), top.vector.copy()
        ahead[k], behind[k] = min(ahead[k] + _STEP, box[k, 1]), max(behind[k] - _STEP, box[k, 0])
        hessian[k] = (search.negative(ahead)[1] - search.negative(behind)[1]) / (
            ahead[k] - behind[k]
        )
    values, vectors = np.linalg.eigh(0.5 * (hessian + hessian.T))
    covariance = (vectors / np.maximum(values, _WIDEST**-2)) @ vectors.T
    return np.linalg.cholesky(0.5 * (covariance + covariance.T))
