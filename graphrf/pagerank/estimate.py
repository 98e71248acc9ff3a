"""The front of PageRank by walks: checks, batches, threads and progress around the loops."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphrf import _checks
from graphrf._threads import ordered_map, thread_count
from graphrf.graph import Graph
from graphrf.lengths import IID, Antithetic, Coupling, LengthLaw, SigmaCoupled, Stratified
from graphrf.pagerank import batches
from graphrf.pagerank.endpoints import end_point_measure
from graphrf.pagerank.pooled import count_pool
from graphrf.pagerank.problem import Problem, pose
from graphrf.pagerank.result import PageRankResult
from graphrf.pagerank.visits import control_vector, visit_measure
from graphrf.pagerank.walkers import count_walks
from graphrf.sampling.philox import check_seed
from graphrf.sampling.transitions import Transitions, transitions

ESTIMATORS = ("endpoints", "visits")
COUPLINGS = ("iid", "antithetic", "sigma", "stratified", "pooled")

# More batches would not make the standard errors noticeably better: 15 degrees of freedom.
_MOST_BATCHES = 16
# A Latin hypercube of fewer walks couples too little (measured: blocks of 4 lose nothing against 16).
_FEWEST_STRATIFIED = 4
# Walks in one task: enough to outweigh its array of counts, few enough to feed all threads.
_TASK_WALKS = 100_000


def pagerank(
    graph: Graph,
    *,
    p_halt: float = 0.15,
    n_walks: int = 16,
    estimator: str = "visits",
    coupling: str | Coupling = "pooled",
    personalization: Any = None,
    n_batches: int | None = None,
    seed: int | None = None,
    n_threads: int | None = None,
    progress: bool = False,
) -> PageRankResult:
    r"""PageRank estimated by random walks; p_halt = 1 - alpha of networkx.

    .. math:: \rho = p v + (1 - p) (P^T \rho + \delta v), \qquad
              \delta = \sum_{i\ \text{dangling}} \rho_i, \qquad P = D^{-1} A.

    Walks start from the personalisation vector v and end before every step with probability p; rho is the law
    of their end points. For one global vector of a graph that fits into memory `power_iteration` is the
    better choice: exact, and faster than any number of walks worth having. Walks serve for rough answers
    with an honest error at a chosen cost, and for the paper's experiment.

    Parameters
    ----------
    graph : Graph
        Directed or not, weighted or not; self-loops are followed. From a node without edges the chain jumps
        to v, as in networkx.
    p_halt : float in (0, 1)
        Probability of ending before each step; at least 0.0006 unless pooled.
    n_walks : int
        Walks for every node that v gives weight to: M = n_walks |{j: v_j > 0}| in all, dealt to these nodes
        in proportion to v (n_walks each if v is uniform there). The error falls as 1/sqrt(M), pooled faster.
    estimator : {"visits", "endpoints"}
        "visits" counts p_halt / M for every visit of a walk; "endpoints", the paper's, 1 / M for every end: from
        the same walks it has 5 to 7 times the variance at p_halt .15, 3 to 4 times at .3.
    coupling : {"pooled", "iid", "antithetic", "sigma", "stratified"} or Coupling
        "pooled": the walkers on one node are one population which stops and parts evenly in whole numbers; .25
        to .65 of the error of independent walks at 16 walks a node, about .3 at 64; for visits only. The others
        couple the lengths of the walks from one node (`IID`, `Antithetic`, `SigmaCoupled`, `Stratified`);
        "sigma" takes the permutation shipped for the nearest p_halt, a Coupling brings its own.
    personalization : mapping of nodes to values, or array_like of shape (N,), optional
        The vector v, up to a factor: finite, not negative, not all zero. Keys are the nodes' names; positions
        if the graph has no names or none that is an integer. Default: uniform.
    n_batches : int, optional
        Independent batches that the walks are split into; two or more give `stderr`. Default: one for each
        group of coupled walks, at most 16 (stratified: for each 4 walks); **one if pooled, hence no
        `stderr`**, because smaller pools are worse: at 16 walks a node, 4 pools have 1.4 to 1.6 times the error
        of a single one.
    seed : int in [0, 2^63), optional
        None draws one, which the result records. Same seed, same bits, on any number of threads.
    n_threads : int, optional
        Default: the cores that the process may use. A single pool runs on one.
    progress : bool
        Show a progress bar on standard error.

    Returns
    -------
    PageRankResult
        scores (N,) summing to 1, stderr (N,) or None, walks, steps, seed; `.top(k)`.

    Raises
    ------
    TypeError, ValueError
        For arguments that are out of range or do not go together; if every walk was lost before its end
        ("endpoints" with few walks and many nodes without edges).

    Notes
    -----
    Bias: none without dangling nodes, for every estimator and coupling. With them walks are lost instead of
    jumping to v, and the estimate is divided by its sum: the same vector, with much less noise than jumps would
    bring, at a relative bias of order 1/M, well below the standard error's 1/sqrt(M).

    `stderr` covers the noise of the walks on this graph, with n_batches - 1 degrees of freedom; nothing else is
    random. Where a node is rarely visited it is itself rough: a node that no walk reached scores about 0 with
    `stderr` about 0 and may have a rank up to some 3 / M. Visits by personalised walks may score slightly
    below 0 if M is less than some hundreds, since they are unbiased and sum to 1.

    Cost: O(N + nnz) to set up and M (1 - p) / p steps on average, fewer with dangling nodes; memory O(N) a
    thread. Pooled: at most as many steps, and O(N) for each of about log(M) / p rounds.

    Source: the paper (Reid et al. 2024), App. E; Avrachenkov et al., SIAM J. Numer. Anal. 45(2), 2007 (visits).

    Examples
    --------
    >>> import graphrf as grf
    >>> from graphrf.pagerank import pagerank
    >>> star = grf.Graph([[0, 1, 1], [1, 0, 0], [1, 0, 0]], nodes=["hub", "a", "b"])
    >>> result = pagerank(star, n_walks=100, seed=0)
    >>> round(float(result.scores.sum()), 12)
    1.0
    >>> result.top(1)[0][0]
    'hub'
    >>> pagerank(star, n_walks=100, coupling="iid", seed=0).stderr.shape
    (3,)
    """
    problem = pose(graph, p_halt, personalization)
    n_walks = _checks.integer("n_walks", n_walks, low=1, high=2**31 - 1)
    _checks.choice("estimator", estimator, ESTIMATORS)
    law = length_law(coupling, problem.p_halt, estimator)
    if law is not None:
        law.check_walks(n_walks)
    groups = n_walks // (law.group if law is not None else 1)
    if n_batches is None:
        n_batches = _default_batches(law, groups)
    else:
        n_batches = _checks.integer("n_batches", n_batches, low=1)
        if n_batches > groups:
            raise ValueError(
                f"`n_batches` must be at most {groups}, the number of groups of coupled walks of a node, "
                f"got {n_batches}; raise `n_walks`"
            )
    seed = check_seed(seed)
    threads = thread_count(n_threads)
    _checks.flag("progress", progress)

    mean = batches.BatchMean(graph.n_nodes)
    n_steps = 0
    for measure, weight, steps in batch_measures(
        problem, law, estimator, groups, n_batches, seed=seed, n_threads=threads, progress=progress
    ):
        mean.add(measure, weight)
        n_steps += steps
    scores, stderr = mean.result()
    return PageRankResult(
        scores=scores,
        p_halt=problem.p_halt,
        nodes=graph.nodes,
        stderr=stderr,
        walks=n_walks * problem.sources.size,
        steps=n_steps,
        seed=seed,
        estimator=estimator,
        coupling=coupling,
        n_batches=n_batches,
    )


def length_law(coupling: str | Coupling, p_halt: float, estimator: str) -> LengthLaw | None:
    """The law of the walks' lengths; None for pooled walkers."""
    if isinstance(coupling, Coupling):
        return SigmaCoupled(p_halt, coupling)
    if not isinstance(coupling, str):
        raise TypeError(
            f"`coupling` must be a Coupling or one of {', '.join(map(repr, COUPLINGS))}, "
            f"got {_checks.describe(coupling)}"
        )
    _checks.choice("coupling", coupling, COUPLINGS)
    if coupling == "pooled":
        if estimator == "endpoints":
            raise ValueError(
                "`coupling` must be 'iid', 'antithetic', 'sigma', 'stratified' or a Coupling for "
                "estimator='endpoints', got 'pooled': pools are scored by their populations; "
                "use estimator='visits' for them"
            )
        return None
    laws = {"iid": IID, "antithetic": Antithetic, "sigma": SigmaCoupled, "stratified": Stratified}
    return laws[coupling](p_halt)


