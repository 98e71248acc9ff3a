"""A folder of blocks: what all of them share, and a file for each, written whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from distributed import Client

from graphrf import _checks
from graphrf._feature_files import OF_POWERS, RECORD, SETTINGS, fits
from graphrf._files import atomic_write
from graphrf._record_files import read_record, whole_file, write_record
from graphrf.distributed.client import seen_by_all
from graphrf.features import Features
from graphrf.graph import Graph

_FORMAT = "graphrf blocks of features 1"
_ROWS = "graphrf rows of features 1"
_SHARED = "graphrf frame of features 1"
_WRITER = "graphrf.distributed"


class BlockFolder:
    """A folder with the blocks of one set of features.

    `features.json` holds the settings, the rows of a block, and what tells these features from others;
    `shared.npz` degrees, survival and, where they are not all of the graph's, nodes; `rows-000000.npz` and so on
    the blocks. The record comes first, so blocks may be missing: they are drawn when they are asked for again.

    Parameters
    ----------
    path : path
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(_checks.path("path", path)).absolute()
        self._record = self.path / "features.json"
        self._shared = self.path / "shared.npz"

    def file(self, number: int) -> str:
        """The file of a block."""
        return str(self.path / f"rows-{number:06d}.npz")

    @property
    def is_known(self) -> bool:
        """Whether the folder holds the record of some features."""
        return self._record.exists()

    def missing(self, n_blocks: int) -> list[int]:
        """The blocks that have no file."""
        present = {entry.name for entry in os.scandir(self.path)}
        return [number for number in range(n_blocks) if Path(self.file(number)).name not in present]

    def begin(
        self, client: Client, frame: Features, nodes: np.ndarray | None, rows: int, identity: Mapping[str, Any]
    ) -> int:
        """Have what the blocks share in the folder, `nodes` None standing for all; the rows of its blocks.

        ValueError if the folder holds anything else, or not all workers see it.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        if not seen_by_all(client, self.path):
            raise ValueError(
                "`path` must be a folder that this process can write to and all workers see, got "
                f"{str(self.path)!r}"
            )
        if self.is_known:
            with whole_file(self._record, _WRITER):
                known = self._read()
                differing = [name for name, value in identity.items() if known["identity"][name] != value]
                rows = int(known["block_rows"])
            if differing:
                raise ValueError(
                    f"`path` must be a folder of these features, or a new one, got {str(self.path)!r}, whose "
                    f"features differ in {' and '.join(differing)}; pass another `path`"
                )
            return rows
        # What begins with a dot, or stands without a record, a process has left that was killed.
        others = [name for name in os.listdir(self.path) if not name.startswith(".") and name != self._shared.name]
        if others:
            raise ValueError(
                f"`path` must be a folder of these features, or a new or empty one, got {str(self.path)!r}, which "
                f"holds {others[0]!r}"
            )
        settings = {name: value for name, value in frame._state().items() if name in SETTINGS}
        shared = {"survival": frame._survival, "degrees": frame._degrees, "nodes": nodes}
        write_record(
            self._shared,
            {"format": _SHARED, "of_powers": frame._of_powers},
            {name: array for name, array in shared.items() if array is not None},
        )
        record = {
            "format": _FORMAT,
            "settings": {**settings, "dtype": frame.dtype.name},
            "block_rows": rows,
            "identity": dict(identity),
        }
        with atomic_write(self._record) as file:
            file.write(json.dumps(record, indent=1).encode())
        return rows

    def identity(self) -> dict[str, str]:
        """What tells the features of the folder from others."""
        with whole_file(self._record, _WRITER):
            return {str(name): str(value) for name, value in self._read()["identity"].items()}

    def seed(self) -> int:
        """The seed of the features in the folder."""
        with whole_file(self._record, _WRITER):
            return int(self._read()["settings"]["seed"])

    def frame(self) -> tuple[Features, np.ndarray | None, int]:
        """The features without rows, their nodes (None for all) and the rows of a block.

        FileNotFoundError or ValueError unless they are there and whole.
        """
        with whole_file(self._record, _WRITER):
            record = self._read()
            settings = {name: record["settings"][name] for name in SETTINGS}
            rows = int(record["block_rows"])
            if rows < 1:
                raise ValueError("its blocks have no rows")
        with whole_file(self._shared, _WRITER):
            facts, arrays = read_record(self._shared, _SHARED)
            nodes = arrays.get("nodes")
            settings |= {"dtype": np.dtype(settings["dtype"]), "description": dict(settings["description"])}
            state = settings | {"survival": arrays["survival"], "degrees": arrays.get("degrees")}
            frame = Features(nodes=np.zeros(0, np.int64), **state, **_no_rows(bool(facts["of_powers"])))
            if not fits(frame._state()) or (nodes is not None and not _are_nodes(nodes, frame.n_nodes)):
                raise ValueError("its arrays contradict each other")
        return frame, nodes, rows

    def _read(self) -> dict[str, Any]:
        record = json.loads(self._record.read_text(encoding="utf-8"))
        if record["format"] != _FORMAT:
            raise ValueError("another format")
        return dict(record)


def write_rows(file: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Write the record of a block."""
    write_record(file, {"format": _ROWS}, arrays)


def read_rows(file: str, frame: Features, nodes: np.ndarray) -> dict[str, np.ndarray]:
    """The record of a block with these nodes; FileNotFoundError or ValueError unless the file is whole."""
    with whole_file(file, _WRITER):
        _, arrays = read_record(file, _ROWS)
        given = {name: arrays[name] for name in (*RECORD, *OF_POWERS) if name in arrays}
        if not fits({**frame._state(), "nodes": nodes, **given}):
            raise ValueError("its arrays contradict each other")
        return given


def without_rows(features: Features) -> Features:
    """The settings of features, with no rows."""
    return features._replaced(nodes=np.zeros(0, np.int64), **_no_rows(features._of_powers))


def identity_of(graph: Graph, nodes: np.ndarray | None, pilot: Features) -> dict[str, str]:
    """What tells features from others: among it the rows of a few nodes, which sampler and seed make."""
    state = pilot._state()
    drawn = [state[name] for name in (*RECORD, *OF_POWERS, "survival") if state[name] is not None]
    return {
        "graph": graph._digest,
        "nodes": "all" if nodes is None else _digest([nodes]),
        "sampler": json.dumps(pilot.description, sort_keys=True),
        "seed": str(pilot.seed),
        "dtype": pilot.dtype.name,
        "rows": _digest(drawn),
    }


def _digest(arrays: Iterable[np.ndarray]) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _no_rows(of_powers: bool) -> dict[str, Any]:
    return {
        "indptr": np.zeros(1, np.int32),
        "indices": np.zeros(0, np.int32),
        "visit_ptr": np.zeros(1, np.int64),
        "visits_per_entry": np.zeros(0, np.uint16),
        "steps": np.zeros(0, np.uint16),
        "counts": np.zeros(0, np.float32 if of_powers else np.uint16),
        "work": np.zeros(0, np.int64) if of_powers else None,
        "dropped": None,
    }


def _are_nodes(nodes: np.ndarray, n_nodes: int) -> bool:
    return (
        nodes.ndim == 1
        and nodes.dtype == np.int64
        and (nodes.size == 0 or (int(nodes.min()) >= 0 and int(nodes.max()) < n_nodes))
    )
