"""How many threads to use, ours and those of BLAS, and an ordered map over a thread pool."""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from graphrf._base import checks

Task = TypeVar("Task")
Result = TypeVar("Result")

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property as cached_property
else:

    class cached_property(functools.cached_property):
        """As Python has it since 3.12, without a lock.

        The lock is one for all objects of a class: threads wait for each other's, and a child that is forked in
        the meantime waits for ever. Two threads may compute the same value instead.
        """

        def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
            if instance is None:
                return self
            known = vars(instance)
            if self.attrname not in known:
                known[self.attrname] = self.func(instance)
            return known[self.attrname]


def thread_count(n_threads: int | None) -> int:
    """`n_threads`, or the number of cores that this process may use."""
    if n_threads is not None:
        return checks.integer("n_threads", n_threads, low=1)
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return max(1, os.cpu_count() or 1)


def ordered_map(function: Callable[[Task], Result], tasks: Sequence[Task], n_threads: int) -> Iterator[Result]:
    """Results of `function` over `tasks`, in order, computed on a pool of threads.

    At most 2 `n_threads` tasks are in flight, so results waiting for their turn stay bounded, and an
    interrupt or an error stops what has not begun.
    """
    if n_threads == 1 or len(tasks) <= 1:
        yield from map(function, tasks)
        return
    pool = ThreadPoolExecutor(n_threads, thread_name_prefix="graphrf")
    try:
        waiting: list[Future[Result]] = []
        for task in tasks:
            waiting.append(pool.submit(function, task))
            if len(waiting) >= 2 * n_threads:
                yield waiting.pop(0).result()
        while waiting:
            yield waiting.pop(0).result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


@functools.cache
def _blas_libraries() -> list[Any]:
    """The loaded libraries of linear algebra; none without threadpoolctl, which comes with the extras."""
    import scipy.linalg  # noqa: F401 - brings a library of its own; looking for them takes milliseconds, so once

    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return []
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


def _set_threads(library: Any, number: int) -> None:
    """Give a library so many threads, whichever thread asks."""
    # With threadpoolctl 3.8 only the first thread that sets a number of OpenBLAS can; others do nothing, silently.
    release = getattr(library, "clear_controlling_thread", lambda force: None)
    release(force=True)
    library.set_num_threads(number)
    release(force=True)


class _BlasLimits:
    """How many threads the contexts of `blas_threads` ask for, and what the libraries had before the first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: list[tuple[int, int]] = []  # thread, number
        self._before: list[tuple[Any, int]] = []
        self._now: int | None = None

    @contextmanager
    def limit(self, number: int) -> Iterator[None]:
        """See `blas_threads`."""
        ticket = threading.get_ident(), number
        # With OpenMP every thread has a number of its own, which nobody else need be asked about.
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
        """In a forked child: what other threads asked for is gone with them, and so is who held the lock."""
        self._lock = threading.Lock()
        asked = [ticket for ticket in self._asked if ticket[0] == threading.get_ident()]
        if len(asked) < len(self._asked):
            self._asked = asked
            self._apply()

    def _apply(self) -> None:
        now = min((number for _, number in self._asked), default=None)
        if now == self._now:  # a library may stop its threads to be told the same again
            return
        for library, before in self._before:
            _set_threads(library, before if now is None else now)
        self._now = now


def _is_own(library: Any) -> bool:
    return getattr(library, "threading_layer", None) == "openmp"


_blas_limits = _BlasLimits()


class _ForkGuard(threading.local):
    """Holds numba's lock, one for all compilations, while a process is forked.

    A child of a fork in the middle of another thread's compilation would wait for that lock for ever. So it does
    for the interpreter's lock of a module, of whatever library, that another thread imports at that moment; there
    is no hold on these: use graphrf once before processes are forked beside threads.
    """

    held: Any = None

    def before(self) -> None:
        """Wait until nobody compiles."""
        compiler = sys.modules.get("numba.core.compiler_lock")
        lock = getattr(compiler, "global_compiler_lock", None)
        if lock is not None:
            lock.acquire()
        self.held = lock

    def after(self) -> None:
        """Let others compile again."""
        if self.held is not None:
            self.held.release()
        self.held = None


_fork_guard = _ForkGuard()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_fork_guard.before, after_in_parent=_fork_guard.after, after_in_child=_fork_guard.after
    )
    os.register_at_fork(after_in_child=_blas_limits.forked)


def blas_threads(number: int) -> AbstractContextManager[None]:
    """A context in which numpy's and scipy's BLAS has so many threads; without threadpoolctl, as many as it has.

    The number is the process's, and bits of products may depend on it. Where contexts of several threads overlap
    the least number holds, and the last to leave restores what the first found; each restoring what it found would
    leave a number that nobody asked for.
    """
    return _blas_limits.limit(number)
