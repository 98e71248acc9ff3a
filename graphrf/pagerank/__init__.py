"""PageRank: exact scores with a bound on their error, estimates by random walks, and local queries.

`graphrf.pagerank(graph, ...)` calls the function `pagerank` of this package.
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
    from graphrf.pagerank.estimates import estimate as estimate
    from graphrf.pagerank.estimates import refine as refine
    from graphrf.pagerank.local import LocalPageRankResult as LocalPageRankResult
    from graphrf.pagerank.local import local_pagerank as local_pagerank
    from graphrf.pagerank.power import pagerank as pagerank
    from graphrf.pagerank.result import PageRankEstimate as PageRankEstimate
    from graphrf.pagerank.result import PageRankResult as PageRankResult

__getattr__, __dir__, __all__ = lazy.attach(
    __name__,
    {
        "estimates": "estimate refine",
        "local": "LocalPageRankResult local_pagerank",
        "power": "pagerank",
        "result": "PageRankEstimate PageRankResult",
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


# `graphrf.pagerank` is the name of this package and of its main function. The import system binds
# the package to that name whenever any module in it is imported, so a function put there would be
# lost: the package itself has to be callable.
sys.modules[__name__].__class__ = _CallablePackage
