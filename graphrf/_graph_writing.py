"""Writing a graph's folder: whole or not at all, by one writer at a time, over nothing but a graph."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from graphrf import _graph_folder
from graphrf._files import FULL, cannot_write, sync_folder
from graphrf._graph_folder import ARRAYS, FORMAT, NAMES, RECORD, array_file

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

# What is in a folder while it is written, or was when its writer was killed.
_SCRATCH, _LOCK = ".graphrf-writing", ".graphrf-lock"
_MARKER = {"format": FORMAT, "unfinished": True}


class Column(NamedTuple):
    """An array to be written: its length, and its entries in chunks."""

    size: int
    chunks: Iterable[np.ndarray]

    @classmethod
    def of(cls, array: np.ndarray) -> Column:
        return cls(array.size, _graph_folder.chunks(array))


class Writing(NamedTuple):
    """A folder that is locked for this writer, and a folder in it for temporary files."""

    path: Path
    scratch: Path


@contextmanager
def writing(folder: str) -> Iterator[Writing]:
    """A graph's folder for one writer; whatever fails within the block leaves no new folder behind.

    ValueError where other files would be written over, BlockingIOError where another writer is at work, OSError
    where nothing can be written. Without `fcntl`, or on disks without locks, other writers are not seen.
    """
    path = Path(folder)
    _require_ours(path)
    new = [place for place in (path, *path.parents) if not place.exists()]
    try:
        with _locked(path):
            scratch = path / _SCRATCH
            shutil.rmtree(scratch, ignore_errors=True)
            try:
                scratch.mkdir(exist_ok=True)
                yield Writing(path, scratch)
            except OSError as error:
                # Errors without a file are those of writing, but those of the edges' own source may be so, too.
                if error.errno in FULL if error.filename is None else scratch in Path(error.filename).parents:
                    raise cannot_write(error, path, "folder") from error
                raise
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
    except BaseException:
        for place in new:
            with contextlib.suppress(OSError):
                place.rmdir()
        raise


def _require_ours(path: Path) -> None:
    """Raise unless a graph may be written there: what is no graph is not written over."""
    for place in (path, *path.parents):
        if place.exists() and not place.is_dir():
            below = "" if place == path else f"{path}, which is below "
            raise ValueError(f"`folder` must be a folder, got {below}the file {place}")
    if not path.exists():
        return
    try:
        record = json.loads((path / RECORD).read_bytes())
        ours = isinstance(record, dict) and record.get("format") == FORMAT
    except FileNotFoundError:
        # What a writer leaves that was killed before it touched anything.
        ours = all(entry.name in (_SCRATCH, _LOCK) for entry in path.iterdir())
    except (ValueError, RecursionError, OSError):
        ours = False
    if not ours or any((path / name).is_symlink() for name in (_SCRATCH, _LOCK)):
        raise ValueError(
            f"`folder` must be new, empty, or a graph's folder to be written over, got {path}, "
            "which holds other files"
        )


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """The folder, made if it is new, and held by a lock that ends with its process at the latest."""
    file = path / _LOCK
    handle = None
    try:
        while handle is None:
            path.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):  # removed since, by a writer that failed
                handle = _lock(file)
    except BlockingIOError:
        raise BlockingIOError(
            errno.EWOULDBLOCK,
            f"`folder` must be free, but another writer is at work in {path}; "
            "wait for it, or write to another folder",
        ) from None
    except OSError as error:
        raise cannot_write(error, path, "folder") from error
    try:
        yield
    finally:
        _unlock(file, handle)


def _lock(file: Path) -> int | None:
    """The handle of a lock file that is held; None if it is no longer the file of that name."""
    handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if fcntl is not None:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise
            except OSError:
                return handle  # this disk has no locks
        held, there = os.fstat(handle), os.stat(file)
        if (held.st_dev, held.st_ino) == (there.st_dev, there.st_ino):
            return handle
    except BaseException:
        os.close(handle)
        raise
    os.close(handle)
    return None


def _unlock(file: Path, handle: int) -> None:
    if fcntl is None:  # where open files cannot be removed
        os.close(handle)
    with contextlib.suppress(OSError):
        file.unlink()
    if fcntl is not None:
        # Not by closing alone: a process forked from this one has the handle too.
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)


def write_folder(
    folder: Writing, columns: Mapping[str, Column], facts: Mapping[str, Any], names: Sequence[Any] | None
) -> str:
    """Write the four columns, `facts` (n_nodes, n_edges, directed, weighted) and encoded names; the checksum.

    All files are written beside the old ones first, so that a full disk leaves those. The rest is renaming,
    between a record that says so and the new one: a folder with a record is whole.
    """
    path, scratch = folder
    n_entries = columns["indices"].size
    dtypes = _graph_folder.dtypes(facts["n_nodes"], n_entries)
    # One digest runs through the arrays; its value after each of them tells which one is damaged.
    digest, digests = hashlib.sha256(), {}
    for name in ARRAYS:
        column, dtype = columns[name], dtypes[name]
        header = {"descr": dtype.str, "fortran_order": False, "shape": (column.size,)}
        with _synced(array_file(scratch, name)) as file:
            np.lib.format.write_array_header_1_0(file, header)
            for chunk in column.chunks:
                file.write(np.ascontiguousarray(chunk, dtype=dtype).data)
                digest.update(_graph_folder.canonical(chunk))
        digests[name] = digest.hexdigest()
    if names is not None:
        text = json.dumps(names).encode()
        digests["names"] = hashlib.sha256(text).hexdigest()
        with _synced(scratch / NAMES) as file:
            file.write(text)
    record = {
        "format": FORMAT,
        **facts,
        "n_entries": n_entries,
        "dtypes": {name: dtype.str for name, dtype in dtypes.items()},
        "digests": digests,
    }
    checksum = _graph_folder.checksum(record)
    with _synced(scratch / RECORD) as file:
        file.write(json.dumps(record | {"checksum": checksum}, indent=1).encode())
    marker = scratch / "unfinished.json"
    with _synced(marker) as file:
        file.write(json.dumps(_MARKER).encode())
    os.replace(marker, path / RECORD)
    # After a power cut, too, there is this marker wherever an array may be new.
    sync_folder(path)
    for name in ARRAYS:
        os.replace(array_file(scratch, name), array_file(path, name))
    if names is None:
        (path / NAMES).unlink(missing_ok=True)
    else:
        os.replace(scratch / NAMES, path / NAMES)
    sync_folder(path)
    os.replace(scratch / RECORD, path / RECORD)
    sync_folder(path)
    return checksum


@contextmanager
def _synced(path: Path) -> Iterator[IO[bytes]]:
    """A new file that has reached the disk when the block ends."""
    with path.open("wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
