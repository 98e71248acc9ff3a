"""graphrf: graph random features, scalable Gaussian processes on graphs, and PageRank from coupled walks.

Names are loaded when they are first used, so that `import graphrf` is quick and torch, scikit-learn and
numba are imported only by the parts that need them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from graphrf._version import __version__

if TYPE_CHECKING:
    from graphrf.features import Features as Features
    from graphrf.features import load_features as load_features
    from graphrf.graph import Graph as Graph
    from graphrf.kernels import Diffusion as Diffusion
    from graphrf.kernels import RegularizedLaplacian as RegularizedLaplacian
    from graphrf.lengths import IID as IID
    from graphrf.lengths import Antithetic as Antithetic
    from graphrf.lengths import Coupling as Coupling
    from graphrf.lengths import SigmaCoupled as SigmaCoupled
    from graphrf.lengths import Stratified as Stratified
    from graphrf.lengths import Survival as Survival
    from graphrf.lengths import Truncated as Truncated
    from graphrf.matching.learn import learn_coupling as learn_coupling
    from graphrf.sampling.random_walks import RandomWalks as RandomWalks
    from graphrf.sampling.sample import sample_features as sample_features

# Public name -> the module that defines it. The one list: `__all__`, `dir` and loading follow from it.
_HOME = {
    "Antithetic": "lengths",
    "Coupling": "lengths",
    "Diffusion": "kernels",
    "Features": "features",
    "Graph": "graph",
    "IID": "lengths",
    "RandomWalks": "sampling.random_walks",
    "RegularizedLaplacian": "kernels",
    "SigmaCoupled": "lengths",
    "Stratified": "lengths",
    "Survival": "lengths",
    "Truncated": "lengths",
    "learn_coupling": "matching.learn",
    "load_features": "features",
    "sample_features": "sampling.sample",
}

__all__ = ["__version__", *sorted(_HOME)]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(f"graphrf.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'graphrf' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
