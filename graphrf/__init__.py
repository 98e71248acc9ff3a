"""graphrf: graph random features, scalable Gaussian processes on graphs, and PageRank from coupled walks.

Names are loaded when they are first used, so that `import graphrf` is quick and torch, scikit-learn and
numba are imported only by the parts that need them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from graphrf._version import __version__

if TYPE_CHECKING:
    from graphrf import gp as gp
    from graphrf.graph import Graph as Graph

# Public name -> the module that defines it. The one list: `__all__`, `dir` and loading follow from it.
_HOME = {
    "Graph": "graph",
}
_MODULES = ("gp", "pagerank", "datasets")

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(f"graphrf.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'graphrf' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
