"""Batches of walks, run: their measures one after the other, on threads or a device, with progress."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from graphrf._base.cached import cached_property
from graphrf._base.progress import progress_bar
from graphrf._base.threads import ordered_map
from graphrf.pagerank.power import walked
from graphrf.pagerank.problem import RankingProblem
from graphrf.pagerank.result import expected_l1_error
from graphrf.pagerank.walks import batches
from graphrf.pagerank.walks.exact_steps import take_exact_steps
from graphrf.pagerank.walks.pooled import count_pool
from graphrf.pagerank.walks.visits import control_vector, end_point_measure, visit_measure
from graphrf.pagerank.walks.walker_loops import count_walks
from graphrf.sampling.walks.lengths import LengthLaw
from graphrf.sampling.walks.transitions import Transitions, graph_transitions

if TYPE_CHECKING:
    from graphrf.sampling.walks.transitions_torch import DeviceTransitions

# Walks in one task: enough to outweigh its array of counts, few enough to feed all threads.
_TASK_WALKS = 100_000


@dataclass(frozen=True)
class Walks:
    """Walks of a problem and their scores: the measures of `batch_measures`, after some exact steps.

    `on` holds the transitions of the problem's graph where torch runs the pools; None: numba makes the walks.
    """

    problem: RankingProblem
    law: LengthLaw | None
    estimator: str
    seed: int
    n_threads: int
    vector: int = 0
    exact_steps: int = 0
    on: DeviceTransitions | None = None

    @property
    def group(self) -> int:
        """Walks of one node that are coupled."""
        return 1 if self.law is None else self.law.group

    @cached_property
    def _exact_part(self) -> tuple[np.ndarray, RankingProblem | None, float]:
        return take_exact_steps(self.problem, self.exact_steps, self.n_threads)

    @property
    def n_sources(self) -> int:
        """Nodes that walks start from, after the exact steps."""
        _, problem, _ = self._exact_part
        return 0 if problem is None else problem.sources.size

    @property
    def known(self) -> np.ndarray:
        """The part of x that the walks leave as it is, shape (N,)."""
        exact, problem, mass = self._exact_part
        if problem is None or self.estimator != "visits":
            return exact
        return np.asarray(exact + mass * problem.p_halt * problem.start)

    def l1_error(self, scores: np.ndarray, stderr: np.ndarray, n_batches: int, steps: int) -> float:
        """The expected L1 error of scores with standard errors from batches of walks that took so many steps.

        Where walks took no step at all, their scatter says nothing of what is beyond: one exact step does, but for
        twice the mass that goes further.
        """
        exact, problem, mass = self._exact_part
        if steps == 0 and problem is not None:
            (following,) = walked(problem, 1, self.n_threads)
            nearly = exact + mass * (problem.p_halt * problem.start + following)
            further = 2 * mass * (1 - problem.p_halt) * float(following.sum())
            return float(np.abs(nearly / nearly.sum() - scores).sum()) + further
        return expected_l1_error(stderr, n_batches, scores - self.known)

    def measures(
        self,
        groups: int,
        n_batches: int,
        *,
        first_batch: int = 0,
        progress: bool = False,
        counted: Iterable[Counted] | None = None,
    ) -> Iterator[tuple[np.ndarray, float, int]]:
        """Measures of the problem's x, as by `batch_measures`; `counted` are the batches if already counted."""
        exact, problem, mass = self._exact_part
        if problem is None:
            for part in batches.split(groups, n_batches):
                yield part / groups * exact, part / groups, 0
            return
        for measure, weight, steps in batch_measures(
            problem,
            self.law,
            self.estimator,
            groups,
            n_batches,
            seed=self.seed,
            n_threads=self.n_threads,
            progress=progress,
            vector=self.vector,
            first_batch=first_batch,
            on=self.on,
            counted=counted,
        ):
            yield mass * measure + weight * exact, weight, steps


class Counted(NamedTuple):
    """A batch of walks: visits, or ends, at every node, int64, shape (N,); walks started, and steps taken."""

    counts: np.ndarray
    started: int
    steps: int


def batch_measures(
    problem: RankingProblem,
    law: LengthLaw | None,
    estimator: str,
    groups: int,
    n_batches: int,
    *,
    seed: int,
    n_threads: int,
    progress: bool = False,
    vector: int = 0,
    first_batch: int = 0,
    on: DeviceTransitions | None = None,
    counted: Iterable[Counted] | None = None,
) -> Iterator[tuple[np.ndarray, float, int]]:
    """The parts of the measure x (`RankingProblem`) from independent batches: arrays (N,), weights, steps taken.

    `groups` groups of coupled walks start for every source, on average; `law` None stands for pooled walkers.
    A part has the mean weight * x, the weights sum to 1. The random bits are those of the batches number
    `first_batch` on of a `vector` among several. Where the graph's transitions are `on` a device, pools run there,
    one after the other. `counted` batches are not run again.
    """
    total = groups * (law.group if law is not None else 1) * problem.sources.size
    control = control_vector(problem)
    if counted is None:
        counted = batch_counts(
            problem, law, estimator, groups, n_batches, seed=seed, n_threads=n_threads, progress=progress,
            vector=vector, first_batch=first_batch, on=on,
        )  # fmt: skip
    for counts, started, steps in counted:
        weight = started / total
        if estimator == "visits":
            yield visit_measure(counts, total, weight, problem, control), weight, steps
        else:
            yield end_point_measure(counts, total), weight, steps


