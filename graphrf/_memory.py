"""How much memory this process can still take."""

from __future__ import annotations

import os
from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
# What needs less is not looked for.
_SMALL = 2**24
# Limit and use of the control group that a container runs in (version 2, then version 1).
_CGROUPS = (
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"), Path("/sys/fs/cgroup/memory/memory.usage_in_bytes")),
)


def available_memory() -> int | None:
    """Bytes that this process can still take: of the machine and of its container; None if nothing says so."""
    known = [size for size in (_machine(), *(_container(*paths) for paths in _CGROUPS)) if size is not None]
    return min(known) if known else None


def require_memory(needed: float, what: str, way_out: str) -> None:
    """Raise MemoryError where `needed` bytes are not there, before any of them is taken.

    `what` is the subject of the message ("a dense kernel matrix of 9 nodes"), `way_out` what to do instead.
    """
    if needed < _SMALL:
        return
    left = available_memory()
    if left is not None and needed > left:
        size, room = (f"{count / 2**30:.3g} GiB" for count in (needed, left))
        raise MemoryError(f"{what} needs about {size} of memory, and {room} are left; {way_out}")


def limit_words(memory_limit: int | None, limit: int) -> str:
    """What bounds memory, for a message: the argument `memory_limit`, or without it the `limit` that was found."""
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


def _container(limit: Path, used: Path) -> int | None:
    """What is left to a control group, or None where there is no limit ("max")."""
    try:
        return max(0, int(limit.read_text()) - int(used.read_text()))
    except (OSError, ValueError):
        return None
