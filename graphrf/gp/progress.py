"""Progress on standard error: of steps whose number is not known beforehand, and of nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphrf._base.progress import progress_bar

Step = Callable[[], object]
"""Called once for every step; no step is shown where it is None."""


def node_bar(total: int, shown: bool) -> Any:
    """A bar of predicted nodes."""
    return progress_bar("predictions", shown, total=total, unit="nodes")


def step_bar(what: str, shown: bool) -> Any:
    """A count of steps and their rate; its `update` is a `Step`."""
    return progress_bar(what, shown, unit="steps", leave=False)


class CountedRows:
    """Rows of features, with a step for every product: one in each iteration of conjugate gradients."""

    def __init__(self, rows: Any, step: Step) -> None:
        self._rows = rows
        self._step = step
        self.shape: tuple[int, int] = rows.shape

    def apply(self, x: np.ndarray) -> np.ndarray:
        self._step()
        return np.asarray(self._rows.apply(x))

    def apply_t(self, y: np.ndarray) -> np.ndarray:
        return np.asarray(self._rows.apply_t(y))

    def gram(self, x: np.ndarray) -> np.ndarray:
        self._step()
        return np.asarray(self._rows.gram(x))
