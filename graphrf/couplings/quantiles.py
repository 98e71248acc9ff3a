r"""Direction-averaged features of the quantiles of a distribution of lengths, exactly.

Averaged over the q-th of n equal quantiles ("tiles"), q = 1 .. n, the features of a walk of length
l, sum_{k<=l} f_k / S(k) (W^k)_i., are (Eqs. 52 and 54 of the paper)

.. math:: \psi^{(q)}_i = \sum_k c_q(k) (W^k)_{i\cdot}, \qquad c_q(k) = \frac{f_k}{S(k)} w_q(k),
    \qquad
          w_q(k) = P(\text{length} \ge k \mid \text{tile } q) = \mathrm{clip}(q - n (1 - S(k)), 0,
          1).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from graphrf.sampling.walks.lengths import Survival

# Floats of a block of sparse products (128 MiB).
_BLOCK_FLOATS = 2**24


def tile_survival(survival: Survival, order: int) -> np.ndarray:
    """w_q(k) = P(length >= k | tile q), shape (order, K + 1); its mean over tiles is S(k)."""
    tiles = np.arange(1, order + 1)[:, None]
    return np.clip(tiles - order * (1.0 - survival.table[None, :]), 0.0, 1.0)


def tile_modulations(modulation: np.ndarray, survival: Survival, order: int) -> np.ndarray:
    """The modulation c_q(k) of each tile, (order, K + 1), without last columns of rounding."""
    coefficients = tile_survival(survival, order) * (modulation / survival.table)
    size = np.abs(coefficients).max(axis=0)
    matters = np.flatnonzero(size > 1e-14 * size.sum())
    return coefficients[:, : int(matters[-1]) + 1] if matters.size else coefficients[:, :1]


def tile_spectra(coefficients: np.ndarray, eigenvalues: np.ndarray) -> np.ndarray:
    """h_q(lambda) = sum_k c_q(k) lambda^k at eigenvalues of W, shape (order, eigenvalues)."""
    return np.polynomial.polynomial.polyval(eigenvalues, coefficients.T)


def tile_products(
    coefficients: np.ndarray,
    walk_matrix: sp.csr_array,
    sources: np.ndarray,
    targets: np.ndarray,
    block_floats: int = _BLOCK_FLOATS,
) -> np.ndarray:
    """psi^(a)_i . psi^(b)_j for pairs (i, j) of sources and targets, shape (n_pairs, order, order).

    Since W is symmetric, this is sum_{k,l} c_a(k) c_b(l) (W^{k+l})_ij: 2 K sparse products with
    n_pairs columns.
    """
    n, order = walk_matrix.shape[0], coefficients.shape[0]
    products = np.empty((sources.size, order, order))
    width = max(1, block_floats // n)
    for first in range(0, sources.size, width):
        block = slice(first, first + width)
        products[block] = _block_products(coefficients, walk_matrix, sources[block], targets[block])
    return products


def _block_products(
    coefficients: np.ndarray, walk_matrix: sp.csr_array, sources: np.ndarray, targets: np.ndarray
) -> np.ndarray:
    length = coefficients.shape[1]
    columns = np.arange(sources.size)
    powers = np.empty((sources.size, 2 * length - 1))
    vectors = np.zeros((walk_matrix.shape[0], sources.size))
    vectors[sources, columns] = 1.0
    for k in range(powers.shape[1]):
        powers[:, k] = vectors[targets, columns]
        if k + 1 < powers.shape[1]:
            vectors = walk_matrix @ vectors
    hankel = powers[:, np.arange(length)[:, None] + np.arange(length)]
    return np.asarray(coefficients @ hankel @ coefficients.T)
