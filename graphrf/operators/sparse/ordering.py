"""The order of elimination: nested dissection, and what its factor will hold and cost."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from graphrf._base.lazy import missing
from graphrf._base.memory import NoRoomError, available_memory
from graphrf._base.threads import thread_count
from graphrf.operators.sparse import symbolic

# Default limit on the bytes of a factor, and the share of the available memory that it may take.
_ANYWHERE = 8e9
_SHARE = 0.5
_WAYS_OUT = "free some memory, or use a method without a factor, such as the series"
# Multiply-adds, numbers of the factor and rows of the matrix a second.
_OPERATIONS, _NUMBERS, _ROWS = 1e10, 2e8, 5e5


class FactorTooLargeError(NoRoomError):
    """The Cholesky factor of a sparse matrix would hold more numbers than there is room for."""


def numbers_there() -> float:
    """Number of float64 values that a factor may hold: half of the available memory."""
    there = available_memory()
    return (_ANYWHERE if there is None else _SHARE * there) / 8


class Elimination(NamedTuple):
    """The order of elimination of all symmetric matrices of a pattern, and factors' entries.

    `order` holds the rows of the matrix in the order of elimination, `start` the first column of
    each block of columns that are factored together; the rows below block b are rows[begins[b] :
    begins[b + 1]], and `offsets` the place of each block's first number in the factor. `operations`
    are the multiply-adds of a factorisation.
    """

    order: np.ndarray
    start: np.ndarray
    begins: np.ndarray
    rows: np.ndarray
    offsets: np.ndarray
    operations: float

    @property
    def n_entries(self) -> int:
        """Numbers in the factor."""
        return int(self.offsets[-1])

    @property
    def seconds(self) -> float:
        """About how long a factorisation takes on a core; selected inversion takes as long."""
        return self.layered_seconds(1.0, 1)

    def layered_seconds(self, width: float, layers: int) -> float:
        """Estimated seconds for a number of layers, with separators `width` times as wide."""
        rows = self.order.size * layers
        return (
            self.operations * width**3 / _OPERATIONS
            + self.n_entries * width**2 / _NUMBERS
            + rows / _ROWS
        )

    def at_once(self, n_threads: int | None) -> int:
        """The threads that may each have a factor and as many numbers to work with, at least 1."""
        most = numbers_there() / max(self.n_entries, 1)
        return max(1, int(min(thread_count(n_threads), most)))

    def require_room(self) -> None:
        """Raise FactorTooLargeError if there is less memory by now than the factor takes, and as
        much to work with.
        """
        if self.n_entries > (most := numbers_there()):
            needed, left = (f"{16 * numbers / 2**30:.3g} GiB" for numbers in (self.n_entries, most))
            raise FactorTooLargeError(
                f"a sparse factor of {self.n_entries:.2g} numbers, and as many to work with, need "
                f"about {needed} of memory, and {left} are left; {_WAYS_OUT}"
            )

    @classmethod
    def of(
        cls,
        pattern: sp.csr_array,
        most: float | None = None,
        last: np.ndarray | None = None,
        order: np.ndarray | None = None,
    ) -> Elimination:
        """Nested dissection by METIS, in an order in which every subtree is in one piece.

        `most` is how many numbers the factor may hold, by default half of the available memory:
        FactorTooLargeError as soon as it is known to hold more. `last` are rows to eliminate after
        all others, those with too many entries for a dissection; `order` is taken in place of a
        dissection. ImportError without pymetis. Source: Karypis and Kumar 1998, "A fast and high
        quality multilevel scheme for partitioning irregular graphs".
        """
        n = pattern.shape[0]
        most = numbers_there() if most is None else most
        if order is None:
            order = nested_dissection(pattern) if last is None else _with_last(pattern, last)
        indptr, indices = _reordered(pattern, order)
        order = order[symbolic.postorder(symbolic.elimination_tree(indptr, indices))]
        indptr, indices = _reordered(pattern, order)
        parent = symbolic.elimination_tree(indptr, indices)
        count = symbolic.column_counts(indptr, indices, parent, float(most))
        if not count.size:
            raise _too_large(n, most)
        start = symbolic.supernodes(parent, count)
        begins, rows = symbolic.front_rows(indptr, indices, start)
        # scipy sorts each part of them: a sort that is
        # compiled with the loop takes seconds to compile
        fronts = sp.csr_array(
            (np.empty(rows.size, np.int8), rows, begins), shape=(start.size - 1, n)
        )
        fronts.sort_indices()
        rows = fronts.indices.astype(np.int64)
        wide, below = np.diff(start), np.diff(begins)
        offsets = np.concatenate([[0], np.cumsum(wide * (wide + below))])
        k, r = wide.astype(np.float64), below.astype(np.float64)
        return cls(
            order, start, begins, rows, offsets, float((k * (k * (k / 2 + r) + r * r)).sum())
        )


def _too_large(n: int, most: float) -> FactorTooLargeError:
    return FactorTooLargeError(
        f"the Cholesky factor of a sparse matrix of {n} rows would hold more than {most:.2g} "
        f"numbers; {_WAYS_OUT}"
    )


def nested_dissection(pattern: sp.csr_array) -> np.ndarray:
    """The rows in the order of METIS."""
    try:
        import pymetis
    except ModuleNotFoundError as error:
        raise missing(error, "the order of elimination of sparse matrices") from None
    n = pattern.shape[0]
    rows = np.repeat(np.arange(n), np.diff(pattern.indptr))
    others = pattern.indices != rows
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows[others], minlength=n))])
    if not others.any():
        return np.arange(n)
    order, _ = pymetis.nested_dissection(pymetis.CSRAdjacency(indptr, pattern.indices[others]))
    return np.asarray(order, dtype=np.int64)


def _with_last(pattern: sp.csr_array, last: np.ndarray) -> np.ndarray:
    """The order of METIS for most rows, and then some rows."""
    others = np.setdiff1d(np.arange(pattern.shape[0]), last)
    own = nested_dissection(sp.csr_array(pattern[others][:, others]))
    return np.concatenate([others[own], np.asarray(last, dtype=np.int64)])


def _reordered(pattern: sp.csr_array, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Row pointers and columns of the pattern in another order."""
    matrix = sp.csr_array(pattern[order][:, order])
    return matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)
