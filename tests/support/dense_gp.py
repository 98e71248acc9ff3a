"""The posterior of a Gaussian process by dense algebra: predictor, and its error."""

from __future__ import annotations

import numpy as np


def dense_posterior(root, nodes, y, noise, *, basis=None, seen=None):
    """Mean and covariance of f + H b at all inputs given y = f + H b + noise at some.

    Parameters
    ----------
    root : ndarray, shape (N, D)
        Rows of features whose products are the prior covariance.
    nodes : ndarray of int, shape (n,)
    y : ndarray, shape (n,) or (n, p)
    noise : float or ndarray, shape (n,)
        Variances.
    basis : ndarray, shape (N, b), optional
        H, whose coefficients have a flat prior; ones by default, no columns for a zero mean.
    seen : ndarray, shape (N, D), optional
        Other rows, by which the predictor knows the observed inputs: its covariance is still that
        of its error under the prior.
    """
    basis = np.ones((len(root), 1)) if basis is None else basis
    own = (root if seen is None else seen)[nodes]
    errors = np.diag(np.broadcast_to(noise, len(nodes)))
    known = np.linalg.inv(own @ own.T + errors)
    cross, h = root @ own.T, basis[nodes]
    coefficients = np.linalg.solve(h.T @ known @ h, h.T @ known)
    weights = cross @ known + (basis - cross @ known @ h) @ coefficients
    left = root - weights @ root[nodes]
    return weights @ y, left @ left.T + weights @ errors @ weights.T


def no_mean(n):
    """The basis of a zero mean at n inputs."""
    return np.zeros((n, 0))
