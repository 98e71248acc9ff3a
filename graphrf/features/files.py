"""Files of features: settings and arrays, written whole or not at all, and checked when they are read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from graphrf._base import checks
from graphrf._base.files.arrays import read_record, whole_file, write_record
from graphrf._base.files.json_text import is_integer, is_number
from graphrf.features.rows import row_blocks

_FORMAT = "graphrf features 1"
# The arrays of the record itself; of powers, the multiply-adds of each row and the norms of what was cut from it.
RECORD = ("indptr", "indices", "visit_ptr", "visits_per_entry", "steps", "counts")
OF_POWERS = ("work", "dropped")
ARRAYS = ("nodes", *RECORD, "survival", "degrees", *OF_POWERS)
SETTINGS = ("n_nodes", "n_walks", "laplacian", "scale", "complete", "seed", "dtype", "description")
_OPTIONAL = ("degrees", *OF_POWERS)


def write_features(path: str | os.PathLike[str], state: Mapping[str, Any]) -> None:
    """Write what `Features` is made of, `ARRAYS` and `SETTINGS`."""
    settings = {name: state[name] for name in SETTINGS} | {"dtype": state["dtype"].name}
    arrays = {name: state[name] for name in ARRAYS if state[name] is not None}
    write_record(path, {"format": _FORMAT, **settings}, arrays)


def read_features(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What `Features` is made of, from a file; FileNotFoundError or ValueError unless it is there and whole."""
    path = checks.path("path", path)
    with whole_file(path, "Features.save"):
        settings, stored = read_record(path, _FORMAT)
        if set(settings) != {"format", *SETTINGS} or set(stored) - set(ARRAYS):
            raise ValueError("it holds other things than features have")
        arrays = {name: stored[name] for name in ARRAYS if name not in _OPTIONAL or name in stored}
        state = {name: settings[name] for name in SETTINGS} | dict.fromkeys(_OPTIONAL) | arrays
        state |= {"dtype": np.dtype(checks.choice("dtype", state["dtype"], ("float32", "float64")))}
        if not fits(state):
            raise ValueError("its arrays contradict each other")
        return state


def fits(state: Mapping[str, Any]) -> bool:
    """Whether settings and arrays are those of features: of the right types, and such that no loop strays.

    One pass over the arrays, with about a million entries' worth of memory beside them.
    """
    arrays = {name: state[name] for name in ARRAYS}
    return _are_settings(state) and _are_shaped(state, arrays) and _are_values(state, arrays)


def _are_settings(state: Mapping[str, Any]) -> bool:
    return (
        is_integer(state["n_nodes"], low=1, high=2**32 - 1)
        and is_integer(state["n_walks"], low=1, high=65_535 if state["work"] is None else 1)
        and is_integer(state["seed"], low=0, high=2**63 - 1)
        and is_number(state["scale"], low=np.nextafter(0.0, 1.0), high=np.finfo(np.float64).max)
        and isinstance(state["complete"], bool)
        and isinstance(state["description"], dict)
        and state["dtype"] in (np.dtype(np.float32), np.dtype(np.float64))
        and (state["laplacian"] == "combinatorial" or (state["laplacian"] == "normalized" and state["scale"] == 1))
    )


