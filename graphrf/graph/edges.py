"""Lists of edges: their ends, names and weights checked, and merged into an adjacency matrix."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from graphrf._base import checks
from graphrf._base.memory import require_memory

# The lengths of the two directions of a street agree to
# this, which leaves room for rounding to decimetres.
SAME_LENGTH = 1e-3


class Weights(NamedTuple):
    """Arguments about weights: attribute or column (None: not given; False: unused), and kind."""

    given: str | int | None
    stated: str | None

    @property
    def name(self) -> str | int | None:
        """The attribute or column; None for none."""
        return None if self.given is False else self.given

    @property
    def kind(self) -> str:
        """Kind of the weights; similarities by default."""
        return self.stated or "similarity"

    def check(self) -> None:
        """Raise `ValueError` for distances that no attribute or column holds."""
        if self.name is None and self.kind == "distance":
            raise checks.value_error(
                "weight",
                "must name the attribute or column of the distances, got None; e.g. "
                "weight='length'",
            )


def host_array(tensor: Any) -> np.ndarray:
    """A tensor of torch as an array, without importing torch."""
    if hasattr(tensor, "detach"):
        tensor = tensor.detach().cpu()
    return np.asarray(tensor)


def positions_of_names(names: Sequence[Hashable]) -> tuple[np.ndarray, list[Hashable]]:
    """Position of every name among the distinct ones, listed in order of first appearance."""
    table: dict[Hashable, int] = {}
    positions = np.fromiter(
        (table.setdefault(name, len(table)) for name in names), dtype=np.int64, count=len(names)
    )
    return positions, list(table)


def ends_of_edges(name: str, values: Any) -> Any:
    """One end of every edge: an integer array of positions, or a list of names."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise checks.type_error(name, f"must be an array of nodes, got {checks.describe(values)}")
    values = checks.to_array_like(name, values)
    if not isinstance(values, np.ndarray) and hasattr(values, "__array__"):
        values = np.asarray(values)
    if not isinstance(values, np.ndarray):
        values = _listed(name, list(values))
        if isinstance(values, list):
            return values
    if values.ndim != 1:
        raise checks.value_error(name, f"must have shape (E,), got {values.shape}")
    if values.dtype.kind in "fbc":
        raise checks.type_error(
            name,
            f"must hold integer positions or names, got dtype {values.dtype}; "
            "convert whole numbers below 2^53 with .astype(int)",
        )
    if values.dtype == np.uint64 and values.max(initial=0) < 2**63:
        return values.astype(np.int64)  # numpy makes floats of both together
    return values if values.dtype.kind in "iu" else values.tolist()


def _listed(name: str, values: list[Any]) -> Any:
    """Listed integers as an array that holds them, other names as they are; no floats."""
    odd = [value for value in values if isinstance(value, bool | np.bool_ | float | np.floating)]
    if odd:
        raise checks.type_error(
            name, f"must hold integer positions or names, got {checks.describe(odd[0])}"
        )
    if not all(isinstance(value, int | np.integer) for value in values):
        return values
    return np.array(values, dtype=np.uint64 if max(values, default=0) >= 2**63 else np.int64)


def refuse_values(ends: Sequence[Any], titles: Sequence[str]) -> None:
    """ValueError for nodes' values in the place of edges: text at one end, integers opposite."""
    kinds = [_kind_of(end) for end in ends]
    if sorted(kinds) != ["numbers", "text"]:
        return
    text, numbers = titles[kinds.index("text")], titles[kinds.index("numbers")]
    raise checks.value_error(
        "source",
        f"must hold the two ends of every edge, got text in {text} and numbers in {numbers}, which "
        "name no node in common, as values of nodes do: pass the edges or the adjacency matrix, or "
        "columns=(0, 1) if these are ends",
    )


def _kind_of(end: Any) -> str:
    """The kind of the nodes at one end of edges: numbers, text, or other."""
    kinds = {end.dtype.type} if isinstance(end, np.ndarray) else set(map(type, end))
    for name, kind in (("numbers", int | np.integer), ("text", str)):
        if kinds and all(issubclass(own, kind) and own is not bool for own in kinds):
            return name
    return "other"


def checked_positions(name: str, ends: np.ndarray, n_nodes: int | None) -> np.ndarray:
    """`ends`, once known to be positions in a graph of `n_nodes` (of any size, if None)."""
    if ends.size and (ends.min() < 0 or (n_nodes is not None and ends.max() >= n_nodes)):
        bad = (ends < 0) | (ends >= n_nodes) if n_nodes is not None else ends < 0
        edge = int(np.flatnonzero(bad)[0])
        wanted = "at least 0" if n_nodes is None else f"in [0, {n_nodes - 1}]"
        raise checks.value_error(
            name, f"must hold positions {wanted}, got {int(ends[edge])} at edge {edge}"
        )
    if ends.size and int(ends.max()) >= 2**32 - 1:
        raise checks.value_error(
            name,
            f"must hold positions below 2^32 - 1, got {int(ends.max())}; "
            "identifiers can be passed as names, as strings",
        )
    return ends


