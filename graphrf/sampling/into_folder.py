"""Sampling into a folder of blocks: what is there is not drawn again."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from graphrf._base.threads import ordered_map
from graphrf.features.folder import BlockNodes, FeatureFolder, cut, identity_of, node_array, write_rows
from graphrf.features.frame import Frame
from graphrf.features.record import Record
from graphrf.graph.graph import Graph
from graphrf.sampling.block_sizes import block_rows
from graphrf.sampling.contract import Prepared
from graphrf.sampling.joined import Joined


def begun(
    folder: FeatureFolder, graph: Graph, frame: Frame, few: Record, nodes: np.ndarray | None, rows: int
) -> tuple[list[BlockNodes], str]:
    """Have the folder begun for features known by a few of their rows: the nodes of each block, and the key.

    `nodes` None stands for all; `rows` are those of a block if the folder is new.
    """
    folder.make()
    rows, key = folder.begin(frame, nodes, rows, identity_of(graph._digest, nodes, frame, few))
    return cut(nodes, graph.n_nodes if nodes is None else nodes.size, rows), key


def draw_missing(
    folder: FeatureFolder,
    prepared: Prepared,
    parts: Sequence[BlockNodes],
    key: str,
    *,
    n_nodes: int,
    rows: int,
    threads: int,
    bar: Any,
) -> None:
    """Draw the blocks that have no file, one after another, and write each as soon as it is drawn.

    Threads share a block, at most `rows` rows each at a time. What is there counts on the bar from the beginning.
    """
    missing = folder.missing(len(parts))
    bar.initial = bar.n = sum(map(len, parts)) - sum(len(parts[number]) for number in missing)
    bar.refresh()
    for number in missing:
        nodes, file = node_array(parts[number]), folder.file(number)
        if not os.path.exists(file):  # another process may have been quicker
            size = min(rows, block_rows(nodes.size, prepared.visits_per_row, threads))
            write_rows(file, drawn(prepared, nodes, n_nodes, size, threads), key)
        bar.update(nodes.size)


def drawn(prepared: Prepared, nodes: np.ndarray, n_nodes: int, size: int, threads: int) -> Record:
    """The record of some nodes, drawn `size` of them at a time."""
    entries, visits = prepared.merged_per_row
    expected = int(nodes.size * entries), int(nodes.size * visits)
    joined = Joined(nodes.size, n_nodes, expected, prepared.counts_dtype)
    tasks = [nodes[start : start + size] for start in range(0, nodes.size, size)]
    for block in ordered_map(prepared.sample, tasks, threads):
        joined.append(block)
    return joined.record()
