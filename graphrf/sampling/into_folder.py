"""Sampling into a folder of blocks: what is there is not drawn again."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from graphrf.features.error import Origin
from graphrf.features.features import Features
from graphrf.features.folder import BlockNodes, FeatureFolder, cut, identity_of, node_array, write_rows
from graphrf.sampling.block_sizes import block_rows, file_rows
from graphrf.sampling.job import Job, few_rows
from graphrf.sampling.joined import drawn


def into_folder(job: Job, folder: FeatureFolder, origin: Origin, *, any_seed: bool) -> Features:
    """The features of a job, all of whose blocks are in the folder then.

    If any seed will do, that of another process is taken which has begun the folder meanwhile.
    """
    rows = file_rows(job.sources.size, job.expected_bytes, job.graph.n_nodes)
    _require_room(job, rows)
    try:
        parts, key = begin_folder(job, folder)
    except ValueError:
        if not (any_seed and folder.is_known and folder.seed() != job.seed):
            raise
        return into_folder(replace(job, seed=folder.seed()), folder, origin, any_seed=False)
    _require_room(job, len(parts[0]))  # the files of an existing folder may have more rows
    with job.bar() as bar:
        draw_missing(job, folder, parts, key, bar)
    return Features(job.frame, job.sources, folder.read(job.frame, parts, key), origin)


def _require_room(job: Job, rows: int) -> None:
    """Raise MemoryError where a record whose files have so many rows does not fit."""
    # A block beside those that are sampled; later the last one, and what checks it, beside the record.
    blocks = 2 * job.expected_bytes * rows // job.sources.size
    job.require_room(job.expected, job.working_bytes + blocks)


def begin_folder(job: Job, folder: FeatureFolder) -> tuple[list[BlockNodes], str]:
    """Have a folder for the features of a job, which a few rows tell: the nodes of each block, and the key."""
    nodes, n_rows = None if job.all_nodes else job.sources, job.sources.size
    pilot = few_rows(job.prepared, job.sources, job.graph.n_nodes)
    identity = identity_of(job.graph.digest, nodes, job.frame, pilot)
    folder.make()
    rows, key = folder.begin(job.frame, nodes, file_rows(n_rows, job.expected_bytes, job.graph.n_nodes), identity)
    return cut(nodes, n_rows, rows), key


def draw_missing(job: Job, folder: FeatureFolder, parts: Sequence[BlockNodes], key: str, bar: Any) -> None:
    """Draw the blocks that have no file, one after another, and write each as soon as it is drawn.

    Threads share a block. What is there counts on the bar from the beginning.
    """
    missing = folder.missing(len(parts))
    bar.initial = bar.n = sum(map(len, parts)) - sum(len(parts[number]) for number in missing)
    bar.refresh()
    for number in missing:
        nodes, file = node_array(parts[number]), folder.file(number)
        if not os.path.exists(file):  # another process may have been quicker
            size = min(job.block_rows, block_rows(nodes.size, job.prepared.visits_per_row, job.threads))
            write_rows(file, drawn(job.prepared, nodes, job.graph.n_nodes, size, job.threads), key)
        bar.update(nodes.size)
