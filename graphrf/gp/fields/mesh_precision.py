r"""The sparse precision of a Whittle-Matern field at the vertices of a triangle mesh.

With the lumped mass C, the stiffness G and :math:`K = \kappa^2 C + G`,

.. math:: Q_1 = \tau^2 K, \quad Q_2 = \tau^2 K C^{-1} K, \quad
          Q_\alpha = K C^{-1} Q_{\alpha - 2} C^{-1} K, \qquad
          \log |Q_\alpha| = \alpha \log |K| - (\alpha - 1) \log |C| + V \log \tau^2,

so that determinants need a factor of K alone.

Source: Lindgren, Rue and Lindström 2011, "An explicit link between Gaussian fields and Gaussian
Markov random fields", Eq. 10.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp

from graphrf._base.cached import cached_property
from graphrf.gp.fields.elements import Elements
from graphrf.gp.fields.kernel import FieldKernel
from graphrf.operators.sparse.cholesky import SparseCholesky
from graphrf.operators.sparse.ordering import Elimination


class MeshMatrices:
    """The powers of G that precisions of one order are sums of, in one pattern."""

    def __init__(self, elements: Elements, alpha: int) -> None:
        self.alpha = alpha
        self.mass = elements.lumped_mass
        self.stiffness = elements.stiffness()
        diagonal, inverse = sp.diags_array(self.mass), sp.diags_array(1 / self.mass)
        powers = [sp.csr_array(diagonal), self.stiffness]
        while len(powers) <= alpha:
            powers.append(sp.csr_array(self.stiffness @ inverse @ powers[-1]))
        # The pattern of all: of the highest power and the diagonal.
        pattern = sp.csr_array(abs(powers[-1]) + diagonal + abs(self.stiffness))
        pattern.sort_indices()
        pattern.data[:] = 1.0
        self.pattern = pattern
        self.powers = [_in_pattern(power, pattern) for power in powers]

    @cached_property
    def elimination(self) -> Elimination:
        """The order of elimination of Q."""
        return Elimination.of(self.pattern)

    @cached_property
    def elimination_of_k(self) -> Elimination:
        """The order of elimination of K."""
        return Elimination.of(sp.csr_array(self.stiffness + sp.diags_array(self.mass)))


class MeshPrecision:
    """Q of the values at all V vertices, for standard deviation 1; a `Precision`."""

    def __init__(self, matrices: MeshMatrices, kernel: FieldKernel) -> None:
        self._matrices = matrices
        self.kernel = kernel

    def with_kernel(self, kernel: FieldKernel) -> MeshPrecision:
        """A copy with another range."""
        return MeshPrecision(self._matrices, kernel)

    @property
    def n_nodes(self) -> int:
        """V."""
        return int(self._matrices.mass.size)

    @cached_property
    def matrix(self) -> sp.csr_array:
        """Q, shape (V, V)."""
        return self._sum(self._coefficients)

    def derivative(self, name: str) -> sp.csr_array:
        """The derivative of Q in the range."""
        assert name == "range"
        alpha, powers = self._matrices.alpha, np.arange(self._matrices.alpha + 1)
        # d log kappa = - d log range, by which log tau^2 changes as -2 (alpha - d/2)
        slopes = self._coefficients * (2 * (alpha - powers - self.kernel.excess))
        return self._sum(-slopes / self.kernel.range)

    def log_determinant(self) -> float:
        """log |Q|."""
        alpha, mass = self.kernel.alpha, self._matrices.mass
        log_mass = float(np.log(mass).sum())
        own = self._factor_of_k.log_determinant
        return alpha * own - (alpha - 1) * log_mass + self.n_nodes * self.kernel.log_tau_squared

    def trace_of_derivative(self, name: str) -> float:
        """trace(Q^-1 dQ)."""
        assert name == "range"
        kappa, mass = self.kernel.kappa, self._matrices.mass
        trace = float(self._factor_of_k.inverse_diagonal @ mass)
        in_log_kappa = 2 * self.kernel.alpha * kappa**2 * trace
        in_log_kappa -= 2 * self.kernel.excess * self.n_nodes
        return -in_log_kappa / self.kernel.range

    @property
    def own_elimination(self) -> Elimination:
        """The order of elimination of Q."""
        return self._matrices.elimination

    def factor(self, weights: np.ndarray | float = 0.0) -> SparseCholesky:
        """The Cholesky factor of Q + diag(weights)."""
        added = sp.diags_array(np.broadcast_to(weights, self.n_nodes), format="csr")
        return SparseCholesky(sp.csr_array(self.matrix + added), self.own_elimination)

    def unconstrained(self, x: np.ndarray) -> np.ndarray:
        """x: there are no constraints."""
        return x

    @cached_property
    def _k(self) -> sp.csr_array:
        """kappa^2 C + G."""
        matrices = self._matrices
        diagonal = sp.diags_array(self.kernel.kappa**2 * matrices.mass)
        return sp.csr_array(matrices.stiffness + diagonal)

    @cached_property
    def _factor_of_k(self) -> SparseCholesky:
        return SparseCholesky(self._k, self._matrices.elimination_of_k)

    @property
    def _coefficients(self) -> np.ndarray:
        """Factors of C, G, G C^-1 G and so on, shape (alpha + 1,)."""
        alpha = self._matrices.alpha
        tau_squared = math.exp(self.kernel.log_tau_squared)
        return np.array(
            [
                tau_squared * math.comb(alpha, power) * self.kernel.kappa ** (2 * (alpha - power))
                for power in range(alpha + 1)
            ]
        )

    def _sum(self, factors: np.ndarray) -> sp.csr_array:
        pattern = self._matrices.pattern
        data = factors @ np.stack(self._matrices.powers)
        return sp.csr_array((data, pattern.indices, pattern.indptr), shape=pattern.shape)


def _in_pattern(matrix: sp.csr_array, pattern: sp.csr_array) -> np.ndarray:
    """Entries of a matrix at those of a pattern that has all of its own."""
    result = np.zeros(pattern.nnz)
    result[np.searchsorted(_keys(pattern), _keys(matrix))] = matrix.data
    return result


def _keys(matrix: sp.csr_array) -> np.ndarray:
    """A number for each entry, by rows and columns."""
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return np.asarray(rows * matrix.shape[1] + matrix.indices)
