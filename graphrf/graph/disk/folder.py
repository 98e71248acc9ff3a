"""A graph as a folder of arrays: its format, and how it is checked when opened and mapped.

The record, graph.json, is the only file that changes: it names the folder beside it with the
arrays, which are complete before the record is there and never touched after.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import secrets
import stat
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from graphrf._base import checks
from graphrf._base.files.atomic import version
from graphrf._base.files.json_text import parsed
from graphrf._base.files.npz import read_header
from graphrf.graph.csr import CHUNK, RowPieces, canonical, chunks, index_dtype, row_pieces

FORMAT = "graphrf graph 1"
# In the order in which they are written and enter the digest.
ARRAYS = ("indptr", "indices", "weights", "degrees")
RECORD, NAMES = "graph.json", "names.json"
# What the arrays' folder is named, after which nothing
# else is: writers remove those that no record names.
_VERSION = re.compile(r"[0-9a-f]{16}", re.ASCII)
_ARRAYS_FOLDER = "arrays-"
# How often a folder is read again that is written over meanwhile.
_ATTEMPTS = 10
_WRITERS = "Graph.save"
_FACTS = {
    "format",
    "version",
    "n_nodes",
    "n_edges",
    "directed",
    "weighted",
    "n_entries",
    "dtypes",
    "digests",
}


class StoredGraph(NamedTuple):
    """Contents of a graph's folder: record, location, read-only maps of arrays, and any names."""

    record: dict[str, Any]
    place: Path
    arrays: dict[str, np.ndarray]
    names: tuple[Hashable, ...] | None


# -- names of nodes --------------------------------------------------------------------------------


def encoded_name(name: Hashable, way_out: str) -> Any:
    """A node's name as JSON knows it: text, numbers, or tuples of them, which are lists there."""
    if isinstance(name, tuple):
        return [encoded_name(part, way_out) for part in name]
    if isinstance(name, np.generic):
        name = name.item()
    if isinstance(name, float) and math.isnan(name):
        raise checks.value_error(
            "graph", f"must have names equal to themselves to be saved, got {name}; {way_out}"
        )
    if name is None or isinstance(name, bool | int | float | str):
        return name
    raise checks.type_error(
        "graph",
        "must have names that are text, numbers or tuples of them to be saved, got "
        f"{checks.describe(name)}; {way_out}",
    )


def decoded_name(name: Any) -> Hashable:
    """The name that `encoded_name` was given."""
    return tuple(decoded_name(part) for part in name) if isinstance(name, list) else name


# -- paths and the record --------------------------------------------------------------------------


def folder_path(folder: Any) -> str:
    """`folder` as the text of a path that can be one."""
    text = checks.path("folder", folder)
    if not text or "\0" in text:
        raise checks.value_error("folder", f"must be the path of a folder, got {text!r}")
    return text


def new_version() -> str:
    """Random name for the folder of the arrays of a graph to be written, different for each."""
    return secrets.token_hex(8)


def arrays_folder(path: Path, version: str) -> Path:
    """The folder within a graph's folder that has the arrays."""
    return path / f"{_ARRAYS_FOLDER}{version}"


def version_of(name: str) -> str | None:
    """The version whose arrays are in a folder of this name; None if it is no such name."""
    found = _VERSION.fullmatch(name.removeprefix(_ARRAYS_FOLDER))
    return found[0] if found and name.startswith(_ARRAYS_FOLDER) else None


def array_file(place: Path, name: str) -> Path:
    """Path of the array with this name."""
    return place / f"{name}.npy"


def dtypes(n_nodes: int, n_entries: int) -> dict[str, np.dtype]:
    """The types of the four arrays: little-endian, both index arrays alike."""
    index, floats = index_dtype(n_nodes, n_entries).newbyteorder("<"), np.dtype("<f8")
    return dict(zip(ARRAYS, (index, index, floats, floats), strict=True))


def sizes(n_nodes: int, n_entries: int) -> dict[str, int]:
    """The lengths of the four arrays."""
    return dict(zip(ARRAYS, (n_nodes + 1, n_entries, n_entries, n_nodes), strict=True))


def checksum(record: Mapping[str, Any]) -> str:
    """SHA-256 of a record without its checksum: of all that is in the folder."""
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def identity(record: Mapping[str, Any]) -> str:
    """SHA-256 of the record but for its version: the same wherever a graph is written."""
    return checksum(
        {name: value for name, value in record.items() if name not in ("version", "checksum")}
    )


