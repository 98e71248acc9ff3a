r"""Decoupled posterior draws of a Gaussian process on R^d: features for the prior, the exact kernel for the data.

Beside them the draws in the weights of the features alone, and the exact mean and covariance of both, so that how
far each is from the posterior is known without sampling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from graphrf import _checks
from graphrf.euclidean.kernels import StationaryKernel, lengthscales, points, stationary_kernel
from graphrf.gp.pathwise import PosteriorDraws, condition, draw_normals, posterior_draws
from graphrf.gp.solvers import CholeskySolver

# A variance given all other values below this share (times their number) of the largest variance is rounding.
_SINGULAR = 16 * np.finfo(np.float64).eps


class Transformer(Protocol):
    """Fitted features phi of R^d with phi(x) . phi(y) near k(x, y)."""

    def transform(self, X: Any) -> Any:
        """phi at points of shape (n, d); shape (n, D)."""
        ...


class Moments(NamedTuple):
    """A normal law.

    Attributes
    ----------
    mean : ndarray, shape (q,)
    covariance : ndarray, shape (q, q)
    """

    mean: np.ndarray
    covariance: np.ndarray


class _Basis(Protocol):
    """Functions of R^d that a draw is a sum of."""

    def values(self, x: np.ndarray) -> np.ndarray:
        """Their values at points of shape (q, d), one function a column."""
        ...


@dataclass(frozen=True)
class FunctionDraws:
    """Draws from a posterior, each a function on R^d that can be evaluated anywhere, now or later.

    Made by `decoupled_draws` and `weight_space_draws`.

    Attributes
    ----------
    draws : PosteriorDraws
        Coefficients of the draws, shape (number of functions, s, 1), and how the solve ended.
    basis : object
        The functions that the coefficients belong to.
    dimension : int
        d.
    seed : int
        What the draws were made with.
    """

    draws: PosteriorDraws
    basis: _Basis
    dimension: int
    seed: int

    def at(self, x: Any) -> np.ndarray:
        """The draws at points x of shape (q, d); shape (s, q).

        Up to rounding, a value does not depend on which others are asked. Cost: the features of the q points,
        for decoupled draws their kernel with the n observed ones, and one product with s columns.
        """
        x = _query("x", x, self.dimension)
        return np.ascontiguousarray(self.draws.at(_Rows(self.basis.values(x)))[:, :, 0].T)


def decoupled_draws(
    features: Transformer,
    kernel: str | StationaryKernel,
    x: Any,
    y: Any,
    *,
    noise: Any,
    n_samples: int,
    lengthscale: Any = 1.0,
    output_scale: float = 1.0,
    seed: int | None = None,
) -> FunctionDraws:
    r"""Draw functions from the posterior of a Gaussian process: a prior draw from features, updated by the kernel.

    .. math:: f(\cdot) = \phi(\cdot)^\top w + k(\cdot, X) (K + \mathrm{diag}(noise))^{-1}
              (y - \Phi w - \varepsilon), \quad w \sim N(0, I), \; \varepsilon \sim N(0, noise).

    The mean is that of the exact posterior whatever the features. The covariance is exact where
    k(x, y) = phi(x) . phi(y), and otherwise the one that `decoupled_moments` returns.

    Parameters
    ----------
    features : fitted transformer
        phi, for the same kernel and lengthscale: `transform` maps (n, d) points to (n, D) features.
    kernel : str or StationaryKernel
        k with k(x, x) = 1, as `stationary_kernel` takes it.
    x : array_like, shape (n, d)
        Observed points; of a sparse Gaussian process, the inducing points.
    y : array_like, shape (n,) or (n_samples, n)
        Observed values, or one vector for each draw: values u ~ q(u) of a sparse Gaussian process at its inducing
        points, with `noise=0`.
    noise : float or array_like of shape (n,)
        Variances of the noise, >= 0. With 0 the draws pass through y, which needs a kernel matrix that is not
        singular to rounding.
    n_samples : int
        s >= 1.
    lengthscale : float or array_like of shape (d,)
    output_scale : float
        The variance k(x, x), > 0: it multiplies the kernel and the features' products.
    seed : int in [0, 2^63), optional
        None draws one, which the result records.

    Returns
    -------
    FunctionDraws

    Raises
    ------
    TypeError, ValueError
        For input of the wrong kind, shape or value; features of another kernel or lengthscale, where they name
        theirs; a kernel matrix plus noise that is singular to rounding.

    Notes
    -----
    The update is Matheron's rule in the functions phi_j and k(., x_i) together: `graphrf.gp.pathwise.condition`.

    Cost: O(n^3 + n^2 s + n D s) once; then, for q points, O(q (n + D) s) and no joint covariance of the q points.
    Memory: n^2 + (n + D) s numbers, a few times over. The first draws do not depend on how many follow.

    Source: Eqs. A.4 (`noise=0`, y = u) and A.5 of "Numerical methods for improved decoupled sampling of Gaussian
    processes", after Wilson, Borovitskiy, Terenin, Mostowsky and Deisenroth 2020, "Efficiently Sampling Functions
    from Gaussian Process Posteriors".

    Examples
    --------
    The features (cos x, sin x) have the kernel cos(x - y) and know little of the Gaussian one. The mean is right
    even so.

    >>> import numpy as np
    >>> from types import SimpleNamespace
    >>> features = SimpleNamespace(transform=lambda x: np.hstack([np.cos(x), np.sin(x)]))
    >>> x, y = np.array([[0.0], [1.0]]), np.array([1.0, -1.0])
    >>> settings = {"noise": 0.01, "lengthscale": 0.5}
    >>> draws = decoupled_draws(features, "gaussian", x, y, n_samples=20_000, seed=0, **settings)
    >>> asked = np.array([[0.2], [3.0]])
    >>> draws.at(asked).shape
    (20000, 2)
    >>> exact = exact_moments("gaussian", x, y, asked, **settings)
    >>> np.abs(draws.at(asked).mean(axis=0) - exact.mean).max() < 0.05
    np.True_
    """
    n_samples = _checks.integer("n_samples", n_samples, low=1)
    seed = _checks.seed(seed)
    x, y, noise = _observations(x, y, noise, n_samples)
    process = _process(kernel, x, noise, lengthscale, output_scale)
    phi = process.features(features, x)
    size, width = phi.shape
    rng = np.random.default_rng(seed)
    weights, errors = draw_normals(width, size, noise, n_samples=n_samples, outputs=1, rng=rng)
    # The prior draw has no part in the functions k(., x_i) yet.
    prior = np.concatenate([weights[:, :, 0], np.zeros((size, n_samples))])
    rows = _ObservedRows(np.hstack([phi, process.gram]))
    coefficients, solution = condition(rows, process.solver.solve, prior, y.T - errors[:, :, 0])
    coefficients = coefficients[:, :, None]
    coefficients.setflags(write=False)
    return FunctionDraws(
        PosteriorDraws(coefficients, solution), _FeaturesAndKernel(features, process), x.shape[1], seed
    )


def weight_space_draws(
    features: Transformer,
    x: Any,
    y: Any,
    *,
    noise: Any,
    n_samples: int,
    output_scale: float = 1.0,
    seed: int | None = None,
) -> FunctionDraws:
    r"""Draw functions from the posterior of the weights of features: the process whose kernel is phi(x) . phi(y).

    .. math:: f(\cdot) = \phi(\cdot)^\top \big( w + \Phi^\top (\Phi \Phi^\top + \mathrm{diag}(noise))^{-1}
              (y - \Phi w - \varepsilon) \big), \quad w \sim N(0, I), \; \varepsilon \sim N(0, noise).

    For comparison with `decoupled_draws`: D functions cannot both follow many observations and keep the prior's
    variance away from them (variance starvation), and the mean is not the exact one.

    Parameters
    ----------
    features, x, y, noise, n_samples, output_scale, seed
        As in `decoupled_draws`; y has shape (n,). `noise=0` needs Phi of rank n.

    Returns
    -------
    FunctionDraws

    Raises
    ------
    TypeError, ValueError
        For input of the wrong kind, shape or value, or Phi Phi^T plus noise singular to rounding.

    Notes
    -----
    Cost: O(n^3 + n^2 s + n D s) once; then O(q D s) for q points.

    Source: Sec. A.2 of "Numerical methods for improved decoupled sampling of Gaussian processes".

    Examples
    --------
    >>> import numpy as np
    >>> from types import SimpleNamespace
    >>> features = SimpleNamespace(transform=lambda x: np.hstack([np.cos(x), np.sin(x)]))
    >>> draws = weight_space_draws(features, [[0.0]], [1.0], noise=0.0, n_samples=3, seed=0)
    >>> draws.at([[0.0], [2 * np.pi]]).round(12)  # what was observed returns with the features' period
    array([[1., 1.],
           [1., 1.],
           [1., 1.]])
    """
    n_samples = _checks.integer("n_samples", n_samples, low=1)
    seed = _checks.seed(seed)
    x, y, noise = _observations(x, y, noise)
    basis = _FeaturesAlone(features, _scale(output_scale))
    phi = basis.values(x)
    solve = _cholesky(phi @ phi.T, noise, "the features' products").solve
    draws = posterior_draws(
        _Rows(phi), noise, y[:, None], solve, n_samples=n_samples, rng=np.random.default_rng(seed)
    )
    return FunctionDraws(draws, basis, x.shape[1], seed)


def exact_moments(
    kernel: str | StationaryKernel,
    x: Any,
    y: Any,
    x_new: Any,
    *,
    noise: Any,
    lengthscale: Any = 1.0,
    output_scale: float = 1.0,
) -> Moments:
    r"""Mean and covariance of the exact posterior of f at `x_new`, without noise.

    .. math:: \mu = K_* (K + \mathrm{diag}(noise))^{-1} y, \quad
              \Sigma = K_{**} - K_* (K + \mathrm{diag}(noise))^{-1} K_*^\top.

    Parameters
    ----------
    kernel, x, y, noise, lengthscale, output_scale
        As in `decoupled_draws`; y has shape (n,).
    x_new : array_like, shape (q, d)

    Returns
    -------
    Moments
        For noisy values add the noise variance to the diagonal of the covariance.

    Raises
    ------
    TypeError, ValueError
        For input of the wrong kind, shape or value, or a kernel matrix plus noise that is singular to rounding.

    Notes
    -----
    Cost: O(n^3 + n^2 q + n q^2) time, n^2 + n q + q^2 numbers.

    Source: Eqs. A.2 and, with `noise=0` and y = u, A.3 of "Numerical methods for improved decoupled sampling of
    Gaussian processes".

    Examples
    --------
    >>> exact_moments("gaussian", [[0.0]], [2.0], [[0.0], [9.0]], noise=1.0).mean.round(6)
    array([1., 0.])
    """
    x, y, noise = _observations(x, y, noise)
    process = _process(kernel, x, noise, lengthscale, output_scale)
    x_new = _query("x_new", x_new, x.shape[1])
    cross = process.cross(x_new)
    half = process.solver.half(cross.T)
    return Moments(half.T @ process.solver.half(y), process.cross(x_new, x_new) - half.T @ half)


def decoupled_moments(
    features: Transformer,
    kernel: str | StationaryKernel,
    x: Any,
    y: Any,
    x_new: Any,
    *,
    noise: Any,
    lengthscale: Any = 1.0,
    output_scale: float = 1.0,
) -> Moments:
    r"""Mean and covariance of the law of `decoupled_draws` at `x_new`, given the features, in closed form.

    .. math:: \mu = C y, \quad
              \Sigma = (\Phi_* - C \Phi)(\Phi_* - C \Phi)^\top + C \, \mathrm{diag}(noise) \, C^\top, \quad
              C = K_* (K + \mathrm{diag}(noise))^{-1}.

    Parameters
    ----------
    features, kernel, x, y, noise, lengthscale, output_scale
        As in `decoupled_draws`; y has shape (n,).
    x_new : array_like, shape (q, d)

    Returns
    -------
    Moments
        The mean is that of `exact_moments`.

    Raises
    ------
    TypeError, ValueError
        As `decoupled_draws`.

    Notes
    -----
    Cost: O(n^3 + n^2 q + (n + q) q D) time.

    Source: Eq. A.6 of "Numerical methods for improved decoupled sampling of Gaussian processes", for noisy values.
    Its cross term, printed twice alike, is one term and its transpose; as a square the covariance keeps no
    negative eigenvalues.

    Examples
    --------
    With one feature, (cos x), the prior's variance at x = 2 is cos(2)^2, and far from the observation it stays so.

    >>> import numpy as np
    >>> from types import SimpleNamespace
    >>> one = SimpleNamespace(transform=np.cos)
    >>> law = decoupled_moments(one, "gaussian", [[0.0]], [1.0], [[2.0]], noise=0.1, lengthscale=0.1)
    >>> bool(np.isclose(law.covariance[0, 0], np.cos(2.0) ** 2))
    True
    """
    x, y, noise = _observations(x, y, noise)
    process = _process(kernel, x, noise, lengthscale, output_scale)
    x_new = _query("x_new", x_new, x.shape[1])
    update = process.solver.solve(process.cross(x, x_new)).value.T
    return _moved(process.features(features, x), process.features(features, x_new), update, y, noise)


def weight_space_moments(
    features: Transformer, x: Any, y: Any, x_new: Any, *, noise: Any, output_scale: float = 1.0
) -> Moments:
    r"""Mean and covariance of the law of `weight_space_draws` at `x_new`, given the features, in closed form.

    .. math:: \mu = C y, \quad \Sigma = \Phi_* \Phi_*^\top - C \Phi \Phi_*^\top, \quad
              C = \Phi_* \Phi^\top (\Phi \Phi^\top + \mathrm{diag}(noise))^{-1}.

    Parameters
    ----------
    features, x, y, noise, output_scale
        As in `weight_space_draws`.
    x_new : array_like, shape (q, d)

    Returns
    -------
    Moments
        The covariance has rank D at most.

    Raises
    ------
    TypeError, ValueError
        As `weight_space_draws`.

    Notes
    -----
    The covariance is computed as the sum of squares of `decoupled_moments`, which here is the same.

    Cost: O(n^3 + n^2 (q + D) + n q (q + D)) time.

    Source: Sec. A.2 of "Numerical methods for improved decoupled sampling of Gaussian processes".

    Examples
    --------
    >>> import numpy as np
    >>> from types import SimpleNamespace
    >>> line = SimpleNamespace(transform=lambda x: x)
    >>> weight_space_moments(line, [[1.0]], [1.0], [[2.0]], noise=1.0)  # w ~ N(1/2, 1/2)
    Moments(mean=array([1.]), covariance=array([[2.]]))
    """
    x, y, noise = _observations(x, y, noise)
    basis = _FeaturesAlone(features, _scale(output_scale))
    phi, phi_new = basis.values(x), basis.values(_query("x_new", x_new, x.shape[1]))
    solver = _cholesky(phi @ phi.T, noise, "the features' products")
    return _moved(phi, phi_new, solver.solve(phi @ phi_new.T).value.T, y, noise)


def _moved(phi: np.ndarray, phi_new: np.ndarray, update: np.ndarray, y: np.ndarray, noise: np.ndarray) -> Moments:
    """The law of Phi_* w + C (y - Phi w - eps); the covariance is a sum of squares, so rounding keeps its sign."""
    spread = phi_new - update @ phi
    return Moments(update @ y, spread @ spread.T + (update * noise) @ update.T)


@dataclass(frozen=True)
class _Rows:
    """Values of a basis at some points, as rows of features."""

    matrix: np.ndarray

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.shape[0], self.matrix.shape[1]

    def apply(self, x: np.ndarray) -> np.ndarray:
        return self.matrix @ x

    def apply_t(self, y: np.ndarray) -> np.ndarray:
        return self.matrix.T @ y


class _ObservedRows(_Rows):
    """Rows [Phi, K] of the n observed points, whose transpose is taken among the functions k(., x_i).

    Where K = F F^T, the function with coefficients F_u^T y is the sum of y_i k(., x_i). Here these functions are
    at hand, so the coefficients are y itself, and none in phi.
    """

    def apply_t(self, y: np.ndarray) -> np.ndarray:
        size, columns = self.shape
        return np.concatenate([np.zeros((columns - size, y.shape[1])), y])


@dataclass(frozen=True)
class _Process:
    """The observed points under the exact kernel, with the Cholesky factor of their noisy covariance."""

    kernel: StationaryKernel
    x: np.ndarray
    lengthscale: np.ndarray
    output_scale: float
    gram: np.ndarray
    solver: CholeskySolver

    def cross(self, a: np.ndarray, b: np.ndarray | None = None) -> np.ndarray:
        """Covariance of f at `a` and at `b`, the observed points if left out."""
        b = self.x if b is None else b
        return self.output_scale * self.kernel.gram(a, b, lengthscale=self.lengthscale)

    def features(self, features: Transformer, x: np.ndarray) -> np.ndarray:
        _agree(features, self.kernel, self.lengthscale, x.shape[1])
        return np.sqrt(self.output_scale) * _transformed(features, x)


@dataclass(frozen=True)
class _FeaturesAndKernel:
    features: Transformer
    process: _Process

    def values(self, x: np.ndarray) -> np.ndarray:
        return np.hstack([self.process.features(self.features, x), self.process.cross(x)])


@dataclass(frozen=True)
class _FeaturesAlone:
    features: Transformer
    output_scale: float

    def values(self, x: np.ndarray) -> np.ndarray:
        return np.sqrt(self.output_scale) * _transformed(self.features, x)


def _process(kernel: Any, x: np.ndarray, noise: np.ndarray, lengthscale: Any, output_scale: Any) -> _Process:
    law, scale = stationary_kernel(kernel), _scale(output_scale)
    lengthscale = lengthscales(lengthscale, x.shape[1])
    gram = scale * law.gram(x, lengthscale=lengthscale)
    return _Process(law, x, lengthscale, scale, gram, _cholesky(gram, noise, "the kernel matrix"))


def _cholesky(gram: np.ndarray, noise: np.ndarray, what: str) -> CholeskySolver:
    matrix = gram + np.diag(noise)
    least = _SINGULAR * len(matrix) * matrix.diagonal().max()
    try:
        solver = CholeskySolver(matrix.copy())
        # Some values may follow from the others but for rounding, which the factor's success does not tell.
        singular = noise.min() < least and bool((solver.inverse_diagonal * least > 1).any())
    except np.linalg.LinAlgError:
        singular = True
    if singular:
        raise ValueError(
            f"`noise` must be large enough that {what} plus noise is positive definite to rounding, got "
            f"{noise.min():g} to {noise.max():g} for {len(matrix)} points; raise it, or drop points near others"
        )
    return solver


def _observations(
    x: Any, y: Any, noise: Any, n_samples: int | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points (n, d), values (n,) or, where draws may have their own, (1 or n_samples, n), and variances (n,)."""
    x = points("x", x)
    size = len(x)
    if size == 0:
        raise ValueError("`x` must hold at least one point, got none")
    y = _numbers("y", y)
    shapes = [(size,)] if n_samples is None else [(size,), (n_samples, size)]
    if y.shape not in shapes:
        wanted = " or ".join(map(str, shapes))
        raise ValueError(f"`y` must have shape {wanted}, one value for each point, got {_checks.describe(y)}")
    noise = _numbers("noise", noise)
    if noise.shape not in ((), (size,)) or (noise < 0).any():
        raise ValueError(
            f"`noise` must be a variance >= 0, or {size} of them, one for each point, got "
            f"{noise if noise.ndim == 0 else _checks.describe(noise)}"
        )
    return x, (y if n_samples is None else np.atleast_2d(y)), np.broadcast_to(noise, size)


