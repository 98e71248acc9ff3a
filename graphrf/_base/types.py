"""Types of arguments that several packages take."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from datetime import datetime
from typing import TypeAlias

from numpy.typing import ArrayLike

NodesLike: TypeAlias = ArrayLike | Sequence[Hashable]
"""Nodes by name or position: a list, an array, an index or a series."""
SignalLike: TypeAlias = ArrayLike | Sequence[Hashable] | Mapping[Hashable, float]
"""Nodes, or values by node: a mapping, or a series whose index has the names."""
TimesLike: TypeAlias = ArrayLike | Sequence[float | datetime]
"""Times: numbers, or dates in a list, an array of datetime64 or an index."""
