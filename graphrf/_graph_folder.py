"""A graph as a folder of arrays: written whole or not at all, checked when it is opened, mapped into memory."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from graphrf import _checks
from graphrf._files import atomic_write

_FORMAT = "graphrf graph 1"
# In the order in which they are written and enter the digest.
ARRAYS = ("indptr", "indices", "weights", "degrees")
_RECORD, _NAMES = "graph.json", "names.json"
_BUILDING = ".building."
# Entries that are looked at together: 2 MiB of the widest type.
_CHUNK = 1 << 18
_WRITERS = "Graph.save or graphrf.write_graph"


class Column(NamedTuple):
    """An array to be written: its type, its length, and its entries in chunks."""

    dtype: np.dtype
    size: int
    chunks: Iterable[np.ndarray]

    @classmethod
    def of(cls, array: np.ndarray) -> Column:
        return cls(array.dtype, array.size, chunks(array))


class StoredGraph(NamedTuple):
    """What a folder holds: plain facts, read-only mapped arrays by name, and the nodes' names if they have any."""

    facts: dict[str, Any]
    arrays: dict[str, np.ndarray]
    names: tuple[Hashable, ...] | None


def chunks(array: np.ndarray) -> Iterator[np.ndarray]:
    """Views of consecutive entries of a vector."""
    for start in range(0, array.size, _CHUNK):
        yield array[start : start + _CHUNK]


def index_dtype(n_nodes: int, n_entries: int) -> np.dtype:
    """The type of both index arrays of an adjacency matrix."""
    return np.dtype(np.int32 if n_entries < 2**31 and n_nodes <= 2**31 else np.int64)


def graph_digest(adjacency: sp.csr_array) -> str:
    """SHA-256 of indptr, indices and weights, whatever the width of the indices; O(nnz) time, O(1) memory."""
    digest = hashlib.sha256()
    for array in (adjacency.indptr, adjacency.indices, adjacency.data):
        for chunk in chunks(array):
            digest.update(_canonical(chunk))
    return digest.hexdigest()


def _canonical(chunk: np.ndarray) -> memoryview:
    """The bytes that enter the digest: little-endian int64 or float64."""
    return np.ascontiguousarray(chunk, dtype="<f8" if chunk.dtype.kind == "f" else "<i8").data


# -- names of nodes ------------------------------------------------------------------------------------------


def encoded_name(name: Hashable, way_out: str) -> Any:
    """A node's name as JSON knows it: text, numbers, or tuples of them, which are lists there."""
    if isinstance(name, tuple):
        return [encoded_name(part, way_out) for part in name]
    if isinstance(name, np.generic):
        name = name.item()
    if name is None or isinstance(name, bool | int | float | str):
        return name
    raise TypeError(
        "`graph` must have names that are text, numbers or tuples of them to be saved, got "
        f"{_checks.describe(name)}; {way_out}"
    )


def decoded_name(name: Any) -> Hashable:
    """The name that `encoded_name` was given."""
    return tuple(decoded_name(part) for part in name) if isinstance(name, list) else name


# -- writing -------------------------------------------------------------------------------------------------


def writable_folder(folder: str) -> Path:
    """The folder, once it is known that a graph may be written there: nothing that is no graph is written over."""
    path = Path(folder)
    if not path.exists():
        return path
    if not path.is_dir():
        raise ValueError(f"`folder` must be a folder, got the file {folder}")
    try:
        record = json.loads((path / _RECORD).read_bytes())
        ours = isinstance(record, dict) and record.get("format") == _FORMAT
    except FileNotFoundError:
        # What a writer that was killed leaves behind.
        names = {entry.name for entry in path.iterdir()}
        ours = all(name in _own_files() or _is_leftover(name) for name in names)
    except ValueError:
        ours = False
    if not ours:
        raise ValueError(
            f"`folder` must be new, empty, or a graph's folder to be written over, got {folder}, "
            "which holds other files"
        )
    return path


def prepare_folder(path: Path) -> None:
    """Make the folder, without what killed writers left in it."""
    path.mkdir(parents=True, exist_ok=True)
    for entry in path.iterdir():
        if _is_leftover(entry.name):
            if entry.is_dir():
                shutil.rmtree(entry)
            else:
                entry.unlink()


@contextmanager
def building_folder(path: Path) -> Iterator[Path]:
    """A folder within `path` for temporary files, gone at the end of the block."""
    scratch = Path(tempfile.mkdtemp(prefix=_BUILDING, dir=path))
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def write_folder(
    path: Path, columns: Mapping[str, Column], facts: Mapping[str, Any], names: Sequence[Any] | None
) -> None:
    """Write the four columns, `facts` (n_nodes, n_edges, directed, weighted) and encoded names.

    The record comes last, and the one of an older graph goes first, so that a folder with a record is whole.
    """
    for old in (_RECORD, _NAMES):
        (path / old).unlink(missing_ok=True)
    # One digest runs through the arrays; its value after each of them tells which one is damaged.
    digest, digests = hashlib.sha256(), {}
    for name in ARRAYS:
        column = columns[name]
        header = {"descr": column.dtype.str, "fortran_order": False, "shape": (column.size,)}
        with atomic_write(_array_file(path, name)) as file:
            np.lib.format.write_array_header_1_0(file, header)
            for chunk in column.chunks:
                file.write(np.ascontiguousarray(chunk, dtype=column.dtype).data)
                digest.update(_canonical(chunk))
        digests[name] = digest.hexdigest()
    if names is not None:
        text = json.dumps(names).encode()
        digests["names"] = hashlib.sha256(text).hexdigest()
        with atomic_write(path / _NAMES) as file:
            file.write(text)
    record = {
        "format": _FORMAT,
        **facts,
        "n_entries": columns["indices"].size,
        "dtypes": {name: columns[name].dtype.str for name in ARRAYS},
        "digests": digests,
    }
    with atomic_write(path / _RECORD) as file:
        file.write(json.dumps(record | {"checksum": _checksum(record)}, indent=1).encode())