def _numbers(name: str, value: Any) -> np.ndarray:
    array = np.asarray(value)
    if array.dtype.kind not in "fiu":
        raise TypeError(f"`{name}` must hold numbers, got {_checks.describe(value)}")
    return _checks.finite(name, array.astype(np.float64, copy=False))


def _query(name: str, x: Any, dimension: int) -> np.ndarray:
    array = points(name, x)
    if array.shape[1] != dimension:
        raise ValueError(
            f"`{name}` must have {dimension} columns as the observed points have, got {_checks.describe(array)}"
        )
    return array


def _scale(output_scale: Any) -> float:
    return _checks.number("output_scale", output_scale, low=0, include_low=False)


def _transformed(features: Transformer, x: np.ndarray) -> np.ndarray:
    if not callable(getattr(features, "transform", None)):
        raise TypeError(
            f"`features` must be a fitted transformer, with a method `transform`, got {_checks.describe(features)}"
        )
    phi = np.asarray(features.transform(x))
    if phi.ndim != 2 or len(phi) != len(x) or phi.shape[1] == 0:
        raise ValueError(
            f"`features` must turn {len(x)} points into shape ({len(x)}, D), got {_checks.describe(phi)}"
        )
    return _numbers("features.transform(x)", phi)


def _agree(features: Transformer, kernel: StationaryKernel, lengthscale: np.ndarray, dimension: int) -> None:
    """Refuse features that say they are of another kernel: their draws would be wrong without a word."""
    theirs = getattr(features, "kernel", None)
    if theirs is not None and stationary_kernel(theirs).nu != kernel.nu:
        raise ValueError(f"`features` must be of the kernel {kernel.name!r}, got features of {theirs!r}")
    scale = getattr(features, "lengthscale", None)
    if scale is not None and not np.allclose(lengthscales(scale, dimension), lengthscale, rtol=1e-6, atol=0):
        raise ValueError(
            f"`features` must have the lengthscale of the kernel, {lengthscale}, got {scale}; pass it to both"
        )
