"""Progress on standard error: of steps whose number is not known beforehand, and of nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graphrf._base.progress import progress_bar

Step = Callable[[], object]
"""Called once for every step; no step is shown where it is None."""


def node_bar(total: int, shown: bool) -> Any:
    """A bar of predicted nodes."""
    return progress_bar("predictions", shown, total=total, unit="nodes")


def step_bar(what: str, shown: bool) -> Any:
    """A count of steps and their rate; its `update` is a `Step`."""
    return progress_bar(what, shown, unit="steps", leave=False)
