"""Local PageRank queries on the workers of a cluster."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from distributed import Client, Future, as_completed

from graphrf._base import checks
from graphrf._base.types import NodesLike
from graphrf.distributed.block_store import Blocks
from graphrf.distributed.blocks import mapped_allowance
from graphrf.distributed.client import arrays_folder, require_client, warn_of_mapped, workers
from graphrf.distributed.shared_object import SharedObject
from graphrf.graph.graph import Graph
from graphrf.pagerank.local import (
    LocalPageRankResult,
    QueryRows,
    assembled,
    checked_queries,
    source_tasks,
)
from graphrf.pagerank.problem import without_alpha
from graphrf.pagerank.push import local_rows
from graphrf.sampling.walks.transitions import graph_transitions

# Sources in a task, as multiples of those of a thread: Dask takes about a millisecond for a task,
# and pushes from a source a twentieth of one. With all scores a source may have megabytes, and a
# task must fit into a worker.
_TIMES_OF_BEST, _TIMES_OF_ALL = 8, 1


@without_alpha
def local_pagerank(
    graph: Graph,
    sources: NodesLike,
    *,
    client: Client | None = None,
    k: int | None = None,
    p_halt: float = 0.15,
    epsilon: float | None = None,
    delta: float | None = None,
    failure: float | None = None,
    max_residual: float | None = None,
    seed: int | None = None,
    shared_folder: str | os.PathLike[str] | None = None,
    progress: bool = False,
) -> LocalPageRankResult:
    """Personalised PageRank of many nodes, each from its neighbourhood, on workers of a cluster.

    `graphrf.pagerank.local_pagerank`, with its equation and its guarantee, bit for bit; blocks of
    sources are tasks. For few sources one process is faster, because the walk arrays need not be
    sent.

    Parameters
    ----------
    graph : Graph
        Directed or not, weighted or not; in memory or opened from disk (`graphrf.open_graph`).
    sources, k, p_halt, epsilon, delta, failure, max_residual, seed
        See `graphrf.pagerank.local_pagerank`.
    client : dask.distributed.Client, optional
        Default: the current one.
    shared_folder : path, optional
        See `sample_features`; for the walk arrays.
    progress : bool
        Show a progress bar on standard error.

    Returns
    -------
    LocalPageRankResult
        In this process, not on the workers.

    Raises
    ------
    TypeError, ValueError
        As `graphrf.pagerank.local_pagerank`, before anything is sent; if there is no client; if
        `shared_folder` is not seen by all workers.
    RuntimeError
        If the cluster has no workers.

    Warns
    -----
    RuntimeWarning
        If workers map more of the graph than half of the memory that Dask allows them.

    Notes
    -----
    Time: that of `graphrf.pagerank.local_pagerank`, shared by all threads of all workers, plus
    about a millisecond per task of at most 512 sources, or 64 with walks; without `k`, where rows
    are long, 64 and 8. There are at least 8 tasks per thread, if there are enough sources.

    Traffic: the walk arrays (4 to 8 bytes for each node and for each direction of an edge; 8 more
    for each direction if weights differ) once per call, to each worker or into the shared folder;
    at most 64 + 24 k bytes for each source (24 for each score). Memory: in this process twice that
    of the rows. On a worker the walk arrays, and for each thread the rows of a task and the nodes
    touched by one source.

    Examples
    --------
    >>> from dask.distributed import Client
    >>> import numpy as np, graphrf as grf
    >>> circle = grf.from_edges(np.arange(50), (np.arange(50) + 1) % 50)
    >>> with Client(
    ...     n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0"
    ... ) as client:
    ...     result = grf.distributed.local_pagerank(
    ...         circle, np.arange(50), client=client, k=3, seed=0
    ...     )
    >>> here = grf.pagerank.local_pagerank(circle, np.arange(50), k=3, seed=0)
    >>> (result.scores != here.scores).nnz
    0
    """
    client = require_client(client)
    asked = checked_queries(
        graph,
        sources,
        k=k,
        p_halt=p_halt,
        epsilon=epsilon,
        delta=delta,
        failure=failure,
        max_residual=max_residual,
        seed=seed,
    )

    checks.flag("progress", progress)
    mapped = arrays_folder(client, shared_folder)
    n_threads = sum(worker.threads for worker in workers(client))
    tasks = source_tasks(asked, n_threads, times=_TIMES_OF_ALL if k is None else _TIMES_OF_BEST)
    queries = SharedObject((graph_transitions(graph), asked.query, asked.key), mapped)
    warn_of_mapped(client, queries.mapped_bytes)
    answers = _Answers(client, tasks, queries)

    try:
        return assembled(asked, tasks, answers.arriving(), progress=progress)
    except BaseException:
        client.cancel(answers.futures)
        raise


def source_rows(sources: np.ndarray, queries: SharedObject) -> QueryRows:
    """The rows of a task, on a worker."""
    walk_arrays, query, key = queries.content()
    # A copy, since arrays that were sent may be read-only,
    # for which the loops would be compiled again.
    rows: QueryRows = local_rows(*walk_arrays, sources.copy(), query, key)
    queries.release(mapped_allowance())
    return rows


class _Answers(Blocks):
    """Rows of tasks, which are removed from the workers when they arrive."""

    def __init__(self, client: Client, tasks: Sequence[np.ndarray], queries: SharedObject) -> None:
        self.client = client
        self._tasks = tasks
        self._queries = queries
        self._under_way: dict[int, Future] = {}
        self._submit(range(len(tasks)))

    @property
    def futures(self) -> list[Future[Any]]:
        """Futures of the tasks whose rows have not arrived."""
        return list(self._under_way.values())

    def arriving(self) -> Iterator[tuple[int, QueryRows]]:
        """The number and the rows of each task, in the order of arrival."""
        while self._under_way:
            yield from self.repeated(self.arrived)

    def revive(self) -> None:
        """Resubmit tasks that Dask cannot repeat."""
        self._submit(
            [n for n, future in self._under_way.items() if future.status in ("cancelled", "lost")]
        )

    def arrived(self) -> list[tuple[int, QueryRows]]:
        """The tasks that are done, at least one."""
        done = self._done.next_batch()
        rows = self.client.gather(done)
        numbers = [self._numbers[future.key] for future in done]
        for number in numbers:  # no longer wanted there
            del self._under_way[number]
        return list(zip(numbers, rows, strict=True))

    def _submit(self, numbers: Sequence[int]) -> None:
        # Kept: Dask repeats lost tasks only from data that someone holds.
        self._sent = self._queries.delivered(self.client)
        tasks = [self._tasks[number] for number in numbers]
        futures = self.client.map(source_rows, tasks, [self._sent] * len(tasks), pure=False)
        self._under_way.update(zip(numbers, futures, strict=True))
        self._numbers = {future.key: number for number, future in self._under_way.items()}
        self._done = as_completed(self.futures, loop=self.client.loop)
