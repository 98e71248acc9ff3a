"""Solves with covariance plus noise, by Cholesky or preconditioned conjugate gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.linalg.lapack import dtrtri

from graphrf._base.cached import cached_property

Product = Callable[[np.ndarray], np.ndarray]


class Solution(NamedTuple):
    """The solution of a linear system, and how it was reached.

    `converged` if every column's true residual, |b - A x| / |b| from a product with A at the end,
    is within the tolerance; `residual` is the largest of them. 0 `iterations` for direct solves.
    """

    value: np.ndarray
    converged: bool
    iterations: int
    residual: float


class IterativeSolver(Protocol):
    """An iterative solver of A x = b."""

    tol: float

    @property
    def name(self) -> str: ...

    def product(self, x: np.ndarray) -> np.ndarray:
        """A x for x of shape (m, p)."""
        ...

    def solve(self, rhs: np.ndarray) -> Solution:
        """A^-1 b for b of shape (m,) or (m, p), to `tol`."""
        ...

    def solve_to(self, rhs: np.ndarray, tol: float) -> Solution:
        """A^-1 b to the given tolerance."""
        ...


class CholeskySolver:
    """A = K + diag(noise) = L L^T: m^3 / 6 multiply-adds, m^2 numbers; m^2 a solved column.

    `matrix`, K, is overwritten; its diagonal is kept as `prior`. A solve whose residual is above
    `tol` is refined once; one that stays above it, as where the noise is lost beside K in rounding,
    counts as not converged. Raises `numpy.linalg.LinAlgError` if A is not positive definite to
    rounding.
    """

    name = "cholesky"

    def __init__(
        self, matrix: np.ndarray, noise: float | np.ndarray = 0.0, *, tol: float = 1e-6
    ) -> None:
        self._tol = tol
        self.prior: np.ndarray = np.diagonal(matrix).copy()
        matrix[np.diag_indices_from(matrix)] += noise
        self._factor = cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)

    @property
    def log_determinant(self) -> float:
        """log |A|."""
        return 2.0 * float(np.log(np.diagonal(self._factor)).sum())

    @cached_property
    def inverse_diagonal(self) -> np.ndarray:
        """The diagonal of A^-1, by the inverse of L: m^3 / 6 multiply-adds, m^2 numbers."""
        inverse, _ = dtrtri(self._factor, lower=1)
        return np.einsum("ij,ij->j", inverse, inverse)

    def half(self, rhs: np.ndarray) -> np.ndarray:
        """L^-1 b, whose squared norm is b^T A^-1 b."""
        return np.asarray(solve_triangular(self._factor, rhs, lower=True, check_finite=False))

    def solve(self, rhs: np.ndarray) -> Solution:
        """A^-1 b for b of shape (m,) or (m, p)."""
        tiny = np.finfo(np.float64).tiny
        # Covariances' squares may leave float64.
        unit = np.maximum(np.abs(rhs).max(axis=0, initial=0.0), tiny)
        norm = np.maximum(np.linalg.norm(rhs / unit, axis=0), tiny)
        value = self._once(rhs)
        left = rhs - self._factor @ (self._factor.T @ value)
        size = float(np.max(np.linalg.norm(left / unit, axis=0) / norm))
        if size > self._tol:
            refined = value + self._once(left)
            left = rhs - self._factor @ (self._factor.T @ refined)
            again = float(np.max(np.linalg.norm(left / unit, axis=0) / norm))
            if again < size:
                value, size = refined, again
        return Solution(value, size <= self._tol, 0, size)

    def _once(self, rhs: np.ndarray) -> np.ndarray:
        return np.asarray(
            solve_triangular(
                self._factor, self.half(rhs), lower=True, trans="T", check_finite=False
            )
        )


class ConjugateGradients:
    """A^-1 b by preconditioned conjugate gradients, with separate step lengths for each column.

    `product` and `precondition` multiply matrices of shape (m, p) by A and by the preconditioner's
    inverse; `tol` is the wanted |b - A x| / |b| of every column. The recurrence's residual drifts
    from the true one. Where it is within the tolerance, the true residual is computed, and
    iterations restart from it if it is too large. Source: Golub and Van Loan 2013, Sec. 11.5.
    """

    name = "cg"

    def __init__(
        self,
        product: Product,
        precondition: Product,
        *,
        tol: float = 1e-8,
        max_iterations: int = 1000,
    ) -> None:
        self._product = product
        self._precondition = precondition
        self.tol = tol
        self._max_iterations = max_iterations

    def product(self, x: np.ndarray) -> np.ndarray:
        """A x for x of shape (m, p)."""
        return self._product(x)

    def solve(self, rhs: np.ndarray) -> Solution:
        """A^-1 b for b of shape (m,) or (m, p)."""
        return self.solve_to(rhs, self.tol)

    def solve_to(self, rhs: np.ndarray, tol: float) -> Solution:
        """A^-1 b to the given tolerance."""
        b, exponents = columns_near_one(rhs)
        norm = np.linalg.norm(b, axis=0)
        norm[norm == 0] = 1.0
        x = np.zeros_like(b)
        done, reached = 0, np.inf
        while True:
            r = b - self.product(x) if done else b.copy()
            last, reached = reached, float((np.linalg.norm(r, axis=0) / norm).max())
            # A restart that does not halve the residual
            # has met rounding: more steps would not help.
            if reached <= tol or done >= self._max_iterations or reached > 0.5 * last:
                break
            done += self._iterate(x, r, tol * norm, self._max_iterations - done)
        return Solution(np.ldexp(x, exponents).reshape(rhs.shape), reached <= tol, done, reached)

    def _iterate(self, x: np.ndarray, r: np.ndarray, wanted: np.ndarray, most: int) -> int:
        """Improve x in place from its residual r to half the wanted norms; the steps taken."""
        z = self._precondition(r)
        p = z.copy()
        rho = (r * z).sum(axis=0)
        for step in range(1, most + 1):
            q = self.product(p)
            curvature = (p * q).sum(axis=0)
            going = (curvature > 0) & (rho > 0)  # a column that is solved exactly stays put
            length = np.where(going, rho / np.where(going, curvature, 1.0), 0.0)
            x += length * p
            r -= length * q
            if bool((np.linalg.norm(r, axis=0) <= 0.5 * wanted).all()) or not going.any():
                return step
            z = self._precondition(r)
            new = (r * z).sum(axis=0)
            p *= np.where(going, new / np.where(going, rho, 1.0), 0.0)
            p += z
            rho = new
        return most


def columns_near_one(rhs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """b, (m,) or (m, p), as (m, p) with columns of size 1/2 to 1, and the powers of two.

    Their norms are safe, those of b may leave float64; nothing is rounded.
    """
    columns = rhs.reshape(rhs.shape[0], -1)
    exponents = np.frexp(np.abs(columns).max(axis=0, initial=0.0))[1]
    return np.ldexp(columns, -exponents), exponents


def nystrom_preconditioner(
    columns: np.ndarray, chosen: np.ndarray, diagonal: np.ndarray
) -> Product:
    """The inverse of P = C B^-1 C^T + D, C = K[:, chosen], B = K[chosen, chosen], D the noise.

    P shares K's large eigenvalues, where conjugate gradients spend their time. By Woodbury's
    identity with V = C L^-T, B = L L^T: P^-1 = D^-1 - D^-1 V (I + V^T D^-1 V)^-1 V^T D^-1. Where B
    is not positive to rounding it is D^-1. Cost: m k^2 to make, 2 m k for each column of a product.
    Source: Williams and Seeger 2001.
    """
    core = columns[chosen]
    core = 0.5 * (core + core.T)
    jitter = 1e-10 * float(np.trace(core)) + np.finfo(np.float64).tiny
    core[np.diag_indices(chosen.size)] += jitter
    try:
        root = cholesky(core, lower=True)
    except np.linalg.LinAlgError:  # K is nothing but rounding: the noise is all there is
        return lambda r: np.asarray(r / diagonal[:, None])
    v = solve_triangular(root, columns.T, lower=True).T
    scaled = v / diagonal[:, None]
    inner = v.T @ scaled
    inner[np.diag_indices(chosen.size)] += 1.0
    inner_root = cholesky(inner, lower=True)
    w = solve_triangular(inner_root, scaled.T, lower=True).T

    def precondition(r: np.ndarray) -> np.ndarray:
        return np.asarray(r / diagonal[:, None] - w @ (w.T @ r))

    return precondition
