r"""Precisions of pieces of edges, of which the precision of a Whittle-Matern field is the sum.

The field solves :math:`(\kappa^2 - \partial^2)^{\alpha/2} u = W` on every edge, is continuous, and
its derivatives out of a vertex, into its edges, sum to 0 (Kirchhoff). Given its state x, which is
u, or for order 2 (u, u'/kappa), at both ends, what is left of a piece is independent of all else,
so that the precision is the sum of the pieces'. On an endless line x is stationary with unit
covariance, and :math:`x_d = \Phi x_0 + \varepsilon`. The precision of the states at both ends of a
piece of length d is there that of the piece and of the endless rests on both sides:

.. math:: \begin{pmatrix} I + \Phi^\top \Sigma^{-1} \Phi & -\Phi^\top \Sigma^{-1} \\
          -\Sigma^{-1} \Phi & \Sigma^{-1} \end{pmatrix}, \quad \Sigma = I - \Phi \Phi^\top, \qquad
          R = \tfrac12 \begin{pmatrix} 1 & 1 \\ 1 & 1 \end{pmatrix},

with R in terms of u and the derivative into the rest (order 1: R = 1/2), which are taken off.

Source: Bolin, Simas and Wallin 2024, "Gaussian Whittle-Matern fields on metric graphs"; derived
here by Markov's property.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammainc

# (u_0, u_0', u_d, u_d') becomes (u_0, u_d, u_0', -u_d'): derivatives are those into the piece.
_ORDER = [0, 2, 1, 3]
_SIGN = np.array([1.0, 1.0, 1.0, -1.0])


def piece_precisions(x: np.ndarray, alpha: int) -> tuple[np.ndarray, np.ndarray]:
    """Precisions of pieces of lengths x / kappa and their derivatives in x, (m, 2 alpha, 2 alpha),
    for variance 1.

    States are u at the first and the last end, then for order 2 the derivatives into the piece
    there.
    """
    small = np.exp(-x)

    if alpha == 1:
        sigma = -np.expm1(-2 * x)
        diagonal, across = 1 / sigma - 0.5, -small / sigma
        diagonal_slope, across_slope = -2 * (small / sigma) ** 2, small * (1 + small**2) / sigma**2
        return _matrix(diagonal, across, across, diagonal), _matrix(
            diagonal_slope, across_slope, across_slope, diagonal_slope
        )

    s = small**2
    phi = small[:, None, None] * _matrix(1 + x, x, -x, 1 - x)
    phi_slope = small[:, None, None] * _matrix(-x, 1 - x, x - 1, x - 2)

    tail = gammainc(3, 2 * x)  # 1 - exp(-2 x) (1 + 2 x + 2 x^2), without cancellation
    beside, last = 2 * x**2 * s, tail + 4 * x * s

    inverse = _matrix(last, -beside, -beside, tail) / (tail * last - beside**2)[:, None, None]
    across = 4 * x * (1 - x) * s
    sigma_slope = _matrix(4 * x**2 * s, across, across, 4 * (1 - x) ** 2 * s)
    inverse_slope = -inverse @ sigma_slope @ inverse

    turned, turned_slope = phi.transpose(0, 2, 1), phi_slope.transpose(0, 2, 1)
    mixed = turned @ inverse @ phi_slope
    value = _joined(
        np.eye(2) + turned @ inverse @ phi - 0.5 * np.array([[1.0, -1.0], [-1.0, 1.0]]),
        -turned @ inverse,
        inverse - 0.5,
    )

    slope = _joined(
        turned @ inverse_slope @ phi + mixed + mixed.transpose(0, 2, 1),
        -turned_slope @ inverse - turned @ inverse_slope,
        inverse_slope,
    )
    return value, slope


def _matrix(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> np.ndarray:
    """((a, b), (c, d)) for each piece, shape (m, 2, 2)."""
    return np.stack([np.stack([a, b], axis=-1), np.stack([c, d], axis=-1)], axis=-2)


def _joined(first: np.ndarray, across: np.ndarray, last: np.ndarray) -> np.ndarray:
    """The matrix of both ends from its blocks, with the states in their order."""
    whole = np.block([[first, across], [across.transpose(0, 2, 1), last]])
    return np.asarray(whole[:, _ORDER][:, :, _ORDER] * _SIGN[:, None] * _SIGN)
