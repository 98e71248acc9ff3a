"""graphrf: graph random features, scalable Gaussian processes on graphs, and PageRank.

From coupled random walks and compressed powers of the walk matrix.

Names are loaded when they are first used, so that `import graphrf` is quick and torch, scikit-learn and
numba are imported only by the parts that need them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphrf._base import lazy

if TYPE_CHECKING:
    from graphrf import bridges as bridges
    from graphrf import datasets as datasets
    from graphrf import distributed as distributed
    from graphrf import euclidean as euclidean
    from graphrf import gp as gp
    from graphrf import pagerank as pagerank
    from graphrf import plot as plot
    from graphrf._base.version import __version__ as __version__
    from graphrf.features.bounds import HeavyTailWarning as HeavyTailWarning
    from graphrf.features.bounds import TruncationWarning as TruncationWarning
    from graphrf.features.error import FeatureErrorWarning as FeatureErrorWarning
    from graphrf.features.features import Features as Features
    from graphrf.features.features import load_features as load_features
    from graphrf.gp.classification import GraphGPClassifier as GraphGPClassifier
    from graphrf.gp.regression import GraphGPRegressor as GraphGPRegressor
    from graphrf.graph.builders import from_edges as from_edges
    from graphrf.graph.builders import from_mesh as from_mesh
    from graphrf.graph.builders import from_points as from_points
    from graphrf.graph.disk.mapped import open_graph as open_graph
    from graphrf.graph.disk.mapped import write_graph as write_graph
    from graphrf.graph.graph import Graph as Graph
    from graphrf.graph.loaders import load_graph as load_graph
    from graphrf.kernels.areal import BYM2 as BYM2
    from graphrf.kernels.areal import CAR as CAR
    from graphrf.kernels.areal import ICAR as ICAR
    from graphrf.kernels.explicit import LearnedModulation as LearnedModulation
    from graphrf.kernels.explicit import PowerSeries as PowerSeries
    from graphrf.kernels.kernel import Kernel as Kernel
    from graphrf.kernels.named import Diffusion as Diffusion
    from graphrf.kernels.named import InverseCosine as InverseCosine
    from graphrf.kernels.named import Leroux as Leroux
    from graphrf.kernels.named import Matern as Matern
    from graphrf.kernels.named import PStepRandomWalk as PStepRandomWalk
    from graphrf.kernels.named import RegularizedLaplacian as RegularizedLaplacian
    from graphrf.matching.learn import learn_coupling as learn_coupling
    from graphrf.operators.series.apply import apply_kernel as apply_kernel
    from graphrf.operators.series.apply import apply_root as apply_root
    from graphrf.operators.series.apply import kernel_block as kernel_block
    from graphrf.sampling.powers.powers import CompressedPowers as CompressedPowers
    from graphrf.sampling.powers.powers import CutPowers as CutPowers
    from graphrf.sampling.powers.powers import ExactPowers as ExactPowers
    from graphrf.sampling.products import ProductFeatures as ProductFeatures
    from graphrf.sampling.products import sample_product as sample_product
    from graphrf.sampling.protocol import PreparedSampler as PreparedSampler
    from graphrf.sampling.protocol import Sampler as Sampler
    from graphrf.sampling.sample import sample_features as sample_features
    from graphrf.sampling.walks.auto_lengths import AutoLengths as AutoLengths
    from graphrf.sampling.walks.coupling import Coupling as Coupling
    from graphrf.sampling.walks.lengths import IID as IID
    from graphrf.sampling.walks.lengths import Antithetic as Antithetic
    from graphrf.sampling.walks.lengths import LengthLaw as LengthLaw
    from graphrf.sampling.walks.lengths import SigmaCoupled as SigmaCoupled
    from graphrf.sampling.walks.lengths import Stratified as Stratified
    from graphrf.sampling.walks.lengths import Survival as Survival
    from graphrf.sampling.walks.lengths import Truncated as Truncated
    from graphrf.sampling.walks.random_walks import AdaptiveLengths as AdaptiveLengths
    from graphrf.sampling.walks.random_walks import RandomWalks as RandomWalks

__getattr__, __dir__, __all__ = lazy.attach(
    __name__,
    {
        "_base.version": "__version__",
        "features.bounds": "HeavyTailWarning TruncationWarning",
        "features.error": "FeatureErrorWarning",
        "features.features": "Features load_features",
        "gp.classification": "GraphGPClassifier",
        "gp.regression": "GraphGPRegressor",
        "graph.graph": "Graph",
        "graph.builders": "from_edges from_mesh from_points",
        "graph.loaders": "load_graph",
        "graph.disk.mapped": "open_graph write_graph",
        "kernels.areal": "BYM2 CAR ICAR",
        "kernels.explicit": "LearnedModulation PowerSeries",
        "kernels.kernel": "Kernel",
        "kernels.named": "Diffusion InverseCosine Leroux Matern PStepRandomWalk RegularizedLaplacian",
        "operators.series.apply": "apply_kernel apply_root kernel_block",
        "matching.learn": "learn_coupling",
        "sampling.protocol": "PreparedSampler Sampler",
        "sampling.powers.powers": "CompressedPowers CutPowers ExactPowers",
        "sampling.products": "ProductFeatures sample_product",
        "sampling.sample": "sample_features",
        "sampling.walks.auto_lengths": "AutoLengths",
        "sampling.walks.coupling": "Coupling",
        "sampling.walks.lengths": "IID Antithetic LengthLaw SigmaCoupled Stratified Survival Truncated",
        "sampling.walks.random_walks": "AdaptiveLengths RandomWalks",
        "bridges": "",
        "datasets": "",
        "distributed": "",
        "euclidean": "",
        "gp": "",
        "pagerank": "",
        "plot": "",
    },
)
