"""The prior of a term's variables: a sparse precision, and the sums that are zero."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import qr

from graphrf.gp.search.coordinates import Parameter
from graphrf.operators.sparse.cholesky import SparseCholesky
from graphrf.operators.sparse.ordering import Elimination
from graphrf.operators.sparse.row_products import row_products

Values = Mapping[str, float]
# The step of central differences, in coordinates of hyperparameters: truncation and rounding are
# below 1e-7 of a derivative, and for matrices near singular below 1e-4.
_STEP = 5e-3
# Variables up to which the constraints of one factor of a product leave by `Contrasts`.
_SMALL = 1_000


class Structure:
    """N(0, Q^-1) of n variables where C x = 0, as a function of hyperparameters; a base class."""

    size: int  # n
    parameters: tuple[Parameter, ...] = ()
    constraints: sp.csr_array  # C, (k, n) of full rank
    # (n, n) precision of a wide prior on the subspace's null directions of Q, independent of the
    # deviation
    flat: sp.csr_array | None = None
    n_flat: int = 0  # the number of these directions

    _elimination: Elimination | None = None

    def precision(self, values: Values) -> sp.csr_array:
        """A positive definite matrix, equal to Q where the constraints hold, in one pattern."""
        raise NotImplementedError

    def log_determinant(self, values: Values) -> float:
        """log |Q| on the subspace, with what is flat."""
        matrix = self.precision(values)
        if self.flat is not None:
            matrix = sp.csr_array(matrix + self.flat)
        if self._elimination is None:
            self._elimination = Elimination.of(matrix)
        factor = SparseCholesky(matrix, self._elimination)
        return factor.log_determinant + log_volume(factor, self.constraints)

    def slopes(self, values: Values, parameter: Parameter) -> tuple[sp.csr_array, float]:
        """The derivatives of Q and log |Q| in a coordinate, by differences of fourth order."""
        x = parameter.coordinate(values[parameter.name])
        matrix, change = sp.csr_array((self.size, self.size)), 0.0

        for away, weight in ((1, 8.0), (-1, -8.0), (2, -1.0), (-2, 1.0)):
            at = {**values, parameter.name: parameter.value(x + away * _STEP)}
            matrix = matrix + weight / (12 * _STEP) * self.precision(at)
            change += weight / (12 * _STEP) * self.log_determinant(at)

        return sp.csr_array(matrix), change

    def derived(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Quantities besides the hyperparameters that a summary has, for values of these of shape
        (n,).
        """
        return {}

    @property
    def starts(self) -> dict[str, float]:
        """Hyperparameters that a search begins with."""
        return {each.name: each.start for each in self.parameters}

    @property
    def free(self) -> int:
        """The dimension of the subspace."""
        return self.size - self.constraints.shape[0]


def log_volume(factor: Any, constraints: sp.csr_array) -> float:
    """log |C A^-1 C^T| - log |C C^T|, which turns log |A| into that on the subspace C x = 0."""
    if not constraints.shape[0]:
        return 0.0
    dense = constraints.toarray()
    inner = dense @ factor.solve(dense.T)
    return float(np.linalg.slogdet(inner)[1] - np.linalg.slogdet(dense @ dense.T)[1])


def no_constraints(size: int) -> sp.csr_array:
    """C of no rows."""
    return sp.csr_array((0, size))


class Independent(Structure):
    """Q = I."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.constraints = no_constraints(size)

    def precision(self, values: Values) -> sp.csr_array:
        return sp.csr_array(sp.eye_array(self.size, format="csr"))

    def log_determinant(self, values: Values) -> float:
        return 0.0


class Contrasts(Structure):
    """Another structure without its constraints, in coordinates w of the subspace: x = T w.

    T keeps most variables and determines as many others as there are constraints. Q_w = T^T Q T is
    dense, so that this is for a few hundred variables.
    """

    def __init__(self, whole: Structure) -> None:
        k = whole.constraints.shape[0]
        self.whole = whole
        self.size, self.parameters = whole.size - k, whole.parameters
        self.constraints = no_constraints(self.size)

        dense = whole.constraints.toarray()
        given = np.sort(qr(dense, mode="r", pivoting=True)[1][:k])  # columns that are independent
        kept = np.setdiff1d(np.arange(whole.size), given)

        self.basis = np.zeros((whole.size, self.size))
        self.basis[kept, np.arange(self.size)] = 1.0
        self.basis[given] = -np.linalg.solve(dense[:, given], dense[:, kept])

    def precision(self, values: Values) -> sp.csr_array:
        matrix = self.basis.T @ (self.whole.precision(values) @ self.basis)
        return dense_csr(0.5 * (matrix + matrix.T))

    def log_determinant(self, values: Values) -> float:
        return float(np.linalg.slogdet(self.precision(values).toarray())[1])


def dense_csr(matrix: np.ndarray) -> sp.csr_array:
    """A dense matrix with all of its entries, zeros too, in one pattern for all values."""
    n, m = matrix.shape
    return sp.csr_array(
        (matrix.ravel(), np.tile(np.arange(m), n), np.arange(0, n * m + 1, m)), shape=matrix.shape
    )


class Product(Structure):
    """The Kronecker product of structures: x_{ab}, at a n_b + b, of precision Q_a (x) Q_b.

    Where both have constraints, those of the smaller one are removed by `Contrasts`; the others
    hold for each of its coordinates.
    """

    def __init__(self, first: Structure, second: Structure) -> None:
        both = bool(first.constraints.shape[0] and second.constraints.shape[0])
        if first.constraints.shape[0] and first.size <= (second.size if both else _SMALL):
            first = Contrasts(first)
        elif second.constraints.shape[0] and (both or second.size <= _SMALL):
            second = Contrasts(second)

        self.first, self.second = first, second
        self.size = first.size * second.size
        self.parameters = tuple(
            {each.key: each for each in (*first.parameters, *second.parameters)}.values()
        )

        eyes = (sp.eye_array(each.size, format="csr") for each in (second, first))
        a, b = first.constraints, second.constraints
        held = [sp.kron(a, next(eyes)), sp.kron(next(eyes), b)]
        self.constraints = sp.csr_array(sp.vstack(held))

    def precision(self, values: Values) -> sp.csr_array:
        return sp.csr_array(
            sp.kron(self.first.precision(values), self.second.precision(values), format="csr")
        )

    def log_determinant(self, values: Values) -> float:
        first, second = self.first, self.second
        return second.free * first.log_determinant(values) + first.free * second.log_determinant(
            values
        )

    def derived(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {**self.first.derived(values), **self.second.derived(values)}

    def rows(self, first: sp.csr_array, second: sp.csr_array) -> sp.csr_array:
        """Rows of the product from those of its factors: row by row their Kronecker product."""
        return row_products(self.rows_of(0, first), self.rows_of(1, second))

    def rows_of(self, place: int, rows: sp.csr_array) -> sp.csr_array:
        """Rows of the first factor (place 0) or the second, in its coordinates here."""
        own = (self.first, self.second)[place]
        return sp.csr_array(rows @ own.basis) if isinstance(own, Contrasts) else rows
