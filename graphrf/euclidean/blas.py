"""One thread of BLAS: what it computes must not depend on how many there are."""

from __future__ import annotations

from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


@cache
def _controller() -> ThreadpoolController:
    # Looking for the loaded libraries takes milliseconds, so once; numpy's is there before this file is.
    return ThreadpoolController()


def one_thread() -> Any:
    """A context in which numpy's BLAS has one thread."""
    return _controller().limit(limits=1, user_api="blas")
