"""Nodes by name and by position: what every `nodes=` argument goes through."""

from __future__ import annotations

import numbers
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from graphrf._base import checks
from graphrf._base.cached import cached_property

# Names like an unknown one are looked for among at most so many, which takes up to half a second, and not if it is
# longer.
_MOST_COMPARED = 10_000
_LONGEST_COMPARED = 60
# Float node ids are exact only below 2**24 (float32's mantissa), so larger ones are refused.
_LARGEST_FLOAT_ID = 2**24


class NodeNames:
    """The names of N nodes, by which their positions are found; None stands for the positions themselves."""

    def __init__(self, names: tuple[Hashable, ...] | None, n_nodes: int) -> None:
        self._named = names is not None
        self._nodes: Sequence[Hashable] = range(n_nodes) if names is None else names
        self._n_nodes = n_nodes

    @cached_property
    def has_integers(self) -> bool:
        """True if some name is an integer; on first access it checks every name."""
        return self._named and any(_are_integers(kind) for kind in set(map(type, self._nodes)))

    @cached_property
    def _lowest(self) -> int:
        """The smallest name that is an integer, of graphs that have one."""
        return min(int(name) for name in self._nodes if is_integer(name))  # type: ignore[call-overload]

    @cached_property
    def _table(self) -> dict[Hashable, int]:
        return {name: position for position, name in enumerate(self._nodes)}

    def index(self, names: Hashable | Iterable[Hashable]) -> Any:
        """See `Graph.index`."""
        single = isinstance(names, str | bytes | tuple) or not isinstance(names, Iterable)
        found = self._found([names] if single else list(names), "names")  # type: ignore[arg-type]
        return _Position(found[0]) if single else self.known(found)

    def known(self, positions: np.ndarray) -> np.ndarray:
        """The same array, which `positions` takes as positions though it may hold names too."""
        return positions.view(_Positions) if self.has_integers else positions

    def _found(self, names: Sequence[Any], argument: str) -> np.ndarray:
        """Positions of `names`, shape (n,), int64."""
        table = self._table
        try:
            return np.fromiter((table[name] for name in names), dtype=np.int64, count=len(names))
        except KeyError as error:
            raise checks.value_error(
                argument, f"must be nodes of the graph, got {error.args[0]!r}; {self._hint(error.args[0])}"
            ) from None
        except TypeError as error:
            raise checks.type_error(argument, f"must be hashable names of nodes: {error}") from None

    def _hint(self, unknown: Hashable) -> str:
        """Names like the unknown one, or the first names of the graph."""
        if isinstance(unknown, str) and len(unknown) <= _LONGEST_COMPARED and self._n_nodes <= _MOST_COMPARED:
            words = [name for name in self._nodes if isinstance(name, str)]
            if like := checks.did_you_mean(unknown, words):
                return like
        return f"names here look like {', '.join(repr(name) for name in self._nodes[:3])}"

    def positions(self, nodes: Any, argument: str, *, said: bool) -> np.ndarray:
        """See `Graph.positions`; integers that could be names too are refused, unless `said` to be positions."""
        if nodes is None:
            return np.arange(self._n_nodes, dtype=np.int64)
        if isinstance(nodes, str):
            return self._found([nodes], argument)
        if isinstance(nodes, Sequence) and len(nodes) and all(isinstance(node, str) for node in nodes):
            return self._found(nodes, argument)
        array = checks.array(argument, nodes)
        if array.ndim == 0:
            array = array[None]
        if array.ndim == 2 and array.shape[1] == 1:
            array = array[:, 0]
        if array.ndim != 1:
            raise checks.value_error(argument, f"must have shape (n,) or (n, 1), got {array.shape}")
        if array.size == 0:
            return np.zeros(0, dtype=np.int64)
        if array.dtype.kind in "UO" and all(isinstance(node, str) for node in array):
            return self._found(array.tolist(), argument)
        if array.dtype.kind == "f":
            with np.errstate(invalid="ignore", over="ignore"):
                good = (array == np.floor(array)) & (np.abs(array) < _LARGEST_FLOAT_ID)
            if not good.all():
                raise checks.type_error(
                    argument,
                    f"must be integer positions or string names, got the float "
                    f"{array[~good][0]} (integral floats are accepted below 2^24)",
                )
        elif array.dtype.kind not in "iu":
            raise checks.type_error(
                argument,
                f"must be integer positions or string names, got {checks.describe(array)}; "
                f"{_other_nodes(array)}use graph.index(...) for other names, np.flatnonzero(mask) for a mask",
            )
        bad = (array < 0) | (array >= self._n_nodes)
        if bad.any():
            way_out = "; graph.index(...) turns names of nodes into positions" if self._named else ""
            raise checks.value_error(
                argument, f"must be positions in [0, {self._n_nodes - 1}], got {int(array[bad][0])}{way_out}"
            )
        if not said and not _known(nodes) and self.has_integers:
            self._refuse_names(array, argument)
        return array.astype(np.int64)

    def _refuse_names(self, array: np.ndarray, argument: str) -> None:
        """ValueError for integers that are names as well as positions, and as names stand for other nodes."""
        listed = array.tolist()
        named = [self._table.get(position) for position in listed]
        # An integer below all names can only be a position; one among them may be the name of a node that was left
        # out, such as a vertex of a mesh at the place of another.
        if named == listed or min(listed) < self._lowest:
            return
        name, position = next((int(a), b) for a, b in zip(listed, named, strict=True) if a != b)
        place = f"no node is named {name}"
        if position is not None:
            place = f"the node named {name} is at position {position}"
        raise checks.value_error(
            argument,
            "must say whether integers are names or positions, because in this graph they can be both: "
            f"{place}, and the node at position {name} is named {self._nodes[name]!r}; graph.index(...) takes "
            "names, graph.positions(...) takes positions",
        )


