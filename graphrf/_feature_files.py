"""Files of features: settings and arrays, written whole or not at all, and checked when they are read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from graphrf import _checks
from graphrf._record_files import read_record, whole_file, write_record

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
    path = _checks.path("path", path)
    with whole_file(path, "Features.save"):
        settings, stored = read_record(path, _FORMAT)
        arrays = {name: stored[name] for name in ARRAYS if name not in _OPTIONAL or name in stored}
        state = {name: settings[name] for name in SETTINGS} | dict.fromkeys(_OPTIONAL) | arrays
        state |= {"dtype": np.dtype(state["dtype"]), "description": dict(state["description"])}
        if not fits(state):
            raise ValueError("its arrays contradict each other")
        return state


def fits(state: Mapping[str, Any]) -> bool:
    """Whether the arrays of features fit each other, so that no loop reads beyond them."""
    nodes, indptr, indices, visit_ptr, per_entry, steps, counts, survival, degrees, work, dropped = (
        state[name] for name in ARRAYS
    )
    n, n_nodes = nodes.size, state["n_nodes"]
    return (
        state["n_walks"] >= 1
        and indptr.shape == visit_ptr.shape == (n + 1,)
        and indices.shape == per_entry.shape
        and counts.shape == (steps.size,)
        and all(
            bool((np.diff(pointer) >= 0).all()) and int(pointer[0]) == 0 and int(pointer[-1]) == size
            for pointer, size in ((indptr, indices.size), (visit_ptr, steps.size))
        )
        and _within(indices, n_nodes)
        and _within(nodes, n_nodes)
        and _within(steps, survival.size)
        and (degrees is None) == (state["laplacian"] == "combinatorial")
        and (degrees is None or degrees.shape == (n_nodes,))
        and counts.dtype == (np.uint16 if work is None else np.float32)
        and (work is None or work.shape == (n,))
        and (dropped is None or dropped.shape == (n, survival.size))
        and np.array_equal(np.concatenate([[0], np.cumsum(per_entry.astype(np.int64))])[indptr], visit_ptr)
    )


def _within(array: np.ndarray, end: int) -> bool:
    return array.ndim == 1 and (array.size == 0 or (int(array.min()) >= 0 and int(array.max()) < end))
