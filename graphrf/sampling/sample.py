"""`sample_features`: checks arguments, draws rows in memory, on a device or to a folder."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from graphrf._base import checks
from graphrf._base.devices import engine_device
from graphrf._base.threads import thread_count
from graphrf._base.types import NodesLike
from graphrf.features.error import Origin
from graphrf.features.features import Features
from graphrf.features.folder import FeatureFolder
from graphrf.features.record import Record
from graphrf.graph.graph import Graph, given_nodes, require_graph
from graphrf.kernels.kernel import Kernel, require_kernel
from graphrf.operators.series.apply import apply_kernel
from graphrf.sampling.by_error import checked_error, features_with_error
from graphrf.sampling.powers.powers import CompressedPowers
from graphrf.sampling.protocol import Sampler
from graphrf.sampling.record_builder import RecordBuilder
from graphrf.sampling.task import SamplingTask
from graphrf.sampling.to_folder import sample_to_folder
from graphrf.sampling.updated import updated_record

if TYPE_CHECKING:
    import torch

    from graphrf.features.device_record import DeviceRecord


def sample_features(
    graph: Graph,
    sampler: Sampler | None = None,
    *,
    kernel: Kernel | None = None,
    error: float | None = None,
    nodes: NodesLike | None = None,
    seed: int | None = None,
    engine: str | None = None,
    device: str | torch.device = "cpu",
    n_threads: int | None = None,
    dtype: DTypeLike = "float32",
    path: str | os.PathLike[str] | None = None,
    memory_limit: int | None = None,
    progress: bool = False,
) -> Features:
    r"""Sample rows of F = sum_k f_k W^k: graph random features for kernels of a Laplacian.

    Random walks record their visits, powers of the walk matrix their values; the modulation f
    enters later (`Features.matrix`), so one sample serves all kernels. For a kernel K = F F^T,

    .. math:: E[\phi(i)] = F_{i \cdot}, \qquad E[\phi(i) \cdot \phi(j)] = K_{ij} \; (i \ne j).

    Parameters
    ----------
    graph : Graph
        Undirected.
    sampler : RandomWalks, CompressedPowers, CutPowers, ExactPowers or any `Sampler`, optional
        Default: `CompressedPowers(budget=32)`, which takes about as many operations as
        `RandomWalks(32)`, has 0.25 times its error (geometric mean over nine graphs and six
        kernels; 1.11 times in the worst case) and 1.13 times the non-zeros
        (`docs/benchmarks.md`).
    kernel : Kernel, optional
        With `error`: the kernel for which the sampler is chosen.
    error : float in (0, 1], optional
        Instead of `sampler`: the target |Phi Phi^T - K|_F / |K|_F over `nodes`. The sampler that is
        predicted to reach it with the fewest non-zeros is used, and a larger sample drawn if the
        measured error exceeds it (`Features.sampler`, `Features.choice`).
    nodes : array_like of int positions or str names, optional
        The rows, in this order. Default: all.
    seed : int in [0, 2^63), optional
        None draws one, which the result records, or takes that of the features in `path`. A given
        seed gives the same bits on any number of threads and for any choice of other nodes.
    engine : {"numba", "torch"}, optional
        Compiled loops on the CPU (its default), or torch on `device` (extra `gp`). Walks have the
        same bits with both, powers on the CPU; elsewhere these agree up to rounding, which rarely
        changes a random choice between nodes.
    device : str or torch.device
        Such as "cuda"; it must support float64. The features stay there (`Features.device`).
    n_threads : int, optional
        Threads of the compiled loops. Default: the cores that the process may use.
    dtype : {"float32", "float64"}
        Type of the matrices made from the features.
    path : path of a folder, optional
        Blocks of rows are written there atomically as they are drawn. A call with the same
        arguments continues where an earlier one ended, even if that was killed; processes that run
        at once share the work. The result is bit for bit the same as without `path`.
        `load_features` opens the folder without the graph.
    memory_limit : int, optional
        Maximum bytes of the result and the current blocks, beside the graph and the arrays that the
        sampler derives from it. Default: the memory available.
    progress : bool
        Show a progress bar on standard error.

    Returns
    -------
    Features

    Raises
    ------
    TypeError, ValueError
        For a directed graph, unknown nodes, an unavailable device, or samplers that are not part of
        graphrf with torch; if `path` holds other features, other files or a damaged block, which is
        named, or is given with a device other than the CPU; if `error` is given without `kernel`,
        or with `sampler` or `path`, or no rows of at most 4,096 non-zeros on average reach it.
    ImportError
        If torch is needed and not installed.
    OSError
        If `path` cannot be written, or the disk is full: finished blocks are kept, and the next
        call continues.
    MemoryError
        If `memory_limit` would be exceeded, before more than the sampler's arrays and one block is
        allocated.

    Notes
    -----
    Time: O(n m (mean length + 1)) for walks; for powers see the samplers. Memory, and bytes of a
    folder: 4 for each distinct (source, node, step), 6 for powers, and 6 more for each distinct
    (source, node), plus 20 per source. Arrays derived from the graph: for walks 8 bytes per entry
    of the adjacency if weights differ, and a copy of it (16) if nodes are isolated or the Laplacian
    is combinatorial; for powers about 30, and 60 temporarily. An `error` takes some seconds for
    pilot rows, and memory for at most some 100 million numbers; exact and cut powers are omitted if
    all rows would take more than 2e10 multiply-adds.

    Examples
    --------
    >>> import networkx as nx, graphrf as grf
    >>> graph = grf.load_graph(nx.karate_club_graph(), weight=False)
    >>> features = grf.sample_features(graph, grf.RandomWalks(n_walks=16), seed=0)
    >>> features.matrix(grf.Diffusion(lengthscale=1.0)).shape
    (34, 34)
    >>> features = grf.sample_features(
    ...     graph, kernel=grf.Diffusion(lengthscale=3.0), error=0.1, seed=0
    ... )
    >>> features.sampler, features.choice.measured <= 0.1
    (CutPowers(budget=22, max_length=6, laplacian='normalized'), True)
    """
    if error is not None:
        error = checked_error(error, kernel, sampler, path)
    elif kernel is not None:
        raise checks.value_error(
            "error",
            "must be given with `kernel`; without an error, features serve every kernel: leave "
            "`kernel` out",
        )
    require_graph(graph)
    sampler = CompressedPowers() if sampler is None else require_sampler(sampler)
    place = engine_device(engine, device, "sample_features with engine='torch'")
    plain = checked_dtype(dtype)
    checks.flag("progress", progress)
    sources = given_nodes(graph, nodes)
    if sources.size == 0:
        raise checks.value_error("nodes", "must hold at least one node, got none")
    folder = None if path is None else FeatureFolder(path)
    if folder is not None and place is not None and place.type != "cpu":
        raise checks.value_error(
            "path",
            f"must be None for samples on a device, got {str(path)!r} and device={str(device)!r}; "
            "leave `device` out, and move the features there (Features.to)",
        )
    threads = thread_count(n_threads)
    limit = None if memory_limit is None else checks.integer("memory_limit", memory_limit, low=1)
    task = SamplingTask(
        graph,
        sampler,
        sources,
        nodes is None,
        checked_seed(seed, folder),
        plain,
        place,
        threads,
        limit,
        progress,
    )
    if error is not None:

        def draw(chosen: Sampler) -> Features:
            return _features(replace(task, sampler=chosen), None, any_seed=False)

        return features_with_error(draw, graph, require_kernel(kernel), task.sources, error)
    return _features(task, folder, any_seed=seed is None)


def _features(task: SamplingTask, folder: FeatureFolder | None, *, any_seed: bool) -> Features:
    """The features of a task, in memory or in a folder."""
    origin = _origin(task)
    if folder is not None:
        return sample_to_folder(task, folder, origin, any_seed=any_seed)
    return Features(task.info, task.sources, _record(task), origin)


def _record(task: SamplingTask) -> Record | DeviceRecord:
    """The record of a task in memory, on the device where it is drawn."""
    builder: Any
    if task.place is None or task.place.type == "cpu":
        task.require_room(task.expected, task.working_bytes)
        builder = RecordBuilder(
            task.sources.size, task.graph.n_nodes, task.expected, task.prepared.counts_dtype
        )
    else:
        from graphrf.sampling.device import DeviceRecordBuilder

        builder = DeviceRecordBuilder(task.graph.n_nodes, task.expected)
        task.require_room(builder.room, task.working_bytes)
    record: Record | DeviceRecord = task.draw_into(builder)
    return record


def _origin(task: SamplingTask) -> Origin:
    """Origin of a task's features; the sampler bound to the graph, which is large, is not kept."""
    follow = partial(_updated, replace(task))  # without cached properties
    return Origin(
        partial(apply_kernel, task.graph), task.graph.adjacency.nnz, task.sampler, follow=follow
    )