def batch_counts(
    problem: RankingProblem,
    law: LengthLaw | None,
    estimator: str,
    groups: int,
    n_batches: int,
    *,
    seed: int,
    n_threads: int,
    progress: bool = False,
    vector: int = 0,
    first_batch: int = 0,
    on: DeviceTransitions | None = None,
    only: np.ndarray | None = None,
    trails: list[np.ndarray] | None = None,
) -> Iterator[Counted]:
    """The batches of `batch_measures`, counted; `only` is a mask of the sources whose walks are wanted.

    To `trails`, if given, arrays uint32, shape (2, n), are added: every node that a step led to, and the source of
    its walk.
    """
    n_nodes = problem.graph.n_nodes
    group = law.group if law is not None else 1
    walk_arrays = graph_transitions(problem.graph)
    wanted = slice(None) if only is None else only
    # A pool is one task, whose threads share its rounds where there are fewer pools; of walks, every thread gets
    # a few tasks, whether from one batch or from several.
    pool_threads = max(1, n_threads // n_batches)
    blocks = 1 if law is None else -(-4 * n_threads // n_batches)
    tasks: list[_Task] = []
    for batch, part in enumerate(batches.split(groups, n_batches)):
        key, offset = batches.batch_key(np.uint64(seed), first_batch + batch, vector)
        walks = batches.starts(problem, part, group, offset)
        tasks += _blocks(batch, np.uint64(key), problem.sources[wanted], walks[wanted], blocks)

    def run(task: _Task) -> tuple[np.ndarray, int]:
        counts = np.zeros(n_nodes, dtype=np.int64)
        if law is None:
            return counts, _run_pool(task, walk_arrays, problem.p_halt, counts, pool_threads, on)
        return counts, _run_walks(task, walk_arrays, law, estimator == "visits", counts, trails)

    total = sum(int(task.walks.sum()) for task in tasks)
    with progress_bar("PageRank", progress, total=total, unit="walks") as bar:
        results = zip(tasks, ordered_map(run, tasks, n_threads if on is None else 1), strict=True)
        for _, parts in itertools.groupby(results, key=lambda pair: pair[0].batch):
            counts = np.zeros(n_nodes, dtype=np.int64)
            started = steps = 0
            for task, (task_counts, task_steps) in parts:
                counts += task_counts
                started += int(task.walks.sum())
                steps += task_steps
                bar.update(int(task.walks.sum()))
            yield Counted(counts, started, steps)


@dataclass(frozen=True)
class _Task:
    """Some of one batch's walks: `walks[i]` from `sources[i]`."""

    batch: int
    key: np.uint64
    sources: np.ndarray
    walks: np.ndarray


def _blocks(batch: int, key: np.uint64, sources: np.ndarray, walks: np.ndarray, most: int) -> Iterator[_Task]:
    """One batch as at most `most` tasks of consecutive sources: counts are integers, so the cuts do not matter."""
    n_blocks = min(most, 1 + int(walks.sum()) // _TASK_WALKS, max(sources.size, 1))
    for block_sources, block_walks in zip(
        np.array_split(sources, n_blocks), np.array_split(walks, n_blocks), strict=True
    ):
        yield _Task(batch, key, block_sources, block_walks)


def _run_pool(
    task: _Task,
    walk_arrays: Transitions,
    p_halt: float,
    counts: np.ndarray,
    n_threads: int,
    on: DeviceTransitions | None,
) -> int:
    starts = np.zeros(counts.size, dtype=np.int64)
    starts[task.sources] = task.walks
    if on is None:
        return count_pool(walk_arrays, starts, p_halt, task.key, counts, n_threads)
    from graphrf.pagerank.walks.pooled_torch import pool_counts  # torch is an extra

    return pool_counts(on, starts, p_halt, task.key, counts)


def _run_walks(
    task: _Task,
    walk_arrays: Transitions,
    law: LengthLaw,
    visits: bool,
    counts: np.ndarray,
    trails: list[np.ndarray] | None,
) -> int:
    steps = 0
    # Sources with equally many walks go together, since a law's rule may depend on how many there are.
    for n_walks in np.unique(task.walks[task.walks > 0]).tolist():
        sources = task.sources[task.walks == n_walks].astype(np.int64)
        taken, trail = count_walks(
            *walk_arrays,
            sources,
            n_walks,
            int(law.rule),
            law.survival.table,
            law.permutations(n_walks),
            task.key,
            visits,
            counts,
            trails is not None,
        )
        steps += taken
        if trails is not None:
            trails.append(trail)
    return steps
