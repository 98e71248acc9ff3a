"""The front of sampling: checks, blocks, threads, memory and progress around an engine."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from graphrf._base import checks
from graphrf._base.devices import engine_device
from graphrf._base.memory import available_memory, limit_words
from graphrf._base.progress import progress_bar
from graphrf._base.threads import ordered_map, thread_count
from graphrf.features.features import Features
from graphrf.features.folder import FeatureFolder
from graphrf.features.frame import Frame
from graphrf.features.record import Record
from graphrf.graph.graph import Graph, require_graph
from graphrf.sampling.block_sizes import block_rows, file_rows
from graphrf.sampling.contract import Prepared, Sampler
from graphrf.sampling.into_folder import begun, draw_missing
from graphrf.sampling.joined import Joined, record_bytes
from graphrf.sampling.powers.powers import CompressedPowers

if TYPE_CHECKING:
    import torch

# Rows that tell how large the record will be, and those that tell features from others.
_PILOT_ROWS = 256
_FEW_ROWS = 16
# A record below so many bytes needs no pilot.
_SMALL_BYTES = 2**24
# What allocators keep free for a thread, measured with 4 and 8.
_THREAD_BYTES = 3 * 2**20


def sample_features(
    graph: Graph,
    sampler: Sampler | None = None,
    *,
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
        Of the compiled loops. Default: the cores that the process may use. Torch has threads of its own.
    dtype : {"float32", "float64"}
        Of the matrices that will be made from the features.
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
        block, which is named, or is given with a device that is not the CPU.
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
    node, step), 6 for powers, and 6 more for each distinct (source, node), plus 20 bytes a source.

    Counts of walks are the same bits with both engines. Values of powers are so on the CPU; elsewhere they agree
    to rounding, by which a choice between nodes may fall otherwise in rare cases.

    What samplers make of the graph is there before room for the result is looked for: random walks 8 bytes an
    entry of the adjacency where weights differ, and a copy of it (16) where nodes are isolated, or by the
    combinatorial Laplacian; powers about 30, and 60 while it is made. What does not fit then is refused, too.

    A folder takes the bytes of the record on the disk; a block about 128 MiB, or 32 bytes for each node of the
    graph where that is more; of small features less. Of a process that is killed the block under way is lost, no
    more. Memory: of the record and of two blocks. Processes that sample into one folder at once share the work,
    but for blocks that they draw at the same time.

    Examples
    --------
    >>> import networkx as nx, graphrf as grf
    >>> graph = grf.load_graph(nx.karate_club_graph())
    >>> features = grf.sample_features(graph, grf.RandomWalks(n_walks=16), seed=0)
    >>> features.matrix(grf.Diffusion(lengthscale=1.0)).shape
    (34, 34)

    With a folder, the second call draws nothing:

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first = grf.sample_features(graph, grf.RandomWalks(n_walks=16), path=folder)
    ...     again = grf.sample_features(graph, grf.RandomWalks(n_walks=16), path=folder)
    ...     alone = grf.load_features(folder)
    >>> first.seed == again.seed == alone.seed
    True
    """
    require_graph(graph)
    sampler = CompressedPowers() if sampler is None else require_sampler(sampler)
    place = engine_device(engine, device, "sample_features with engine='torch'")
    dtype = checked_dtype(dtype)
    checks.flag("progress", progress)
    sources = graph.positions(nodes)
    if sources.size == 0:
        raise ValueError("`nodes` must hold at least one node, got none")
    folder = None if path is None else FeatureFolder(path)
    if folder is not None and place is not None and place.type != "cpu":
        raise ValueError(
            f"`path` must be None for samples on a device, got {str(path)!r} and device={str(device)!r}; leave "
            "`device` out, and move the features there (Features.to)"
        )
    any_seed = seed is None
    seed = folder.seed() if any_seed and folder is not None and folder.is_known else checks.seed(seed)
    threads = thread_count(n_threads)
    limit = None if memory_limit is None else checks.integer("memory_limit", memory_limit, low=1)
    prepared: Any = sampler.prepare(graph, seed)
    joined: Any
    if place is None:
        limit = available_memory() if limit is None else limit
        rows = block_rows(sources.size, prepared.visits_per_row, threads)
    else:
        from graphrf.sampling.device import DeviceJoined, OnDevice, device_memory

        threads = 1  # torch has its own
        prepared = OnDevice(prepared, place)  # the graph's arrays are there before room is looked for
        limit = device_memory(place) if limit is None else limit
        rows = prepared.block_rows(limit)
    frame = frame_of(prepared, graph.n_nodes, seed, dtype)
    rows = min(rows, sources.size)
    blocks = [sources[start : start + rows] for start in range(0, sources.size, rows)]
    require_room = partial(_require_room, prepared, sources, memory_limit, limit)
    require_room((0, 0), prepared.working_bytes(min(rows, _PILOT_ROWS)))
    expected = expected_size(prepared, sources, rows)
    working = prepared.working_bytes(rows)
    if place is None:
        working = under_way(prepared, expected_bytes(prepared, sources, expected), len(blocks), threads)
    if folder is not None:
        chosen = None if nodes is None else sources
        few = few_rows(prepared, sources, graph.n_nodes)
        nbytes = expected_bytes(prepared, sources, expected)
        require_room(expected, working)
        try:
            parts, key = begun(folder, graph, frame, few, chosen, file_rows(sources.size, nbytes, graph.n_nodes))
        except ValueError:
            if not (any_seed and folder.is_known and folder.seed() != seed):
                raise
            # Another process has begun the folder meanwhile.
            return sample_features(
                graph,
                sampler,
                nodes=chosen,
                seed=folder.seed(),
                engine=engine,
                device=device,
                n_threads=n_threads,
                dtype=dtype,
                path=path,
                memory_limit=memory_limit,
                progress=progress,
            )
        # A block beside those that are sampled; later the last one, and what checks it, beside the record.
        working += 2 * nbytes * len(parts[0]) // sources.size
        require_room(expected, working)
        with progress_bar("features", progress, total=sources.size, unit="nodes") as bar:
            draw_missing(folder, prepared, parts, key, n_nodes=graph.n_nodes, rows=rows, threads=threads, bar=bar)
        return Features(frame, sources, folder.read(frame, parts, key))
    if place is None or place.type == "cpu":
        require_room(expected, working)
        joined = Joined(sources.size, graph.n_nodes, expected, prepared.counts_dtype)
    else:
        joined = DeviceJoined(graph.n_nodes, expected)
        require_room(joined.room, working)
    with progress_bar("features", progress, total=sources.size, unit="nodes") as bar:
        for block in ordered_map(prepared.sample, blocks, threads):
            joined.append(block)
            bar.update(block.n_rows)
            del block  # else it would stay while the next one is made
    return Features(frame, sources, joined.record())


