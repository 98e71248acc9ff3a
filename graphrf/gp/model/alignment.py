"""Values for the rows of a call, aligned by labels: the index of a Series or data frame, keys of a dictionary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from graphrf._base import checks
from graphrf.graph.graph import Graph, given_nodes

_SHOWN = 2  # labels of each side in a message


@dataclass(frozen=True)
class Rows:
    """The rows of a call, one for each observation or query, and the labels that they have.

    Attributes
    ----------
    n : int
    labels : sequence or None
        The index of the table that the rows come from.
    numbered : bool
        Whether these only number the rows (a RangeIndex of pandas), and so are labels of nothing.
    keys : callable, returning a list of sequences
        Other labels of the rows: the names of their nodes, and nodes as they were given.
    """

    n: int
    labels: Sequence[Hashable] | None
    numbered: bool
    keys: Callable[[], list[Sequence[Hashable]]]

    def taken(self, name: str, values: Any, *, all_of_them: bool = False) -> Any:
        """The argument `name`, with an entry for each row in their order; what has no labels stays as it is.

        Values are found by the index of the rows, by the names of nodes, or by nodes as they were given. Labels
        that only number the values may also mean their order. Where two of these differ, or none serves, it is
        a ValueError; so it is with `all_of_them`, if there are values for other rows.
        """
        values = checks.plain(name, as_pandas(values))
        labels, numbered = labels_of(values)
        if labels is None:
            return values
        if self.labels is not None and same_labels(labels, self.labels):
            return reordered(values, None)
        found = self._readings(labels, numbered)
        if not found:
            raise checks.value_error(name, self._mismatch(labels))
        if any((other != found[0]).any() for other in found[1:]):
            raise checks.value_error(
                name,
                f"has labels, {shown(labels)}, that can be names of nodes or numbers of rows, in other orders: "
                f"pass {name}.to_numpy() to have its own order, or name its rows by nodes",
            )
        if all_of_them and np.unique(found[0]).size < len(labels):
            others = [label for place, label in enumerate(labels) if place not in set(found[0].tolist())]
            raise checks.value_error(
                name, f"must have values for the given nodes only, got some for {shown(others)} as well"
            )
        return reordered(values, found[0])

    def numbered_as(self, values: Any) -> Rows:
        """The rows with the numbers of a further argument in their order, if they have no labels so far."""
        labels, numbered = labels_of(values)
        if self.labels is None and numbered and labels is not None and len(labels) == self.n:
            return replace(self, labels=labels, numbered=True)
        return self

    def _readings(self, labels: Sequence[Hashable], numbered: bool) -> list[np.ndarray]:
        """The places of all rows among labels, in every way that serves."""
        table = {label: place for place, label in enumerate(labels)}
        unlabelled = self.labels is None or self.numbered
        found = [np.arange(self.n)] if numbered and unlabelled and len(labels) == self.n else []
        if len(table) < len(labels):  # repeated labels name no row
            return found
        ways = [] if self.labels is None or self.numbered else [self.labels]
        for keys in [*ways, *self.keys()]:
            try:
                order = [table.get(key, -1) for key in keys]
            except TypeError:  # unhashable: not a label
                continue
            if -1 not in order:
                found.append(np.array(order, dtype=np.int64))
        return found

    def _mismatch(self, labels: Sequence[Hashable]) -> str:
        """The account of labels by which no rows are found."""
        ways = self.keys()
        own = self.labels if self.labels is not None and (not self.numbered or not ways) else ways[0]
        if len(set(labels)) < len(labels):
            counted = Counter(labels)
            return (
                f"has repeated labels, such as {shown([label for label in counted if counted[label] > 1])}, "
                "so values cannot be found by them: give it the index of the observations, or pass its to_numpy() "
                "to have its own order"
            )
        known = set(labels)
        lacking = [key for key in own if key not in known]
        return (
            f"has the labels {shown(labels)}, and the rows have {shown(own)}: there is no value for "
            f"{shown(lacking or own)}. Give it the labels of the observations or of their nodes, or pass its "
            "to_numpy() to have its own order"
        )


def rows_of(graph: Graph, nodes: Any, positions: np.ndarray) -> Rows:
    """The rows of nodes that a user gave, with their positions; None stands for all nodes."""
    labels, numbered = (None, False) if nodes is None or isinstance(nodes, Mapping) else labels_of(nodes)

    def keys() -> list[Sequence[Hashable]]:
        names: Sequence[Hashable] = [graph.nodes[position] for position in np.asarray(positions).tolist()]
        given = nodes.tolist() if hasattr(nodes, "tolist") else nodes
        return [names, given] if isinstance(given, list | tuple) and len(given) == len(names) else [names]

    return Rows(positions.size, labels, numbered, keys)


def observed_rows(graph: Graph, nodes: Any, y: Any, argument: str = "y") -> tuple[np.ndarray, Any, Rows]:
    """Positions of the observed nodes, what was observed there, and the rows by which other arguments are aligned.

    Without `y`, what `nodes` holds with its nodes: the keys of a dictionary, and the index of a Series or data
    frame, are names.
    """
    nodes = as_pandas(nodes)
    if y is not None:
        positions = given_nodes(graph, nodes)
        rows = rows_of(graph, nodes, positions)
        values = rows.taken(argument, y, all_of_them=True)
        return positions, values, rows.numbered_as(y)
    labels, _ = labels_of(nodes)
    if labels is None:
        raise checks.type_error(
            argument,
            f"must be given, unless `nodes` is a dictionary or a Series of pandas, got {checks.describe(nodes)}",
        )
    named: np.ndarray = graph.index(labels)
    values = nodes.to_numpy() if hasattr(nodes, "to_numpy") else reordered(nodes, None)
    return named, values, Rows(named.size, labels, False, lambda: [labels])


def for_all_nodes(graph: Graph, name: str, values: Any) -> Any:
    """An argument with a value or row for every node of the graph, in the order of its nodes."""
    if isinstance(values, str):
        return values
    return rows_of(graph, None, np.arange(graph.n_nodes)).taken(name, values)


def labels_of(values: Any) -> tuple[Sequence[Hashable] | None, bool]:
    """The labels of values, None for values without any, and whether they only number them."""
    if isinstance(values, Mapping):
        return list(values), False
    index = getattr(values, "index", None)
    if index is None or callable(index):
        return None, False
    return index, type(index).__name__ == "RangeIndex"


def same_labels(a: Sequence[Hashable], b: Sequence[Hashable]) -> bool:
    """True if two sequences of labels are equal."""
    return len(a) == len(b) and (a is b or list(a) == list(b))


def as_pandas(values: Any) -> Any:
    """An array of xarray with one or two named axes as a Series or data frame; anything else as it is."""
    return values.to_pandas() if hasattr(values, "dims") and hasattr(values, "to_pandas") else values


def reordered(values: Any, order: np.ndarray | None) -> Any:
    """Values in the given order, or as they are; those of a dictionary as a list."""
    if isinstance(values, Mapping):
        listed = list(values.values())
        return listed if order is None else [listed[place] for place in order.tolist()]
    return values if order is None else values.iloc[order]


def shown(labels: Sequence[Hashable]) -> str:
    """The first labels, for messages."""
    first = [repr(_plain(label)) for label in list(labels[:_SHOWN])]
    return ", ".join(first) + (", ..." if len(labels) > _SHOWN else "")


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label
