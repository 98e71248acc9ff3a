"""Nodes by name and by position: what every `nodes=` argument goes through."""

from __future__ import annotations

import numbers
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from graphrf._base import checks
from graphrf._base.cached import cached_property
from graphrf._base.files.untrusted import short
from graphrf.graph.labels import (
    EXACT,
    Lookup,
    are_integers,
    exact_below,
    is_integer,
    is_missing,
    is_rounded,
)
from graphrf.graph.notices import of_numbered_nodes

# Names like an unknown one are sought among at most so many, which takes up to half a second, and
# not if it is longer.
_MOST_COMPARED = 10_000
_LONGEST_COMPARED = 60
# Float node ids are exact only below 2**24 (float32's mantissa), so larger ones are refused.
_LARGEST_FLOAT_ID = 2**24
_KEEP_INTEGERS = "keep identifiers as integers (of dtype Int64 in pandas, where some are missing)"


class NodeNames:
    """The names of N nodes, by which their positions are found; None for the positions."""

    def __init__(self, names: tuple[Hashable, ...] | None, n_nodes: int) -> None:
        self._named = names is not None
        self._nodes: Sequence[Hashable] = range(n_nodes) if names is None else names
        self._n_nodes = n_nodes

    @cached_property
    def _kinds(self) -> set[type]:
        """The types of the names."""
        return set(map(type, self._nodes)) if self._named else set()

    @cached_property
    def has_integers(self) -> bool:
        """True if some name is an integer; on first access it checks every name."""
        return any(map(are_integers, self._kinds))

    @cached_property
    def _may_be_positions(self) -> bool:
        """True if some name is a number, or text that looks like an integer."""
        if any(issubclass(kind, numbers.Real) for kind in self._kinds):
            return True
        texts = (name for name in self._nodes if isinstance(name, str))
        return self._named and any(name.isdecimal() for name in texts)

    @cached_property
    def _has_tuples(self) -> bool:
        return any(issubclass(kind, tuple) for kind in self._kinds)

    @cached_property
    def _lowest(self) -> int:
        """The smallest name that is an integer, of graphs that have one."""
        return min(int(name) for name in self._nodes if is_integer(name))  # type: ignore[call-overload]

    @cached_property
    def _table(self) -> Lookup:
        return Lookup((name, position) for position, name in enumerate(self._nodes))

    def index(self, names: Any, argument: str) -> Any:
        """See `Graph.index`."""
        if isinstance(names, tuple) or self.is_one(names):
            name = names.item() if getattr(names, "ndim", None) == 0 else names
            return _Position(self._found([name], argument)[0])
        if isinstance(names, set | frozenset | dict | Iterator):
            names = list(names)  # whose order is that of the result
        content = _numbers_or_names(argument, names, tuples=True)
        return self.known(self._found_of(content, argument))

    def is_one(self, nodes: Any) -> bool:
        """True for one node rather than a list of nodes; a tuple is one if it is a name."""
        if isinstance(nodes, tuple | frozenset):
            return self._named and self._holds(nodes)
        return _is_one(nodes)

    def known(self, positions: np.ndarray) -> np.ndarray:
        """The same array, which `positions` takes as positions though it may hold names too."""
        return positions.view(_Positions) if self._may_be_positions else positions

    def positions(self, nodes: Any, argument: str, *, as_positions: bool) -> np.ndarray:
        """See `Graph.positions`; integers that may be names are refused, unless `as_positions`."""
        if nodes is None:
            return np.arange(self._n_nodes, dtype=np.int64)
        if self.is_one(nodes):
            if not isinstance(nodes, tuple | frozenset):
                nodes = [nodes]
            elif not (as_positions and self._are_positions(nodes)):
                self._refuse_lists(nodes, argument)
                return self._found([nodes], argument)
        content = _numbers_or_names(argument, nodes, tuples=self._has_tuples)
        if isinstance(content, list):
            return self._of_names(content, argument)
        if not as_positions and hasattr(nodes, "to_numpy"):
            self._refuse_numbered_column(content, argument)
        return self._of_numbers(content, argument, as_positions or _known(nodes))

    # -- names -----------------------------------------------------------------------------------

    def _holds(self, name: Any) -> bool:
        try:
            return name in self._table
        except TypeError:  # not hashable
            return False

    def _found_of(self, content: np.ndarray | list[Any], argument: str) -> np.ndarray:
        """Positions of names that an array or a list holds."""
        if isinstance(content, list):
            return self._found(content, argument)
        low = exact_below(content.dtype) if content.dtype.kind == "f" else EXACT
        return self._found(content.tolist(), argument, low)

    def _found(self, names: Sequence[Any], argument: str, exact: float = EXACT) -> np.ndarray:
        """Positions of `names`, (n,), int64; floats that may be rounded integers are refused."""
        table = self._table
        if self.has_integers:
            doubtful = (name for name in names if is_rounded(name, exact) and name in table)
            rounded = next(doubtful, None)
            if rounded is not None and is_integer(self._nodes[table[rounded]]):
                raise checks.type_error(
                    argument,
                    f"must be integers or other exact names of nodes, got the float {rounded:.0f}, "
                    f"which may be rounded: {_KEEP_INTEGERS}, or as text in the graph and here",
                )

        try:
            return np.fromiter((table[name] for name in names), dtype=np.int64, count=len(names))
        except KeyError:
            at, unknown = next((at, name) for at, name in enumerate(names) if name not in table)
        except TypeError as error:
            raise checks.type_error(argument, f"must be hashable names of nodes: {error}") from None

        place = f" at position {at}" if is_missing(unknown) else ""
        raise checks.value_error(
            argument,
            f"must be nodes of the graph, got {short(unknown)}{place}; "
            f"{self._hint(unknown, names)}",
        )

    def _of_names(self, names: list[Any], argument: str) -> np.ndarray:
        """Positions of nodes that are not all numbers."""
        if all(isinstance(name, tuple) for name in names) and not self._has_tuples:
            widths = {len(name) for name in names}
            shape = f"rows of {min(widths)} to {max(widths)}"
            if len(widths) == 1:
                shape = f"({len(names)}, {widths.pop()})"
            look = f"; {self._look}" if self._named else ""
            raise checks.value_error(
                argument,
                f"must have shape (n,) or (n, 1), got {shape}{_of_coordinates(names) or look}",
            )

        if not self._named:
            others = ((at, name) for at, name in enumerate(names) if not isinstance(name, str))
            other = next(others, None)
            if other is not None:
                raise checks.type_error(
                    argument,
                    "must be integer positions or names of nodes, got "
                    f"{checks.describe(other[1])} at position {other[0]}; this graph has no names",
                )
        return self._found(names, argument)

    @property
    def _look(self) -> str:
        return f"names here look like {', '.join(map(short, self._nodes[:3]))}"

    def _hint(self, unknown: Any, asked: Sequence[Any]) -> str:
        """Names like the unknown one, or the first names of the graph."""
        if are_integers(type(unknown)) and (question := self._question_of_first(unknown, asked)):
            return question
        if not self._named:
            return of_numbered_nodes(unknown, self._n_nodes)
        if isinstance(unknown, tuple):
            if len(unknown) and all(map(self._holds, unknown)):
                return "a tuple is one name: pass several names in a list"
            return f"{self._look}{_of_coordinates(asked)}"
        if other_kind := self._name_of_another_kind(unknown):
            return other_kind

        is_short = isinstance(unknown, str) and len(unknown) <= _LONGEST_COMPARED
        if is_short and self._n_nodes <= _MOST_COMPARED:
            words = [name for name in self._nodes if isinstance(name, str)]
            if like := checks.did_you_mean(unknown, words):
                return like
        alone = "; a node without an edge is in no list of edges: from_edges(..., nodes=names)"
        return self._look + alone * (2 * sum(map(self._holds, asked)) > len(asked))

    def _name_of_another_kind(self, unknown: Any) -> str:
        """A hint where text was asked for and integers are names, or vice versa; or nothing."""
        if isinstance(unknown, str) and unknown.isdecimal() and self._holds(int(unknown)):
            way_out = "not by text: make them integers"
            return f"its nodes are named by integers such as {int(unknown)}, and {way_out}"
        if not are_integers(type(unknown)):
            return ""
        texts = (name for name in self._nodes if isinstance(name, str) and name.isdecimal())
        text = next((name for name in texts if int(name) == unknown), None)
        way_out = "not by integers: make them text, or read the table with dtype=str"
        return f"its nodes are named by text such as {text!r}, and {way_out}" if text else ""

    def _question_of_first(self, unknown: int, asked: Sequence[Any]) -> str:
        """A question for nodes counted from 1 where those here are from 0, or vice versa."""
        if self._named and not all(map(are_integers, self._kinds)):
            return ""
        nodes: Any = self._nodes
        low, high = min(nodes), max(nodes)
        shift = {0: 1, 1: -1}.get(low)
        if shift is None or not all(low + shift <= node <= high + shift for node in asked):
            return ""
        what, way_out = ("positions", "subtract 1") if shift == 1 else ("names", "add 1")
        what = "names" if self._named else what
        question = f"{what} here run from {low} to {high}: are yours numbered from {low + shift}?"
        return f"{question} Then {way_out}"

    def _are_positions(self, nodes: Iterable[Any]) -> bool:
        """True for integers that can be positions."""
        return all(are_integers(type(node)) and 0 <= node < self._n_nodes for node in nodes)

    def _refuse_lists(self, nodes: Iterable[Any], argument: str) -> None:
        """ValueError for a tuple that is a name, and could be a list of nodes as well."""
        parts = list(nodes)
        may_be_list = self._are_positions(parts) or all(map(self._holds, parts))
        if isinstance(nodes, tuple) and may_be_list:
            raise checks.value_error(
                argument,
                f"must say what {short(nodes)} is, the name of a node or a list of {len(parts)} "
                f"nodes: pass [{short(nodes)}] for the one, {short(parts)} for the other",
            )

    # -- numbers ---------------------------------------------------------------------------------

    def _of_numbers(self, array: np.ndarray, argument: str, as_positions: bool) -> np.ndarray:
        """Positions of nodes that are numbers, shape (n,)."""
        if array.size == 0:
            return np.zeros(0, dtype=np.int64)
        if array.dtype.kind not in "iufO":
            raise checks.type_error(
                argument,
                f"must be integer positions or names of nodes, got {checks.describe(array)}; "
                "np.flatnonzero(mask) makes positions of a mask",
            )

        if array.dtype.kind == "f":
            with np.errstate(invalid="ignore", over="ignore"):
                good = (array == np.floor(array)) & (np.abs(array) < _LARGEST_FLOAT_ID)
            if not good.all():
                if not good.any() and self._named and all(map(self._holds, array.tolist())):
                    return self._found_of(array, argument)
                first = array[~good][0]
                is_large = first == np.floor(first)
                way_out = f"; larger ones may be rounded: {_KEEP_INTEGERS}" if is_large else ""
                raise checks.type_error(
                    argument,
                    f"must be integer positions or names of nodes, got the float {first} (integral "
                    f"floats are accepted below 2^24{way_out})",
                )
            array = array.astype(np.int64)

        bad = np.asarray((array < 0) | (array >= self._n_nodes), dtype=bool)
        if bad.any():
            return self._outside(array.tolist(), int(array[bad][0]), argument, as_positions)
        if not as_positions and self._may_be_positions:
            self._refuse_names(array, argument)
        return array.astype(np.int64)

    def _outside(
        self, asked: list[int], first: int, argument: str, as_positions: bool
    ) -> np.ndarray:
        """Positions of integers that are not all positions, of which `first` is none."""
        if self._named and not as_positions:
            unknown = next((node for node in asked if not self._holds(node)), None)
            if unknown is None:
                return self._found(asked, argument)
            came = f"got {first}"
            if first != unknown:
                came += f" beside {unknown}, which is no name"
            raise checks.value_error(
                argument,
                f"must be positions in [0, {self._n_nodes - 1}] or names of nodes, {came}; "
                f"{self._hint(unknown, asked)}",
            )

        way_out = "graph.index(...) turns names of nodes into positions" if self._named else ""
        question = "" if self._named else self._question_of_first(first, asked)
        way_out = f"; {way_out or question}" if way_out or question else ""
        raise checks.value_error(
            argument, f"must be positions in [0, {self._n_nodes - 1}], got {first}{way_out}"
        )

    def _refuse_numbered_column(self, array: np.ndarray, argument: str) -> None:
        """ValueError for numbers in a column or index of a table, which are labels, where all names
        are text: leading zeros of names are lost where a table is read without dtype=str.
        """
        if not array.size or array.dtype.kind not in "iufO" or self._kinds != {str}:
            return
        first = array.tolist()[0]
        if isinstance(first, float) and first.is_integer():
            first = int(first)
        raise checks.value_error(
            argument,
            f"must be nodes of the graph, got {short(first)} in a column or index, which holds "
            f"names; {self._hint(first, array.tolist())}. Of positions, "
            "pass an array",
        )

    def _refuse_names(self, array: np.ndarray, argument: str) -> None:
        """ValueError for integers that are both names and positions, of different nodes."""
        table, listed = self._table, array.tolist()
        named = [table.get(node, table.get(str(node))) for node in listed]
        if named == listed:
            return

        # An integer below all names can only be a position; one among them may be the name of a
        # node that was left out, such as a vertex of a mesh at the place of another.
        if None in named and (not self.has_integers or min(listed) < self._lowest):
            return

        name, position = next((int(a), b) for a, b in zip(listed, named, strict=True) if a != b)
        place = f"no node is named {name}"
        if position is not None:
            place = f"the node named {short(self._nodes[position])} is at position {position}"
        raise checks.value_error(
            argument,
            "must say whether integers are names or positions, because in this graph they can be "
            f"both: {place}, and the node at position {name} is named {short(self._nodes[name])}; "
            "graph.index(...) takes names, graph.positions(...) takes positions",
        )