def few_rows(prepared: Prepared, sources: np.ndarray, n_nodes: int) -> Record:
    """The record of a few of the nodes, by which folders know features again."""
    few = sources[np.linspace(0, sources.size - 1, min(sources.size, _FEW_ROWS)).astype(np.int64)]
    joined = Joined(few.size, n_nodes, (1, 1), prepared.counts_dtype)
    joined.append(prepared.sample(few))
    return joined.record()


def frame_of(prepared: Prepared, n_nodes: int, seed: int, dtype: np.dtype[Any]) -> Frame:
    """What the rows of a prepared sampler share."""
    return Frame(
        n_nodes=n_nodes,
        n_walks=prepared.n_walks,
        laplacian=prepared.sampler.laplacian,
        scale=prepared.scale,
        complete=prepared.survival.is_complete,
        seed=seed,
        dtype=dtype,
        description=prepared.describe(),
        survival=prepared.survival.table,
        degrees=prepared.degrees,
        of_powers=prepared.counts_dtype == np.float32,
    )


def require_sampler(sampler: Any) -> Sampler:
    """`sampler` itself, if it is one and not the class of one."""
    if isinstance(sampler, type) or not hasattr(sampler, "prepare"):
        raise TypeError(
            "`sampler` must be a sampler such as CompressedPowers(32) or RandomWalks(32), got "
            f"{checks.describe(sampler)}"
        )
    found: Sampler = sampler
    return found


