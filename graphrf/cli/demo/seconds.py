"""Seconds without compilation, which happens once on each machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from numba.core.event import RecordingListener, install_listener

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
