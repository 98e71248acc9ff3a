"""Batches of walks: their counts and measures, on threads or a device."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from graphrf._base.cached import cached_property
from graphrf._base.progress import progress_bar
from graphrf._base.threads import ordered_map
from graphrf.pagerank.power import walked
from graphrf.pagerank.problem import RankingProblem
from graphrf.pagerank.result import expected_l1_error
from graphrf.pagerank.walks import batches
from graphrf.pagerank.walks.pooled import count_pool
from graphrf.pagerank.walks.visits import control_vector, visit_measure
from graphrf.pagerank.walks.walker_loops import count_walks
from graphrf.sampling.walks.lengths import LengthLaw
from graphrf.sampling.walks.transitions import Transitions, graph_transitions

if TYPE_CHECKING:
    from graphrf.sampling.walks.transitions_torch import DeviceTransitions

# Walks in one task: enough to outweigh its array of counts, few enough to feed all threads.
_TASK_WALKS = 100_000


@dataclass(frozen=True)
class Walks:
    """Walks of a problem, and the measures of their counts, after some exact steps.

    `law` None stands for pooled walkers, `vector` is the number of the personalisation vector among
    several, and `on` holds the graph's transitions on a device if torch runs the pools, one after
    the other.
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
        r"""The part of x from exact steps, (N,); the problem of walks after them, mass |y_n|.

        .. math:: x = p \sum_{k < n} y_k + |y_n| \, x', \qquad y_k = ((1 - p) P^T)^k v,

        where x' is the measure of walks that start from y_n / |y_n| (`RankingProblem`). The problem
        is None if all walks were lost at dangling nodes.
        """
        measure = np.zeros(self.problem.graph.n_nodes)
        if self.exact_steps == 0:
            return measure, self.problem, 1.0
        standing = self.problem.start
        for following in walked(self.problem, self.exact_steps, self.n_threads):
            measure += self.problem.p_halt * standing
            standing = following
        mass = float(standing.sum())
        if mass == 0.0:
            return measure, None, 0.0
        return measure, replace(self.problem, start=standing / mass), mass

    @property
    def n_sources(self) -> int:
        """Nodes that walks start from, after the exact steps."""
        _, problem, _ = self._exact_part
        return 0 if problem is None else problem.sources.size

    @property
    def known(self) -> np.ndarray:
        """The part of x that does not depend on the walks, shape (N,)."""
        exact, problem, mass = self._exact_part
        if problem is None or self.estimator != "visits":
            return exact
        return np.asarray(exact + mass * problem.p_halt * problem.start)

    def l1_error(self, scores: np.ndarray, stderr: np.ndarray, n_batches: int, steps: int) -> float:
        """The expected L1 error of scores with standard errors, of walks of `steps` steps.

        Without any step, the error comes from one exact step and twice the mass of further ones.
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
        """The measures of independent batches: arrays (N,), weights, steps taken.

        `groups` groups of coupled walks start from every source, on average. A measure has the mean
        weight * x for the measure x of `RankingProblem`, and the weights sum to 1. `counted`
        batches are not run again.
        """
        exact, problem, mass = self._exact_part
        if problem is None:
            for part in batches.split(groups, n_batches):
                yield part / groups * exact, part / groups, 0
            return
        total = groups * self.group * problem.sources.size
        control = control_vector(problem)
        if counted is None:
            counted = self.counts(groups, n_batches, first_batch=first_batch, progress=progress)
        for counts, started, steps in counted:
            weight = started / total
            if self.estimator == "visits":
                measure = visit_measure(counts, total, weight, problem, control)
            else:
                measure = counts / total
            yield mass * measure + weight * exact, weight, steps

    def counts(
        self,
        groups: int,
        n_batches: int,
        *,
        first_batch: int = 0,
        progress: bool = False,
        only: np.ndarray | None = None,
        trails: list[np.ndarray] | None = None,
    ) -> Iterator[Counted]:
        """The counts of the batches of `measures`, with random bits from `first_batch` on.

        `only` is a mask of the sources whose walks are counted. If `trails` is given, arrays
        uint32, shape (2, n), are appended to it: every node that a step led to, and the source of
        its walk.
        """
        _, problem, _ = self._exact_part
        assert problem is not None
        n_nodes = problem.graph.n_nodes
        walk_arrays = graph_transitions(problem.graph)
        chosen = slice(None) if only is None else only
        # A pool is one task, whose rounds are shared by the threads that have no pool; walks are
        # divided so that every thread gets a few tasks, of one batch or of several.
        pool_threads = max(1, self.n_threads // n_batches)
        blocks = 1 if self.law is None else -(-4 * self.n_threads // n_batches)
        tasks: list[_Task] = []
        for batch, part in enumerate(batches.split(groups, n_batches)):
            key, offset = batches.batch_key(np.uint64(self.seed), first_batch + batch, self.vector)
            walks = batches.starts(problem, part, self.group, offset)
            tasks += _blocks(batch, np.uint64(key), problem.sources[chosen], walks[chosen], blocks)

        def run(task: _Task) -> tuple[np.ndarray, int]:
            counts = np.zeros(n_nodes, dtype=np.int64)
            if self.law is None:
                return counts, _run_pool(
                    task, walk_arrays, problem.p_halt, counts, pool_threads, self.on
                )
            return counts, _run_walks(
                task, walk_arrays, self.law, self.estimator == "visits", counts, trails
            )

        total = sum(int(task.walks.sum()) for task in tasks)
        with progress_bar("PageRank", progress, total=total, unit="walks") as bar:
            results = zip(
                tasks,
                ordered_map(run, tasks, self.n_threads if self.on is None else 1),
                strict=True,
            )
            for _, parts in itertools.groupby(results, key=lambda pair: pair[0].batch):
                counts = np.zeros(n_nodes, dtype=np.int64)
                started = steps = 0
                for task, (task_counts, task_steps) in parts:
                    counts += task_counts
                    started += int(task.walks.sum())
                    steps += task_steps
                    bar.update(int(task.walks.sum()))
                yield Counted(counts, started, steps)


class Counted(NamedTuple):
    """A batch of walks: visits, or ends, at every node, int64, (N,); walks, and steps."""

    counts: np.ndarray
    started: int
    steps: int


@dataclass(frozen=True)
class _Task:
    """Some of the walks of a batch: `walks[i]` from `sources[i]`."""

    batch: int
    key: np.uint64
    sources: np.ndarray
    walks: np.ndarray


def _blocks(
    batch: int, key: np.uint64, sources: np.ndarray, walks: np.ndarray, most: int
) -> Iterator[_Task]:
    """One batch as at most `most` tasks of consecutive sources; counts do not depend on it."""
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
    # Sources with equal numbers of walks go together, since a rule may depend on this number.
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