def checked_dtype(dtype: Any) -> np.dtype[Any]:
    """float32 or float64, given in any way that numpy knows."""
    try:
        name = str(dtype) if dtype is None else np.dtype(dtype).name  # numpy takes None for float64
    except TypeError:
        raise TypeError(f"`dtype` must be 'float32' or 'float64', got {checks.describe(dtype)}") from None
    return np.dtype(checks.choice("dtype", name, ("float32", "float64")))


def expected_size(prepared: Prepared, sources: np.ndarray, block_rows: int) -> tuple[int, int]:
    """About how many entries and visits the record will have.

    From a pilot of at most a few hundred sources, whose samples are among those that will be drawn. What few
    sources, or small rows, can have at most serves as well.
    """
    entries, visits = (int(sources.size * most) for most in prepared.merged_per_row)
    n_pilot = min(_PILOT_ROWS, max(_FEW_ROWS, sources.size // 16))
    few = sources.size < 2 * n_pilot or expected_bytes(prepared, sources, (entries, visits)) < _SMALL_BYTES
    if few:
        return entries, visits
    pilot = sources[np.linspace(0, sources.size - 1, n_pilot).astype(np.int64)]
    share = sources.size / pilot.size
    n_entries = n_visits = 0
    for start in range(0, pilot.size, block_rows):
        block = prepared.sample(pilot[start : start + block_rows])
        n_entries += block.indices.shape[0]
        n_visits += block.steps.shape[0]
    return int(share * n_entries), int(share * n_visits)


def expected_bytes(prepared: Prepared, sources: np.ndarray, expected: tuple[int, int]) -> int:
    """Memory of the record of the expected size."""
    record = record_bytes(sources.size, *expected, prepared.counts_dtype.itemsize)
    return record + sources.size * prepared.row_bytes


def under_way(prepared: Prepared, nbytes: int, n_blocks: int, threads: int) -> int:
    """Memory beside a record of `nbytes` that grows by blocks: what each thread works with, and blocks in flight.

    Blocks that wait for their turn are not in the record yet, so that they add nothing; but the one that is copied
    does, and threads keep room for the next one. What is free in a thread's own memory no other thread gets.
    """
    busy = min(threads, n_blocks)
    scratch = busy * prepared.working_bytes(1) + (busy - 1) * _THREAD_BYTES
    return scratch + min(threads + 1, n_blocks) * nbytes // n_blocks


def needed_bytes(prepared: Prepared, sources: np.ndarray, expected: tuple[int, int], working: int) -> int:
    """Memory at its peak: the record of the expected size, and what is under way beside it."""
    return expected_bytes(prepared, sources, expected) + working


def _require_room(
    prepared: Prepared,
    sources: np.ndarray,
    memory_limit: int | None,
    limit: int | None,
    expected: tuple[int, int],
    working: int,
) -> None:
    """Raise MemoryError if a record of the expected size and the blocks under way will not fit.

    `limit` is `memory_limit`, or what was found at hand without it.
    """
    needed = needed_bytes(prepared, sources, expected, working)
    if limit is not None and needed > limit:
        raise MemoryError(
            f"features of {sources.size} nodes with {prepared.sampler!r} need about {needed / 2**30:.3g} GiB, "
            f"but {limit_words(memory_limit, limit)}; {prepared.remedy}, pass fewer `nodes`, or "
            "use the exact series (graphrf.apply_kernel), which stores nothing"
        )
