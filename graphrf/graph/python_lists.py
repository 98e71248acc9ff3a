"""Graphs as plain Python writes them: dictionaries of neighbours, and lists of pairs."""

from __future__ import annotations

import numbers
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from graphrf._base import checks
from graphrf._base.files.untrusted import listed, short
from graphrf.graph.edges import positions_of_names, refuse_values
from graphrf.graph.files.edge_tables import ends_among
from graphrf.graph.files.text_files import EdgeList
from graphrf.graph.labels import are_integers, is_missing, is_rounded

# The name by which numbers beside neighbours are asked for.
_WEIGHT = "weight"


def is_plain(source: Any) -> bool:
    """True for dictionaries and for lists of pairs: lists, tuples, sets, iterators, edge views."""
    return isinstance(source, list | tuple | set | frozenset | Mapping | Iterator) or _is_view(
        source
    )


def plain_edges(
    source: Any, columns: tuple[str | int, str | int] | None, weight: str | int | bool | None
) -> EdgeList:
    """The edges of a dictionary of neighbours or list of pairs; `weight` as in `load_graph`."""
    if _is_view(source) or not isinstance(source, Mapping):
        return edges_of_rows(source, columns, weight)
    if columns is not None:
        raise checks.value_error(
            "columns", "belong to lists of pairs and tables, got a dictionary of neighbours"
        )
    return edges_of_neighbours(source, None if weight is False else weight)


def _is_view(source: Any) -> bool:
    """True for the edges of a networkx graph, `G.edges`, with or without their attributes."""
    kind = type(source).__name__
    return "Edge" in kind and kind.endswith("View") and isinstance(source, Collection)


def edges_of_neighbours(source: Mapping[Hashable, Any], weight: str | int | None) -> EdgeList:
    """The edges of a dictionary from nodes to neighbours; its keys are the first nodes."""
    if not source:
        raise checks.value_error("source", "must have at least one node, got an empty dictionary")
    ends: list[Any] = []
    held: list[Any] = []
    for node, neighbours in source.items():
        named = _named_neighbours(source, node, neighbours)
        for other, value in named:
            ends += [node, other]
            held.append(value)
    titles = ends_among([str(key) for key in source])
    if titles and not any(end in source for end in ends[1::2]):
        raise checks.value_error(
            "source",
            f"must map each node to its neighbours, got columns of edges, {listed(titles)}: pass "
            "pandas.DataFrame(source)",
        )
    positions, nodes = _positions([*source, *ends], "the neighbours of")
    return _with_values(ends, positions[len(source) :], nodes, held, weight)


def edges_of_rows(
    source: Iterable[Any], columns: tuple[Any, Any] | None, weight: str | int | bool | None
) -> EdgeList:
    """The edges of a list of pairs, or of longer tuples with weights or attributes."""
    if isinstance(source, set | frozenset):
        raise checks.type_error(
            "source", f"must be in an order, got a {type(source).__name__}: pass sorted(source)"
        )

    rows = [_row(place, row) for place, row in enumerate(source)]
    if not rows:
        raise checks.value_error("source", "must have at least one edge, got none")
    width = _checked_width(rows)
    _refuse_matrix(source, rows, width)

    attributes = all(isinstance(row[-1], Mapping) for row in rows)
    if width - attributes > 2 and columns is None and weight is None:
        raise checks.value_error(
            "source",
            "must be a list of pairs, unless the meaning of the others is given, got entries such "
            f"as {short(tuple(rows[0]))}: pass weight=2 if the third are weights, weight=False to "
            "leave them out, or columns=(0, 2) if these are the ends",
        )

    ends = _ends_of_rows(rows, width, columns)
    positions, nodes = _ascending(*_positions(ends, "the ends of"))
    held: list[Any] = [row[-1] if attributes else None for row in rows]
    if isinstance(weight, int) and weight is not False:
        _check_place("weight", weight, width)
        held, weight = [row[weight] for row in rows], _WEIGHT
    return _with_values(ends, positions, nodes, held, None if weight is False else weight)


