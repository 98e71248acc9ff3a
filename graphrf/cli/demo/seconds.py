"""Seconds without compilation, which is announced: it happens once on each machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from numba.core.event import Listener, RecordingListener, install_listener

from graphrf._base.progress import write

_EVENT = "numba:compile"
_Result = TypeVar("_Result")


def timed(compute: Callable[[], _Result]) -> tuple[_Result, float]:
    """The result and the seconds it took; those of a second run if loops were compiled in the first."""
    for _ in range(2):
        with install_listener(_EVENT, RecordingListener()) as compilations:
            started = time.perf_counter()
            result = compute()
            seconds = time.perf_counter() - started
        if not compilations.buffer:
            break
    return result, seconds


@contextmanager
def announced_compilation() -> Iterator[None]:
    """Within this context, one line on standard error announces compilation when it begins."""
    with install_listener(_EVENT, _Announcement()):
        yield


class _Announcement(Listener):
    said = False

    def on_start(self, event: Any) -> None:
        if not self.said:
            self.said = True
            write("Compiling, once on this machine: about a minute.")

    def on_end(self, event: Any) -> None:
        pass
