"""Writing a graph's folder: whole or not at all, by one writer at a time, over graphs only."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graphrf._base import checks
from graphrf._base.files.atomic import FULL, cannot_write, sync_folder
from graphrf.graph.csr import canonical, chunks
from graphrf.graph.disk import folder as graph_folder
from graphrf.graph.disk.folder import ARRAYS, FORMAT, NAMES, RECORD, array_file, arrays_folder

if TYPE_CHECKING:
    from graphrf.graph.graph import Graph

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_LOCK = ".graphrf-lock"


class Writing(NamedTuple):
    """A graph's folder locked for this writer, and the version that its arrays will have."""

    path: Path
    version: str

    @property
    def arrays(self) -> Path:
        """A folder for arrays and temporary files; it goes with the block unless recorded."""
        return arrays_folder(self.path, self.version)


@contextmanager
def writing(folder: str) -> Iterator[Writing]:
    """A graph's folder for one writer; whatever fails within the block leaves nothing new behind.

    ValueError for other files in it, BlockingIOError for another writer, OSError if it cannot be
    written to.
    """
    path = Path(folder)
    _require_ours(path)
    new = [place for place in (path, *path.parents) if not place.exists()]

    try:
        with _locked(path) as is_locked:
            target = Writing(path, graph_folder.new_version())
            before = _named_version(path)
            _remove_arrays(path, is_locked)  # what killed writers left, whose room may be needed

            try:
                target.arrays.mkdir()
                yield target
            except OSError as error:
                # Errors without a file are those of writing, but
                # those of the edges' own source may be so, too.
                file = Path(error.filename) if isinstance(error.filename, str) else None
                if error.errno in FULL if file is None else target.arrays in (file, *file.parents):
                    raise cannot_write(error, path, "folder") from error
                raise
            finally:
                _remove_arrays(path, is_locked, before, target.version)
    except BaseException:
        for place in new:
            with contextlib.suppress(OSError):
                place.rmdir()
        raise


def _named_version(path: Path) -> str | None:
    """The version that the record names; "" without a record, None if it is unreadable."""
    try:
        named = json.loads((path / RECORD).read_bytes())["version"]
    except FileNotFoundError:
        return ""
    except (ValueError, TypeError, KeyError, RecursionError, OSError):
        return None
    return named if graph_folder.is_version(named) else None


def _remove_arrays(path: Path, every: bool, *ours: str | None) -> None:
    """Remove arrays of our versions, or of all, but those that the record names, or may."""
    named = _named_version(path)
    with contextlib.suppress(OSError):
        for entry in list(os.scandir(path)):
            version = graph_folder.version_of(entry.name)
            if version not in (None, named) and (version in ours or (every and named is not None)):
                # On Windows, and on some network disks, files stay
                # while they are mapped. Links are left alone.
                shutil.rmtree(entry.path, ignore_errors=True)


def _require_ours(path: Path) -> None:
    """Raise unless a graph may be written there: what is no graph is not written over."""
    for place in (path, *path.parents):
        try:
            mode = place.stat().st_mode
        except OSError:
            continue  # not there, or not to be seen: writing will show it
        if not stat.S_ISDIR(mode):
            below = "" if place == path else f"{path}, which is below "
            raise checks.value_error("folder", f"must be a folder, got {below}the file {place}")

    try:
        # First the names: a record that another writer puts there after is found.
        entries = list(os.scandir(path))
    except FileNotFoundError:
        return
    except OSError as error:
        raise cannot_write(error, path, "folder") from error

    try:
        record = json.loads((path / RECORD).read_bytes())
        ours = isinstance(record, dict) and record.get("format") == FORMAT
    except FileNotFoundError:
        # What a writer leaves that was killed before there was a record.
        ours = all(
            entry.name == _LOCK
            or (
                graph_folder.version_of(entry.name) is not None
                and entry.is_dir(follow_symlinks=False)
            )
            for entry in entries
        )
    except (ValueError, RecursionError, OSError):
        ours = False

    if not ours or (path / _LOCK).is_symlink():
        raise checks.value_error(
            "folder",
            f"must be new, empty, or a graph's folder to be written over, got {path}, which holds "
            "other files",
        )


@contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """The folder, made if new, and whether a lock holds it (not everywhere, as without `fcntl`)."""
    file = path / _LOCK
    handle = None

    try:
        while handle is None:
            # The folder, or the lock, may be removed as soon as it is found: by a writer that
            # fails, or is done.
            try:
                path.mkdir(parents=True, exist_ok=True)
            except FileExistsError:
                if os.path.lexists(path):
                    raise
            with contextlib.suppress(FileNotFoundError):
                handle, is_held = _lock(file)
    except BlockingIOError:
        raise BlockingIOError(
            errno.EWOULDBLOCK,
            f"`folder` must be free, but another writer is at work in {path}; "
            "wait for it, or write to another folder",
        ) from None
    except OSError as error:
        raise cannot_write(error, path, "folder") from error

    try:
        yield is_held
    finally:
        _unlock(file, handle)


def _lock(file: Path) -> tuple[int | None, bool]:
    """The handle of a lock file, None if it is no longer that file; and whether it is locked."""
    handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if fcntl is not None:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise
            except OSError:
                return handle, False  # this disk has no locks
        held, there = os.fstat(handle), os.stat(file)
        if (held.st_dev, held.st_ino) == (there.st_dev, there.st_ino):
            return handle, fcntl is not None
    except BaseException:
        os.close(handle)
        raise
    os.close(handle)
    return None, False


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


def save(graph: Graph, folder: Any) -> None:
    """See `Graph.save`."""
    path = graph_folder.folder_path(folder)
    names = None
    if graph.has_names:
        way_out = "make a graph without them, and keep them yourself"
        names = [graph_folder.encoded_name(name, way_out) for name in graph.nodes]
    with writing(path) as place:
        adjacency = graph.adjacency
        arrays = (adjacency.indptr, adjacency.indices, adjacency.data, graph.degrees)
        facts = {
            "n_nodes": graph.n_nodes,
            "n_edges": graph.n_edges,
            "directed": graph.directed,
            "weighted": graph.is_weighted,
        }
        write_folder(place, dict(zip(ARRAYS, arrays, strict=True)), facts, names)


def write_folder(
    folder: Writing,
    arrays: Mapping[str, np.ndarray],
    facts: Mapping[str, Any],
    names: Sequence[Any] | None,
) -> None:
    """Write a graph. All files are complete before the record, which makes it the new one."""
    path, place = folder.path, folder.arrays
    n_entries = arrays["indices"].size
    dtypes = graph_folder.dtypes(facts["n_nodes"], n_entries)

    # One digest runs through the arrays; its value after each of them shows which one is damaged.
    digest, digests = hashlib.sha256(), {}
    for name in ARRAYS:
        array, dtype = arrays[name], dtypes[name]
        header = {"descr": dtype.str, "fortran_order": False, "shape": (array.size,)}
        with _synced(array_file(place, name)) as file:
            np.lib.format.write_array_header_1_0(file, header)
            for chunk in chunks(array):
                file.write(np.ascontiguousarray(chunk, dtype=dtype).data)
                digest.update(canonical(chunk))
        digests[name] = digest.hexdigest()

    if names is not None:
        text = json.dumps(names).encode()
        digests["names"] = hashlib.sha256(text).hexdigest()
        with _synced(place / NAMES) as file:
            file.write(text)

    record = {
        "format": FORMAT,
        "version": folder.version,
        **facts,
        "n_entries": n_entries,
        "dtypes": {name: dtype.str for name, dtype in dtypes.items()},
        "digests": digests,
    }
    with _synced(place / RECORD) as file:
        file.write(
            json.dumps(record | {"checksum": graph_folder.checksum(record)}, indent=1).encode()
        )

    # After a power cut, too, whatever the record names must be there.
    sync_folder(place)
    sync_folder(path)
    os.replace(place / RECORD, path / RECORD)
    sync_folder(path)


@contextmanager
def _synced(path: Path) -> Iterator[IO[bytes]]:
    """A new file that has reached the disk when the block ends."""
    with path.open("wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