def _ends_of_rows(
    rows: list[Sequence[Any]], width: int, columns: tuple[Any, Any] | None
) -> list[Any]:
    """The two ends of each row, one after the other."""
    places = (0, 1) if columns is None else columns
    for column in places:
        _check_place("columns", column, width)
    ends = [row[column] for row in rows for column in places]
    if columns is None:
        refuse_values((ends[0::2], ends[1::2]), ("the first entries", "the second"))
    return ends


def _checked_width(rows: list[Sequence[Any]]) -> int:
    """The number of entries that all rows have, at least two."""
    width = len(rows[0])
    other = next((place for place, row in enumerate(rows) if len(row) != width), None)
    if other is None and width >= 2:
        return width
    second = "" if other is None else f" and {short(tuple(rows[other]))} (entry {other})"
    way_out = (
        "" if other is None else "; dict(enumerate(source)) if each lists the neighbours of a node"
    )
    raise checks.value_error(
        "source",
        f"must be a list of pairs, got entries such as {short(tuple(rows[0]))}{second}{way_out}",
    )


def _ascending(positions: np.ndarray, nodes: list[Hashable]) -> tuple[np.ndarray, list[Hashable]]:
    """The nodes in ascending order if all are integers, as those of files and data frames."""
    if not all(are_integers(type(node)) for node in nodes):
        return positions, nodes
    order = np.argsort(np.array(nodes, dtype=object), kind="stable")
    return np.argsort(order)[positions], [nodes[place] for place in order.tolist()]


def _check_place(argument: str, place: Any, width: int) -> None:
    if not isinstance(place, int) or not 0 <= place < width:
        raise checks.value_error(
            argument, f"must be in [0, {width - 1}] for this list, got {place!r}"
        )


def _named_neighbours(
    source: Mapping[Hashable, Any], node: Hashable, neighbours: Any
) -> list[tuple[Any, Any]]:
    """The neighbours of a node, each with its number or its attributes, or with None."""
    if isinstance(neighbours, Mapping):
        return list(neighbours.items())
    one = isinstance(neighbours, str | bytes) or not isinstance(neighbours, Iterable)
    if one or (isinstance(neighbours, tuple) and neighbours in source):
        raise checks.type_error(
            "source",
            f"must map each node to a list of its neighbours, or to a dictionary of them, got "
            f"{checks.describe(neighbours)} for {short(node)}",
        )
    held = neighbours.tolist() if isinstance(neighbours, np.ndarray) else list(neighbours)
    if isinstance(neighbours, set | frozenset):
        held.sort(key=repr)  # the order of a set is another in each process
    if any(isinstance(other, Mapping) for other in held):
        raise checks.type_error(
            "source",
            f"must map each node to its neighbours, got dictionaries for {short(node)}; "
            "networkx.node_link_graph reads those of JSON",
        )
    return [(other, None) for other in held]


def _row(place: int, row: Any) -> Sequence[Any]:
    if isinstance(row, np.ndarray) and row.ndim == 1:
        return list(row.tolist())
    if isinstance(row, tuple | list):
        return row
    way_out = ": pass pandas.DataFrame(source)" if isinstance(row, Mapping) else ""
    raise checks.type_error(
        "source",
        f"must be a list of pairs of nodes, got {checks.describe(row)} as entry {place}{way_out}",
    )


def _refuse_matrix(source: Any, rows: list[Sequence[Any]], width: int) -> None:
    """ValueError for nested lists that may be a matrix, ends of edges, or neighbours of nodes."""
    if any(isinstance(row, tuple) for row in rows) and not isinstance(source, tuple):
        return
    if isinstance(source, tuple) and len(rows) == 2 and not isinstance(rows[0], tuple):
        raise checks.value_error(
            "source", "must be a list of pairs; graphrf.from_edges(*source) takes lists of ends"
        )

    cells = [cell for row in rows for cell in row]
    if not all(isinstance(cell, numbers.Real) for cell in cells):
        return
    if len(rows) == width:
        raise checks.value_error(
            "source",
            "may be a matrix or a list of pairs: pass numpy.array(source), or pairs that are "
            "tuples",
        )

    if _are_mutual(rows):
        raise checks.value_error(
            "source",
            "may list pairs or the neighbours of each node: pass pairs as tuples, or "
            "dict(enumerate(source))",
        )


