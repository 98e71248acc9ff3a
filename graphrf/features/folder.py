"""A folder of blocks of features: a file of shared arrays, and one for each block, atomic."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from graphrf._base import checks
from graphrf._base.files.arrays import complete_file, opened, read_record, write_record
from graphrf._base.files.atomic import cannot_write, exclusive_write
from graphrf._base.files.json_text import is_integer, parsed
from graphrf._base.memory import NoRoomError, available_memory
from graphrf.features.files import fits, sample_info, settings_of
from graphrf.features.record import Record
from graphrf.features.sample_info import SampleInfo

_FORMAT = "graphrf blocks of features 1"
_ROWS = "graphrf rows of features 1"
_SHARED = "graphrf frame of features 1"
_WRITER = "sample_features(path=...)"
_POINTERS = ("indptr", "visit_ptr")
# The arrays in the file of a block, in this order.
_ARRAYS = (*_POINTERS, "indices", "visits_per_entry", "steps", "counts", "work", "dropped")
# A row has at least this many bytes of pointers, so a short file cannot be a block of many rows.
_LEAST_ROW_BYTES = 12
# More than the settings of any distribution of lengths.
_MOST_RECORD_BYTES = 2**24

BlockNodes = range | np.ndarray
"""Nodes of a block: a range, or an array."""


class FeatureFolder:
    """A folder with the blocks of one set of features.

    `features.json` holds the settings and the identity of the features, `shared-KEY.npz` degrees,
    survival and, unless they are all, the nodes, `rows-000000.npz` and so on the blocks. Every file
    has the key, a checksum of the record.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        text = checks.path("path", path)
        if not text or "\0" in text:
            raise checks.value_error(
                "path", f"must be a folder, got {repr(text) if text else 'an empty path'}"
            )
        self.path: Path = Path(text).absolute()
        if self.path.exists() and not self.path.is_dir():
            raise checks.value_error("path", f"must be a folder, got {text!r}, which is a file")
        self._record = self.path / "features.json"

    # -- blocks ------------------------------------------------------------------------------------

    def file(self, number: int) -> str:
        """The file of a block."""
        return str(self.path / f"rows-{number:06d}.npz")

    def missing(self, n_blocks: int) -> list[int]:
        """The blocks that have no file."""
        present = self._present()
        return [number for number in range(n_blocks) if number not in present]

    def whole(self, nodes: np.ndarray | None, n_rows: int, rows: int) -> list[BlockNodes]:
        """The nodes of every block of `rows` rows; ValueError unless all blocks have files."""
        n_blocks = -(-n_rows // rows)
        # Counted, not listed: a forged record may ask for more blocks than there can be.
        n_missing = n_blocks - sum(number < n_blocks for number in self._present())
        if n_missing:
            raise checks.value_error(
                "path",
                f"must be a folder with all blocks, got {str(self.path)!r}, where {n_missing} of "
                f"{n_blocks} are missing; sample_features with the same arguments makes them",
            )
        return cut(nodes, n_rows, rows)

    def _present(self) -> set[int]:
        """The blocks that have files, by number."""
        names = (entry.name for entry in os.scandir(self.path))
        found = (re.fullmatch(r"rows-(\d{6,18})\.npz", name) for name in names)
        numbers = {int(match[1]): match[0] for match in found if match}
        return {number for number, name in numbers.items() if Path(self.file(number)).name == name}

    def read(self, info: SampleInfo, parts: Sequence[BlockNodes], key: str) -> Record:
        """The record of all blocks, read one by one: peak memory is the record and one block."""
        n_rows = sum(map(len, parts))
        pointers = {name: np.zeros(n_rows + 1, np.int64) for name in _POINTERS}
        columns: dict[str, np.ndarray] = {}
        end = 0
        for number, part in enumerate(parts):
            found = read_rows(self.file(number), info, part, key).arrays()
            start, end = end, end + len(part)
            for name, pointer in pointers.items():
                np.add(found.pop(name)[1:], pointer[start], out=pointer[start + 1 : end + 1])
            if not columns:
                columns = {
                    name: np.empty((0, *values.shape[1:]), values.dtype)
                    for name, values in found.items()
                }
            if found.keys() != columns.keys():
                raise checks.value_error(
                    "path",
                    f"must be a folder of one set of features, got {self.file(number)!r}, which "
                    "has other arrays than the blocks before; remove it, or them, and "
                    "sample_features with the same arguments makes them again",
                )
            for name, column in columns.items():
                size = len(column)
                # The allocator moves pages, not bytes, where arrays are large.
                column.resize((size + len(found[name]), *column.shape[1:]), refcheck=False)
                column[size:] = found.pop(name)
        if columns["indices"].size >= 2**31:
            columns["indices"] = columns["indices"].astype(np.int64, copy=False)
        # scipy requires both index arrays to have one type.
        indptr = pointers["indptr"].astype(columns["indices"].dtype, copy=False)
        return Record(**columns, indptr=indptr, visit_ptr=pointers["visit_ptr"])

    def nbytes(self, n_blocks: int) -> tuple[int, int]:
        """Bytes of all blocks, and of the largest, on disk, as in memory."""
        sizes = [os.path.getsize(self.file(number)) for number in range(n_blocks)]
        return sum(sizes), max(sizes)

    # -- what they share ---------------------------------------------------------------------------

    @property
    def is_known(self) -> bool:
        """True if the folder holds the record of some features."""
        return self._record.exists()

    def make(self) -> None:
        """Create the folder if it is missing; OSError if that fails."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise cannot_write(error, self.path, "path") from error

    def begin(
        self, info: SampleInfo, nodes: np.ndarray | None, rows: int, identity: Mapping[str, str]
    ) -> tuple[int, str]:
        """Create the record and shared arrays if missing; rows of a block, and the key.

        `nodes` None stands for all. ValueError if the folder holds anything else. Of several
        processes the first decides.
        """
        if not self.is_known:
            self._write(info, nodes, rows, identity)
        known, key = self._read()
        differing = [
            name for name, value in identity.items() if known["identity"].get(name) != value
        ]
        if differing:
            raise checks.value_error(
                "path",
                f"must be a folder of these features, or a new one, got {str(self.path)!r}, whose "
                f"features differ in {' and '.join(differing)}; pass another `path`",
            )
        return known["block_rows"], key

    def _write(
        self, info: SampleInfo, nodes: np.ndarray | None, rows: int, identity: Mapping[str, str]
    ) -> None:
        # Names with a dot, and shared arrays without a record, are left over from killed processes.
        others = [name for name in os.listdir(self.path) if not name.startswith((".", "shared-"))]
        if others and not self.is_known:
            raise checks.value_error(
                "path",
                "must be a folder of these features, or a new or empty one, got "
                f"{str(self.path)!r}, which holds {others[0]!r}",
            )
        settings = settings_of(info)
        record = {
            "format": _FORMAT,
            "settings": settings,
            "block_rows": rows,
            "identity": dict(identity),
        }
        key = _key(record)
        shared = {"survival": info.survival, "degrees": info.degrees, "nodes": nodes}
        write_record(
            self._shared(key),
            {"format": _SHARED, "key": key, "of_powers": info.of_powers},
            {name: array for name, array in shared.items() if array is not None},
        )
        if not exclusive_write(self._record, json.dumps({**record, "key": key}, indent=1).encode()):
            _, first = self._read()
            if first != key:
                self._shared(key).unlink(missing_ok=True)

    def _shared(self, key: str) -> Path:
        return self.path / f"shared-{key[:16]}.npz"

    def identity(self) -> dict[str, str]:
        """Entries that distinguish the features of the folder from others."""
        return dict(self._read()[0]["identity"])

    def seed(self) -> int:
        """The seed of the features in the folder."""
        return int(self._read()[0]["settings"]["seed"])

    def info(self) -> tuple[SampleInfo, np.ndarray | None, int, str]:
        """The information, its nodes (None for all), rows of a block, and the key, checked."""
        record, key = self._read()
        file = self._shared(key)
        with complete_file(file, _WRITER):
            facts, arrays = read_record(file, _SHARED)
            nodes, of_powers = arrays.get("nodes"), bool(facts["of_powers"])
            info = sample_info(
                record["settings"], arrays["survival"], arrays.get("degrees"), of_powers
            )
            if (
                facts["key"] != key
                or not fits(info, np.zeros(0, np.int64), Record.empty(of_powers))
                or (nodes is not None and not _are_nodes(nodes, info.n_nodes))
            ):
                raise ValueError("its arrays are inconsistent")
        return info, nodes, record["block_rows"], key

    def _read(self) -> tuple[dict[str, Any], str]:
        """The record and its key."""
        with complete_file(self._record, _WRITER):
            with opened(self._record) as file:
                text = file.read(_MOST_RECORD_BYTES + 1)
            if len(text) > _MOST_RECORD_BYTES:
                raise ValueError("it is too long")
            record = dict(parsed(text))
            key = record.pop("key")
            if record["format"] != _FORMAT or _key(record) != key:
                raise ValueError("another format, or damaged")
            if not is_integer(record["block_rows"], low=1, high=2**32 - 1):
                raise ValueError("its blocks have no rows")
            if not is_integer(record["settings"]["seed"], low=0, high=2**63 - 1):
                raise ValueError("it has no seed")
            identity = record["identity"]
            if not isinstance(identity, dict) or not all(
                isinstance(value, str) for value in identity.values()
            ):
                raise ValueError("it does not distinguish these features from others")
        return record, key


def read_folder(path: str | os.PathLike[str]) -> tuple[SampleInfo, np.ndarray, Record]:
    """Read the parts of `Features` from a folder of all blocks; see `graphrf.load_features`."""
    folder = FeatureFolder(path)
    info, nodes, rows, key = folder.info()
    n_rows = info.n_nodes if nodes is None else int(nodes.size)
    parts = folder.whole(nodes, n_rows, rows)
    total, largest = folder.nbytes(len(parts))
    needed, limit = total + 2 * largest, available_memory()  # the last block, and its validation
    if limit is not None and needed > limit:
        raise NoRoomError(
            f"the features in {str(folder.path)!r} need about {needed / 2**30:.3g} GiB, but "
            f"{limit / 2**30:.3g} GiB are available here; graphrf.distributed.load_features shares "
            "them out among machines"
        )
    record = folder.read(info, parts, key)
    return info, np.arange(n_rows) if nodes is None else nodes, record


def write_rows(file: str, record: Record, key: str) -> None:
    """Write the record of a block of the features with a key."""
    known = record.arrays()
    arrays = {name: known[name] for name in _ARRAYS if name in known}
    write_record(file, {"format": _ROWS, "key": key, "block": Path(file).name}, arrays)


def read_rows(file: str, info: SampleInfo, rows: BlockNodes, key: str) -> Record:
    """The record of a block with these nodes; FileNotFoundError or ValueError if that fails."""
    try:
        with complete_file(file, _WRITER):
            if os.path.getsize(file) < _LEAST_ROW_BYTES * len(rows):
                raise ValueError(f"it is too short for {len(rows)} rows")
            facts, arrays = read_record(file, _ROWS)
            if (facts["key"], facts["block"]) != (key, Path(file).name):
                raise ValueError("it belongs to other features, or is another block")
            record = Record(**{name: arrays[name] for name in _ARRAYS if name in arrays})
            if not fits(info, node_array(rows), record):
                raise ValueError("its arrays are inconsistent")
            return record
    except ValueError as error:
        raise ValueError(
            f"{error}; remove this file, and sample_features with the same arguments makes it again"
        ) from None


def cut(nodes: np.ndarray | None, n_rows: int, rows: int) -> list[BlockNodes]:
    """The nodes of each block; None stands for all nodes."""
    bounds = [(start, min(start + rows, n_rows)) for start in range(0, n_rows, rows)]
    return [range(*bound) if nodes is None else nodes[slice(*bound)] for bound in bounds]


def node_array(rows: BlockNodes) -> np.ndarray:
    """The nodes as an array of int64."""
    return np.arange(rows.start, rows.stop) if isinstance(rows, range) else rows


def identity_of(
    graph_digest: str, nodes: np.ndarray | None, info: SampleInfo, pilot: Record
) -> dict[str, str]:
    """Entries that distinguish features, among them a digest of the rows of a few nodes."""
    arrays = pilot.arrays()
    return {
        "graph": graph_digest,
        "nodes": "all" if nodes is None else _digest([nodes]),
        "sampler": json.dumps(info.description, sort_keys=True),
        "seed": str(info.seed),
        "dtype": info.dtype.name,
        "rows": _digest([*arrays.values(), info.survival]),
    }


def _key(record: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def _digest(arrays: Iterable[np.ndarray]) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _are_nodes(nodes: np.ndarray, n_nodes: int) -> bool:
    return (
        nodes.ndim == 1
        and nodes.dtype == np.int64
        and nodes.size > 0
        and int(nodes.min()) >= 0
        and int(nodes.max()) < n_nodes
    )
