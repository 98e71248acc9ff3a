r"""Decoupled posterior draws on R^d: features for the prior, the exact kernel for the data.

Also draws in the weights of the features alone. `moments` has the exact means and covariances of
both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from graphrf._base import checks
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
from graphrf.operators.pathwise import PosteriorDraws, condition, draw_normals, posterior_draws


@dataclass(frozen=True, repr=False)
class FunctionDraws:
    """Posterior draws as functions on R^d: of `decoupled_draws` and `weight_space_draws`.

    Attributes
    ----------
    draws : PosteriorDraws
        Coefficients of the draws, shape (number of functions, s, 1), and the result of the solver.
    basis : callable
        Values of the functions of these coefficients at points (q, d), one function a column.
    dimension, seed : int
        d, and the seed of the draws.
    """

    draws: PosteriorDraws
    basis: Callable[[np.ndarray], np.ndarray]
    dimension: int
    seed: int

    def __repr__(self) -> str:
        size, draws, _ = self.draws.coefficients.shape
        settings = f"dimension={self.dimension}, seed={self.seed}"
        return f"FunctionDraws({draws} draws, {size} coefficients, {settings})"

    def at(self, x: Any) -> np.ndarray:
        """The draws at points x of shape (q, d); shape (s, q).

        Up to rounding, a value does not depend on the other points. Cost: the features of the q
        points, for decoupled draws their kernel with the n observed ones, and one product with s
        columns.
        """
        x = query_points("x", x, self.dimension)
        if len(x) == 0:  # scikit-learn's transformers refuse empty input
            return np.empty((self.draws.coefficients.shape[1], 0))
        return np.ascontiguousarray(self.draws.at(_DenseFactor(self.basis(x)))[:, :, 0].T)


def decoupled_draws(
    features: Transformer,
    kernel: str | StationaryKernel,
    x: ArrayLike,
    y: ArrayLike,
    *,
    noise: ArrayLike,
    n_samples: int,
    lengthscale: ArrayLike = 1.0,
    output_scale: float = 1.0,
    seed: int | None = None,
) -> FunctionDraws:
    r"""Draw functions from a posterior: prior draws from features, updated by the exact kernel.

    .. math:: f(\cdot) = \phi(\cdot)^\top w + k(\cdot, X) (K + \mathrm{diag}(noise))^{-1}
              (y - \Phi w - \varepsilon), \quad w \sim N(0, I), \; \varepsilon \sim N(0, noise).

    The mean is that of the exact posterior for any features. The covariance is exact where
    k(x, y) = phi(x) . phi(y), and otherwise that of `decoupled_moments`. The update is Matheron's
    rule.

    Cost: O(n^3 + n^2 s + n D s) once; then, for q points, O(q (n + D) s) and no joint covariance of
    the q points. Memory: n^2 + (n + D) s numbers, a few times. The first draws do not depend on the
    number of draws.

    Source: Eqs. A.4 (`noise=0`, y = u) and A.5 of "Numerical methods for improved decoupled
    sampling of Gaussian processes", after Wilson, Borovitskiy, Terenin, Mostowsky and Deisenroth
    2020, "Efficiently Sampling Functions from Gaussian Process Posteriors".

    Parameters
    ----------
    features : fitted transformer
        phi, for the same kernel and lengthscale: `transform` maps (n, d) points to (n, D) features.
    kernel : str or StationaryKernel
        k with k(x, x) = 1, as for `stationary_kernel`.
    x : array_like, shape (n, d)
        Observed points, or inducing points of a sparse Gaussian process.
    y : array_like, shape (n,) or (n_samples, n)
        Observed values, or one vector for each draw: values u ~ q(u) of a sparse Gaussian process
        at its inducing points, with `noise=0`.
    noise : float or array_like of shape (n,)
        Variances of the noise, >= 0. With 0 the draws pass through y, which needs a kernel matrix
        that is not numerically singular.
    n_samples : int
        s >= 1.
    lengthscale : float or array_like of shape (d,)
    output_scale : float
        The variance k(x, x), > 0: it multiplies the kernel and the features' products.
    seed : int in [0, 2^63), optional
        None draws one, which the result records.

    Raises
    ------
    TypeError, ValueError
        If input has a wrong type, shape or value, features name another kernel or lengthscale, or
        the kernel matrix plus noise is numerically singular.

    Examples
    --------
    The features (cos x, sin x) have the kernel cos(x - y) and approximate the Gaussian one badly,
    but the mean is right:

    >>> import numpy as np
    >>> from types import SimpleNamespace
    >>> features = SimpleNamespace(transform=lambda x: np.hstack([np.cos(x), np.sin(x)]))
    >>> x, y = np.array([[0.0], [1.0]]), np.array([1.0, -1.0])
    >>> settings = {"noise": 0.01, "lengthscale": 0.5}
    >>> draws = decoupled_draws(features, "gaussian", x, y, n_samples=20_000, seed=0, **settings)
    >>> asked = np.array([[0.2], [3.0]])
    >>> from graphrf.euclidean.gp.moments import exact_moments
    >>> exact = exact_moments("gaussian", x, y, asked, **settings)
    >>> bool(np.abs(draws.at(asked).mean(axis=0) - exact.mean).max() < 0.05)
    True
    """
    n_samples = checks.integer("n_samples", n_samples, low=1)
    seed = checks.seed(seed)
    x, y, noise = observations(x, y, noise, n_samples)
    process = make_process(kernel, x, noise, lengthscale, output_scale)
    phi = process.features(features, x)
    size, width = phi.shape
    rng = np.random.default_rng(seed)
    weights, errors = draw_normals(width, size, noise, n_samples=n_samples, outputs=1, rng=rng)
    # The prior draw has no component in the functions k(., x_i).
    prior = np.concatenate([weights[:, :, 0], np.zeros((size, n_samples))])
    rows = _ObservedFactor(np.hstack([phi, process.gram]))
    coefficients, solution = condition(rows, process.solver.solve, prior, y.T - errors[:, :, 0])
    coefficients = coefficients[:, :, None]
    coefficients.setflags(write=False)
    draws = PosteriorDraws(coefficients, solution)
    return FunctionDraws(draws, partial(process.features_and_kernel, features), x.shape[1], seed)


def weight_space_draws(
    features: Transformer,
    x: ArrayLike,
    y: ArrayLike,
    *,
    noise: ArrayLike,
    n_samples: int,
    output_scale: float = 1.0,
    seed: int | None = None,
) -> FunctionDraws:
    r"""Draw functions from the posterior of feature weights: the kernel is phi(x) . phi(y).

    .. math:: f(\cdot) = \phi(\cdot)^\top \big( w + \Phi^\top (\Phi \Phi^\top +
        \mathrm{diag}(noise))^{-1}
              (y - \Phi w - \varepsilon) \big), \quad w \sim N(0, I), \; \varepsilon \sim N(0,
              noise).

    For comparison with `decoupled_draws`: D functions cannot both follow many observations and keep
    the prior's variance away from them (variance starvation), and the mean is not exact.

    Cost: O(n^3 + n^2 s + n D s) once; then O(q D s) for q points. Source: Sec. A.2 of "Numerical
    methods for improved decoupled sampling of Gaussian processes".

    Parameters
    ----------
    features, x, y, noise, n_samples, output_scale, seed
        See `decoupled_draws`; y has shape (n,). `noise=0` needs Phi of rank n.

    Raises
    ------
    TypeError, ValueError
        If input has a wrong type, shape or value, or Phi Phi^T plus noise is numerically singular.

    Examples
    --------
    >>> import numpy as np
    >>> from types import SimpleNamespace
    >>> features = SimpleNamespace(transform=lambda x: np.hstack([np.cos(x), np.sin(x)]))
    >>> draws = weight_space_draws(features, [[0.0]], [1.0], noise=0.0, n_samples=3, seed=0)
    >>> draws.at([[0.0], [2 * np.pi]]).round(
    ...     12
    ... )  # the observation repeats with the features' period
    array([[1., 1.],
           [1., 1.],
           [1., 1.]])
    """
    n_samples = checks.integer("n_samples", n_samples, low=1)
    seed = checks.seed(seed)
    x, y, noise = observations(x, y, noise)
    basis = partial(transformed, features, output_scale=output_variance(output_scale))
    phi = basis(x)
    solve = cholesky_solver(phi @ phi.T, noise, "the features' products").solve
    draws = posterior_draws(
        _DenseFactor(phi),
        noise,
        y[:, None],
        solve,
        n_samples=n_samples,
        rng=np.random.default_rng(seed),
    )
    return FunctionDraws(draws, basis, x.shape[1], seed)


@dataclass(frozen=True)
class _DenseFactor:
    """Values of a basis at some points, as rows of features."""

    matrix: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.shape[0], self.matrix.shape[1]

    def apply(self, x: np.ndarray) -> np.ndarray:
        return self.matrix @ x

    def apply_t(self, y: np.ndarray) -> np.ndarray:
        return self.matrix.T @ y


class _ObservedFactor(_DenseFactor):
    """Rows [Phi, K] of the n observed points, whose transpose is in the functions k(., x_i).

    If K = F F^T, the function with coefficients F_u^T y is the sum of y_i k(., x_i). Since the
    basis contains these functions, the coefficients are y itself, and 0 for phi.
    """

    def apply_t(self, y: np.ndarray) -> np.ndarray:
        size, columns = self.shape
        return np.concatenate([np.zeros((columns - size, y.shape[1])), y])
