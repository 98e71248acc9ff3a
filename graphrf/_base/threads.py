"""Number of threads to use, and an ordered map over a thread pool."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from graphrf._base import checks
from graphrf._base import forks as forks  # makes forks safe wherever threads are used
from graphrf._base.memory import address_space

# Address space of a thread: its stack and the heap that its allocations begin with.
_OWN_BYTES = 2**28

Task = TypeVar("Task")
Result = TypeVar("Result")


def thread_count(n_threads: int | None) -> int:
    """`n_threads`, or the number of cores that this process may use."""
    if n_threads is not None:
        return checks.integer("n_threads", n_threads, low=1)
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return max(1, os.cpu_count() or 1)


def startable(n_threads: int) -> int:
    """Number of threads whose stacks and heaps have room: Python would wait for the others."""
    left = address_space()
    return n_threads if left is None else max(1, min(n_threads, left // _OWN_BYTES))


def ordered_map(
    function: Callable[[Task], Result], tasks: Sequence[Task], n_threads: int
) -> Iterator[Result]:
    """Results of `function` over `tasks`, in order, computed on a pool of threads.

    At most 2 `n_threads` tasks are in flight, and an interrupt or an error cancels those that have
    not started.
    """
    n_threads = startable(n_threads)
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
