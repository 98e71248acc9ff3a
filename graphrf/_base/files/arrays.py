"""Files of arrays beside a JSON record: written whole or not at all, and read without pickle."""

from __future__ import annotations

import json
import os
import stat
import zipfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any

import numpy as np

from graphrf._base import checks
from graphrf._base.files.atomic import atomic_write
from graphrf._base.files.json_text import parsed
from graphrf._base.files.npz import read_arrays, write_arrays
from graphrf._base.memory import NoRoomError, available_memory


def write_record(
    path: str | os.PathLike[str], record: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> None:
    """Write the record, which JSON can hold, and the arrays as an uncompressed .npz file."""
    # The table of contents of an archive has no checksum:
    # what it loses can be missed only if it is known.
    text = json.dumps({**record, "arrays": list(arrays)}).encode()
    with atomic_write(checks.path("path", path)) as file:
        write_arrays(file, {"record": np.frombuffer(text, np.uint8), **arrays})


def read_record(
    path: str | os.PathLike[str], *formats: str
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Record and arrays of a file whose record has one of `formats` as its "format". Faults raise.

    The arrays take no more memory than the file has bytes, and none before the record is known.
    """
    with opened(path) as file:
        if not zipfile.is_zipfile(file):
            raise ValueError("it is not an .npz archive, or not a whole one")
        record = parsed(_arrays(file, ("record",))["record"].tobytes())
        if not isinstance(record, dict) or record.get("format") not in formats:
            raise ValueError("another format")
        arrays = _arrays(file)
    del arrays["record"]
    # Files of earlier versions have no list.
    if record.pop("arrays", list(arrays)) != list(arrays):
        raise ValueError("its record and its arrays are inconsistent")
    return record, arrays


def record_format(path: str | os.PathLike[str]) -> str | None:
    """The "format" of a file's record, before it is read as such; None where there is none."""
    try:
        with opened(path) as file:
            record = parsed(_arrays(file, ("record",))["record"].tobytes())
    except (*_FAULTS, OSError, MemoryError, zipfile.BadZipFile, EOFError):
        return None
    return str(record.get("format")) if isinstance(record, dict) else None


def _arrays(file: IO[bytes], names: Collection[str] | None = None) -> dict[str, np.ndarray]:
    """Arrays of an uncompressed archive, as `read_arrays`; MemoryError where they do not fit."""
    size, left = os.fstat(file.fileno()).st_size, available_memory()
    limit = size if left is None else min(size, left)
    try:
        return read_arrays(file, limit, names)
    except MemoryError as error:
        # numpy raises a subclass where memory is short
        if type(error) is MemoryError and error.args and limit == size:
            raise ValueError(
                "it is compressed, as no record is, and its arrays are larger than it"
            ) from None
        raise


def opened(path: str | os.PathLike[str]) -> IO[bytes]:
    """The file, open for reading, once it is known to be plain: pipes and devices may never end."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise ValueError("it is no file")
    return open(path, "rb")


# Errors that invalid records cause in their readers. (A missing member of an archive raises a
# KeyError, a number that fits no integer an OverflowError, unlimited nesting a RecursionError.)
_FAULTS = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError)


@contextmanager
def complete_file(path: str | os.PathLike[str], writer: str) -> Iterator[None]:
    """Raise every error of the block as the fault of a file, naming its `writer`."""
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(
            f"`path` must be a file written by {writer}, got none at {path}"
        ) from None
    except OSError as error:
        raise OSError(
            error.errno,
            f"`path` must be a file that can be read ({error.strerror or error})",
            str(path),
        ) from None
    except MemoryError as error:
        raise NoRoomError(
            f"{str(path)!r}, a file of {writer}, needs more memory than is available "
            f"({error or 'none left'}); free some, or read it on a larger machine"
        ) from None
    except _FAULTS as error:
        raise checks.value_error(
            "path", f"must be a whole file written by {writer}, got {str(path)!r}: {error}"
        ) from error
