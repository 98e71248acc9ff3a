"""An object whose large arrays reach each worker once: mapped from files, or sent with it."""

from __future__ import annotations

import glob
import io
import mmap
import os
import pickle
import platform
import threading
import time
import uuid
import weakref
import zlib
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import cloudpickle
import numpy as np
import psutil
from distributed import Client, Future

from graphrf._base.files.atomic import version

# Prefix of the files of processes of this machine.
_OWNER = f"graphrf-{platform.node() or 'localhost'}-"
_DAY = 86_400
# Numbers of a mapped array in its checksum.
_SAMPLED = 16_384
# Arrays are aligned to cache lines in a file.
_LINE = 64
# Mapped contents that a worker keeps open: they hold no memory but small arrays.
_KEPT = 8


@dataclass(frozen=True)
class SharingCosts:
    """Sizes from which on arrays travel in another way."""

    # Arrays of at least so many bytes are mapped; smaller ones are sent.
    large: int = 4096
    # A shared object of at most so many bytes is sent with each task. `Client.map` keys a larger
    # argument by its name alone, so that two calls would share one value.
    light: int = 65_536


class _Place(NamedTuple):
    """Location of an array: at byte `at` of a file, or (no file) number `at` of those sent.

    For an array in a file, `version` identifies the file on this machine, and the checksum `sample`
    on others.
    """

    file: str | None
    at: int
    dtype: str
    shape: tuple[int, ...]
    writeable: bool
    version: tuple[int, int, int] | None = None
    sample: int = 0


class _Opened(NamedTuple):
    """Content of a shared object, its memory maps, and its file, which is removed with it."""

    content: Any
    maps: list[np.memmap[Any, Any]]
    file: Path | None = None


_opened: OrderedDict[str, _Opened] = OrderedDict()
_opening = threading.Lock()


class SharedObject:
    """An object for workers, its arrays sent separately, or mapped from a `folder` they all see.

    Read-only arrays stay read-only, which compiled loops distinguish. Memory maps of files stay in
    these files. Other large arrays are written to one file in the folder, from which all workers of
    a machine map the same pages; without a folder they are sent. The file is removed when this
    object is no longer used in this process. `mapped_bytes` are those of files that each worker
    maps.
    """

    def __init__(
        self,
        content: Any,
        folder: str | os.PathLike[str] | None = None,
        costs: SharingCosts = SharingCosts(),
    ) -> None:
        self._costs = costs
        self._key = uuid.uuid4().hex
        text = io.BytesIO()
        self._file: Path | None = None

        if folder is None:
            packer = _Packer(text, None, costs.large)
            packer.dump(content)
        else:
            _remove_abandoned(Path(folder))
            path = Path(folder).absolute() / f"{_OWNER}{os.getpid()}-{self._key}.arrays"
            try:
                with path.open("wb") as file:
                    packer = _Packer(text, file, costs.large)
                    packer.dump(content)
            except OSError as error:
                path.unlink(missing_ok=True)
                raise OSError(
                    error.errno,
                    f"cannot write the arrays of the graph for the workers ({error.strerror}); "
                    "pass another `shared_folder`",
                    str(path),
                ) from error
            except BaseException:
                path.unlink(missing_ok=True)
                raise
            weakref.finalize(self, path.unlink, missing_ok=True)
            self._file = path

        self._text = text.getvalue()
        self._arrays = packer.arrays
        self.mapped_bytes: int = packer.mapped_bytes
        self._own: _Opened | None = None

    @property
    def nbytes(self) -> int:
        """Bytes that are sent."""
        return len(self._text) + sum(array.nbytes for array in self._arrays)

    def delivered(self, client: Client) -> SharedObject | Future[Any]:
        """Argument for tasks: the object itself if it is small, else a future that is copied to
        every worker.
        """
        if self.nbytes <= self._costs.light:
            return self
        future: Future[Any] = client.scatter(self, broadcast=True, hash=False)
        return future

    def content(self) -> Any:
        """The object; opened once in a process."""
        return self._open().content

    @staticmethod
    def release(allowed: int, objects: Mapping[str, _Opened] = _opened) -> None:
        """Release this process's pages of mapped objects if these have more than `allowed` bytes.

        They are loaded again when they are read.
        """
        if not hasattr(mmap, "MADV_DONTNEED"):
            return
        with _opening:
            every = [
                array
                for opened in objects.values()
                for array in opened.maps
                if not array.flags.writeable
            ]
        if sum(array.nbytes for array in every) > allowed:
            for array in every:
                pages: Any = array.base
                pages.madvise(mmap.MADV_DONTNEED)

    def _open(self) -> _Opened:
        with _opening:
            found = _opened.get(self._key) if self._file else self._own
            if found is None:
                unpacker = _Unpacker(io.BytesIO(self._text), self._arrays)
                found = _Opened(unpacker.load(), unpacker.maps, self._file)
                if self._file:
                    _forget_removed()
                    _opened[self._key] = found
                    while len(_opened) > _KEPT:
                        _opened.popitem(last=False)
                else:
                    self._own = found
            elif self._file:
                _opened.move_to_end(self._key)
            return found

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_own": None}

    def __sizeof__(self) -> int:
        return self.nbytes


