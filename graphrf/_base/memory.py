"""Memory available to this process, and errors if it is too little."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_MEMINFO, _MAPPED = Path("/proc/meminfo"), Path("/proc/self/statm")
# Remedy where a file is too large; the command line has no such arguments and another remedy.
MORE_MEMORY = (
    "pass a larger `memory_limit` if the file is to be trusted, or give the graph as a "
    "scipy.sparse matrix"
)
# Bytes below which the available memory is not checked.
_SMALL = 2**24
# Control groups, in which containers and batch jobs run: where their
# folders are, which group this process is in; for each version the
# files of limit and use, and what in its statistics are pages of files.
_CGROUP_FOLDER, _OWN_CGROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
_CGROUP_FILES = {
    "": ("memory.max", "memory.current", ("inactive_file", "active_file")),
    "memory": (
        *("memory.limit_in_bytes", "memory.usage_in_bytes"),
        ("total_inactive_file", "total_active_file"),
    ),
}


class NoRoomError(MemoryError):
    """A call needs more memory than is available; the message has the amount and a remedy."""


def available_memory() -> int | None:
    """Bytes that this process can still take, by its control groups and limits; None if unknown."""
    known = [size for size in (_machine(), address_space(), *_control_groups()) if size is not None]
    return min(known) if known else None


def require_memory(needed: float, what: str, way_out: str) -> None:
    """Raise NoRoomError where `needed` bytes are not there; `what` is its message's subject."""
    if needed < _SMALL:
        return
    left = available_memory()
    if left is not None and needed > left:
        size, room = (f"{count / 2**30:.3g} GiB" for count in (needed, left))
        raise NoRoomError(f"{what} needs about {size} of memory, and {room} are left; {way_out}")


def needs_memory(way_out: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a method: allocations that fail in it end in a `NoRoomError` with the way out."""

    def decorated(method: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(method)
        def call(*args: P.args, **keywords: P.kwargs) -> R:
            try:
                return method(*args, **keywords)
            except NoRoomError:
                raise
            except MemoryError as error:
                asked = str(error) or "an allocation failed"
                left = available_memory()
                room = "" if left is None else f", and {left / 2**30:.3g} GiB are left"
                raise NoRoomError(
                    f"`{method.__name__}` needs more memory: {asked}{room}; {way_out}"
                ) from error

        return call

    return decorated


def limit_words(memory_limit: int | None, limit: int) -> str:
    """Phrase for an error message: the value of `memory_limit` if given, else the `limit` left."""
    size = f"{limit / 2**30:.3g} GiB"
    return f"{size} are left" if memory_limit is None else f"`memory_limit` is {size}"


def _machine() -> int | None:
    try:
        for line in _MEMINFO.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, ValueError, OSError):
        return None


def address_space() -> int | None:
    """Bytes left under `ulimit -v` and `ulimit -d`; None if neither is set."""
    try:
        import resource

        limits = {
            which: resource.getrlimit(which)[0]
            for which in (resource.RLIMIT_AS, resource.RLIMIT_DATA)
        }
        if set(limits.values()) == {resource.RLIM_INFINITY}:
            return None
        mapped, _, _, _, _, data, *_ = (
            int(pages) * resource.getpagesize() for pages in _MAPPED.read_text().split()
        )
    except (ImportError, OSError, ValueError):
        return None
    used = {resource.RLIMIT_AS: mapped, resource.RLIMIT_DATA: data}
    left = [
        limit - used[which] for which, limit in limits.items() if limit != resource.RLIM_INFINITY
    ]
    return max(0, min(left))


def _control_groups() -> Iterator[int | None]:
    """Bytes left to the control groups of this process, ancestors included; None: no limit."""
    try:
        lines = _OWN_CGROUPS.read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):
        lines = []
    own = {"": "/", "memory": "/"}
    for controllers, _, path in (line.split(":", 1)[-1].partition(":") for line in lines):
        own |= dict.fromkeys({*controllers.split(",")} & {*own}, path)
    for controller, path in own.items():
        group = PurePosixPath(path.lstrip("/"))
        # A container with a separate tree still sees the
        # path outside of it: missing files set no limit.
        for place in {group, *group.parents, PurePosixPath()}:
            yield _left(_CGROUP_FOLDER / controller / place, *_CGROUP_FILES[controller])


def _left(folder: Path, limit: str, used: str, cached: tuple[str, ...]) -> int | None:
    """Bytes left to a control group, with its page cache; None without a limit or if unreadable."""
    try:
        left = int((folder / limit).read_text()) - int((folder / used).read_text())
    except (OSError, ValueError):
        return None
    try:
        counts = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        left += sum(int(counts[name]) for name in cached)
    except (OSError, ValueError, KeyError):
        pass
    return max(0, left)
