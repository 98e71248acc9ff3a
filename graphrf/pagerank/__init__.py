"""PageRank by random walks, and exactly by power iteration.

`graphrf.pagerank(graph, ...)` and `graphrf.pagerank.pagerank(graph, ...)` are the same function.
"""

from __future__ import annotations

import inspect
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from graphrf.pagerank.estimate import pagerank, refine
from graphrf.pagerank.local import LocalPageRankResult, local_pagerank
from graphrf.pagerank.power import power_iteration
from graphrf.pagerank.result import PageRankResult, PowerIterationResult

__all__ = [
    "LocalPageRankResult",
    "PageRankResult",
    "PowerIterationResult",
    "local_pagerank",
    "pagerank",
    "power_iteration",
    "refine",
]


class _CallablePackage(ModuleType):
    """This package, which can also be called."""

    __signature__ = inspect.signature(pagerank)
    # Static, so that a call is one of the function itself: warnings then point to the caller's line.
    __call__ = staticmethod(pagerank)

    def __reduce__(self) -> tuple[Any, ...]:
        # As a function is pickled, by its name: else none could hand it to other processes.
        return import_module, (self.__name__,)


# `graphrf.pagerank` is the name of this package and of its main function. The import system binds the package
# to that name whenever any module in it is imported, so a function put there would be lost: the package
# itself has to be callable.
sys.modules[__name__].__class__ = _CallablePackage
