"""The question: a chain that halts with probability p_halt and starts from the personalisation vector."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from graphrf import _checks
from graphrf.graph import Graph, require_graph


@dataclass(frozen=True)
class Problem:
    r"""PageRank of `graph`: the distribution rho that solves

    .. math:: \rho = p v + (1 - p) (P^T \rho + \delta v), \qquad \delta = \sum_{i\ \text{dangling}} \rho_i,

    with p = `p_halt`, v = `start` and P the walk's transitions, whose rows are zero at dangling nodes. It is
    x / sum(x) for the measure x = p v + (1 - p) P^T x of walks that are lost when they would leave a dangling
    node: the jumps to v merely start such walks again.
    """

    graph: Graph
    p_halt: float
    start: np.ndarray
    personalized: bool

    @cached_property
    def dangling(self) -> np.ndarray:
        """Positions of the nodes without an edge to follow."""
        return np.flatnonzero(np.diff(self.graph.adjacency.indptr) == 0)

    @cached_property
    def sources(self) -> np.ndarray:
        """Positions of the nodes where walks may start, int64."""
        return np.flatnonzero(self.start)

    @cached_property
    def evenly_started(self) -> bool:
        """Whether all sources have the same share of the walks."""
        share = self.start[self.sources]
        return bool((share == share[0]).all())


def pose(graph: Graph, p_halt: float, personalization: Any) -> Problem:
    """The checked question."""
    require_graph(graph)
    p_halt = _checks.number("p_halt", p_halt, low=0, high=1, include_low=False, include_high=False)
    if personalization is None:
        start = np.full(graph.n_nodes, 1.0 / graph.n_nodes)
    else:
        start = _distribution(graph, personalization)
    return Problem(graph, p_halt, start, personalization is not None)


def _distribution(graph: Graph, personalization: Any) -> np.ndarray:
    """The personalisation as a probability vector, shape (N,)."""
    name = "personalization"
    if isinstance(personalization, Mapping):
        values = np.zeros(graph.n_nodes)
        given = [_checks.number(f"{name}[{key!r}]", value) for key, value in personalization.items()]
        positions = _positions(graph, list(personalization), name)
        if np.unique(positions).size != positions.size:
            raise ValueError(f"`{name}` must name every node once")
        values[positions] = given
    else:
        values = np.asarray(personalization)
        if values.dtype.kind not in "biuf":
            raise TypeError(
                f"`{name}` must be a mapping of nodes to values or an array of shape ({graph.n_nodes},), "
                f"got {_checks.describe(personalization)}"
            )
        values = values.astype(np.float64)
        if values.shape != (graph.n_nodes,):
            raise ValueError(f"`{name}` must have shape ({graph.n_nodes},), got {values.shape}")
        _checks.finite(name, values)
    if (values < 0).any():
        worst = int(values.argmin())
        raise ValueError(f"`{name}` must not be negative, got {values[worst]:g} at position {worst}")
    largest = float(values.max())
    if largest == 0:
        raise ValueError(f"`{name}` must have a positive value, got zeros only")
    values = values / largest  # the sum of huge values would overflow
    return np.asarray(values / values.sum())


def _positions(graph: Graph, keys: list[Any], argument: str) -> np.ndarray:
    """Keys are names; integers are positions where no name of the graph is an integer."""
    integers = all(isinstance(key, numbers.Integral) and not isinstance(key, bool) for key in keys)
    if graph.has_names and not (integers and not any(isinstance(node, int) for node in graph.nodes)):
        try:
            return np.asarray(graph.index(keys), dtype=np.int64)
        except ValueError as error:
            raise ValueError(str(error).replace("`names`", f"keys of `{argument}`")) from None
    return graph.positions(keys, argument=f"keys of {argument}")
