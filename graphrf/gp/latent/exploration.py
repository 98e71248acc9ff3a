"""The posterior of hyperparameters: the mode of evidence times prior, and points around it.

Points along a sequence that fills the space evenly have importance weights, and a few of them, by
systematic resampling, represent the posterior. Where groups have few binary observations each,
Laplace's evidence makes their deviations too small; that of expectation propagation, at some points
and interpolated, corrects the weights.

Sources: Rue, Martino and Chopin 2009, Sec. 3 and 6.5; Owen and Zhou 2000.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple, Protocol

import numpy as np

from graphrf._base.warn import warn
from graphrf.gp.latent import joint_expectation_propagation, laplace
from graphrf.gp.latent.data import Data
from graphrf.gp.latent.posterior import Gaussian, posterior_at
from graphrf.gp.likelihoods.likelihood import Likelihood
from graphrf.gp.likelihoods.real import NormalNoise
from graphrf.gp.model.progress import Step
from graphrf.gp.search.coordinates import Coordinates
from graphrf.gp.search.maximum import Maximum, Tolerances, maximised
from graphrf.gp.search.sample import (
    NormalProposal,
    log_sum_exp,
    mixture_sample,
    probabilities,
    systematic,
)
from graphrf.gp.terms.joint import Joint

# Sampled points and those that represent them, at least and at most, and the seconds for evaluating
# the former, which decide between these ends; benchmarks/terms_calibration.py and terms_chains.py
# measure what they give. The last is the factor of the proposals' deviations: weights are bounded
# only where proposals are at least as wide as the posterior (Owen and Zhou 2000, Sec. 2.2).
_SAMPLES, _POINTS, _SECONDS, _WIDER = (32, 192), (8, 24), 2.0, 1.3
# When the search for the mode ends.
_TOLERANCES = Tolerances(iterations=200, change=1e-12, slope=1e-4)
# Prior variances of corrections of the evidence: of the constant, the linear and the quadratic
# coefficients, and the remainder; the variance of the differences that these interpolate; the
# logarithm of the smallest weight of a vector at which the first are taken; and how far beyond the
# outermost of them corrections change. benchmarks/binary_groups.py has the intervals of deviations
# that they give.
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
    """Evidence times prior as a function of coordinates: of terms, then of the likelihood."""

    def __init__(self, joint: Joint, data: Data, *, flat: bool, step: Step | None = None) -> None:
        self.joint, self.data, self.step = joint, data, step
        parameters = (*joint.parameters, *data.parameters())
        if flat:
            parameters = tuple(parameter._replace(prior=None) for parameter in parameters)
        self.flat, self.coordinates = flat, Coordinates(parameters)

        # Laplace's approximation is the quicker one; its weights are no precisions where densities
        # are not log-concave.
        self.engine: JointApproximation = (
            laplace if data.likelihood.log_concave else joint_expectation_propagation
        )

        # Laplace's approximation of normal noise is exact.
        self.exact = isinstance(data.likelihood, NormalNoise)
        self.corrected = self.engine is laplace and not self.exact
        # The last approximation that settled, from which the next one begins: `at` depends on the
        # calls before it, within the tolerance of the approximation.
        self.warm_start: Any = None

    def at(self, vector: np.ndarray) -> Any:
        """The approximation at a vector: `LaplaceMode` or `JointMoments`."""
        if self.step is not None:
            self.step()

        n, before = len(self.joint.parameters), self.warm_start
        likelihood = self.data.likelihood_at(vector[n:])
        self.warm_start = None  # a trial that fails leaves nothing to the next
        try:
            result = self.engine.approximation(
                self.joint, self.data, likelihood, vector[:n], before
            )
            good = before is None or result.settled
        except np.linalg.LinAlgError:
            if before is None:
                raise
            good = False

        if not good:
            result = self.engine.approximation(self.joint, self.data, likelihood, vector[:n])
        if result.settled:
            self.warm_start = result
        return result

    def slopes(self, vector: np.ndarray, at: Any) -> np.ndarray:
        """The gradient of the log evidence."""
        n = len(self.joint.parameters)
        return self.engine.gradient(
            self.joint, self.data, self.data.likelihood_at(vector[n:]), vector[:n], at
        )

    def moved(self, offset: np.ndarray) -> Search:
        """The same with an offset of eta added; it begins where this one ended."""
        data = dataclasses.replace(self.data, offset=self.data.offset + offset)
        other = Search(self.joint, data, flat=self.flat, step=self.step)
        other.warm_start = self.warm_start
        return other

    def log_posterior(self, vector: np.ndarray) -> float:
        """Up to a constant; -inf where there is none."""
        try:
            value = self.at(vector).log_evidence + self.coordinates.log_prior(vector)[0]
        except np.linalg.LinAlgError:
            return -math.inf
        return value if math.isfinite(value) else -math.inf

    def with_gradient(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """The log posterior density and its gradient; -inf and zeros where there is none."""
        try:
            at = self.at(vector)
            slope = self.slopes(vector, at)
        except np.linalg.LinAlgError:
            return -math.inf, np.zeros(vector.size)

        prior, prior_slope = self.coordinates.log_prior(vector)
        value = at.log_evidence + prior
        if not math.isfinite(value):
            return -math.inf, np.zeros(vector.size)
        return value, slope + prior_slope


class Sample(NamedTuple):
    """Coordinates of hyperparameters, shape (n, p), and their posterior probabilities."""

    vectors: np.ndarray
    weights: np.ndarray


def find_mode(search: Search) -> Maximum:
    """The mode of the posterior of hyperparameters."""
    start, box = search.coordinates.start, search.coordinates.box
    result = maximised(search.with_gradient, start, box, tolerances=_TOLERANCES)
    if start.size and not math.isfinite(result.value):
        raise ValueError(_refusal(search))
    return result


def _refusal(search: Search) -> str:
    """The reason that no hyperparameters that were tried have an approximation."""
    joint, n = search.joint, len(search.joint.parameters)
    try:
        joint.posterior(
            joint.prior(search.coordinates.start[:n]),
            np.full(joint.a.shape[0], search.data.unit**-2),
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
    """The joint maximum over hyperparameters and coefficients.

    `scale` (p, p) is a root of the coefficients' covariance near the maximum: independent ones of
    unit variance are found in fewer steps. Coefficients have a normal prior of this precision,
    shape (p, p), which is 0 for maximum likelihood.
    """
    n = len(search.coordinates.parameters)

    def log_density(x: np.ndarray) -> tuple[float, np.ndarray]:
        coefficients = scale @ x[n:]
        moved = search.moved(design @ coefficients)
        try:
            at = moved.at(x[:n])
            slope = moved.slopes(x[:n], at)
        except np.linalg.LinAlgError:
            return -math.inf, np.zeros(x.size)
        search.warm_start = moved.warm_start

        prior, prior_slope = moved.coordinates.log_prior(x[:n])
        pull = precision @ coefficients
        more = (moved.engine.coefficient_gradient(moved.joint, design, at) - pull) @ scale
        prior -= 0.5 * float(pull @ coefficients)
        return at.log_evidence + prior, np.concatenate([slope + prior_slope, more])

    unbounded = np.tile([-np.inf, np.inf], (start.size, 1))
    box = np.vstack([search.coordinates.box, unbounded])
    first = np.concatenate([search.coordinates.start, np.linalg.solve(scale, start)])
    result = maximised(log_density, first, box, tolerances=_TOLERANCES)

    vector, coefficients = result.vector[:n], scale @ result.vector[n:]
    at = search.moved(design @ coefficients).at(vector)
    return JointMaximum(vector, coefficients, at, result.value, result.converged)


class Exploration(NamedTuple):
    """The posterior of hyperparameters, and that of all variables at points that represent it."""

    points: list[Gaussian]
    probabilities: np.ndarray  # of the points
    sample: Sample
    log_integral: float


class _Correction:
    """The log evidence of expectation propagation less Laplace's, as a smooth function.

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

        # The remainder is a squared exponential whose lengthscale is two deviations of the vectors.
        away = np.square(u[:, None] - v).sum(axis=2)
        parts = np.ones(away.shape), u @ v.T, np.square(u) @ np.square(v).T, np.exp(-0.125 * away)
        return np.asarray(sum(size * part for size, part in zip(_VARIANCES, parts, strict=True)))


