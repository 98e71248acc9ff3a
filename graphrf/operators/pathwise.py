r"""Posterior draws of a Gaussian process as functions, by Matheron's rule in feature space.

Nothing here knows of graphs: any features with K = F F^T serve, of nodes or of points.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from graphrf._base import checks

# Draws in a block, at least; numbers in a block of draws of all nodes, on graphs that are not too
# large for it; and the arrays of that size that are held while it is made.
FEWEST_DRAWS = 16
_DRAWN_NUMBERS, _DRAWN_ARRAYS = 4_000_000, 8


class FeatureRows(Protocol):
    """Rows F_u of the features of m inputs, D features each, by their products."""

    @property
    def shape(self) -> tuple[int, int]:
        """(m, D)."""
        ...

    def apply(self, x: np.ndarray) -> np.ndarray:
        """F_u x for x of shape (D, k); shape (m, k)."""
        ...

    def apply_t(self, y: np.ndarray) -> np.ndarray:
        """F_u^T y for y of shape (m, k); shape (D, k)."""
        ...


class Solved(Protocol):
    """Result of a solver: the solution as `value`, and any record of how it was reached."""

    @property
    def value(self) -> np.ndarray: ...


S = TypeVar("S", bound=Solved)
Solve = Callable[[np.ndarray], S]
"""A^-1 b for b of shape (m, k), with A = F_u F_u^T + diag(noise)."""


@dataclass(frozen=True, repr=False)
class PosteriorDraws:
    """Draws of f - c given observations, as functions: coefficients in the features.

    Made by `posterior_draws`.

    Attributes
    ----------
    coefficients : ndarray, shape (D, s, p), read-only
        g' of s draws and p outputs: f(q) = c + F_q g' at any inputs q, now or later.
    solution : object
        What the solver returned for all draws at once: its value and how it ended.
    """

    coefficients: np.ndarray
    solution: Any

    def __repr__(self) -> str:
        size, draws, outputs = self.coefficients.shape
        return f"PosteriorDraws({draws} draws, {outputs} outputs, {size} coefficients)"

    def at(self, rows: FeatureRows) -> np.ndarray:
        """f - c at inputs with these rows of features, shape (q, s, p); one product with them."""
        size, draws, outputs = self.coefficients.shape
        flat = self.coefficients.reshape(size, draws * outputs)
        return rows.apply(flat).reshape(-1, draws, outputs)


def condition(
    rows: FeatureRows, solve: Solve[S], prior: np.ndarray, observed: np.ndarray
) -> tuple[np.ndarray, S]:
    """Weights g' of `posterior_draws`, and the solution: the deterministic half of Matheron's rule.

    `prior` are g, (D, k), `observed` are y - c - eps, (m, k), and `solve` maps b to an object whose
    `value` is A^-1 b.
    """
    solution = solve(observed - rows.apply(prior))
    return prior + rows.apply_t(solution.value), solution


def posterior_draws(
    rows: FeatureRows,
    noise: np.ndarray,
    residual: np.ndarray,
    solve: Solve[S],
    *,
    n_samples: int,
    rng: np.random.Generator,
) -> PosteriorDraws:
    r"""Draw functions from the posterior of f = F g, g ~ N(0, I), given residuals with noise.

    .. math:: g' = g + F_u^\top A^{-1} (residual - \varepsilon - F_u g), \quad
              A = F_u F_u^\top + \mathrm{diag}(noise),

    with fresh g and eps for every draw and output. All of them are right-hand sides of one block
    solve.

    Parameters
    ----------
    rows : FeatureRows, m x D
        F_u, of the observed inputs.
    noise : ndarray, shape (m,)
        Variances of the noise, >= 0.
    residual : ndarray, shape (m, p)
        y - c of p outputs.
    solve : callable
        b of shape (m, k) to an object whose `value` is A^-1 b.
    n_samples : int
        s.
    rng : Generator
        Normals are taken draw by draw, g before eps, so the first draws do not depend on how many
        follow.

    Returns
    -------
    PosteriorDraws

    Raises
    ------
    ValueError
        If shapes do not fit, or a variance is negative or not finite.

    Notes
    -----
    With an exact solve the distribution is exactly the posterior of K = F F^T. A solve that leaves
    a residual r of a draw's right-hand side moves its coefficients by F_u^T A^-1 r, of norm at most
    |r| / (2 sqrt(min noise)), and f(q) by at most sqrt(K_qq) times that.

    Cost: two products with F_u on s p columns and the solve; memory: 3 D s p numbers, and some
    times m s p.

    Source: Wilson et al. 2020, "Efficiently Sampling Functions from Gaussian Process Posteriors";
    2021, "Pathwise Conditioning of Gaussian Processes".

    Examples
    --------
    >>> import numpy as np
    >>> from types import SimpleNamespace
    >>> f = np.array([[1.0, 0.0], [0.8, 0.6]])  # the second input has not been observed
    >>> one = SimpleNamespace(
    ...     shape=(1, 2), apply=lambda x: f[:1] @ x, apply_t=lambda y: f[:1].T @ y
    ... )
    >>> both = SimpleNamespace(shape=(2, 2), apply=lambda x: f @ x, apply_t=lambda y: f.T @ y)
    >>> solve = lambda b: SimpleNamespace(value=b / (1.0 + 0.25))
    >>> rng = np.random.default_rng(0)
    >>> draws = posterior_draws(
    ...     one, np.array([0.25]), np.array([[2.0]]), solve, n_samples=20_000, rng=rng
    ... )
    >>> np.abs(
    ...     draws.at(both)[:, :, 0].mean(axis=1) - [1.6, 1.28]
    ... ).max() < 0.03  # K_qu A^-1 residual
    np.True_
    """
    size, features = rows.shape
    residual = checks.array("residual", residual, np.float64)
    if residual.ndim != 2 or residual.shape[0] != size:
        raise checks.value_error(
            "residual", f"must have shape ({size}, p), got {checks.describe(residual)}"
        )
    prior, errors = draw_normals(
        features, size, noise, n_samples=n_samples, outputs=residual.shape[1], rng=rng
    )
    columns = prior[0].size
    observed = np.subtract(residual[:, None, :], errors, out=errors)
    moved, solution = condition(
        rows, solve, prior.reshape(features, columns), observed.reshape(size, columns)
    )
    coefficients = moved.reshape(prior.shape)
    coefficients.setflags(write=False)
    return PosteriorDraws(coefficients, solution)


def draws_at_once(n_numbers: int) -> int:
    """Draws that are made together, of so many numbers each: several share products and a solve."""
    return max(FEWEST_DRAWS, _DRAWN_NUMBERS // n_numbers)


def draws_bytes(n_numbers: int, n_samples: int) -> float:
    """Memory that blocks of draws take while they are made, of so many numbers each, in bytes."""
    return 8.0 * _DRAWN_ARRAYS * n_numbers * min(n_samples, draws_at_once(n_numbers))


def draw_normals(
    features: int,
    size: int,
    noise: np.ndarray,
    *,
    n_samples: int,
    outputs: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """The random half of Matheron's rule: g ~ N(0, I), (D, s, p), and eps ~ N(0, noise), (m, s, p).

    Normals are taken draw by draw, g before eps, so that the first draws do not depend on the
    number of draws. ValueError if shapes do not fit, or a variance is negative or not finite.
    """
    n_samples = checks.integer("n_samples", n_samples, low=1)
    noise = checks.array("noise", noise, np.float64)
    if noise.shape != (size,) or not (np.isfinite(noise).all() and (noise >= 0).all()):
        raise checks.value_error(
            "noise",
            f"must be {size} finite variances >= 0, one for each row, got {checks.describe(noise)}",
        )
    prior = np.empty((features, n_samples, outputs))
    errors = np.empty((size, n_samples, outputs))
    deviation = np.sqrt(noise)[:, None]
    for draw in range(n_samples):
        prior[:, draw] = rng.standard_normal((outputs, features)).T
        errors[:, draw] = deviation * rng.standard_normal((outputs, size)).T
    return prior, errors


def signs(features: int, n: int, rng: np.random.Generator) -> np.ndarray:
    """Independent -1 and 1 with equal probability, shape (features, n), float32."""
    bits = np.unpackbits(
        np.frombuffer(rng.bytes(-(-features * n // 8)), dtype=np.uint8), count=features * n
    )
    return np.subtract(2 * bits, 1.0, dtype=np.float32).reshape(features, n)
