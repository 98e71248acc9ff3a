"""Integrals of p(y | f) and P(Y <= y | f) over normal distributions of f, however narrow or steep
in f.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

# Of the rule for monotone functions: its ends in deviations of f, the number of its points, the
# halvings by which the rise of the function is found, and the least width of that.
_END, _POINTS, _HALVINGS, _NARROWEST = 9.0, 41, 13, 3e-3


class Tilted(NamedTuple):
    """The distributions with densities proportional to p(y_i | f_i) N(f_i; m_i, v_i),
    at m nodes.
    """

    log_mass: np.ndarray  # logarithms of the integrals
    mean: np.ndarray
    variance: np.ndarray


def tilted(
    log_density: Callable[[np.ndarray], np.ndarray],
    mean: np.ndarray,
    std: np.ndarray,
    *,
    points: int = 65,
) -> Tilted:
    """The tilted distributions by trapezoidal rules that become finer around the largest integrand.

    `log_density` maps f of shape (m, T) to log p(y_i | f_i). Each rule has so many points, the
    first over 40 deviations on either side, each other one over 8 steps of the one before.
    """
    z = np.broadcast_to(np.linspace(-40.0, 40.0, points), (mean.size, points))
    result, values = [], []
    for _ in range(20):  # steps below rounding
        with np.errstate(over="ignore", invalid="ignore"):
            density = log_density(mean[:, None] + std[:, None] * z)
        density = np.where(np.isnan(density), -np.inf, density) - 0.5 * z**2
        result.append(z)
        values.append(density)

        largest = density.argmax(axis=1)
        next_to = np.stack(
            [np.maximum(largest - 1, 0), largest, np.minimum(largest + 1, points - 1)], axis=1
        )
        near = np.take_along_axis(density, next_to, axis=1)
        if not (near.min(axis=1) < near[:, 1] - 0.1).any():
            break

        step = (z[:, 1] - z[:, 0])[:, None]
        z = np.take_along_axis(z, largest[:, None], axis=1) + step * np.linspace(-8.0, 8.0, points)

    every, density = np.concatenate(result, axis=1), np.concatenate(values, axis=1)
    order = np.argsort(every, axis=1)
    every, density = (
        np.take_along_axis(every, order, axis=1),
        np.take_along_axis(density, order, axis=1),
    )

    gaps = np.diff(every, axis=1, prepend=every[:, :1], append=every[:, -1:])
    with np.errstate(divide="ignore"):  # points that occur twice
        density = density + np.log(0.5 * (gaps[:, 1:] + gaps[:, :-1]))

    log_mass = logsumexp(density, axis=1)
    with np.errstate(invalid="ignore"):  # where no point is possible
        probability = np.exp(density - log_mass[:, None])
    middle = (probability * every).sum(axis=1)
    variance = (probability * np.square(every - middle[:, None])).sum(axis=1)

    return Tilted(
        log_mass - 0.5 * math.log(2 * math.pi), mean + std * middle, np.square(std) * variance
    )


def monotone_average(
    function: Callable[[np.ndarray], np.ndarray], mean: np.ndarray, std: np.ndarray
) -> np.ndarray:
    """The means of monotone functions over N(mean, std^2), by trapezoidal rules that are finer near
    their rise.

    `function` maps f with an axis of points at the end to values of this shape. The points are z +
    w sinh(t) for equidistant t, where z is the middle and w the width of the rise between its
    quarters.
    """
    mean, std = mean[..., None], std[..., None]

    def at(z: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            return function(mean + std * z)

    ends = at(np.array([-_END, _END]))
    rise = ends[..., 1:] - ends[..., :1]
    low = np.full((*ends.shape[:-1], 2), -_END)
    high = -low
    for _ in range(_HALVINGS):
        z = 0.5 * (low + high)
        before = (at(z) - ends[..., :1]) * np.sign(rise) < np.abs(rise) * np.array([0.25, 0.75])
        low, high = np.where(before, z, low), np.where(before, high, z)
    quarters = 0.5 * (low + high)
    middle = quarters.mean(axis=-1, keepdims=True)
    width = np.clip(0.5 * np.diff(quarters, axis=-1), _NARROWEST, 1.0)
    first, last = np.arcsinh((-_END - middle) / width), np.arcsinh((_END - middle) / width)
    t = first + (last - first) * np.linspace(0.0, 1.0, _POINTS)
    z = middle + width * np.sinh(t)
    weights = np.exp(-0.5 * z * z) * np.cosh(t)
    return np.asarray((at(z) * weights).sum(axis=-1) / weights.sum(axis=-1))