class _Position(int):
    """Integer from `Graph.index`, which is known to be a position."""


class _Positions(np.ndarray):
    """Integers from `Graph.index` and `Graph.positions`, which are known to be positions, like their slices.

    Results of arithmetic are plain arrays again.
    """

    def __array_wrap__(self, array: np.ndarray, context: Any = None, return_scalar: bool = False) -> Any:
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


def is_integer(node: Any) -> bool:
    """True if a node's name is an integer."""
    return _are_integers(type(node))


def _are_integers(kind: type) -> bool:
    return issubclass(kind, numbers.Integral) and kind is not bool


def _other_nodes(array: np.ndarray) -> str:
    """The first entry of an array of objects that is no string, or what to do with integers among them."""
    if array.dtype.kind != "O":
        return ""
    position, entry = next((i, node) for i, node in enumerate(array) if not isinstance(node, str))
    if isinstance(entry, int | np.integer):
        return "pass integers as an array of dtype int; "
    return f"entry {position} is {checks.describe(entry)}; "


def validated_names(nodes: Iterable[Hashable] | None, n_nodes: int) -> tuple[Hashable, ...] | None:
    """Distinct names of all nodes as a tuple; None for none, and for the positions themselves."""
    if nodes is None:
        return None
    if isinstance(nodes, str | bytes) or not isinstance(nodes, Iterable):
        raise checks.type_error("nodes", f"must be a sequence of {n_nodes} names, got {checks.describe(nodes)}")
    names = tuple(nodes.tolist() if isinstance(nodes, np.ndarray) else nodes)
    if len(names) != n_nodes:
        raise checks.value_error("nodes", f"must hold {n_nodes} names, one for each row, got {len(names)}")
    try:
        distinct = len(set(names))
    except TypeError as error:
        raise checks.type_error("nodes", f"must hold hashable names: {error}") from None
    if distinct != n_nodes:
        seen: set[Hashable] = set()
        repeated = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise checks.value_error("nodes", f"must hold distinct names, got {repeated!r} more than once")
    if all(isinstance(name, int) for name in names) and names == tuple(range(n_nodes)):
        return None
    return names
