"""Progress on standard error: bars on request, and one line before anything that takes long."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

from graphrf._base.progress import progress_bar, write_once

Step = Callable[..., object]
"""Called for every step, or with the number of several; no step is shown where it is None."""

# Seconds after which the time left is estimated, and those from which it is announced.
_SEEN, _LONG = 2.0, 10.0


def node_bar(
    n_nodes: int,
    n_sets: int,
    shown: bool,
    *,
    by_draws: bool = False,
    expected: float = 0.0,
    way_out: str = "",
) -> Any:
    """A bar of predicted nodes for each set of hyperparameters; if not shown, a message before a
    long wait.

    Draws are made at all nodes of a graph. The message comes first where so many seconds are
    expected, and ends with the way out.
    """
    total = n_nodes * n_sets
    if shown:
        return progress_bar("predictions", shown, total=total, unit="nodes", leave=True)
    counted = f"{n_nodes:,} node{'s' if n_nodes != 1 else ''}"
    if by_draws:
        counted = f"all {counted} by draws"
    if n_sets > 1:
        counted += f", each for {n_sets} sets of hyperparameters,"
    bar = _Announcement("prediction", total, counted, way_out)
    bar.expect(expected)
    return bar


def step_bar(what: str, shown: bool, total: int | None = None, unit: str = "steps") -> Any:
    """A count of steps and their rate; not shown, a line if they take long. Its `update` is a
    `Step`.
    """
    if shown:
        return progress_bar(what, shown, total=total, unit=unit, leave=False)
    return _Announcement(what, total, f"{total:,} {unit}" if total else unit)


class _Announcement(contextlib.nullcontext[Any]):
    """A message with the time that steps will take, as soon as it can be estimated and is long.

    `counted` names the steps, `way_out` a faster alternative.
    """

    def __init__(self, what: str, total: int | None, counted: str, way_out: str = "") -> None:
        super().__init__(self)
        self._what, self._total, self._counted, self._way_out = what, total, counted, way_out
        self._start, self._done, self._written = time.monotonic(), 0, False
        self._first: tuple[float, int] | None = None

    def expect(self, seconds: float) -> None:
        """Announce at once what is expected to take long."""
        if seconds > _LONG:
            self._write(f"of {self._counted} takes about {float(f'{seconds:.1g}'):.0f} s or more")

    def update(self, n: int = 1) -> None:
        self._done += n
        passed = time.monotonic() - self._start
        # The work that all steps share comes before the first one, which bounds the time of a step.
        if self._first is None:
            self._first = passed, self._done

        if self._written or passed < _SEEN:
            return

        if self._total is None:
            if passed > _LONG:
                self._write(f"has taken {passed:.0f} s so far")
            return

        left = self._total - self._done
        if left > 0 and self._first[1] < self._done:
            rate = (passed - self._first[0]) / (self._done - self._first[1])
            if (whole := passed + rate * left) > _LONG:
                self._write(f"of {self._counted} takes about {whole:.0f} s")
        elif left > 0 and passed > _LONG:
            self._write(
                f"of {self._counted} takes at most about {passed * self._total / self._done:.0f} s"
            )

    def _write(self, text: str) -> None:
        self._written = True
        write_once(
            f"graphrf: {self._what} {text}; progress=True shows how far it is{self._way_out}"
        )
