"""Features, products and local PageRank queries on the workers of a Dask cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphrf._base import lazy

if TYPE_CHECKING:
    from graphrf.distributed.factor import DistributedFactor as DistributedFactor
    from graphrf.distributed.features import DistributedFeatures as DistributedFeatures
    from graphrf.distributed.features import WorkerMemory as WorkerMemory
    from graphrf.distributed.features import load_features as load_features
    from graphrf.distributed.pagerank import local_pagerank as local_pagerank
    from graphrf.distributed.sampling import ClusterSampling as ClusterSampling
    from graphrf.distributed.sampling import on_cluster as on_cluster
    from graphrf.distributed.sampling import sample_features as sample_features

__getattr__, __dir__, __all__ = lazy.attach(
    __name__,
    {
        "factor": "DistributedFactor",
        "features": "DistributedFeatures WorkerMemory load_features",
        "pagerank": "local_pagerank",
        "sampling": "ClusterSampling on_cluster sample_features",
    },
)