def _of_coordinates(rows: Sequence[Any]) -> str:
    """The way out for rows that seem to be coordinates; empty for others."""
    cells = [cell for row in rows if isinstance(row, tuple) and len(row) in (2, 3) for cell in row]
    if len(cells) < 2 * len(rows) or not all(isinstance(cell, numbers.Real) for cell in cells):
        return ""
    if all(cell == int(cell) for cell in cells if np.isfinite(cell)):
        return ""
    return (
        "; these look like coordinates: with the coordinates xyz of all nodes, "
        "scipy.spatial.cKDTree(xyz).query(...)[1] gives the positions of the nearest nodes"
    )


class _Position(int):
    """Integer from `Graph.index`, which is known to be a position."""


class _Positions(np.ndarray):
    """Integers from `Graph.index` and `positions`, known to be positions, as are their slices."""

    def __array_wrap__(
        self, array: np.ndarray, context: Any = None, return_scalar: bool = False
    ) -> Any:
        return np.asarray(array)[()]  # of results without axes the number, also before numpy 2

    def __repr__(self) -> str:
        return repr(np.asarray(self))


def _known(nodes: Any) -> bool:
    """True if integers are known to be positions."""
    if isinstance(nodes, list | tuple):
        return all(isinstance(node, _Position) for node in nodes)
    return isinstance(nodes, _Positions | _Position)


