"""Warnings that point at the line of the user's code."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType

_HEARD: ContextVar[list[str] | None] = ContextVar("heard", default=None)


@contextmanager
def heard() -> Iterator[list[str]]:
    """The messages of `warn` within a `with` block, in their order; they are shown all the same."""
    messages: list[str] = []
    token = _HEARD.set(messages)
    try:
        yield messages
    finally:
        _HEARD.reset(token)


def warn(message: str | Warning, category: type[Warning] = UserWarning) -> None:
    """Warn where graphrf was called: at the first frame outside the package, however deep."""
    if (messages := _HEARD.get()) is not None:
        messages.append(str(message))
    frame: FrameType | None = sys._getframe(1)
    level = 2
    while frame is not None and _module(frame).partition(".")[0] == "graphrf":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def called_from_outside() -> bool:
    """True if the calling function was itself called by code outside the package."""
    return _module(sys._getframe(2)).partition(".")[0] != "graphrf"


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))
