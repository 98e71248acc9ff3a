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
from graphrf._files import exclusive_write
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
    `shared-KEY.npz` degrees, survival and, where they are not all of the graph's, nodes; `rows-000000.npz` and so
    on the blocks. Every file has the key, a checksum of the record. The record is there before the blocks, so that
    blocks may be missing: they are drawn when they are asked for again.

    Parameters
    ----------
    path : path
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        text = _checks.path("path", path)
        if not text:
            raise ValueError("`path` must be a folder, got an empty path")
        self.path = Path(text).absolute()
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"`path` must be a folder, got {text!r}, which is a file")
        self._record = self.path / "features.json"

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
    ) -> tuple[int, str]:
        """Have what the blocks share in the folder, `nodes` None standing for all; rows of a block, and the key.

        ValueError if the folder holds anything else, or not all workers see it. Of several processes that begin a
        folder at once the first decides.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        if not seen_by_all(client, self.path):
            raise ValueError(
                "`path` must be a folder that this process can write to and all workers see, got "
                f"{str(self.path)!r}"
            )
        if not self.is_known:
            self._write(frame, nodes, rows, identity)
        with whole_file(self._record, _WRITER):
            known, key = self._read()
            differing = [name for name, value in identity.items() if known["identity"][name] != value]
            rows = int(known["block_rows"])
        if differing:
            raise ValueError(
                f"`path` must be a folder of these features, or a new one, got {str(self.path)!r}, whose features "
                f"differ in {' and '.join(differing)}; pass another `path`"
            )
        return rows, key

    def _write(self, frame: Features, nodes: np.ndarray | None, rows: int, identity: Mapping[str, Any]) -> None:
        # What begins with a dot, or is shared without a record, a process has left that was killed.
        others = [name for name in os.listdir(self.path) if not name.startswith((".", "shared-"))]
        if others and not self.is_known:
            raise ValueError(
                f"`path` must be a folder of these features, or a new or empty one, got {str(self.path)!r}, which "
                f"holds {others[0]!r}"
            )
        settings = {name: value for name, value in frame._state().items() if name in SETTINGS}
        record = {
            "format": _FORMAT,
            "settings": {**settings, "dtype": frame.dtype.name},
            "block_rows": rows,
            "identity": dict(identity),
        }
        key = _key(record)
        shared = {"survival": frame._survival, "degrees": frame._degrees, "nodes": nodes}
        write_record(
            self._shared(key),
            {"format": _SHARED, "key": key, "of_powers": frame._of_powers},
            {name: array for name, array in shared.items() if array is not None},
        )
        if not exclusive_write(self._record, json.dumps({**record, "key": key}, indent=1).encode()):
            _, first = self._read()
            if first != key:
                self._shared(key).unlink(missing_ok=True)

    def _shared(self, key: str) -> Path:
        return self.path / f"shared-{key[:16]}.npz"

    def identity(self) -> dict[str, str]:
        """What tells the features of the folder from others."""
        with whole_file(self._record, _WRITER):
            return {str(name): str(value) for name, value in self._read()[0]["identity"].items()}

    def seed(self) -> int:
        """The seed of the features in the folder."""
        with whole_file(self._record, _WRITER):
            return int(self._read()[0]["settings"]["seed"])

    def frame(self) -> tuple[Features, np.ndarray | None, int, str]:
        """The features without rows, their nodes (None for all), the rows of a block, and the key.

        FileNotFoundError or ValueError unless they are there and whole.
        """
        with whole_file(self._record, _WRITER):
            record, key = self._read()
            settings = {name: record["settings"][name] for name in SETTINGS}
            rows = int(record["block_rows"])
            if rows < 1:
                raise ValueError("its blocks have no rows")
        file = self._shared(key)
        with whole_file(file, _WRITER):
            facts, arrays = read_record(file, _SHARED)
            nodes = arrays.get("nodes")
            settings |= {"dtype": np.dtype(settings["dtype"]), "description": dict(settings["description"])}
            state = settings | {"survival": arrays["survival"], "degrees": arrays.get("degrees")}
            frame = Features(nodes=np.zeros(0, np.int64), **state, **_no_rows(bool(facts["of_powers"])))
            if (
                facts["key"] != key
                or not fits(frame._state())
                or (nodes is not None and not _are_nodes(nodes, frame.n_nodes))
            ):
                raise ValueError("its arrays contradict each other")
        return frame, nodes, rows, key

    def _read(self) -> tuple[dict[str, Any], str]:
        """The record and its key."""
        record = dict(json.loads(self._record.read_text(encoding="utf-8")))
        key = str(record.pop("key"))
        if record["format"] != _FORMAT or _key(record) != key:
            raise ValueError("another format, or damaged")
        return record, key


def write_rows(file: str, arrays: Mapping[str, np.ndarray], key: str) -> None:
    """Write the record of a block of the features with a key."""
    write_record(file, {"format": _ROWS, "key": key, "block": Path(file).name}, arrays)


def read_rows(file: str, frame: Features, nodes: np.ndarray, key: str) -> dict[str, np.ndarray]:
    """The record of a block with these nodes; FileNotFoundError or ValueError unless the file is whole."""
    try:
        with whole_file(file, _WRITER):
            facts, arrays = read_record(file, _ROWS)
            given = {name: arrays[name] for name in (*RECORD, *OF_POWERS) if name in arrays}
            if (facts["key"], facts["block"]) != (key, Path(file).name):
                raise ValueError("it belongs to other features, or is another block")
            if not fits({**frame._state(), "nodes": nodes, **given}):
                raise ValueError("its arrays contradict each other")
            return given
    except ValueError as error:
        raise ValueError(
            f"{error}; remove this file, and sample_features with the same arguments makes it anew"
        ) from None


def _key(record: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


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
