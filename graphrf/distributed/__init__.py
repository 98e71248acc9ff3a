"""Features, products and local PageRank queries on the workers of a Dask cluster."""

from __future__ import annotations

try:
    import distributed as _distributed  # noqa: F401 (before the files below, which need it)
except ImportError as _error:
    raise ImportError(
        "graphrf.distributed needs Dask, which is not installed: pip install 'graphrf[distributed]'"
    ) from _error

from graphrf.distributed.factor import DistributedFactor as DistributedFactor
from graphrf.distributed.features import DistributedFeatures as DistributedFeatures
from graphrf.distributed.features import WorkerMemory as WorkerMemory
from graphrf.distributed.features import load_features as load_features
from graphrf.distributed.pagerank import local_pagerank as local_pagerank
from graphrf.distributed.sampling import ClusterSampling as ClusterSampling
from graphrf.distributed.sampling import on_cluster as on_cluster
from graphrf.distributed.sampling import sample_features as sample_features

__all__ = [
    "ClusterSampling",
    "DistributedFactor",
    "DistributedFeatures",
    "WorkerMemory",
    "load_features",
    "local_pagerank",
    "on_cluster",
    "sample_features",
]
