"""Progress on standard error: bars on request, and one line before anything that takes long."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

from graphrf._base.progress import progress_bar, write_once

Step = Callable[[], object]
"""Called once for every step; no step is shown where it is None."""

# Seconds after which the time left is estimated, and those from which it is announced.
_SEEN, _LONG = 2.0, 10.0


def node_bar(total: int, shown: bool) -> Any:
    """A bar of predicted nodes; not shown, a line if they take long."""
    return _bar("predictions", shown, total, "nodes", leave=True)


def step_bar(what: str, shown: bool, total: int | None = None, unit: str = "steps") -> Any:
    """A count of steps and their rate; not shown, a line if they take long. Its `update` is a `Step`."""
    return _bar(what, shown, total, unit, leave=False)


def _bar(what: str, shown: bool, total: int | None, unit: str, *, leave: bool) -> Any:
    if shown:
        return progress_bar(what, shown, total=total, unit=unit, leave=leave)
    return _Announcement(what, total, unit)


class _Announcement(contextlib.nullcontext[Any]):
    """A line with the time that steps will take, as soon as that can be estimated and is long."""

    def __init__(self, what: str, total: int | None, unit: str) -> None:
        super().__init__(self)
        self._what, self._total, self._unit = what, total, unit
        self._start, self._done, self._written = time.monotonic(), 0, False

    def update(self, n: int = 1) -> None:
        self._done += n
        passed = time.monotonic() - self._start
        if self._written or passed < _SEEN:
            return
        if self._total is None:
            if passed > _LONG:
                self._write(f"has taken {passed:.0f} s so far")
        elif self._done < self._total and (whole := passed * self._total / self._done) > _LONG:
            self._write(f"of {self._total:,} {self._unit} takes about {whole:.0f} s")

    def _write(self, text: str) -> None:
        self._written = True
        write_once(f"graphrf: {self._what} {text}; progress=True shows how far it is")
