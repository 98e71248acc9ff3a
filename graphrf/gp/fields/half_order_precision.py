r"""The sparse precision of a Whittle-Matern field of order 3/2 or 5/2 at the vertices of a mesh.

With n = 1 or 2, the lumped mass C, the stiffness G and :math:`B = C^{-1/2} (\kappa^2 C + G)
C^{-1/2}`, the field of order n + 1/2 has the covariance :math:`C^{-1/2} B^{-n} B^{-1/2} C^{-1/2} /
\tau^2`. The inverse square root is replaced by the best sum of m resolvents on the spectrum of B,

.. math:: x^{-1/2} \approx \sum_{i=1}^m \frac{w_i}{x + s_i} = b\, e_1^\top (T + x I)^{-1} e_1,
          \quad w_i, s_i > 0,

so that the field is the sum of m independent fields with the sparse precisions :math:`\tau^2
C^{1/2} B^n (B + s_i I) C^{1/2} / w_i`. In the coordinates that make T tridiagonal (`RootChain`),
these are the field itself and m - 1 hidden ones, with the joint precision

.. math:: Q_{jj} = \frac{\tau^2}{b} (K_{p_j + 1} + T_{jj} K_{p_j}), \quad
          Q_{j,j+1} = \frac{\tau^2}{b} T_{j,j+1} K_{(p_j + p_{j+1}) / 2}, \quad
          K_r = C^{1/2} B^r C^{1/2},

p_1 = n, and 1 or 0 for hidden fields as n is odd or even. Q is congruent to :math:`T \otimes I + I
\otimes B` times powers of B, which is positive definite because T and B are.

The covariance has the eigenvectors of the exact one, and eigenvalues within a share e of its own:
e is the largest relative error of the sum of resolvents, about 4 exp(-2 pi^2 m / log(16 R)) for the
ratio R of the ends of the spectrum. So no variance of a linear combination of values errs by more
than e, in the prior and in any posterior given values with noise:

| R | m = 2 | m = 3 | m = 4 |
|---|---|---|---|
| 1e3 | .068 | .009 | .001 |
| 1e4 | .15 | .029 | .006 |
| 1e5 | .25 | .063 | .016 |
| 1e6 | .36 | .11 | .034 |

Variances of the prior average errors of both signs: for order 3/2 theirs are .01, .001 and 2e-4
for R = 1e3, and .02, .004 and .001 for 1e4. An approximation for these alone, right where most of
the variance is and not at high frequencies, as in the source, has a prior within .005 for m = 2;
but deviations between observations at distances of a thirtieth of the range are off by 30 %.

Sources: Bolin, Simas and Xiong 2023, "Covariance-based rational approximations of fractional SPDEs
for computationally efficient Bayesian inference"; Zolotarev 1877 for the sum.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp

from graphrf._base.cached import cached_property
from graphrf.gp.fields.elements import Elements
from graphrf.gp.fields.kernel import FieldKernel
from graphrf.gp.fields.mesh_precision import MeshMatrices
from graphrf.operators.precision.root_chain import RootChain, layers_needed
from graphrf.operators.sparse.cholesky import SparseCholesky
from graphrf.operators.sparse.ordering import Elimination

# The largest relative error of a standard deviation at the range that a search begins with. Those
# between dense observations come near to it, those of the prior are a third of it or less
# (benchmarks/half_integers.py). Four fields in place of three would double the factor.
_LARGEST_ERROR = 0.035


class HalfOrderMatrices:
    """The powers of G that precisions of one order are sums of, by degree, and the number of
    fields.

    `start` is the range for which the number of fields is chosen; it is one number for all ranges,
    so that likelihoods are smooth functions.
    """

    def __init__(self, elements: Elements, alpha: float, start: float) -> None:
        highest = math.ceil(alpha)
        self.linear = MeshMatrices(elements, 1)
        self.highest = MeshMatrices(elements, highest)
        self.mass = self.linear.mass
        # Gershgorin's bound of the largest eigenvalue of C^-1 G
        self.end = float((abs(self.linear.stiffness).sum(axis=1) / self.mass).max())
        low = FieldKernel(start, alpha, 2).kappa ** 2
        self.n_fields = layers_needed(1 + self.end / low, _LARGEST_ERROR)
        self.degrees = (highest - 1, *[(highest - 1) % 2] * (self.n_fields - 1))
        self.orders: list[Elimination] = []  # of elimination of Q, once it is asked for


class HalfOrderPrecision:
    """Q of the values at all V vertices and of m - 1 hidden fields, for standard deviation 1.

    With observations, a factor holds 3.7 (m = 2) or 8 times (m = 3) as many numbers as one of order
    2 where the order is 3/2, and 3.5 or 6 times where it is 5/2.

    Examples
    --------
    >>> from graphrf.gp import TriangleMesh
    >>> from graphrf.gp.fields.half_order_precision import HalfOrderMatrices, HalfOrderPrecision
    >>> from graphrf.gp.fields.kernel import FieldKernel
    >>> mesh = TriangleMesh.from_points([[0, 0], [9, 0], [9, 9], [0, 9]], max_edge=2.0)
    >>> matrices = HalfOrderMatrices(mesh.elements, 1.5, start=4.0)
    >>> precision = HalfOrderPrecision(matrices, FieldKernel(4.0, 1.5, 2))
    >>> precision.n_nodes // mesh.n_vertices
    2
    """

    def __init__(self, matrices: HalfOrderMatrices, kernel: FieldKernel) -> None:
        self._matrices = matrices
        self.kernel = kernel

    def with_kernel(self, kernel: FieldKernel) -> HalfOrderPrecision:
        """A copy with another range."""
        return HalfOrderPrecision(self._matrices, kernel)

    @property
    def n_nodes(self) -> int:
        """V m; the first V variables are the values at vertices."""
        return int(self._matrices.mass.size) * self._matrices.n_fields

    @cached_property
    def matrix(self) -> sp.csr_array:
        """Q, shape (V m, V m)."""
        return self._assembled(self._chain.tridiagonal, derivative=False)

    def derivative(self, name: str) -> sp.csr_array:
        """The derivative of Q in the range."""
        assert name == "range"
        _, slopes, log_scale = self._chain_slopes
        change = self._assembled(slopes, derivative=True)
        factor = -2 * self.kernel.nu - log_scale
        return sp.csr_array(-(change + factor * self.matrix) / self.kernel.range)

    def log_determinant(self) -> float:
        """log |Q|, from factors of K + s C."""
        mass, powers = self._matrices.mass, sum(self._matrices.degrees)
        total = sum(self._shifted(pole).log_determinant for pole in self._chain.poles)
        total += powers * (self._shifted(0.0).log_determinant - float(np.log(mass).sum()))
        return total + self.n_nodes * math.log(self._scale)

    def trace_of_derivative(self, name: str) -> float:
        """trace(Q^-1 dQ)."""
        assert name == "range"
        slopes, _, log_scale = self._chain_slopes
        change = 2 * self.kernel.kappa**2  # of kappa^2 with log kappa
        mass, powers = self._matrices.mass, sum(self._matrices.degrees)

        total = -(2 * self.kernel.nu + log_scale) * self.n_nodes
        for pole, slope in zip(self._chain.poles, slopes, strict=True):
            total += (change + slope) * float(self._shifted(pole).inverse_diagonal @ mass)
        total += powers * change * float(self._shifted(0.0).inverse_diagonal @ mass)
        return -total / self.kernel.range

    @property
    def own_elimination(self) -> Elimination:
        """The order of elimination of Q."""
        orders = self._matrices.orders
        if not orders:
            orders.append(Elimination.of(self.matrix))
        return orders[0]

    def factor(self, weights: np.ndarray | float = 0.0) -> SparseCholesky:
        """The Cholesky factor of Q + diag(weights)."""
        added = sp.diags_array(np.broadcast_to(weights, self.n_nodes), format="csr")
        return SparseCholesky(sp.csr_array(self.matrix + added), self.own_elimination)

    def unconstrained(self, x: np.ndarray) -> np.ndarray:
        """x: there are no constraints."""
        return x

    @cached_property
    def _chain(self) -> RootChain:
        low = self.kernel.kappa**2
        return RootChain.of(low, low + self._matrices.end, self._matrices.n_fields)

    @cached_property
    def _chain_slopes(self) -> tuple[np.ndarray, np.ndarray, float]:
        """Derivatives of the poles, of T and of log b in log kappa."""
        low = self.kernel.kappa**2
        return self._chain.slopes(low, low + self._matrices.end, 2 * low, 2 * low)

    @property
    def _scale(self) -> float:
        """tau^2 / b."""
        return math.exp(self.kernel.log_tau_squared) / self._chain.scale

    def _shifted(self, shift: float) -> SparseCholesky:
        """The factor of K + s C."""
        if shift not in self._factors:
            linear = self._matrices.linear
            diagonal = sp.diags_array((self.kernel.kappa**2 + shift) * linear.mass)
            matrix = sp.csr_array(linear.stiffness + diagonal)
            self._factors[shift] = SparseCholesky(matrix, linear.elimination_of_k)
        return self._factors[shift]

    @cached_property
    def _factors(self) -> dict[float, SparseCholesky]:
        return {}

    def _assembled(self, tridiagonal: np.ndarray, *, derivative: bool) -> sp.csr_array:
        """Q for T, or the part of its derivative in log kappa where T changes by `tridiagonal`."""
        degrees, m = self._matrices.degrees, self._matrices.n_fields
        own = self._chain.tridiagonal
        blocks: list[list[sp.csr_array | None]] = [[None] * m for _ in range(m)]
        for j in range(m):
            for k in range(max(j - 1, 0), min(j + 2, m)):
                between = (degrees[j] + degrees[k]) // 2
                factors = tridiagonal[j, k] * self._power(between)
                if derivative:
                    factors = factors + own[j, k] * self._slope(between)
                if j == k:
                    highest = degrees[j] + 1
                    added = self._slope(highest) if derivative else self._power(highest)
                    factors = np.append(factors, 0.0) + added
                blocks[j][k] = self._polynomial(self._scale * factors)
        return sp.csr_array(sp.block_array(blocks, format="csr"))

    def _power(self, degree: int) -> np.ndarray:
        """Factors of C, G, G C^-1 G and so on in K_r."""
        low = self.kernel.kappa**2
        return np.array([math.comb(degree, j) * low ** (degree - j) for j in range(degree + 1)])

    def _slope(self, degree: int) -> np.ndarray:
        """The derivatives of these factors in log kappa."""
        return self._power(degree) * 2 * (degree - np.arange(degree + 1))

    def _polynomial(self, factors: np.ndarray) -> sp.csr_array:
        """A sum of C, G, G C^-1 G and so on, in the pattern of the last."""
        matrices = self._matrices
        if factors.size == 1:
            return sp.csr_array(sp.diags_array(factors[0] * matrices.mass, format="csr"))
        powers = matrices.linear if factors.size == 2 else matrices.highest
        pattern, data = powers.pattern, factors @ np.stack(powers.powers)
        return sp.csr_array((data, pattern.indices, pattern.indptr), shape=pattern.shape)
