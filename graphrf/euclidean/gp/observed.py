"""A Gaussian process on R^d at observed points: validation, covariances, features, a solver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from graphrf._base import checks
from graphrf.euclidean.kernels import (
    KERNELS,
    StationaryKernel,
    lengthscales,
    points,
    stationary_kernel,
)
from graphrf.operators.solvers import CholeskySolver

# Conditional variances below this share (times the number of values) of the largest variance are
# rounding errors.
_SINGULAR = 16 * np.finfo(np.float64).eps


class Transformer(Protocol):
    """Fitted features phi of R^d with phi(x) . phi(y) near k(x, y)."""

    def transform(self, X: Any) -> Any:
        """phi at points of shape (n, d); shape (n, D)."""
        ...


@dataclass(frozen=True)
class Process:
    """The observed points under the exact kernel, with the factor of their noisy covariance."""

    kernel: StationaryKernel
    x: np.ndarray
    lengthscale: np.ndarray
    output_scale: float
    gram: np.ndarray
    solver: CholeskySolver

    def cross(self, a: np.ndarray, b: np.ndarray | None = None) -> np.ndarray:
        """Covariance of f at `a` and at `b`, by default the observed points."""
        b = self.x if b is None else b
        return self.output_scale * self.kernel.gram(a, b, lengthscale=self.lengthscale)

    def features(self, features: Transformer, x: np.ndarray) -> np.ndarray:
        """Features of this process, shape (n, D)."""
        _agree(features, self.kernel, self.lengthscale, x.shape[1])
        return transformed(features, x, self.output_scale)

    def features_and_kernel(self, features: Transformer, x: np.ndarray) -> np.ndarray:
        """[Phi, K] between `x` and the observed points, shape (n, D + observed points)."""
        return np.hstack([self.features(features, x), self.cross(x)])


def make_process(
    kernel: Any, x: np.ndarray, noise: np.ndarray, lengthscale: Any, output_scale: Any
) -> Process:
    """The process of a kernel, at validated points with validated noise."""
    law, scale = stationary_kernel(kernel), output_variance(output_scale)
    lengthscale = lengthscales(lengthscale, x.shape[1])
    gram = scale * law.gram(x, lengthscale=lengthscale)
    return Process(
        law, x, lengthscale, scale, gram, cholesky_solver(gram, noise, "the kernel matrix")
    )


def cholesky_solver(gram: np.ndarray, noise: np.ndarray, what: str) -> CholeskySolver:
    """The solver of gram + diag(noise); ValueError if that is numerically singular."""
    matrix = gram + np.diag(noise)
    least = _SINGULAR * len(matrix) * matrix.diagonal().max()
    try:
        solver = CholeskySolver(matrix)
        # Some values may follow from the others up to
        # rounding, although the factorisation succeeds.
        singular = noise.min() < least and bool((solver.inverse_diagonal * least > 1).any())
    except np.linalg.LinAlgError:
        singular = True
    if singular:
        raise checks.value_error(
            "noise",
            f"must be large enough that {what} plus noise is positive definite to rounding, got "
            f"{noise.min():g} to {noise.max():g} for {len(gram)} points; raise it, or drop points "
            "near others",
        )
    return solver


def observations(
    x: Any, y: Any, noise: Any, n_samples: int | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points (n, d), values (n,) or (1 or n_samples, n) if draws may differ, and variances (n,)."""
    x = points("x", x)
    size = len(x)
    if size == 0:
        raise checks.value_error("x", "must hold at least one point, got none")
    y = _numbers("y", y)
    shapes = [(size,)] if n_samples is None else [(size,), (n_samples, size)]
    if y.shape not in shapes:
        wanted = " or ".join(map(str, shapes))
        raise checks.value_error(
            "y", f"must have shape {wanted}, one value for each point, got {checks.describe(y)}"
        )
    noise = _numbers("noise", noise)
    if noise.shape not in ((), (size,)) or (noise < 0).any():
        raise checks.value_error(
            "noise",
            f"must be a variance >= 0, or {size} of them, one for each point, got "
            f"{noise if noise.ndim == 0 else checks.describe(noise)}",
        )
    return x, (y if n_samples is None else np.atleast_2d(y)), np.broadcast_to(noise, size)


def _numbers(name: str, value: Any) -> np.ndarray:
    array = checks.array(name, value)
    if array.dtype.kind not in "fiu":
        raise checks.type_error(name, f"must hold numbers, got {checks.describe(value)}")
    return checks.finite(name, array.astype(np.float64, copy=False))


def query_points(name: str, x: Any, dimension: int) -> np.ndarray:
    """Points of the same space, shape (q, d)."""
    array = points(name, x)
    if array.shape[1] != dimension:
        raise checks.value_error(
            name,
            f"must have {dimension} columns as the observed points have, got "
            f"{checks.describe(array)}",
        )
    return array


def output_variance(output_scale: Any) -> float:
    """A checked output scale."""
    return checks.number("output_scale", output_scale, low=0, include_low=False)


def transformed(features: Transformer, x: np.ndarray, output_scale: float) -> np.ndarray:
    """Features whose products have the output scale, shape (n, D)."""
    if isinstance(features, type) or not callable(getattr(features, "transform", None)):
        raise checks.type_error(
            "features",
            "must be a fitted transformer, with a method `transform`, got "
            f"{checks.describe(features)}",
        )
    phi = np.asarray(features.transform(x))
    if phi.ndim != 2 or len(phi) != len(x) or phi.shape[1] == 0:
        raise checks.value_error(
            "features",
            f"must turn {len(x)} points into shape ({len(x)}, D), got {checks.describe(phi)}",
        )
    return np.sqrt(output_scale) * _numbers("features.transform(x)", phi)


def _agree(
    features: Transformer, kernel: StationaryKernel, lengthscale: np.ndarray, dimension: int
) -> None:
    """Raise an error for features of another kernel, whose draws would be wrong."""
    # Fitted attributes first, since settings may have changed after the fit.
    theirs: Any = getattr(features, "kernel_", getattr(features, "kernel", None))
    # Names of kernels in other libraries are ignored.
    known = isinstance(theirs, StationaryKernel) or (isinstance(theirs, str) and theirs in KERNELS)
    if known and stationary_kernel(theirs).nu != kernel.nu:
        raise checks.value_error(
            "features",
            f"must be of the kernel {kernel.name!r}, got features of "
            f"{stationary_kernel(theirs).name!r}",
        )
    scale = getattr(features, "lengthscale_", getattr(features, "lengthscale", None))
    if scale is not None and not np.allclose(
        lengthscales(scale, dimension), lengthscale, rtol=1e-6, atol=0
    ):
        raise checks.value_error(
            "features",
            f"must have the lengthscale of the kernel, {lengthscale}, got {scale}; pass it to both",
        )
