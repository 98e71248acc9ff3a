"""Writing a file whole or not at all."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from graphrf._base import checks

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

# File systems allow 255 bytes in a name; a temporary name has 23 more than what it stands for.
_LONGEST_STEM = 200


@contextmanager
def atomic_write(path: str | os.PathLike[str], argument: str = "path") -> Iterator[IO[bytes]]:
    """A binary file that takes the place of `path` if the block ends well, and vanishes otherwise.

    A process killed at any moment leaves either the old file or the new one, and a temporary file
    beside it, which the next writer removes. A link is replaced, not its target; permissions are
    kept. ValueError where `path` cannot be a file's, OSError with a way out where it cannot be
    written.
    """
    target = file_path(path, argument)
    try:
        temporary, handle = _new_temporary(target)
    except OSError as error:
        raise cannot_write(error, target, argument) from error
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if fcntl is None:
                file.close()  # Windows renames no open files
            os.replace(temporary, target)
        sync_folder(target.parent)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        # An error without a file name comes from writing; errors on other files keep their message.
        if isinstance(error, OSError) and error.filename in (None, str(temporary)):
            raise cannot_write(error, target, argument) from error
        raise


def exclusive_write(path: str | os.PathLike[str], content: bytes, argument: str = "path") -> bool:
    """Write a file that was not there, whole or not at all; False, with nothing written, if it was.

    Of several processes one succeeds. Without hard links, a killed process may leave half of it.
    Errors are those of `atomic_write`.
    """
    target = file_path(path, argument)
    try:
        temporary, handle = _new_temporary(target)
        try:
            with os.fdopen(handle, "wb") as file:
                _write_through(file, content)
                try:
                    os.link(temporary, target)
                    sync_folder(target.parent)
                    return True
                except FileExistsError:
                    return False
                except OSError:  # no hard links here
                    pass
        finally:
            temporary.unlink(missing_ok=True)

        try:
            only = target.open("xb")
        except FileExistsError:
            return False
        try:
            with only:
                _write_through(only, content)
        except BaseException:
            target.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise cannot_write(error, target, argument) from error
    return True


def version(path: str | os.PathLike[str]) -> tuple[int, int, int]:
    """Version of a file, which changes when it is replaced: inode, size and time in nanoseconds."""
    facts = os.stat(path)
    return facts.st_ino, facts.st_size, facts.st_mtime_ns


def sync_folder(folder: Path) -> None:
    """Sync the names in a folder to the disk, or a power cut may bring an old name back."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


# -- paths that cannot be written ------------------------------------------------------------------


def file_path(path: Any, argument: str) -> Path:
    """The path of a plain file or of nothing yet; otherwise TypeError or ValueError."""
    text = checks.path(argument, path)
    name = re.split(r"[/\\]" if os.name == "nt" else "/", text)[-1]
    try:
        usable = name not in ("", ".", "..") and b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        usable = False
    if not usable:
        raise checks.value_error(argument, f"must be the path of a file, got {text!r}")

    target = Path(text)
    for place in (target, *target.parents):
        try:
            mode = place.stat().st_mode
        except OSError:
            continue  # missing or not readable: writing raises the error
        if place == target:
            # Renaming over a device or a pipe would put a plain file in its place.
            if not stat.S_ISREG(mode):
                kind = "a folder" if stat.S_ISDIR(mode) else "no plain file"
                raise checks.value_error(
                    argument, f"must be the path of a file, got {text!r}, which is {kind}"
                )
        elif not stat.S_ISDIR(mode):
            raise checks.value_error(
                argument,
                f"must be the path of a file, got {text!r}, which is below the file {str(place)!r}",
            )

    return target


# A disk, a quota or the size that a process may give to a file is used up.
FULL = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))

_ROOM = "make room there, or choose another place"
_RIGHTS = "choose a place that can be written to, or change its permissions"
_WAYS_OUT = {
    **dict.fromkeys(FULL, _ROOM),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), _RIGHTS),
    errno.ENAMETOOLONG: "choose a shorter one",
}


def cannot_write(error: OSError, place: str | os.PathLike[str], argument: str) -> OSError:
    """The same error with the argument, the path and a remedy in its message."""
    text = str(place)
    shown = repr(text) if len(text) <= 500 else f"{text[:60]!r}... of {len(text):,} characters"
    return OSError(
        error.errno,
        f"`{argument}` must be one that can be written to, got {shown} "
        f"({error.strerror or error}); {_WAYS_OUT.get(error.errno or 0, 'choose another place')}; "
        "what was there before is unchanged",
    )


def require_writable(folder: Path, argument: str) -> None:
    """OSError, with the argument's name, unless files can be written there or the folder made."""
    try:
        there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
        tempfile.TemporaryFile(dir=there).close()
    except OSError as error:
        raise cannot_write(error, folder, argument) from error


# -- temporary files -------------------------------------------------------------------------------


def _new_temporary(target: Path) -> tuple[Path, int]:
    """A new temporary file beside `target`, and its handle, locked as long as its writer lives."""
    target.parent.mkdir(parents=True, exist_ok=True)
    _remove_leftovers(target)

    try:
        old_mode = stat.S_IMODE(target.stat().st_mode)
    except FileNotFoundError:
        old_mode = None

    while True:
        temporary = target.parent / f".{_stem(target)}.{secrets.token_hex(8)}.part"
        # The system applies the umask: to ask for it in a
        # process with threads is to change it for a moment.
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        handle = os.open(temporary, flags, 0o666 if old_mode is None else 0o600)
        try:
            # Another writer may take it for a leftover before it is locked.
            if _lock(handle) and temporary.exists():
                if old_mode is not None:
                    with suppress(OSError):  # disks without permissions
                        os.chmod(temporary, old_mode)
                return temporary, handle
            os.close(handle)
        except BaseException:
            with suppress(OSError):
                os.close(handle)
            temporary.unlink(missing_ok=True)
            raise


def _lock(handle: int) -> bool:
    """Try to lock a file: False if another process has it, True also where there are no locks."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _stem(target: Path) -> str:
    name = os.fsencode(target.name)
    return target.name if len(name) <= _LONGEST_STEM else hashlib.sha256(name).hexdigest()


def _remove_leftovers(target: Path) -> None:
    """Remove temporary files for `target` whose writers died, where files can be locked."""
    if fcntl is None:
        return
    leftover = re.compile(re.escape(f".{_stem(target)}.") + r"[0-9a-f]{16}\.part")
    with suppress(OSError), os.scandir(target.parent) as entries:
        for entry in entries:
            if not leftover.fullmatch(entry.name) or not entry.is_file(follow_symlinks=False):
                continue
            with suppress(OSError):  # held by its writer, or gone
                handle = os.open(entry.path, os.O_RDWR)
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(entry.path)
                finally:
                    os.close(handle)


def _write_through(file: IO[bytes], content: bytes) -> None:
    file.write(content)
    file.flush()
    os.fsync(file.fileno())
