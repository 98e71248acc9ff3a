r"""All variables of a latent Gaussian model at once: one precision, one order of elimination.

z = (x_1, ..., x_J, beta) has the prior precision Q = diag(Q_1 / s_1^2, ..., Q_J / s_J^2, B) on the
subspace C z = 0, and with weights W of the rows of eta = A z the posterior precision P = Q + A^T W
A. On the subspace

.. math:: S = P^{-1} - V M^{-1} V^\top, \quad V = P^{-1} C^\top, \quad M = C V

takes the place of P^-1.

Source: Rue and Held 2005, "Gaussian Markov Random Fields", Sec. 2.3.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from graphrf.gp.search.coordinates import Parameter
from graphrf.gp.terms.term import BoundTerm
from graphrf.operators.sparse.layout import PatternRows, VariableLayout


class JointPrecision(NamedTuple):
    """Q and log |Q| on the subspace, for known hyperparameters."""

    precision: sp.csr_array
    log_determinant: float


class Slope(NamedTuple):
    """The derivatives of Q and of log |Q| in a coordinate."""

    precision: sp.csr_array
    log_determinant: float


class Joint:
    """The variables of terms, and coefficients with the prior precision B, `coefficients` (p, p).

    `rows` are matrices with n columns that the posterior is used with; the first is A.
    """

    def __init__(
        self, terms: Sequence[BoundTerm], coefficients: np.ndarray, rows: Sequence[sp.csr_array]
    ) -> None:
        self.terms = tuple(terms)
        self._coefficients = sp.csr_array(coefficients)
        self._log_determinant = float(np.linalg.slogdet(coefficients)[1])

        sizes = [term.structure.size for term in terms]
        self.starts = np.concatenate([[0], np.cumsum(sizes)]).astype(int)
        self.n = int(self.starts[-1]) + len(coefficients)
        self.parameters = _distinct(self.terms)
        self.constraints = self._constraints()

        self._rows = tuple(rows)

        start = self.vector([parameter.start for parameter in self.parameters])
        self.layout = VariableLayout.of(
            [self.prior(start).precision, *(abs(each).T @ abs(each) for each in rows)]
        )
        self.a, self.observed = rows[0], self.layout.rows(rows[0])

    def with_rows(self, rows: sp.csr_array) -> Joint:
        """The same variables, with further rows of their posterior."""
        return Joint(self.terms, self._coefficients.toarray(), [*self._rows, rows])

    @property
    def seconds(self) -> float:
        """About how long a factorisation takes."""
        return self.layout.elimination.seconds + 1e-3

    def vector(self, values: Sequence[float]) -> np.ndarray:
        """Coordinates of values, one for each parameter."""
        return np.array(
            [each.coordinate(value) for each, value in zip(self.parameters, values, strict=True)]
        )

    def values(self, vector: np.ndarray, term: BoundTerm) -> dict[str, float]:
        """A term's hyperparameters at a vector of coordinates, by name."""
        return {each.name: each.value(vector[self._place(each)]) for each in term.parameters}

    def prior(self, vector: np.ndarray) -> JointPrecision:
        """Q at a vector of coordinates."""
        blocks, total = [], self._log_determinant
        for term in self.terms:
            values = self.values(vector, term)
            variance, part = values[term.deviation.name] ** 2, term.structure
            block = part.precision(values) / variance
            blocks.append(block if part.flat is None else block + part.flat)
            total += part.log_determinant(values) - (part.free - part.n_flat) * float(
                np.log(variance)
            )

        blocks.append(self._coefficients)
        return JointPrecision(sp.csr_array(sp.block_diag(blocks, format="csr")), total)

    def slopes(self, vector: np.ndarray) -> list[Slope]:
        """The derivatives of Q in each coordinate."""
        result = []
        for place in range(len(self.parameters)):
            total, matrix = 0.0, sp.csr_array((self.n, self.n))

            for j, term in enumerate(self.terms):
                part, values = term.structure, self.values(vector, term)
                variance = values[term.deviation.name] ** 2
                if self._place(term.deviation) == place:
                    block, change = -2.0 * part.precision(values), -2.0 * (part.free - part.n_flat)
                elif any(self._place(each) == place for each in part.parameters):
                    parameter = next(each for each in part.parameters if self._place(each) == place)
                    block, change = part.slopes(values, parameter)
                else:
                    continue
                matrix = matrix + self._placed(block / variance, j)
                total += change

            result.append(Slope(sp.csr_array(matrix), total))
        return result

    def posterior(self, prior: JointPrecision, weights: np.ndarray) -> JointFactor:
        """The factor of P for weights of the rows of A."""
        lower = self.observed.pairs @ weights
        kept, places = self.layout.places(prior.precision)
        lower[places] += prior.precision.data[kept]
        return JointFactor(self.layout, lower, self.constraints)

    def _place(self, parameter: Parameter) -> int:
        return next(
            place for place, each in enumerate(self.parameters) if each.key == parameter.key
        )

    def _placed(self, block: sp.csr_array, j: int) -> sp.csr_array:
        """A block of a term among all variables."""
        block = sp.coo_array(block)
        places = block.row + self.starts[j], block.col + self.starts[j]
        return sp.csr_array((block.data, places), shape=(self.n, self.n))

    def _constraints(self) -> sp.csr_array:
        """C of all terms."""
        held = [term.structure.constraints for term in self.terms]
        wide = sp.block_diag([*held, sp.csr_array((0, self._coefficients.shape[0]))], format="csr")
        return sp.csr_array(wide)


