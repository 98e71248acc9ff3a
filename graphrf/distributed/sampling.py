"""Sampling features on a cluster."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from distributed import Client
from numpy.typing import DTypeLike

from graphrf._base import checks
from graphrf._base.memory import NoRoomError, limit_words
from graphrf._base.types import NodesLike
from graphrf.distributed.block_store import MadeBlocks
from graphrf.distributed.blocks import File, draw
from graphrf.distributed.client import (
    Worker,
    arrays_folder,
    require_client,
    warn_of_mapped,
    workers,
)
from graphrf.distributed.features import DistributedFeatures, begin_folder
from graphrf.distributed.shared_object import SharedObject
from graphrf.features.folder import FeatureFolder, cut, identity_of
from graphrf.graph.graph import Graph, given_nodes, require_graph
from graphrf.sampling.block_sizes import block_rows, file_rows
from graphrf.sampling.powers.powers import CompressedPowers
from graphrf.sampling.protocol import PreparedSampler, Sampler
from graphrf.sampling.sample import checked_dtype, checked_seed, require_sampler
from graphrf.sampling.task import expected_bytes, expected_size, few_rows, sample_info

# Share of a worker's memory at which Dask begins to write to disk.
_FILLED = 0.6
_OPTIONS = ("block_size", "shared_folder", "memory_limit", "progress")


def sample_features(
    graph: Graph,
    sampler: Sampler | None = None,
    *,
    client: Client | None = None,
    nodes: NodesLike | None = None,
    seed: int | None = None,
    dtype: DTypeLike = "float32",
    path: str | os.PathLike[str] | None = None,
    block_size: int | None = None,
    shared_folder: str | os.PathLike[str] | None = None,
    memory_limit: int | None = None,
    progress: bool = False,
) -> DistributedFeatures:
    """Sample features on the workers of a Dask cluster, where they stay.

    `graphrf.sample_features` in blocks of rows, bit for bit ([clusters](../cluster.md)). A block
    that is lost with a worker is drawn again, identically.

    Parameters
    ----------
    graph : Graph
        Undirected; in memory or opened from disk (`graphrf.open_graph`).
    sampler, nodes, dtype
        See `graphrf.sample_features`.
    client : dask.distributed.Client, optional
        Default: the current one.
    seed : int in [0, 2^63), optional
        None draws one, or takes that of the features in `path`.
    path : path of a folder, optional
        Seen by all workers. Every block is written there as soon as it is drawn. A call with the
        same arguments continues where an earlier one ended: blocks that exist are not drawn again
        and keep their size. `load_features` opens the folder without the graph.
    block_size : int, optional
        Rows per block (one task). Default: records of 128 MiB, or 32 bytes for each node of the
        graph if that is more; of smaller features 16 blocks, or fewer (at least 4 of 16 MiB) if
        records would be below 16 bytes for each node of the graph, since each block adds a column
        of N numbers to products. Neither the blocks nor the bits of products depend on the workers.
    shared_folder : path, optional
        Seen by all workers: the arrays of the graph are mapped from there, once in the memory of a
        machine. Default: the folder of temporary files if all workers see it, as on one machine;
        else the graph is sent to each worker.
    memory_limit : int, optional
        Maximum number of bytes of the features on all workers together. Default: 0.6 of the
        workers' memory limits, where Dask begins to write to disk; without such limits there is
        none.
    progress : bool
        Show a progress bar on standard error.

    Raises
    ------
    TypeError, ValueError
        As `graphrf.sample_features`; if there is no client; if `path` holds other features, or it
        or `shared_folder` is not seen by all workers.
    RuntimeError
        If the cluster has no workers.
    MemoryError
        If `memory_limit` would be exceeded.

    Warns
    -----
    RuntimeWarning
        If workers map more of the graph than half of the memory that Dask allows them; if Dask has
        paused all of them.

    Notes
    -----
    Time: that of `graphrf.sample_features`, shared by all threads of all workers. Traffic: the
    graph once, and some kilobytes per block. Memory of a worker: its blocks
    (`DistributedFeatures.memory`); the graph, once on a machine where it is mapped; for each thread
    the block that it draws and the sampler's working memory. Above a quarter of a worker's limit,
    mapped arrays are released between parts of a block.

    Examples
    --------
    >>> from dask.distributed import Client
    >>> import networkx as nx, numpy as np, graphrf as grf
    >>> graph = grf.load_graph(nx.karate_club_graph(), weight=False)
    >>> sampler = grf.RandomWalks(n_walks=16)
    >>> with Client(
    ...     n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0"
    ... ) as client:
    ...     features = grf.distributed.sample_features(graph, sampler, client=client, seed=0)
    ...     there = features.gram_matvec(grf.Diffusion(1.0), np.ones(34))
    >>> phi = grf.sample_features(graph, sampler, seed=0).matrix(grf.Diffusion(1.0))
    >>> np.allclose(there, phi @ (phi.T @ np.ones(34)))
    True
    """
    client = require_client(client)
    require_graph(graph)
    sampler = CompressedPowers() if sampler is None else require_sampler(sampler)
    plain = checked_dtype(dtype)
    checks.flag("progress", progress)
    chosen = None if nodes is None else given_nodes(graph, nodes)
    sources = np.arange(graph.n_nodes) if chosen is None else chosen
    if not sources.size:
        raise checks.value_error("nodes", "must hold at least one node, got none")

    _check_sizes(block_size=block_size, memory_limit=memory_limit)
    folder = None if path is None else FeatureFolder(path)
    seed = checked_seed(seed, folder)
    mapped = arrays_folder(client, shared_folder)

    prepared = sampler.prepare(graph, seed)
    nbytes = _record_bytes(prepared, sources)
    _check_memory(prepared, sources.size, nbytes, memory_limit, workers(client))
    rows = min(block_size or file_rows(sources.size, nbytes, graph.n_nodes), sources.size)
    info = sample_info(prepared, graph.n_nodes, seed, plain)
    pilot = few_rows(prepared, sources, graph.n_nodes)

    def identity() -> dict[str, str]:
        return identity_of(graph.digest, chosen, info, pilot)

    key = ""
    if folder is not None:
        rows, key = begin_folder(client, folder, info, chosen, rows, identity())
    parts = cut(chosen, sources.size, rows)
    files = [
        None if folder is None else File(folder.file(number), key) for number in range(len(parts))
    ]

    drawing = SharedObject((prepared, graph.n_nodes), mapped)
    warn_of_mapped(client, drawing.mapped_bytes)
    held = MadeBlocks(client, draw, parts, files, info=SharedObject(info, mapped), drawing=drawing)
    held.wait([len(part) for part in parts], progress=progress, what="features", unit="nodes")
    return DistributedFeatures(info, chosen, parts, held, identity)


@dataclass(frozen=True)
class ClusterSampling:
    """`sample_features` of a client, as `GraphGPRegressor` calls it: `on_cluster` makes one."""

    client: Client
    options: dict[str, Any]

    def __call__(
        self,
        graph: Graph,
        sampler: Sampler | None = None,
        *,
        nodes: Any = None,
        seed: int | None = None,
        dtype: Any = "float32",
        n_threads: int | None = None,
    ) -> DistributedFeatures:
        """Features on the workers; `n_threads` is ignored, since Dask's threads are used."""
        return sample_features(
            graph, sampler, client=self.client, nodes=nodes, seed=seed, dtype=dtype, **self.options
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> ClusterSampling:
        return self  # scikit-learn's `clone` copies parameters, but a client is one connection


def on_cluster(client: Client | None = None, **options: Any) -> ClusterSampling:
    """Let a Gaussian process draw the rows of its observed nodes on a cluster.

    For `gp.Numerics(feature_sampler=on_cluster(client))`: rows stay on the workers, where the
    products of its conjugate gradients run, so that only vectors and panels of columns are sent.

    Parameters
    ----------
    client : dask.distributed.Client, optional
        Default: the current one.
    **options
        `block_size`, `shared_folder`, `memory_limit` and `progress` of `sample_features`.

    Raises
    ------
    TypeError, ValueError
        For other options; if there is no client.
    """
    unknown = set(options) - set(_OPTIONS)
    if unknown:
        raise checks.type_error(
            "options", f"must be among {', '.join(_OPTIONS)}, got {', '.join(sorted(unknown))}"
        )
    _check_sizes(**{name: options.get(name) for name in ("block_size", "memory_limit")})
    checks.flag("progress", options.get("progress", False))
    return ClusterSampling(require_client(client), options)


def _check_sizes(**sizes: int | None) -> None:
    """Raise an error if a size is given and not a positive integer."""
    for name, size in sizes.items():
        if size is not None:
            checks.integer(name, size, low=1)


def _record_bytes(prepared: PreparedSampler, sources: np.ndarray) -> int:
    """Approximate bytes of the record of all rows."""
    rows = min(sources.size, block_rows(sources.size, prepared.visits_per_row, 1))
    return expected_bytes(prepared, sources, expected_size(prepared, sources, rows))


def _check_memory(
    prepared: PreparedSampler,
    n_rows: int,
    nbytes: int,
    memory_limit: int | None,
    there: list[Worker],
) -> None:
    """Raise MemoryError if the record of all rows does not fit."""
    limit = memory_limit
    if limit is None:
        limits = [worker.memory_limit for worker in there if worker.memory_limit]
        if len(limits) < len(there):
            return
        limit = int(_FILLED * sum(limits))
    if nbytes > limit:
        raise NoRoomError(
            f"features of {n_rows} nodes with {prepared.sampler!r} need about {nbytes / 2**30:.3g} "
            f"GiB, but {limit_words(memory_limit, limit)} on {len(there)} workers; start more of "
            f"them, {prepared.remedy}, pass fewer `nodes`, or a larger `memory_limit`: Dask then "
            "writes blocks to disk"
        )
