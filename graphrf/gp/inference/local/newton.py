r"""Newton's method for the mode of log p(y | f) - f^T P f / 2, whatever solves its systems.

A point is its image f and its weights P f. With the gradient g of log p(y | f) and its curvature W, the gradient
of the whole is r = g - P f in f, and Newton's step moves

.. math:: f \to f + (P + W)^{-1} r, \qquad P f \to P f + r - W (P + W)^{-1} r.

Each step is halved until the posterior does not fall.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

_MAX_NEWTON = 100
_MAX_HALVINGS = 30
# A rise that rounding hides counts as one.
_ROUNDING = 1e-13


class State(NamedTuple):
    """What is known at a point.

    Attributes
    ----------
    value : float
        log p(y | f) - f^T P f / 2.
    gradient : ndarray
        r.
    curved : object
        Whatever says what W is there.
    """

    value: float
    gradient: np.ndarray
    curved: Any


class NewtonSystem(Protocol):
    """A posterior, and how the systems of Newton's method for it are solved."""

    def state(self, weights: np.ndarray, image: np.ndarray) -> State:
        """That of a point."""
        ...

    def size(self, state: State) -> float:
        """The size of the gradient, in units that do not depend on those of f."""
        ...

    def step(self, state: State, closeness: float) -> tuple[np.ndarray, np.ndarray]:
        """Newton's step of weights and image, its system solved to a relative residual."""
        ...


class Climb(NamedTuple):
    """Where Newton's method ended: the point, its state, Newton steps, and the gradient's size over its first."""

    weights: np.ndarray
    image: np.ndarray
    state: State
    iterations: int
    residual: float


def climb(
    system: NewtonSystem,
    start: tuple[np.ndarray, np.ndarray],
    near: tuple[np.ndarray, np.ndarray] | None = None,
    *,
    tol: float,
    closenesses: tuple[float, float, float] = (0.0, 0.0, 0.0),
    unit: float | None = None,
) -> Climb:
    """The mode from a start, or from a point `near` it where that is better.

    `tol` is the wanted size of the gradient over that at the start, or over `unit`. `closenesses` are the
    residuals to which systems are solved: the loosest, the closest, and how much closer one is solved again whose
    step does not lead uphill.
    """
    loosest, closest, closer = closenesses

    def uphill(move: np.ndarray, moved: np.ndarray) -> tuple[float, State] | None:
        """The first of the lengths 1, 1/2, ... of a step at which the posterior is not lower, and its state."""
        for halvings in range(_MAX_HALVINGS):
            length = 0.5**halvings
            there = system.state(weights + length * move, image + length * moved)
            if there.value >= state.value - _ROUNDING * abs(state.value):
                return length, there
        return None

    weights, image = start
    state = system.state(weights, image)
    first = unit if unit is not None else max(system.size(state), np.finfo(np.float64).tiny)
    residual, step = 1.0, 0
    if near is not None:
        there = system.state(*near)
        if there.value > state.value:
            (weights, image), state = near, there
    if near is not None or unit is not None:
        residual = system.size(state) / first
    while residual > tol and step < _MAX_NEWTON:
        step += 1
        closeness = float(np.clip(loosest * residual, closest, loosest))
        while True:
            move, moved = system.step(state, closeness)
            rise = uphill(move, moved)
            if rise is not None or closeness <= closest:
                break
            # By rounding conjugate gradients may overshoot, and the step lead downhill.
            closeness = max(closer * closeness, closest)
        if rise is None:
            break  # no rise along the step but for rounding
        length, state = rise
        weights, image = weights + length * move, image + length * moved
        residual = system.size(state) / first
    return Climb(weights, image, state, step, residual)
