r"""The Whittle-Matern field of order 1 along edges: its sparse precision at the vertices, exact.

The field u solves (1 / l^2 - \Delta)^{1/2} (\tau u) = W on every edge, is continuous, and its derivatives out of a
vertex sum to 0 (Kirchhoff). Its density is exp(-E / 2) with the energy

.. math:: E = \tau^2 \sum_e \int_0^{d_e} \big( u^2 / l^2 + u'^2 \big) \, dt .

Given the values a and b at the ends of an edge of length d = x l, the least energy of the edge is

.. math:: \frac{1}{\sigma^2} \Big[ w (a - b)^2 + h (a^2 + b^2) \Big], \quad
          w = \frac{1}{2 \sinh x}, \quad h = \tfrac12 \tanh \tfrac x2, \quad \sigma^2 = \frac{l}{2 \tau^2},

and what is left is independent of the values at the vertices. So the precision at the vertices is the sum of these
forms over all edges. Cutting an edge at a vertex of degree 2 changes nothing for the others, and a path has the
covariance \sigma^2 exp(-|s - t| / l) of the Ornstein-Uhlenbeck process but for its ends: nothing is asked of u
there, so that its derivative is 0 and its variance doubles. An endless edge beyond an end of degree 1 adds
a^2 / 2: with that the process is stationary there.

Source: Bolin, Simas and Wallin 2024, "Gaussian Whittle-Matern fields on metric graphs" (Bernoulli), for alpha = 1;
derived here by the energy.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from graphrf._base import checks
from graphrf._base.cached import cached_property
from graphrf.gp.metric.pieces import Pieces
from graphrf.operators.sparse.cholesky import SparseCholesky
from graphrf.operators.sparse.ordering import Elimination

ENDS = ("stationary", "free")


@dataclass(frozen=True)
class EdgeKernel:
    """exp(-d / lengthscale) along an endless edge."""

    lengthscale: float
    shares: ClassVar[tuple[str, ...]] = ()

    @property
    def hyperparameters(self) -> dict[str, float]:
        """The lengthscale, by name."""
        return {"lengthscale": self.lengthscale}

    def replace(self, **changes: float) -> EdgeKernel:
        """A copy with another lengthscale."""
        return dataclasses.replace(self, **changes)


class EdgePrecision:
    """Q at the vertices of cut edges, in units of 1 / sigma^2: a `Precision`.

    Parameters
    ----------
    pieces : Pieces
    kernel : EdgeKernel
    ends : "stationary" or "free"
        What holds at vertices of degree 1.

    Raises
    ------
    ValueError
        If Q is numerically singular.
    """

    def __init__(self, pieces: Pieces, kernel: EdgeKernel, ends: str) -> None:
        self.pieces = pieces
        self.kernel = kernel
        m, n = pieces.src.size, pieces.n_nodes
        ones, every = np.ones(m), np.arange(m)
        places = np.concatenate([pieces.src, pieces.dst]), np.concatenate([every, every])
        self._incidence = sp.csr_array((np.concatenate([ones, -ones]), places), shape=(n, m))
        degrees = np.bincount(places[0], minlength=n)
        self._beyond = np.where(degrees == 1, 0.5 if ends == "stationary" else 0.0, 0.0)
        self._elimination: list[Elimination] = []
        self._check_condition()

    def unconstrained(self, x: np.ndarray) -> np.ndarray:
        """x: there are no constraints."""
        return x

    def with_kernel(self, kernel: EdgeKernel) -> EdgePrecision:
        """A copy with another lengthscale."""
        other = object.__new__(EdgePrecision)
        for name in ("pieces", "_incidence", "_beyond", "_elimination"):
            setattr(other, name, getattr(self, name))
        other.kernel = kernel
        other._check_condition()
        return other

    @property
    def n_nodes(self) -> int:
        """Vertices."""
        return self.pieces.n_nodes

    @cached_property
    def matrix(self) -> sp.csr_array:
        """Q, shape (n, n)."""
        between, own = self._parts
        return self._assembled(between, self._at_vertices(own) + self._beyond)

    def derivative(self, name: str) -> sp.csr_array:
        """The derivative of Q in the lengthscale."""
        assert name == "lengthscale"
        x = self.pieces.length / self.kernel.lengthscale
        slope = -x / self.kernel.lengthscale
        small = np.exp(-x)
        between = -small * (1 + small**2) / np.square(np.expm1(-2 * x))
        own = small / np.square(1 + small)
        return self._assembled(slope * between, self._at_vertices(slope * own))

    def factor(self, weights: np.ndarray | float = 0.0) -> SparseCholesky:
        """The Cholesky factor of Q + diag(weights)."""
        matrix = self.matrix + sp.diags_array(np.broadcast_to(weights, self.n_nodes), format="csr")
        if not self._elimination:
            self._elimination.append(Elimination.of(self.matrix))
        return SparseCholesky(sp.csr_array(matrix), self._elimination[0])

    def log_determinant(self) -> float:
        """log |Q|."""
        return self._own_factor.log_determinant

    def trace_of_derivative(self, name: str) -> float:
        """trace(Q^-1 dQ)."""
        return self._own_factor.trace(self.derivative(name))

    def draws(self, z: np.ndarray) -> np.ndarray:
        """Draws from N(0, Q^-1) of standard normals z of shape (n, p)."""
        return self._own_factor.root(z)

    def covariance(self, vertices: np.ndarray) -> np.ndarray:
        """Q^-1 between some vertices, dense."""
        return self._own_factor.inverse_between(vertices)

    @property
    def root_size(self) -> int:
        """Columns of the matrix R with R R^T = Q that `root` has."""
        return self.n_nodes + self.pieces.src.size

    def root(self, z: np.ndarray) -> np.ndarray:
        """R z for z of shape (root_size, p): R = (diag(h)^{1/2}, E diag(w)^{1/2})."""
        between, own = self._parts
        h, n = self._at_vertices(own) + self._beyond, self.n_nodes
        return np.asarray(np.sqrt(h)[:, None] * z[:n] + self._incidence @ (np.sqrt(between)[:, None] * z[n:]))

    @cached_property
    def _own_factor(self) -> SparseCholesky:
        return self.factor()

    @property
    def _parts(self) -> tuple[np.ndarray, np.ndarray]:
        """w and h of every piece."""
        x = self.pieces.length / self.kernel.lengthscale
        return np.exp(-x) / -np.expm1(-2 * x), 0.5 * np.tanh(0.5 * x)

    def _at_vertices(self, values: np.ndarray) -> np.ndarray:
        """Values of pieces, added up at both ends of each."""
        both = np.concatenate([self.pieces.src, self.pieces.dst])
        return np.bincount(both, weights=np.concatenate([values, values]), minlength=self.n_nodes)

    def _assembled(self, between: np.ndarray, own: np.ndarray) -> sp.csr_array:
        """E diag(between) E^T + diag(own)."""
        product = self._incidence @ sp.diags_array(between, format="csr") @ self._incidence.T
        return sp.csr_array(product + sp.diags_array(own, format="csr"))

    def _check_condition(self) -> None:
        between, own = self._parts
        h = self._at_vertices(own) + self._beyond
        spread = float((h + 2 * self._at_vertices(between)).max() / h.min())
        if not spread < 1e14:  # the condition number of Q from which nothing is left of variances
            raise checks.value_error(
                "lengthscale",
                f"{self.kernel.lengthscale:.3g} makes a precision that is numerically singular: pieces of edges "
                f"are {self.pieces.length.min():.3g} to {self.pieces.length.max():.3g} long; shorten the "
                "lengthscale, or join places and nodes that are so near",
            )
