"""What runs on workers: blocks of rows, drawn or read, and products with them; pure functions, safe to repeat."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from distributed import get_worker

from graphrf._base.threads import ordered_map
from graphrf.distributed.parcel import Parcel
from graphrf.distributed.sums import Node, Sums
from graphrf.features.factor import FeatureFactor
from graphrf.features.features import Features
from graphrf.features.files import OF_POWERS, RECORD
from graphrf.features.folder import Rows, node_array, read_rows, write_rows
from graphrf.sampling.block_sizes import block_rows
from graphrf.sampling.contract import Prepared
from graphrf.sampling.joined import Block, Joined

# Mapped pages of the graph are let go of beyond this share of a worker's memory, which they count against.
_MAPPED_SHARE = 0.25


class Drawing(NamedTuple):
    """What rows are drawn from."""

    prepared: Prepared
    n_nodes: int


class Facts(NamedTuple):
    """Sizes of a block."""

    n_entries: int
    n_steps: int
    nbytes: int


class RowBlock:
    """Rows of features on a worker.

    Parameters
    ----------
    frame : Parcel of Features
        The features without rows: settings and degrees, which all blocks share.
    nodes : ndarray of int64
    arrays : dict
        The record of the rows, as `Features` names its arrays.
    """

    def __init__(self, frame: Parcel, nodes: np.ndarray, arrays: dict[str, np.ndarray]) -> None:
        self._frame = frame
        self.nodes = nodes
        self.arrays = arrays
        self._factor: FeatureFactor | None = None

    @property
    def factor(self) -> FeatureFactor:
        """The factor of these rows, which keeps the values of the last modulation."""
        factor = self._factor
        if factor is None:
            frame: Features = self._frame.content()
            # One thread: those of a group have a block each.
            factor = frame._replaced(nodes=self.nodes, **self.arrays).factor(n_threads=1)
            self._factor = factor
        return factor

    @property
    def features(self) -> Features:
        """The features of these rows."""
        return self.factor._features

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_factor": None}

    def __sizeof__(self) -> int:
        """Of the record, and of the values of one modulation, which products will add."""
        record = sum(array.nbytes for array in self.arrays.values())
        value: int = self._frame.content().dtype.itemsize
        return record + self.nodes.nbytes + value * self.arrays["indices"].size


# -- blocks ------------------------------------------------------------------------------------------


class File(NamedTuple):
    """The file of a block, and the key of the features in its folder."""

    path: str
    key: str


def drawn(rows: Rows, file: File | None, *, drawing: Parcel, frame: Parcel) -> RowBlock:
    """A block of rows: read from its file if there is one already, else drawn and written there."""
    nodes = node_array(rows)
    if file is not None and os.path.exists(file.path):
        return read(rows, file, frame=frame)
    prepared, n_nodes = drawing.content()
    allowed = mapped_allowance()
    entries, visits = prepared.merged_per_row
    joined = Joined(
        nodes.size, n_nodes, (int(nodes.size * entries), int(nodes.size * visits)), prepared.counts_dtype
    )
    size = block_rows(nodes.size, prepared.visits_per_row, 1)
    for start in range(0, nodes.size, size):
        joined.append(prepared.sample(nodes[start : start + size]))
        drawing.release(allowed)
    block = RowBlock(frame, nodes, joined.arrays())
    if file is not None:
        write(block, file)
    return block


def read(rows: Rows, file: File, *, frame: Parcel) -> RowBlock:
    """A block of rows from its file."""
    arrays = read_rows(file.path, frame.content()._state(), rows, file.key)
    return RowBlock(frame, node_array(rows), arrays)


def write(block: RowBlock, file: File) -> None:
    """Write a block to its file, whole or not at all."""
    write_rows(file.path, block.arrays, file.key)


def taken(block: RowBlock, rows: np.ndarray) -> RowBlock:
    """Some of the rows, given by number."""
    features = block.features._take_rows(rows)
    return RowBlock(block._frame, features.nodes, record(features))


def rows_of(block: RowBlock, rows: np.ndarray | None = None) -> tuple[np.ndarray, Block]:
    """The nodes and the record of some rows, given by number, or of all."""
    features = block.features if rows is None else block.features._take_rows(rows)
    arrays = record(features)
    sizes = np.diff(arrays.pop("indptr")), np.diff(arrays.pop("visit_ptr"))
    return features.nodes, Block(*sizes, **arrays)


def record(features: Features) -> dict[str, np.ndarray]:
    """The arrays of the features' record."""
    state = features._state()
    return {name: state[name] for name in (*RECORD, *OF_POWERS) if state[name] is not None}


def facts(block: RowBlock) -> Facts:
    """The sizes of a block."""
    features = block.features
    return Facts(features.nnz, features.n_steps, features.nbytes)


def mapped_allowance() -> int:
    """Bytes of a mapped graph that may stay in this worker's memory."""
    try:
        limit = get_worker().memory_manager.memory_limit
    except ValueError:  # no worker runs this
        limit = None
    return int(_MAPPED_SHARE * limit) if limit else 2**62


# -- products ----------------------------------------------------------------------------------------


class Group(NamedTuple):
    """Blocks that one worker holds, by number, in order, and threads for them: what one task works on."""

    address: str
    numbers: list[int]
    threads: int


def each(
    group: Group, blocks: list[RowBlock], parts: list[Any] | None, *, of_block: Any, **shared: Any
) -> list[Any]:
    """The results of a function of one block, and its part if there are any, for all blocks of a group."""
    given: list[tuple[Any, ...]] = [(block,) for block in blocks]
    if parts is not None:
        given = list(zip(blocks, parts, strict=True))
    return list(ordered_map(lambda arguments: of_block(*arguments, **shared), given, group.threads))


def spread(
    group: Group, blocks: list[RowBlock], y: np.ndarray, *, f: np.ndarray, n_blocks: int
) -> dict[Node, np.ndarray]:
    """F^T y of a group's rows, added up as far as `Sums` does; y holds the rows of one block after another."""
    sums = Sums(n_blocks, in_place=True)
    parts = zip(blocks, np.split(y, np.cumsum([block.nodes.size for block in blocks[:-1]])), strict=True)
    panels = ordered_map(lambda part: part[0].factor.apply_t(f, part[1]), list(parts), group.threads)
    for number, panel in zip(group.numbers, panels, strict=True):
        sums.add((0, number), panel)
    return sums.nodes


def multiplied(group: Group, blocks: list[RowBlock], part: None, *, f: np.ndarray, x: np.ndarray) -> np.ndarray:
    """F x of a group's rows."""
    return np.concatenate(each(group, blocks, part, of_block=lambda block: block.factor.apply(f, x)))


def gradient(block: RowBlock, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """<y, P_k x>, the block's part of it."""
    return block.factor.grad_f(x, y)


def diagonal(block: RowBlock, f: np.ndarray) -> np.ndarray:
    """The diagonal of F F^T at the block's rows."""
    return block.factor.diagonal(f)


def values(block: RowBlock, f: np.ndarray) -> sp.csr_array:
    """The block's rows of F."""
    return block.factor.matrix(f)


def step_products(block: RowBlock) -> np.ndarray:
    """<P_k, P_l>, the block's part of it."""
    from graphrf.features.step_squares import step_squares

    return step_squares(block.features) * block.nodes.size
