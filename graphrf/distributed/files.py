"""Folders of blocks that all workers of a cluster see."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from distributed import Client

from graphrf.distributed.client import seen_by_all
from graphrf.features.features import Features
from graphrf.features.folder import BlockFolder


def begin(
    client: Client,
    folder: BlockFolder,
    frame: Features,
    nodes: np.ndarray | None,
    rows: int,
    identity: Mapping[str, str],
) -> tuple[int, str]:
    """`BlockFolder.begin`; ValueError, too, if not all workers see the folder."""
    folder.make()
    if not seen_by_all(client, folder.path):
        raise ValueError(
            f"`path` must be a folder that this process can write to and all workers see, got {str(folder.path)!r}"
        )
    return folder.begin(frame._state(), nodes, rows, identity)