class JointFactor:
    """The inverse of P on the subspace C z = 0; `lower` are the entries of P as in the layout."""

    def __init__(
        self, layout: VariableLayout, lower: np.ndarray, constraints: sp.csr_array
    ) -> None:
        self.layout, self._c = layout, constraints
        self._factor = layout.factor(lower)
        self._v = self._factor.solve(constraints.toarray().T)
        self._m = constraints @ self._v if constraints.shape[0] else np.zeros((0, 0))
        self._inverse = np.linalg.inv(self._m)

        held = (constraints @ constraints.T).toarray()
        self.log_determinant = self._factor.log_determinant + float(
            np.linalg.slogdet(self._m)[1] - np.linalg.slogdet(held)[1]
        )

    def solve(self, rhs: np.ndarray) -> np.ndarray:
        """S b for b of shape (n,) or (n, p)."""
        result = self._factor.solve(rhs)
        return np.asarray(result - self._v @ (self._inverse @ (self._c @ result)))

    def trace(self, other: sp.csr_array) -> float:
        """trace(S B) of a symmetric matrix whose pattern P's holds."""
        inverse = self._factor.selected_inverse() * self.layout.twice
        kept, places = self.layout.places(other)
        whole = float(inverse[places] @ other.data[kept])
        return whole - float(np.sum(self._inverse * (self._v.T @ (other @ self._v))))

    def variances(self, rows: PatternRows) -> np.ndarray:
        """The diagonal of R S R^T."""
        inverse = self._factor.selected_inverse() * self.layout.twice
        held = rows.matrix @ self._v
        return np.asarray(
            rows.pairs.T @ inverse - np.einsum("ik,kl,il->i", held, self._inverse, held)
        )

    def draws(self, z: np.ndarray) -> np.ndarray:
        """Draws from N(0, S) of standard normals z of shape (n, p)."""
        x = self._factor.root(z)
        return np.asarray(x - self._v @ (self._inverse @ (self._c @ x)))


def _distinct(terms: Sequence[BoundTerm]) -> tuple[Parameter, ...]:
    """The parameters of all terms, each once."""
    result: dict[object, Parameter] = {}
    for term in terms:
        for each in term.parameters:
            result.setdefault(each.key, each)
    return tuple(result.values())
