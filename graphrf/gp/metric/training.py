"""Hyperparameters of the field along edges: of the largest posterior density, and points that stand for theirs."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple, cast

import numpy as np

from graphrf._base.warn import warn
from graphrf.gp.inference.observations import Observations
from graphrf.gp.metric.field import EdgePrecision
from graphrf.gp.prior import HyperparameterPrior
from graphrf.gp.training.likelihood_search import LikelihoodSearch, spread, unit_divisor
from graphrf.gp.training.parameters import Parameters
from graphrf.gp.training.precision_search import PrecisionSearch

# Where lengthscales are sought, in multiples of their unit.
_LENGTHSCALES = (1e-2, 1e2)
# Where searches may begin: lengthscales in their unit, output scales and noises in variances of y.
_STARTS = ((0.1, 0.5, 2.0, 8.0, 32.0), (1.0,), (0.02, 0.3))
_TRIED = 2
# Steps of the differences that make the curvature, and how far the posterior's points lie out: this over the root
# of the number of hyperparameters, in standard deviations (Rue, Martino and Chopin 2009, Sec. 6.5).
_STEP, _OUT = 0.05, 1.1
# How often the deviation of half an axis is corrected.
_TUNED = 1
# The largest standard deviation of a hyperparameter's logarithm that is taken from the curvature.
_WIDEST = 2.0


class Hyperparameters(NamedTuple):
    """Those of the field and its observations; None where one is trained."""

    lengthscale: Any
    output_scale: Any
    noise: Any


class Best(NamedTuple):
    """The end of a search.

    Attributes
    ----------
    found : Hyperparameters
    value : float
        The log marginal likelihood there.
    converged : bool
    search : PrecisionSearch
    point : ndarray
        The parameters as the search has them.
    """

    found: Hyperparameters
    value: float
    converged: bool
    search: PrecisionSearch
    point: np.ndarray


def best(
    precision: EdgePrecision,
    observations: Observations,
    fixed: Hyperparameters,
    prior: HyperparameterPrior,
    length_unit: float,
) -> Best:
    """The hyperparameters of the largest posterior density, by the exact likelihood and from a few starts."""
    names = ("lengthscale",) if fixed.lengthscale is None else ()
    unit = spread([observations]) or 1.0
    low, high = (end * length_unit for end in _LENGTHSCALES)
    parameters = Parameters(cast(Any, precision.kernel), names, {"lengthscale": (low, high)} if names else {})
    search = PrecisionSearch(
        precision,
        observations,
        LikelihoodSearch(
            (), parameters, fixed.output_scale, fixed.noise, unit_divisor(), prior,
            unit=unit, length_unit=length_unit,
        ),
    )  # fmt: skip
    units = (length_unit, unit, unit)
    axes = [
        [math.log(share * own) for share in shares]
        for shares, own, value in zip(_STARTS, units, fixed, strict=True)
        if value is None
    ]
    starts = [np.array(point) for point in itertools.product(*axes)]
    starts.sort(key=lambda point: search.negative(point, gradient=False)[0])
    result = search.run(starts[:_TRIED])
    _warn_of_ends(result.ends)
    kernel: Any = result.kernel
    return Best(
        Hyperparameters(kernel.lengthscale, result.amplitude, result.noise),
        result.value, result.converged, search, result.point,
    )  # fmt: skip


def averaged(result: Best) -> list[tuple[Hyperparameters, float]]:
    """Hyperparameters that stand for their posterior, with probabilities: the best, and two along each axis.

    The axes are those of the posterior's curvature at the best. Along each of them the posterior is taken as two
    halves of normal densities, of deviations at which it falls as they do; for a normal posterior the points have
    its mean and covariance.
    """
    mode, d = result.point, result.point.size
    if d == 0:
        return [(result.found, 1.0)]
    search = result.search
    slopes = [[search.negative(mode + side * _STEP * axis)[1] for side in (1, -1)] for axis in np.eye(d)]
    curvature = np.array([(ahead - behind) / (2 * _STEP) for ahead, behind in slopes])
    values, vectors = np.linalg.eigh(0.5 * (curvature + curvature.T))
    deviations = 1 / np.sqrt(np.maximum(values, _WIDEST**-2))
    lowest, out = search.negative(mode, gradient=False)[0], _OUT * math.sqrt(d)

    def fall(step: np.ndarray) -> float:
        return max(search.negative(mode + step, gradient=False)[0] - lowest, 1e-3)

    points, weights = [mode], [1 - _OUT**-2]
    for deviation, vector in zip(deviations, vectors.T, strict=True):
        halves = []
        for side in (1, -1):
            own = deviation
            for _ in range(_TUNED):
                own *= float(np.clip(out / math.sqrt(2 * fall(side * out * own * vector)), 0.5, 2.0))
            halves.append(min(own, _WIDEST))
            points.append(mode + side * out * halves[-1] * vector)
        weights += [half / sum(halves) / (d * _OUT**2) for half in halves]
    return [(_hyperparameters(search, point), weight) for point, weight in zip(points, weights, strict=True)]


def _hyperparameters(search: PrecisionSearch, point: np.ndarray) -> Hyperparameters:
    kernel, output_scale, noise = search._model(point)
    return Hyperparameters(cast(Any, kernel).lengthscale, output_scale, noise)


def _warn_of_ends(ends: dict[str, str]) -> None:
    """Warn of hyperparameters at the ends of the search, where the data do not determine them."""
    order = "are places and y in the same order?"
    said = {
        "largest lengthscale": "so the data do not determine it: y has a trend, or is smoother than the field",
        "smallest lengthscale": f"so y at a place carries no information on y nearby: {order}",
        "largest noise": f"so only noise was found: {order}",
        "smallest noise": "so intervals at observed places are as narrow as without noise: if there is any, pass "
        "its variance as `noise`, or a `prior` for it",
    }
    for name, end in ends.items():
        if f"{end} {name}" in said:
            warn(f"training ended with the {end} {name} searched, {said[f'{end} {name}']}")
