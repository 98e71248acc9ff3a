"""The places of the entries of the joint precision, for all hyperparameters and weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from graphrf._base.rows import within
from graphrf.operators.sparse.cholesky import SparseCholesky
from graphrf.operators.sparse.ordering import Elimination


class PatternRows(NamedTuple):
    """Rows R for variances or weights."""

    matrix: sp.csr_array
    pairs: sp.csr_array  # (entries, m); R^T diag(w) R has the lower triangle pairs w


@dataclass(frozen=True)
class VariableLayout:
    """The lower triangle of matrices of one pattern, by columns in the order of elimination."""

    elimination: Elimination
    indptr: np.ndarray
    indices: np.ndarray
    keys: np.ndarray  # column n + row of each entry, increasing
    twice: np.ndarray  # 2 off the diagonal and 1 on it, for sums over the whole matrix
    _position: np.ndarray
    _known: dict[tuple[int, bytes], tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)

    @classmethod
    def of(cls, matrices: Sequence[sp.csr_array]) -> VariableLayout:
        """The layout of sums of matrices with these patterns."""
        n = matrices[0].shape[0]
        pattern = sp.csr_array((n, n))
        for matrix in matrices:
            ones = sp.csr_array((np.ones(matrix.nnz), matrix.indices, matrix.indptr), shape=(n, n))
            pattern = sp.csr_array(pattern + ones)

        elimination = Elimination.of(pattern, last=_dense_rows(pattern))
        position = np.empty(n, dtype=np.int64)
        position[elimination.order] = np.arange(n)

        entries = sp.coo_array(pattern)
        row, column = position[entries.row], position[entries.col]
        keys = np.sort((column * n + row)[row >= column])
        columns, rows = np.divmod(keys, n)
        indptr = np.searchsorted(columns, np.arange(n + 1))
        return cls(elimination, indptr, rows, keys, np.where(columns == rows, 1.0, 2.0), position)

    def factor(self, lower: np.ndarray) -> SparseCholesky:
        """The Cholesky factor of the matrix with these entries."""
        n = self._position.size
        return SparseCholesky.of_lower(
            sp.csc_array((lower, self.indices, self.indptr), shape=(n, n)), self.elimination
        )

    def places(self, matrix: sp.csr_array) -> tuple[np.ndarray, np.ndarray]:
        """The entries of a symmetric matrix in the lower triangle, and their places there."""
        key = matrix.nnz, matrix.indices.tobytes()
        if key not in self._known:
            n = self._position.size
            row = np.repeat(np.arange(n), np.diff(matrix.indptr))
            a, b = self._position[row], self._position[matrix.indices]
            kept = np.flatnonzero(a >= b)
            self._known[key] = kept, self._found(a[kept], b[kept])
        return self._known[key]

    def rows(self, matrix: sp.csr_array) -> PatternRows:
        """Rows any two of whose columns have an entry; KeyError if the pattern lacks one."""
        m = matrix.shape[0]
        counts = np.diff(matrix.indptr).astype(np.int64)
        pairs = counts**2
        row = np.repeat(np.arange(m), pairs)
        place = within(pairs)

        first = matrix.indptr[row] + place // np.maximum(counts[row], 1)
        second = matrix.indptr[row] + place % np.maximum(counts[row], 1)
        a, b = self._position[matrix.indices[first]], self._position[matrix.indices[second]]

        kept = a >= b
        places = self._found(a[kept], b[kept])
        data = (matrix.data[first] * matrix.data[second])[kept]
        return PatternRows(
            matrix, sp.csr_array((data, (places, row[kept])), shape=(self.keys.size, m))
        )

    def _found(self, row: np.ndarray, column: np.ndarray) -> np.ndarray:
        """The places of entries of the lower triangle."""
        wanted = column * self._position.size + row
        result = np.minimum(np.searchsorted(self.keys, wanted), self.keys.size - 1)
        if not np.array_equal(self.keys[result], wanted):
            raise KeyError("the pattern of the joint precision lacks entries")
        return result


def _dense_rows(pattern: sp.csr_array) -> np.ndarray:
    """Variables of so many neighbours that they are eliminated last: Davis 2006, Sec. 7.1."""
    n = pattern.shape[0]
    return np.flatnonzero(np.diff(pattern.indptr) > max(16.0, 10.0 * n**0.5))