# -- reading ---------------------------------------------------------------------------------------


def read_folder(folder: str, verify: bool, chunk_size: int = CHUNK) -> StoredGraph:
    """A folder's graph, its arrays mapped; `verify` reads them all, to check each value and the
    digest, in chunks.

    Names are decoded, but not yet known to fit the nodes.
    """
    path = Path(folder)
    if not path.is_dir():
        raise FileNotFoundError(
            f"`folder` must be a folder written by {_WRITERS}, got none at {path}"
        )

    record = _read_record(path)
    for _ in range(_ATTEMPTS):
        try:
            stored = _mapped_graph(path, record)
        except (FileNotFoundError, ValueError):
            # A writer that has replaced the record removes the arrays of the one that was read.
            read, record = record, _read_record(path)
            if record["version"] == read["version"]:
                raise
            continue
        if verify:
            _verify(stored, chunk_size)
        return stored

    raise checks.value_error(
        "folder",
        f"must not be written over all the time while it is read, got {path}; try again later",
    )


def fault(file: Path, problem: str) -> ValueError:
    """The error of a file that is not as it was written."""
    return ValueError(
        f"`folder` must hold a whole graph, but {file} {problem}; write the graph again with "
        f"{_WRITERS}"
    )


@contextmanager
def _reading(
    file: Path, done: str = "read", faults: tuple[type[Exception], ...] = (OSError,)
) -> Iterator[None]:
    """Faults within the block name the file and what was to be done with it."""
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(
            f"`folder` must hold a whole graph, but there is no {file}; write the graph again with "
            f"{_WRITERS}"
        ) from None
    except faults as error:
        raise fault(file, f"cannot be {done} ({error})") from None


def _require_file(file: Path) -> None:
    """Raise unless it is a plain file: reading a pipe or a device may never end."""
    with _reading(file):
        plain = stat.S_ISREG(file.stat().st_mode)
    if not plain:
        raise fault(file, "is no file")


def _read(file: Path) -> bytes:
    _require_file(file)
    with _reading(file):
        return file.read_bytes()


def _parsed(file: Path, text: bytes) -> Any:
    try:
        return parsed(text)
    except ValueError:
        raise fault(file, "is damaged") from None


def _read_record(path: Path) -> dict[str, Any]:
    """The record, once every fact in it is known to be one."""
    file = path / RECORD
    record = _parsed(file, _read(file))
    if not isinstance(record, dict) or not isinstance(record.get("format"), str):
        raise fault(file, "is damaged")
    if record["format"] != FORMAT:
        raise fault(file, f"is of another format, {record['format']!r:.60}")
    facts = {name: value for name, value in record.items() if name != "checksum"}
    if not _is_record(facts) or record.get("checksum") != checksum(facts):
        raise fault(file, "is damaged")
    return record


def is_version(value: Any) -> bool:
    """True if a value from a file can be a version: nothing else becomes part of a path."""
    return isinstance(value, str) and _VERSION.fullmatch(value) is not None


