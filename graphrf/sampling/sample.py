"""The front of sampling: the arguments are checked, and rows are drawn in memory, on a device or into a folder."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from graphrf._base import checks
from graphrf._base.devices import engine_device
from graphrf._base.threads import thread_count
from graphrf.features.error import Origin
from graphrf.features.features import Features
from graphrf.features.folder import FeatureFolder
from graphrf.features.record import Record
from graphrf.graph.graph import Graph, given_nodes, require_graph
from graphrf.kernels.kernel import Kernel, require_kernel
from graphrf.kernels.series import apply_kernel
from graphrf.sampling.by_error import checked_error, features_with_error
from graphrf.sampling.contract import Sampler
from graphrf.sampling.into_folder import into_folder
from graphrf.sampling.job import Job
from graphrf.sampling.joined import Joined
from graphrf.sampling.powers.powers import CompressedPowers
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
    nodes: Any = None,
    seed: int | None = None,
    engine: str | None = None,
    device: str | torch.device = "cpu",
    n_threads: int | None = None,
    dtype: Any = "float32",
    path: str | os.PathLike[str] | None = None,
    memory_limit: int | None = None,
    progress: bool = False,
) -> Features:
    r"""Sample rows of F = sum_k f_k W^k, step by step: features for any kernel of the sampler's Laplacian.

    Random walks record their visits, powers of the walk matrix their values:

    .. math:: \phi(i) = \frac1m \sum_{j=1}^m \sum_{k \le l_j} \frac{f_k}{S(k)}
              \sqrt{\frac{d_i}{d_{x_k}}}\, e_{x_k} \quad\text{or}\quad \phi(i) = \sum_k f_k x_k,
              \qquad E[\phi(i) \cdot \phi(j)] = K_{ij} \; (i \ne j).

    The modulation f enters later (`Features.matrix`), so one sample serves all kernels and hyperparameters.

    Parameters
    ----------
    graph : Graph
        Undirected.
    sampler : RandomWalks, CompressedPowers, CutPowers, ExactPowers, or any other `Sampler`, optional
        Default: `CompressedPowers(budget=32)`, which takes about the operations of `RandomWalks(32)`, with 0.25 of
        their error (geometric mean over nine graphs and six kernels; the worst of these cases 1.11 times it) and
        1.13 times the non-zeros (`benchmarks/default_sampler.py`).
    kernel : Kernel, optional
        With `error`: the kernel that the features are to serve first.
    error : float in (0, 1], optional
        In place of `sampler`: the relative error |Phi Phi^T - K|_F / |K|_F over `nodes` that `kernel` may have.
        Of exact, cut and compressed powers and random walks, at any size, that one is taken which is predicted to
        reach it with the fewest non-zeros (see Notes); the error of what was drawn is measured
        (`Features.relative_error`), and where it is larger than asked for a larger sampler is drawn.
        `Features.sampler` and `Features.choice` say what was taken, and the predicted and measured error.
    nodes : array_like of int positions or str names, optional
        The nodes to sample, in the order of the rows. Default: all.
    seed : int in [0, 2^63), optional
        None draws one, which the result records, or takes that of the features in `path`. A given seed gives the
        same bits on any number of threads and for any choice of other nodes.
    engine : {"numba", "torch"}, optional
        What samples: compiled loops on the CPU, or operations of torch on `device`, which need the extra `gp` and
        give the same (see Notes). Default: "numba" on the CPU, "torch" on any other device.
    device : str or torch.device
        Where torch samples, such as "cuda"; it must know float64. The features stay there (`Features.device`).
    n_threads : int, optional
        Threads of the compiled loops. Default: the cores that the process may use. Torch has its own threads.
    dtype : {"float32", "float64"}
        Type of the matrices made from the features.
    path : path of a folder, optional
        Every block of rows is written there as soon as it is drawn, whole or not at all. A call with the same
        arguments goes on where another one ended, however it did: what is there is not drawn again. The result is
        that without `path`, bit for bit. `load_features` opens the folder without the graph;
        `graphrf.distributed.sample_features` and `load_features` take it too.
    memory_limit : int, optional
        Bytes that the result and the blocks under way may take, beside the graph and what the sampler makes of
        it: see Notes. Default: what the machine, or the device, has available now.
    progress : bool
        Show a progress bar on standard error.

    Returns
    -------
    Features

    Raises
    ------
    TypeError, ValueError
        For arguments that are out of range, unknown nodes, a directed graph, a device that torch has not, samplers
        that are not graphrf's with the engine "torch"; if `path` holds other features, other files or a damaged
        block, which is named, or is given with a device that is not the CPU; if `error` comes without `kernel`, or
        with `sampler` or `path`; if no rows of at most 4,096 non-zeros on average reach `error`.
    OSError
        If `path` cannot be written, or the disk is full: blocks that are there stay, and the next call goes on.
    ImportError
        If torch is asked for and missing.
    MemoryError
        If `memory_limit` would be exceeded: the message says what is needed and what to lower. Nothing is
        allocated by then but what the sampler reads of the graph, and a block of rows.

    Notes
    -----
    Time: of walks O(n m (mean length + 1)); of powers see the samplers. Memory: 4 bytes for each distinct (source,
    node, step), 6 for powers, and 6 more for each distinct (source, node), plus 20 bytes per source.

    Counts of walks are the same bits with both engines. Values of powers are so on the CPU; elsewhere they agree
    to rounding, by which a choice between nodes may fall otherwise in rare cases.

    What samplers make of the graph is there before room for the result is looked for: random walks 8 bytes an
    entry of the adjacency where weights differ, and a copy of it (16) where nodes are isolated, or by the
    combinatorial Laplacian; powers about 30, and 60 while it is made. What does not fit then is refused, too.

    *An error that is asked for.* Pilot rows, at most 256, are drawn with some dozens of samplers and compared with
    the same rows of F: from the variance of these rows, and its products with F, follows the error of the Gram
    matrix of all nodes (`graphrf.sampling.by_error`). That takes some seconds, and memory for some 100 million
    numbers at most. Exact and cut powers are left out where all rows would take more than 2e10 multiply-adds.
    Products of factors (`sample_product`), which are no `Features`, are not tried.

    A folder takes the bytes of the record on the disk; a block about 128 MiB, or 32 bytes for each node of the
    graph where that is more; of small features less. Of a process that is killed the block under way is lost, no
    more. Memory: of the record and of two blocks. Processes that sample into one folder at once share the work,
    but for blocks that they draw at the same time.

    Examples
    --------
    >>> import networkx as nx, graphrf as grf
    >>> graph = grf.load_graph(nx.karate_club_graph(), weight=False)
    >>> features = grf.sample_features(graph, grf.RandomWalks(n_walks=16), seed=0)
    >>> features.matrix(grf.Diffusion(lengthscale=1.0)).shape
    (34, 34)

    With an error in place of a sampler:

    >>> kernel = grf.Diffusion(lengthscale=3.0)
    >>> features = grf.sample_features(graph, kernel=kernel, error=0.1, seed=0)
    >>> features.sampler
    CutPowers(budget=22, max_length=6, laplacian='normalized')
    >>> features.choice.measured <= 0.1
    True

    With a folder, the second call draws nothing:

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first = grf.sample_features(graph, grf.RandomWalks(n_walks=16), path=folder)
    ...     again = grf.sample_features(graph, grf.RandomWalks(n_walks=16), path=folder)
    ...     alone = grf.load_features(folder)
    >>> first.seed == again.seed == alone.seed
    True
    """
    if error is not None:
        error = checked_error(error, kernel, sampler, path)
    elif kernel is not None:
        raise checks.value_error(
            "error",
            "must be given with `kernel`; without an error, features serve every kernel: leave `kernel` out",
        )
    job, folder = _checked(
        graph, sampler, nodes=nodes, seed=seed, engine=engine, device=device, n_threads=n_threads, dtype=dtype,
        path=path, memory_limit=memory_limit, progress=progress,
    )  # fmt: skip
    if error is not None:

        def draw(chosen: Sampler) -> Features:
            return _features(replace(job, sampler=chosen), None, any_seed=False)

        return features_with_error(draw, graph, require_kernel(kernel), job.sources, error)
    return _features(job, folder, any_seed=seed is None)


def _features(job: Job, folder: FeatureFolder | None, *, any_seed: bool) -> Features:
    """The features of a job, in memory, on a device or in a folder."""
    origin = _origin(job)
    if folder is not None:
        return into_folder(job, folder, origin, any_seed=any_seed)
    on_host = job.place is None or job.place.type == "cpu"
    return Features(job.frame, job.sources, in_memory(job) if on_host else on_device(job), origin)


def _origin(job: Job) -> Origin:
    """What the features of a job know of it; the sampler bound to the graph, which is large, is not kept."""
    follow = partial(_updated, replace(job))  # without what is cached
    return Origin(partial(apply_kernel, job.graph), job.graph.adjacency.nnz, job.sampler, follow=follow)


def _updated(job: Job, features: Features, graph: Graph, n_threads: int | None) -> Features:
    """See `Features.updated`."""
    after, record = updated_record(job, features, graph, n_threads)
    return Features(after.frame, features.nodes, record, _origin(after))


def in_memory(job: Job) -> Record:
    """The record of a job, in one piece on the host."""
    job.require_room(job.expected, job.working_bytes)
    return job.draw_into(Joined(job.sources.size, job.graph.n_nodes, job.expected, job.prepared.counts_dtype))


def on_device(job: Job) -> DeviceRecord:
    """The record of a job, in one piece on the device where it is drawn."""
    from graphrf.sampling.device import DeviceJoined

    joined = DeviceJoined(job.graph.n_nodes, job.expected)
    job.require_room(joined.room, job.working_bytes)
    return job.draw_into(joined)


def _checked(
    graph: Graph,
    sampler: Sampler | None,
    *,
    nodes: Any,
    seed: int | None,
    engine: str | None,
    device: str | torch.device,
    n_threads: int | None,
    dtype: Any,
    path: str | os.PathLike[str] | None,
    memory_limit: int | None,
    progress: bool,
) -> tuple[Job, FeatureFolder | None]:
    """The job that arguments of `sample_features` ask for, and the folder that it goes into."""
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
            f"must be None for samples on a device, got {str(path)!r} and device={str(device)!r}; leave "
            "`device` out, and move the features there (Features.to)",
        )
    seed = folder.seed() if seed is None and folder is not None and folder.is_known else checks.seed(seed)
    threads = thread_count(n_threads)
    limit = None if memory_limit is None else checks.integer("memory_limit", memory_limit, low=1)
    job = Job(graph, sampler, sources, nodes is None, seed, plain, place, threads, limit, progress)
    return job, folder


def require_sampler(sampler: Any) -> Sampler:
    """`sampler` itself, if it is one and not the class of one."""
    if isinstance(sampler, type) or not hasattr(sampler, "prepare"):
        raise checks.type_error(
            "sampler",
            f"must be a sampler such as CompressedPowers(32) or RandomWalks(32), got {checks.describe(sampler)}",
        )
    found: Sampler = sampler
    return found


def checked_dtype(dtype: Any) -> np.dtype[Any]:
    """float32 or float64, given in any way that numpy knows."""
    try:
        name = str(dtype) if dtype is None else np.dtype(dtype).name  # numpy takes None for float64
    except TypeError:
        raise checks.type_error("dtype", f"must be 'float32' or 'float64', got {checks.describe(dtype)}") from None
    return np.dtype(checks.choice("dtype", name, ("float32", "float64")))
