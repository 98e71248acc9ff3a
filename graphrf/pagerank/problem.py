"""The problem of PageRank: a chain that halts with p_halt, from a personalisation vector."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from graphrf._base import checks
from graphrf._base.cached import cached_property
from graphrf.graph.alignment import as_pandas, for_all_nodes, labels_of, shown
from graphrf.graph.graph import Graph, require_graph
from graphrf.graph.labels import is_integer

# With smaller values a round or a push would move so little that queries would take hours.
SMALLEST_HALT = 1e-6


def _instead_of_alpha(function: str, alpha: Any) -> str:
    """The error message for `alpha=`, the argument of networkx, with the corresponding `p_halt`."""
    given = f": pass p_halt={1 - alpha:.12g}" if isinstance(alpha, float) and 0 < alpha < 1 else ""
    return f"is not an argument of {function}; networkx's alpha is 1 - p_halt{given}"


without_alpha = checks.without("alpha", _instead_of_alpha)


@dataclass(frozen=True)
class RankingProblem:
    r"""PageRank of `graph`: the distribution rho that solves

    .. math:: \rho = p v + (1 - p) (P^T \rho + \delta v), \qquad \delta = \sum_{i\ \text{dangling}}
        \rho_i,

    with p = `p_halt`, v = `start` and P the walk's transitions, whose rows are zero at dangling
    nodes. It is x / sum(x) for the measure x = p v + (1 - p) P^T x of walks that are lost when they
    would leave a dangling node, since jumps to v restart such walks. With another distribution
    `jump` of jumps from dangling nodes, this does not hold, and only power iteration can be used.
    """

    graph: Graph
    p_halt: float
    start: np.ndarray
    personalized: bool
    jump: np.ndarray | None = None

    @cached_property
    def dangling(self) -> np.ndarray:
        """Positions of the nodes without outgoing edges."""
        return np.flatnonzero(np.diff(self.graph.adjacency.indptr) == 0)

    @cached_property
    def sources(self) -> np.ndarray:
        """Positions of the nodes where walks may start, int64."""
        return np.flatnonzero(self.start)

    @cached_property
    def evenly_started(self) -> bool:
        """True if all sources have the same fraction of the walks."""
        fractions = self.start[self.sources]
        return bool((fractions == fractions[0]).all())


def walks_halt(p_halt: float) -> float:
    """The valid `p_halt` of walks or pushes, whose cost is proportional to its inverse."""
    p_halt = checks.number("p_halt", p_halt, low=0, high=1, include_low=False, include_high=False)
    if p_halt < SMALLEST_HALT:
        raise checks.value_error(
            "p_halt",
            f"must be at least {SMALLEST_HALT:g}, got {p_halt:g}: walks would take "
            f"{1 / p_halt:.0e} steps on average; graphrf.pagerank(graph) takes any",
        )
    return p_halt


def make_problem(
    graph: Graph, p_halt: float, personalization: Any, dangling: Any = None
) -> RankingProblem:
    """The problem of one vector; `personalization` may be an element of `vectors_of`."""
    require_graph(graph)
    p_halt = checks.number("p_halt", p_halt, low=0, high=1, include_low=False, include_high=False)
    if personalization is None:
        start = np.full(graph.n_nodes, 1.0 / graph.n_nodes)
    else:
        start = distribution(graph, personalization, "personalization")
    jump = None if dangling is None else distribution(graph, dangling, "dangling")
    return RankingProblem(graph, p_halt, start, personalization is not None, jump)


def vectors_of(
    graph: Graph, personalization: Any, *, argument: str = "personalization"
) -> Sequence[Any] | None:
    """The valid vectors in `personalization`, for `make_problem`; None if it is a single vector.

    Several are a matrix of shape (n, N), dense or sparse, or a sequence of mappings or Series;
    errors name the row of `argument`. Sparse vectors stay sparse.
    """
    require_graph(graph)
    personalization = _by_labels(graph, personalization, argument)
    if personalization is None or isinstance(personalization, Mapping):
        return None
    if sp.issparse(personalization):
        return _sparse_rows(graph, personalization, argument)
    if not isinstance(personalization, np.ndarray) and isinstance(personalization, Sequence):
        personalization = _rows_by_labels(graph, personalization, argument)
        if personalization and isinstance(personalization[0], Mapping):
            named = ((f"{argument}[{i}]", row) for i, row in enumerate(personalization))
            return [_Entries(*_entries(graph, row, name), name) for name, row in named]
    values = _numeric(graph, personalization, argument)
    if values.ndim != 2:
        return None
    _check_rows(graph, values.shape, argument)
    for i, row in enumerate(values):
        _check_values(row, f"{argument}[{i}]")
    return list(values)


def _rows_by_labels(graph: Graph, rows: Sequence[Any], name: str) -> list[Any]:
    """Elements of a sequence, with Series as mappings; TypeError for mappings among numbers."""
    aligned = [
        _by_labels(graph, row, f"{name}[{i}]")
        if hasattr(row, "iloc") or hasattr(row, "dims")
        else row
        for i, row in enumerate(rows)
    ]
    mappings = sum(isinstance(row, Mapping) for row in aligned)
    if 0 < mappings < len(aligned):
        raise TypeError(
            f"a sequence of several `{name}` must hold mappings only, or numbers only, "
            f"got a {type(rows).__name__} of both"
        )
    return aligned


@dataclass(frozen=True)
class _Entries:
    """A valid vector with `values` at `positions` and zeros elsewhere."""

    positions: np.ndarray
    values: np.ndarray
    argument: str


def _sparse_rows(graph: Graph, matrix: Any, name: str) -> list[_Entries]:
    if matrix.dtype.kind not in "biuf" or matrix.ndim != 2:
        raise checks.type_error(
            name,
            f"must be a mapping, an array or a real sparse matrix of shape (n, {graph.n_nodes}), "
            f"got {checks.describe(matrix)}",
        )
    _check_rows(graph, matrix.shape, name)
    rows = sp.csr_array(matrix, dtype=np.float64)
    if not rows.has_canonical_format:
        rows = rows.copy()  # which may share the caller's arrays
        rows.sum_duplicates()
    result = []
    limits = zip(rows.indptr[:-1].tolist(), rows.indptr[1:].tolist(), strict=True)
    for i, (first, last) in enumerate(limits):
        positions = rows.indices[first:last].astype(np.int64)
        _check_values(rows.data[first:last], f"{name}[{i}]", positions)
        result.append(_Entries(positions, rows.data[first:last], f"{name}[{i}]"))
    return result


def _check_rows(graph: Graph, shape: tuple[int, ...], name: str) -> None:
    if shape[0] == 0 or shape[1] != graph.n_nodes:
        raise checks.value_error(
            name, f"of several vectors must have shape (n, {graph.n_nodes}) with n > 0, got {shape}"
        )


def distribution(graph: Graph, given: Any, name: str) -> np.ndarray:
    """A probability vector (N,) from one up to a factor: mapping, array or of `vectors_of`."""
    given = _by_labels(graph, given, name)
    if isinstance(given, Mapping):
        given = _Entries(*_entries(graph, given, name), name)
    if isinstance(given, _Entries):
        values = np.zeros(graph.n_nodes)
        values[given.positions] = given.values
    else:
        values = _numeric(graph, given, name).astype(np.float64)
        if values.shape != (graph.n_nodes,):
            raise checks.value_error(
                name, f"must have shape ({graph.n_nodes},), got {values.shape}"
            )
        _check_values(values, name)
    values /= values.max()  # the sum of huge values would overflow
    values /= values.sum()
    return values


def _by_labels(graph: Graph, given: Any, name: str) -> Any:
    """A pandas Series, or a data frame of one column, as a mapping; other values unchanged.

    An index that only numbers the values stands for all nodes in their order.
    """
    given = as_pandas(given)
    labels, numbered = labels_of(given)
    if labels is None or isinstance(given, Mapping):
        return given
    if hasattr(given, "columns"):
        if given.shape[1] != 1:
            raise checks.value_error(
                name,
                f"must be one vector or a sequence of them, got {checks.describe(given)}: pass a "
                "list of columns, [frame[title] for title in frame], or with a vector in each row "
                "frame.to_numpy()",
            )
        given = given.iloc[:, 0]
    if numbered:
        return for_all_nodes(graph, name, given, all_of_them=True).to_numpy()
    keys = list(labels)
    if len(set(keys)) < len(keys):
        repeated = [key for key, times in Counter(keys).items() if times > 1]
        raise checks.value_error(
            name,
            f"must name every node once, got {shown(repeated)} more than once; add their values up "
            "first",
        )
    if graph.has_names:
        _named(graph, keys, name)  # an index holds no positions
    values = given.to_numpy()
    return dict(
        zip(
            keys,
            (values.astype(float) if values.dtype.kind == "b" else values).tolist(),
            strict=True,
        )
    )


def _numeric(graph: Graph, given: Any, name: str) -> np.ndarray:
    """`given` as an array of numbers."""
    given = checks.to_array_like(name, given)
    try:
        values = np.asarray(given)
    except ValueError as error:  # ragged lists
        raise checks.value_error(name, f"must be rectangular: {error}") from None
    if values.dtype.kind not in "biuf":
        raise checks.type_error(
            name,
            f"must be a mapping of nodes to values or an array of shape ({graph.n_nodes},), "
            f"got {checks.describe(given)}",
        )
    return values


def _check_values(values: np.ndarray, name: str, positions: np.ndarray | None = None) -> None:
    """Raise unless a vector's entries, at `positions`, are finite, not negative, not all 0."""
    checks.finite(name, values)
    if (values < 0).any():
        worst = int(values.argmin())
        place = worst if positions is None else int(positions[worst])
        raise checks.value_error(
            name, f"must not be negative, got {values[worst]:g} at position {place}"
        )
    if not (values > 0).any():
        raise checks.value_error(name, "must have a positive value, got zeros only")


def _entries(graph: Graph, given: Mapping[Any, Any], name: str) -> tuple[np.ndarray, np.ndarray]:
    """Positions and values of a mapping of nodes to values."""
    values = np.array(
        [checks.number(f"{name}[{key!r}]", value) for key, value in given.items()], dtype=np.float64
    )
    positions = _positions(graph, list(given), name)
    if np.unique(positions).size != positions.size:
        raise checks.value_error(name, "must name every node once")
    _check_values(values, name, positions)
    return positions, values


def _positions(graph: Graph, keys: list[Any], argument: str) -> np.ndarray:
    """Positions of keys: names, or positions if no name of the graph is an integer."""
    integers = all(is_integer(key) for key in keys)
    if graph.has_names and not (integers and not graph.has_integer_names):
        return _named(graph, keys, argument)
    return graph.positions(keys, argument=f"keys of {argument}")


def _named(graph: Graph, keys: list[Any], argument: str) -> np.ndarray:
    """Positions of names."""
    try:
        return np.asarray(graph.index(keys), dtype=np.int64)
    except ValueError as error:
        raise ValueError(str(error).replace("`names`", f"keys of `{argument}`")) from None
