r"""Quadratic matching of quantiles: Eq. 55 of the paper, exact, with a local search over swaps.

Eq. 55 is a quadratic form of f = sum_q vec[(v_q + v_sigma(q)) (v_q + v_sigma(q))^T] (Eqs. 59 to
61), v the tile averages of a node. These span few dimensions (10 to 20, whatever the graph: they
are smooth functions of W), so f needs no vectors of N^2 entries and no random projection: in
coordinates of that span the form is a small matrix, diagonalised once, and

.. math:: \mathrm{cost}(\sigma) = \sum_r s_r \Big( \sum_q T_{q \sigma(q) r} \Big)^2, \qquad s_r =
    \pm 1.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class QuadraticCost:
    """Eq. 55 as a function of the permutation: terms T, (n, n, R), and signs s, (R,)."""

    terms: np.ndarray
    signs: np.ndarray

    def __call__(self, permutations: np.ndarray) -> np.ndarray:
        """The cost of each of `permutations`, shape (..., n)."""
        total = sum(self.terms[q, permutations[..., q]] for q in range(self.terms.shape[0]))
        return np.asarray(total**2 @ self.signs)

    @property
    def independent(self) -> float:
        """The cost when the tiles of the two walkers are independent."""
        return float((self.terms.sum(axis=(0, 1)) / self.terms.shape[0]) ** 2 @ self.signs)

    def swaps(self, permutation: np.ndarray) -> np.ndarray:
        """Changes of the cost when sigma(a) and sigma(b) are exchanged, shape (n, n)."""
        placed = self.terms[:, permutation]
        kept = np.einsum("qqr->qr", placed)
        change = placed + placed.transpose(1, 0, 2) - kept[:, None] - kept[None, :]
        return np.asarray(2 * change @ (self.signs * kept.sum(axis=0)) + change**2 @ self.signs)


def spectral_form(spectra: np.ndarray, weights: np.ndarray) -> QuadraticCost:
    r"""Eq. 55 over all node pairs, but for N: sum_lambda weight [sum_q (h_q + h_sigma(q))^2]^2.

    `spectra` has shape (order, number of points), `weights` (number of points,).
    """
    basis = tile_basis(spectra)
    squares = symmetric_vector(basis.T @ spectra)
    return quadratic_form(basis, (squares * weights) @ squares.T)


def pair_form(products: np.ndarray, coefficients: np.ndarray) -> QuadraticCost:
    """Eq. 55 averaged over node pairs, from G = psi^(a)_i . psi^(b)_j of shape (pairs, n, n).

    One pair contributes sum_{a, b} (G[a, b] + G[a, sigma b] + G[sigma a, b] + G[sigma a, sigma
    b])^2. The tiles' modulations `coefficients`, shape (n, K + 1), determine the space of the rows
    and columns of every G.
    """
    basis = tile_basis(coefficients)
    inner = basis.T @ products @ basis
    rank = basis.shape[1]
    # mean over pairs of H[s, u] H[t, v], as a form on symmetric matrices: <F, H F H^T>.
    mixed = (inner.reshape(-1, rank**2).T @ inner.reshape(-1, rank**2) / len(products)).reshape(
        (rank,) * 4
    )
    mixed = mixed.transpose(0, 2, 1, 3)
    rows, cols = np.triu_indices(rank)
    scale = np.where(rows == cols, 1.0, np.sqrt(2.0))
    upper = mixed[rows, cols]
    matrix = (upper[:, rows, cols] + upper[:, cols, rows]) / 2 * scale[:, None] * scale
    return quadratic_form(basis, (matrix + matrix.T) / 2)


def tile_basis(columns: np.ndarray) -> np.ndarray:
    """An orthonormal basis, shape (n, rank), of what the columns of an (n, anything) array span."""
    vectors, values, _ = np.linalg.svd(columns, full_matrices=False)
    return np.asarray(vectors[:, : max(1, int(np.count_nonzero(values > 1e-15 * values[0])))])


def symmetric_vector(x: np.ndarray) -> np.ndarray:
    """x x^T of each column as a vector with the same inner products, (rank (rank + 1) / 2, ...)."""
    rows, cols = np.triu_indices(x.shape[0])
    scale = np.where(rows == cols, 1.0, np.sqrt(2.0)).reshape(-1, *[1] * (x.ndim - 1))
    return np.asarray(scale * x[rows] * x[cols])


def quadratic_form(basis: np.ndarray, matrix: np.ndarray) -> QuadraticCost:
    """The cost f^T `matrix` f, where f sums the symmetric vectors of basis[q] + basis[sigma(q)]."""
    values, vectors = np.linalg.eigh(matrix)
    kept = np.abs(values) > 1e-15 * np.abs(values).max(initial=0.0)
    sums = symmetric_vector((basis[:, None] + basis[None, :]).transpose(2, 0, 1))
    terms = np.einsum(
        "dqb,dr->qbr", sums, vectors[:, kept] * np.sqrt(np.abs(values[kept])), optimize=True
    )
    return QuadraticCost(np.ascontiguousarray(terms), np.sign(values[kept]))


def local_search(cost: QuadraticCost, starts: Iterable[np.ndarray]) -> np.ndarray:
    """The best permutation that steepest descent by exchanges of two reaches from `starts`.

    One step costs O(n^2 R); from a random start about n steps are taken.
    """
    best, least = None, np.inf
    for start in starts:
        permutation = start.copy()
        size = float(np.abs(cost(permutation)))
        while True:
            changes = cost.swaps(permutation)
            a, b = np.unravel_index(int(changes.argmin()), changes.shape)
            if changes[a, b] >= -1e-13 * size:
                break
            permutation[[a, b]] = permutation[[b, a]]
        reached = float(cost(permutation))
        if reached < least:
            best, least = permutation, reached
    assert best is not None
    return best