def positions_of_ends(
    ends: list[list[Hashable]], names: list[Hashable] | None
) -> tuple[list[np.ndarray], list[Hashable]]:
    """Positions of names; without a list of them, distinct ones in order of appearance."""
    flat: list[Hashable] = [None] * (2 * len(ends[0]))
    flat[0::2], flat[1::2] = ends
    try:
        if names is None:
            positions, names = positions_of_names(flat)
        else:
            table = {name: position for position, name in enumerate(names)}
            positions = np.fromiter((table[name] for name in flat), dtype=np.int64, count=len(flat))
    except TypeError as error:
        raise checks.type_error(
            "src", f"and `dst` must hold integers or hashable names: {error}"
        ) from None
    except KeyError as error:
        edge, end = divmod(flat.index(error.args[0]), 2)
        raise ValueError(
            f"`{('src', 'dst')[end]}` must hold names from `nodes`, got {error.args[0]!r} at edge "
            f"{edge}"
        ) from None
    return [positions[0::2], positions[1::2]], names


def checked_weights(
    weight: Any, n_edges: int, weight_is: str, place: Callable[[int], str]
) -> np.ndarray:
    """Weights as checked float64; `place` says where an edge stands, for the message."""
    values = checks.array("weight", weight)
    if values.dtype.kind not in "biuf":
        raise checks.type_error("weight", f"must hold numbers, got {checks.describe(values)}")
    if values.shape != (n_edges,):
        raise checks.value_error(
            "weight", f"must have shape ({n_edges},), one for each edge, got {values.shape}"
        )

    values = values.astype(np.float64)
    allowed = values > 0 if weight_is == "distance" else values >= 0
    bad = ~(allowed & np.isfinite(values))
    if bad.any():
        edge = int(np.flatnonzero(bad)[0])
        if weight_is == "distance":
            wanted = "finite distances above 0"
        else:
            wanted = "finite similarities of at least 0"
        raise ValueError(
            f"{place(edge)}: weights must be {wanted}; got {values[edge]:g} ({int(bad.sum())} such "
            "edges); drop or correct them first"
        )

    return values


def _first_directions(
    n_nodes: int, src: np.ndarray, dst: np.ndarray, weight: np.ndarray, loops_twice: bool
) -> np.ndarray | slice:
    """The edges without the second of two equal loops, where loops are listed twice."""
    loops = np.flatnonzero(src == dst)
    loops = loops[np.lexsort((weight[loops], src[loops]))]
    node, value = src[loops], weight[loops]
    near = (node[1:] == node[:-1]) & (value[1:] - value[:-1] <= SAME_LENGTH * value[1:])
    place = np.arange(loops.size)
    begins = np.where(np.r_[False, near][: loops.size], 0, place)
    second = loops[(place - np.maximum.accumulate(begins)) % 2 == 1]  # of a run of equal ones
    if not second.size:
        return slice(None)
    apart = src != dst
    one, two = src[apart].astype(np.int64), dst[apart].astype(np.int64)
    if not (loops_twice or np.isin(one * n_nodes + two, two * n_nodes + one).any()):
        return slice(None)
    return np.delete(np.arange(src.size), second)


def _mean(values: np.ndarray) -> float:
    """The mean, also of values whose sum overflows."""
    mean = float(values.mean())
    return mean if np.isfinite(mean) else float((values / values.size).sum())


def _inverses(distances: np.ndarray) -> np.ndarray:
    """Inverse distances, once they are finite."""
    with np.errstate(over="ignore"):
        values = 1.0 / distances
    if not np.isfinite(values).all():
        raise checks.value_error(
            "weight",
            f"must be distances with finite inverses, got {distances.min():g}; use a smaller unit",
        )
    return np.asarray(values)


def merged_adjacency(
    n_nodes: int,
    src: np.ndarray,
    dst: np.ndarray,
    weight: np.ndarray | None,
    weight_is: str,
    directed: bool,
    loops_twice: bool | None = None,
) -> sp.csr_array:
    """The adjacency matrix of a list of edges, by the rules in the notes of `load_graph`.

    `loops_twice` says whether loops are listed once in each direction; by default they are if some
    edges are.
    """
    if weight is not None and not directed and loops_twice is not False:
        first = _first_directions(n_nodes, src, dst, weight, bool(loops_twice))
        src, dst, weight = src[first], dst[first], weight[first]

    require_memory(
        32.0 * n_nodes + 24.0 * len(src),
        f"a graph of {n_nodes} nodes",
        "all nodes up to the largest position count: pass identifiers as strings, or lower "
        "`n_nodes`",
    )
    if n_nodes < 2**31 and len(src) < 2**31:
        src, dst = src.astype(np.int32, copy=False), dst.astype(np.int32, copy=False)

    values = np.ones(len(src)) if weight is None else weight
    if weight_is == "distance" and weight is not None:
        values = _inverses(weight)
    adjacency = sp.csr_array((values, (src, dst)), shape=(n_nodes, n_nodes))
    if weight is None:
        adjacency.data[:] = 1.0

    if weight is not None and weight_is == "distance" and len(src):
        kept = weight
        if not directed:
            there, back = adjacency[src, dst], adjacency[dst, src]
            kept = weight[np.asarray((there > back) | ((there == back) & (src <= dst))).ravel()]
        with np.errstate(over="ignore"):  # what is infinite is refused by Graph
            adjacency.data *= _mean(kept)

    return adjacency if directed else sp.csr_array(adjacency.maximum(adjacency.T))
