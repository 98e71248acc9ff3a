"""Maximising a differentiable objective of named tensors, by L-BFGS within bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

Point = dict[str, np.ndarray]
Objective = Callable[[dict[str, Tensor]], float]
"""Returns the value at float64 tensors, and sets `.grad` of those that require a gradient."""

# Tolerances of the optimiser: relative gain of a step, and gradient.
_FLAT, _LEVEL = 1e-7, 1e-3
# Value of the objective if a matrix cannot be factored.
_IMPOSSIBLE = -1e25


class Ascent(NamedTuple):
    """Final point of a gradient ascent, its value, and whether the optimiser converged."""

    point: Point
    value: float
    converged: bool


def ascend(
    objective: Objective,
    start: Point,
    bounds: dict[str, tuple[np.ndarray, np.ndarray]],
    max_iterations: int,
) -> Ascent:
    """Maximise from `start`; all arrays vary, those named in `bounds` between (low, high)."""
    if not start or max_iterations == 0:
        return Ascent(start, value_at(objective, start), True)

    def unpacked(vector: np.ndarray) -> Point:
        parts = np.split(vector, np.cumsum([value.size for value in start.values()])[:-1])
        return {
            name: part.reshape(start[name].shape) for name, part in zip(start, parts, strict=True)
        }

    def negative(vector: np.ndarray) -> tuple[float, np.ndarray]:
        tensors = {
            name: torch.tensor(value, requires_grad=True)
            for name, value in unpacked(vector).items()
        }
        try:
            value = objective(tensors)
        except torch.linalg.LinAlgError:
            value = np.nan
        slopes = [torch.zeros_like(t) if t.grad is None else t.grad for t in tensors.values()]
        slope = torch.cat([each.reshape(-1) for each in slopes]).numpy()
        if not (np.isfinite(value) and np.isfinite(slope).all()):
            return -_IMPOSSIBLE, np.zeros(vector.size)
        return -value, -slope

    limits = []
    for name, value in start.items():
        low, high = bounds.get(name, (-np.inf, np.inf))
        ends = np.broadcast_to(low, value.shape).ravel(), np.broadcast_to(high, value.shape).ravel()
        limits += list(zip(*ends, strict=True))

    found = minimize(
        negative,
        np.concatenate([value.ravel() for value in start.values()]),
        jac=True,
        method="L-BFGS-B",
        bounds=limits,
        options={"maxiter": max_iterations, "ftol": _FLAT, "gtol": _LEVEL},
    )
    return Ascent(unpacked(found.x), -float(found.fun), bool(found.success))


def value_at(objective: Objective, point: Point) -> float:
    """The objective without its gradient; -1e25 if it cannot be computed."""
    try:
        value = objective({name: torch.tensor(array) for name, array in point.items()})
    except torch.linalg.LinAlgError:
        return _IMPOSSIBLE
    return value if np.isfinite(value) else _IMPOSSIBLE
