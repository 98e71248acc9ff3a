r"""Directions of random frequencies: orthogonal and simplex blocks under a Haar rotation."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphrf._base import checks
from graphrf._base.blas import blas_threads

DIRECTIONS = (
    "iid",
    "orthogonal",
    "simplex",
    "simplex+",
    "orthogonal-hd",
    "simplex-hd",
    "halton",
    "sobol",
)


def haar(n: int, dimension: int, rng: np.random.Generator) -> np.ndarray:
    """Orthogonal matrices of the Haar measure, (n, d, d): QR of Gaussian ones, with signs of R.

    LAPACK's Q alone is not Haar (its first entry is always negative), which biases positive
    features. Cost: O(n d^3) time. Source: Mezzadri 2007, "How to generate random matrices from the
    classical compact groups", Sec. 4.

    Examples
    --------
    >>> q = haar(1, 3, np.random.default_rng(0))[0]
    >>> np.allclose(q @ q.T, np.eye(3))
    True
    """
    # One matrix at a time, so that it does not depend on their number.
    out = np.empty((n, dimension, dimension))
    for index in range(n):
        q, r = np.linalg.qr(rng.standard_normal((dimension, dimension)))
        out[index] = q * np.where(np.diag(r) < 0, -1.0, 1.0)
    return out


def simplex(dimension: int) -> np.ndarray:
    r"""Rows to the corners of a simplex: unit vectors with cosine -1/(d-1) between any two, (d, d).

    .. math::
        s_i = \sqrt{\tfrac{d}{d-1}}\, e_i - \tfrac{\sqrt d + 1}{(d-1)^{3/2}} (1, \dots, 1, 0)^\top
        \; (i < d),
        \qquad s_d = \tfrac{1}{\sqrt{d-1}} (1, \dots, 1, 0)^\top.

    ValueError if d < 2, since a simplex of one corner has no angle. Source: Reid et al. 2023,
    "Simplex random features", Eq. 9, whose sqrt(d + 1) must read sqrt(d) + 1.

    Examples
    --------
    >>> (simplex(3) @ simplex(3).T).round(6) + 0.0
    array([[ 1. , -0.5, -0.5],
           [-0.5,  1. , -0.5],
           [-0.5, -0.5,  1. ]])
    """
    return simplex_product(np.eye(_check_simplex(dimension))).T


def simplex_product(y: Any) -> Any:
    """S y along the last axis of an array or tensor, in O(d): S as `simplex` has it."""
    d = _check_simplex(y.shape[-1])
    total = y[..., :-1].sum(-1)
    out = (d / (d - 1)) ** 0.5 * y - ((d**0.5 + 1) / (d - 1) ** 1.5 * total)[..., None]
    out[..., -1] = total / (d - 1) ** 0.5
    return out


def unit_blocks(directions: str, n: int, dimension: int, rng: np.random.Generator) -> np.ndarray:
    """n independent blocks of d unit vectors, "iid", "orthogonal" or "simplex"; (n, d, d)."""
    if directions == "iid":
        normal = rng.standard_normal((n, dimension, dimension))
        return normal / np.linalg.norm(normal, axis=2, keepdims=True)
    # Several threads of LAPACK would change the last bits.
    with blas_threads(1):
        rotations = haar(n, dimension, rng)
        return simplex(dimension) @ rotations if directions == "simplex" else rotations


def simplex_plus(norms: np.ndarray, rows: np.ndarray, *, n_passes: int = 10) -> np.ndarray:
    r"""Turn the directions of a block, (d, d), so that longer frequencies have wider angles.

    .. math:: w_i \leftarrow -\|w_i\| \frac{\sum_{j \ne i} w_j}{\|\sum_{j \ne i} w_j\|}, \quad i =
        1, \dots, d,

    one after the other, which lowers |sum_i w_i| at every step. (All at once would raise it.) Where
    one norm exceeds the sum of the others, the sum cannot vanish, and the vectors end antiparallel.
    Cost: O(d^2) per pass.

    Source: Reid et al. 2023, "Simplex random features", Eqs 16 and 17, where the factor on the
    right is the norm.

    Parameters
    ----------
    norms : ndarray, shape (d,)
    rows : ndarray, shape (d, d)
        Directions to start from, unit vectors: the simplex.
    n_passes : int
        Passes over the block. It ends earlier once |sum w| is below 1e-12 of the sum of norms.
    """
    w = rows * norms[:, None]
    total = w.sum(axis=0)
    for _ in range(n_passes):
        if np.linalg.norm(total) <= 1e-12 * norms.sum():
            break
        for i in range(len(w)):
            rest = total - w[i]
            length = np.linalg.norm(rest)
            if length > 0:
                w[i] = -norms[i] / length * rest
                total = rest + w[i]
        total = w.sum(axis=0)
    lengths = np.linalg.norm(w, axis=1, keepdims=True)
    return np.divide(w, lengths, out=rows.copy(), where=lengths > 0)


def _check_simplex(dimension: Any) -> int:
    if checks.integer("dimension", dimension, low=1) == 1:
        raise ValueError(
            "simplex directions need at least 2 dimensions, got 1; use directions='orthogonal'"
        )
    return int(dimension)
