"""The largest posterior density of hyperparameters within a box: L-BFGS with exact gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import optimize

# Minus the log density that the optimiser has at a start where there is none.
_IMPOSSIBLE = 1e25
# The squared length of the step that remains at a maximum, in deviations of the posterior.
_SETTLED = 0.02

LogDensity = Callable[[np.ndarray], tuple[float, np.ndarray]]
"""The log density at a vector, which is not finite where there is none, and its gradient."""


class Tolerances(NamedTuple):
    """When a search ends: after so many iterations, or where the function over its scale changes
    by less, or all derivatives are less.
    """

    iterations: int = 15_000
    change: float = 1e-9
    slope: float = 1e-3


class Maximum(NamedTuple):
    """The end of a search."""

    vector: np.ndarray
    value: float  # -inf if no vector that was tried has a density
    converged: bool  # the step that remains is small in deviations of the posterior
    stopped: bool  # by a tolerance, not by the number of iterations


def maximised(
    log_density: LogDensity,
    start: np.ndarray,
    box: np.ndarray,
    *,
    scale: float | None = None,
    tolerances: Tolerances | None = None,
) -> Maximum:
    """The maximum of a log density near a start, within a box of shape (p, 2).

    The density is divided by `scale`, because the first step is as long as the gradient: after one
    that is too long a search ends far from its start, or where there is no density. None takes the
    norm of the gradient at the start. Where there is no density, the optimiser sees less than at
    all other vectors, so that its line search turns back.
    """
    if not start.size:
        value = float(log_density(start)[0])
        return Maximum(start, value if math.isfinite(value) else -math.inf, True, True)

    if scale is None:
        scale = max(1.0, float(np.linalg.norm(log_density(start)[1])))
    tolerances = tolerances or Tolerances()
    largest: list[float] = []  # of the values that the optimiser has seen, to be minimised

    def objective(vector: np.ndarray) -> tuple[float, np.ndarray]:
        density, slope = log_density(vector)
        value = -density
        if not math.isfinite(value):
            value = largest[0] + scale if largest else _IMPOSSIBLE
        largest[:] = [max(value, *largest)] if largest else [value]
        return value / scale, -slope / scale

    result = optimize.minimize(
        objective,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=box,
        options={
            "maxiter": tolerances.iterations,
            # With so many corrections it is BFGS, which takes half of the steps of L-BFGS where
            # there are many and correlated hyperparameters.
            "maxcor": max(10, 2 * start.size),
            "ftol": tolerances.change,
            "gtol": tolerances.slope / scale,
        },
    )

    value = -float(result.fun) * scale
    # A derivative out of the box is none that a step can follow.
    free = result.x - np.clip(result.x - result.jac, *box.T) != 0
    slope = np.where(free, result.jac, 0.0)
    remaining = scale * float(slope @ (result.hess_inv @ slope))
    possible = value > -0.5 * _IMPOSSIBLE
    return Maximum(
        np.asarray(result.x),
        value if possible else -math.inf,
        possible and remaining < _SETTLED,
        bool(result.success),
    )
