"""Real graphs, meshes, traffic and tables by name: downloaded once, verified, read offline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphrf._base import lazy

if TYPE_CHECKING:
    from graphrf.datasets.sets import KINDS as KINDS
    from graphrf.datasets.sets import PAPER_GRAPHS as PAPER_GRAPHS
    from graphrf.datasets.sets import Dataset as Dataset
    from graphrf.datasets.sets import Entry as Entry
    from graphrf.datasets.sets import catalog as catalog
    from graphrf.datasets.sets import describe as describe
    from graphrf.datasets.sets import load as load
    from graphrf.datasets.sets import names as names
    from graphrf.datasets.sets import path as path

__getattr__, __dir__, __all__ = lazy.attach(
    __name__, {"sets": "KINDS PAPER_GRAPHS Dataset Entry catalog describe load names path"}
)
