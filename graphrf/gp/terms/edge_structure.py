r"""Whittle-Matern fields along edges, of order 1 and 2: their precision at the ends of all pieces of edges.

The field solves :math:`(\kappa^2 - \partial^2)^{\alpha/2} u = W` on every edge, is continuous, and its derivatives
out of a vertex, into its edges, sum to 0 (Kirchhoff). Given its state x, which is u, or for order 2 (u, u'/kappa),
at both ends, what is left of a piece is independent of all else, so that the precision is the sum of the pieces'.
On an endless line x is stationary with unit covariance, and :math:`x_d = \Phi x_0 + \varepsilon`. The precision of
the states at both ends of a piece of length d is there that of the piece and of the endless rests on both sides:

.. math:: \begin{pmatrix} I + \Phi^\top \Sigma^{-1} \Phi & -\Phi^\top \Sigma^{-1} \\
          -\Sigma^{-1} \Phi & \Sigma^{-1} \end{pmatrix}, \quad \Sigma = I - \Phi \Phi^\top, \qquad
          R = \tfrac12 \begin{pmatrix} 1 & 1 \\ 1 & 1 \end{pmatrix},

with R in terms of u and the derivative into the rest (order 1: R = 1/2), which are taken off. An end of degree 1
is stationary if R is added there, and else has the derivative 0.

Source: Bolin, Simas and Wallin 2024, "Gaussian Whittle-Matern fields on metric graphs"; derived here by Markov's
property.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp
from scipy.special import gammainc

from graphrf.gp.metric.pieces import Pieces
from graphrf.gp.terms.parameters import Parameter
from graphrf.gp.terms.structure import Structure, Values, no_constraints


class EdgeStructure(Structure):
    """The values at all vertices, and for order 2 the derivatives into all but one of the pieces at each of them.

    Parameters
    ----------
    pieces : Pieces
    alpha : {1, 2}
    stationary : bool
        Whether ends of degree 1 are.
    lengthscale : Parameter
    """

    def __init__(self, pieces: Pieces, alpha: int, *, stationary: bool, lengthscale: Parameter) -> None:
        self.pieces, self._alpha = pieces, alpha
        self.parameters = (lengthscale,)
        n, m = pieces.n_nodes, pieces.src.size
        vertex = np.concatenate([pieces.src, pieces.dst])  # of each end: the first ends of pieces, then the last
        order = np.argsort(vertex * m + np.tile(np.arange(m), 2), kind="stable")
        degree = np.bincount(vertex, minlength=n)
        single = np.flatnonzero(degree == 1)
        self._ends = single if stationary else single[:0]
        values = sp.csr_array((np.ones(2 * m), (np.arange(2 * m), vertex)), shape=(2 * m, n))
        self.derivatives = np.zeros(0, dtype=np.int64)
        if alpha == 1:
            self._basis = values
        else:
            self._basis = sp.csr_array(sp.block_diag([values, self._slopes(vertex, order, degree, stationary)]))
            self._basis = sp.csr_array(sp.hstack([self._basis[:, :n], self._basis[:, n:]]))
        self.size = self._basis.shape[1]
        self.constraints = no_constraints(self.size)
        self._at_ends = self._rows_of_ends(values.shape[1])

    def _slopes(self, vertex: np.ndarray, order: np.ndarray, degree: np.ndarray, stationary: bool) -> sp.csr_array:
        """The derivative at each end of a piece, into the piece, from those that are free."""
        sorted_vertex = vertex[order]
        last = np.append(sorted_vertex[1:] != sorted_vertex[:-1], True)
        free = ~last
        if stationary:  # the endless rest has the derivative that is not free
            free |= degree[sorted_vertex] == 1
        number = np.cumsum(free) - 1
        self.derivatives = sorted_vertex[free]
        rows, columns, data = [order[free]], [number[free]], [np.ones(int(free.sum()))]
        closing = np.full(degree.size, -1)
        closing[sorted_vertex[last & ~free]] = order[last & ~free]
        whose = closing[self.derivatives]
        kept = whose >= 0
        rows.append(whose[kept])
        columns.append(np.flatnonzero(kept))
        data.append(-np.ones(int(kept.sum())))
        places = np.concatenate(rows), np.concatenate(columns)
        return sp.csr_array((np.concatenate(data), places), shape=(vertex.size, self.derivatives.size))

    def _rows_of_ends(self, n: int) -> sp.csr_array:
        """u + (the derivative into the rest) at stationary ends: minus the derivative into the piece there."""
        k = self._ends.size
        rows = sp.csr_array((np.ones(k), (np.arange(k), self._ends)), shape=(k, self.size))
        if self._alpha == 1:
            return rows
        at = n + np.searchsorted(self.derivatives, self._ends)
        return sp.csr_array(rows - sp.csr_array((np.ones(k), (np.arange(k), at)), shape=(k, self.size)))

    def precision(self, values: Values) -> sp.csr_array:
        kappa = math.sqrt(2 * self._alpha - 1) / values[self.parameters[0].name]
        blocks = piece_precisions(kappa * self.pieces.length, self._alpha)
        m, d = self.pieces.src.size, blocks.shape[1]
        # states of a piece: u at both ends, then the derivatives into it there
        places = np.arange(m)[:, None] + m * np.arange(d)
        rows, columns = np.repeat(places, d, axis=1).ravel(), np.tile(places, d).ravel()
        whole = sp.csr_array((blocks.ravel(), (rows, columns)), shape=(d * m, d * m))
        return sp.csr_array(self._basis.T @ whole @ self._basis + 0.5 * (self._at_ends.T @ self._at_ends))


def piece_precisions(x: np.ndarray, alpha: int) -> np.ndarray:
    """Precisions of pieces of lengths x / kappa in units of 1 / variance, shape (m, 2 alpha, 2 alpha).

    The states are u at the first and the last end, and for order 2 the derivatives into the piece there.
    """
    small = np.exp(-x)
    if alpha == 1:
        rest = -np.expm1(-2 * x)
        own, across = 1 / rest - 0.5, -small / rest
        return np.stack([np.stack([own, across], axis=-1), np.stack([across, own], axis=-1)], axis=-2)
    phi = small[:, None, None] * np.stack([np.stack([1 + x, x], axis=-1), np.stack([-x, 1 - x], axis=-1)], axis=-2)
    tail = gammainc(3, 2 * x)  # 1 - exp(-2 x) (1 + 2 x + 2 x^2), without cancellation
    beside = 2 * x**2 * small**2
    last = tail + 4 * x * small**2
    determinant = tail * last - beside**2
    inverse = np.stack([np.stack([last, -beside], axis=-1), np.stack([-beside, tail], axis=-1)], axis=-2)
    inverse = inverse / determinant[:, None, None]
    turned = phi.transpose(0, 2, 1)
    whole = np.zeros((x.size, 4, 4))
    whole[:, :2, :2] = np.eye(2) + turned @ inverse @ phi - 0.5 * np.array([[1.0, -1.0], [-1.0, 1.0]])
    whole[:, :2, 2:] = -turned @ inverse
    whole[:, 2:, :2] = -inverse @ phi
    whole[:, 2:, 2:] = inverse - 0.5
    order = [0, 2, 1, 3]  # (u_0, u_0', u_d, u_d') with the last derivative turned into the piece
    sign = np.array([1.0, 1.0, 1.0, -1.0])
    return np.asarray(whole[:, order][:, :, order] * sign[:, None] * sign)