def explored(search: Search, top: Maximum, seed: int) -> Exploration:
    """The posterior of hyperparameters by a weighted sample, and points that represent it.

    Half of the sample is drawn around the mode with its curvature, the other half from a normal
    distribution fitted to the first; both are weighted by the density of their mixture. Laplace's
    evidence is corrected to that of expectation propagation, taken at some vectors of the first
    half and at the points.
    """
    p, box = top.vector.size, search.coordinates.box
    if not p:
        point = _posterior_at(search, top.vector)
        total = point.log_evidence if math.isfinite(point.log_evidence) else top.value
        return Exploration([point], np.ones(1), Sample(top.vector[None], np.ones(1)), total)

    n_sample, n_points = _sizes(search)
    first = NormalProposal.around(top.vector, lambda x: search.with_gradient(x)[1], box, _WIDER)
    corrections = [_Correction(np.zeros((0, p)), np.zeros(0))]

    def second(vectors: np.ndarray, log: np.ndarray) -> NormalProposal:
        if search.corrected:
            log_weights = log - first.log_density(vectors)
            order = _along(vectors, log_weights)
            order = order[log_weights[order] > log_weights.max() + _SLIGHT]
            tried = order[np.unique(np.linspace(0, order.size - 1, n_points // 2).astype(int))]
            points = [_posterior_at(search, vectors[k]) for k in tried]
            differences = _log_posteriors_of(search, points) - log[tried]
            corrections[0] = corrections[0].more(vectors[tried], differences)

        weights = probabilities(log + corrections[0].at(vectors) - first.log_density(vectors))
        # Wider where few of the points have most of the weight.
        added = (float(np.square(weights).sum()) + 1e-3) * np.cov(vectors.T).reshape(p, -1)
        return NormalProposal.fitted(vectors, weights, added, _WIDER)

    rng = np.random.default_rng([seed, 7])
    vectors, log, density = mixture_sample(
        first, second, lambda points: _log_posteriors(search, points), (n_sample // 2, p), rng
    )
    correction = corrections[0]
    log_weights = log + correction.at(vectors) - density

    chosen, counts = systematic(log_weights, _along(vectors, log_weights), n_points)
    points = [_posterior_at(search, vectors[k]) for k in chosen]

    # The evidence of a point's own approximation takes the place of the interpolated one.
    before, after = log[chosen] + correction.at(vectors[chosen]), _log_posteriors_of(search, points)
    after = np.where(np.isfinite(after), after, before)
    log_probabilities = np.log(counts / n_points) + after - before
    if search.corrected:
        correction = correction.more(vectors[chosen], after - log[chosen])
    log_weights = log + correction.at(vectors) - density
    weights = probabilities(log_weights)

    # Kish's effective number of points.
    effective = 1 / float(np.square(weights).sum())
    if effective < 4.0 and p > 1:
        warn(
            f"the posterior of {p} hyperparameters is far from normal around its mode, and "
            f"{effective:.1f} of {weights.size} points carry nearly all of it: intervals may be "
            "too narrow; state priors, or leave out terms on which the data have little information"
        )
    return Exploration(
        points,
        probabilities(log_probabilities),
        Sample(vectors, weights),
        log_sum_exp(log_weights) - math.log(log_weights.size),
    )


def _along(vectors: np.ndarray, log_weights: np.ndarray) -> np.ndarray:
    """The order of weighted vectors along their longest axis."""
    weights = probabilities(log_weights)
    away = (vectors - weights @ vectors) * np.sqrt(weights)[:, None]
    axis = np.linalg.svd(away, full_matrices=False)[2][0]
    return np.argsort(vectors @ axis, kind="stable")


def _posterior_at(search: Search, vector: np.ndarray) -> Gaussian:
    """The posterior at a vector, by expectation propagation where that is an approximation."""
    sites = search.at(vector).sites(search.joint)
    if not search.exact:
        try:
            return posterior_at(search.joint, search.data, vector, sites, rounds=True)
        except np.linalg.LinAlgError:
            # Its rounds left the range of numbers: the first sites remain.
            point = posterior_at(search.joint, search.data, vector, sites, rounds=False)
            return point._replace(settled=False)

    return posterior_at(search.joint, search.data, vector, sites, rounds=False)


def _log_posteriors_of(search: Search, points: list[Gaussian]) -> np.ndarray:
    """The log posterior densities of points by their own evidence; NaN where there is none."""
    return np.array(
        [point.log_evidence + search.coordinates.log_prior(point.vector)[0] for point in points]
    )


def _sizes(search: Search) -> tuple[int, int]:
    """The numbers of sampled and of representing points: more where an evaluation is cheap."""
    seconds = 4 * search.joint.seconds
    n_sample = int(np.clip(_SECONDS / seconds, *_SAMPLES))
    return n_sample, int(np.clip(n_sample // 6, *_POINTS))


def _log_posteriors(search: Search, vectors: np.ndarray) -> np.ndarray:
    """The log posterior density at each vector; -inf outside of the box."""
    inside = (vectors == search.coordinates.clipped(vectors)).all(axis=1)
    return np.array(
        [
            search.log_posterior(v) if ok else -math.inf
            for v, ok in zip(vectors, inside, strict=True)
        ]
    )