def _are_mutual(rows: list[Sequence[Any]]) -> bool:
    """True if each row may list the neighbours of the node of its number."""
    neighbours = [set(row) for row in rows]
    return all(
        other in range(len(rows)) and other != node and node in neighbours[int(other)]
        for node, row in enumerate(rows)
        for other in row
    )


def _positions(names: list[Any], what: str) -> tuple[np.ndarray, list[Hashable]]:
    """Position of each name among the distinct ones, and these; none missing or alike."""
    plain = [
        name.item() if isinstance(name, np.generic) and name.dtype.kind in "biufU" else name
        for name in names
    ]
    _check_names(plain, what)
    try:
        positions, nodes = positions_of_names(plain)
    except TypeError as error:
        raise checks.type_error("source", f"must have hashable names of nodes: {error}") from None
    texts = {node for node in nodes if isinstance(node, str)}
    alike = next((node for node in nodes if are_integers(type(node)) and str(node) in texts), None)
    if texts and alike is not None:
        raise checks.value_error(
            "source",
            f"must not have names that look the same, got {alike!r} and {str(alike)!r}: make all "
            "of them text",
        )
    return positions, nodes


def _check_names(names: list[Any], what: str) -> None:
    """ValueError for names that are missing, and for floats that may be rounded."""
    missing = next((place for place, name in enumerate(names) if is_missing(name)), None)
    if missing is not None:
        raise checks.value_error(
            "source", f"must name all nodes, got {names[missing]!r} among {what} edges"
        )
    rounded = next((name for name in names if is_rounded(name)), None)
    if rounded is not None:
        raise checks.value_error(
            "source",
            f"must name nodes exactly, got the float {rounded:.0f} among {what} edges, which may "
            "be rounded: rows of an array with weights are floats; pass identifiers as integers or "
            "text, e.g. in a data frame",
        )


def _with_values(
    ends: list[Any],
    positions: np.ndarray,
    nodes: list[Hashable],
    held: list[Any],
    weight: str | int | None,
) -> EdgeList:
    """Edges with the weights that were asked for among their numbers or attributes."""
    pairs = list(zip(ends[0::2], ends[1::2], strict=True))
    named = [value for value in held if isinstance(value, Mapping)]
    attributes = bool(named)
    if any(isinstance(value, Mapping) for row in named for value in row.values()):
        raise checks.type_error(
            "source",
            "must have one edge between two nodes, got the dictionaries of a multigraph; pass the "
            "graph",
        )

    if attributes:
        columns = _columns(held)
    else:
        columns = {_WEIGHT: held} if any(value is not None for value in held) else {}
    lines = np.empty(len(pairs), dtype=object)
    if weight is None:
        return EdgeList(positions[0::2], positions[1::2], None, nodes, lines, None, columns)

    if weight not in columns:
        have = listed(columns) or "there is none"
        raise checks.value_error(
            "weight", f"must be an attribute of the edges ({have}), got {weight!r}"
        )

    _check_numbers(columns[str(weight)], pairs)
    lines[:] = list(map(short, pairs))
    values = np.array(columns[str(weight)], dtype=np.float64)
    title = str(weight) if attributes else None
    return EdgeList(positions[0::2], positions[1::2], values, nodes, lines, title, {})


def _check_numbers(values: list[Any], pairs: list[Any]) -> None:
    for place, value in enumerate(values):
        if isinstance(value, bool) or not isinstance(value, numbers.Real | np.number):
            raise checks.value_error(
                "weight",
                f"must be a number for every edge, got {checks.describe(value)} for "
                f"{short(pairs[place])}",
            )


def _columns(held: list[Any]) -> dict[str, list[Any]]:
    """Attributes of all edges by name, None where an edge has none."""
    rows = [value if isinstance(value, Mapping) else {} for value in held]
    names = dict.fromkeys(name for row in rows for name in row)
    return {str(name): [row.get(name) for row in rows] for name in names}
