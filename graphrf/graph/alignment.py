"""Values for the rows of a call, aligned by the labels of a Series, data frame or dictionary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

import numpy as np

from graphrf._base import checks
from graphrf.graph.graph import Graph, given_nodes
from graphrf.graph.labels import Lookup, is_rounded

_SHOWN = 2  # labels of each side in a message


@dataclass(frozen=True)
class Rows:
    """The rows of a call, one for each observation or query, and the labels that they have.

    `labels` are the index of the table that the rows come from, which only numbers them if they are
    `numbered` (a RangeIndex). `keys` makes other labels: the names of their nodes, and nodes as
    they were given. By `positions`, of their nodes, values in the order of all `n_nodes` nodes are
    found.
    """

    n: int
    labels: Sequence[Hashable] | None
    numbered: bool
    keys: Callable[[], list[Sequence[Hashable]]]
    positions: np.ndarray | None = None
    n_nodes: int = -1
    noun: str = "node"  # what the rows are of, in messages

    @property
    def labelled(self) -> bool:
        """True if the rows have labels that do more than number them."""
        return self.labels is not None and not self.numbered

    def taken(self, name: str, values: Any, *, all_of_them: bool = False) -> Any:
        """The argument `name`, an entry for each row in their order; unchanged without labels.

        Values are found by the index of the rows, by the names of nodes, by nodes as they were
        given, or, where labels only number them, in their order. ValueError if two of these differ,
        or none serves; with `all_of_them` also if there are values for other rows.
        """
        values = checks.to_array_like(name, as_pandas(values))
        labels, numbered = labels_of(values)
        if labels is None:
            return values
        if self.labels is not None and same_labels(labels, self.labels):
            return reordered(values, None)
        found = self._readings(labels, numbered)
        if not found:
            raise checks.value_error(name, self._mismatch(labels))
        if any((other != found[0]).any() for other in found[1:]):
            raise checks.value_error(name, two_orders(name, labels))
        if all_of_them and np.unique(found[0]).size < len(labels):
            known = set(found[0].tolist())
            others = [label for place, label in enumerate(labels) if place not in known]
            raise checks.value_error(
                name,
                f"must have values for the given {self.noun}s only, got some for {shown(others)} "
                "as well",
            )
        return reordered(values, found[0])

    def numbers(self, name: str, values: Any) -> Any:
        """The argument `name`, a number a row, as `taken` reads it, or a frame of one column."""
        values = self.taken(name, values)
        one = hasattr(values, "iloc") and hasattr(values, "columns") and values.shape[1] == 1
        return values.iloc[:, 0] if one else values

    def beside(self, values: Any) -> Rows:
        """The rows, with the labels of a further argument in their order if they have none so far.

        Numbers of rows are kept; in the place of other labels come the names of nodes.
        """
        labels, numbered = labels_of(as_pandas(values))
        if self.labels is not None or labels is None:
            return self
        if not numbered:
            return replace(self, labels=self.keys()[0])
        return replace(self, labels=labels, numbered=True) if len(labels) == self.n else self

    def _readings(self, labels: Sequence[Hashable], numbered: bool) -> list[np.ndarray]:
        """The places of all rows among labels, in every way that serves or could be meant."""
        in_order = [np.arange(self.n)] if numbered and len(labels) == self.n else []
        table = Lookup((label, k) for k, label in enumerate(labels) if not is_rounded(label))
        if len(table) < len(labels):  # repeated labels name no row
            return in_order
        own = [self.labels] if self.labels is not None and not self.numbered else []
        named = list(filter(_is_known, (_order(table, keys) for keys in [*own, *self.keys()])))
        if not named:
            return [] if self.labelled else in_order
        if numbered and len(labels) == self.n_nodes and self.positions is not None:
            in_order.append(self.positions)
        return [*named, *in_order]

    def _mismatch(self, labels: Sequence[Hashable]) -> str:
        """The account of labels by which no rows are found."""
        ways = self.keys()
        own = (
            self.labels if self.labels is not None and (not self.numbered or not ways) else ways[0]
        )
        if len(set(labels)) < len(labels):
            repeated = [label for label, times in Counter(labels).items() if times > 1]
            return (
                f"has repeated labels, such as {shown(repeated)}, so values cannot be found by "
                "them: keep one row of each, by drop_duplicates() where whole rows repeat, or give "
                "it the index of the observations if it has a row for each of these"
            )
        known = set(labels)
        lacking = [key for key in own if key not in known]
        return (
            f"has the labels {shown(labels)}, and the rows have {shown(own)}: there is no value "
            f"for {shown(lacking or own)}. Give it the labels of the observations or of their "
            f"{self.noun}s, or pass its to_numpy() to have its own order"
        )


def rows_of(graph: Graph, nodes: Any, positions: np.ndarray) -> Rows:
    """The rows of nodes that a user gave, with their positions; None stands for all nodes."""
    labels, numbered = (
        (None, False) if nodes is None or isinstance(nodes, Mapping) else labels_of(nodes)
    )

    def keys() -> list[Sequence[Hashable]]:
        names: Sequence[Hashable] = [
            graph.nodes[position] for position in np.asarray(positions).tolist()
        ]
        given = nodes.tolist() if hasattr(nodes, "tolist") else nodes
        if isinstance(given, list | tuple) and len(given) == len(names):
            return [names, given]
        return [names]

    return Rows(positions.size, labels, numbered, keys, positions, graph.n_nodes)


def observed_rows(
    graph: Graph, nodes: Any, y: Any, argument: str = "y"
) -> tuple[np.ndarray, Any, Rows]:
    """Positions of observed nodes, what was observed there, and the rows that align the others.

    Without `y`, `nodes` is a dictionary, Series or data frame, whose keys or index are names.
    """
    nodes = as_pandas(nodes)
    if y is not None:
        positions = given_nodes(graph, nodes)
        rows = rows_of(graph, nodes, positions)
        values = rows.taken(argument, y, all_of_them=True)
        return positions, values, rows.beside(y)
    labels, numbered = labels_of(nodes)
    if labels is None:
        raise checks.type_error(
            argument,
            "must be given, unless `nodes` is a dictionary or a Series of pandas, got "
            f"{checks.describe(nodes)}",
        )
    what = "keys" if isinstance(nodes, Mapping) else "index"
    named: np.ndarray = graph.index(labels, argument=f"{what} of {argument}")
    if numbered and named.size == graph.n_nodes and (named != np.arange(named.size)).any():
        raise checks.value_error(argument, two_orders(argument, labels))
    values = nodes.to_numpy() if hasattr(nodes, "to_numpy") else reordered(nodes, None)
    return named, values, Rows(named.size, labels, False, lambda: [labels], named, graph.n_nodes)


def for_all_nodes(
    graph: Graph, name: str, values: Any, *, labelled: bool = False, all_of_them: bool = False
) -> Any:
    """An argument with a value or row for every node of the graph, in the order of its nodes.

    If other arguments are `labelled`, labels that only number the rows must be names of nodes.
    """
    if isinstance(values, str):
        return values
    rows = rows_of(graph, None, np.arange(graph.n_nodes))
    if labelled:
        rows = replace(rows, labels=graph.nodes)
    return rows.taken(name, values, all_of_them=all_of_them)


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
    """An xarray of one or two named axes as a Series or data frame; all else as it is."""
    if hasattr(values, "dims") and hasattr(values, "to_pandas"):
        return values.to_pandas()
    return values


def reordered(values: Any, order: np.ndarray | None) -> Any:
    """Values in the given order, or as they are; those of a dictionary as a list."""
    if isinstance(values, Mapping):
        listed = list(values.values())
        return listed if order is None else [listed[place] for place in order.tolist()]
    return values if order is None else values.iloc[order]


def two_orders(name: str, labels: Sequence[Hashable]) -> str:
    """The account of numbers of rows that are names of nodes in another order."""
    return (
        f"has labels, {shown(labels)}, that can be names of nodes or numbers of rows, in other "
        f"orders: pass {name}.to_numpy() to have its own order, or name its rows by nodes, as with "
        f"{name}.set_axis([...])"
    )


def shown(labels: Sequence[Hashable]) -> str:
    """The first labels, for messages."""
    first = [repr(_plain(label)) for label in list(labels[:_SHOWN])]
    return ", ".join(first) + (", ..." if len(labels) > _SHOWN else "")


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label


def _is_known(order: np.ndarray | None) -> TypeGuard[np.ndarray]:
    return order is not None


def _order(table: Mapping[Hashable, int], keys: Sequence[Any]) -> np.ndarray | None:
    """The places of keys among labels; None where one is missing."""
    try:
        order = [table.get(key, -1) for key in keys]
    except TypeError:  # unhashable: not a label
        return None
    return None if -1 in order else np.array(order, dtype=np.int64)
