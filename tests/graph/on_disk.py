"""Folders of graphs: what is in them, and whether a graph is the same, bit for bit."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import numpy as np

from graphrf import Graph


def arrays_folder(folder: Path) -> Path:
    """The folder of arrays that the record names."""
    return folder / f"arrays-{json.loads((folder / 'graph.json').read_bytes())['version']}"


def names_in(folder: Path) -> set[str]:
    """What is in a folder; for the arrays' folder that the record names, what is in it."""
    names = {entry.name for entry in folder.iterdir()}
    if (folder / "graph.json").is_file():
        with contextlib.suppress(ValueError, RecursionError):
            arrays = arrays_folder(folder)
            names = names - {arrays.name} | {entry.name for entry in arrays.iterdir()}
    return names


def arrays_of(graph: Graph) -> tuple[np.ndarray, ...]:
    """What is stored in arrays."""
    adjacency = graph.adjacency
    return adjacency.indptr, adjacency.indices, adjacency.data, graph.degrees


def same(one: Graph, other: Graph) -> bool:
    """True if two graphs have the same bits, names and facts."""
    facts = [
        (list(g.nodes), g.directed, g.n_edges, g.is_weighted, g.digest, repr(g))
        for g in (one, other)
    ]
    return facts[0] == facts[1] and all(
        left.dtype == right.dtype and left.tobytes() == right.tobytes()
        for left, right in zip(arrays_of(one), arrays_of(other), strict=True)
    )
