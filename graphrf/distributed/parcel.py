"""An object whose large arrays reach each worker once: mapped from files that all see, or sent with it."""

from __future__ import annotations

import io
import mmap
import os
import pickle
import threading
import uuid
import weakref
from collections import OrderedDict
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import cloudpickle
import numpy as np
from distributed import Client, Future

# Arrays of so many bytes are mapped; smaller ones travel with the parcel.
_LARGE = 4096
# A parcel of so many bytes goes with each task. `Client.map` would give what is larger than 1e5 bytes a key that
# is its argument's name, whichever call it belongs to.
_LIGHT = 65_536
# Arrays begin in a file at a line of the cache.
_LINE = 64
# Mapped contents that a worker keeps open: they hold no memory but small arrays.
_KEPT = 8


class _Place(NamedTuple):
    """Where an array is: in a file from byte `at` on, or (no file) the parcel's array number `at`."""

    file: str | None
    at: int
    dtype: str
    shape: tuple[int, ...]
    writeable: bool


class _Opened(NamedTuple):
    content: Any
    maps: list[np.memmap[Any, Any]]


_opened: OrderedDict[str, _Opened] = OrderedDict()
_opening = threading.Lock()


class Parcel:
    """An object on its way to workers, with its arrays apart.

    Arrays come out as they went in, read-only ones read-only: compiled loops tell the two kinds apart. Arrays that
    are memory maps of files stay in these files. Of the others the large ones go into one file in `folder`, from
    where all workers of a machine map the same pages; without a folder they travel.

    Parameters
    ----------
    content : object
    folder : path, optional
        Seen by all workers, as the files of mapped arrays must then be. The file in it is removed when this parcel
        is no longer used here.

    Notes
    -----
    Cost: the bytes of the arrays are written, or sent, once. The file holds numbers only.
    """

    def __init__(self, content: Any, folder: str | os.PathLike[str] | None = None) -> None:
        self._key = uuid.uuid4().hex
        text = io.BytesIO()
        if folder is None:
            packer = _Packer(text, None)
            packer.dump(content)
        else:
            path = Path(folder).absolute() / f"graphrf-{self._key}.arrays"
            try:
                with path.open("wb") as file:
                    packer = _Packer(text, file)
                    packer.dump(content)
            except BaseException:
                path.unlink(missing_ok=True)
                raise
            weakref.finalize(self, path.unlink, missing_ok=True)
        self._text = text.getvalue()
        self._arrays = packer.arrays
        self._is_mapped = folder is not None
        self._own: _Opened | None = None

    @property
    def nbytes(self) -> int:
        """Bytes that travel."""
        return len(self._text) + sum(array.nbytes for array in self._arrays)

    def delivered(self, client: Client) -> Parcel | Future:
        """What tasks take: the parcel itself where it is small, else a future of it that every worker holds."""
        if self.nbytes <= _LIGHT:
            return self
        future: Future = client.scatter(self, broadcast=True, hash=False)
        return future

    def content(self) -> Any:
        """The object; opened once in a process."""
        return self._open().content

    def release(self, allowed: int) -> None:
        """Let go of the pages of mapped files where they are more than `allowed` bytes: they are read again."""
        maps = [array for array in self._open().maps if not array.flags.writeable]
        if hasattr(mmap, "MADV_DONTNEED") and sum(array.nbytes for array in maps) > allowed:
            for array in maps:
                pages: Any = array.base
                pages.madvise(mmap.MADV_DONTNEED)

    def _open(self) -> _Opened:
        with _opening:
            found = _opened.get(self._key) if self._is_mapped else self._own
            if found is None:
                unpacker = _Unpacker(io.BytesIO(self._text), self._arrays)
                found = _Opened(unpacker.load(), unpacker.maps)
                if self._is_mapped:
                    _forget_removed()
                    _opened[self._key] = found
                    while len(_opened) > _KEPT:
                        _opened.popitem(last=False)
                else:
                    self._own = found
            elif self._is_mapped:
                _opened.move_to_end(self._key)
            return found

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_own": None}

    def __sizeof__(self) -> int:
        return self.nbytes


def _forget_removed() -> None:
    """Close what is mapped from files that are gone, so that their room on the disk is free."""
    for key, opened in list(_opened.items()):
        if not all(os.path.exists(str(array.filename)) for array in opened.maps):
            del _opened[key]


class _Packer(cloudpickle.Pickler):
    """Writes an object without its arrays, which go to `arrays`, or to `file` where they are large."""

    def __init__(self, text: io.BytesIO, file: BinaryIO | None) -> None:
        super().__init__(text, protocol=pickle.HIGHEST_PROTOCOL)
        self.arrays: list[np.ndarray] = []
        self._file = file
        # The arrays beside their places: what an id belongs to must not vanish.
        self._known: dict[int, tuple[np.ndarray, _Place]] = {}

    def persistent_id(self, thing: Any) -> _Place | None:
        """The place of an array; None for all else, which is pickled."""
        if not isinstance(thing, np.ndarray) or thing.dtype.kind not in "biuf" or not thing.flags.c_contiguous:
            return None
        if id(thing) not in self._known:
            self._known[id(thing)] = thing, self._placed(thing)
        return self._known[id(thing)][1]

    def _placed(self, array: np.ndarray) -> _Place:
        if self._file is None or array.nbytes < _LARGE:
            self.arrays.append(array.view(np.ndarray))
            return _place(None, len(self.arrays) - 1, array)
        mapped = _mapped_file(array)
        if mapped is not None:
            return _place(*mapped, array)
        self._file.write(bytes(-self._file.tell() % _LINE))
        start = self._file.tell()
        self._file.write(array.data)
        return _place(self._file.name, start, array)


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
        # Pages of an array that may be written to are shared until it is.
        mode: Any = "c" if place.writeable else "r"
        try:
            mapped = np.memmap(place.file, place.dtype, mode, place.at, place.shape)
        except (OSError, ValueError) as error:
            raise FileNotFoundError(
                f"this worker cannot map {place.file} ({error}): all workers must see that folder; without a "
                "`shared_folder` the graph is sent to them instead"
            ) from None
        self.maps.append(mapped)
        return mapped.view(np.ndarray)


def _place(file: str | None, at: int, array: np.ndarray) -> _Place:
    return _Place(file, at, array.dtype.str, array.shape, bool(array.flags.writeable))


def _mapped_file(array: np.ndarray) -> tuple[str, int] | None:
    """The file that a read-only array is mapped from, and where in it the array begins."""
    base: Any = array
    while isinstance(base, np.ndarray) and not isinstance(base.base, mmap.mmap):
        base = base.base
    if not isinstance(base, np.memmap) or base.filename is None or array.flags.writeable or base.mode == "c":
        return None  # what was written to a map of mode "c" is not in its file
    return str(Path(base.filename).absolute()), int(base.offset + array.ctypes.data - base.ctypes.data)
