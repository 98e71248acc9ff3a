"""Files of arrays beside a JSON record: written whole or not at all, and read without pickle."""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from graphrf import _checks
from graphrf._files import atomic_write


def write_record(
    path: str | os.PathLike[str], record: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> None:
    """Write the record, which JSON can hold, and the arrays as an uncompressed .npz file."""
    text = json.dumps(record).encode()
    with atomic_write(_checks.path("path", path)) as file:
        np.savez(file, allow_pickle=False, record=np.frombuffer(text, np.uint8), **arrays)


def read_record(path: str | os.PathLike[str], format: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Record and arrays of a file whose record has the given "format"; any fault raises (see `whole_file`)."""
    # Opened here, because np.load leaves a broken file open.
    with open(path, "rb") as file:
        if not zipfile.is_zipfile(file):
            raise ValueError("it is no .npz archive, or not a whole one")
        file.seek(0)
        archive = np.load(file, allow_pickle=False)
        record = json.loads(bytes(archive["record"]).decode())
        if record["format"] != format:
            raise ValueError("another format")
        return record, {name: archive[name] for name in archive.files if name != "record"}


# What broken archives, arrays and records make their readers raise: zipfile RuntimeError and NotImplementedError
# for bits in its headers that stand for encryption and other methods.
_FAULTS = (
    *(ValueError, KeyError, TypeError, EOFError, OSError, AttributeError, RuntimeError),
    *(zipfile.BadZipFile, zlib.error),
)


@contextmanager
def whole_file(path: str | os.PathLike[str], writer: str) -> Iterator[None]:
    """Whatever goes wrong within the block is the fault of the file, which `writer` writes: it is told so."""
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(f"`path` must be a file written by {writer}, got none at {path}") from None
    except _FAULTS as error:
        raise ValueError(f"`path` must be a whole file written by {writer}, got {str(path)!r}: {error}") from error
