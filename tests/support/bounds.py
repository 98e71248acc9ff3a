"""Bounds on what code may take: a hang or huge allocation is a failure of its own."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def within(seconds: float, megabytes: int) -> Iterator[None]:
    """Raise `AssertionError` after so many seconds; larger allocations fail.

    Memory is address space, beside what the process has mapped already: what asks for more gets
    `MemoryError`. For the main thread of Linux; blocks cannot be nested.
    """

    def too_long(*_: object) -> None:
        raise AssertionError(f"not done after {seconds} s")

    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGALRM, too_long)
    resource.setrlimit(resource.RLIMIT_AS, (mapped + megabytes * 2**20, limits[1]))
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, limits)