def known_positions(positions: np.ndarray) -> np.ndarray:
    """The same array, marked as positions where names of nodes may be integers too."""
    return positions.view(_Positions)


# -- nodes in whatever holds them ------------------------------------------------------------------


def _is_one(nodes: Any) -> bool:
    """True for what holds no others: a number, text, an array without axes, or another object."""
    if isinstance(nodes, str | bytes) or getattr(nodes, "ndim", 1) == 0:
        return True
    return not (isinstance(nodes, Iterable) or hasattr(nodes, "__array__"))


def _numbers_or_names(argument: str, nodes: Any, *, tuples: bool) -> np.ndarray | list[Any]:
    """Several nodes as an array of numbers or booleans, shape (n,), or else as a list of names.

    Rows of several cells are tuples; tuples of one entry stay tuples only if `tuples`.
    """
    if isinstance(nodes, set | frozenset | dict | Iterator):
        raise checks.type_error(
            argument,
            f"must be in an order, as in a list, got a {type(nodes).__name__}; pass a list of its "
            "nodes",
        )

    if len(getattr(nodes, "columns", ())) > 1:
        if hasattr(nodes, "itertuples"):  # of pandas
            return list(nodes.itertuples(index=False, name=None))
        if hasattr(nodes, "rows"):  # of polars
            return list(nodes.rows())
    is_array = hasattr(nodes, "__array__") or hasattr(nodes, "dtype")
    if isinstance(nodes, Collection) and not is_array:
        return _of_list(argument, list(nodes), tuples)

    array = np.atleast_1d(checks.array(argument, nodes))
    if array.dtype.kind in "Mm":  # whose `tolist` may be integers
        return list(nodes)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim > 2:
        raise checks.value_error(argument, f"must have shape (n,) or (n, 1), got {array.shape}")
    if array.ndim == 2:
        return [tuple(row) for row in array.tolist()]
    return array if array.dtype.kind in "biufc" else _of_list(argument, array.tolist(), tuples)


