"""Counts of walks, and the sources whose walks met each node, kept for edits of the graph."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from graphrf._base.compiled import njit
from graphrf.graph.graph import Graph
from graphrf.pagerank.walks.runs import Counted, Walks
from graphrf.sampling.updated import changed_rows, require_same_nodes
from graphrf.sampling.walks.transitions import graph_transitions


@dataclass(frozen=True, eq=False)
class Visitors:
    """Sources whose walks met each node, or did before an edit; others only cost time.

    The sources of node v are `sources[pointer[v] : pointer[v + 1]]`, and those of `later[1]` where
    `later[0]` is v; uint32.
    """

    pointer: np.ndarray
    sources: np.ndarray
    later: np.ndarray

    @classmethod
    def of(cls, trails: list[np.ndarray], n_nodes: int) -> Visitors:
        """Visitors from trails of walks (`Walks.counts`)."""
        pointer = np.zeros(n_nodes + 1, np.int64)
        for trail in trails:
            pointer[1:] += np.bincount(trail[0], minlength=n_nodes)
        np.cumsum(pointer, out=pointer)
        sources, free = np.empty(int(pointer[-1]), np.uint32), pointer[:-1].copy()
        for trail in trails:
            _deal(trail, free, sources)
        return cls(pointer, sources, np.zeros((2, 0), np.uint32))

    def met(self, changed: np.ndarray) -> np.ndarray:
        """Marks changed nodes, and nodes whose walks met one, bool, shape (N,)."""
        found = changed.astype(bool)
        for node in np.flatnonzero(changed).tolist():
            found[self.sources[self.pointer[node] : self.pointer[node + 1]]] = True
        found[self.later[1, changed[self.later[0]] > 0]] = True
        return found

    def with_trails(self, trails: list[np.ndarray]) -> Visitors:
        """The visitors together with those of further walks."""
        later = np.concatenate([self.later, *trails], axis=1)
        if later.shape[1] <= self.sources.size:
            return replace(self, later=later)
        n_nodes = self.pointer.size - 1
        nodes = np.repeat(np.arange(n_nodes, dtype=np.uint32), np.diff(self.pointer))
        return Visitors.of([np.stack([nodes, self.sources]), later], n_nodes)


@njit(nogil=True, cache=True)
def _deal(trail, free, sources):  # type: ignore[no-untyped-def]
    """Write the sources of a trail to the next free places of their nodes."""
    for i in range(trail.shape[1]):
        node = trail[0, i]
        sources[free[node]] = trail[1, i]
        free[node] += 1


@dataclass(frozen=True, eq=False)
class KeptWalks:
    """The counts of all batches of walks for one vector, and their visitors."""

    walks: Walks
    groups: int
    batches: list[Counted]
    visitors: Visitors

    @classmethod
    def run(cls, walks: Walks, groups: int, n_batches: int, progress: bool) -> KeptWalks:
        """Run the walks."""
        trails: list[np.ndarray] = []
        counted = list(walks.counts(groups, n_batches, trails=trails, progress=progress))
        return cls(walks, groups, counted, Visitors.of(trails, walks.problem.graph.n_nodes))

    def updated(self, graph: Graph, n_threads: int) -> KeptWalks:
        """The walks on an edited graph."""
        problem = self.walks.problem
        require_same_nodes(problem.graph, graph)
        if graph.directed != problem.graph.directed:
            raise ValueError(
                "`graph` must be directed if, and only if, the one before the edit was"
            )
        after = replace(self.walks, problem=replace(problem, graph=graph), n_threads=n_threads)
        changed = changed_rows(graph_transitions(problem.graph), graph_transitions(graph))
        only = self.visitors.met(changed)[problem.sources]
        trails: list[np.ndarray] = []
        n = len(self.batches)
        batches = [
            Counted(
                kept.counts - old.counts + new.counts,
                kept.started,
                kept.steps - old.steps + new.steps,
            )
            for kept, old, new in zip(
                self.batches,
                replace(self.walks, n_threads=n_threads).counts(self.groups, n, only=only),
                after.counts(self.groups, n, only=only, trails=trails),
                strict=True,
            )
        ]
        return KeptWalks(after, self.groups, batches, self.visitors.with_trails(trails))
