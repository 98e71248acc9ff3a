"""The `Factor` of features on a cluster: products run where the blocks are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from distributed import Future

from graphrf._base import checks
from graphrf.distributed import blocks
from graphrf.distributed.block_store import Blocks, MadeBlocks
from graphrf.distributed.blocks import BlockGroup
from graphrf.distributed.sums import summed
from graphrf.features.factor import FeatureFactor, checked_columns
from graphrf.features.features import Features
from graphrf.features.sample_info import SampleInfo
from graphrf.operators.factor import FactorBase
from graphrf.sampling.block import Block
from graphrf.sampling.record_builder import RecordBuilder


@dataclass(frozen=True)
class TrafficCosts:
    """Sizes of what travels between the workers and this process."""

    # Bytes of N x p numbers in a panel; every block makes as many of F^T y.
    panel_bytes: int = 2**26
    # Records of at most so many bytes are fetched: products with few rows are faster in this
    # process.
    few_bytes: int = 2**26


class DistributedFactor(FactorBase):
    """F(f) = sum_k f_k P_k with rows on the workers; see `graphrf.operators.factor.Factor`.

    Made by `DistributedFeatures.factor`. Only `matrix` brings the rows to this process. The bits of
    products depend on the blocks, not on the workers or their losses.

    Notes
    -----
    Cost: that of `FeatureFactor`, shared by all threads, plus some ten milliseconds of Dask for
    each product, and a few more for each worker. Traffic for p columns, in panels of 64 MiB:
    `apply` sends N p numbers to every worker and n p back; `apply_t` sends n p to the workers, N p
    from each of them to one (a few times that if its blocks are not neighbours, see `Sums`), and N
    p back; `gram_apply` sends n p to the workers and back, and N p from and to each worker.
    """

    def __init__(
        self,
        info: SampleInfo,
        held: Blocks,
        sizes: np.ndarray,
        row_bytes: float,
        order: np.ndarray | None = None,
        costs: TrafficCosts = TrafficCosts(),
    ) -> None:
        self._info = info
        self._held = held
        self._sizes = np.asarray(sizes)
        self._ends = np.cumsum(sizes)
        self._row_bytes = row_bytes
        self._order = order
        self._costs = costs

    @property
    def shape(self) -> tuple[int, int]:
        """(n, N)."""
        return int(self._ends[-1]), self._info.n_nodes

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the features."""
        return self._info.dtype

    @property
    def max_length(self) -> int:
        """The longest step."""
        return self._info.max_length

    def __repr__(self) -> str:
        return f"DistributedFactor({self.shape[0]} x {self.shape[1]}, {len(self._held)} blocks)"

    def apply(self, f: np.ndarray, x: np.ndarray) -> np.ndarray:
        """F x."""
        columns = checked_columns("x", x, self.shape[1], self.dtype)

        def product(panel: np.ndarray) -> np.ndarray:
            return self._multiplied(
                self._held.groups(), f, self._held.client.scatter(panel, hash=False)
            )

        return self._by_panels(product, columns, self.shape[0]).reshape(
            self.shape[0], *np.shape(x)[1:]
        )

    def apply_t(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        """F^T y."""
        columns = checked_columns("y", y, self.shape[0], self.dtype)

        def product(panel: np.ndarray) -> np.ndarray:
            (result,) = self._held.results([self._spread(self._held.groups(), f, panel)])
            return np.asarray(result)

        return self._by_panels(product, columns, self.shape[1]).reshape(
            self.shape[1], *np.shape(y)[1:]
        )

    def gram_apply(self, f: np.ndarray, x: np.ndarray, weight: float = 1.0) -> np.ndarray:
        """weight F F^T x for x of shape (n,) or (n, p)."""
        columns = checked_columns("x", x, self.shape[0], self.dtype)

        def product(panel: np.ndarray) -> np.ndarray:
            groups = self._held.groups()
            return self._multiplied(groups, f, self._spread(groups, f, panel))

        result = self._by_panels(product, columns, self.shape[0]).reshape(np.shape(x))
        return result if weight == 1.0 else weight * result

    def grad_f(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """<y, P_k x> for every k, shape (max_length + 1,), float64."""
        dtype = np.result_type(np.asarray(x).dtype, np.asarray(y).dtype)
        left = checked_columns("x", x, self.shape[1], dtype)
        right = checked_columns("y", y, self.shape[0], dtype)
        if left.shape[1] != right.shape[1]:
            raise checks.value_error(
                "y", f"must have as many columns as `x`, got {right.shape[1]} for {left.shape[1]}"
            )
        result = np.zeros(self.max_length + 1)
        for part in self._panels(left):

            def gradients(part: slice = part) -> list[np.ndarray]:
                there = self._held.client.scatter(np.ascontiguousarray(left[:, part]), hash=False)
                return self._held.gathered_once(blocks.gradient, self._cut(right[:, part]), x=there)

            for gradient in self._held.repeated(gradients):
                result += gradient
        return result

    def diagonal(self, f: np.ndarray) -> np.ndarray:
        """Row sums of squares of F."""
        return self._in_order(
            np.concatenate(self._held.gathered(blocks.diagonal, f=_modulation(f)))
        )

    def take(self, rows: np.ndarray) -> FeatureFactor | DistributedFactor:
        """The factor of some rows: in this process up to 64 MiB of record, else on the workers."""
        rows = np.asarray(rows)
        n = self.shape[0]
        if rows.size and (
            rows.dtype.kind not in "iu" or int(rows.min()) < 0 or int(rows.max()) >= n
        ):
            raise checks.value_error(
                "rows", f"must be numbers of rows in [0, {n - 1}], got {checks.describe(rows)}"
            )
        rows = rows.astype(np.int64)
        used, numbers, order = self._members(rows)
        if rows.size * self._row_bytes <= self._costs.few_bytes:
            return self._joined(
                self._held.some(used).gathered(blocks.rows_of, numbers), order
            ).factor()
        held = MadeBlocks(self._held.client, blocks.taken, self._held.some(used), numbers)
        return DistributedFactor(
            self._info,
            held,
            np.array([number.size for number in numbers]),
            self._row_bytes,
            order,
            self._costs,
        )

    def gather(self) -> Features:
        """The features of all rows, in this process."""
        order = np.arange(self.shape[0]) if self._order is None else self._order
        return self._joined(self._held.gathered(blocks.rows_of), order)

    # -- inside ------------------------------------------------------------------------------------

    def _joined(self, found: list[tuple[np.ndarray, Block]], order: np.ndarray) -> Features:
        """Features of the records of blocks; their row i goes to place `order[i]`."""
        sizes = [(block.n_rows, block.indices.size, block.steps.size) for _, block in found]
        n_rows, entries, visits = (
            (sum(size) for size in zip(*sizes, strict=True)) if sizes else (0, 0, 0)
        )
        joined = RecordBuilder(n_rows, self.shape[1], (entries, visits), self._info.counts_dtype)
        for _, block in found:
            joined.append(block)
        nodes = np.concatenate([nodes for nodes, _ in found]) if found else np.zeros(0, np.int64)
        record = joined.record()
        if not np.array_equal(order, np.arange(order.size)):
            at = np.argsort(order)
            nodes, record = nodes[at], record.take(at)
        return Features(self._info, nodes, record)

    def _members(self, rows: np.ndarray) -> tuple[list[int], list[np.ndarray], np.ndarray]:
        """The blocks that hold some rows, the rows' numbers in each, and their places in `rows`."""
        at = rows if self._order is None else np.argsort(self._order)[rows]
        owner = np.searchsorted(self._ends, at, side="right")
        order = np.argsort(owner, kind="stable")
        used, first = np.unique(owner[order], return_index=True)
        starts = np.concatenate([[0], self._ends[:-1]])
        numbers = np.split(at[order] - starts[owner[order]], first[1:]) if used.size else []
        return used.tolist(), numbers, order

    def _spread(self, groups: list[BlockGroup], f: np.ndarray, y: np.ndarray) -> Future[Any]:
        """A future of F^T y."""
        rows = self._cut(y)
        parts = [np.concatenate([rows[number] for number in group.numbers]) for group in groups]
        held, n_blocks = self._held, len(self._held)
        sums = held.submitted(
            blocks.transposed_products,
            groups,
            held.sent(groups, parts),
            f=_modulation(f),
            n_blocks=n_blocks,
        )
        return summed(held.client, sums, n_blocks)

    def _multiplied(self, groups: list[BlockGroup], f: np.ndarray, x: Future[Any]) -> np.ndarray:
        """F x."""
        futures = self._held.submitted(blocks.multiplied, groups, f=_modulation(f), x=x)
        rows: list[Any] = [None] * len(self._held)
        for group, part in zip(groups, self._held.results(futures), strict=True):
            sizes = self._sizes[group.numbers]
            parts = np.split(part, np.cumsum(sizes)[:-1])
            for number, some in zip(group.numbers, parts, strict=True):
                rows[number] = some
        return self._in_order(np.concatenate(rows))

    def _cut(self, y: np.ndarray) -> list[np.ndarray]:
        """The rows of y that belong to each block."""
        return np.split(y if self._order is None else y[self._order], self._ends[:-1])

    def _in_order(self, stacked: np.ndarray) -> np.ndarray:
        """Rows stacked block by block, rearranged into the order of the factor."""
        if self._order is None:
            return stacked
        result = np.empty_like(stacked)
        result[self._order] = stacked
        return result

    def _panels(self, columns: np.ndarray) -> Iterator[slice]:
        width = max(1, self._costs.panel_bytes // (columns.itemsize * self.shape[1]))
        for start in range(0, columns.shape[1], width):
            yield slice(start, min(start + width, columns.shape[1]))

    def _by_panels(
        self, product: Callable[[np.ndarray], np.ndarray], columns: np.ndarray, height: int
    ) -> np.ndarray:
        """`product`, applied to panels of columns."""
        result = np.empty((height, columns.shape[1]), dtype=columns.dtype)
        for part in self._panels(columns):
            panel = np.ascontiguousarray(columns[:, part])
            result[:, part] = self._held.repeated(lambda panel=panel: product(panel))  # type: ignore[misc]
        return result


def _modulation(f: np.ndarray) -> np.ndarray:
    return np.asarray(f, dtype=np.float64)