def _of_list(argument: str, nodes: list[Any], tuples: bool) -> np.ndarray | list[Any]:
    kinds = set(map(type, nodes))
    if not kinds:
        return np.zeros(0, dtype=np.int64)
    if any(hasattr(kind, "shape") and not issubclass(kind, np.generic) for kind in kinds):
        # Tensors may have no axes, and rows may be arrays.
        nodes = [_plain(argument, node) for node in nodes]
        kinds = set(map(type, nodes))
    if all(issubclass(kind, tuple | list) for kind in kinds):
        column = all(len(row) == 1 and not isinstance(row[0], list) for row in nodes)
        if column and not (tuples and tuple in kinds):
            return _of_list(argument, [row[0] for row in nodes], tuples)
        return [tuple(row) for row in nodes]
    return _of_scalars(nodes, kinds)


def _of_scalars(nodes: list[Any], kinds: set[type]) -> np.ndarray | list[Any]:
    """Integers, booleans or real numbers as an array; anything else as it is."""
    if all(map(are_integers, kinds)):
        try:
            return np.array(nodes, dtype=np.int64)
        except OverflowError:
            return np.array(nodes, dtype=object)
    booleans = sum(issubclass(kind, bool | np.bool_) for kind in kinds)
    are_real = not booleans and all(issubclass(kind, numbers.Real) for kind in kinds)
    if booleans == len(kinds) or are_real:
        return np.array(nodes)
    return nodes


