"""graphrf: graph random features, scalable Gaussian processes on graphs, and PageRank.

From coupled random walks and compressed powers of the walk matrix.

Names are loaded when they are first used, so that `import graphrf` is quick and torch, scikit-learn
and numba are imported only by the parts that need them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphrf._base import lazy

if TYPE_CHECKING:
    from graphrf import bridges as bridges
    from graphrf import couplings as couplings
    from graphrf import datasets as datasets
    from graphrf import distributed as distributed
    from graphrf import euclidean as euclidean
    from graphrf import features as features
    from graphrf import gp as gp
    from graphrf import kernels as kernels
    from graphrf import pagerank as pagerank
    from graphrf import plot as plot
    from graphrf import sampling as sampling
    from graphrf._base.version import __version__ as __version__
    from graphrf.gp.classification import GraphGPClassifier as GraphGPClassifier
    from graphrf.gp.regression import GraphGPRegressor as GraphGPRegressor
    from graphrf.graph.builders import from_edges as from_edges
    from graphrf.graph.builders import from_mesh as from_mesh
    from graphrf.graph.builders import from_points as from_points
    from graphrf.graph.disk.mapped import open_graph as open_graph
    from graphrf.graph.graph import Graph as Graph
    from graphrf.graph.loaders import load_graph as load_graph
    from graphrf.kernels.areal import BYM2 as BYM2
    from graphrf.kernels.areal import CAR as CAR
    from graphrf.kernels.areal import ICAR as ICAR
    from graphrf.kernels.named import Diffusion as Diffusion
    from graphrf.kernels.named import Leroux as Leroux
    from graphrf.kernels.named import Matern as Matern
    from graphrf.kernels.named import RegularizedLaplacian as RegularizedLaplacian
    from graphrf.operators.series.apply import apply_kernel as apply_kernel
    from graphrf.operators.series.apply import apply_root as apply_root
    from graphrf.operators.series.apply import kernel_block as kernel_block
    from graphrf.sampling.powers.powers import CompressedPowers as CompressedPowers
    from graphrf.sampling.sample import sample_features as sample_features
    from graphrf.sampling.walks.random_walks import RandomWalks as RandomWalks

__getattr__, __dir__, __all__ = lazy.attach(
    __name__,
    {
        "_base.version": "__version__",
        "gp.classification": "GraphGPClassifier",
        "gp.regression": "GraphGPRegressor",
        "graph.graph": "Graph",
        "graph.builders": "from_edges from_mesh from_points",
        "graph.loaders": "load_graph",
        "graph.disk.mapped": "open_graph",
        "kernels.areal": "BYM2 CAR ICAR",
        "kernels.named": "Diffusion Leroux Matern RegularizedLaplacian",
        "operators.series.apply": "apply_kernel apply_root kernel_block",
        "sampling.powers.powers": "CompressedPowers",
        "sampling.sample": "sample_features",
        "sampling.walks.random_walks": "RandomWalks",
        "bridges": "",
        "couplings": "",
        "datasets": "",
        "distributed": "",
        "euclidean": "",
        "features": "",
        "gp": "",
        "kernels": "",
        "pagerank": "",
        "plot": "",
        "sampling": "",
    },
)
