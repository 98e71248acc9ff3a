r"""Precisions of fields whose range, deviation or directions differ between places.

With the diffusion H and the share r of the range in each triangle, and with :math:`\kappa_i` and
:math:`\tau_i` at each vertex i,

.. math:: Q_\alpha = T K (N^{-1} K)^{\alpha - 1} T, \quad
          K = \operatorname{diag}(\kappa^2) C + G, \quad T = \operatorname{diag}(\tau), \quad
          G_{ij} = \int r^2 \nabla \psi_i^\top H \nabla \psi_j, \quad N_{ii} = \int r^2 \psi_i,

C being the lumped mass. Where r = 1, H = I and :math:`\kappa` and :math:`\tau` are constant, this
is the precision of `MeshPrecision`.

Sources: Lindgren, Rue and Lindström 2011, "An explicit link between Gaussian fields and Gaussian
Markov random fields", Sec. 3.2 (:math:`\kappa` and :math:`\tau`); Fuglstad, Lindgren, Simpson and
Rue 2015, "Exploring a new class of non-stationary spatial Gaussian random fields with varying local
anisotropy" (H); Bakka, Vanhatalo, Illian, Simpson and Rue 2019, "Non-stationary Gaussian models
with physical barriers" (r, for order 2), whose equation in the range is this one for
:math:`\kappa = \sqrt 8 / \mathrm{range}`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from graphrf._base.cached import cached_property
from graphrf.gp.fields.elements import Elements
from graphrf.gp.fields.kernel import FieldKernel
from graphrf.operators.sparse.cholesky import SparseCholesky
from graphrf.operators.sparse.ordering import Elimination

# The entries (1, 1), (1, 2) and (2, 1), and (2, 2) of H.
_ENTRIES = np.array([[[1.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]]])


class Coefficients(NamedTuple):
    """The coefficients of the equation of a field, or their derivatives in a hyperparameter."""

    diffusion: np.ndarray  # the entries 11, 12 and 22 of H, shape (3,); or (1,), a factor of I
    log_range: np.ndarray  # at vertices, shape (V,)
    log_deviation: np.ndarray  # at vertices, shape (V,)


class VaryingMatrices:
    """The parts of K and the patterns of K and Q, which are the same for all coefficients.

    `shares`, of shape (T,), are ranges of triangles in units of that of the field.
    """

    def __init__(
        self,
        elements: Elements,
        alpha: int,
        *,
        anisotropic: bool = False,
        shares: np.ndarray | None = None,
    ) -> None:
        squares = np.ones(len(elements.areas)) if shares is None else np.square(shares)
        diffusions = (
            squares[:, None, None] * _ENTRIES[:, None] if anisotropic else squares[None]
        )  # of shape (3, T, 2, 2) or (1, T)
        parts = [elements.stiffness(diffusion) for diffusion in diffusions]

        self.alpha, self.mass, self.noise = alpha, elements.lumped_mass, elements.lumped(squares)
        self.stiffness = np.stack([part.data for part in parts])
        # Entries that are 0 for some coefficients and not for others belong to the patterns.
        ones = np.ones(parts[0].nnz)
        self.pattern = sp.csr_array((ones, parts[0].indices, parts[0].indptr), parts[0].shape)
        self.pattern_of_q = self.pattern
        for _ in range(alpha - 1):
            self.pattern_of_q = sp.csr_array(self.pattern_of_q @ self.pattern)
        self.pattern_of_q.sort_indices()
        self.rows, self.columns = _places(self.pattern_of_q)
        self._keys = self.rows * len(self.mass) + self.columns
        rows, columns = _places(self.pattern)
        self.diagonal = np.flatnonzero(rows == columns)

    @cached_property
    def elimination(self) -> Elimination:
        """The order of elimination of K."""
        return Elimination.of(self.pattern)

    def k(self, diffusion: np.ndarray, diagonal: np.ndarray) -> sp.csr_array:
        """G for H of these entries, with a diagonal added."""
        data = diffusion @ self.stiffness
        data[self.diagonal] += diagonal
        return sp.csr_array((data, self.pattern.indices, self.pattern.indptr), self.pattern.shape)

    def in_pattern(self, matrix: sp.csr_array) -> np.ndarray:
        """The entries of a matrix in the pattern of Q, whose own zeros may be left out."""
        rows, columns = _places(matrix)
        result = np.zeros(self._keys.size)
        result[np.searchsorted(self._keys, rows * len(self.mass) + columns)] = matrix.data
        return result

    def of(self, data: np.ndarray) -> sp.csr_array:
        """The matrix with the pattern of Q and these entries."""
        pattern = self.pattern_of_q
        return sp.csr_array((data, pattern.indices, pattern.indptr), pattern.shape)


class VaryingPrecision:
    """Q of the values at all V vertices, and its derivatives along changes of coefficients."""

    def __init__(
        self, matrices: VaryingMatrices, coefficients: Coefficients, dimension: int = 2
    ) -> None:
        # A kernel of range 1 has kappa and tau in units of powers of the range.
        kernel = FieldKernel(1.0, matrices.alpha, dimension)
        length, self._excess = coefficients.log_range, kernel.excess
        self._matrices = matrices
        self._reaction = kernel.kappa**2 * np.exp(-2 * length) * matrices.mass
        self._log_tau = (
            0.5 * kernel.log_tau_squared + kernel.excess * length - coefficients.log_deviation
        )
        self._k = matrices.k(coefficients.diffusion, self._reaction)

    @cached_property
    def matrix(self) -> sp.csr_array:
        """Q, shape (V, V)."""
        return self._scaled(self._matrices.in_pattern(self._product([self._k] * self._order)))

    def log_determinant(self) -> float:
        """log |Q|."""
        log_noise = float(np.log(self._matrices.noise).sum())
        untouched = self._order * self._factor.log_determinant - (self._order - 1) * log_noise
        return untouched + 2 * float(self._log_tau.sum())

    def derivative(self, change: Coefficients) -> sp.csr_array:
        """The derivative of Q along a change of the coefficients."""
        of_k, of_tau = self._change_of_k(change), self._change_of_tau(change)
        total = np.zeros(self.matrix.nnz)
        for place in range(self._order):
            factors = [self._k] * self._order
            factors[place] = of_k
            total += self._matrices.in_pattern(self._product(factors))

        rows, columns = self._matrices.rows, self._matrices.columns
        result = self._scaled(total)
        result.data += self.matrix.data * (of_tau[rows] + of_tau[columns])
        return result

    def trace_of_derivative(self, change: Coefficients) -> float:
        """The derivative of log |Q|."""
        trace = self._factor.trace(self._change_of_k(change))
        return self._order * trace + 2 * float(self._change_of_tau(change).sum())

    @property
    def _order(self) -> int:
        return self._matrices.alpha

    @cached_property
    def _factor(self) -> SparseCholesky:
        return SparseCholesky(self._k, self._matrices.elimination)

    def _change_of_k(self, change: Coefficients) -> sp.csr_array:
        # d log kappa = - d log range
        return self._matrices.k(change.diffusion, -2 * self._reaction * change.log_range)

    def _change_of_tau(self, change: Coefficients) -> np.ndarray:
        """The change of log tau."""
        return self._excess * change.log_range - change.log_deviation

    def _product(self, factors: list[sp.csr_array]) -> sp.csr_array:
        """Symmetric matrices multiplied, with N^-1 between them."""
        inverse = sp.diags_array(1 / self._matrices.noise)
        result = factors[0]
        for factor in factors[1:]:
            result = sp.csr_array(result @ inverse @ factor)
        return result

    def _scaled(self, data: np.ndarray) -> sp.csr_array:
        """T A T for a matrix A in the pattern of Q."""
        tau = np.exp(self._log_tau)
        return self._matrices.of(data * tau[self._matrices.rows] * tau[self._matrices.columns])


def _places(matrix: sp.csr_array) -> tuple[np.ndarray, np.ndarray]:
    """The row and column of each entry."""
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return rows, matrix.indices.astype(np.int64)
