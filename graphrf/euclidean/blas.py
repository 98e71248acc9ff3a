"""One thread of BLAS: what it computes must not depend on how many there are."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_inside = 0
_limit: Any = None


@cache
def _controller() -> ThreadpoolController:
    # Looking for the loaded libraries takes milliseconds, so once; numpy's is there before this file is.
    return ThreadpoolController()


@contextmanager
def one_thread() -> Iterator[None]:
    """A context in which numpy's BLAS has one thread.

    The number is the process's. Of contexts that overlap in several threads the first lowers it and the last one
    to leave restores it; each restoring what it found would leave it at one.
    """
    global _inside, _limit
    with _lock:
        if _inside == 0:
            _limit = _controller().limit(limits=1, user_api="blas")
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _limit.restore_original_limits()
                _limit = None
