r"""Random projections of the quadratic matching problem: Eq. 62 and Lemma C.2 of the paper.

Both project the vectors u_{ab} = sum_i vec[(v_a + v_b) (v_a + v_b)^T], v_a = psi^(a)_i (Eq. 60,
summed over all nodes, so that the squared norm of sum_q u_{q sigma(q)} is Eq. 55 summed over all
node pairs, i = j included). The sum over nodes is the matrix (h_a + h_b)(W)^2, so that in the
eigenvectors of W, where Gaussian vectors stay Gaussian, a projection g^T (h_a + h_b)(W)^2 h is
sum_lambda g_lambda h_lambda (h_a + h_b)(lambda)^2. Where the spectrum is known by quadrature points
instead, these take the place of the eigenvalues.
"""

from __future__ import annotations

import numpy as np

from graphrf.couplings.linear import solve_linear
from graphrf.couplings.quadratic import QuadraticCost, quadratic_form, symmetric_vector, tile_basis

# Projections drawn at a time.
_BLOCK = 2_048


def projected_form(
    spectra: np.ndarray, weights: np.ndarray, projections: int, rng: np.random.Generator
) -> QuadraticCost:
    """Eq. 55 averaged over all node pairs, estimated by `projections` random projections (Eq. 62).

    The paper's Gaussian matrix has N^2 columns; in its factored form a row is the product of two
    independent Gaussian vectors, (g . v)(h . v), which is as unbiased. The estimate of cost(sigma)
    has the relative variance (2 + 6 tr B^4 / (tr B^2)^2) / projections, B = sum_q
    (h_q + h_sigma(q))(W)^2, between 2 and 8 over the number of projections.
    """
    basis = tile_basis(spectra)
    squares = np.sqrt(weights) * symmetric_vector(basis.T @ spectra)
    matrix = np.zeros((squares.shape[0],) * 2)
    for first in range(0, projections, _BLOCK):
        shape = (min(_BLOCK, projections - first), weights.size)
        projected = (rng.standard_normal(shape) * rng.standard_normal(shape)) @ squares.T
        matrix += projected.T @ projected
    return quadratic_form(basis, matrix / projections)


def projection_candidates(
    spectra: np.ndarray, weights: np.ndarray, count: int, rng: np.random.Generator
) -> np.ndarray:
    """Permutations that minimise sum_q u_{q sigma(q)} . g for random g, shape (count, order).

    After Lemma C.2 of the paper. As printed it does not hold: a matching of least weight minimises
    the signed sum and not its size, and all these sums are nearly parallel, so that the separation
    which it asks for is empty. So these are candidates, to be judged by the true cost. Here g = h
    h^T with h Gaussian: no weight is negative.
    """
    found = []
    for _ in range(count):
        squares = weights * rng.standard_normal(weights.size) ** 2
        # (h_a + h_b)^2 but for h_a^2 and h_b^2, which every permutation adds up alike.
        found.append(solve_linear((spectra * squares) @ spectra.T))
    return np.array(found)
