"""Reading foreign files: within available memory, with the errors of other libraries translated."""

from __future__ import annotations

import errno
import os
import re
import stat
import warnings
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from graphrf._base.memory import MORE_MEMORY, NoRoomError, available_memory, limit_words

_PIECE = 2**16
# Names that no file can have are names of no file.
_NO_SUCH = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP)
# Before 2.3 NumPy only warns where text is read in part; so do these modules, then.
_PARTS_PASS = np.lib.NumpyVersion(np.__version__) < "2.3.0"
_READERS = r"(graphrf|trimesh)\."


def read_bytes(path: Path, factor: float, memory_limit: int | None = None) -> bytes:
    """The bytes of a plain file, decompressed when its name ends in `.gz`.

    What is made of a byte takes up to `factor` bytes: a file that would exceed `memory_limit` (by
    default what is available) is a MemoryError before it is read or, if compressed, as soon as it
    has grown too large. What is no plain file, empty, damaged or compressed twice is a ValueError.
    """
    limit = available_memory() if memory_limit is None else memory_limit
    most = None if limit is None else int(limit / factor)
    size = checked_size(path)
    require(path, size, size * factor, memory_limit)

    with path.open("rb") as file:
        if not path.name.lower().endswith(".gz"):
            content = file.read(size)
        else:
            pieces, length = [], 0
            for piece in _unzipped(path, file, size):
                pieces.append(piece)
                length += len(piece)
                if most is not None and length > most:
                    require(path, length, length * factor, memory_limit, at_least=True)
            content = b"".join(pieces)

    if content.startswith(b"\x1f\x8b"):
        twice = path.name.lower().endswith(".gz")
        way_out = "decompress it once" if twice else "give it a name that ends in .gz"
        raise ValueError(f"{path} is compressed by gzip{' twice' if twice else ''}; {way_out}")
    if not content or content.isspace():
        raise ValueError(f"{path} is empty")

    start = content[:200].removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if start.startswith(b"version https://git-lfs"):
        raise ValueError(
            f"{path} is a pointer of Git LFS, not the file itself; `git lfs pull` fetches that"
        )
    if start.startswith((b"<!doctype html", b"<html")):
        raise ValueError(
            f"{path} is an HTML page, such as servers send in place of a file; download it again"
        )
    return content


def first_bytes(path: Path, count: int) -> bytes:
    """The first bytes of a plain file, decompressed if its name ends in `.gz`."""
    size = checked_size(path)
    with path.open("rb") as file:
        if not path.name.lower().endswith(".gz"):
            return file.read(count)
        start = b""
        for piece in _unzipped(path, file, size):
            start += piece[:count]
            if len(start) >= count:
                break
        return start[:count]


def checked_size(path: Path) -> int:
    """The size of a file in bytes, once it is known to be a plain file."""
    try:
        facts = path.stat()
    except (OSError, ValueError) as error:  # ValueError: a name with NUL
        if isinstance(error, OSError) and error.errno not in _NO_SUCH:
            raise
        name = repr(os.fspath(path))
        raise FileNotFoundError(
            f"no such file: {name if len(name) <= 300 else name[:300] + '...'}; "
            "named data sets are read by graphrf.datasets.load(name)"
        ) from None
    if stat.S_ISDIR(facts.st_mode):
        raise ValueError(f"{path} is a folder; a file with a graph or a mesh was wanted")
    if not stat.S_ISREG(facts.st_mode):
        raise ValueError(
            f"{path} is a pipe, a socket or a device; a plain file was wanted: write it to one "
            "first"
        )
    return facts.st_size


def require(
    path: Path, size: int, needed: float, memory_limit: int | None, *, at_least: bool = False
) -> None:
    """Raise where reading `size` bytes of a file, which takes `needed`, exceeds the limit."""
    limit = available_memory() if memory_limit is None else memory_limit
    if limit is not None and needed > limit:
        more = "at least " if at_least else ""
        raise NoRoomError(
            f"{path} has {more}{size:,} bytes, whose reading takes about "
            f"{more}{needed / 2**30:.3g} GiB, but {limit_words(memory_limit, limit)}; {MORE_MEMORY}"
        )


@contextmanager
def untrusted(path: Path, wanted: str) -> Iterator[None]:
    """Raise every error of another library's reader within the block as a fault of the file.

    Warning filters belong to the process, not to a thread: where NumPy needs one it is set
    permanently.
    """
    if _PARTS_PASS:
        warnings.filterwarnings(
            "error", "string or file could not be read", DeprecationWarning, _READERS
        )
    try:
        with np.errstate(all="ignore"):
            yield
    except MemoryError as error:
        reason = f": {str(error)[:200]}" if str(error) else ""
        raise NoRoomError(
            f"{path}: its reading as a {wanted} needs more memory than is available{reason}; free "
            "some, pass a larger `memory_limit`, or give the graph as a scipy.sparse matrix"
        ) from None
    except Exception as error:
        # Libraries are given bytes: where they name the file, they name a place in memory.
        reason = (
            re.sub(r"The file <[^>]*>", "it", " ".join(str(error)[:1000].split()))
            or type(error).__name__
        )
        raise ValueError(f"{path} is not a readable {wanted}: {reason[:300]}") from None


def short(value: Any) -> str:
    """A name or cell for a message: what stands in a file may be as long as the file."""
    if isinstance(value, tuple):
        return f"({', '.join(map(short, value))})"
    text = repr(value[:60] if isinstance(value, str | bytes) else value)
    return text if len(text) <= 80 and text == repr(value) else f"{text[:77]}..."


def short_bytes(content: bytes) -> str:
    """A line or cell of a file, not yet decoded, for a message."""
    return short(content.decode("utf-8", "replace"))


def listed(names: Iterable[Any], most: int = 10) -> str:
    """The first of some names, and how many more there are."""
    names = list(names)
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(map(short, names[:most])) + more


def _unzipped(path: Path, file: IO[bytes], size: int) -> Iterator[bytes]:
    """The content of a gzip file of `size` bytes in pieces; zeros may follow it, as on tapes."""
    member, data, at = None, b"", 0
    try:
        while True:
            if not data:
                data = file.read(min(_PIECE, size - at))
                at += len(data)

            if member is None:
                data = data.lstrip(b"\0") if at > len(data) else data
                if not data and at < size:
                    continue
                if not data:
                    return
                member = zlib.decompressobj(wbits=31)
            elif not data:
                raise zlib.error("it ends before its last member does")

            piece = member.decompress(data, _PIECE)
            data = member.unconsumed_tail
            if member.eof:
                data, member = member.unused_data, None
            if piece:
                yield piece
    except zlib.error as error:
        raise ValueError(
            f"{path} is not a whole gzip file ({error}); it is damaged or truncated: fetch it again"
        ) from None


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Faults of what a file holds name the file."""
    try:
        yield
    except (ValueError, TypeError, MemoryError) as error:
        if str(path) in str(error):
            raise
        kind = next(
            kind for kind in (ValueError, TypeError, MemoryError) if isinstance(error, kind)
        )
        reason = str(error) or "not enough memory to read it"
        raise kind(f"{path}{', ' if reason.startswith('line ') else ': '}{reason}") from None