def _checksum(record: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def _array_file(path: Path, name: str) -> Path:
    return path / f"{name}.npy"


def _own_files() -> set[str]:
    return {_RECORD, _NAMES, *(f"{name}.npy" for name in ARRAYS)}


def _is_leftover(name: str) -> bool:
    """Whether a file or folder is what `atomic_write` or `building_folder` make for a while."""
    return name.startswith(_BUILDING) or (
        name.endswith(".part") and any(name.startswith(f".{own}.") for own in _own_files())
    )


# -- reading -------------------------------------------------------------------------------------------------


def read_folder(folder: str, verify: bool) -> StoredGraph:
    """A folder's graph, its arrays mapped; `verify` reads them all once, to compare the digest.

    FileNotFoundError or ValueError, with the name of the file, unless the folder is there and whole.
    """
    path = Path(folder)
    record = _read_record(path)
    n_nodes, n_entries, digests = record["n_nodes"], record["n_entries"], record["digests"]
    sizes = dict(zip(ARRAYS, (n_nodes + 1, n_entries, n_entries, n_nodes), strict=True))
    arrays = {
        name: _mapped(_array_file(path, name), np.dtype(record["dtypes"][name]), sizes[name]) for name in ARRAYS
    }
    ends = int(arrays["indptr"][0]), int(arrays["indptr"][-1])
    if ends != (0, n_entries):
        raise _fault(_array_file(path, "indptr"), f"begins with {ends[0]} and ends with {ends[1]}")
    names = _read_names(path / _NAMES, digests["names"]) if "names" in digests else None
    if verify:
        _verify(path, arrays, n_nodes, digests)
    return StoredGraph(record, arrays, names)


def _fault(file: Path, problem: str) -> ValueError:
    return ValueError(
        f"`folder` must hold a whole graph, but {file} {problem}; write the graph again with {_WRITERS}"
    )


def _missing(file: Path, hint: str = "") -> FileNotFoundError:
    return FileNotFoundError(
        f"`folder` must hold a whole graph, but there is no {file}{hint}; write the graph again with {_WRITERS}"
    )


def _read_record(path: Path) -> dict[str, Any]:
    file = path / _RECORD
    if not path.is_dir():
        raise FileNotFoundError(f"`folder` must be a folder written by {_WRITERS}, got none at {path}")
    try:
        record = json.loads(file.read_bytes())
        checksum = record.pop("checksum")
        if record["format"] != _FORMAT:
            raise _fault(file, f"is of another format, {record['format']!r}")
        whole = checksum == _checksum(record)
    except FileNotFoundError:
        raise _missing(file, ", as where writing was broken off or is not over yet") from None
    except (KeyError, TypeError, AttributeError, UnicodeDecodeError, json.JSONDecodeError):
        whole = False
    if not whole:
        raise _fault(file, "is damaged")
    return record


def _mapped(file: Path, dtype: np.dtype, size: int) -> np.ndarray:
    """The array of a file as a read-only map, once dtype, shape and the file's length are as recorded."""
    try:
        mapped = np.lib.format.open_memmap(file, mode="r")
        length = file.stat().st_size
    except FileNotFoundError:
        raise _missing(file) from None
    except (ValueError, OSError, EOFError) as error:
        raise _fault(file, f"is damaged ({error})") from None
    if mapped.dtype != dtype or mapped.shape != (size,):
        raise _fault(
            file,
            f"holds dtype {mapped.dtype} and shape {mapped.shape} where the record has {dtype} and {(size,)}",
        )
    if length != mapped.offset + mapped.nbytes:
        raise _fault(file, f"has {length} bytes where {mapped.offset + mapped.nbytes} were written")
    # A plain array over the same map: compiled loops know no other.
    return np.asarray(mapped)


def _read_names(file: Path, digest: str) -> tuple[Hashable, ...]:
    try:
        text = file.read_bytes()
    except FileNotFoundError:
        raise _missing(file) from None
    if hashlib.sha256(text).hexdigest() != digest:
        raise _fault(file, "is damaged")
    return tuple(decoded_name(name) for name in json.loads(text))


def _verify(path: Path, arrays: Mapping[str, np.ndarray], n_nodes: int, digests: Mapping[str, str]) -> None:
    """Compare digests, and check what loops over rows rely on, with a chunk of the arrays in memory."""
    digest = hashlib.sha256()
    for name in ARRAYS:
        file, last = _array_file(path, name), 0
        for chunk in chunks(arrays[name]):
            digest.update(_canonical(chunk))
            if name == "indptr":
                if int(chunk[0]) < last or bool((np.diff(chunk) < 0).any()):
                    raise _fault(file, "decreases somewhere")
                last = int(chunk[-1])
            if name == "indices" and (int(chunk.min()) < 0 or int(chunk.max()) >= n_nodes):
                raise _fault(file, f"holds positions outside [0, {n_nodes - 1}]")
        if digest.hexdigest() != digests[name]:
            raise _fault(file, "holds other values than were written")
