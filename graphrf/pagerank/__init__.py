"""PageRank by random walks, and exactly by power iteration.

`graphrf.pagerank(graph, ...)` and `graphrf.pagerank.pagerank(graph, ...)` are the same function.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from graphrf._base import lazy

if TYPE_CHECKING:
    from graphrf.pagerank.estimate import pagerank as pagerank
    from graphrf.pagerank.estimate import refine as refine
    from graphrf.pagerank.local import LocalPageRankResult as LocalPageRankResult
    from graphrf.pagerank.local import local_pagerank as local_pagerank
    from graphrf.pagerank.power import power_iteration as power_iteration
    from graphrf.pagerank.result import PageRankResult as PageRankResult
    from graphrf.pagerank.result import PowerIterationResult as PowerIterationResult

__getattr__, __dir__, __all__ = lazy.attach(
    __name__,
    {
        "estimate": "pagerank refine",
        "local": "LocalPageRankResult local_pagerank",
        "power": "power_iteration",
        "result": "PageRankResult PowerIterationResult",
    },
)


class _CallablePackage(ModuleType):
    """This package, which can also be called."""

    # The function itself, so that a call is one of it: warnings then point to the caller's line.
    @property
    def __call__(self) -> Callable[..., Any]:
        return self.pagerank

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self.pagerank)

    def __reduce__(self) -> tuple[Any, ...]:
        # As a function is pickled, by its name: else none could hand it to other processes.
        return import_module, (self.__name__,)


# `graphrf.pagerank` is the name of this package and of its main function. The import system binds the package
# to that name whenever any module in it is imported, so a function put there would be lost: the package
# itself has to be callable.
sys.modules[__name__].__class__ = _CallablePackage