def _updated(
    task: SamplingTask, features: Features, graph: Graph, n_threads: int | None
) -> Features:
    """See `Features.updated`."""
    after, record = updated_record(task, features, graph, n_threads)
    return Features(after.info, features.nodes, record, _origin(after))


def checked_seed(seed: int | None, folder: FeatureFolder | None) -> int:
    """The seed; None takes that of the features in the folder, or draws one."""
    if seed is None and folder is not None and folder.is_known:
        return folder.seed()
    return checks.seed(seed)


def require_sampler(sampler: Any) -> Sampler:
    """`sampler` itself if it is one; a class of samplers is refused."""
    if isinstance(sampler, type) or not hasattr(sampler, "prepare"):
        raise checks.type_error(
            "sampler",
            "must be a sampler such as CompressedPowers(32) or RandomWalks(32), got "
            f"{checks.describe(sampler)}",
        )
    found: Sampler = sampler
    return found


def checked_dtype(dtype: Any) -> np.dtype[Any]:
    """float32 or float64, given in any way that numpy accepts."""
    try:
        name = str(dtype) if dtype is None else np.dtype(dtype).name  # numpy takes None for float64
    except TypeError:
        raise checks.type_error(
            "dtype", f"must be 'float32' or 'float64', got {checks.describe(dtype)}"
        ) from None
    return np.dtype(checks.choice("dtype", name, ("float32", "float64")))
