"""Contexts that set the number of BLAS threads."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from graphrf._base.threads import thread_count

# Below this many nodes linear algebra runs on one thread: numpy and scipy each bring a pool whose
# idle threads spin. Two pools of two threads were ten times slower than one on matrices of a few
# hundred rows, and eighty times on 1,000 rows while other programs were running.
_SINGLE_THREADED = 3_000


@functools.cache
def _blas_libraries() -> list[Any]:
    """The loaded libraries of linear algebra."""
    import scipy.linalg  # noqa: F401 - brings a library of its own; looking for them takes milliseconds, so once
    from threadpoolctl import ThreadpoolController

    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


def _set_threads(library: Any, number: int) -> None:
    """Set the number of threads of a library, for all calling threads."""
    # With threadpoolctl 3.8 only the first thread that sets a number of OpenBLAS can; others do
    # nothing, silently.
    release = getattr(library, "clear_controlling_thread", lambda force: None)
    release(force=True)
    library.set_num_threads(number)
    release(force=True)


class _BlasLimits:
    """Thread limits that contexts of `blas_threads` asked for, and those before the first one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: list[tuple[int, int]] = []  # thread, number
        self._before: list[tuple[Any, int]] = []
        self._now: int | None = None

    @contextmanager
    def limit(self, number: int) -> Iterator[None]:
        """See `blas_threads`."""
        ticket = threading.get_ident(), number
        # With OpenMP the number is local to each thread.
        own = [(library, library.num_threads) for library in _blas_libraries() if _is_own(library)]
        with self._lock:
            if not self._asked:
                shared = (library for library in _blas_libraries() if not _is_own(library))
                self._before = [(library, library.num_threads) for library in shared]
            self._asked.append(ticket)
        try:  # from here on an interrupt may come: what is asked for is taken back
            with self._lock:
                self._apply()
            for library, _ in own:
                _set_threads(library, number)
            yield
        finally:
            for library, before in own:
                _set_threads(library, before)
            with self._lock:
                self._asked.remove(ticket)
                self._apply()

    def forked(self) -> None:
        """Reset the lock in a forked child, and drop requests of threads that it does not have."""
        self._lock = threading.Lock()
        asked = [ticket for ticket in self._asked if ticket[0] == threading.get_ident()]
        if len(asked) < len(self._asked):
            self._asked = asked
            self._apply()

    def _apply(self) -> None:
        now = min((number for _, number in self._asked), default=None)
        if now == self._now:  # setting the same number again may stop a library's threads
            return
        for library, before in self._before:
            _set_threads(library, before if now is None else now)
        self._now = now


def _is_own(library: Any) -> bool:
    return getattr(library, "threading_layer", None) == "openmp"


_blas_limits = _BlasLimits()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_blas_limits.forked)


def blas_threads(number: int) -> AbstractContextManager[None]:
    """A context in which numpy's and scipy's BLAS uses the given number of threads.

    The number is the process's, and bits of products may depend on it. Where contexts of several
    threads overlap the least number holds, and the last to leave restores what the first found.
    """
    return _blas_limits.limit(number)


def linear_algebra(size: int, n_threads: int | None) -> Any:
    """A context in which BLAS has the threads that suit matrices of this size."""
    return blas_threads(1 if size < _SINGLE_THREADED else thread_count(n_threads))
