"""Writing a file whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


def exclusive_write(path: str | os.PathLike[str], content: bytes) -> bool:
    """Write a file that was not there, whole or not at all; False, and nothing is written, if there was one.

    Of several processes that do so at once one succeeds. On a file system without hard links others may see half
    the file for a moment, and a process that is killed may leave half of it.
    """
    target = Path(path)
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", suffix=".part") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
        os.chmod(file.name, 0o666 & ~_mask())
        try:
            os.link(file.name, target)
            return True
        except FileExistsError:
            return False
        except OSError:  # no hard links here
            pass
    try:
        with target.open("xb") as only:
            only.write(content)
    except FileExistsError:
        return False
    return True


def _mask() -> int:
    """Permissions that new files do not get."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


def version(path: str | os.PathLike[str]) -> tuple[int, int, int]:
    """What tells a file from one that takes its place: inode, size, and when it was written, in nanoseconds."""
    facts = os.stat(path)
    return facts.st_ino, facts.st_size, facts.st_mtime_ns


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A binary file that takes the place of `path` when the block ends well, and vanishes when it does not.

    The bytes go to a temporary file in the same folder, reach the disk, and are renamed over `path`, so a
    process killed at any moment leaves either the old file or the new one.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes private files; a saved result gets the permissions that open() would give.
        os.chmod(temporary, 0o666 & ~_mask())
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
