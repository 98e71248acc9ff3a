"""Exact PageRank by power iteration: the reference, and best for one vector on one machine."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from graphrf._base import checks
from graphrf._base.memory import require_memory
from graphrf._base.threads import startable, thread_count
from graphrf._base.types import SignalLike
from graphrf._base.warn import warn
from graphrf.graph.graph import Graph, require_graph
from graphrf.pagerank.acceleration import Acceleration
from graphrf.pagerank.problem import (
    RankingProblem,
    distribution,
    make_problem,
    vectors_of,
    without_alpha,
)
from graphrf.pagerank.result import ITERATION_ROUNDING, PageRankResult, iteration_bound
from graphrf.pagerank.sweep import BLOCK_ROWS, sweep

# Vectors that are multiplied together: eight of a row fill a cache line.
_WIDTH = 8
# Fewer entries and rows are not worth threads (measured).
_WORTH_THREADS = 2**18
# Parts of a product for each thread, to balance them.
_PARTS = 4
# Scores are kept per degree, which would overflow for degrees below this.
_LEAST_DEGREE = 1e-290
# Default maximum of iterations; only p_halt below 3e-4 needs more.
_MOST_ITERATIONS = 100_000


@without_alpha
def pagerank(
    graph: Graph,
    *,
    p_halt: float = 0.15,
    personalization: SignalLike | None = None,
    dangling: SignalLike | None = None,
    start: SignalLike | None = None,
    tol: float = 1e-12,
    max_iter: int | None = None,
    n_threads: int | None = None,
) -> PageRankResult:
    r"""The exact PageRank by power iteration, with an error bound; p_halt = 1 - alpha of networkx.

    .. math:: \rho \leftarrow p v + (1 - p) (P^T \rho + \delta u), \qquad
              \delta = \sum_{i\ \text{dangling}} \rho_i.

    For one global vector of a graph that fits into memory, prefer this to walks (`estimate`): it is
    exact, and faster than any useful number of them.
    [Theory](../theory/pagerank.md#power-iteration).

    Parameters
    ----------
    graph : Graph
        Directed or not, weighted or not; self-loops count.
    p_halt : float in (0, 1)
        Probability of a jump to v before every step.
    personalization : mapping of nodes to values, Series, array_like of shape (N,), or several
        The vector v, up to a factor: finite, not negative, not all zero. Keys are the nodes' names,
        integers too (unlike `nodes` and `sources` elsewhere); positions if the graph has no names
        or none that is an integer. The index of a Series of pandas holds keys, unless it only
        numbers the values (a RangeIndex). Default: uniform. **Several** vectors are an array or a
        scipy sparse matrix of shape (n, N), or a sequence of n mappings or Series; the results have
        a row for each.
    dangling : as one `personalization`, optional
        The vector u: the distribution of jumps from nodes without edges. Default: v, as in
        networkx.
    start : as `personalization`, optional
        Initial scores, one vector for all or one for each v; they affect the number of iterations,
        not the result. Default: v.
    tol : float
        Bound on the L1 error of each vector of scores, (1 - p) / p times the last change. (networkx
        stops at a change of N times its `tol`: on a graph of 2 million nodes, that is always
        satisfied.) Rounding adds 9e-16 / p to the bound: below p = 9e-4 the default cannot be
        reached, and iteration ends with the warning once its changes are rounding errors.
    max_iter : int, optional
        Default: as many as the contraction may need, log(tol p / 2) / log(1 - p), and twice that on
        undirected graphs, which in practice need fewer; at most 100,000.
    n_threads : int, optional
        Default: the cores that the process may use. The result is the same bit for bit.

    Returns
    -------
    PageRankResult
        scores (N,), or (n, N) of several vectors; converged (of all), iterations, residual and
        error_bound (the largest of several vectors).

    Warns
    -----
    UserWarning
        If `tol` was not reached; the result has `converged=False`.

    Raises
    ------
    TypeError, ValueError
        If arguments are out of range; errors about one of several vectors name its row.

    Notes
    -----
    On undirected graphs iterations are accelerated (Golub and Varga 1961): about half as many at
    p_halt 0.15 and tol 1e-12, a fifth at 0.02 on meshes.

    Cost: O(nnz) per iteration and vector; at the defaults at most 186 iterations on directed
    graphs, rarely more than 70 on undirected ones. Directed graphs are transposed, in about the
    time of five iterations. Beside that and the result, memory is 3 vectors, or 24 for several,
    which are multiplied 8 at a time; each is as it would be alone, bit for bit.

    Examples
    --------
    >>> import graphrf as grf
    >>> star = grf.Graph([[0, 1, 1], [1, 0, 0], [1, 0, 0]], nodes=["hub", "a", "b"])
    >>> result = grf.pagerank(star)
    >>> result.converged
    True
    >>> [(node, round(score, 6)) for node, score in result.top(2)]
    [('hub', 0.486486), ('a', 0.256757)]
    >>> grf.pagerank(star, personalization=[{"a": 1.0}, {"b": 1.0}]).scores.round(3)
    array([[0.459, 0.345, 0.195],
           [0.459, 0.195, 0.345]])
    """
    result = iterate(
        graph,
        p_halt=p_halt,
        personalization=personalization,
        dangling=dangling,
        start=start,
        tol=tol,
        max_iter=max_iter,
        n_threads=n_threads,
    )
    if not result.converged:
        warn(
            f"power iteration reached an error below {result.error_bound:.2g} after "
            f"{result.iterations} iterations, not tol={tol:g}; raise `max_iter`, or `tol` if it is "
            "below 9e-16 / p_halt, the limit of rounding"
        )
    return result


def iterate(
    graph: Graph,
    *,
    p_halt: float,
    personalization: Any,
    dangling: Any,
    start: Any,
    tol: float,
    max_iter: int | None,
    n_threads: int | None = None,
    plain: bool = False,
) -> PageRankResult:
    """`pagerank` without its warning; `plain` turns acceleration off."""
    require_graph(graph)
    vectors = vectors_of(graph, personalization)
    count = 1 if vectors is None else len(vectors)
    problems = [
        make_problem(graph, p_halt, personalization if vectors is None else vectors[0], dangling)
    ]
    guesses = _guesses(graph, start, count)
    tol = checks.number("tol", tol, low=0, include_low=False)
    p = problems[0].p_halt
    nats = math.log(2) - math.log(min(tol, 1.0)) - math.log(p)
    # P below 1e-305 would make it infinite.
    contractions = math.ceil(min(-nats / math.log1p(-p), 2.0**62))
    if max_iter is None:
        limit = min(contractions if graph.directed else 2 * contractions, _MOST_ITERATIONS)
    else:
        limit = checks.integer("max_iter", max_iter, low=1)
    threads = thread_count(n_threads)

    matrix = _matrix(graph, several=count > 1)
    require_memory(
        8.0 * count * graph.n_nodes,
        f"PageRank of {graph.n_nodes} nodes for {count} vectors",
        "ask for fewer vectors at a time, or for the best nodes of each (local_pagerank)",
    )
    scores = np.empty((count, graph.n_nodes))
    iterations, residuals = 0, np.empty(count)
    with _row_sharing(matrix, min(count, _WIDTH), threads) as share:
        for first in range(0, count, _WIDTH):
            rows = range(first, min(first + _WIDTH, count))
            if vectors is not None:
                problems = [make_problem(graph, p, vectors[row], dangling) for row in rows]
            guess = None if guesses is None else [guesses(row) for row in rows]
            panel = _panel(problems, guess, matrix)
            # As many plain steps as suffice without acceleration are reserved for the end.
            stop = _Stop(tol, limit, 0 if graph.directed or plain else contractions)
            made = _iterate_panel(panel, matrix, share, stop, scores[first:], residuals[first:])
            iterations = max(iterations, made)
    return PageRankResult(
        scores=scores[0] if vectors is None else scores,
        p_halt=p,
        nodes=graph.nodes,
        converged=bool((iteration_bound(residuals, p) <= tol).all()),
        iterations=iterations,
        residual=float(residuals.max()),
    )


def walked(problem: RankingProblem, n_steps: int, n_threads: int) -> Iterator[np.ndarray]:
    """((1 - p) P^T)^k v for k = 1 .. n_steps, (N,) each: walks of at least k steps, after k."""
    matrix = _matrix(problem.graph, several=False)
    panel = _panel([problem], None, matrix)
    nothing = np.zeros(1)
    with _row_sharing(matrix, 1, n_threads) as share:
        for _ in range(n_steps):
            _step(panel, matrix, share, np.ones(1), restart=nothing, leak=nothing)
            yield panel.now[:, 0] * np.where(matrix.degrees > 0, matrix.degrees, 1.0)


def _guesses(graph: Graph, start: Any, count: int) -> Callable[[int], np.ndarray] | None:
    """Function of a vector's number to its initial scores; None if these are the vector itself."""
    if start is None:
        return None
    given = vectors_of(graph, start, argument="start")
    if given is None:
        single = distribution(graph, start, "start")
        return lambda row: single
    if len(given) != count:
        raise checks.value_error(
            "start", f"must hold one vector, or {count} as `personalization` does, got {len(given)}"
        )
    return lambda row: distribution(graph, given[row], "start")


class _Matrix(NamedTuple):
    """Arrays of the graph for `sweep`: A^T by rows, entries (none if all 1), degrees."""

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    degrees: np.ndarray


def _matrix(graph: Graph, several: bool) -> _Matrix:
    adjacency, degrees = graph.adjacency, graph.degrees
    unit = not graph.is_weighted and bool((adjacency.data[:1] == 1).all())
    data = adjacency.data
    if degrees.max() > 0 and degrees[degrees > 0].min() < _LEAST_DEGREE:
        data = data / np.repeat(degrees, np.diff(adjacency.indptr))
        adjacency = _transposed(adjacency, data)
        data, degrees = adjacency.data, (degrees > 0).astype(np.float64)
    elif graph.directed:
        adjacency = _transposed(adjacency, np.ones(data.size, np.int8) if unit else data)
        data = data if unit else adjacency.data
    if unit and not several:
        # With several vectors, reading entries of 1 costs
        # little, so only single ones have a loop without them.
        data = data[:0]
    index_type = np.int32 if adjacency.nnz < 2**31 else np.int64
    indptr = adjacency.indptr.astype(index_type, copy=False)
    indices = adjacency.indices.astype(index_type, copy=False)
    for array in (indptr, indices, data, degrees):
        array.setflags(write=False)  # as in the graph, so that the loop is compiled once
    return _Matrix(indptr, indices, data, degrees)


def _transposed(adjacency: sp.csr_array, data: np.ndarray) -> sp.csc_array:
    return sp.csc_array(
        sp.csr_array((data, adjacency.indices, adjacency.indptr), shape=adjacency.shape)
    )


@dataclass
class _Panel:
    """Iterated vectors by columns: scores per degree (two copies), personalisations, jumps."""

    now: np.ndarray
    following: np.ndarray
    starts: np.ndarray
    jump: np.ndarray
    lost: np.ndarray
    p_halt: float

    def jumps(self) -> tuple[np.ndarray, np.ndarray]:
        """Mass of each column that restarts from its vector, and that leaves dangling nodes."""
        leak = (1 - self.p_halt) * self.lost
        return self.p_halt + (leak if self.jump.size == 0 else np.zeros_like(leak)), leak

    def keep(self, columns: np.ndarray) -> None:
        """Remove all other columns."""
        self.now = self.now.take(columns, axis=1)
        self.following = self.following.take(columns, axis=1)
        self.starts = self.starts.take(columns, axis=1)
        self.lost = self.lost.take(columns)


def _panel(
    problems: Sequence[RankingProblem], guesses: list[np.ndarray] | None, matrix: _Matrix
) -> _Panel:
    dangling = problems[0].dangling
    guesses = [problem.start for problem in problems] if guesses is None else guesses
    shape = problems[0].start.size, len(problems)
    starts, now = np.empty(shape), np.empty(shape)
    for column, (problem, guess) in enumerate(zip(problems, guesses, strict=True)):
        starts[:, column] = problem.start
        np.divide(guess, np.where(matrix.degrees > 0, matrix.degrees, 1.0), out=now[:, column])
    jump = problems[0].jump
    return _Panel(
        now=now,
        following=np.zeros(shape),
        starts=starts,
        jump=np.empty(0) if jump is None else jump,
        lost=np.array([float(guess[dangling].sum()) for guess in guesses]),
        p_halt=problems[0].p_halt,
    )


# Calls a function for ranges of blocks of rows, all of them together.
_Share = Callable[[Callable[[int, int], None]], None]


@contextmanager
def _row_sharing(matrix: _Matrix, width: int, n_threads: int) -> Iterator[_Share]:
    """A function that runs a task over all blocks of rows, on threads if that is worth it."""
    n_nodes = matrix.degrees.size
    n_blocks = -(-n_nodes // BLOCK_ROWS)
    n_threads = startable(n_threads)
    if n_threads == 1 or (matrix.indices.size + n_nodes) * width < _WORTH_THREADS:
        yield lambda task: task(0, n_blocks)
        return
    ends = np.minimum(np.arange(n_blocks + 1) * BLOCK_ROWS, n_nodes)
    work = matrix.indptr[ends].astype(np.int64) + ends
    cuts = np.searchsorted(work, np.linspace(0, work[-1], _PARTS * n_threads + 1)[1:-1])
    bounds = np.unique(np.r_[0, cuts, n_blocks]).tolist()
    with ThreadPoolExecutor(n_threads, thread_name_prefix="graphrf") as pool:

        def share(task: Callable[[int, int], None]) -> None:
            for _ in pool.map(task, bounds[:-1], bounds[1:]):
                pass

        yield share


class _Stop(NamedTuple):
    """Limits of the iteration: an error below `tol`, iterations, the last accelerated one."""

    tol: float
    limit: int
    accelerated: int


@dataclass
class _Column:
    """A vector in the panel: the row of its result, and its extrapolation."""

    row: int
    acceleration: Acceleration
    done: bool = False

    def observe(self, change: float, tol: float, p_halt: float, *, last: bool) -> None:
        """Note the change of an iteration, and set `done`."""
        plain = self.acceleration.weight == 1
        self.acceleration.observe(change)
        # Changes at the level of rounding will not become smaller.
        small = iteration_bound(change, p_halt) <= tol or change <= ITERATION_ROUNDING
        if small:
            self.acceleration.settle()
        self.done = bool((small and plain) or last)


def _iterate_panel(
    panel: _Panel,
    matrix: _Matrix,
    share: _Share,
    stop: _Stop,
    scores: np.ndarray,
    residuals: np.ndarray,
) -> int:
    """Iterate every column until it is done; returns the largest number of iterations.

    Column c is written to `scores[c]`, its last change to `residuals[c]`.
    """
    columns = [_Column(row, Acceleration(1 - panel.p_halt)) for row in range(panel.now.shape[1])]
    for iteration in range(1, stop.limit + 1):
        last = iteration == stop.limit
        # The last step is plain too, so that its change bounds the error of the result.
        if last or iteration > stop.accelerated:
            for column in columns:
                column.acceleration.settle()
        restart, leak = panel.jumps()
        weight = np.array([column.acceleration.weight for column in columns])
        change = _step(panel, matrix, share, weight, restart, leak)
        for place, column in enumerate(columns):
            if not column.done:
                column.observe(float(change[place]), stop.tol, panel.p_halt, last=last)
                if column.done:
                    residuals[column.row] = change[place]
                    _write_scores(panel, matrix, place, scores[column.row])
        active = [place for place, column in enumerate(columns) if not column.done]
        if not active:
            break
        if 2 * len(active) <= len(columns):
            panel.keep(np.array(active))
            columns = [columns[place] for place in active]
    return iteration


def _write_scores(panel: _Panel, matrix: _Matrix, place: int, row: np.ndarray) -> None:
    """Write the scores of a column to a row."""
    np.multiply(panel.now[:, place], np.where(matrix.degrees > 0, matrix.degrees, 1.0), out=row)
    np.maximum(row, 0, out=row)  # an accelerated step may leave a score just below 0
    row /= row.sum()  # corrects rounding only, since the map keeps the sum


def _step(
    panel: _Panel,
    matrix: _Matrix,
    share: _Share,
    weight: np.ndarray,
    restart: np.ndarray,
    leak: np.ndarray,
) -> np.ndarray:
    """One pass of `sweep` over all rows; returns the L1 norms of the columns' changes."""
    walk = 1 - panel.p_halt
    n_blocks = -(-matrix.degrees.size // BLOCK_ROWS)
    change, lost = np.empty((n_blocks, leak.size)), np.empty((n_blocks, leak.size))
    vectors = panel.now, panel.following, panel.starts, panel.jump
    share(
        lambda first, last: sweep(
            first, last, *matrix, *vectors, walk, restart, leak, weight, change, lost
        )
    )
    panel.now, panel.following = panel.following, panel.now
    # Running sums, since the order of `sum` depends on the number of columns.
    panel.lost = lost.cumsum(axis=0)[-1]
    return np.asarray(change.cumsum(axis=0)[-1])
