"""Elliptical slice sampling: long chains of a latent field, truth for approximations."""

from __future__ import annotations

import numpy as np


def elliptical_slices(root, log_likelihood, n_draws, rng, *, burn_in=None, start=None):
    """Draws of f = root z, z ~ N(0, I), given a likelihood, shape (n_draws, m), after a burn-in.

    Parameters
    ----------
    root : ndarray, shape (m, d)
    log_likelihood : callable
        f of shape (m,) to a number.
    n_draws : int
    rng : Generator
    burn_in : int, optional
        A tenth of the draws by default.
    start : ndarray, shape (m,), optional

    Source: Murray, Adams and MacKay 2010, "Elliptical slice sampling", Fig. 2.
    """
    burn_in = n_draws // 10 if burn_in is None else burn_in
    f = root @ rng.standard_normal(root.shape[1]) if start is None else start
    value = log_likelihood(f)
    result = np.empty((n_draws, root.shape[0]))
    for step in range(-burn_in, n_draws):
        other = root @ rng.standard_normal(root.shape[1])
        level = value + np.log(rng.random())
        angle = rng.uniform(0, 2 * np.pi)
        low, high = angle - 2 * np.pi, angle
        while True:
            there = f * np.cos(angle) + other * np.sin(angle)
            value = log_likelihood(there)
            if value > level:
                break
            low, high = (angle, high) if angle < 0 else (low, angle)
            angle = rng.uniform(low, high)
        f = there
        if step >= 0:
            result[step] = f
    return result