def _are_shaped(state: Mapping[str, Any], arrays: Mapping[str, Any]) -> bool:
    """Whether arrays are there that must be, with the types that loops are compiled for, and fitting lengths."""
    nodes, indptr, indices, visit_ptr, per_entry, steps, counts, survival, degrees, work, dropped = arrays.values()
    kinds = {
        "nodes": "i8",
        "visits_per_entry": "u2",
        "steps": "u2",
        "survival": "f8",
        "degrees": "f8",
        "work": "i8",
    }
    kinds |= {"counts": "u2" if work is None else "f4", "dropped": "f4"}
    if not all(
        array is None or (array.dtype == kinds.get(name, array.dtype) and array.flags.c_contiguous)
        for name, array in arrays.items()
    ):
        return False
    n, n_nodes = nodes.size, state["n_nodes"]
    narrow = indptr.dtype == np.int32 and max(n_nodes - 1, indices.size) < 2**31
    return (
        nodes.shape == (n,)
        and (narrow or indptr.dtype == np.int64)
        and indices.dtype == indptr.dtype
        and visit_ptr.dtype in (np.int32, np.int64)
        and indptr.shape == visit_ptr.shape == (n + 1,)
        and indices.shape == per_entry.shape == (indices.size,)
        and counts.shape == steps.shape == (steps.size,)
        and survival.shape == (survival.size,)
        and 1 <= survival.size <= 65_535
        and (degrees is None) == (state["laplacian"] == "combinatorial")
        and (degrees is None or degrees.shape == (n_nodes,))
        and (work is None or work.shape == (n,))
        and (dropped is None or (work is not None and dropped.shape == (n, survival.size)))
    )


def _are_values(state: Mapping[str, Any], arrays: Mapping[str, Any]) -> bool:
    """Whether arrays that fit each other hold what they may; rows are looked at in blocks, to save memory."""
    nodes, indptr, indices, visit_ptr, per_entry, steps, counts, survival, degrees, work, dropped = arrays.values()
    n_nodes, n_walks, length = state["n_nodes"], state["n_walks"], survival.size
    if not (
        _within(nodes, n_nodes)
        and _are_pointers(indptr, indices.size)
        and _are_pointers(visit_ptr, steps.size)
        and survival[0] == 1
        and bool((np.diff(survival) <= 0).all() and survival[-1] >= 2.0**-53)
        and (degrees is None or _above(degrees, np.nextafter(0.0, 1.0)))
        and (work is None or (_within(work, 2**62 // max(nodes.size, 1)) and survival[-1] == 1))
        and (dropped is None or _above(dropped, 0.0))
    ):
        return False
    for first, last in row_blocks(indptr):
        entries, visits = (slice(int(ends[first]), int(ends[last])) for ends in (indptr, visit_ptr))
        columns, sizes = indices[entries], per_entry[entries]
        # Where each entry's visits end; rows and entries must agree on how many there are.
        ends = visits.start + np.cumsum(sizes, dtype=np.int64)
        borders = indptr[first : last + 1] - indptr[first]
        if not np.array_equal(np.concatenate([[visits.start], ends])[borders], visit_ptr[first : last + 1]):
            return False
        begins = np.zeros(columns.size + 1, dtype=bool)
        begins[borders] = True
        if not (_within(columns, n_nodes) and bool((begins[1:-1] | (np.diff(columns) > 0)).all())):
            return False
        walked, found = steps[visits], counts[visits]
        begins = np.zeros(walked.size + 1, dtype=bool)
        begins[ends - visits.start] = True
        if not (_within(walked, length) and bool((begins[1:-1] | (walked[1:] > walked[:-1])).all())):
            return False
        # Every walk begins somewhere, and stands somewhere at every step; powers are finite and not negative.
        if work is not None:
            if not _above(found, 0.0):
                return False
        elif int(found.max(initial=0)) > n_walks or int(found[walked == 0].sum(dtype=np.int64)) != n_walks * (
            last - first
        ):
            return False
    return True


def _are_pointers(pointer: np.ndarray, size: int) -> bool:
    return int(pointer[0]) == 0 and int(pointer[-1]) == size and bool((pointer[1:] >= pointer[:-1]).all())


def _within(array: np.ndarray, end: int) -> bool:
    return array.size == 0 or (int(array.min()) >= 0 and int(array.max()) < end)


def _above(array: np.ndarray, low: float) -> bool:
    """Whether all numbers are finite, and at least `low`."""
    return array.size == 0 or (float(array.min()) >= low and float(array.max()) < np.inf)
