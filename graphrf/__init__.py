"""graphrf: graph random features, scalable Gaussian processes on graphs, and PageRank.

From coupled random walks and compressed powers of the walk matrix.

Names are loaded when they are first used, so that `import graphrf` is quick and torch, scikit-learn and
numba are imported only by the parts that need them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from graphrf._version import __version__

if TYPE_CHECKING:
    from graphrf import datasets as datasets
    from graphrf import distributed as distributed
    from graphrf import euclidean as euclidean
    from graphrf import gp as gp
    from graphrf import plot as plot
    from graphrf.features import Features as Features
    from graphrf.features import HeavyTailWarning as HeavyTailWarning
    from graphrf.features import TruncationWarning as TruncationWarning
    from graphrf.features import load_features as load_features
    from graphrf.gp.classification import GraphGPClassifier as GraphGPClassifier
    from graphrf.gp.regression import GraphGPRegressor as GraphGPRegressor
    from graphrf.graph import Graph as Graph
    from graphrf.kernels import Diffusion as Diffusion
    from graphrf.kernels import InverseCosine as InverseCosine
    from graphrf.kernels import Kernel as Kernel
    from graphrf.kernels import LearnedModulation as LearnedModulation
    from graphrf.kernels import Matern as Matern
    from graphrf.kernels import PowerSeries as PowerSeries
    from graphrf.kernels import PStepRandomWalk as PStepRandomWalk
    from graphrf.kernels import RegularizedLaplacian as RegularizedLaplacian
    from graphrf.lengths import IID as IID
    from graphrf.lengths import Antithetic as Antithetic
    from graphrf.lengths import Coupling as Coupling
    from graphrf.lengths import LengthLaw as LengthLaw
    from graphrf.lengths import SigmaCoupled as SigmaCoupled
    from graphrf.lengths import Stratified as Stratified
    from graphrf.lengths import Survival as Survival
    from graphrf.lengths import Truncated as Truncated
    from graphrf.loaders import from_edges as from_edges
    from graphrf.loaders import from_mesh as from_mesh
    from graphrf.loaders import from_points as from_points
    from graphrf.loaders import load_graph as load_graph
    from graphrf.mapped import open_graph as open_graph
    from graphrf.mapped import write_graph as write_graph
    from graphrf.matching.learn import learn_coupling as learn_coupling
    from graphrf.pagerank import pagerank as pagerank
    from graphrf.products import ProductFeatures as ProductFeatures
    from graphrf.products import sample_product as sample_product
    from graphrf.sampling.auto_lengths import AutoLengths as AutoLengths
    from graphrf.sampling.contract import Sampler as Sampler
    from graphrf.sampling.powers import CompressedPowers as CompressedPowers
    from graphrf.sampling.powers import CutPowers as CutPowers
    from graphrf.sampling.powers import ExactPowers as ExactPowers
    from graphrf.sampling.random_walks import LengthChoice as LengthChoice
    from graphrf.sampling.random_walks import RandomWalks as RandomWalks
    from graphrf.sampling.sample import sample_features as sample_features
    from graphrf.series import apply_kernel as apply_kernel
    from graphrf.series import apply_root as apply_root

# Public name -> the module that defines it. The one list: `__all__`, `dir` and loading follow from it.
_HOME = {
    "Antithetic": "lengths",
    "AutoLengths": "sampling.auto_lengths",
    "CompressedPowers": "sampling.powers",
    "Coupling": "lengths",
    "CutPowers": "sampling.powers",
    "Diffusion": "kernels",
    "ExactPowers": "sampling.powers",
    "Features": "features",
    "Graph": "graph",
    "GraphGPClassifier": "gp.classification",
    "GraphGPRegressor": "gp.regression",
    "HeavyTailWarning": "features",
    "IID": "lengths",
    "InverseCosine": "kernels",
    "Kernel": "kernels",
    "LearnedModulation": "kernels",
    "LengthChoice": "sampling.random_walks",
    "LengthLaw": "lengths",
    "Matern": "kernels",
    "PStepRandomWalk": "kernels",
    "PowerSeries": "kernels",
    "ProductFeatures": "products",
    "RandomWalks": "sampling.random_walks",
    "RegularizedLaplacian": "kernels",
    "Sampler": "sampling.contract",
    "SigmaCoupled": "lengths",
    "Stratified": "lengths",
    "Survival": "lengths",
    "Truncated": "lengths",
    "TruncationWarning": "features",
    "apply_kernel": "series",
    "apply_root": "series",
    "from_edges": "loaders",
    "from_mesh": "loaders",
    "from_points": "loaders",
    "learn_coupling": "matching.learn",
    "load_features": "features",
    "load_graph": "loaders",
    "open_graph": "mapped",
    "sample_features": "sampling.sample",
    "sample_product": "products",
    "write_graph": "mapped",
}
# `pagerank` is a package that can be called, in place of the function in it.
_ROOMS = ("datasets", "distributed", "euclidean", "gp", "pagerank", "plot")

__all__ = ["__version__", *sorted(_HOME), *_ROOMS]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(f"graphrf.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    if name in _ROOMS:
        return importlib.import_module(f"graphrf.{name}")
    raise AttributeError(f"module 'graphrf' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