def _default_batches(law: LengthLaw | None, groups: int) -> int:
    if law is None:
        return 1
    if isinstance(law, Stratified):
        groups = max(1, groups // _FEWEST_STRATIFIED)
    return min(groups, _MOST_BATCHES)


def batch_measures(
    problem: Problem,
    law: LengthLaw | None,
    estimator: str,
    groups: int,
    n_batches: int,
    *,
    seed: int,
    n_threads: int,
    progress: bool = False,
) -> Iterator[tuple[np.ndarray, float, int]]:
    """The parts of the measure x (`Problem`) from independent batches: arrays (N,), weights, steps taken.

    `groups` groups of coupled walks start for every source, on average; `law` None stands for pooled walkers.
    A part has the mean weight * x, the weights sum to 1.
    """
    from tqdm import tqdm

    n_nodes = problem.graph.n_nodes
    group = law.group if law is not None else 1
    total = groups * group * problem.sources.size
    walk_arrays = transitions(problem.graph.adjacency)
    control = control_vector(problem)
    # A pool is one task; of walks, every thread gets a few, whether from one batch or from several.
    blocks = 1 if law is None else -(-4 * n_threads // n_batches)
    tasks: list[_Task] = []
    for batch, part in enumerate(batches.split(groups, n_batches)):
        key, offset = batches.batch_key(np.uint64(seed), batch)
        walks = batches.starts(problem, part, group, offset)
        tasks += _blocks(batch, np.uint64(key), problem.sources, walks, blocks)

    def run(task: _Task) -> tuple[np.ndarray, int]:
        counts = np.zeros(n_nodes, dtype=np.int64)
        if law is None:
            return counts, _run_pool(task, walk_arrays, problem.p_halt, counts)
        return counts, _run_walks(task, walk_arrays, law, estimator == "visits", counts)

    with tqdm(total=total, disable=not progress, desc="PageRank", unit=" walks", unit_scale=True) as bar:
        results = zip(tasks, ordered_map(run, tasks, n_threads), strict=True)
        for _, parts in itertools.groupby(results, key=lambda pair: pair[0].batch):
            counts = np.zeros(n_nodes, dtype=np.int64)
            started = steps = 0
            for task, (task_counts, task_steps) in parts:
                counts += task_counts
                started += int(task.walks.sum())
                steps += task_steps
                bar.update(int(task.walks.sum()))
            weight = started / total
            if estimator == "visits":
                yield visit_measure(counts, total, weight, problem, control), weight, steps
            else:
                yield end_point_measure(counts, total), weight, steps


@dataclass(frozen=True)
class _Task:
    """Some of one batch's walks: `walks[i]` from `sources[i]`."""

    batch: int
    key: np.uint64
    sources: np.ndarray
    walks: np.ndarray


def _blocks(batch: int, key: np.uint64, sources: np.ndarray, walks: np.ndarray, most: int) -> Iterator[_Task]:
    """One batch as at most `most` tasks of consecutive sources: counts are integers, so the cuts do not matter."""
    n_blocks = min(most, 1 + int(walks.sum()) // _TASK_WALKS, sources.size)
    for block_sources, block_walks in zip(
        np.array_split(sources, n_blocks), np.array_split(walks, n_blocks), strict=True
    ):
        yield _Task(batch, key, block_sources, block_walks)


def _run_pool(task: _Task, walk_arrays: Transitions, p_halt: float, counts: np.ndarray) -> int:
    population = np.zeros(counts.size, dtype=np.int64)
    population[task.sources] = task.walks
    return int(count_pool(*walk_arrays, population, p_halt, task.key, counts))


def _run_walks(task: _Task, walk_arrays: Transitions, law: LengthLaw, visits: bool, counts: np.ndarray) -> int:
    steps = 0
    # Sources with equally many walks go together, since a law's rule may depend on how many there are.
    for n_walks in np.unique(task.walks[task.walks > 0]).tolist():
        sources = task.sources[task.walks == n_walks].astype(np.int64)
        steps += count_walks(
            *walk_arrays,
            sources,
            n_walks,
            int(law.rule),
            law.survival.table,
            law.permutations(n_walks),
            task.key,
            visits,
            counts,
        )
    return steps