def _plain(argument: str, node: Any) -> Any:
    """A tensor or array within a list as a number or list of numbers; others as they are."""
    return checks.array(argument, node).tolist() if hasattr(node, "shape") else node


# -- names of all nodes ----------------------------------------------------------------------------


def _is_array(nodes: Any) -> bool:
    """True for arrays and data frames, whose entries are not those that iteration gives."""
    return isinstance(nodes, np.ndarray) or hasattr(nodes, "columns")


def validated_names(nodes: Iterable[Hashable] | None, n_nodes: int) -> tuple[Hashable, ...] | None:
    """Distinct names of all nodes as a tuple; None for none, and for the positions themselves."""
    if nodes is None:
        return None
    if isinstance(nodes, str | bytes) or not isinstance(nodes, Iterable):
        raise checks.type_error(
            "nodes", f"must be a sequence of {n_nodes} names, got {checks.describe(nodes)}"
        )

    held = _numbers_or_names("nodes", nodes, tuples=True) if _is_array(nodes) else nodes
    names = tuple(held.tolist() if isinstance(held, np.ndarray) else held)
    if len(names) != n_nodes:
        raise checks.value_error(
            "nodes", f"must hold {n_nodes} names, one for each row, got {len(names)}"
        )

    try:
        distinct = len(set(names))
    except TypeError as error:
        raise checks.type_error("nodes", f"must hold hashable names: {error}") from None
    if distinct != n_nodes:
        seen: set[Hashable] = set()
        repeated = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise checks.value_error(
            "nodes", f"must hold distinct names, got {repeated!r} more than once"
        )
    if all(isinstance(name, int) for name in names) and names == tuple(range(n_nodes)):
        return None
    return names
