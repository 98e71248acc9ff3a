"""F F^T of sampled rows for many modulations: what they share is made once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from graphrf._base.rows import row_shares
from graphrf._base.threads import ordered_map, thread_count
from graphrf.features.loops import entry_values, multiply_pairs, symmetric
from graphrf.features.record import Record
from graphrf.features.rows import DENSE_NUMBERS
from graphrf.features.sample_info import SampleInfo


@dataclass(frozen=True)
class PairCosts:
    """Sizes from which on products of pairs are shared by threads, or are dense."""

    # Entries, and pairs of them, from which on threads share them; pairs for each entry, as every
    # thread reads all.
    worth_entries: int = 1_000_000
    worth_pairs: int = 4_000_000
    pairs_per_entry: int = 8
    # Multiply-adds of a dense product that take as long as one pair of entries of a sparse one.
    dense_speed: float = 8.0
    # Numbers of a dense block of columns.
    dense_numbers: int = DENSE_NUMBERS


class RowPairs:
    """Products R R^T and S R^T + R S^T of rows R = F(f) and S = F(f') of one record.

    The entries are sorted by columns once. A product is then one pass over the pairs of entries
    that share a column, or a dense product over the columns that are not empty where that is less.
    Its bits do not depend on the number of threads. Memory: 16 bytes an entry, and 40 while it
    works. Time of a product: O(visits + pairs + m^2).
    """

    def __init__(
        self,
        info: SampleInfo,
        nodes: np.ndarray,
        record: Record,
        n_threads: int | None = None,
        *,
        costs: PairCosts = PairCosts(),
    ) -> None:
        self._info, self._record, self._costs = info, record, costs
        self._n_rows = m = nodes.size
        order, counts = _by_columns(record, (m, info.n_nodes))
        pairs = 0.5 * float((counts.astype(np.float64) ** 2).sum())
        numbers = m * counts.size
        self._dense = numbers * m < costs.dense_speed * pairs
        rows = np.repeat(np.arange(m, dtype=np.int32), np.diff(record.indptr))
        root = info.degree_roots
        self._ratios = root[nodes][rows] / root[record.indices] if root.size else np.zeros(0)
        if self._dense:
            self._columns = np.repeat(np.arange(counts.size), counts)
            self._bounds = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])
        else:  # entries that are alone in their column add to the diagonal only
            order = order[np.repeat(counts > 1, counts)]
        self._places = np.full(record.n_entries, order.size, dtype=order.dtype)
        self._places[order] = np.arange(order.size, dtype=order.dtype)
        self._rows = rows[order]
        threads = thread_count(n_threads)
        self._fill_threads = threads if record.steps.size > costs.worth_entries else 1
        # The rest uses only entries that share their column.
        counts = counts[counts > 1]
        self._indptr = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])
        self._threads, self._shares = 1, [(0, m)]
        if (
            not self._dense
            and threads > 1
            and pairs > max(costs.worth_pairs, costs.pairs_per_entry * self._rows.size)
        ):
            before = np.arange(self._rows.size) - np.repeat(self._indptr[:-1], counts)
            work = np.cumsum(np.bincount(self._rows, before, minlength=m))
            self._threads = threads
            self._shares = row_shares(np.concatenate([[0], work]).astype(np.int64), threads)

    def __call__(
        self, f: np.ndarray, slopes: Sequence[np.ndarray]
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """R R^T for the modulation f, and R S^T + S R^T for each other, shape (m, m) each."""
        matrix, change = self._products(f, slopes[0] if slopes else None)
        changes = [change, *(self._products(f, slope)[1] for slope in slopes[1:])]
        return matrix, [change for change in changes if change is not None]

    def _products(
        self, f: np.ndarray, slope: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray | None]:
        loads = [self._info.load(f if each is None else each) for each in (f, slope)]
        values, diagonals = self._values(np.column_stack(loads))
        if self._dense:
            return self._dense_products(values, slope is not None)
        products = np.zeros((self._n_rows, self._n_rows, 1 if slope is None else 2))

        def add(rows: tuple[int, int]) -> None:
            multiply_pairs(*rows, self._indptr, self._rows, values, products)

        for _ in ordered_map(add, self._shares, self._threads):
            pass
        return symmetric(products, 0, diagonals), None if slope is None else symmetric(
            products, 1, diagonals
        )

    def _values(self, loads: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Entries, sorted by columns, under both modulations, and of the diagonals: (m, 2)."""
        values, diagonals = np.empty((self._rows.size, 2)), np.empty((self._n_rows, 2))
        record = self._record

        def fill(rows: tuple[int, int]) -> None:
            entry_values(
                *rows,
                record.indptr,
                record.visit_ptr,
                record.visits_per_entry,
                record.steps,
                record.counts,
                self._ratios,
                loads,
                self._places,
                values,
                diagonals,
            )

        for _ in ordered_map(
            fill, row_shares(record.indptr, self._fill_threads), self._fill_threads
        ):
            pass
        return values, diagonals

    def _dense_products(
        self, values: np.ndarray, both: bool
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """The products by dense blocks of columns."""
        matrix, half = (np.zeros((self._n_rows, self._n_rows)) for _ in range(2))
        width = max(1, self._costs.dense_numbers // self._n_rows)
        for first in range(0, self._bounds.size - 1, width):
            last = min(first + width, self._bounds.size - 1)
            part = slice(self._bounds[first], self._bounds[last])
            blocks = np.zeros((2, self._n_rows, last - first))
            blocks[:, self._rows[part], self._columns[part] - first] = values[part].T
            matrix += blocks[0] @ blocks[0].T
            if both:
                half += blocks[1] @ blocks[0].T
        return matrix, half + half.T if both else None


def _by_columns(record: Record, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """The entries sorted by columns, and how many there are in each column that has any."""
    places = np.arange(record.n_entries, dtype=record.indptr.dtype)
    by_columns = sp.csr_array((places, record.indices, record.indptr), shape=shape).tocsc()
    counts = np.diff(by_columns.indptr)
    return by_columns.data, counts[counts > 0].astype(np.int64)
