"""Whittle-Matern fields along edges, of order 1 and 2: their exact sparse precision."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from graphrf._base import checks
from graphrf._base.cached import cached_property
from graphrf.gp.fields.kernel import FieldKernel
from graphrf.gp.metric.piece_precision import piece_precisions
from graphrf.gp.metric.subdivision import Subdivision
from graphrf.operators.sparse.cholesky import SparseCholesky
from graphrf.operators.sparse.ordering import Elimination
from graphrf.operators.sparse.row_products import row_products

ENDS = ("stationary", "free")
# How much larger than a field's energy Q may be: variances are then off by some thousandths, or
# some hundredths where thousands of places are so near to others.
_LOST = 2e13


@dataclass(frozen=True)
class EdgeStates:
    """The free variables of a field, which determine its states at the ends of all pieces.

    They are the values at all n vertices, and for order 2 the derivatives into all but one of the
    pieces at each vertex: Kirchhoff's condition gives the last. A stationary end of degree 1 keeps
    its derivative.
    """

    # (2 alpha m, free) values at first and at last ends of the m pieces, then derivatives
    basis: sp.csr_array
    derivatives: np.ndarray  # the vertex of each free derivative
    # u + (derivative into the endless rest) at stationary ends, of precision 1/2
    at_ends: sp.csr_array
    component: np.ndarray  # (n,) of each vertex
    indices: np.ndarray  # pattern of the precision, in which zeros keep their places
    indptr: np.ndarray
    sums: sp.csr_array  # (entries, 4 alpha^2 m) sums over the precisions of all pieces
    of_ends: np.ndarray  # (entries,) added by stationary ends

    @classmethod
    def of(cls, pieces: Subdivision, alpha: int, ends: str) -> EdgeStates:
        """The free variables of a field of this order."""
        n, m = pieces.n_nodes, pieces.src.size
        # The vertex of each end: the first ends of pieces, then the last.
        vertex = np.concatenate([pieces.src, pieces.dst])
        degree = np.bincount(vertex, minlength=n)
        endless = (
            np.flatnonzero(degree == 1) if ends == "stationary" else np.zeros(0, dtype=np.int64)
        )
        basis = sp.csr_array((np.ones(2 * m), (np.arange(2 * m), vertex)), shape=(2 * m, n))
        derivatives = np.zeros(0, dtype=np.int64)
        if alpha == 2:
            slopes, derivatives = _slopes(vertex, degree, ends)
            basis = sp.csr_array(sp.block_diag([basis, slopes], format="csr"))

        k = endless.size
        at_ends = sp.csr_array(
            (np.ones(k), (np.arange(k), endless)), shape=(k, n + derivatives.size)
        )
        if alpha == 2:
            columns = n + np.searchsorted(derivatives, endless)
            at_ends = sp.csr_array(
                at_ends - sp.csr_array((np.ones(k), (np.arange(k), columns)), shape=at_ends.shape)
            )

        joined = sp.csr_array((np.ones(m), (pieces.src, pieces.dst)), shape=(n, n))
        component = connected_components(joined, directed=False)[1]

        indices, indptr, sums = _pattern(basis, m)
        rows = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
        of_ends = 0.5 * np.asarray((at_ends.T @ at_ends)[rows, indices])
        return cls(basis, derivatives, at_ends, component, indices, indptr, sums, of_ends)

    def assembled(self, blocks: np.ndarray) -> sp.csr_array:
        """The sum of blocks of pieces, (m, 2 alpha, 2 alpha), in the pattern of all precisions."""
        n = self.basis.shape[1]
        return sp.csr_array((self.sums @ blocks.ravel(), self.indices, self.indptr), shape=(n, n))


class EdgePrecision:
    """Q of the values (and for order 2 derivatives) at the vertices of subdivided edges, for sigma
    = 1.

    Vertices of degree 1 are as if an endless edge went on (`ends="stationary"`), or have the
    derivative 0 ("free"). ValueError if Q is numerically singular.
    `graphrf.gp.metric.piece_precision` has the equations.
    """

    def __init__(self, pieces: Subdivision, kernel: FieldKernel, ends: str) -> None:
        self.pieces = pieces
        self.kernel = kernel
        self.states = EdgeStates.of(pieces, int(kernel.alpha), ends)
        self._elimination: list[Elimination] = []
        self._check_condition()

    def unconstrained(self, x: np.ndarray) -> np.ndarray:
        """x: there are no constraints."""
        return x

    def with_kernel(self, kernel: FieldKernel) -> EdgePrecision:
        """A copy with another range."""
        other = object.__new__(EdgePrecision)
        for name in ("pieces", "states", "_elimination"):
            setattr(other, name, getattr(self, name))
        other.kernel = kernel
        other._check_condition()
        return other

    @property
    def n_nodes(self) -> int:
        """Variables."""
        return int(self.states.basis.shape[1])

    @cached_property
    def matrix(self) -> sp.csr_array:
        """Q, shape (n, n)."""
        whole = self.states.assembled(self._blocks[0])
        whole.data += self.states.of_ends
        return whole

    def derivative(self, name: str) -> sp.csr_array:
        """The derivative of Q in the range."""
        assert name == "range"
        x = self.kernel.kappa * self.pieces.length
        return self.states.assembled((-x / self.kernel.range)[:, None, None] * self._blocks[1])

    @property
    def own_elimination(self) -> Elimination:
        """The order of elimination of Q."""
        if not self._elimination:
            self._elimination.append(Elimination.of(self.matrix))
        return self._elimination[0]

    def factor(self, weights: np.ndarray | float = 0.0) -> SparseCholesky:
        """The Cholesky factor of Q + diag(weights)."""
        matrix = self.matrix + sp.diags_array(np.broadcast_to(weights, self.n_nodes), format="csr")
        return SparseCholesky(sp.csr_array(matrix), self.own_elimination)

    def log_determinant(self) -> float:
        """log |Q|."""
        return self._own_factor.log_determinant

    def trace_of_derivative(self, name: str) -> float:
        """trace(Q^-1 dQ)."""
        return self._own_factor.trace(self.derivative(name))

    @cached_property
    def _own_factor(self) -> SparseCholesky:
        return self.factor()

    @cached_property
    def _blocks(self) -> tuple[np.ndarray, np.ndarray]:
        """The precisions of the pieces, and their derivatives."""
        return piece_precisions(self.kernel.kappa * self.pieces.length, int(self.kernel.alpha))

    def _check_condition(self) -> None:
        """Refuse a Q of which rounding, its diagonal times one ulp with random signs, is no longer
        small.

        It is compared with 1, or with the energy of a constant in a component (order 1) where this
        is less.
        """
        n, component = self.pieces.n_nodes, self.states.component
        ends = np.concatenate([self.pieces.src, self.pieces.dst])
        pieces = np.tile(0.5 * np.tanh(0.5 * self.kernel.kappa * self.pieces.length), 2)
        energy = np.bincount(component[ends], weights=pieces)
        stationary = np.bincount(component, weights=abs(self.states.at_ends[:, :n]).sum(axis=0))

        size = np.sqrt(np.bincount(component, weights=self.matrix.diagonal()[:n] ** 2))
        if not float((size / np.minimum(1.0, energy + 0.5 * stationary)).max()) < _LOST:
            raise checks.value_error(
                "range",
                f"{self.kernel.range:.3g} makes a precision that is numerically singular: pieces "
                f"of edges are {self.pieces.length.min():.3g} to {self.pieces.length.max():.3g} "
                "long; shorten the range, or join places and nodes that are so near",
            )


def _slopes(vertex: np.ndarray, degree: np.ndarray, ends: str) -> tuple[sp.csr_array, np.ndarray]:
    """The derivatives into the pieces, from those that are free, and the vertices of these."""
    order = np.argsort(vertex, kind="stable")
    at = vertex[order]
    last = np.append(at[1:] != at[:-1], True)
    free = ~last
    if ends == "stationary":  # the endless rest has the derivative that is not free
        free |= degree[at] == 1

    derivatives = at[free]
    closing = np.full(degree.size, -1)
    closing[at[last & ~free]] = order[last & ~free]
    whose = closing[derivatives]
    kept = np.flatnonzero(whose >= 0)

    rows, columns = (
        np.concatenate([order[free], whose[kept]]),
        np.concatenate([np.arange(free.sum()), kept]),
    )

    data = np.concatenate([np.ones(derivatives.size), -np.ones(kept.size)])
    return sp.csr_array((data, (rows, columns)), shape=(vertex.size, derivatives.size)), derivatives


def _pattern(basis: sp.csr_array, m: int) -> tuple[np.ndarray, np.ndarray, sp.csr_array]:
    """Indices and pointers of B^T D B for all block-diagonal D, and what its entries are of those
    of D.
    """
    d, n = basis.shape[0] // m, basis.shape[1]
    places = np.arange(m)[:, None] + m * np.arange(d)
    products = row_products(
        basis[np.repeat(places, d, axis=1).ravel()], basis[np.tile(places, d).ravel()]
    )

    keys, entry = np.unique(products.indices, return_inverse=True)
    of = np.repeat(np.arange(products.shape[0]), np.diff(products.indptr))
    sums = sp.csr_array((products.data, (entry, of)), shape=(keys.size, products.shape[0]))

    rows, columns = np.divmod(keys, n)
    return columns, np.searchsorted(rows, np.arange(n + 1)), sums


def _block_diagonal(blocks: np.ndarray) -> sp.csr_array:
    """Blocks of pieces as one matrix: state k of piece j is at k m + j."""
    m, d = blocks.shape[:2]
    places = np.arange(m)[:, None] + m * np.arange(d)
    rows, columns = np.repeat(places, d, axis=1).ravel(), np.tile(places, d).ravel()
    return sp.csr_array((blocks.ravel(), (rows, columns)), shape=(d * m, d * m))
