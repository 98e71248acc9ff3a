"""Sampling into a folder of blocks; existing blocks are not drawn again."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from graphrf.features.error import Origin
from graphrf.features.features import Features
from graphrf.features.folder import (
    BlockNodes,
    FeatureFolder,
    cut,
    identity_of,
    node_array,
    write_rows,
)
from graphrf.sampling.block_sizes import block_rows, file_rows
from graphrf.sampling.record_builder import sample_rows
from graphrf.sampling.task import SamplingTask, few_rows


def sample_to_folder(
    task: SamplingTask, folder: FeatureFolder, origin: Origin, *, any_seed: bool
) -> Features:
    """The features of a task, written to the folder; `any_seed` takes an existing one's."""
    rows = file_rows(task.sources.size, task.expected_bytes, task.graph.n_nodes)
    _require_room(task, rows)
    try:
        parts, key = begin_folder(task, folder)
    except ValueError:
        if not (any_seed and folder.is_known and folder.seed() != task.seed):
            raise
        return sample_to_folder(replace(task, seed=folder.seed()), folder, origin, any_seed=False)
    _require_room(task, len(parts[0]))  # the files of an existing folder may have more rows
    with task.bar() as bar:
        draw_missing(task, folder, parts, key, bar)
    return Features(task.info, task.sources, folder.read(task.info, parts, key), origin)


def _require_room(task: SamplingTask, rows: int) -> None:
    """Raise MemoryError if a record with so many rows per file does not fit."""
    # A block beside those being sampled; at the end the
    # last block and its validation, beside the record.
    blocks = 2 * task.expected_bytes * rows // task.sources.size
    task.require_room(task.expected, task.working_bytes + blocks)


def begin_folder(task: SamplingTask, folder: FeatureFolder) -> tuple[list[BlockNodes], str]:
    """Create or open the folder of a task's features: the nodes of each block, and the key."""
    nodes, n_rows = None if task.all_nodes else task.sources, task.sources.size
    pilot = few_rows(task.prepared, task.sources, task.graph.n_nodes)
    identity = identity_of(task.graph.digest, nodes, task.info, pilot)
    folder.make()
    rows, key = folder.begin(
        task.info, nodes, file_rows(n_rows, task.expected_bytes, task.graph.n_nodes), identity
    )
    return cut(nodes, n_rows, rows), key


def draw_missing(
    task: SamplingTask, folder: FeatureFolder, parts: Sequence[BlockNodes], key: str, bar: Any
) -> None:
    """Draw the blocks that have no file in turn, and write each as soon as it is drawn."""
    missing = folder.missing(len(parts))
    bar.initial = bar.n = sum(map(len, parts)) - sum(len(parts[number]) for number in missing)
    bar.refresh()
    for number in missing:
        nodes, file = node_array(parts[number]), folder.file(number)
        if not os.path.exists(file):  # another process may have written it
            size = min(
                task.block_rows, block_rows(nodes.size, task.prepared.visits_per_row, task.threads)
            )
            write_rows(
                file, sample_rows(task.prepared, nodes, task.graph.n_nodes, size, task.threads), key
            )
        bar.update(nodes.size)
