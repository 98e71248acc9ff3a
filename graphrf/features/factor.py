"""The `Factor` of sampled features."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from graphrf._base import checks
from graphrf._base.cached import cached_property
from graphrf._base.memory import require_memory
from graphrf._base.rows import LINE, aligned_zeros, begins_line, row_shares
from graphrf._base.threads import ordered_map, thread_count
from graphrf.features.loops import step_products
from graphrf.features.matrix import feature_matrix
from graphrf.features.pairs import RowPairs
from graphrf.features.panel_loops import add_panel, multiply_rows, scatter_rows
from graphrf.features.record import Record
from graphrf.features.rows import BLOCK_ENTRIES, product, row_blocks, squared_norms
from graphrf.features.sample_info import SampleInfo


@dataclass(frozen=True)
class FactorCosts:
    """Sizes from which on the products of a factor are divided into threads, runs and panels."""

    # Fewer multiply-adds are not worth starting a thread.
    worth_thread: int = 25_000_000
    # Maximum number of runs of rows in F^T y, and entries of the matrix for each number in one of
    # their columns.
    most_runs: int = 16
    entries_per_number: int = 32
    # Blocks of rows of F x for each thread, to balance rows of unequal cost.
    blocks_per_thread: int = 4
    # If N x p numbers take more bytes, scattered columns of the matrix are multiplied by panels of
    # one cache line.
    cache: int = 8_000_000
    # Columns are scattered if nodes are reached from more than this number of runs on average.
    scattered: int = 4
    # Columns of F^T y in a panel otherwise.
    widest: int = 32
    # Entries of a block of rows of the matrix, and of the gradient.
    block_entries: int = BLOCK_ENTRIES


class _Run(NamedTuple):
    """Rows first .. last - 1 of a matrix, whose entries are in columns low .. high - 1."""

    first: int
    last: int
    low: int
    high: int

    @property
    def height(self) -> int:
        """Columns of the matrix that it spans."""
        return max(self.high - self.low, 0)

    def joined(self, other: _Run) -> _Run:
        """Union of this run and the next one."""
        return _Run(self.first, other.last, min(self.low, other.low), max(self.high, other.high))


class FeatureFactor:
    """The `Factor` of sampled features: F(f) = sum_k f_k P_k, P_k from visits (or powers).

    Products use the sparse matrix of the last modulation, which is kept. Their bits do not depend
    on the number of threads nor, except for `grad_f`, on the other columns.

    Cost: O(visits) for a new modulation, O(nnz) a column for `apply` and `apply_t`,
    O(nnz p + visits) for `grad_f`. Memory: the result; N x 8 numbers for a panel of columns if the
    reached nodes are scattered; and two panels a thread in `apply_t`.
    """

    def __init__(
        self,
        info: SampleInfo,
        nodes: np.ndarray,
        record: Record,
        *,
        n_threads: int | None = None,
        costs: FactorCosts = FactorCosts(),
    ) -> None:
        nodes.setflags(write=False)  # loops are compiled for read-only arrays alone
        self._info = info
        self._nodes = nodes
        self._record = record
        self._n_threads = n_threads
        self._costs = costs
        self._last: tuple[np.ndarray, sp.csr_array] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_last": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._nodes.setflags(write=False)  # pickle drops the flag

    @property
    def shape(self) -> tuple[int, int]:
        """(n, N)."""
        return self._nodes.size, self._info.n_nodes

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the features."""
        return self._info.dtype

    @property
    def max_length(self) -> int:
        """The longest step."""
        return self._info.max_length

    def __repr__(self) -> str:
        rows, columns = self.shape
        return f"FeatureFactor({rows} x {columns}, {self.dtype}, max_length={self.max_length})"

    def matrix(self, f: np.ndarray) -> sp.csr_array:
        """F(f) itself, sparse, shape (n, N)."""
        f = checks.array("f", f, np.float64)
        last = self._last  # read once and replaced as a whole, for threads
        if last is None or not np.array_equal(last[0], f):
            matrix = feature_matrix(
                self._info,
                self._nodes,
                self._record,
                f,
                n_threads=self._n_threads,
                block_entries=self._costs.block_entries,
            )
            last = f.copy(), matrix
            self._last = last
        return last[1]

    def pairs(self) -> RowPairs:
        """Structure of F F^T and its derivatives for any modulation."""
        return RowPairs(self._info, self._nodes, self._record, self._n_threads)

    def apply(self, f: np.ndarray, x: np.ndarray) -> np.ndarray:
        """F x."""
        matrix = self.matrix(f)
        n, n_nodes = self.shape
        columns = checked_columns("x", x, n_nodes, matrix.dtype)
        _require_product(n, columns)
        arrays = _read_only(matrix.indptr), _read_only(matrix.indices), _read_only(matrix.data)
        result = np.empty((n, columns.shape[1]), dtype=columns.dtype)
        per_thread = self._costs.blocks_per_thread
        for part in self._panels(columns):
            threads = self._threads(part.stop - part.start)  # each panel starts its own
            blocks = row_shares(matrix.indptr, threads * per_thread if threads > 1 else 1)
            panel = self._aligned(columns, part)

            def fill(rows: tuple[int, int], panel: np.ndarray = panel, part: slice = part) -> None:
                multiply_rows(*rows, *arrays, panel, result, part.start)

            for _ in ordered_map(fill, blocks, threads):
                pass
        return result.reshape(n, *np.shape(x)[1:])

    def _aligned(self, columns: np.ndarray, part: slice) -> np.ndarray:
        """All columns, or a copy of some that begins at a cache line if nodes are scattered."""
        width = part.stop - part.start
        if not self._scattered(columns) or (width == columns.shape[1] and begins_line(columns)):
            return columns
        panel = aligned_zeros(self.shape[1], width, columns.dtype)
        panel[:] = columns[:, part]
        return _read_only(panel)

    def apply_t(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        """F^T y."""
        matrix = self.matrix(f)
        n, n_nodes = self.shape
        columns = checked_columns("y", y, n, matrix.dtype)
        _require_product(n_nodes, columns)
        arrays = _read_only(matrix.indptr), _read_only(matrix.indices), _read_only(matrix.data)
        result = aligned_zeros(n_nodes, columns.shape[1], columns.dtype)

        tasks = [
            (part, run) for part in self._panels(columns, self._costs.widest) for run in self._runs
        ]
        size = max((run.height * (part.stop - part.start) for part, run in tasks), default=0)
        # Memory for panels is reused: allocation costs as much as filling.
        spare: list[np.ndarray] = []

        def scatter(task: tuple[slice, _Run]) -> tuple[np.ndarray, np.ndarray]:
            part, run = task
            try:
                memory = spare.pop()
            except IndexError:
                memory = aligned_zeros(size, 1, columns.dtype)
            width = part.stop - part.start
            panel = memory[: run.height * width].reshape(run.height, width)
            panel[:] = 0
            scatter_rows(run.first, run.last, *arrays, columns, part.start, panel, run.low)
            return memory, panel

        filled = ordered_map(scatter, tasks, self._threads(columns.shape[1]))
        for (part, run), (memory, panel) in zip(tasks, filled, strict=True):
            add_panel(panel, result, run.low, part.start)
            spare.append(memory)
        return result.reshape(n_nodes, *np.shape(y)[1:])

    def grad_f(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """<y, P_k x> for every k, shape (max_length + 1,), float64."""
        info, record = self._info, self._record
        dtype = np.result_type(np.asarray(x).dtype, np.asarray(y).dtype)
        x = checked_columns("x", x, self.shape[1], dtype)
        y = checked_columns("y", y, self.shape[0], dtype)
        if x.shape[1] != y.shape[1]:
            raise checks.value_error(
                "y", f"must have as many columns as `x`, got {y.shape[1]} for {x.shape[1]}"
            )
        load = 1.0 / info.walkers
        root = info.degree_roots

        def of_block(rows: tuple[int, int]) -> np.ndarray:
            return np.asarray(
                step_products(
                    *rows,
                    record.indptr,
                    record.indices,
                    record.visit_ptr,
                    record.visits_per_entry,
                    record.steps,
                    record.counts,
                    self._nodes,
                    root,
                    x,
                    y,
                    load.size,
                )
            )

        sums = np.zeros(load.size)
        blocks = row_blocks(record.indptr, self._costs.block_entries)
        for part in ordered_map(of_block, blocks, thread_count(self._n_threads)):
            sums += part
        return sums * load

    def diagonal(self, f: np.ndarray) -> np.ndarray:
        """Row sums of squares of F."""
        return squared_norms(self.matrix(f))

    def gram_apply(self, f: np.ndarray, x: np.ndarray, weight: float = 1.0) -> np.ndarray:
        """weight F F^T x, by two products, each with the root of the weight."""
        root = math.sqrt(weight)
        return np.asarray(root * self.apply(f, root * self.apply_t(f, x)))

    def dense_rows(self, f: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """F^T e_i for some of the rows, dense, shape (N, len(rows))."""
        return np.asarray(self.matrix(f)[rows].T.toarray())

    def columns(self, f: np.ndarray, other: Any) -> tuple[np.ndarray, np.ndarray]:
        """F G^T for the rows G of another factor, dense, and the diagonal of G G^T."""
        if other is self:
            gram, _ = self.pairs()(checks.array("f", f, np.float64), ())
            return gram.astype(self.dtype, copy=False), np.diagonal(gram).astype(self.dtype)
        columns = other.matrix(f)
        return product(self.matrix(f), columns), squared_norms(columns)

    def gram_columns(self, f: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """The columns of F F^T, dense, that belong to distinct positions among the rows."""
        return self.columns(f, self.take(chosen))[0]

    def take(self, rows: np.ndarray) -> FeatureFactor:
        """The factor of some of the rows."""
        rows = np.asarray(rows)
        return FeatureFactor(
            self._info,
            self._nodes[rows],
            self._record.take(rows),
            n_threads=self._n_threads,
            costs=self._costs,
        )

    def _threads(self, n_columns: int) -> int:
        """Number of threads worth starting for a product with this many columns."""
        worth = self._record.n_entries * n_columns // self._costs.worth_thread
        return max(1, min(thread_count(self._n_threads), worth))

    @cached_property
    def _spans(self) -> list[_Run]:
        """Runs of rows with about equal numbers of entries, and the columns that they reach."""
        indptr, indices = self._record.indptr, self._record.indices
        runs = []
        for first, last in row_shares(indptr, self._costs.most_runs):
            reached = indices[indptr[first] : indptr[last]]
            low, high = (
                (int(reached.min()), int(reached.max()) + 1) if reached.size else (self.shape[1], 0)
            )
            runs.append(_Run(first, last, low, high))
        return runs

    @cached_property
    def _runs(self) -> list[_Run]:
        """Runs of rows of F^T y with panels small beside the matrix, determined by its pattern
        alone.
        """
        runs, per_number = self._spans, self._costs.entries_per_number
        while len(runs) > 1 and _reach(runs) * per_number > self._record.n_entries:
            runs = [one.joined(other) for one, other in zip(runs[::2], runs[1::2], strict=True)]
        return runs

    def _scattered(self, columns: np.ndarray) -> bool:
        """True if neighbouring rows reach nodes that are scattered over more numbers than the cache
        holds.
        """
        n_nodes, costs = self.shape[1], self._costs
        return (
            n_nodes * columns.shape[1] * columns.itemsize > costs.cache
            and _reach(self._spans) > costs.scattered * n_nodes
        )

    def _panels(self, columns: np.ndarray, widest: int | None = None) -> Iterator[slice]:
        """Columns that are multiplied together: one cache line if nodes are scattered."""
        n_columns = columns.shape[1]
        width = n_columns if widest is None else widest
        if self._scattered(columns):
            width = LINE // columns.itemsize
        for start in range(0, n_columns, max(width, 1)):
            yield slice(start, min(start + width, n_columns))


def _reach(runs: list[_Run]) -> int:
    return sum(run.height for run in runs)


def checked_columns(argument: str, x: Any, n_rows: int, dtype: np.dtype[Any]) -> np.ndarray:
    """x by rows, shape (n_rows, p), read-only, float32 or float64, as compiled loops need it."""
    x = checks.columns(argument, x, n_rows)
    wanted = np.float32 if np.result_type(x.dtype, dtype) == np.float32 else np.float64
    return _read_only(
        np.ascontiguousarray(x.reshape(n_rows, x.shape[1] if x.ndim == 2 else 1), dtype=wanted)
    )


def _require_product(n_rows: int, columns: np.ndarray) -> None:
    """Raise MemoryError if a product of n_rows rows with the columns does not fit."""
    shape = n_rows, columns.shape[1]
    require_memory(
        float(n_rows) * shape[1] * columns.itemsize,
        f"a product of shape {shape}",
        "pass fewer columns at a time",
    )


def _read_only(array: np.ndarray) -> np.ndarray:
    """A read-only view, since the loops are compiled for read-only arrays."""
    view = array.view()
    view.setflags(write=False)
    return view