def _remove_abandoned(folder: Path) -> None:
    """Remove files in a folder that killed processes of this machine left at least a day ago."""
    for path in folder.glob(f"{glob.escape(_OWNER)}*.arrays"):
        process = path.name.removeprefix(_OWNER).split("-")[0]
        with suppress(OSError):  # another process may be removing them
            old = time.time() - path.stat().st_mtime > _DAY
            if old and process.isdigit() and not psutil.pid_exists(int(process)):
                path.unlink()


def _forget_removed() -> None:
    """Close the maps of objects whose files were removed, to free the space on the disk.

    A graph's own files may have been overwritten while its maps are still in use, so they do not
    count.
    """
    for key, opened in list(_opened.items()):
        if opened.file is not None and not opened.file.exists():
            del _opened[key]


class _Packer(cloudpickle.Pickler):
    """Pickles an object without its arrays, which go to `arrays`, or to `file` if large."""

    def __init__(self, text: io.BytesIO, file: BinaryIO | None, large: int) -> None:
        super().__init__(text, protocol=pickle.HIGHEST_PROTOCOL)
        self.arrays: list[np.ndarray] = []
        self.mapped_bytes = 0
        self._file, self._large = file, large
        # Arrays are kept beside their places, so that their ids stay valid.
        self._known: dict[int, tuple[np.ndarray, _Place]] = {}

    def persistent_id(self, thing: Any) -> _Place | None:
        """The place of an array; None for all else, which is pickled."""
        if (
            type(thing) not in (np.ndarray, np.memmap)
            or thing.dtype.kind not in "biuf"
            or not thing.flags.c_contiguous
        ):
            return None
        if id(thing) not in self._known:
            self._known[id(thing)] = thing, self._placed(thing)
        return self._known[id(thing)][1]

    def _placed(self, array: np.ndarray) -> _Place:
        if self._file is None or array.nbytes < self._large:
            self.arrays.append(array.view(np.ndarray))
            return _place(None, len(self.arrays) - 1, array)
        self.mapped_bytes += array.nbytes
        found = _mapped_file(array)
        if found is None:
            self._file.write(bytes(-self._file.tell() % _LINE))
            start = self._file.tell()
            self._file.write(array.data)
            return _place(self._file.name, start, array)._replace(sample=_sample(array))
        file, start, known = found
        return _place(file, start, array)._replace(version=known, sample=_sample(array))


class _Unpacker(pickle.Unpickler):
    def __init__(self, text: io.BytesIO, arrays: list[np.ndarray]) -> None:
        super().__init__(text)
        self.maps: list[np.memmap[Any, Any]] = []
        self._arrays = arrays
        self._known: dict[_Place, np.ndarray] = {}

    def persistent_load(self, place: _Place) -> np.ndarray:
        """The array at a place."""
        if place not in self._known:
            self._known[place] = self._array(place)
        return self._known[place]

    def _array(self, place: _Place) -> np.ndarray:
        if place.file is None:
            array = self._arrays[place.at]
            array = array.copy() if place.writeable else array.view()
            array.setflags(write=place.writeable)
            return array

        # Pages of writeable arrays are shared until they are written to.
        mode: Any = "c" if place.writeable else "r"
        try:
            here = version(place.file)
            mapped = np.memmap(place.file, place.dtype, mode, place.at, place.shape)
        except (OSError, ValueError) as error:
            raise FileNotFoundError(
                f"this worker cannot map {place.file} ({error}): keep the file as long as its "
                "graph or features are used, in a folder that all workers see; if a graph's folder "
                "was overwritten, open the graph again"
            ) from None

        # A copy on the disk of another machine has another version and the same numbers.
        if here != place.version and _sample(mapped) != place.sample:
            raise ValueError(
                f"{place.file} has changed since its graph was opened, because the folder was "
                "overwritten; open the graph again"
            )
        self.maps.append(mapped)
        return mapped.view(np.ndarray)


def _sample(array: np.ndarray) -> int:
    """A checksum of numbers spread over an array."""
    flat = array.reshape(-1)
    return zlib.crc32(
        flat[np.linspace(0, flat.size - 1, min(flat.size, _SAMPLED)).astype(np.int64)].tobytes()
    )


def _place(file: str | None, at: int, array: np.ndarray) -> _Place:
    return _Place(file, at, array.dtype.str, array.shape, bool(array.flags.writeable))


def _mapped_file(array: np.ndarray) -> tuple[str, int, tuple[int, int, int]] | None:
    """The file of an opened graph that an array is mapped from, its offset, and the version.

    None for other arrays, and if the file has been overwritten, since the map keeps the old
    contents.
    """
    base: Any = array
    while isinstance(base, np.ndarray) and not isinstance(base.base, mmap.mmap):
        base = base.base
    known = getattr(base, "version", None)
    if known is None or array.flags.writeable:
        return None
    path = str(Path(base.filename).absolute())
    try:
        if version(path) != known:
            return None
    except OSError:
        return None
    return path, int(base.offset + array.ctypes.data - base.ctypes.data), known
