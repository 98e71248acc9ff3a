"""Tasks of the workers: draw or read blocks of rows, and multiply by them; safe to repeat."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from distributed import get_worker

from graphrf._base.threads import ordered_map
from graphrf.distributed.shared_object import SharedObject
from graphrf.distributed.sums import Node, Sums
from graphrf.features.factor import FeatureFactor
from graphrf.features.folder import BlockNodes, node_array, read_rows, write_rows
from graphrf.features.matrix import step_squares
from graphrf.features.record import Record
from graphrf.features.sample_info import SampleInfo
from graphrf.sampling.block import Block
from graphrf.sampling.block_sizes import block_rows
from graphrf.sampling.record_builder import sample_rows

# Mapped pages of the graph are released above this fraction of a worker's memory limit, towards
# which they count.
_MAPPED_FRACTION = 0.25


class Facts(NamedTuple):
    """Sizes of a block."""

    n_entries: int
    n_steps: int
    nbytes: int


class RowBlock:
    """Rows of features on a worker, with the settings that all blocks share."""

    def __init__(self, info: SharedObject, nodes: np.ndarray, record: Record) -> None:
        self._info = info
        self.nodes = nodes
        self.record = record
        self._factor: FeatureFactor | None = None

    @property
    def factor(self) -> FeatureFactor:
        """The factor of these rows, which keeps the values of the last modulation."""
        factor = self._factor
        if factor is None:
            # One thread, since each thread of a group has a block.
            factor = self._factor = FeatureFactor(self.info, self.nodes, self.record, n_threads=1)
        return factor

    @property
    def info(self) -> SampleInfo:
        """Settings that all blocks share."""
        info: SampleInfo = self._info.content()
        return info

    def take(self, rows: np.ndarray) -> RowBlock:
        """Some of the rows, given by number."""
        return RowBlock(self._info, self.nodes[rows], self.record.take(rows))

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_factor": None}

    def __sizeof__(self) -> int:
        """Bytes of the record, and of the values for one modulation."""
        return (
            self.record.nbytes
            + self.nodes.nbytes
            + self.info.dtype.itemsize * self.record.n_entries
        )


# -- blocks ----------------------------------------------------------------------------------------


class File(NamedTuple):
    """The file of a block, and the key of the features in its folder."""

    path: str
    key: str


def draw(
    rows: BlockNodes, file: File | None, *, drawing: SharedObject, info: SharedObject
) -> RowBlock:
    """A block of rows: read from its file if that exists, else drawn and written there.

    `drawing` holds the prepared sampler and the number of nodes.
    """
    nodes = node_array(rows)
    if file is not None and os.path.exists(file.path):
        return read(rows, file, info=info)
    prepared, n_nodes = drawing.content()
    allowed = mapped_allowance()
    size = block_rows(nodes.size, prepared.visits_per_row, 1)
    record = sample_rows(prepared, nodes, n_nodes, size, after=lambda _: drawing.release(allowed))
    block = RowBlock(info, nodes, record)
    if file is not None:
        write(block, file)
    return block


def read(rows: BlockNodes, file: File, *, info: SharedObject) -> RowBlock:
    """A block of rows from its file."""
    return RowBlock(info, node_array(rows), read_rows(file.path, info.content(), rows, file.key))


def write(block: RowBlock, file: File) -> None:
    """Write a block to its file atomically."""
    write_rows(file.path, block.record, file.key)


def taken(block: RowBlock, rows: np.ndarray) -> RowBlock:
    """Some of the rows, given by number."""
    return block.take(rows)


def rows_of(block: RowBlock, rows: np.ndarray | None = None) -> tuple[np.ndarray, Block]:
    """The nodes and the record of some rows, given by number, or of all."""
    some = block if rows is None else block.take(rows)
    arrays = some.record.arrays()
    sizes = np.diff(arrays.pop("indptr")), np.diff(arrays.pop("visit_ptr"))
    return some.nodes, Block(*sizes, **arrays)


def facts(block: RowBlock) -> Facts:
    """The sizes of a block."""
    record = block.record
    return Facts(record.n_entries, block.info.n_steps(record), record.nbytes + block.nodes.nbytes)


def mapped_allowance() -> int:
    """Bytes of a mapped graph that may stay in this worker's memory."""
    try:
        limit = get_worker().memory_manager.memory_limit
    except ValueError:  # no worker runs this
        limit = None
    return int(_MAPPED_FRACTION * limit) if limit else 2**62


# -- products --------------------------------------------------------------------------------------


class BlockGroup(NamedTuple):
    """The blocks of one task: their worker, their numbers in order, and threads for them."""

    address: str
    numbers: list[int]
    threads: int


def each(
    group: BlockGroup,
    blocks: list[RowBlock],
    parts: list[Any] | None,
    *,
    of_block: Any,
    **shared: Any,
) -> list[Any]:
    """Results of a function of a block, and of its part if any, for all blocks of a group."""
    given: list[tuple[Any, ...]] = [(block,) for block in blocks]
    if parts is not None:
        given = list(zip(blocks, parts, strict=True))
    return list(ordered_map(lambda arguments: of_block(*arguments, **shared), given, group.threads))


def transposed_products(
    group: BlockGroup, blocks: list[RowBlock], y: np.ndarray, *, f: np.ndarray, n_blocks: int
) -> dict[Node, np.ndarray]:
    """F^T y of a group's rows, added up by `Sums`; y has the rows of the blocks in order."""
    sums = Sums(n_blocks, in_place=True)
    parts = zip(
        blocks, np.split(y, np.cumsum([block.nodes.size for block in blocks[:-1]])), strict=True
    )
    panels = ordered_map(
        lambda part: part[0].factor.apply_t(f, part[1]), list(parts), group.threads
    )
    for number, panel in zip(group.numbers, panels, strict=True):
        sums.add((0, number), panel)
    return sums.nodes


def multiplied(
    group: BlockGroup, blocks: list[RowBlock], part: None, *, f: np.ndarray, x: np.ndarray
) -> np.ndarray:
    """F x of a group's rows."""
    return np.concatenate(
        each(group, blocks, part, of_block=lambda block: block.factor.apply(f, x))
    )


def gradient(block: RowBlock, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The block's part of <y, P_k x>."""
    return block.factor.grad_f(x, y)


def diagonal(block: RowBlock, f: np.ndarray) -> np.ndarray:
    """The diagonal of F F^T at the block's rows."""
    return block.factor.diagonal(f)


def values(block: RowBlock, f: np.ndarray) -> sp.csr_array:
    """The block's rows of F."""
    return block.factor.matrix(f)


def step_products(block: RowBlock) -> np.ndarray:
    """The block's part of <P_k, P_l>."""
    return step_squares(block.info, block.nodes, block.record) * block.nodes.size
