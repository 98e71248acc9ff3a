"""Sums of Chebyshev polynomials of a sparse matrix, times blocks of vectors, on several threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp

from graphrf._base.cached import cached_property
from graphrf._base.rows import LINE, aligned_zeros, row_shares
from graphrf._base.threads import ordered_map, startable, thread_count
from graphrf.operators.series.costs import SERIES_COSTS, SeriesCosts
from graphrf.operators.series.loops import column_products, half_moments, step_rows, sum_polynomials
from graphrf.operators.series.walk_operator import renumbered_matrix

_NO_UNITS = np.empty(0, dtype=np.int64)
_EVERY_ROW = np.empty(0, dtype=np.int64)

Result = TypeVar("Result")


class RecurrenceSteps:
    """Steps of recurrences with one sparse matrix, rows shared by threads; close after use.

    `width` is that of the blocks to come, of the matrix's dtype. There is one thread where the work
    of a step is small; the bits do not depend on their number.
    """

    def __init__(
        self, matrix: sp.csr_array, width: int, n_threads: int, costs: SeriesCosts = SERIES_COSTS
    ) -> None:
        self._arrays = matrix.indptr, matrix.indices, matrix.data
        self._none = np.empty((0, width), dtype=matrix.dtype)
        self._n = startable(n_threads) if costs.share_rows(matrix, width) else 1
        self._pool = (
            ThreadPoolExecutor(self._n, thread_name_prefix="graphrf") if self._n > 1 else None
        )

    def __enter__(self) -> RecurrenceSteps:
        return self

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def step(
        self,
        scale: float,
        now: np.ndarray,
        sign: float,
        before: np.ndarray,
        value: float | np.floating[Any] = 0.0,
        v: np.ndarray | None = None,
        units: np.ndarray = _NO_UNITS,
        rows: tuple[int, int] | None = None,
    ) -> None:
        """Rows of before <- scale matrix now + sign before + value v; see `step_rows`."""
        whole = (0, before.shape[0]) if rows is None else rows
        added = self._none if v is None or value == 0 else v

        def step_run(run: tuple[int, int]) -> None:
            step_rows(*run, *self._arrays, scale, now, sign, before, value, added, units)

        if self._pool is None:
            step_run(whole)
        else:
            list(self._pool.map(step_run, row_shares(self._arrays[0], self._n, whole)))


class ChebyshevSum:
    """sum_k c_k T_k(M) for a symmetric sparse matrix M, given as 2 M, applied to blocks of vectors.

    The bits do not depend on the threads, nor on the columns beside a column, except where there
    are so many unit vectors that the nodes are `renumbered`. Columns are multiplied in panels of 16
    (8 above 250,000 nodes in double precision, and what is left). Threads take panels of their own
    where there are enough of them and they are small, else share the rows of one panel. Memory:
    three panels of N numbers a column for each thread that has its own, or for all.
    """

    def __init__(
        self,
        doubled: sp.csr_array,
        coefficients: np.ndarray,
        n_threads: int | None = None,
        costs: SeriesCosts = SERIES_COSTS,
    ) -> None:
        self._doubled, self._costs = doubled, costs
        self._c = np.ascontiguousarray(coefficients, dtype=doubled.dtype)
        self._threads = thread_count(n_threads)
        self._n_nodes = int(doubled.shape[0])
        narrow = LINE // doubled.dtype.itemsize
        self._width = costs.wide if self._n_nodes <= costs.wide_nodes else narrow

    @property
    def coefficients(self) -> np.ndarray:
        """c_k, shape (degree + 1,)."""
        return self._c

    def rough(self, tol: float) -> ChebyshevSum:
        """A shorter sum, in single precision if that serves, off by at most `tol` in norm.

        Half of that is for the terms left out, half for rounding, `single_rounding`.
        """
        tail = np.cumsum(np.abs(self._c[::-1]))[::-1]  # bounds what is left out, as |T_k| <= 1
        kept = self._c[: max(1, int(np.count_nonzero(tail > 0.5 * tol)))]
        shorter = ChebyshevSum(self._doubled, kept, self._threads, self._costs)
        return shorter.single() if single_rounding(shorter.coefficients) <= 0.5 * tol else shorter

    def single(self) -> ChebyshevSum:
        """The same sum in single precision."""
        return ChebyshevSum(self._doubled.astype(np.float32), self._c, self._threads, self._costs)

    @property
    def degree(self) -> int:
        """Products that a vector takes."""
        return self._c.size - 1

    def __call__(self, v: np.ndarray) -> np.ndarray:
        """The sum times v, (N,) or (N, p); a new array of that shape, in the sum's dtype."""
        columns = v.reshape(self._n_nodes, v[:1].size)
        result = np.empty(columns.shape, dtype=self._c.dtype)

        def fill(part: slice, n_threads: int) -> None:
            result[:, part] = self._of_panel(_own(columns[:, part], self._c.dtype), n_threads)

        for _ in self._over_panels(columns.shape[1], fill):
            pass
        return result.reshape(v.shape)

    def of_units(
        self, nodes: np.ndarray, use: Callable[[np.ndarray], Result]
    ) -> Iterator[tuple[slice, Result]]:
        """Results of `use` for the sum's columns of `nodes`, by panels (N, at most 16).

        Where the nodes of a panel lie close together in a graph whose edges join near positions
        (grids, meshes), only the rows that products reach are made. Sorted nodes are best.
        """

        def panel(part: slice, n_threads: int) -> tuple[slice, Result]:
            return part, use(self._of_unit_panel(nodes[part], n_threads))

        yield from self._over_panels(nodes.size, panel)

    def block(self, rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
        """The entries [rows, cols] by position, a product for each distinct row or column."""
        if np.unique(rows).size < np.unique(cols).size:
            return self._columns(rows, cols).T
        return self._columns(cols, rows)

    def _columns(self, cols: np.ndarray, rows: np.ndarray) -> np.ndarray:
        distinct, position = np.unique(cols, return_inverse=True)
        block = np.empty((rows.size, distinct.size))
        for part, values in self.entries(rows, distinct):
            block[:, part] = values
        return block if np.array_equal(position, np.arange(distinct.size)) else block[:, position]

    def entries(
        self, rows: np.ndarray, cols: np.ndarray
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The entries [rows, part] for parts of distinct columns: positions in `cols`, a block."""
        renumbered, place = self.renumbered(cols.size)
        order, places = np.argsort(place[cols], kind="stable"), place[rows]
        for part, values in renumbered.of_units(place[cols[order]], lambda panel: panel[places]):
            yield order[part], values

    def renumbered(self, n_columns: int) -> tuple[ChebyshevSum, np.ndarray]:
        """The same sum with neighbours near each other in node order, and each node's place.

        Products with unit vectors then reach few rows at first, and read memory in its order. It is
        this sum itself where `n_columns` of them are not worth it, or neighbours are near already.
        The order is the reverse one of Cuthill and McKee, found in O(nnz). Results change by
        rounding only.
        """
        if n_columns * self.degree < self._costs.worth_order:
            return self, np.arange(self._n_nodes)
        moved, place = renumbered_matrix(self._doubled)
        return (
            self
            if moved is self._doubled
            else ChebyshevSum(moved, self._c, self._threads, self._costs)
        ), place

    def quadratic_forms(self, z: np.ndarray) -> np.ndarray:
        """The forms z_j^T (sum_k c_k T_k) z_j of columns, (p,), by half as many products."""

        def panel(part: slice, n_threads: int) -> np.ndarray:
            now = aligned_zeros(self._n_nodes, part.stop - part.start)
            now[:] = z[:, part]
            moments = self._moments(now, _EVERY_ROW, _EVERY_ROW, (0, self._n_nodes), n_threads)
            return np.asarray(np.einsum("k,kp->p", self._c, moments))

        return np.concatenate([np.empty(0), *self._over_panels(z.shape[1], panel)])

    def unit_moments(
        self, nodes: np.ndarray, use: Callable[[np.ndarray], Result]
    ) -> Iterator[tuple[slice, Result]]:
        """Results of `use` for T_k(M)[q, q], k = 0 .. degree, at `nodes` q, as in `of_units`."""

        def panel(part: slice, n_threads: int) -> tuple[slice, Result]:
            units = nodes[part]
            now = aligned_zeros(self._n_nodes, units.size)
            now[units, np.arange(units.size)] = 1.0
            rows = int(units.min()), int(units.max()) + 1
            return part, use(self._moments(now, *self._reach, rows, n_threads))

        yield from self._over_panels(nodes.size, panel)

    def unit_polynomials(
        self, nodes: np.ndarray, rows: np.ndarray, coefficients: np.ndarray
    ) -> Iterator[tuple[slice, np.ndarray]]:
        """Entries [rows, nodes] of sums of coefficients (sums, degree + 1), by panels of nodes."""

        def panel(part: slice, n_threads: int) -> tuple[slice, np.ndarray]:
            terms = self._unit_terms(nodes[part], rows, n_threads)
            total = coefficients[:, 0, None, None] * next(terms)
            some: list[np.ndarray] = []
            for k, term in enumerate(terms, 1):
                some.append(term)
                if len(some) == self._costs.kept or k == self.degree:
                    total += np.tensordot(coefficients[:, k + 1 - len(some) : k + 1], some, 1)
                    some.clear()
            return part, total

        yield from self._over_panels(nodes.size, panel)

    def unit_terms(self, nodes: np.ndarray, rows: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Entries [rows, nodes] of T_k(M), k = 0 .. degree, by panels (degree + 1, rows, p)."""

        def panel(part: slice, n_threads: int) -> tuple[slice, np.ndarray]:
            terms = np.empty((self.degree + 1, rows.size, part.stop - part.start))
            for k, term in enumerate(self._unit_terms(nodes[part], rows, n_threads)):
                terms[k] = term
            return part, terms

        yield from self._over_panels(nodes.size, panel)

    def _unit_terms(
        self, units: np.ndarray, rows: np.ndarray, n_threads: int
    ) -> Iterator[np.ndarray]:
        """T_k(M)[rows, units] for k = 0 .. degree, one after the other."""
        now, before = (
            aligned_zeros(self._n_nodes, units.size),
            aligned_zeros(self._n_nodes, units.size),
        )
        now[units, np.arange(units.size)] = 1.0
        low, high = self._reach
        first, last = int(units.min()), int(units.max()) + 1
        yield now[rows]
        with RecurrenceSteps(self._doubled, units.size, n_threads, self._costs) as steps:
            for k in range(1, self.degree + 1):
                first, last = min(first, int(low[first])), max(last, int(high[last - 1]))
                steps.step(1.0 if k > 1 else 0.5, now, -1.0, before, rows=(first, last))
                now, before = before, now
                yield now[rows]

    def _over_panels(
        self, n_columns: int, task: Callable[[slice, int], Result]
    ) -> Iterator[Result]:
        """Results of `task` over the columns of every panel and its number of threads."""
        parts = [
            slice(start, min(start + self._width, n_columns))
            for start in range(0, n_columns, self._width)
        ]
        shared = self._costs.share_rows(self._doubled, self._width) and (
            len(parts) < 2 * self._threads or self._n_nodes > self._costs.wide_nodes
        )
        if shared:
            yield from (task(part, self._threads) for part in parts)
        else:
            small = self._doubled.nnz * n_columns * self.degree < self._costs.worth_pool
            yield from ordered_map(lambda part: task(part, 1), parts, 1 if small else self._threads)

    def _of_panel(self, v: np.ndarray, n_threads: int) -> np.ndarray:
        now, before = (aligned_zeros(v.shape[0], v.shape[1], self._c.dtype) for _ in range(2))
        np.multiply(v, self._c[-1], out=now)
        return self._sum(
            now, before, v, _NO_UNITS, _EVERY_ROW, _EVERY_ROW, (0, self._n_nodes), n_threads
        )

    def _of_unit_panel(self, units: np.ndarray, n_threads: int) -> np.ndarray:
        now, before = (
            aligned_zeros(self._n_nodes, units.size),
            aligned_zeros(self._n_nodes, units.size),
        )
        now[units, np.arange(units.size)] = self._c[-1]
        units = np.ascontiguousarray(units, dtype=np.int64)
        rows = int(units.min()), int(units.max()) + 1
        return self._sum(now, before, now[:0], units, *self._reach, rows, n_threads)

    def _sum(
        self,
        now: np.ndarray,
        before: np.ndarray,
        v: np.ndarray,
        units: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
        rows: tuple[int, int],
        n_threads: int,
    ) -> np.ndarray:
        """Clenshaw's recurrence: `sum_polynomials` on one thread, its loop here on several."""
        first, last = rows
        matrix = self._doubled
        if n_threads == 1 or not self._costs.share_rows(matrix, now.shape[1]):
            sum_polynomials(
                first,
                last,
                low,
                high,
                matrix.indptr,
                matrix.indices,
                matrix.data,
                self._c,
                now,
                before,
                v,
                units,
            )
            return now if self.degree % 2 == 0 else before
        with RecurrenceSteps(matrix, now.shape[1], n_threads, self._costs) as steps:
            for k in range(self.degree - 1, -1, -1):
                if low.size:
                    first, last = min(first, int(low[first])), max(last, int(high[last - 1]))
                scale = 1.0 if k else 0.5
                # a number of the sum's own precision, as on one thread
                steps.step(scale, now, -1.0, before, self._c[k], v, units, (first, last))
                now, before = before, now
        return now

    def _moments(
        self,
        now: np.ndarray,
        low: np.ndarray,
        high: np.ndarray,
        rows: tuple[int, int],
        n_threads: int,
    ) -> np.ndarray:
        """<v, T_k(M) v> for columns of `now`, (degree + 1, p), by T_2k = 2 T_k^2 - 1 and the like.

        `half_moments` on one thread, its loop here on several. `now` is overwritten.
        """
        first, last = rows
        matrix = self._doubled
        before = aligned_zeros(*now.shape)
        moments = np.zeros((3 + 2 * (max(self.degree - 1, 0) // 2), now.shape[1]))
        if n_threads == 1 or not self._costs.share_rows(matrix, now.shape[1]):
            half_moments(
                first,
                last,
                low,
                high,
                matrix.indptr,
                matrix.indices,
                matrix.data,
                now,
                before,
                moments,
            )
        else:
            column_products(first, last, now, now, np.empty_like(moments[:1]), moments[:1])
            with RecurrenceSteps(matrix, now.shape[1], n_threads, self._costs) as steps:
                for k in range(1, (moments.shape[0] + 1) // 2):
                    if low.size:
                        first, last = min(first, int(low[first])), max(last, int(high[last - 1]))
                    steps.step(1.0 if k > 1 else 0.5, now, -1.0, before, rows=(first, last))
                    column_products(
                        first,
                        last,
                        before,
                        now,
                        moments[2 * k - 1 : 2 * k],
                        moments[2 * k : 2 * k + 1],
                    )
                    now, before = before, now
        moments[2:] *= 2.0
        moments[2::2] -= moments[0]
        moments[3::2] -= moments[1]
        return moments[: self._c.size]

    @cached_property
    def _reach(self) -> tuple[np.ndarray, np.ndarray]:
        return reached_rows(self._doubled)


def single_rounding(c: np.ndarray) -> float:
    """Single-precision error of a sum by Clenshaw's recurrence, relative to vector norms.

    u (5 + degree^2 / 100) sum |c_k|, u = 6e-8: near the ends of the spectrum an error grows with
    the steps that follow. Measured, not proved: up to 0.9 of it for smooth vectors on grids, paths,
    random graphs and hubs, with degrees from 10 to 950.
    """
    return float(0.5 * np.finfo(np.float32).eps * (5.0 + 0.01 * c.size**2) * np.abs(c).sum())


def reached_rows(matrix: sp.csr_array) -> tuple[np.ndarray, np.ndarray]:
    """Bounds of the rows that a product reaches, by a vector's first and last row; (N,) each.

    Vectors that vanish outside rows a .. b - 1 have products that vanish outside low[a] ..
    high[b - 1] - 1.
    """
    low = np.arange(matrix.shape[0], dtype=np.int64)
    high = low + 1
    filled = np.flatnonzero(np.diff(matrix.indptr))
    if filled.size:
        starts = matrix.indptr[filled]
        low[filled] = np.minimum(low[filled], np.minimum.reduceat(matrix.indices, starts))
        high[filled] = np.maximum(high[filled], np.maximum.reduceat(matrix.indices, starts) + 1)
    return np.minimum.accumulate(low[::-1])[::-1].copy(), np.maximum.accumulate(high)


def shared_diagonals(sums: Sequence[ChebyshevSum], nodes: np.ndarray) -> np.ndarray:
    """The entries [q, q] of several sums for `nodes` q, (sums, nodes), by half the products.

    All are sums of polynomials of one matrix.
    """
    longest, coefficients = _side_by_side(sums)
    longest, place = longest.renumbered(nodes.size)
    order = np.argsort(place[nodes], kind="stable")
    units = place[nodes[order]]
    result = np.empty((len(sums), nodes.size))
    for part, values in longest.unit_moments(
        units, lambda moments: np.einsum("ik,kp->ip", coefficients, moments)
    ):
        result[:, order[part]] = values
    return result


def shared_blocks(sums: Sequence[ChebyshevSum], rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
    """The entries [rows, cols] of several sums, (sums, rows, cols), by the longest's products.

    All are sums of polynomials of one matrix.
    """
    longest, coefficients = _side_by_side(sums)
    longest, place = longest.renumbered(cols.size)
    order = np.argsort(place[cols], kind="stable")
    result = np.empty((len(sums), rows.size, cols.size))
    for part, values in longest.unit_polynomials(place[cols[order]], place[rows], coefficients):
        result[:, :, order[part]] = values
    return result


def _side_by_side(sums: Sequence[ChebyshevSum]) -> tuple[ChebyshevSum, np.ndarray]:
    """The sum of the highest degree, and the coefficients of all up to that degree, a row each."""
    longest = max(sums, key=lambda each: each.degree)
    coefficients = np.zeros((len(sums), longest.degree + 1))
    for row, each in zip(coefficients, sums, strict=True):
        row[: each.degree + 1] = each.coefficients
    return longest, coefficients


def _own(block: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """The block itself if its layout fits the compiled loops, else a copy."""
    ready = block.flags.c_contiguous and block.flags.writeable and block.dtype == dtype
    return block if ready else np.array(block, dtype=dtype, order="C")
