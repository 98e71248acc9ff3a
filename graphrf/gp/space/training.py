"""Hyperparameters of a field over space: their posterior mode, and points that represent their
posterior.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from scipy.special import ndtri

from graphrf._base.blas import blas_threads
from graphrf._base.threads import ordered_map
from graphrf.gp.hyperparameters.likelihood_search import LikelihoodSearch, unit_mean_variance
from graphrf.gp.hyperparameters.precision_search import PrecisionSearch
from graphrf.gp.hyperparameters.space import NOISES, NORMAL, OUTPUT_SCALES, Space
from graphrf.gp.model.mean_function import TABLE
from graphrf.gp.model.notices import schwarz_factor, warn_of_nothing
from graphrf.gp.model.observations import Observations
from graphrf.gp.model.progress import Step
from graphrf.gp.search.bounds import warn_of_bounds
from graphrf.gp.search.coordinates import Parameter
from graphrf.gp.search.maximum import Tolerances
from graphrf.gp.search.sample import curvature
from graphrf.gp.space.priors import FieldPriors
from graphrf.operators.precision.protocol import Precision
from graphrf.operators.precision.readings import Readings

# How far the posterior's points lie out: this times the root of the number of hyperparameters, in
# standard deviations (Rue, Martino and Chopin 2009, Sec. 6.5).
_OUT = 1.1
# More observations than these are trained by one search that ends earlier.
_MANY = 20_000
# The largest standard deviation of a hyperparameter's logarithm that is taken from the curvature.
_WIDEST = 2.0


class FieldHyperparameters(NamedTuple):
    """Hyperparameters of the field and its observations; None where one is trained."""

    range: Any
    output_scale: Any  # the square of the standard deviation
    noise: Any


class Best(NamedTuple):
    """The end of a search."""

    best: FieldHyperparameters
    value: float  # the log marginal likelihood there
    converged: bool
    search: PrecisionSearch
    point: np.ndarray  # the parameters as the search has them


def best(
    precision: Precision,
    readings: Readings,
    observations: Observations,
    fixed: FieldHyperparameters,
    priors: FieldPriors,
    length_unit: float,
    step: Step | None = None,
) -> Best:
    """The hyperparameters of the largest posterior density, from a few starts; `step` is called
    each time.
    """
    unit = observations.variance() or 1.0
    space = _space(precision, fixed, priors, unit, length_unit)
    search = PrecisionSearch(
        precision, observations, LikelihoodSearch((), space, unit_mean_variance(), step), readings
    )

    # Where searches may begin: ranges in their unit, output scales and noises in variances of y.
    choices = ((length_unit, (0.1, 0.5, 2.0, 8.0, 32.0)), (unit, (1.0,)), (unit, (0.02, 0.3)))
    axes = [
        [math.log(factor * unit_of_axis) for factor in factors]
        for (unit_of_axis, factors), value in zip(choices, fixed, strict=True)
        if value is None
    ]

    starts = [np.array(point) for point in itertools.product(*axes)]
    heights = _log_posteriors(search, starts)
    starts = [starts[place] for place in np.argsort(-np.array(heights), kind="stable")]
    # So many observations have one maximum that counts, and leave nothing that a change of the log
    # density by a hundredth could mean: the posterior is tempered to the information of far fewer.
    size = observations.means.size
    tolerances = Tolerances(change=0.01 / size) if size > _MANY else None
    result = search.run(starts[: 1 if size > _MANY else 2], tolerances)
    warn_of_bounds(space, result.vector)

    kernel: Any = result.model.kernel
    return Best(
        FieldHyperparameters(kernel.range, result.amplitude, result.model.noise),
        result.value,
        result.converged,
        search,
        result.vector,
    )


def _space(
    precision: Any,
    fixed: FieldHyperparameters,
    priors: FieldPriors,
    unit: float,
    length_unit: float,
) -> Space:
    """The hyperparameters that are not fixed, with their bounds."""
    parameters = []
    bounds = ((0.01, 100.0), OUTPUT_SCALES, NOISES)
    units, by_variance = (length_unit, unit, unit), priors.scaled(unit)
    for name, value, scale, (low, high), prior in zip(
        FieldHyperparameters._fields, fixed, units, bounds, by_variance, strict=True
    ):
        if value is None:
            parameters.append(Parameter(name, "positive", scale, low * scale, high * scale, prior))
    names = ("range",) if fixed.range is None else ()
    kernel = precision.kernel
    return Space(tuple(parameters), kernel, names, fixed.output_scale, NORMAL, fixed.noise)


def warn_of_no_information(
    result: Best, observations: Observations, fixed: FieldHyperparameters
) -> None:
    """Warn if independent values explain the observations as well, if no variance is known."""
    if fixed.output_scale is None and fixed.noise is None:
        # The log likelihood of independent values of this variance, which have no output scale and
        # no lengthscale.
        noise = observations.variance() or 1.0
        residuals = float(observations.counts.sum()) * observations.n_outputs * noise
        alone = (
            float(observations.log_constant(noise))
            - 0.5 * (residuals - observations.within) / noise
        )
        alone -= 0.5 * observations.n_outputs * observations.nodes.size * math.log(noise)
        n_parameters = 1 + (fixed.range is None)
        factor = schwarz_factor(result.value, alone, n_parameters, observations.n_total)
        warn_of_nothing(factor, observations.n_total, prior=("field", "places"))


def averaged(result: Best, temper: float) -> list[tuple[FieldHyperparameters, float]]:
    """Points of the posterior to the power `temper`: the best, and two along each axis.

    The axes are those of the curvature at the best, along which the posterior is taken as two
    half-normal densities.
    """
    mode, d = result.point, result.point.size
    if d == 0:
        return [(result.best, 1.0)]

    search = result.search
    box = search.space.box
    tempered = temper * curvature(mode, lambda point: search.log_posterior(point)[1], box)

    values, vectors = np.linalg.eigh(tempered)
    deviations = 1 / np.sqrt(np.maximum(values, _WIDEST**-2))
    highest, out = search.log_posterior(mode, gradient=False)[0], _OUT * math.sqrt(d)

    # A normal density falls by `out`^2 / 2 at `out` deviations: a half that falls by less is wider.
    steps = [
        side * out * deviation * vector
        for deviation, vector in zip(deviations, vectors.T, strict=True)
        for side in (1, -1)
    ]
    heights = _log_posteriors(search, [mode + step for step in steps])
    falls = iter([max(temper * (highest - height), 1e-3) for height in heights])

    # The points at `out` deviations together weigh 1 / _OUT^2, so that the mean of the squared
    # distance is d, as for a normal distribution.
    points, weights = [mode], [1 - _OUT**-2]
    for deviation, vector in zip(deviations, vectors.T, strict=True):
        halves = []
        for side in (1, -1):
            stretch = float(np.clip(out / math.sqrt(2 * next(falls)), 0.5, 2.0))
            halves.append(min(deviation * stretch, _WIDEST))
            points.append(mode + side * out * halves[-1] * vector)
        weights += [half / sum(halves) / (d * _OUT**2) for half in halves]
    return [
        (_hyperparameters(search, point), weight)
        for point, weight in zip(points, weights, strict=True)
    ]


def hyperparameter_rows(
    points: list[tuple[FieldHyperparameters, float]], temper: float
) -> dict[str, list[float]]:
    """Mean, deviation and quantiles of the range and both standard deviations.

    Log-normal ones, with the moments of the points drawn together around the first, the mode: the
    posterior to the power `temper` is as much wider. One point states no spread, which is NaN.
    """
    weights = np.array([weight for _, weight in points])
    logs = np.log([(each.range, each.output_scale, each.noise) for each, _ in points])
    logs[:, 1:] /= 2
    shifts = math.sqrt(temper) * (logs - logs[0])
    middle = weights @ shifts
    variances = weights @ np.square(shifts - middle)
    result = {}
    for name, log, variance in zip(
        ("range", "sd", "noise sd"), logs[0] + middle, variances, strict=True
    ):
        mean = math.exp(log + variance / 2)
        ends = np.exp(log + math.sqrt(variance) * ndtri([float(level) for level in TABLE[2:]]))
        result[name] = [mean, mean * math.sqrt(math.expm1(variance)), *ends.tolist()]
        if len(points) == 1:
            result[name] = [mean, math.nan, math.nan, mean, math.nan]
    return result


def _log_posteriors(search: PrecisionSearch, points: Sequence[np.ndarray]) -> list[float]:
    """The log posterior density at points, on threads."""

    def height(point: np.ndarray) -> float:
        return float(search.log_posterior(point, gradient=False)[0])

    with blas_threads(1):  # bits must not depend on the number of threads
        first = height(points[0])  # which orders the variables for all others
        return [first, *ordered_map(height, points[1:], search.elimination.at_once(None))]


def _hyperparameters(search: PrecisionSearch, point: np.ndarray) -> FieldHyperparameters:
    kernel, output_scale, _, noise = search.space.model(point)
    return FieldHyperparameters(cast(Any, kernel).range, output_scale, noise)
