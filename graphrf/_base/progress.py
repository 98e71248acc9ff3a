"""Bars of progress on standard error, and what takes their place where none is shown."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

# Counts up to here are shown whole, larger ones as 1.2M.
_LARGE = 10_000


class Once:
    """Lines that a process prints once: those so far, and whether `write_once` prints any."""

    def __init__(self) -> None:
        self.silent = False
        self._lines: set[str] = set()

    def first(self, line: str) -> bool:
        """True the first time for each line."""
        if line in self._lines:
            return False
        self._lines.add(line)
        return True


once = Once()


def progress_bar(
    what: str, shown: bool | None, *, total: int | None = None, unit: str = "", leave: bool = True
) -> Any:
    """A bar of tqdm, to be used as a context; `shown` None shows it on a terminal only.

    Even a disabled bar of tqdm takes a lock that forked processes share, so none is made unless
    shown.
    """
    if not (on_terminal() if shown is None else shown):
        return _NoBar()
    from tqdm import tqdm

    return tqdm(
        desc=what,
        total=total,
        unit=f" {unit}" if unit else "",
        unit_scale=total is None or total >= _LARGE,
        leave=leave,
    )


def on_terminal() -> bool:
    """True if standard error is a terminal; programs without a console have none at all."""
    return sys.stderr is not None and sys.stderr.isatty()


def write(line: str) -> None:
    """A line on standard error, above a bar if one is shown."""
    if on_terminal():
        from tqdm import tqdm

        tqdm.write(line, file=sys.stderr)
    elif sys.stderr is not None:
        print(line, file=sys.stderr, flush=True)


def write_once(line: str) -> None:
    """A line on standard error, the first time in this process and unless `silence` was called."""
    if not once.silent and once.first(line):
        write(line)


def silence() -> None:
    """Write no lines with `write_once` in this process."""
    once.silent = True


class _NoBar(contextlib.nullcontext[Any]):
    """A bar that is not shown."""

    initial = n = 0

    def __init__(self) -> None:
        super().__init__(self)

    def update(self, n: int = 1) -> None:
        self.n += n

    def refresh(self) -> None:
        pass

    def set_postfix_str(self, text: str) -> None:
        pass
