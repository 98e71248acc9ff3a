"""Means and covariances, in closed form, of exact, decoupled and weight-space posteriors on R^d."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from graphrf.euclidean.gp.observed import (
    Transformer,
    cholesky_solver,
    make_process,
    observations,
    output_variance,
    query_points,
    transformed,
)
from graphrf.euclidean.kernels import StationaryKernel


class ProcessMoments(NamedTuple):
    """A normal distribution: its mean, shape (q,), and covariance, shape (q, q)."""

    mean: np.ndarray
    covariance: np.ndarray


def exact_moments(
    kernel: str | StationaryKernel,
    x: ArrayLike,
    y: ArrayLike,
    x_new: ArrayLike,
    *,
    noise: ArrayLike,
    lengthscale: ArrayLike = 1.0,
    output_scale: float = 1.0,
) -> ProcessMoments:
    r"""Mean and covariance of the exact posterior of f at `x_new`, without noise.

    .. math:: \mu = K_* (K + \mathrm{diag}(noise))^{-1} y, \quad
              \Sigma = K_{**} - K_* (K + \mathrm{diag}(noise))^{-1} K_*^\top.

    For noisy values add the noise variance to the diagonal of the covariance. Cost:
    O(n^3 + n^2 q + n q^2) time, n^2 + n q + q^2 numbers.

    Source: Eqs. A.2 and, with `noise=0` and y = u, A.3 of "Numerical methods for improved decoupled
    sampling of Gaussian processes".

    Parameters
    ----------
    kernel, x, y, noise, lengthscale, output_scale
        See `decoupled_draws`, also for the errors; y has shape (n,).
    x_new : array_like, shape (q, d)

    Examples
    --------
    >>> exact_moments("gaussian", [[0.0]], [2.0], [[0.0], [9.0]], noise=1.0).mean.round(6)
    array([1., 0.])
    """
    x, y, noise = observations(x, y, noise)
    process = make_process(kernel, x, noise, lengthscale, output_scale)
    x_new = query_points("x_new", x_new, x.shape[1])
    cross = process.cross(x_new)
    half = process.solver.half(cross.T)
    return ProcessMoments(
        half.T @ process.solver.half(y), process.cross(x_new, x_new) - half.T @ half
    )


def decoupled_moments(
    features: Transformer,
    kernel: str | StationaryKernel,
    x: ArrayLike,
    y: ArrayLike,
    x_new: ArrayLike,
    *,
    noise: ArrayLike,
    lengthscale: ArrayLike = 1.0,
    output_scale: float = 1.0,
) -> ProcessMoments:
    r"""Mean and covariance of the distribution of `decoupled_draws` at `x_new`, given the features.

    .. math:: \mu = C y, \quad
              \Sigma = (\Phi_* - C \Phi)(\Phi_* - C \Phi)^\top + C \, \mathrm{diag}(noise) \,
              C^\top, \quad
              C = K_* (K + \mathrm{diag}(noise))^{-1}.

    The mean is that of `exact_moments`. Cost: O(n^3 + n^2 q + (n + q) q D) time.

    Source: Eq. A.6 of "Numerical methods for improved decoupled sampling of Gaussian processes",
    for noisy values. Its cross term, printed twice alike, is one term and its transpose; computed
    as a square, the covariance has no negative eigenvalues.

    Parameters
    ----------
    features, kernel, x, y, noise, lengthscale, output_scale
        See `decoupled_draws`, also for the errors; y has shape (n,).
    x_new : array_like, shape (q, d)

    Examples
    --------
    With one feature, (cos x), the prior's variance at x = 2 is cos(2)^2, and far from the
    observation it stays so.

    >>> import numpy as np
    >>> from types import SimpleNamespace
    >>> one = SimpleNamespace(transform=np.cos)
    >>> law = decoupled_moments(
    ...     one, "gaussian", [[0.0]], [1.0], [[2.0]], noise=0.1, lengthscale=0.1
    ... )
    >>> bool(np.isclose(law.covariance[0, 0], np.cos(2.0) ** 2))
    True
    """
    x, y, noise = observations(x, y, noise)
    process = make_process(kernel, x, noise, lengthscale, output_scale)
    x_new = query_points("x_new", x_new, x.shape[1])
    update = process.solver.solve(process.cross(x, x_new)).value.T
    return _moved(
        process.features(features, x), process.features(features, x_new), update, y, noise
    )


def weight_space_moments(
    features: Transformer,
    x: ArrayLike,
    y: ArrayLike,
    x_new: ArrayLike,
    *,
    noise: ArrayLike,
    output_scale: float = 1.0,
) -> ProcessMoments:
    r"""Mean and covariance of `weight_space_draws` at `x_new`, given the features.

    .. math:: \mu = C y, \quad \Sigma = \Phi_* \Phi_*^\top - C \Phi \Phi_*^\top, \quad
              C = \Phi_* \Phi^\top (\Phi \Phi^\top + \mathrm{diag}(noise))^{-1}.

    The covariance, of rank D at most, is computed as the equal sum of squares of
    `decoupled_moments`. Cost: O(n^3 + n^2 (q + D) + n q (q + D)) time.

    Source: Sec. A.2 of "Numerical methods for improved decoupled sampling of Gaussian processes".

    Parameters
    ----------
    features, x, y, noise, output_scale
        See `weight_space_draws`, also for the errors.
    x_new : array_like, shape (q, d)

    Examples
    --------
    >>> import numpy as np
    >>> from types import SimpleNamespace
    >>> line = SimpleNamespace(transform=lambda x: x)
    >>> weight_space_moments(line, [[1.0]], [1.0], [[2.0]], noise=1.0)  # w ~ N(1/2, 1/2)
    ProcessMoments(mean=array([1.]), covariance=array([[2.]]))
    """
    x, y, noise = observations(x, y, noise)
    x_new, scale = query_points("x_new", x_new, x.shape[1]), output_variance(output_scale)
    phi, phi_new = transformed(features, x, scale), transformed(features, x_new, scale)
    solver = cholesky_solver(phi @ phi.T, noise, "the features' products")
    return _moved(phi, phi_new, solver.solve(phi @ phi_new.T).value.T, y, noise)


def _moved(
    phi: np.ndarray, phi_new: np.ndarray, update: np.ndarray, y: np.ndarray, noise: np.ndarray
) -> ProcessMoments:
    """Phi_* w + C (y - Phi w - eps); its covariance is a sum of squares, which keeps its sign."""
    spread = phi_new - update @ phi
    return ProcessMoments(update @ y, spread @ spread.T + (update * noise) @ update.T)
