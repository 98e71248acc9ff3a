"""Draws of stationary processes from their state-space form, at any times."""

from __future__ import annotations

import numpy as np

from graphrf.gp.time import loops
from graphrf.gp.time.kernels import StateSpace, Steps, TimeKernel, transitions


def process_draws(kernel: TimeKernel, steps: Steps, n_columns: int, rng: np.random.Generator) -> np.ndarray:
    """Independent draws of a process with unit variance at all times, (T, n_columns), in time O(T d n_columns)."""
    space = StateSpace.of((kernel,))
    phi = transitions((kernel,), steps.lengths)
    noise = space.stationary - phi @ space.stationary @ np.swapaxes(phi, 1, 2)
    normals = rng.standard_normal((steps.which.size, space.low.size, n_columns))
    out = np.empty((steps.which.size, n_columns))
    loops.simulated(
        phi, steps.which, _root(noise), _root(space.stationary[None])[0], space.low, space.high,
        space.readouts[0], normals, out,
    )  # fmt: skip
    return out


def _root(covariances: np.ndarray) -> np.ndarray:
    """A symmetric root of each positive semidefinite matrix, which keeps its blocks."""
    values, vectors = np.linalg.eigh(0.5 * (covariances + np.swapaxes(covariances, 1, 2)))
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]) @ np.swapaxes(vectors, 1, 2))