def _is_record(facts: Mapping[str, Any]) -> bool:
    def integer(name: str, low: int, high: int) -> bool:
        return type(facts.get(name)) is int and low <= facts[name] <= high

    if set(facts) != _FACTS or not is_version(facts["version"]):
        return False
    if not (integer("n_nodes", 1, 2**32 - 1) and integer("n_entries", 0, 2**63 - 1)):
        return False
    if not (isinstance(facts["directed"], bool) and isinstance(facts["weighted"], bool)):
        return False
    n_nodes, n_entries, digests = facts["n_nodes"], facts["n_entries"], facts.get("digests")
    if not integer("n_edges", n_entries if facts["directed"] else (n_entries + 1) // 2, n_entries):
        return False
    expected = {name: dtype.str for name, dtype in dtypes(n_nodes, n_entries).items()}
    return (
        facts.get("dtypes") == expected
        and isinstance(digests, dict)
        and set(digests) - {"names"} == set(ARRAYS)
        and all(map(_is_digest, digests.values()))
    )


def _is_digest(value: Any) -> bool:
    return isinstance(value, str) and len(value) == 64 and set(value) <= set("0123456789abcdef")


def _mapped_graph(path: Path, record: dict[str, Any]) -> StoredGraph:
    n_nodes, n_entries, digests = record["n_nodes"], record["n_entries"], record["digests"]
    expected, place = dtypes(n_nodes, n_entries), arrays_folder(path, record["version"])
    arrays = {
        name: _mapped(array_file(place, name), expected[name], size)
        for name, size in sizes(n_nodes, n_entries).items()
    }
    ends = int(arrays["indptr"][0]), int(arrays["indptr"][-1])
    if ends != (0, n_entries):
        raise fault(array_file(place, "indptr"), f"begins with {ends[0]} and ends with {ends[1]}")
    names = _read_names(place / NAMES, digests["names"], n_nodes) if "names" in digests else None
    return StoredGraph(record, place, arrays, names)


def _mapped(file: Path, dtype: np.dtype, size: int) -> np.ndarray:
    """The array of a file as a read-only map, once dtype, shape and length are as recorded."""
    _require_file(file)
    with _reading(file, "mapped", (OSError, MemoryError)):
        before = version(file)
        with file.open("rb") as stream:
            header = read_header(stream)
            length = os.fstat(stream.fileno()).st_size
            if header is None:
                raise fault(file, "is damaged: it has no header of an array")
            if header.dtype != dtype or header.shape != (size,):
                raise fault(
                    file,
                    f"holds dtype {header.dtype} and shape {header.shape} where the record has "
                    f"{dtype} and {(size,)}",
                )

            expected = header.offset + size * dtype.itemsize
            if length != expected:
                raise fault(file, f"has {length} bytes where {expected} were written")
            mapped = np.memmap(stream, dtype, "r", header.offset, (size,))

    mapped.version = before  # type: ignore[attr-defined]  # whoever maps the file elsewhere can compare
    # A plain array over the same map: compiled loops know no other.
    return np.asarray(mapped)


def _read_names(file: Path, digest: str, n_nodes: int) -> tuple[Hashable, ...]:
    text = _read(file)
    if hashlib.sha256(text).hexdigest() != digest:
        raise fault(file, "is damaged")
    names = _parsed(file, text)
    if not isinstance(names, list) or len(names) != n_nodes:
        raise fault(file, f"does not hold a list of {n_nodes} names")
    try:
        return tuple(decoded_name(name) for name in names)
    except RecursionError:
        raise fault(file, "holds names within names without end") from None


# -- verifying -------------------------------------------------------------------------------------


def _verify(stored: StoredGraph, chunk_size: int) -> None:
    """Compare digests, and check every value, with a few chunks of the arrays in memory."""
    record, place, arrays, _ = stored
    digest = hashlib.sha256()
    pieces = partial(row_pieces, arrays["indptr"], chunk_size)
    passes = {
        "indptr": _verified_indptr(chunks(arrays["indptr"], chunk_size)),
        "indices": _verified_indices(pieces(), arrays["indices"], record),
        "weights": _verified_weights(
            pieces(), arrays["weights"], arrays["degrees"], record["weighted"]
        ),
        "degrees": chunks(arrays["degrees"], chunk_size),
    }

    for name in ARRAYS:
        try:
            for chunk in passes[name]:
                digest.update(canonical(chunk))
        except _WrongValueError as error:
            raise fault(array_file(place, name), str(error)) from None
        if digest.hexdigest() != record["digests"][name]:
            raise fault(array_file(place, name), "holds other values than were written")
    if not record["directed"] and not _is_symmetric(pieces(), arrays["indices"], arrays["weights"]):
        raise fault(
            array_file(place, "indices"), "holds entries that differ from their mirror images"
        )


def _is_symmetric(pieces: RowPieces, indices: np.ndarray, weights: np.ndarray) -> bool:
    """True if every entry has its mirror image: one pass, and wrong with probability 2^-64 at most
    about.

    Sums of entries above and below the diagonal, scrambled by a secret of each call, are equal.
    """
    secret, balance = np.uint64(secrets.randbits(64)), 0
    for first, counts, piece in pieces:
        rows = np.repeat(np.arange(first, first + counts.size, dtype=np.uint64), counts)
        balance += _overweight(rows, indices[piece].astype(np.uint64), weights[piece], secret)
    return balance % 2**64 == 0


def _overweight(
    rows: np.ndarray, columns: np.ndarray, weights: np.ndarray, secret: np.uint64
) -> int:
    """The sum of scrambled entries above the diagonal less those below; overwrites `columns`."""
    above, below = rows < columns, rows > columns
    code = np.minimum(rows, columns)
    code <<= np.uint64(32)
    code |= np.maximum(rows, columns, out=columns)
    code ^= secret
    _scramble(code)
    code ^= np.ascontiguousarray(weights).view(np.uint64)
    _scramble(code)
    return int(code.sum(where=above)) - int(code.sum(where=below))


def _scramble(words: np.ndarray) -> None:
    """The finalizer of splitmix64 (Steele, Lea and Flood 2014), in place: bits depend on all."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        words ^= words >> np.uint64(shift)
        words *= np.uint64(factor)
    words ^= words >> np.uint64(31)


class _WrongValueError(Exception):
    """A value in an array on which loops would stray, or results be wrong."""


def _verified_indptr(pointers: Iterator[np.ndarray]) -> Iterator[np.ndarray]:
    last = 0
    for chunk in pointers:
        if int(chunk[0]) < last or bool((np.diff(chunk) < 0).any()):
            raise _WrongValueError("decreases somewhere")
        last = int(chunk[-1])
        yield chunk


def _verified_indices(
    pieces: RowPieces, indices: np.ndarray, record: Mapping[str, Any]
) -> Iterator[np.ndarray]:
    """Chunks of indices, each checked: in range, increasing within rows; loops are counted."""
    n_nodes, n_loops, last_row, last_column = record["n_nodes"], 0, -1, -1
    for first, counts, piece in pieces:
        chunk = indices[piece]
        if not chunk.size:
            continue
        if int(chunk.min()) < 0 or int(chunk.max()) >= n_nodes:
            raise _WrongValueError(f"holds positions outside [0, {n_nodes - 1}]")
        rows = np.repeat(np.arange(first, first + counts.size), counts)
        falls = (rows[1:] == rows[:-1]) & (chunk[1:] <= chunk[:-1])
        if falls.any() or (int(rows[0]) == last_row and int(chunk[0]) <= last_column):
            raise _WrongValueError("holds positions that do not increase within a row")
        last_row, last_column = int(rows[-1]), int(chunk[-1])
        n_loops += int(np.count_nonzero(rows == chunk))
        yield chunk
    if not record["directed"] and 2 * record["n_edges"] - record["n_entries"] != n_loops:
        raise _WrongValueError(
            f"holds {n_loops} self-loops, which is not what the number of edges says"
        )


def _verified_weights(
    pieces: RowPieces, weights: np.ndarray, degrees: np.ndarray, weighted: bool
) -> Iterator[np.ndarray]:
    """The chunks of weights, each checked: finite and above 0, with the degrees as sums of rows."""
    least, most, first_row = math.inf, 0.0, 0
    sums, n_entries = np.zeros(0), np.zeros(0, dtype=np.int64)
    for first, counts, piece in pieces:
        if first != first_row or not sums.size:
            _require_sums(degrees, first_row, sums, n_entries)
            first_row, sums, n_entries = (
                first,
                np.zeros(counts.size),
                np.zeros(counts.size, dtype=np.int64),
            )

        chunk = weights[piece]
        if chunk.size:
            least, most = min(least, float(chunk.min())), max(most, float(chunk.max()))
            # A NaN is the least and the most of its chunk, and compares to nothing.
            if not (np.isfinite(chunk).all() and least > 0):
                raise _WrongValueError("holds weights that are not finite and above 0")
        sums += np.bincount(np.repeat(np.arange(counts.size), counts), chunk, minlength=counts.size)
        n_entries += counts
        yield chunk

    _require_sums(degrees, first_row, sums, n_entries)
    if (least < most) != weighted:
        raise _WrongValueError(
            f"holds {'equal' if weighted else 'different'} weights against the record"
        )


def _require_sums(degrees: np.ndarray, first: int, sums: np.ndarray, n_entries: np.ndarray) -> None:
    """Raise unless degrees from row `first` on are these sums of entries, to rounding."""
    part = degrees[first : first + sums.size]
    # Two sums of n numbers above 0, in whatever order, differ by n 2^-52 of their value at most.
    with np.errstate(invalid="ignore", over="ignore"):
        same = np.abs(part - sums) <= n_entries * (np.finfo(float).eps * sums)
    if not (same & np.isfinite(part)).all():
        raise _WrongValueError("holds weights whose sums by rows are not those in degrees.npy")
